//! Reads `[profiles.NAME]`: what agents see on each socket.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Component, PathBuf};
use std::sync::Arc;

use url::Url;

use super::super::Quotas;
use super::super::daemon::NAMING_KEYS;
use super::super::diagnostic::Spanned;
use super::super::layer::{ProfileLayer, ScopedRulesLayer};
use super::super::profile::{ScopedPattern, UNKNOWN_USER, is_profile_name, profile_name_taken};
use super::super::tree::{Entry, Node, Problem, Value};
use super::reader::{Fields, Reader};
use super::values::fitted_name;
use crate::list_kind::{ListKind, PerKind};
use crate::naming::is_server_name;

impl Reader<'_> {
    pub(super) fn profiles(&mut self, entry: &Entry) -> Vec<ProfileLayer> {
        let profiles = self.table(&entry.node, "`profiles`", "write `[profiles.NAME]` for each profile");
        profiles.iter().filter_map(|profile| self.profile(profile)).collect()
    }

    fn profile(&mut self, entry: &Entry) -> Option<ProfileLayer> {
        let name = &entry.key;
        let named = self.profile_name(entry);
        let Value::Table(entries) = &entry.node.value else {
            let help = format!("write `[profiles.{name}]`, and its `servers` on the next line");
            self.wrong_type(&entry.node, &format!("`profiles.{name}`"), "a table", help);
            return None;
        };
        let table = format!("profiles.{name}");
        let mut fields = Fields::new(format!("`[{table}]`"), entries);
        let servers = self.key(&mut fields, "servers", |reader, entry| Some(reader.named_servers(entry)));
        let rules = self.scoped_rules(&table, &mut fields);
        let expose = self.key(&mut fields, "expose", |reader, entry| Some(reader.exposed(entry)));
        let read_only = self.key(&mut fields, "tools", |reader, entry| reader.read_only(&table, entry));
        let naming = self.keys(&mut fields, NAMING_KEYS.iter());
        let allow_uids = self.key(&mut fields, "allow_uids", |reader, entry| Some(reader.users(entry)));
        let workspace_roots =
            self.key(&mut fields, "workspace_roots", |reader, entry| Some(reader.workspace_roots(entry)));
        let directories = self.key(&mut fields, "directories", |reader, entry| Some(reader.directories(entry)));
        let quotas = self.keys(&mut fields, Quotas::KEYS.iter());
        let http = self.key(&mut fields, "http", Self::loopback_address);
        let http_origins = self.key(&mut fields, "http_origins", |reader, entry| Some(reader.origins(entry)));
        self.finish(fields);
        let name = self.spanned_at(entry.key_span.clone(), named?);
        let layer = ProfileLayer {
            name,
            servers,
            rules,
            expose,
            read_only,
            naming,
            allow_uids,
            workspace_roots,
            directories,
            quotas,
            http,
            http_origins,
        };
        Some(layer)
    }

    fn profile_name(&mut self, entry: &Entry) -> Option<Arc<str>> {
        let name = &entry.key;
        if is_profile_name(name) {
            return Some(Arc::from(name.as_str()));
        }
        let problem = Problem::new(entry.key_span.clone(), format!("`{}` cannot name a profile", name.escape_debug()));
        self.error(match profile_name_taken(name) {
            Some(why) => problem.help(format!("give it another name: {why}")),
            None => problem.help(format!(
                "write `{}`: a name is letters A to Z, digits and `-`, with single `_` between them",
                fitted_name(name, "profile")
            )),
        });
        None
    }

    fn named_servers(&mut self, entry: &Entry) -> Vec<Spanned<Arc<str>>> {
        let names = self.strings(entry, r#"["files"]"#);
        names.into_iter().map(|(node, name)| self.spanned(node, Arc::from(name))).collect()
    }

    fn scoped_rules(&mut self, table: &str, fields: &mut Fields<'_>) -> PerKind<ScopedRulesLayer> {
        let mut rules = PerKind::<ScopedRulesLayer>::default();
        rules[ListKind::Tools] = self.scoped(ListKind::Tools, fields);
        for (key, kind) in [("prompts", ListKind::Prompts), ("resources", ListKind::Resources)] {
            if let Some(entry) = fields.take(key) {
                let mut fields = self.fields_of(table, entry, r#"deny = ["*/secret*"]"#);
                rules[kind] = self.scoped(kind, &mut fields);
                self.finish(fields);
            }
        }
        rules
    }

    /// `allow` and `deny` of one kind.
    fn scoped(&mut self, kind: ListKind, fields: &mut Fields<'_>) -> ScopedRulesLayer {
        let allow = self.key(fields, "allow", |reader, entry| Some(reader.scoped_patterns(entry)));
        let deny = self.key(fields, "deny", |reader, entry| Some(reader.scoped_patterns(entry)));
        let location = allow.as_ref().or(deny.as_ref()).map(|patterns| patterns.location.span.clone());
        let layer = ScopedRulesLayer { allow, deny };
        if let (Err(error), Some(location)) = (layer.resolve().compile(kind), location) {
            self.too_large(location, &error);
        }
        layer
    }

    fn scoped_patterns(&mut self, entry: &Entry) -> Vec<Spanned<ScopedPattern>> {
        let texts = self.strings(entry, r#"["files/read_*"]"#);
        texts.into_iter().filter_map(|(node, text)| self.scoped_pattern(node, text)).collect()
    }

    /// Reads SERVER/PATTERN, split at the first `/`: server names have none, and URIs may have several.
    fn scoped_pattern(&mut self, node: &Node, text: &str) -> Option<Spanned<ScopedPattern>> {
        let parts = text.split_once('/').filter(|(server, key)| !server.is_empty() && !key.is_empty());
        let Some((server, key)) = parts else {
            let message = format!("`{}` does not say of which server, or what of it", text.escape_debug());
            let exposed = text.split_once("__").filter(|(server, key)| is_server_name(server) && !key.is_empty());
            let [server, key] = match (text.split_once('/'), exposed) {
                (None, Some((server, key))) => [server, key],
                (None, None) if !text.is_empty() => ["*", text],
                (Some((server, "")), _) if !server.is_empty() => [server, "*"],
                (Some(("", key)), _) if !key.is_empty() => ["*", key],
                _ => ["*", "write_*"],
            };
            let help = format!("write \"{}/{}\": the server before the first `/`", server, key.escape_debug());
            self.error(Problem::new(node.span.clone(), message).help(help));
            return None;
        };
        let (server, key) = (self.pattern(&node.span, server), self.pattern(&node.span, key));
        Some(self.spanned(node, ScopedPattern::new(&server?, key?)))
    }

    fn workspace_roots(&mut self, entry: &Entry) -> Vec<PathBuf> {
        let (what, help) =
            ("each item of `workspace_roots`", "begin it with `/`, `~/` or a variable such as `${HOME}/shared`");
        let texts = self.strings(entry, r#"["/srv/shared"]"#).into_iter();
        texts.filter_map(|(node, _)| self.absolute_interpolated_path(node, what, help)).collect()
    }

    fn directories(&mut self, entry: &Entry) -> Vec<Spanned<PathBuf>> {
        let (what, help) =
            ("each item of `directories`", "begin it with `/`, `~/` or a variable such as `${HOME}/work`");
        let texts = self.strings(entry, r#"["~/work"]"#);
        texts.into_iter().filter_map(|(node, _)| self.directory(node, what, help)).collect()
    }

    /// Without `.` and repeated slashes, so that the same text names the same directory.
    fn directory(&mut self, node: &Node, what: &str, help: &str) -> Option<Spanned<PathBuf>> {
        let path = self.absolute_interpolated_path(node, what, help)?;
        if path.components().any(|part| part == Component::ParentDir) {
            let problem = Problem::new(node.span.clone(), format!("{what} must be written without `..`"));
            self.error(problem.help("write the path of the directory itself"));
            return None;
        }
        Some(self.spanned(node, path.components().collect()))
    }

    /// An address that only this machine reaches.
    fn loopback_address(&mut self, entry: &Entry) -> Option<SocketAddr> {
        let text = self.string(&entry.node, "`http`")?;
        let address = text.parse::<SocketAddr>().ok().filter(|address| {
            [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address.ip())
                && address.port() != 0
        });
        if address.is_none() {
            let message = "`http` must be 127.0.0.1 or [::1] with a port: mcpd serves no other address";
            let help = self.assignment("http", r#""127.0.0.1:7780""#);
            self.error(Problem::new(entry.node.span.clone(), message).help(help));
        }
        address
    }

    /// Origins of web pages, as browsers send them.
    fn origins(&mut self, entry: &Entry) -> Vec<String> {
        let texts = self.strings(entry, r#"["https://ui.example.com"]"#);
        let mut origins = Vec::new();
        for (node, text) in texts {
            let is_origin = Url::parse(text).is_ok_and(|url| {
                ["http", "https"].contains(&url.scheme()) && url.origin().ascii_serialization() == text
            });
            if is_origin {
                origins.push(text.to_owned());
            } else {
                let message = "each item of `http_origins` must be an origin, without a path";
                let help = self.assignment("http_origins", r#"["https://ui.example.com"]"#);
                self.error(Problem::new(node.span.clone(), message).help(help));
            }
        }
        origins
    }

    /// User ids.
    fn users(&mut self, entry: &Entry) -> BTreeSet<u32> {
        let help = self.assignment("allow_uids", "[1001]");
        let Value::Array(items) = &entry.node.value else {
            self.wrong_type(&entry.node, "`allow_uids`", "a list of user ids", help);
            return BTreeSet::new();
        };
        items.iter().filter_map(|node| self.user(node, &help)).collect()
    }

    fn user(&mut self, node: &Node, help: &str) -> Option<u32> {
        let user = match node.value {
            Value::Integer(number) => u32::try_from(number).ok().filter(|uid| *uid != u32::MAX),
            _ => None,
        };
        let problem = match user {
            Some(UNKNOWN_USER) => {
                Problem::new(node.span.clone(), format!("{UNKNOWN_USER} stands for every unknown user"))
                    .help("have the agent run as a user of its own, and write that one's id")
            }
            Some(_) => return user,
            None => {
                Problem::new(node.span.clone(), "each item of `allow_uids` must be the number of a user").help(help)
            }
        };
        self.error(problem);
        None
    }
}
