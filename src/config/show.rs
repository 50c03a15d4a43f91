//! Prints the effective configuration as mcpd's TOML, with the location of each value.
//!
//! It contains no secrets: values of `env` and `headers` are reduced to their references, and all other values are printed as written,
//! without expansion. Apart from these reductions, the output can be read again with the same result.

mod page;
mod profiles;
mod servers;

use self::page::Page;
use super::daemon::{DaemonConfig, NAMING_KEYS};
use super::edit::toml_string;
use super::keys::{Key, KeyLayer, KeyValue, duration_text};
use super::layer::DefaultsLayer;
use super::load::{Layers, LoadedConfig};
use super::settings::Settings;
use super::spanned::Spanned;

/// The effective configuration as TOML: each value with its location, or `default`.
#[must_use]
pub fn show(loaded: &LoadedConfig) -> String {
    let Layers { daemon, defaults, servers, profiles, .. } = &loaded.layers;
    let mut page = Page::default();
    page.table("daemon", None);
    show_keys(NAMING_KEYS.iter(), daemon, true, &mut page);
    show_keys(DaemonConfig::KEYS.iter(), daemon, true, &mut page);
    show_defaults(defaults, &mut page);
    servers.iter().for_each(|server| servers::show(server, &mut page));
    profiles.all.iter().for_each(|profile| profiles::show(profile, &mut page));
    page.finish()
}

fn show_defaults(layer: &DefaultsLayer, page: &mut Page) {
    page.table("defaults", None);
    let keys = Settings::KEYS.iter().filter(|key| !key.rule.is_server_only);
    show_keys(keys, &layer.settings, true, page);
    page.list("pass_env", layer.pass_env.iter(), |name| toml_string(name));
    let denied = layer.exposures.iter().flat_map(|exposure| &exposure.patterns[crate::list_kind::ListKind::Tools].deny);
    page.list("deny", denied, |pattern| toml_string(pattern.glob()));
}

/// The keys that `layer` sets, and with `with_defaults` all others with their defaults.
fn show_keys<'k, T: Default + 'static>(
    keys: impl Iterator<Item = &'k Key<T>>,
    layer: &KeyLayer,
    with_defaults: bool,
    page: &mut Page,
) {
    for key in keys {
        match layer.get(key.name) {
            Some(Spanned { value: KeyValue::ToolTimeouts(timeouts), .. }) => page.members(
                key.name,
                timeouts.iter().map(|timeout| (timeout.value.0.glob(), timeout)),
                |(_, timeout)| duration_text(*timeout),
            ),
            Some(value) => page.value(key.name, Some(value), |value| key.serialize(value)),
            None if with_defaults => show_default(key, page),
            None => {}
        }
    }
}

fn show_default<T: Default>(key: &Key<T>, page: &mut Page) {
    let Some(value) = key.default().filter(|value| !matches!(value, KeyValue::ToolTimeouts(_))) else { return };
    let text = key.serialize(&value);
    match key.rule.derived_from {
        // The key is printed as a comment: if it were set, it would no longer follow the other keys.
        Some(keys) => page.comment(&format!("{} = {text} # default, or a longer {keys}", key.name)),
        None => page.default_value(key.name, &text),
    }
}
