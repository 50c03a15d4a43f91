//! `[profiles.NAME]`: what is seen by which socket.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::super::notes::{Owner, What};
use super::super::profile::{
    Narrowing, Profile, Scoped, ScopedRules, UNKNOWN_USER, is_profile_name, profile_name_taken,
};
use super::super::tree::{Entry, Node, Problem, Value};
use super::Reader;
use super::fields::Fields;
use super::server::fitted_name;
use crate::kind::{Kind, PerKind};
use crate::naming::Scheme;

/// One profile of one file.
#[derive(Debug)]
pub(in super::super) struct ProfileDraft {
    pub(in super::super) name: Arc<str>,
    pub(in super::super) name_span: Range<usize>,
    /// Each with its place.
    pub(in super::super) servers: Option<Vec<(Arc<str>, Range<usize>)>>,
    pub(in super::super) narrowing: Narrowing,
    pub(in super::super) naming: Option<Scheme>,
    pub(in super::super) max_name_length: Option<usize>,
    pub(in super::super) allow_uids: BTreeSet<u32>,
}

impl Reader<'_> {
    pub(super) fn profiles(&mut self, entry: &Entry) -> Vec<ProfileDraft> {
        let profiles = self.table(&entry.node, "`profiles`", "write `[profiles.NAME]` for each profile");
        profiles.iter().filter_map(|profile| self.profile(profile)).collect()
    }

    fn profile(&mut self, entry: &Entry) -> Option<ProfileDraft> {
        let name = &entry.key;
        let named = self.profile_name(entry);
        let Value::Table(entries) = &entry.node.value else {
            let help = format!("write `[profiles.{name}]`, and its `servers` on the next line");
            self.wrong_type(&entry.node, &format!("`profiles.{name}`"), "a table", help);
            return None;
        };
        self.notes.of(Owner::Profile(Arc::from(name.as_str())));
        let table = format!("profiles.{name}");
        let mut fields = Fields::new(format!("`[{table}]`"), entries);
        let servers = fields.take("servers").map(|entry| self.named_servers(entry));
        let rules = self.scoped_rules(&table, &mut fields);
        let expose = fields.take("expose").map(|entry| self.exposed(entry));
        let read_only = fields.take("tools").is_some_and(|entry| self.read_only(&table, entry));
        let (naming, max_name_length) = self.naming(&mut fields);
        let allow_uids = fields.take("allow_uids").map(|entry| self.users(entry)).unwrap_or_default();
        self.finish(fields, &[]);
        let narrowing = Narrowing { rules, expose, read_only };
        let name_span = entry.key_span.clone();
        Some(ProfileDraft { name: named?, name_span, servers, narrowing, naming, max_name_length, allow_uids })
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

    fn named_servers(&mut self, entry: &Entry) -> Vec<(Arc<str>, Range<usize>)> {
        let names = self.strings(entry, r#"["files"]"#);
        names.into_iter().map(|(node, name)| (Arc::from(name), node.span.clone())).collect()
    }

    fn scoped_rules(&mut self, table: &str, fields: &mut Fields<'_>) -> PerKind<ScopedRules> {
        let mut rules = PerKind::<ScopedRules>::default();
        rules[Kind::Tools] = self.scoped(Kind::Tools, fields);
        for (key, kind) in [("prompts", Kind::Prompts), ("resources", Kind::Resources)] {
            if let Some(entry) = fields.take(key) {
                let mut fields = self.fields_of(table, entry, r#"deny = ["*/secret*"]"#);
                rules[kind] = self.scoped(kind, &mut fields);
                self.finish(fields, &[]);
            }
        }
        rules
    }

    /// `allow` and `deny` of one kind.
    fn scoped(&mut self, kind: Kind, fields: &mut Fields<'_>) -> ScopedRules {
        let (allow, deny) = (fields.take("allow"), fields.take("deny"));
        let place = allow.or(deny).map(|entry| entry.node.span.clone());
        let allow = allow.map(|entry| self.scoped_patterns(kind, entry));
        let deny = deny.map(|entry| self.scoped_patterns(kind, entry)).unwrap_or_default();
        let rules = ScopedRules { allow, deny };
        if let (Err(error), Some(place)) = (rules.compile(), place) {
            self.too_large(place, &error);
        }
        rules
    }

    fn scoped_patterns(&mut self, kind: Kind, entry: &Entry) -> Vec<Scoped> {
        let texts = self.strings(entry, r#"["files/read_*"]"#);
        texts.into_iter().filter_map(|(node, text)| self.scoped_pattern(kind, node, text)).collect()
    }

    /// Split at the first `/`: no server has one in its name, and a URI may have several.
    fn scoped_pattern(&mut self, kind: Kind, node: &Node, text: &str) -> Option<Scoped> {
        let parts = text.split_once('/').filter(|(server, key)| !server.is_empty() && !key.is_empty());
        let Some((server, key)) = parts else {
            let message = format!("`{}` does not say of which server, or what of it", text.escape_debug());
            let [server, key] = match text.split_once('/') {
                None if !text.is_empty() => ["*", text],
                Some((server, "")) if !server.is_empty() => [server, "*"],
                Some(("", key)) if !key.is_empty() => ["*", key],
                _ => ["*", "write_*"],
            };
            let help = format!("write \"{}/{}\": the server before the first `/`", server, key.escape_debug());
            self.error(Problem::new(node.span.clone(), message).help(help));
            return None;
        };
        let (server, key) = (self.pattern(&node.span, server), self.pattern(&node.span, key));
        let (server, key) = (server?, key?);
        self.notes.add(&node.span, What::Scoped(kind, server.clone(), key.clone()));
        Some(Scoped::new(&server, key))
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

impl ProfileDraft {
    /// With what all profiles have that say nothing else.
    pub(in super::super) fn settle(self, naming: &crate::naming::Naming) -> Profile {
        let mut own = naming.clone();
        own.scheme = self.naming.unwrap_or(own.scheme);
        own.max_length = self.max_name_length.unwrap_or(own.max_length);
        let servers = self.servers.map(|servers| servers.into_iter().map(|(name, _)| name).collect());
        Profile { name: self.name, servers, narrowing: self.narrowing, naming: own, allow_uids: self.allow_uids }
    }
}
