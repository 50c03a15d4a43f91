//! The values that lints check, with their locations, and the variables that a configuration refers to. The resolved configuration has
//! neither.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use globset::Glob;

use super::LoadedConfig;
use super::command_line::syntax_of;
use super::diagnostic::{Correction, Diagnostic, Edit, Level, Location, Spanned};
use super::interpolate::Template;
use super::layer::{Exposure, OAuthTemplate, ProfileLayer, ServerLayer};
use crate::client_files::Syntax;
use crate::list_kind::ListKind;

/// Maximum number of notes. Later values are not checked.
const MAX_NOTES: usize = 50_000;

/// A value in a file that lints check.
#[derive(Debug)]
pub(crate) struct Note<'a> {
    /// Its table.
    pub(crate) owner: NoteScope<'a>,
    location: &'a Location,
    /// The value.
    pub(crate) what: What<'a>,
}

/// The table of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteScope<'a> {
    /// `[defaults]`
    Defaults,
    /// `[servers.NAME]`, or the equivalent in another client's file.
    Server(&'a Arc<str>),
    /// `[profiles.NAME]`
    Profile,
}

/// A value that lints check.
#[derive(Debug)]
pub(crate) enum What<'a> {
    /// A server's name.
    Name,
    /// A text with references, and its use.
    Text(Use<'a>, &'a Template),
    /// The resource limit with this key.
    Limit(&'static str),
    /// A pattern on the names or URIs of one kind.
    Pattern(ListKind, &'a Glob),
    /// A pattern on server names, and one on their items.
    Scoped(ListKind, &'a Glob, &'a Glob),
    /// The override of the tool with this own name.
    ToolOverride(&'a Arc<str>),
}

/// The use of a text of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use<'a> {
    Command,
    /// An argument.
    Arg,
    /// The value of this variable or key.
    Value(&'a str),
    /// The value of this header.
    Header(&'a str),
    /// The working directory.
    Cwd,
    /// A directory, or the URI of one.
    Directory,
    /// The server's URL.
    Url,
    /// A file with trusted certificates.
    CaFile,
    /// The OAuth client id.
    ClientId,
}

impl LoadedConfig {
    /// Whether the configuration sets `key` of the server `name`, or its default.
    pub(crate) fn sets(&self, name: &str, key: &str) -> bool {
        let servers = &self.layers.servers;
        let rules = servers.iter().find(|server| *server.name.value == *name).map(|server| &server.rules.settings);
        rules.into_iter().chain([&self.layers.defaults.settings]).any(|settings| settings.get(key).is_some())
    }

    /// All values to check, table by table.
    pub(crate) fn notes(&self) -> Vec<Note<'_>> {
        let mut notes = Vec::new();
        let defaults = &self.layers.defaults;
        let timeouts = defaults.settings.tool_timeouts().iter();
        of_timeouts(&mut notes, NoteScope::Defaults, timeouts);
        of_exposures(&mut notes, NoteScope::Defaults, &defaults.exposures);
        self.layers.servers.iter().for_each(|server| of_server(&mut notes, server));
        self.layers.profiles.all.iter().for_each(|profile| of_profile(&mut notes, profile));
        notes.truncate(MAX_NOTES);
        notes
    }
}

impl Note<'_> {
    /// Its file.
    pub(crate) fn file(&self) -> &Path {
        &self.location.file.path
    }

    /// Its place, as in a diagnostic.
    pub(crate) fn address(&self) -> String {
        self.location.file.address(self.location.span.start)
    }

    /// The language of its file.
    pub(crate) fn syntax(&self) -> Syntax {
        syntax_of(self.file(), &self.location.file.text)
    }

    /// The replacement of its text, if mcpd's own format has it.
    pub(crate) fn edit(&self, text: String) -> Option<Edit> {
        let Location { file, span } = self.location.clone();
        (self.syntax() == Syntax::Toml).then_some(Edit { file, span, text })
    }

    /// This text before it, if mcpd's own format has it.
    pub(crate) fn prefixed(&self, text: &str) -> Option<Correction> {
        let edit = self.edit(text.to_owned())?;
        let start = edit.span.start;
        Some(Correction::Edit(Edit { span: start..start, ..edit }))
    }

    /// A warning about it, with a help text.
    pub(crate) fn warning(&self, message: impl Into<String>, help: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Level::Warning, &self.location.file, self.location.problem(message).help(help))
    }
}

fn of_server<'a>(notes: &mut Vec<Note<'a>>, server: &'a ServerLayer) {
    let owner = NoteScope::Server(&server.name.value);
    notes.push(Note { owner, location: &server.name.location, what: What::Name });
    let mut add = |purpose: Use<'a>, text: &'a Spanned<Template>| {
        notes.push(Note { owner, location: &text.location, what: What::Text(purpose, &text.value) });
    };
    if let Some(program) = server.launch.program() {
        add(Use::Command, &program.command);
        program.args.iter().for_each(|arg| add(Use::Arg, arg));
        program.env.iter().for_each(|(name, value)| add(Use::Value(name), value));
        program.cwd.iter().for_each(|directory| add(Use::Cwd, directory));
        program.roots.iter().for_each(|location| add(Use::Directory, location));
    }
    if let Some(remote) = server.launch.remote() {
        add(Use::Url, &remote.url);
        remote.headers.iter().for_each(|(name, value)| add(Use::Header(name), value));
        remote.roots.iter().for_each(|location| add(Use::Directory, location));
        remote.ca_file.iter().for_each(|path| add(Use::CaFile, path));
        if let Some(OAuthTemplate::On(keys)) = remote.oauth.as_ref().map(|oauth| &oauth.value) {
            keys.client_id.iter().for_each(|id| add(Use::ClientId, id));
            keys.client_secret.iter().for_each(|secret| add(Use::Value("client_secret"), secret));
        }
    }
    let settings = &server.rules.settings;
    let limits = ["memory_max", "tasks_max", "cpu_weight"].into_iter();
    let limits = limits.filter_map(|key| Some((key, &settings.get(key)?.location)));
    notes.extend(limits.map(|(key, location)| Note { owner, location, what: What::Limit(key) }));
    of_timeouts(notes, owner, settings.tool_timeouts().iter());
    of_exposures(notes, owner, &server.rules.exposures);
    let tools = server.rules.tools.0.iter().map(|table| &table.tool);
    notes.extend(tools.map(|tool| Note { owner, location: &tool.location, what: What::ToolOverride(&tool.value) }));
}

fn of_timeouts<'a, T: 'a>(
    notes: &mut Vec<Note<'a>>,
    owner: NoteScope<'a>,
    timeouts: impl Iterator<Item = &'a Spanned<(Glob, T)>>,
) {
    notes.extend(timeouts.map(|timeout| Note {
        owner,
        location: &timeout.location,
        what: What::Pattern(ListKind::Tools, &timeout.value.0),
    }));
}

fn of_exposures<'a>(notes: &mut Vec<Note<'a>>, owner: NoteScope<'a>, exposures: &'a [Exposure]) {
    for (kind, patterns) in exposures.iter().flat_map(|exposure| exposure.patterns.iter()) {
        let allow = patterns.allow.iter().flat_map(|allow| &allow.value);
        let note =
            |glob: &'a Spanned<Glob>| Note { owner, location: &glob.location, what: What::Pattern(kind, &glob.value) };
        notes.extend(allow.chain(&patterns.deny).map(note));
    }
}

fn of_profile<'a>(notes: &mut Vec<Note<'a>>, profile: &'a ProfileLayer) {
    for (kind, rules) in profile.rules.iter() {
        for pattern in rules.allow.iter().chain(&rules.deny).flat_map(|patterns| &patterns.value) {
            let (server, key) = pattern.value.globs();
            notes.push(Note {
                owner: NoteScope::Profile,
                location: &pattern.location,
                what: What::Scoped(kind, server, key),
            });
        }
    }
}

impl LoadedConfig {
    /// The names of variables in `${NAME}` and `pass_env`, whether they are set or not.
    pub(crate) fn variables(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for note in self.notes() {
            if let What::Text(_, template) = note.what {
                names.extend(template.variables().map(str::to_owned));
            }
        }
        let programs = self.layers.servers.iter().filter_map(|server| Some(&server.launch.program()?.pass_env));
        let passed = programs.flatten().chain(&self.layers.defaults.pass_env);
        names.extend(passed.map(|name| name.value.clone()));
        names
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::interpolate::tests::table::Table;
    use super::super::load;

    #[test]
    fn references_are_found_whether_they_are_set_or_not() {
        let text = "[defaults]\npass_env = ['P']\n[servers.a]\ncommand = '${A}/x'\nargs = ['${B:-b}', '$${NO}', '${file:/no}']\n\
                    env = { T = '${T}' }\npass_env = ['Q']\n[servers.b]\nurl = 'https://${HOST}/x'\n\
                    headers = { Authorization = 'Bearer ${env:KEY}' }\n";
        let sources = Table::from([("/c.toml", text), ("A", "/bin")]);
        let loaded = load(&[PathBuf::from("/c.toml")], &sources).expect("it holds");
        let names: Vec<_> = loaded.variables().into_iter().collect();
        assert_eq!(names, ["A", "B", "HOST", "KEY", "P", "Q", "T"]);
    }
}
