//! Translates HTTP servers of other clients.

use super::super::super::clients::Dialect;
use super::super::super::interpolate::is_variable_name;
use super::super::super::tree::{Entry, Node, Problem, Value};
use super::super::Reader;
use super::super::fields::Fields;
use super::build::Build;

/// Names of transports in other clients that follow from other keys. `sse` is the older HTTP transport.
const TRANSPORTS: [&str; 8] =
    ["stdio", "local", "http", "streamable-http", "streamable_http", "streamableHttp", "sse", "remote"];

impl Reader<'_> {
    pub(super) fn translate_url(&mut self, fields: &mut Fields<'_>, build: &mut Build) {
        for key in ["type", "transport"] {
            let Some(kind) = fields.take(key) else { continue };
            if kind.node.text().is_none_or(|kind| !TRANSPORTS.contains(&kind)) {
                let problem = Problem::new(kind.node.span.clone(), format!("`{key}` is ignored: it is no transport"));
                self.warn(problem.help("write `\"stdio\"` or `\"http\"`"));
            }
        }
        // One client uses two keys for two transports. If both exist, use the newer transport.
        for key in ["httpUrl", "serverUrl", "url"] {
            let Some(url) = fields.take(key) else { continue };
            if !build.has("url") {
                build.put_texts("url", url);
            }
        }
        if let Some(headers) = fields.take("headers") {
            build.put_texts("headers", headers);
        }
        if build.dialect == Dialect::Codex {
            self.codex_headers(fields, build);
        }
    }

    fn codex_headers(&mut self, fields: &mut Fields<'_>, build: &mut Build) {
        if let Some(headers) = fields.take("http_headers") {
            build.put_texts("headers", headers);
        }
        if let Some(variables) = fields.take("env_http_headers") {
            let help = "write `env_http_headers = { NAME = \"VARIABLE\" }`";
            let names = self.table(&variables.node, "`env_http_headers`", help);
            let headers = names.iter().filter_map(|header| {
                let name = self.variable_name(&header.node, &format!("`{}`", header.key))?;
                Some(header_of(header, &header.key, format!("${{{name}}}")))
            });
            let headers = headers.collect();
            build.extend_table("headers", variables, headers);
        }
        if let Some(variable) = fields.take("bearer_token_env_var")
            && let Some(name) = self.variable_name(&variable.node, "`bearer_token_env_var`")
        {
            let header = header_of(variable, "Authorization", format!("Bearer ${{{name}}}"));
            build.extend_table("headers", variable, vec![header]);
        }
    }

    /// The name of a variable at `node`. It must be a valid name, or it would form another reference within `${…}`.
    fn variable_name<'t>(&mut self, node: &'t Node, what: &str) -> Option<&'t str> {
        let name = self.string(node, what)?;
        if !is_variable_name(name) {
            let problem = Problem::new(node.span.clone(), format!("{what} does not name a variable"));
            self.error(problem.help("write a name of letters, digits and `_`, such as `TOKEN`"));
            return None;
        }
        Some(name)
    }
}

fn header_of(from: &Entry, name: &str, text: String) -> Entry {
    let node = Node { span: from.node.span.clone(), value: Value::String(text) };
    Entry { key: name.to_owned(), key_span: from.key_span.clone(), node }
}
