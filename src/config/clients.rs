//! The clients that mcpd knows: where each stores its servers on Linux, and how it writes them. `clients/table` has one row for each.
//!
//! Pure: it reads the environment through [`Sources`] only. `read/clients` parses the files.

mod table;

use std::path::{Path, PathBuf};

pub(crate) use self::table::CLIENTS;
pub(super) use self::table::{COMMON, ZED};
use super::interpolate::Sources;
use crate::client_files::Syntax;

/// Which references to environment variables a client expands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variables {
    /// No references at all: Codex, Claude Desktop, Zed.
    Never,
    /// `${NAME}` and `${NAME:-default}`: Claude Code.
    Braces,
    /// `${NAME}`, `${NAME:-default}` and `$NAME`: Copilot CLI, Gemini CLI.
    Dollar,
    /// `${NAME}` and `$NAME`: goose.
    Plain,
    /// `${env:NAME}`: Cline, Cursor, VS Code, Windsurf.
    Prefixed,
    /// `{env:NAME}`: OpenCode. Source: opencode.ai/docs/config, "Variables".
    Bare,
    /// All of these except `$NAME`, for a file of an unknown client.
    Unknown,
}

/// A program that is configured with MCP servers.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its name on the command line.
    pub(crate) word: &'static str,
    /// Its product name.
    pub(crate) title: &'static str,
    /// How its files write servers.
    pub(crate) dialect: Dialect,
    /// Its files with servers in the table that mcpd writes. The first is the user's file, for all projects.
    places: &'static [Place],
    /// Its files with servers in another table. mcpd only reads them.
    other_places: &'static [Place],
    /// Directories that only this client makes.
    directories: &'static [Place],
    /// Its commands, unless other software has a command of the same name.
    commands: &'static [&'static str],
    /// Its own command that adds a server.
    pub(crate) adder: Option<Adder>,
    /// Its own command that edits its file.
    pub(crate) editor: Option<Editor>,
    /// Whether its URLs may lead to Unix sockets.
    pub(crate) opens_unix_sockets: bool,
    /// What it refuses or cuts of what servers send.
    pub(crate) limits: &'static [Limit],
}

/// A maximum of what a client passes to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) of: Measure,
    pub(crate) max: usize,
    /// In which versions or with which models, after the name of the client; empty if always.
    pub(crate) condition: &'static str,
}

/// What a [`Limit`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    /// Tools of all entries together.
    Tools,
    /// Bytes of the instructions of one entry. The rest is cut.
    Instructions,
    /// Bytes of the description of a tool. The rest is cut.
    Description,
}

/// Of requests to the model, whatever client sends them. Source: github.com/openai/openai-openapi, pull request 76.
pub(crate) const OPENAI_API: Limit = Limit::tools(128, "");

impl Limit {
    const fn tools(max: usize, condition: &'static str) -> Self {
        Self { of: Measure::Tools, max, condition }
    }

    const fn cut(of: Measure, max: usize) -> Self {
        Self { of, max, condition: "" }
    }
}

/// How a client writes servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    /// The language of its files.
    pub(crate) syntax: Syntax,
    /// The keys that lead to the table of servers.
    pub(crate) table: &'static [&'static str],
    /// An entry that runs a program.
    pub(crate) program: &'static [Member],
    /// An entry that connects to a URL. `None` if the client launches all of its servers.
    pub(crate) remote: Option<&'static [Member]>,
    /// Where else its files have servers.
    pub(super) tables: Tables,
    /// The variables that it fills in,
    pub(super) variables: Variables,
    /// except in these keys of a native server.
    pub(super) literal_keys: &'static [&'static str],
    /// The keys of time limits, each with the native key and the seconds of its unit.
    pub(super) time_limits: &'static [(&'static str, &'static str, f64)],
    /// The key of variables that are passed on, by name.
    pub(super) passed_variables: Option<&'static str>,
    /// The key of variables that the client has stored or passes on, by name.
    pub(super) needed_variables: Option<&'static str>,
    /// The key of headers whose values are in variables.
    pub(super) header_variables: Option<&'static str>,
    /// The key of the variable with a bearer token.
    pub(super) token_variable: Option<&'static str>,
    /// What an entry with neither a command nor a URL is.
    pub(super) unlaunched: Unlaunched,
    /// Keys without a meaning for mcpd.
    pub(super) ignored: &'static [&'static str],
}

/// A member of an entry.
pub(crate) type Member = (&'static str, Part);

/// The value of a member. Parts without a value, such as the variables of a program that needs none, are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The same for all servers.
    Text(&'static str),
    /// The same for all servers.
    Flag(bool),
    /// The same for all servers.
    List(&'static [&'static str]),
    /// The name of the entry, again.
    Name,
    /// The program.
    Command,
    /// Its arguments.
    Args,
    /// The program and its arguments.
    CommandLine,
    /// Its variables.
    Env,
    /// The URL of a server.
    Url,
    /// The headers of requests to it.
    Headers,
}

/// Where else a file has servers, beside the table of its dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tables {
    /// Nowhere.
    One,
    /// In a table of this name inside of that table, instead of it.
    Nested(&'static str),
    /// In every table that clients with JSON use.
    Common,
}

/// An entry with neither a command nor a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlaunched {
    /// It lacks one of them.
    Mistake,
    /// It is a part of the client.
    BuiltIn,
    /// Its command is elsewhere: the reason to skip it, and an advice.
    Elsewhere(&'static str, &'static str),
}

/// A client's command that adds a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Adder {
    /// The words before the entry.
    pub(crate) words: &'static [&'static str],
    /// Whether the entry is written in JSON, with its name. Otherwise as name, `--env` for each variable, `--` and command line.
    pub(crate) takes_json: bool,
}

/// A client's command that edits its file, which its running instances rewrite: another edit would be lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Editor {
    /// The program.
    pub(crate) program: &'static str,
    /// The words before scope, name and entry in JSON.
    add: &'static [&'static str],
    /// The words before scope and name.
    remove: &'static [&'static str],
    /// The words for the servers of all projects and for those of one project, both in the user's file.
    scopes: [&'static str; 2],
}

impl Editor {
    /// The arguments that add the entry `name`, whose value is `json`.
    pub(crate) fn add_arguments<'a>(&self, of_project: bool, name: &'a str, json: &'a str) -> Vec<&'a str> {
        [&self.words(self.add, of_project)[..], &[name, json]].concat()
    }

    /// The arguments that remove the entry `name`.
    pub(crate) fn remove_arguments<'a>(&self, of_project: bool, name: &'a str) -> Vec<&'a str> {
        [&self.words(self.remove, of_project)[..], &[name]].concat()
    }

    fn words(&self, command: &[&'static str], of_project: bool) -> Vec<&'static str> {
        [command, &[self.scopes[usize::from(of_project)]]].concat()
    }
}

impl Dialect {
    /// The key of `part` in an entry.
    pub(super) fn key_of(&self, part: Part) -> Option<&'static str> {
        let mut members = self.program.iter().chain(self.remote.unwrap_or_default());
        members.find(|(_, other)| *other == part).map(|(key, _)| *key)
    }

    /// The key of the program, or of the whole command line.
    pub(super) fn command_key(&self) -> &'static str {
        self.key_of(Part::Command).or_else(|| self.key_of(Part::CommandLine)).unwrap_or("command")
    }
}

/// Whether mcpd or a client has `part` of a server at this key.
pub(super) fn is_key_of(part: Part, key: &str) -> bool {
    dialects().any(|dialect| dialect.key_of(part) == Some(key))
}

/// Whether the keys of a table at this key are names of servers, in a file of mcpd or a client.
pub(super) fn names_servers(key: &str) -> bool {
    key == "servers" || dialects().any(|dialect| dialect.table.last() == Some(&key))
}

fn dialects() -> impl Iterator<Item = &'static Dialect> {
    CLIENTS.iter().map(|client| &client.dialect)
}

/// The location of a file or directory.
#[derive(Debug)]
enum Place {
    /// Under the home directory.
    Home(&'static str),
    /// Under `$XDG_CONFIG_HOME`, else `~/.config`.
    Config(&'static str),
    /// In the directory that a variable names, else the one under the home directory.
    Variable { name: &'static str, home: &'static str, file: &'static str },
    /// Under the working directory.
    Project(&'static str),
}

impl Client {
    /// The client with this `word`.
    pub(crate) fn named(word: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.word == word)
    }

    /// The client whose files have this path, or else the only client whose files have this name.
    pub(super) fn of_file(path: &Path) -> Option<&'static Self> {
        let of = |is_its: &dyn Fn(&Path) -> bool| {
            let mut clients =
                CLIENTS.iter().filter(|client| client.all_places().any(|place| is_its(Path::new(place.file()))));
            let client = clients.next();
            client.filter(|_| clients.next().is_none())
        };
        of(&|file| path.ends_with(file)).or_else(|| of(&|file| path.file_name() == file.file_name()))
    }

    fn all_places(&self) -> impl Iterator<Item = &'static Place> {
        self.places.iter().chain(self.other_places)
    }

    /// Files that may have servers, even if they do not exist: the user's files, then the files of the working directory. Each
    /// path occurs once; in the home directory both may be the same file.
    pub(crate) fn files(&self, sources: &dyn Sources) -> Vec<PathBuf> {
        let (of_project, of_user): (Vec<_>, Vec<_>) = self.all_places().partition(|place| place.is_project());
        let mut files = Vec::new();
        for path in of_user.iter().chain(&of_project).filter_map(|place| place.path(sources)) {
            if !files.contains(&path) {
                files.push(path);
            }
        }
        files
    }

    /// The user's file, for all projects.
    pub(crate) fn main_file(&self, sources: &dyn Sources) -> Option<PathBuf> {
        self.places.first()?.path(sources)
    }

    /// The user's file to edit: the first one that exists, else [`Self::main_file`].
    pub(crate) fn user_file(&self, sources: &dyn Sources) -> Option<PathBuf> {
        self.file_to_edit(false, sources)
    }

    /// The file to edit of the project in the working directory: the first one that exists, else the first one. `None` if this client has
    /// none for projects.
    pub(crate) fn project_file(&self, sources: &dyn Sources) -> Option<PathBuf> {
        self.file_to_edit(true, sources)
    }

    fn file_to_edit(&self, in_project: bool, sources: &dyn Sources) -> Option<PathBuf> {
        let places = self.places.iter().filter(|place| place.is_project() == in_project);
        let paths: Vec<_> = places.filter_map(|place| place.path(sources)).collect();
        paths.iter().find(|path| sources.exists(path)).or(paths.first()).cloned()
    }

    /// Whether the user seems to use this client: one of the user's files or a directory of the client exists, or its command is on the `PATH`.
    pub(crate) fn is_present(&self, sources: &dyn Sources) -> bool {
        let of_user = self.all_places().filter(|place| !place.is_project());
        let mut paths = of_user.chain(self.directories).filter_map(|place| place.path(sources));
        let search = sources.var("PATH").unwrap_or_default();
        paths.any(|path| sources.exists(&path))
            || self.commands.iter().any(|command| sources.on_path(command, &search).is_some())
    }

    /// The language of its files.
    pub(crate) fn syntax(&self) -> Syntax {
        self.dialect.syntax
    }

    /// The keys that lead to its table of servers.
    pub(crate) fn servers_table(&self) -> &'static [&'static str] {
        self.dialect.table
    }
}

/// The directory of the project to which the file at `path` belongs. `None` for a file of the user, and for one of an unknown client.
pub(crate) fn project_of(path: &Path, sources: &dyn Sources) -> Option<PathBuf> {
    let places = || CLIENTS.iter().flat_map(Client::all_places);
    let is_users =
        places().filter(|place| !place.is_project()).any(|place| place.path(sources).as_deref() == Some(path));
    let files = places().filter(|place| place.is_project()).map(|place| Path::new(place.file()));
    let depth =
        files.filter(|file| path.ends_with(file)).map(|file| file.components().count()).max().filter(|_| !is_users)?;
    // The home directory is no project.
    let is_elsewhere = |directory: &&Path| directory.is_absolute() && sources.home().as_deref() != Some(directory);
    path.ancestors().nth(depth).filter(is_elsewhere).map(Path::to_owned)
}

impl Place {
    /// The end of the path.
    fn file(&self) -> &'static str {
        match self {
            Self::Home(file) | Self::Config(file) | Self::Project(file) | Self::Variable { file, .. } => file,
        }
    }

    fn is_project(&self) -> bool {
        matches!(self, Self::Project(_))
    }

    fn path(&self, sources: &dyn Sources) -> Option<PathBuf> {
        match self {
            Self::Home(file) => Some(sources.home()?.join(file)),
            Self::Config(file) => Some(sources.config_home()?.join(file)),
            Self::Variable { name, home, file: "" } => sources.directory_or(name, home),
            Self::Variable { name, home, file } => Some(sources.directory_or(name, home)?.join(file)),
            Self::Project(file) => Some(sources.current_dir()?.join(file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::interpolate::tests::table::Table;

    #[test]
    fn files_of_each_client_follow_its_environment_variables() {
        let plain = Table::from([("~", "/h"), (".", "/p")]);
        let set = Table::from([
            ("~", "/h"),
            (".", "/p"),
            ("XDG_CONFIG_HOME", "/x"),
            ("CODEX_HOME", "/c"),
            ("CLAUDE_CONFIG_DIR", "/d"),
            ("COPILOT_HOME", "/o"),
        ]);
        for (word, plain_files, set_files) in [
            ("claude-desktop", "/h/.config/Claude/claude_desktop_config.json", "/x/Claude/claude_desktop_config.json"),
            ("claude-code", "/h/.claude.json /p/.mcp.json", "/d/.claude.json /p/.mcp.json"),
            ("codex", "/h/.codex/config.toml /p/.codex/config.toml", "/c/config.toml /p/.codex/config.toml"),
            ("copilot", "/h/.copilot/mcp-config.json /p/.github/mcp.json", "/o/mcp-config.json /p/.github/mcp.json"),
            ("cursor", "/h/.cursor/mcp.json /p/.cursor/mcp.json", "/h/.cursor/mcp.json /p/.cursor/mcp.json"),
            ("goose", "/h/.config/goose/config.yaml", "/x/goose/config.yaml"),
            (
                "vscode",
                "/h/.config/Code/User/mcp.json /h/.config/Code/User/settings.json /p/.vscode/mcp.json /p/.vscode/settings.json",
                "/x/Code/User/mcp.json /x/Code/User/settings.json /p/.vscode/mcp.json /p/.vscode/settings.json",
            ),
            (
                "opencode",
                "/h/.config/opencode/opencode.json /h/.config/opencode/opencode.jsonc /p/opencode.json /p/opencode.jsonc /p/.opencode/opencode.json /p/.opencode/opencode.jsonc",
                "/x/opencode/opencode.json /x/opencode/opencode.jsonc /p/opencode.json /p/opencode.jsonc /p/.opencode/opencode.json /p/.opencode/opencode.jsonc",
            ),
            ("zed", "/h/.config/zed/settings.json /p/.zed/settings.json", "/x/zed/settings.json /p/.zed/settings.json"),
        ] {
            let client = Client::named(word).expect("known");
            for (sources, expected) in [(&plain, plain_files), (&set, set_files)] {
                let files = client.files(sources);
                assert_eq!(files, expected.split(' ').map(PathBuf::from).collect::<Vec<_>>());
                assert_eq!(client.main_file(sources), files.first().cloned());
            }
        }
        assert!(Client::named("notepad").is_none());
        assert!(CLIENTS.iter().all(|client| client.files(&Table::default()).is_empty()));
    }

    #[test]
    fn file_has_the_client_and_the_project_of_its_path() {
        let sources = Table::from([("~", "/h"), ("XDG_CONFIG_HOME", "/x"), ("CODEX_HOME", "/c/.codex")]);
        for (path, client, project) in [
            ("/p/.mcp.json", Some("claude-code"), Some("/p")),
            ("/p/.cursor/mcp.json", Some("cursor"), Some("/p")),
            ("/p/.vscode/mcp.json", Some("vscode"), Some("/p")),
            ("/p/.vscode/settings.json", Some("vscode"), Some("/p")),
            ("/p/.gemini/settings.json", Some("gemini"), Some("/p")),
            ("/p/.zed/settings.json", Some("zed"), Some("/p")),
            ("/p/.codex/config.toml", Some("codex"), Some("/p")),
            ("/p/opencode.json", Some("opencode"), Some("/p")),
            ("/p/.opencode/opencode.jsonc", Some("opencode"), Some("/p")),
            ("/h/.cursor/mcp.json", Some("cursor"), None),
            ("/h/.mcp.json", Some("claude-code"), None),
            ("/h/.gemini/settings.json", Some("gemini"), None),
            ("/h/.claude.json", Some("claude-code"), None),
            ("/c/.codex/config.toml", Some("codex"), None),
            ("/x/opencode/opencode.json", Some("opencode"), None),
            ("/x/Code/User/mcp.json", Some("vscode"), None),
            ("/copies/claude_desktop_config.json", Some("claude-desktop"), None),
            ("/p/.github/mcp.json", Some("copilot"), Some("/p")),
            ("/h/.cline/data/settings/cline_mcp_settings.json", Some("cline"), None),
            ("/x/goose/config.yaml", Some("goose"), None),
            ("/p/mcp.json", None, None),
            ("/p/settings.json", None, None),
            ("/p/mine.json", None, None),
        ] {
            let found = Client::of_file(Path::new(path)).map(|client| client.word);
            assert_eq!((found, project_of(Path::new(path), &sources)), (client, project.map(PathBuf::from)), "{path}");
        }
    }

    #[test]
    fn file_to_edit_is_the_first_one_that_exists() {
        let user_file = |word: &str, rows: &[(&str, &str)]| {
            let sources = Table::from_rows(&[&[("~", "/h"), (".", "/p")], rows].concat());
            let client = Client::named(word).expect("a client");
            let shown = |path: Option<PathBuf>| path.map_or_else(String::new, |path| path.display().to_string());
            format!("{} {}", shown(client.user_file(&sources)), shown(client.project_file(&sources)))
        };
        let jsonc = "/h/.config/opencode/opencode.jsonc";
        assert_eq!(user_file("opencode", &[]), "/h/.config/opencode/opencode.json /p/opencode.json");
        assert_eq!(user_file("opencode", &[(jsonc, "")]), format!("{jsonc} /p/opencode.json"));
        let both = [(jsonc, ""), ("/h/.config/opencode/opencode.json", ""), ("/p/.opencode/opencode.jsonc", "")];
        assert_eq!(user_file("opencode", &both), "/h/.config/opencode/opencode.json /p/.opencode/opencode.jsonc");
        let older = "/h/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
        assert_eq!(user_file("cline", &[(older, "")]), format!("{older} "));
        // It has its servers in another table.
        let settings = [("/h/.config/Code/User/settings.json", "")];
        assert_eq!(user_file("vscode", &settings), "/h/.config/Code/User/mcp.json /p/.vscode/mcp.json");
    }

    #[test]
    fn client_is_present_by_its_file_its_directory_or_its_command() {
        let present = |row: &str| {
            let sources = Table::from([("~", "/h"), (".", "/p"), ("PATH", "/b"), (row, ""), ("/b/claude mode", "755")]);
            let present = CLIENTS.iter().filter(|client| client.is_present(&sources)).map(|client| client.word);
            present.collect::<Vec<_>>()
        };
        assert_eq!(present("/b"), [""; 0]);
        assert_eq!(present("/h/.claude.json"), ["claude-code"]);
        assert_eq!(present("/h/.claude"), ["claude-code"]);
        assert_eq!(present("/b/claude"), ["claude-code"]);
        assert_eq!(present("/h/.config/Code/User/settings.json"), ["vscode"]);
        assert_eq!(present("/h/.cline"), ["cline"]);
        // That is a project's.
        assert_eq!(present("/p/.cursor/mcp.json"), [""; 0]);
    }

    #[test]
    fn command_of_a_client_edits_the_file_of_the_user_or_of_the_project() {
        let editor = Client::named("claude-code").and_then(|client| client.editor).expect("a command");
        assert_eq!(editor.add_arguments(false, "n", "{}").join(" "), "mcp add-json --scope user n {}");
        assert_eq!(editor.remove_arguments(true, "n").join(" "), "mcp remove --scope local n");
    }

    /// What links and entries rely on.
    #[test]
    fn every_row_is_complete_and_in_order() {
        assert!(CLIENTS.is_sorted_by_key(|client| client.word));
        for Client { word, title, dialect, places, directories, .. } in &CLIENTS {
            let has = |part: Part| dialect.key_of(part).is_some();
            assert!(!title.is_empty() && !dialect.table.is_empty() && !directories.is_empty(), "{word}");
            assert!(places.first().is_some_and(|place| !place.is_project()), "{word}");
            assert!(has(Part::Env) && (has(Part::CommandLine) || has(Part::Command) && has(Part::Args)), "{word}");
            assert_eq!(dialect.remote.is_some(), has(Part::Url) && has(Part::Headers), "{word}");
        }
    }
}
