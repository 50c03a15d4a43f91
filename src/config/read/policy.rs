//! Which of a server's tools, prompts and resources are exposed.

use globset::Glob;

use super::super::tree::{Entry, Problem};
use super::fields::Fields;
use super::{Format, Reader};
use crate::kind::Kind;
use crate::policy::Policy;

/// What `expose` may name; templates go with resources.
const EXPOSED: [(&str, Kind); 3] = [("tools", Kind::Tools), ("resources", Kind::Resources), ("prompts", Kind::Prompts)];

/// The patterns of one table.
struct Patterns {
    /// Of the first key that has any.
    place: std::ops::Range<usize>,
    allow: Option<Vec<Glob>>,
    deny: Vec<Glob>,
}

impl Reader<'_> {
    /// Both formats have `allow` and `deny` for tools, and the rest only our own: other clients have other uses for its
    /// keys.
    pub(super) fn policy(&mut self, server: &Entry, fields: &mut Fields<'_>) -> Option<Policy> {
        let tools = self.allow_and_deny(Kind::Tools, fields);
        let policy = self.with_patterns(Policy::default(), Kind::Tools, tools);
        if self.format != Format::Ours {
            return policy;
        }
        let table = format!("servers.{}", server.key);
        let exposed = fields.take("expose").map(|entry| self.exposed(entry));
        let read_only = fields.take("tools").is_some_and(|entry| self.read_only(&table, entry));
        let prompts = fields.take("prompts").map(|entry| self.patterns_of(Kind::Prompts, &table, entry));
        let resources = fields.take("resources").map(|entry| self.patterns_of(Kind::Resources, &table, entry));
        let mut policy = policy?.read_only(read_only);
        if let Some(exposed) = exposed {
            policy = policy.exposing(&exposed);
        }
        for (kind, patterns) in [(Kind::Prompts, prompts), (Kind::Resources, resources)] {
            if let Some(patterns) = patterns {
                policy = self.with_patterns(policy, kind, patterns)?;
            }
        }
        Some(policy)
    }

    fn allow_and_deny(&mut self, kind: Kind, fields: &mut Fields<'_>) -> Patterns {
        let (allow, deny) = (fields.take("allow"), fields.take("deny"));
        let place = allow.or(deny).map_or(0..0, |entry| entry.node.span.clone());
        let allow = allow.map(|entry| self.patterns(kind, entry));
        let deny = deny.map(|entry| self.patterns(kind, entry)).unwrap_or_default();
        Patterns { place, allow, deny }
    }

    fn with_patterns(&mut self, policy: Policy, kind: Kind, patterns: Patterns) -> Option<Policy> {
        match policy.with(kind, patterns.allow.as_deref(), &patterns.deny) {
            Ok(policy) => Some(policy),
            Err(error) => {
                self.too_large(patterns.place, &error);
                None
            }
        }
    }

    pub(super) fn too_large(&mut self, place: std::ops::Range<usize>, error: &globset::Error) {
        let problem = Problem::new(place, format!("these patterns are too large: {error}"));
        self.error(problem.help("write fewer or shorter patterns"));
    }

    pub(super) fn exposed(&mut self, entry: &Entry) -> Vec<Kind> {
        let kinds = self.strings(entry, r#"["tools", "resources", "prompts"]"#);
        kinds.into_iter().filter_map(|(node, text)| self.choice(node, text, "kind to `expose`", &EXPOSED)).collect()
    }

    /// `[servers.NAME.tools]` and `[profiles.NAME.tools]`
    pub(super) fn read_only(&mut self, table: &str, entry: &Entry) -> bool {
        let mut fields = self.fields_of(table, entry, "read_only = true");
        let read_only = fields.take("read_only").is_some_and(|entry| self.boolean(entry));
        self.finish(fields, &[]);
        read_only
    }

    /// `[servers.NAME.prompts]` and `[servers.NAME.resources]`
    fn patterns_of(&mut self, kind: Kind, table: &str, entry: &Entry) -> Patterns {
        let mut fields = self.fields_of(table, entry, r#"deny = ["secret*"]"#);
        let patterns = self.allow_and_deny(kind, &mut fields);
        self.finish(fields, &[]);
        patterns
    }

    /// Those of the table at `entry`, which is one of the table that is called `table`.
    pub(super) fn fields_of<'t>(&mut self, table: &str, entry: &'t Entry, example: &str) -> Fields<'t> {
        let key = &entry.key;
        let help = self.assignment(key, &format!("{{ {example} }}"));
        Fields::new(format!("`[{table}.{key}]`"), self.table(&entry.node, &format!("`{key}`"), &help))
    }
}
