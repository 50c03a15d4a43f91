//! Prints the keys of one server, without those of `[defaults]`.

use super::super::edit::toml_string;
use super::super::interpolate::Template;
use super::super::keys::Choice;
use super::super::layer::{
    ExposeList, Exposure, LaunchTemplate, OAuthTableTemplate, OAuthTemplate, Patterns, ProgramTemplate, RemoteTemplate,
    ServerLayer, ServerRules,
};
use super::super::read::EXPOSED;
use super::super::secret::in_arguments;
use super::super::settings::Settings;
use super::super::spanned::Spanned;
use super::page::Page;
use super::show_keys;
use crate::extensions;
use crate::list_kind::ListKind;

pub(super) fn show(server: &ServerLayer, page: &mut Page) {
    let ServerLayer { name, launch, rules } = server;
    page.table(&format!("servers.{}", name.value), Some(&name.location));
    match launch {
        LaunchTemplate::Program(program) => show_program(program, page),
        LaunchTemplate::Remote(remote) => show_remote(remote, page),
        LaunchTemplate::Impossible(reason) => page.comment(&format!("It cannot be run: {reason}")),
    }
    let ServerRules { exposures, settings } = rules;
    show_exposures(exposures, page);
    show_keys(Settings::KEYS.iter(), settings, false, page);
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

pub(super) fn exposed_text(ExposeList { kinds, extensions }: &ExposeList) -> String {
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
