//! The effective configuration as a file of ours, with the place that says each value.
//!
//! What may be a secret is not in it: of the values of `env` and `headers` it has the references alone, and everywhere else what
//! was written, not what that was filled in with. So but for those it can be read again, and says the same.

mod page;
mod profiles;
mod servers;

use std::time::Duration;

use self::page::{Page, on_or_off, quoted};
use super::layer::{CallTimeouts, DaemonLayer, DefaultsLayer, NamingLayer, SettingsLayer};
use super::load::{Layers, Loaded};
use super::settings::{EraChoice, OnUnhealthy, Replace, Settings, Sharing, Start};
use super::{DaemonConfig, size};
use crate::naming::{Naming, Scheme};

/// The configuration that holds, as TOML: each value with the line that says it, or `default`.
#[must_use]
pub fn show(loaded: &Loaded) -> String {
    let Layers { daemon, defaults, servers, profiles, .. } = &loaded.layers;
    let mut page = Page::default();
    show_daemon(daemon, &mut page);
    show_defaults(defaults, &mut page);
    servers.iter().for_each(|server| servers::show(server, &mut page));
    profiles.all.iter().for_each(|profile| profiles::show(profile, &mut page));
    page.finish()
}

fn show_daemon(layer: &DaemonLayer, page: &mut Page) {
    let unset = DaemonConfig::default();
    page.table("daemon", None);
    show_naming(&layer.naming, Some(&unset.naming), page);
    page.value("max_message", layer.max_message.as_ref(), Some(&unset.max_message_bytes), spelt_size);
    page.value("line_timeout", layer.line_timeout.as_ref(), Some(&unset.line_timeout), spelt_duration);
    page.value("first_list_wait", layer.first_list_wait.as_ref(), Some(&unset.first_list_wait), spelt_duration);
    page.value("max_starting", layer.max_starting.as_ref(), Some(&unset.max_starting), usize::to_string);
    page.value("call_history", layer.call_history.as_ref(), Some(&unset.calls.history), usize::to_string);
    page.value("call_log", layer.call_log.as_ref(), None, |path| quoted(&path.to_string_lossy()));
    page.value("call_log_max", layer.call_log_max.as_ref(), Some(&unset.calls.max_file), spelt_size);
    page.value("watch", layer.watch.as_ref(), Some(&unset.watch), bool::to_string);
}

fn show_naming(layer: &NamingLayer, unset: Option<&Naming>, page: &mut Page) {
    page.value("naming", layer.scheme.as_ref(), unset.map(|unset| &unset.scheme), |scheme| {
        one_of(&Scheme::ALL, *scheme)
    });
    page.value("max_name_length", layer.max_length.as_ref(), unset.map(|unset| &unset.max_length), usize::to_string);
}

fn show_defaults(layer: &DefaultsLayer, page: &mut Page) {
    page.table("defaults", None);
    show_settings(&layer.settings, Some(&Settings::default()), page);
    page.list("pass_env", layer.pass_env.iter(), |name| quoted(name));
    let denied = layer.exposures.iter().flat_map(|exposure| &exposure.patterns[crate::kind::Kind::Tools].deny);
    page.list("deny", denied, |pattern| quoted(pattern.glob()));
}

/// With `unset` in the place of what is not said, or nothing.
fn show_settings(layer: &SettingsLayer, unset: Option<&Settings>, page: &mut Page) {
    page.value("sharing", layer.sharing.as_ref(), unset.map(|unset| &unset.sharing), |it| one_of(&Sharing::ALL, *it));
    page.value("start", layer.start.as_ref(), unset.map(|unset| &unset.start), |it| one_of(&Start::ALL, *it));
    page.value("era", layer.era.as_ref(), unset.map(|unset| &unset.era), |it| one_of(&EraChoice::ALL, *it));
    page.value("broadcast_logs", layer.broadcast_logs.as_ref(), unset.map(|unset| &unset.broadcast_logs), on_or_off);
    page.value("max_instances", layer.max_instances.as_ref(), unset.map(|unset| &unset.max_instances), |n| {
        n.to_string()
    });
    page.value("max_concurrent", layer.max_concurrent.as_ref(), None, usize::to_string);
    let mut duration = |key, said, unset| page.value(key, said, unset, spelt_duration);
    duration("idle_timeout", layer.idle_timeout.as_ref(), unset.map(|unset| &unset.idle_timeout));
    duration("handshake_timeout", layer.handshake_timeout.as_ref(), unset.map(|unset| &unset.handshake_timeout));
    let CallTimeouts { call_timeout, call_timeout_max, tool_timeouts } = &layer.calls;
    duration("call_timeout", call_timeout.as_ref(), unset.map(|unset| &unset.call_timeout));
    duration("call_timeout_max", call_timeout_max.as_ref(), None);
    duration("health_interval", layer.health_interval.as_ref(), unset.map(|unset| &unset.health_interval));
    duration("health_timeout", layer.health_timeout.as_ref(), unset.map(|unset| &unset.health_timeout));
    duration("backoff_reset", layer.backoff_reset.as_ref(), unset.map(|unset| &unset.backoff_reset));
    page.value("on_unhealthy", layer.on_unhealthy.as_ref(), unset.map(|unset| &unset.on_unhealthy), |it| {
        one_of(&OnUnhealthy::ALL, *it)
    });
    page.value("replace", layer.replace.as_ref(), unset.map(|unset| &unset.replace), |it| one_of(&Replace::ALL, *it));
    page.value("memory_max", layer.memory_max.as_ref(), None, spelt_size);
    page.value("tasks_max", layer.tasks_max.as_ref(), None, usize::to_string);
    if let (None, Some(unset)) = (call_timeout_max, unset) {
        // It would give way no more if it were written.
        let longest = spelt_duration(&unset.call_timeout_max);
        page.comment(&format!("call_timeout_max = {longest} # default, or as long as the longest of the other two"));
    }
    page.members(
        "tool_timeouts",
        tool_timeouts.iter().map(|timeout| (timeout.value.0.glob(), timeout)),
        |(_, timeout)| spelt_duration(timeout),
    );
}

fn spelt_size(bytes: &usize) -> String {
    quoted(&size::text(*bytes as u64))
}

fn spelt_duration(duration: &Duration) -> String {
    quoted(&crate::duration::format(*duration))
}

/// The text that selects `choice`.
fn one_of<T: PartialEq>(choices: &[(&str, T)], choice: T) -> String {
    quoted(choices.iter().find(|(_, known)| *known == choice).map_or("", |(text, _)| text))
}
