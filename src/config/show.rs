//! Prints the effective configuration as mcpd's TOML, with the location of each value.
//!
//! It contains no secrets: values of `env` and `headers` are reduced to their references, and all other values are printed as written,
//! without expansion. Apart from these reductions, the output can be read again with the same result.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::Quotas;
use super::daemon::{DaemonConfig, NAMING_KEYS};
use super::diagnostic::{Location, Spanned};
use super::interpolate::Template;
use super::keys::{Key, KeyLayer, KeyValue, duration_text};
use super::layer::{
    DefaultsLayer, Exposure, LaunchTemplate, OAuthTableTemplate, OAuthTemplate, Patterns, ProfileLayer,
    ProgramTemplate, RemoteTemplate, ServerLayer, ServerRules, ToolOverridesLayer,
};
use super::load::{Layers, LoadedConfig};
use super::profile::ExposeList;
use super::read::EXPOSED;
use super::secret::in_arguments;
use super::serialize::{toml_key, toml_string};
use super::settings::Settings;
use super::value_types::Choice;
use crate::extensions;
use crate::list_kind::ListKind;

/// The effective configuration as TOML: each value with its location, or `default`.
#[must_use]
pub fn show(loaded: &LoadedConfig) -> String {
    let Layers { daemon, defaults, servers, profiles, .. } = &loaded.layers;
    let mut page = Page::default();
    page.table("daemon", None);
    show_keys(NAMING_KEYS.iter(), daemon, true, &mut page);
    show_keys(DaemonConfig::KEYS.iter(), daemon, true, &mut page);
    show_defaults(defaults, &mut page);
    servers.iter().for_each(|server| show_server(server, &mut page));
    profiles.all.iter().for_each(|profile| show_profile(profile, &mut page));
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

fn show_profile(profile: &ProfileLayer, page: &mut Page) {
    let ProfileLayer { name, servers, rules: _, expose, read_only, naming, allow_uids, workspace_roots, .. } = profile;
    let ProfileLayer { directories, quotas, http, http_origins, .. } = profile;
    page.table(&format!("profiles.{}", name.value), Some(&name.location));
    page.value("servers", servers.as_ref(), |servers| {
        list_text(servers.iter().map(|server| toml_string(&server.value)))
    });
    show_rules(profile, ListKind::Tools, page);
    page.value("expose", expose.as_ref(), exposed_text);
    show_keys(NAMING_KEYS.iter(), naming, false, page);
    page.value("allow_uids", allow_uids.as_ref(), |uids: &BTreeSet<u32>| list_text(uids.iter().map(u32::to_string)));
    page.value("workspace_roots", workspace_roots.as_ref(), |roots: &Vec<PathBuf>| {
        list_text(roots.iter().map(|root| toml_string(&root.to_string_lossy())))
    });
    page.value("directories", directories.as_ref(), |directories| {
        list_text(directories.iter().map(|directory| toml_string(&directory.value.to_string_lossy())))
    });
    show_keys(Quotas::KEYS.iter(), quotas, false, page);
    page.value("http", http.as_ref(), |address: &SocketAddr| toml_string(&address.to_string()));
    page.value("http_origins", http_origins.as_ref(), |origins: &Vec<String>| {
        list_text(origins.iter().map(|origin| toml_string(origin)))
    });
    page.inner("tools", |page| page.value("read_only", read_only.as_ref(), bool::to_string));
    for (key, kind) in [("prompts", ListKind::Prompts), ("resources", ListKind::Resources)] {
        page.inner(key, |page| show_rules(profile, kind, page));
    }
}

fn show_rules(profile: &ProfileLayer, kind: ListKind, page: &mut Page) {
    let rules = &profile.rules[kind];
    for (key, patterns) in [("allow", &rules.allow), ("deny", &rules.deny)] {
        page.value(key, patterns.as_ref(), |patterns| {
            list_text(patterns.iter().map(|pattern| toml_string(&pattern.value.source())))
        });
    }
}

fn list_text(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn show_server(server: &ServerLayer, page: &mut Page) {
    let ServerLayer { name, launch, rules } = server;
    page.table(&format!("servers.{}", name.value), Some(&name.location));
    match launch {
        LaunchTemplate::Program(program) => show_program(program, page),
        LaunchTemplate::Remote(remote) => show_remote(remote, page),
        LaunchTemplate::Served(program, remote) => {
            show_program(program, page);
            show_remote(remote, page);
        }
        LaunchTemplate::Impossible(reason) => page.comment(&format!("It cannot be run: {reason}")),
    }
    let ServerRules { exposures, settings, tools } = rules;
    show_exposures(exposures, page);
    show_keys(Settings::KEYS.iter(), settings, false, page);
    show_tools(tools, page);
}

fn show_tools(tools: &ToolOverridesLayer, page: &mut Page) {
    for table in &tools.0 {
        page.inner(&format!("tool.{}", toml_key(&table.tool.value)), |page| {
            page.value("name", table.name.as_ref(), |name| toml_string(name));
            page.value("description", table.description.as_ref(), |text| toml_string(text));
            page.value("arguments", table.arguments.as_ref(), |arguments| {
                let members: Vec<_> =
                    arguments.iter().map(|one| format!("{} = {}", toml_key(&one.name), one.shown)).collect();
                format!("{{ {} }}", members.join(", "))
            });
            page.value("hide_arguments", table.hide_arguments.as_ref(), |hidden| {
                list_text(hidden.iter().map(|name| toml_string(&name.value)))
            });
        });
    }
}

fn show_program(program: &ProgramTemplate, page: &mut Page) {
    let ProgramTemplate { command, args, env, pass_env, cwd, roots } = program;
    page.value("command", Some(command), template_text);
    show_list("args", &args_without_secrets(args), |text| toml_string(text), page);
    show_list("pass_env", pass_env, |name| toml_string(name), page);
    page.value("cwd", cwd.as_ref(), template_text);
    show_list("roots", roots, template_text, page);
    page.members("env", env.iter().map(|(name, text)| (name.as_str(), text)), masked);
}

fn show_remote(remote: &RemoteTemplate, page: &mut Page) {
    let RemoteTemplate { url, headers, roots, ca_file, oauth } = remote;
    page.value("url", Some(url), url_text);
    show_list("roots", roots, template_text, page);
    page.value("ca_file", ca_file.as_ref(), template_text);
    if let Some(oauth) = oauth {
        show_oauth(oauth, page);
    }
    page.members("headers", headers.iter().map(|(name, text)| (name.as_str(), text)), masked);
}

fn show_oauth(oauth: &Spanned<OAuthTemplate>, page: &mut Page) {
    match &oauth.value {
        OAuthTemplate::Off => page.value("oauth", Some(oauth), |_| "false".to_owned()),
        OAuthTemplate::On(keys) => page.inner("oauth", |page| {
            let OAuthTableTemplate { grant, client_id, client_secret, scopes, redirect_port } = &**keys;
            page.value("grant", grant.as_ref(), |grant| toml_string(grant.word().unwrap_or_default()));
            page.value("client_id", client_id.as_ref(), template_text);
            page.value("client_secret", client_secret.as_ref(), masked);
            show_list("scopes", scopes, |scope| toml_string(scope), page);
            page.value("redirect_port", redirect_port.as_ref(), ToString::to_string);
        }),
    }
}

/// Prints the exposure rules. A table can have each key only once, so `allow` and `expose` of further layers are comments.
fn show_exposures<'a>(exposures: &'a [Exposure], page: &mut Page) {
    let mut exposed = exposures.iter().filter_map(|exposure| exposure.expose.as_ref());
    page.value("expose", exposed.next(), exposed_text);
    for more in exposed {
        page.comment(&format!("and of these only {} # {}", exposed_text(&more.value), more.location.line()));
    }
    let of_kind = |kind| move |exposure: &'a Exposure| &exposure.patterns[kind];
    show_patterns(exposures, of_kind(ListKind::Tools), page);
    for (key, kind) in
        [("prompts", ListKind::Prompts), ("resources", ListKind::Resources), ("skills", ListKind::Skills)]
    {
        page.inner(key, |page| show_patterns(exposures, of_kind(kind), page));
    }
    let read_only = exposures.iter().filter_map(|exposure| exposure.read_only.as_ref());
    let strictest = read_only.max_by_key(|read_only| read_only.value);
    page.inner("tools", |page| page.value("read_only", strictest, bool::to_string));
}

fn show_patterns<'a>(exposures: &'a [Exposure], of: impl Fn(&'a Exposure) -> &'a Patterns, page: &mut Page) {
    let patterns = || exposures.iter().map(&of);
    let mut allowed = patterns().filter_map(|Patterns { allow, .. }| allow.as_ref());
    let serialize = |allow: &Vec<Spanned<globset::Glob>>| {
        let texts: Vec<_> = allow.iter().map(|pattern| toml_string(pattern.value.glob())).collect();
        format!("[{}]", texts.join(", "))
    };
    page.value("allow", allowed.next(), serialize);
    for more in allowed {
        page.comment(&format!("and of these only {} # {}", serialize(&more.value), more.location.line()));
    }
    let denied: Vec<_> = patterns().flat_map(|patterns| &patterns.deny).collect();
    if !denied.is_empty() {
        page.list("deny", denied.into_iter(), |pattern| toml_string(pattern.glob()));
    }
}

fn exposed_text(ExposeList { kinds, extensions }: &ExposeList) -> String {
    let names = EXPOSED.iter().filter(|(_, kind)| kinds.contains(kind)).map(|(name, _)| toml_string(name));
    let names = names.chain(extensions.iter().map(|id| toml_string(extensions::short_name(id))));
    format!("[{}]", names.collect::<Vec<_>>().join(", "))
}

fn show_list<T>(key: &str, items: &[Spanned<T>], serialize: impl Fn(&T) -> String, page: &mut Page) {
    if !items.is_empty() {
        page.list(key, items.iter(), serialize);
    }
}

/// A text as written, without expansion.
fn template_text(template: &Template) -> String {
    toml_string(&template.shown())
}

/// A URL as written, without parts that may be secret: many services have secrets in the path or the query. The rest identifies the server.
fn url_text(template: &Template) -> String {
    let text = template.source();
    let Some((scheme, rest)) = text.split_once("://").filter(|_| !text.contains("${")) else {
        return template_text(template);
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, way) = rest.split_at(end);
    let path = way.split('?').next().unwrap_or_default();
    let segments: Vec<_> = path.split('/').map(|segment| if is_word(segment) { segment } else { "…" }).collect();
    let rest = if path.len() < way.len() { "?…" } else { "" };
    toml_string(&format!("{scheme}://{host}{}{rest}", segments.join("/")))
}

/// `mcp`, `sse`, `v1`.
fn is_word(segment: &str) -> bool {
    let letters = segment
        .strip_prefix('v')
        .filter(|rest| rest.len() < 3)
        .map_or(segment, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    letters.len() <= 16 && letters.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Arguments as written, except those that look like secrets.
fn args_without_secrets(args: &[Spanned<Template>]) -> Vec<Spanned<String>> {
    let texts: Vec<_> = args.iter().map(|arg| arg.value.source()).collect();
    let secrets = in_arguments(&texts);
    let shown = args.iter().enumerate().map(|(index, Spanned { value, location })| {
        let value = if secrets.contains(&index) || value.runs_programs() {
            value.references()
        } else {
            value.source().to_owned()
        };
        Spanned { value, location: location.clone() }
    });
    shown.collect()
}

/// Prints only the references of values that may be secrets.
fn masked(template: &Template) -> String {
    toml_string(&template.references())
}

/// The output so far.
#[derive(Default)]
pub(super) struct Page {
    text: String,
    /// The current table.
    table: String,
    /// Subtables, which follow after the values of the current table.
    below: String,
}

impl Page {
    /// Opens the table at `location`.
    pub(super) fn table(&mut self, name: &str, location: Option<&Location>) {
        self.close();
        name.clone_into(&mut self.table);
        let comment = location.map(|location| format!(" # {}", location.line())).unwrap_or_default();
        self.text += &format!("[{name}]{comment}\n");
    }

    /// Writes a value that a layer sets.
    pub(super) fn value<T>(&mut self, key: &str, value: Option<&Spanned<T>>, serialize: impl Fn(&T) -> String) {
        if let Some(Spanned { value, location }) = value {
            self.text += &format!("{key} = {} # {}\n", serialize(value), location.line());
        }
    }

    /// Writes a default.
    pub(super) fn default_value(&mut self, key: &str, value: &str) {
        self.text += &format!("{key} = {value} # default\n");
    }

    /// Writes a list whose items can come from several locations. An unset list is empty.
    pub(super) fn list<'s, T: 's>(
        &mut self,
        key: &str,
        items: impl Iterator<Item = &'s Spanned<T>>,
        serialize: impl Fn(&T) -> String,
    ) {
        let items: Vec<_> = items.map(|item| (serialize(&item.value), item.location.line())).collect();
        self.text += &match items.as_slice() {
            [] => format!("{key} = [] # default\n"),
            [(_, first), rest @ ..] if rest.iter().all(|(_, location)| location == first) => {
                let items: Vec<_> = items.iter().map(|(item, _)| item.as_str()).collect();
                format!("{key} = [{}] # {first}\n", items.join(", "))
            }
            items => {
                let items: String =
                    items.iter().map(|(item, location)| format!("    {item}, # {location}\n")).collect();
                format!("{key} = [\n{items}]\n")
            }
        };
    }

    /// Writes values as a subtable, unless it is empty.
    pub(super) fn members<'s, T: 's>(
        &mut self,
        key: &str,
        members: impl Iterator<Item = (&'s str, &'s Spanned<T>)>,
        serialize: impl Fn(&T) -> String,
    ) {
        let mut seen = Vec::new();
        let mut lines = String::new();
        for (name, member) in members {
            // If two layers set a key, the upper one comes first and applies.
            if !seen.contains(&name) {
                seen.push(name);
                lines += &format!("{} = {} # {}\n", toml_key(name), serialize(&member.value), member.location.line());
            }
        }
        if !lines.is_empty() {
            self.below += &format!("\n[{}.{key}]\n{lines}", self.table);
        }
    }

    /// Writes a subtable. `inside` gets its values.
    pub(super) fn inner(&mut self, key: &str, inside: impl FnOnce(&mut Self)) {
        let mut page = Self { table: format!("{}.{key}", self.table), ..Self::default() };
        inside(&mut page);
        if !page.text.is_empty() {
            self.below += &format!("\n[{}]\n{}", page.table, page.text);
        }
    }

    /// Writes a comment line.
    pub(super) fn comment(&mut self, text: &str) {
        self.text += &format!("# {text}\n");
    }

    pub(super) fn finish(mut self) -> String {
        self.close();
        self.text.truncate(self.text.trim_end().len());
        self.text + "\n"
    }

    fn close(&mut self) {
        if !self.table.is_empty() {
            self.text += &std::mem::take(&mut self.below);
            self.text.push('\n');
        }
    }
}
