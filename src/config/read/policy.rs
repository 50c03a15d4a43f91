//! Reads the keys that limit which tools, prompts and resources are exposed.

use super::super::layer::{Exposure, Patterns};
use super::super::profile::ExposeList;
use super::super::tree::{Entry, Problem};
use super::Format;
use super::reader::{Fields, Reader, suggestion};
use crate::extensions;
use crate::list_kind::ListKind;

/// The kinds that `expose` names. Resources include resource templates.
pub(in super::super) const EXPOSED: [(&str, ListKind); 3] =
    [("tools", ListKind::Tools), ("resources", ListKind::Resources), ("prompts", ListKind::Prompts)];

impl Reader<'_> {
    /// All formats have `allow` and `deny` for tools. Only mcpd's format has the other keys, because other clients use their names for
    /// other purposes.
    pub(super) fn exposure(&mut self, server: &Entry, fields: &mut Fields<'_>) -> Option<Exposure> {
        let table = format!("servers.{}", server.key);
        let tools = self.allow_and_deny(fields);
        let exposure = self.with_patterns(Exposure::default(), ListKind::Tools, tools);
        if self.format != Format::Native {
            return exposure.map(|exposure| exposure.with_table(&table));
        }
        let exposed = self.key(fields, "expose", |reader, entry| Some(reader.exposed(entry)));
        let read_only = self.key(fields, "tools", |reader, entry| reader.read_only(&table, entry));
        let prompts = fields.take("prompts").map(|entry| self.patterns_of(&table, entry));
        let resources = fields.take("resources").map(|entry| self.patterns_of(&table, entry));
        let skills = fields.take("skills").map(|entry| self.patterns_of(&table, entry));
        let mut exposure = exposure?.reading_only(read_only).exposing(exposed);
        let kinds = [(ListKind::Prompts, prompts), (ListKind::Resources, resources), (ListKind::Skills, skills)];
        for (kind, patterns) in kinds {
            exposure = self.with_patterns(exposure, kind, patterns.unwrap_or_default())?;
        }
        Some(exposure.with_table(&table))
    }

    /// The `deny` of `[defaults]`, for every server.
    pub(super) fn default_exposure(&mut self, fields: &mut Fields<'_>) -> Option<Exposure> {
        let deny = fields.take("deny").map(|entry| self.patterns(entry)).unwrap_or_default();
        let exposure = self.with_patterns(Exposure::default(), ListKind::Tools, Patterns { allow: None, deny });
        exposure.map(|exposure| exposure.with_table("defaults"))
    }

    fn allow_and_deny(&mut self, fields: &mut Fields<'_>) -> Patterns {
        let allow = self.key(fields, "allow", |reader, entry| Some(reader.patterns(entry)));
        let deny = fields.take("deny").map(|entry| self.patterns(entry)).unwrap_or_default();
        Patterns { allow, deny }
    }

    fn with_patterns(&mut self, exposure: Exposure, kind: ListKind, patterns: Patterns) -> Option<Exposure> {
        let allowed = patterns.allow.as_ref().map(|allow| &allow.location);
        let location =
            allowed.or(patterns.deny.first().map(|pattern| &pattern.location)).map(|location| location.span.clone());
        match exposure.with(kind, patterns) {
            Ok(exposure) => Some(exposure),
            Err(error) => {
                self.too_large(location.unwrap_or_default(), &error);
                None
            }
        }
    }

    pub(super) fn too_large(&mut self, location: std::ops::Range<usize>, error: &globset::Error) {
        let problem = Problem::new(location, format!("these patterns are too large: {error}"));
        self.error(problem.help("write fewer or shorter patterns"));
    }

    /// `expose`: kinds, and extensions by their ids or last segments.
    pub(super) fn exposed(&mut self, entry: &Entry) -> ExposeList {
        let mut exposed = ExposeList::default();
        for (node, text) in self.strings(entry, r#"["tools", "resources", "prompts"]"#) {
            if let Some((_, kind)) = EXPOSED.iter().find(|(name, _)| *name == text) {
                exposed.kinds.push(*kind);
            } else if let Some(id) = extensions::id_of_short_name(text) {
                exposed.extensions.push(id);
            } else {
                let names: Vec<_> = EXPOSED.iter().map(|(name, _)| *name).chain(extensions::short_names()).collect();
                let message = format!("`{}` is not a value of `expose`", text.escape_debug());
                self.error(Problem::new(node.span.clone(), message).help(suggestion(text, &names)));
            }
        }
        exposed
    }

    /// `[servers.NAME.tools]` and `[profiles.NAME.tools]`
    pub(super) fn read_only(&mut self, table: &str, entry: &Entry) -> Option<bool> {
        let mut fields = self.fields_of(table, entry, "read_only = true");
        let read_only = fields.take("read_only").and_then(|entry| self.boolean(entry));
        self.finish(fields);
        read_only
    }

    /// `[servers.NAME.prompts]`, `[servers.NAME.resources]` and `[servers.NAME.skills]`
    fn patterns_of(&mut self, table: &str, entry: &Entry) -> Patterns {
        let mut fields = self.fields_of(table, entry, r#"deny = ["secret*"]"#);
        let patterns = self.allow_and_deny(&mut fields);
        self.finish(fields);
        patterns
    }

    /// The rules of the table at `entry`, within the table named `table`.
    pub(super) fn fields_of<'t>(&mut self, table: &str, entry: &'t Entry, example: &str) -> Fields<'t> {
        let key = &entry.key;
        let help = self.assignment(key, &format!("{{ {example} }}"));
        Fields::new(format!("`[{table}.{key}]`"), self.table(&entry.node, &format!("`{key}`"), &help))
    }
}
