//! Reads the keys of an HTTP server: `url`, `headers`, `ca_file`, `oauth`.

use std::ops::RangeInclusive;

use super::super::address::{NOT_LOCAL, is_unix, url_complaint};
use super::super::diagnostic::Spanned;
use super::super::interpolate::Template;
use super::super::launch::{OAuthGrant, is_credential, is_scope};
use super::super::layer::{OAuthTableTemplate, OAuthTemplate, RemoteTemplate};
use super::super::rotating_headers::is_header_value;
use super::super::tree::{Entry, Problem, Value};
use super::launch::LaunchKeys;
use super::reader::{Fields, Reader};

/// The valid ports for `redirect_port`.
const PORTS: RangeInclusive<usize> = 1..=u16::MAX as usize;
const PORT_EXAMPLE: &str = "8765";

impl Reader<'_> {
    pub(super) fn remote(&mut self, server: &Entry, url: &Entry, keys: &LaunchKeys<'_>) -> Option<RemoteTemplate> {
        let is_served = keys.command.is_some();
        for key in [keys.args, keys.env, keys.pass_env, keys.cwd].into_iter().filter(|_| !is_served) {
            self.misplaced(key, "a server that mcpd runs, and this one has a `url`");
        }
        let is_unix = url.node.text().is_some_and(is_unix);
        let url = self.url(url, is_served);
        let headers = keys.headers.map(|headers| self.headers(headers)).unwrap_or_default();
        // Those of a program are read with its other keys.
        let roots = keys.roots.filter(|_| !is_served).map(|roots| self.roots(roots)).unwrap_or_default();
        let ca_file = keys.ca_file.and_then(|path| self.absolute_path(path, "\"~/certificates/ca.pem\""));
        let oauth = if is_served || is_unix {
            let this = if is_served { "mcpd runs this one" } else { "this one has a Unix socket" };
            self.misplaced(keys.oauth, &format!("a server elsewhere, and {this}"));
            None
        } else {
            keys.oauth.and_then(|oauth| self.oauth(server, oauth))
        };
        Some(RemoteTemplate { url: url?, headers, roots, ca_file, oauth })
    }

    fn url(&mut self, entry: &Entry, is_served: bool) -> Option<Spanned<Template>> {
        let template = self.template(&entry.node, &format!("`{}`", entry.key))?;
        let complaint = template.value.as_literal().and_then(|text| url_complaint(text, is_served));
        let Some(complaint) = complaint else { return Some(template) };
        let text = entry.node.text().unwrap_or_default();
        let help = if complaint.contains("user name") {
            "write it as a header: `headers = { Authorization = \"Basic ${file:PATH}\" }`, base64 in that file"
                .to_owned()
        } else if is_unix(text) {
            self.assignment(&entry.key, "\"unix:/run/user/1000/x.sock#/mcp\"")
        } else if complaint == NOT_LOCAL {
            self.assignment(&entry.key, "\"http://127.0.0.1:PORT/mcp\"") + ", or remove `command`"
        } else if complaint.contains("`#`") {
            "remove the `#` and what follows it".to_owned()
        } else if text.contains(['.', ':']) && !text.contains("://") && !text.contains(['@', '?', ' ', '"', '\\']) {
            let is_local = ["localhost", "127."].iter().any(|host| text.starts_with(host));
            self.assignment(&entry.key, &format!("\"{}://{text}\"", if is_local { "http" } else { "https" }))
        } else {
            self.assignment(&entry.key, "\"https://example.org/mcp\"")
        };
        self.error(Problem::new(entry.node.span.clone(), format!("`{}` {complaint}", entry.key)).help(help));
        None
    }

    fn headers(&mut self, entry: &Entry) -> Vec<(String, Spanned<Template>)> {
        let mut texts: Vec<(String, Spanned<Template>)> = Vec::new();
        for (name, key, node) in self.texts_by_name(entry, ("Authorization", "Bearer ${cred:search}")) {
            let complaint = if !is_header_name(name) {
                Some((
                    format!("`{}` cannot name a header", name.escape_debug()),
                    "write a name such as `Authorization`",
                ))
            } else if texts.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                Some((format!("header `{name}` is there already"), "keep one of the two: case does not count"))
            } else {
                None
            };
            if let Some((message, help)) = complaint {
                self.error(Problem::new(key, message).help(help));
            }
            let what = format!("header `{}`", name.escape_debug());
            let Some(text) = self.template(node, &what) else { continue };
            if text.value.as_literal().is_some_and(|text| !is_header_value(text)) {
                let problem = Problem::new(node.span.clone(), format!("{what} holds a control character"));
                self.error(problem.help("take it out: a header is one line"));
            }
            texts.push((name.to_owned(), text));
        }
        texts
    }

    /// `true`, `false`, or a table, which implies `true`.
    pub(super) fn oauth(&mut self, server: &Entry, entry: &Entry) -> Option<Spanned<OAuthTemplate>> {
        let layer = match &entry.node.value {
            Value::Bool(false) => OAuthTemplate::Off,
            Value::Bool(true) => OAuthTemplate::On(Box::default()),
            Value::Table(entries) => {
                let mut fields = Fields::new(format!("`[servers.{}.oauth]`", server.key), entries);
                let keys = self.oauth_keys(&mut fields);
                self.finish(fields);
                OAuthTemplate::On(Box::new(keys))
            }
            _ => {
                let help = self.assignment("oauth", "{ client_id = \"…\" }");
                self.wrong_type(&entry.node, "`oauth`", "a table, or false", help);
                return None;
            }
        };
        Some(self.spanned_at(entry.key_span.clone(), layer))
    }

    fn oauth_keys(&mut self, fields: &mut Fields<'_>) -> OAuthTableTemplate {
        let client_id = fields.take("client_id").and_then(|entry| self.credential(entry));
        let secret = fields.take("client_secret");
        if let Some(secret) = secret.filter(|_| client_id.is_none()) {
            let problem = Problem::new(secret.key_span.clone(), "`client_secret` without a `client_id`");
            self.error(problem.help("write the `client_id` that it goes with, or remove it"));
        }
        let grant = fields.take("grant");
        let grant = grant.and_then(|entry| Some((entry, self.choice(&entry.node, "grant")?)));
        if let Some((entry, OAuthGrant::ClientCredentials)) = grant
            && (client_id.is_none() || secret.is_none())
        {
            let message = "`client_credentials` are a `client_id` and a `client_secret`, and one is missing";
            let help = "write both, as the authorization server has given them to you";
            self.error(Problem::new(entry.key_span.clone(), message).help(help));
        }
        let grant = grant.map(|(entry, grant)| self.spanned(&entry.node, grant));
        let scopes = fields.take("scopes").map(|entry| self.scopes(entry)).unwrap_or_default();
        let redirect_port = self.key(fields, "redirect_port", |reader, entry| {
            reader.integer(entry, &PORTS, PORT_EXAMPLE).and_then(|port| u16::try_from(port).ok())
        });
        let client_secret = secret.and_then(|entry| self.credential(entry));
        OAuthTableTemplate { grant, client_id, client_secret, scopes, redirect_port }
    }

    fn credential(&mut self, entry: &Entry) -> Option<Spanned<Template>> {
        let what = format!("`{}`", entry.key);
        let template = self.template(&entry.node, &what)?;
        let template = self.without_programs(&entry.node, &what, template)?;
        if template.value.as_literal().is_some_and(|text| !is_credential(text)) {
            let message = format!("{what} is empty, or has other characters than those of ASCII");
            let help = "write what the authorization server has given you";
            self.error(Problem::new(entry.node.span.clone(), message).help(help));
            return None;
        }
        Some(template)
    }

    fn scopes(&mut self, entry: &Entry) -> Vec<Spanned<String>> {
        let mut scopes = Vec::new();
        for (node, text) in self.strings(entry, r#"["read"]"#) {
            if is_scope(text) {
                scopes.push(self.spanned(node, text.to_owned()));
            } else {
                let message = format!("`{}` is no scope", text.escape_debug());
                self.error(Problem::new(node.span.clone(), message).help("write each scope as an item of its own"));
            }
        }
        scopes
    }
}

/// Source: RFC 9110, 5.6.2, `token`.
fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
