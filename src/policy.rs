//! Which items and extensions of a server are exposed.
//!
//! All decisions are in this module: [`Policy::verdict`] for listed items, the `permits_*` functions for instructions, extensions and unlisted
//! URIs. The catalog applies them when it is built, and both lists and calls use the catalog. What the operator has approved is a part of a
//! policy ([`Approval`]), so a changed definition is withheld on every path on which a rule hides a name.
//!
//! Pure: no I/O and no clock.

#[cfg(test)]
mod tests;
mod uri;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::Value;

pub(crate) use self::uri::Uri;
use crate::extensions;
use crate::jsonrpc::members::members;
pub use crate::list_kind::ListKind;
use crate::list_kind::PerKind;
pub use crate::pins::Withheld;
use crate::pins::{Approval, ApprovalRule, Definition, Fingerprint, PinnedKind};
use crate::printable::is_visible;

/// Maximum length of the name of a listed tool or prompt, in characters (MCP 2025-11-25, `server/tools`, "Tool Names").
pub const MAX_NAME_LEN: usize = 128;

/// The key of instructions, of which a server has one text.
pub(crate) const INSTRUCTIONS_KEY: &str = "";

/// The rules of one server. `deny` wins over `allow`; by default everything is exposed. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Resource rules also apply to resource templates and to skills.
    rules: PerKind<Rules>,
    /// For each table with rules, the ids of the extensions that its `expose` names; `None` if it has no `expose`. An extension is exposed
    /// only if every entry contains its id; `None` contains none.
    extensions: Vec<Option<BTreeSet<Arc<str>>>>,
    /// Only tools annotated as read-only are exposed: the table that sets it.
    read_only: Option<Arc<str>>,
    /// What is denied at run time, beside these rules.
    run_time: RunTimeDeny,
    /// The approved definitions. `None` if definitions are not compared.
    approval: Option<Approval>,
}

/// The rules of one kind. Joining policies concatenates their lists.
#[derive(Debug, Clone, Default)]
struct Rules {
    /// Everything of the kind is hidden: the table that sets it.
    hidden: Option<Arc<str>>,
    /// Each entry must match.
    allow: Vec<Patterns>,
    /// No entry may match.
    deny: Vec<Patterns>,
}

impl Policy {
    /// A policy on tools: `allow` patterns (`None` allows everything) and `deny` patterns. Other kinds stay exposed.
    ///
    /// # Errors
    /// If the compiled patterns are too large.
    pub fn new(allow: Option<&[Glob]>, deny: &[Glob]) -> Result<Self, globset::Error> {
        Self::default().with(ListKind::Tools, allow, deny)
    }

    /// Replaces the patterns of `kind`: on names of tools and prompts, or on URIs and templates. A pattern on skills is the URI of a skill's
    /// directory or of its `SKILL.md`, and applies to everything in the directory. It hides no other extension.
    ///
    /// # Errors
    /// As [`Policy::new`].
    pub fn with(mut self, kind: ListKind, allow: Option<&[Glob]>, deny: &[Glob]) -> Result<Self, globset::Error> {
        let compile = |globs: &[Glob]| match kind {
            ListKind::Tools | ListKind::Prompts => Patterns::of(globs),
            ListKind::Resources | ListKind::Templates => Patterns::of_uris(globs),
            ListKind::Skills => Patterns::of_uris(&within(globs)?),
        };
        let deny = (!deny.is_empty()).then(|| compile(deny)).transpose()?;
        let rules = &mut self.rules[ruling(kind)];
        rules.allow = allow.map(compile).transpose()?.into_iter().collect();
        rules.deny = deny.into_iter().collect();
        if kind != ListKind::Skills && rules.has_patterns() {
            self.restrict_extensions();
        }
        Ok(self)
    }

    /// Hides the extensions, unless `expose` names them.
    fn restrict_extensions(&mut self) {
        if self.extensions.is_empty() {
            self.extensions.push(None);
        }
    }

    /// Combines tables of one server: rules in a table without `expose` no longer hide extensions if another table has `expose`.
    #[must_use]
    pub(crate) fn of_one_server(mut self) -> Self {
        if self.extensions.iter().any(Option::is_some) {
            self.extensions.retain(Option::is_some);
        }
        self
    }

    /// The policy that exposes only what both policies expose.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        for kind in ListKind::ALL {
            let (rules, more) = (&mut self.rules[kind], &other.rules[kind]);
            rules.hidden = rules.hidden.take().or_else(|| more.hidden.clone());
            rules.allow.extend(more.allow.iter().cloned());
            rules.deny.extend(more.deny.iter().cloned());
        }
        self.extensions.extend(other.extensions.iter().cloned());
        self.read_only = self.read_only.or_else(|| other.read_only.clone());
        self.run_time.join(&other.run_time);
        self.approval = self.approval.or_else(|| other.approval.clone());
        self
    }

    /// Sets the configuration table of every rule that has none yet.
    #[must_use]
    pub(crate) fn with_table(mut self, table: &str) -> Self {
        let table = Arc::from(table);
        let state = |place: &mut Arc<str>| {
            if place.is_empty() {
                place.clone_from(&table);
            }
        };
        self.read_only.iter_mut().for_each(state);
        let state_all = |Rules { hidden, allow, deny }: &mut Rules| {
            hidden.iter_mut().for_each(state);
            allow.iter_mut().chain(deny).for_each(|patterns| state(&mut patterns.table));
        };
        ListKind::ALL.into_iter().for_each(|kind| state_all(&mut self.rules[kind]));
        self
    }

    /// Replaces what is denied at run time.
    #[must_use]
    pub(crate) fn under(mut self, run_time: RunTimeDeny) -> Self {
        self.run_time = run_time;
        self
    }

    /// Replaces what is approved.
    #[must_use]
    pub(crate) fn approved_by(mut self, approval: Option<Approval>) -> Self {
        self.approval = approval;
        self
    }

    /// What is approved, if definitions are compared.
    pub(crate) fn approval(&self) -> Option<&Approval> {
        self.approval.as_ref()
    }

    /// Whether nothing is exposed that was not approved.
    pub(crate) fn holds(&self) -> bool {
        self.approval.as_ref().is_some_and(|approval| approval.rule() == ApprovalRule::Hold)
    }

    /// Whether both have equal rules. Ignores tables, what is denied at run time, and what is approved.
    pub(crate) fn has_same_rules(&self, other: &Self) -> bool {
        let is_same = |kind: ListKind| self.rules[kind].is_same(&other.rules[kind]);
        ListKind::ALL.into_iter().all(is_same)
            && self.extensions == other.extensions
            && self.read_only.is_some() == other.read_only.is_some()
    }

    /// The tools that are disabled at run time, by their names on the server.
    pub(crate) fn switched_off(&self) -> &BTreeSet<Arc<str>> {
        self.run_time.off()
    }

    /// Hides every kind except `kinds`, and every extension. Resources include resource templates.
    #[must_use]
    pub fn exposing(mut self, kinds: &[ListKind]) -> Self {
        for kind in ListKind::ALL.into_iter().filter(|kind| *kind != ListKind::Skills) {
            let is_exposed = kinds.iter().any(|exposed| ruling(*exposed) == ruling(kind));
            self.rules[kind].hidden = (!is_exposed).then(Arc::default);
        }
        self.exposing_extensions(&[])
    }

    /// Hides every extension except `ids`.
    #[must_use]
    pub fn exposing_extensions(mut self, ids: &[Arc<str>]) -> Self {
        self.extensions = vec![Some(ids.iter().cloned().collect())];
        self
    }

    /// Sets whether tools that are not annotated as read-only are hidden.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only.then(Arc::default);
        if read_only {
            self.restrict_extensions();
        }
        self
    }

    /// Whether the extension with this id is exposed.
    #[must_use]
    pub fn permits_extension(&self, id: &str) -> bool {
        // Like configured patterns, those of the run time hide the extensions, unless a table exposes them.
        if self.extensions.is_empty() {
            return !self.run_time.has_patterns();
        }
        self.extensions.iter().all(|named| named.as_ref().is_some_and(|named| named.contains(id)))
    }

    /// Whether unknown methods are forwarded: only if no rule exists that they could bypass, and nothing has to be approved.
    pub(crate) fn permits_unknown_methods(&self) -> bool {
        let has_rules = !self.extensions.is_empty() || self.rules[ListKind::Skills].has_patterns();
        !has_rules && self.run_time.is_empty() && !self.holds()
    }

    /// Whether these instructions of the server are exposed.
    pub(crate) fn permits_instructions(&self, text: &str, fingerprint: &Fingerprint) -> bool {
        self.approval.as_ref().is_none_or(|approval| {
            let json = instructions_json(text);
            approval.verdict(PinnedKind::Instructions, INSTRUCTIONS_KEY, Definition::new(&json, fingerprint)).is_ok()
        })
    }

    /// Whether the unlisted UI resource at this URI is exposed.
    pub(crate) fn permits_interface(&self, uri: &str) -> bool {
        extensions::of_uri(uri) == Some(extensions::UI) && self.permits_unlisted(uri)
    }

    /// Whether a resource that no list has is exposed. One with the scheme of an extension needs the extension.
    pub(crate) fn permits_unlisted(&self, uri: &str) -> bool {
        extensions::of_uri(uri).is_none_or(|id| self.permits_extension(id)) && self.permits_uri(&Uri::new(uri))
    }

    /// Whether some skills are hidden.
    pub(crate) fn narrows_skills(&self) -> bool {
        [ListKind::Skills, ListKind::Resources].iter().any(|kind| self.rules[*kind].has_patterns())
    }

    /// Whether items of this kind are exposed at all.
    pub(crate) fn exposes(&self, kind: ListKind) -> bool {
        match kind {
            ListKind::Skills => self.permits_extension(extensions::SKILLS),
            _ => self.rules[ruling(kind)].hidden.is_none(),
        }
    }

    /// Whether [`Policy::verdict`] permits the item with the name or URI `key`.
    #[must_use]
    pub fn permits(&self, kind: ListKind, key: &str, definition: Option<&Bytes>) -> bool {
        self.verdict(kind, key, definition).is_ok()
    }

    /// Whether every reading of a URI is exposed.
    pub(crate) fn permits_uri(&self, uri: &Uri<'_>) -> bool {
        self.verdict_on_uri(uri).is_ok()
    }

    /// Resources with the scheme of an extension are exposed with the extension, even if `expose` does not name resources.
    fn verdict_on_uri(&self, uri: &Uri<'_>) -> Result<(), Hidden<'_>> {
        let [rules, skills] = [ListKind::Resources, ListKind::Skills].map(|kind| &self.rules[kind]);
        let extension = extensions::of_uri(uri.text());
        if let Some(table) = &rules.hidden
            && !extension.is_some_and(|id| self.permits_extension(id))
        {
            return Err(Hidden::ListKind { table });
        }
        rules.verdict_on_uri(uri)?;
        match extension {
            Some(extensions::SKILLS) if !uri.is_template() => skills.verdict_on_uri(uri),
            _ => skills.denial_of_uri(uri).map_or(Ok(()), Err),
        }
    }

    /// Resource rules also apply to skills and their files.
    fn verdict_on_skill(&self, uri: &Uri<'_>) -> Result<(), Hidden<'_>> {
        if !self.permits_extension(extensions::SKILLS) {
            // Several tables may hide it together.
            return Err(Hidden::ListKind { table: "" });
        }
        self.verdict_on_uri(uri)?;
        self.rules[ListKind::Skills].verdict_on_uri(uri)
    }

    /// Whether the item `key` (a name on the server, a URI, a URI template) is exposed. `read_only` reads the `definition` of a tool;
    /// a tool without one counts as writing. An item without a definition is not compared with approved ones.
    ///
    /// # Errors
    /// The first rule that hides it.
    pub fn verdict(&self, kind: ListKind, key: &str, definition: Option<&Bytes>) -> Result<(), Hidden<'_>> {
        self.verdict_of_rules(kind, key, definition)?;
        definition.map_or(Ok(()), |json| self.verdict_of_approval(kind, key, Definition::plain(json)))
    }

    /// [`Policy::verdict`] on a listed item whose fingerprint is kept.
    ///
    /// # Errors
    /// As [`Policy::verdict`].
    pub(crate) fn verdict_on_listed(
        &self,
        kind: ListKind,
        key: &str,
        definition: &Bytes,
        fingerprint: &Fingerprint,
    ) -> Result<(), Hidden<'_>> {
        self.verdict_of_rules(kind, key, Some(definition))?;
        self.verdict_of_approval(kind, key, Definition::new(definition, fingerprint))
    }

    fn verdict_of_approval(
        &self,
        kind: ListKind,
        key: &str,
        definition: Definition<'_>,
    ) -> Result<(), Hidden<'static>> {
        match (&self.approval, PinnedKind::of(kind)) {
            (Some(approval), Some(kind)) => approval.verdict(kind, key, definition).map_err(Hidden::Withheld),
            _ => Ok(()),
        }
    }

    /// The verdict of the rules, whether the item is approved or not.
    pub(crate) fn verdict_of_rules(
        &self,
        kind: ListKind,
        key: &str,
        definition: Option<&Bytes>,
    ) -> Result<(), Hidden<'_>> {
        let rules = &self.rules[kind];
        match kind {
            ListKind::Resources => return self.verdict_on_uri(&Uri::new(key)),
            ListKind::Templates => return self.verdict_on_uri(&Uri::template(key)),
            ListKind::Skills => return self.verdict_on_skill(&Uri::new(key)),
            ListKind::Tools | ListKind::Prompts => {}
        }
        if let Some(table) = &rules.hidden {
            return Err(Hidden::ListKind { table });
        }
        if !is_fit_name(key) {
            return Err(Hidden::Unfit);
        }
        rules.verdict(key)?;
        if kind != ListKind::Tools {
            return Ok(());
        }
        self.run_time.verdict(key)?;
        match &self.read_only {
            Some(table) if !definition.is_some_and(reads_only) => Err(Hidden::Writes { table }),
            _ => Ok(()),
        }
    }
}

/// The definition of instructions: their text as a JSON string.
pub(crate) fn instructions_json(text: &str) -> Bytes {
    Value::from(text).to_string().into()
}

impl Rules {
    fn is_same(&self, other: &Self) -> bool {
        let are_same = |one: &[Patterns], other: &[Patterns]| {
            one.iter().map(Patterns::texts).eq(other.iter().map(Patterns::texts))
        };
        self.hidden.is_some() == other.hidden.is_some()
            && are_same(&self.allow, &other.allow)
            && are_same(&self.deny, &other.deny)
    }

    fn has_patterns(&self) -> bool {
        !self.allow.is_empty() || !self.deny.is_empty()
    }

    fn verdict(&self, key: &str) -> Result<(), Hidden<'_>> {
        if let Some(Patterns { table, .. }) = self.allow.iter().find(|patterns| !patterns.match_any(key)) {
            return Err(Hidden::NotAllowed { table });
        }
        self.denial(key).map_or(Ok(()), Err)
    }

    /// Every reading must be allowed, and no reading may be denied.
    fn verdict_on_uri(&self, uri: &Uri<'_>) -> Result<(), Hidden<'_>> {
        if self.allow.is_empty() && self.deny.is_empty() {
            return Ok(());
        }
        let readings = uri.readings().ok_or(Hidden::Ambiguous)?;
        let (normal, others) = readings.split_first().ok_or(Hidden::Ambiguous)?;
        let is_allowed = |patterns: &&Patterns| {
            // The URI as it was sent and its normal form are one reading.
            let matches_one = patterns.match_any(uri.text()) || patterns.match_any(normal);
            matches_one && others.iter().all(|reading| patterns.match_any(reading))
        };
        if let Some(Patterns { table, .. }) = self.allow.iter().find(|patterns| !is_allowed(patterns)) {
            return Err(Hidden::NotAllowed { table });
        }
        self.denial_of_uri(uri).map_or(Ok(()), Err)
    }

    fn denial_of_uri(&self, uri: &Uri<'_>) -> Option<Hidden<'_>> {
        if self.deny.is_empty() {
            return None;
        }
        let Some(readings) = uri.readings() else { return Some(Hidden::Ambiguous) };
        // Most readers ignore a trailing slash, so check each reading with and without it.
        let spellings = readings.iter().flat_map(|reading| [reading, reading.trim_end_matches('/')]);
        std::iter::once(uri.text()).chain(spellings).find_map(|spelling| self.denial(spelling))
    }

    fn denial(&self, key: &str) -> Option<Hidden<'_>> {
        let (pattern, table) = self.deny.iter().find_map(|patterns| Some((patterns.first(key)?, &patterns.table)))?;
        Some(Hidden::Denied { pattern, table })
    }
}

/// Patterns that also match everything below what `globs` match.
fn within(globs: &[Glob]) -> Result<Vec<Glob>, globset::Error> {
    let mut all = Vec::new();
    for glob in globs {
        let directory = glob.glob().strip_suffix("/SKILL.md").unwrap_or(glob.glob());
        all.extend([pattern(directory)?, pattern(&format!("{}/*", directory.trim_end_matches('/')))?]);
    }
    Ok(all)
}

/// The kind whose rules apply to `kind`.
fn ruling(kind: ListKind) -> ListKind {
    if kind == ListKind::Templates { ListKind::Resources } else { kind }
}

/// Whether a tool or prompt of this name may be listed: it is short enough and every character is visible.
#[must_use]
pub fn is_fit_name(name: &str) -> bool {
    name.chars().take(MAX_NAME_LEN + 1).enumerate().all(|(index, c)| index < MAX_NAME_LEN && is_visible(c))
}

/// Whether a tool is annotated as read-only (MCP 2025-11-25, `ToolAnnotations.readOnlyHint`). Malformed or duplicate annotations do
/// not count.
fn reads_only(definition: &Bytes) -> bool {
    let annotations = members(definition, ["annotations"]).ok().and_then(|[annotations]| annotations);
    let hint = annotations.and_then(|raw| members(&raw, ["readOnlyHint"]).ok()).and_then(|[hint]| hint);
    hint.as_deref() == Some(b"true")
}

/// Compiles a pattern of `allow` or `deny`. It is case-sensitive, and `*` also matches `/`.
///
/// # Errors
/// If `text` is not a valid glob.
pub fn pattern(text: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(text).literal_separator(false).backslash_escape(true).empty_alternates(true).build()
}

/// The pattern that matches this name alone.
pub(crate) fn exact_pattern(name: &str) -> String {
    globset::escape(&name.replace('\\', r"\\"))
}

/// What is denied at run time. It is no part of the configuration, so no change of the configuration changes it.
#[derive(Debug, Clone, Default)]
pub struct RunTimeDeny {
    /// Disabled tools, by their names on the server.
    off: BTreeSet<Arc<str>>,
    /// Patterns on tools. Joining policies concatenates the lists.
    patterns: Vec<Patterns>,
}

impl RunTimeDeny {
    /// The disabled tools, by their names on the server.
    pub(crate) fn off(&self) -> &BTreeSet<Arc<str>> {
        &self.off
    }

    /// Replaces the disabled tools.
    pub(crate) fn set_off(&mut self, off: BTreeSet<Arc<str>>) {
        self.off = off;
    }

    /// Replaces the patterns.
    pub(crate) fn set_patterns(&mut self, deny: &[Glob]) -> Result<(), globset::Error> {
        self.patterns = if deny.is_empty() { Vec::new() } else { vec![Patterns::of(deny)?] };
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.off.is_empty() && self.patterns.is_empty()
    }

    fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    fn join(&mut self, other: &Self) {
        self.off.extend(other.off.iter().cloned());
        self.patterns.extend(other.patterns.iter().cloned());
    }

    fn verdict(&self, tool: &str) -> Result<(), Hidden<'_>> {
        if self.off.contains(tool) {
            return Err(Hidden::Off);
        }
        let denial = self.patterns.iter().find_map(|patterns| Some((patterns.first(tool)?, &patterns.table)));
        denial.map_or(Ok(()), |(pattern, table)| Err(Hidden::Denied { pattern, table }))
    }
}

/// The patterns of one list.
#[derive(Debug, Clone)]
struct Patterns {
    set: GlobSet,
    /// The texts of the patterns, in the order of the set: one for each spelling of a pattern.
    texts: Arc<[Box<str>]>,
    /// Their configuration table. Empty if they were built in code.
    table: Arc<str>,
}

impl Patterns {
    fn of(globs: &[Glob]) -> Result<Self, globset::Error> {
        Self::compile(globs.iter().map(|glob| (glob.clone(), glob)))
    }

    /// Compiles patterns on URIs. Each matches literally and in normal form.
    fn of_uris(globs: &[Glob]) -> Result<Self, globset::Error> {
        Self::compile(globs.iter().flat_map(|glob| {
            let mut spellings = uri::pattern_spellings(glob.glob());
            spellings.retain(|spelling| spelling != glob.glob());
            // A spelling that is not a valid glob (only with unusual character classes) is skipped; it would add nothing.
            let others = spellings.into_iter().filter_map(|spelling| pattern(&spelling).ok());
            std::iter::once(glob.clone()).chain(others).map(move |spelling| (spelling, glob))
        }))
    }

    /// Compiles pairs of a glob and the pattern that it is a spelling of.
    fn compile<'a>(globs: impl Iterator<Item = (Glob, &'a Glob)>) -> Result<Self, globset::Error> {
        let (mut builder, mut texts) = (GlobSetBuilder::new(), Vec::new());
        for (glob, written) in globs {
            builder.add(glob);
            texts.push(written.glob().into());
        }
        Ok(Self { set: builder.build()?, texts: texts.into(), table: Arc::default() })
    }

    /// The texts of the patterns.
    fn texts(&self) -> &[Box<str>] {
        &self.texts
    }

    fn match_any(&self, key: &str) -> bool {
        self.set.is_match(key)
    }

    /// The first pattern that matches `key`.
    fn first(&self, key: &str) -> Option<&str> {
        // Finding the match is expensive and matches are rare, so first check whether there is any.
        let index = self.match_any(key).then(|| self.set.matches(key).into_iter().min()).flatten()?;
        Some(&self.texts[index])
    }
}

/// The reason. `table` is the configuration table without brackets. It is empty if the policy was built in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden<'a> {
    /// `expose` excludes its kind.
    ListKind {
        /// Where.
        table: &'a str,
    },
    /// Its name is too long or has invisible characters.
    Unfit,
    /// It matches no pattern of an `allow`.
    NotAllowed {
        /// Where.
        table: &'a str,
    },
    /// It matches a pattern of `deny`.
    Denied {
        /// The first matching pattern.
        pattern: &'a str,
        /// Where.
        table: &'a str,
    },
    /// Its URI has too many readings, or characters that parsers interpret differently.
    Ambiguous,
    /// It is disabled.
    Off,
    /// No agent accepts its definition, and nothing can mend it.
    Malformed,
    /// `read_only` is set, and the tool is not annotated as read-only.
    Writes {
        /// Where.
        table: &'a str,
    },
    /// Its definition differs from the approved ones.
    Withheld(Withheld),
}

impl<'a> Hidden<'a> {
    /// One word: the configuration key that hides it, `unfit`, `ambiguous`, `malformed`, `off` or `withheld`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ListKind { .. } => "expose",
            Self::Unfit => "unfit",
            Self::NotAllowed { .. } => "allow",
            Self::Denied { .. } => "deny",
            Self::Ambiguous => "ambiguous",
            Self::Off => "off",
            Self::Malformed => "malformed",
            Self::Writes { .. } => "read_only",
            Self::Withheld(_) => "withheld",
        }
    }

    /// The configuration table with the rule, if there is one.
    #[must_use]
    pub fn table(self) -> Option<&'a str> {
        match self {
            Self::ListKind { table }
            | Self::NotAllowed { table }
            | Self::Denied { table, .. }
            | Self::Writes { table } => Some(table).filter(|table| !table.is_empty()),
            Self::Unfit | Self::Ambiguous | Self::Off | Self::Malformed | Self::Withheld(_) => None,
        }
    }

    /// The matching `deny` pattern.
    #[must_use]
    pub fn pattern(self) -> Option<&'a str> {
        match self {
            Self::Denied { pattern, .. } => Some(pattern),
            _ => None,
        }
    }
}
