//! Servers at a URL: unencrypted secrets, a port of the other scheme, missing `ca_file`, and resource limits that have no effect.

use std::path::Path;

use url::{Host, Url};

use super::Context;
use crate::config::diagnostic::Diagnostic;
use crate::config::interpolate::Template;
use crate::config::notes::{Note, Use, What};
use crate::config::secret::is_secret;
use crate::config::{Launch, Remote, ServerConfig};

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    // The URL of a server precedes its headers.
    let mut url = None;
    let of_text = |(server, note, purpose, template): (&ServerConfig, &Note<'_>, Use<'_>, &Template)| {
        let remote = server.launch.as_ref().ok()?.remote()?;
        match purpose {
            Use::Url => {
                url = template.as_literal().map(str::to_owned);
                other_port(&remote.url, note)
            }
            Use::Header(name) => in_the_clear(name, template, remote, url.as_deref(), note),
            Use::CaFile => not_there(remote.ca_file.as_deref()?, template, context, note),
            _ => None,
        }
    };
    let of_limit = |note: &Note<'_>| {
        let What::Limit(key) = note.what else { return None };
        let ServerConfig { name, launch: Ok(Launch::Remote(_)), .. } = &context.servers()[context.server_of(note)?]
        else {
            return None;
        };
        Some(note.warning(format!("`{key}` limits nothing: server `{name}` runs elsewhere"), "remove it"))
    };
    let of_texts: Vec<_> = context.texts().filter_map(of_text).collect();
    of_texts.into_iter().chain(context.notes.iter().filter_map(of_limit)).collect()
}

/// `written`: the URL, if it has no reference, whose value may be a secret.
fn in_the_clear(
    name: &str,
    template: &Template,
    remote: &Remote,
    written: Option<&str>,
    note: &Note<'_>,
) -> Option<Diagnostic> {
    let is_it = template.names_secret() || is_secret(name, template.source());
    host_in_the_clear(&remote.url).filter(|_| is_it)?;
    let host = written.and_then(host_in_the_clear).unwrap_or_else(|| "another machine".to_owned());
    let message = format!("`{}` looks like a secret, and goes to {host} without encryption", name.escape_debug());
    Some(note.warning(message, "write an `https://` URL, if the server has one"))
}

/// The host of an unencrypted URL to another machine.
fn host_in_the_clear(url: &str) -> Option<String> {
    let url = Url::parse(url).ok().filter(|url| url.scheme() == "http")?;
    let is_here = match url.host()? {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
        Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
    };
    (!is_here).then(|| url.host_str().map(str::to_owned)).flatten()
}

/// The port of plain HTTP with TLS, or the other way round.
fn other_port(url: &str, note: &Note<'_>) -> Option<Diagnostic> {
    let url = Url::parse(url).ok()?;
    let (scheme, port, other) = match (url.scheme(), url.port()) {
        ("https", Some(80)) => ("https", 80, "http"),
        ("http", Some(443)) => ("http", 443, "https"),
        _ => return None,
    };
    let message = format!("`{scheme}://` does not go with port {port}, which is that of `{other}://`");
    Some(note.warning(message, format!("write `{other}://`, or another port")))
}

fn not_there(path: &Path, written: &Template, context: &Context<'_>, note: &Note<'_>) -> Option<Diagnostic> {
    let message = format!("`ca_file` {} does not exist, so the server cannot be reached", written.shown());
    (!context.sources.exists(path)).then(|| note.warning(message, "write the path of a file with certificates in PEM"))
}
