//! The clients that mcpd knows: one table of where each stores its servers on Linux, and what its files mean.
//!
//! Pure: it reads the environment through [`Sources`] only. `read/clients` parses the files.

use std::path::{Path, PathBuf};

use super::interpolate::Sources;

/// The keys that a file uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The common JSON: Claude Desktop, Claude Code, Cursor, VS Code, Windsurf.
    Json,
    /// `context_servers`, whose command may be an object.
    Zed,
    /// JSON of Gemini CLI.
    Gemini,
    /// JSON of OpenCode.
    OpenCode,
    /// TOML of Codex.
    Codex,
}

/// Which references to environment variables a client expands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variables {
    /// No references at all: Codex, Claude Desktop, Zed.
    Never,
    /// `${NAME}` and `${NAME:-default}`: Claude Code.
    Braces,
    /// `${NAME}`, `${NAME:-default}` and `$NAME`: Gemini CLI.
    Dollar,
    /// `${env:NAME}`: Cursor, VS Code, Windsurf.
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
    /// The keys of its files.
    pub(crate) dialect: Dialect,
    /// The variables that it fills in.
    pub(super) variables: Variables,
    /// The table of servers, and the `type` of a program there, as mcpd writes them.
    pub(crate) table: (&'static str, Option<&'static str>),
    /// The first is the user's file, for all projects.
    places: &'static [Place],
}

/// The location of a file.
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

/// All clients, ordered by `word`.
pub(crate) const CLIENTS: [Client; 9] = [
    Client {
        word: "claude-code",
        title: "Claude Code",
        dialect: Dialect::Json,
        variables: Variables::Braces,
        table: ("mcpServers", Some("stdio")),
        places: &[
            Place::Variable { name: "CLAUDE_CONFIG_DIR", home: "", file: ".claude.json" },
            Place::Project(".mcp.json"),
        ],
    },
    Client {
        word: "claude-desktop",
        title: "Claude Desktop",
        dialect: Dialect::Json,
        variables: Variables::Never,
        table: ("mcpServers", None),
        places: &[Place::Config("Claude/claude_desktop_config.json")],
    },
    Client {
        word: "codex",
        title: "Codex",
        dialect: Dialect::Codex,
        variables: Variables::Never,
        table: ("mcp_servers", None),
        places: &[
            Place::Variable { name: "CODEX_HOME", home: ".codex", file: "config.toml" },
            Place::Project(".codex/config.toml"),
        ],
    },
    Client {
        word: "cursor",
        title: "Cursor",
        dialect: Dialect::Json,
        variables: Variables::Prefixed,
        table: ("mcpServers", None),
        places: &[Place::Home(".cursor/mcp.json"), Place::Project(".cursor/mcp.json")],
    },
    Client {
        word: "gemini",
        title: "Gemini CLI",
        dialect: Dialect::Gemini,
        variables: Variables::Dollar,
        table: ("mcpServers", None),
        places: &[Place::Home(".gemini/settings.json"), Place::Project(".gemini/settings.json")],
    },
    // Source: opencode.ai/docs/config and opencode.ai/docs/migrate-v1, "Use your existing configuration".
    Client {
        word: "opencode",
        title: "OpenCode",
        dialect: Dialect::OpenCode,
        variables: Variables::Bare,
        table: ("mcp", None),
        places: &[
            Place::Config("opencode/opencode.json"),
            Place::Config("opencode/opencode.jsonc"),
            Place::Project("opencode.json"),
            Place::Project("opencode.jsonc"),
            Place::Project(".opencode/opencode.json"),
            Place::Project(".opencode/opencode.jsonc"),
        ],
    },
    Client {
        word: "vscode",
        title: "VS Code",
        dialect: Dialect::Json,
        variables: Variables::Prefixed,
        table: ("servers", Some("stdio")),
        places: &[
            Place::Config("Code/User/mcp.json"),
            Place::Config("Code/User/settings.json"),
            Place::Project(".vscode/mcp.json"),
            Place::Project(".vscode/settings.json"),
        ],
    },
    Client {
        word: "windsurf",
        title: "Windsurf",
        dialect: Dialect::Json,
        variables: Variables::Prefixed,
        table: ("mcpServers", None),
        places: &[Place::Home(".codeium/windsurf/mcp_config.json"), Place::Home(".codeium/mcp_config.json")],
    },
    Client {
        word: "zed",
        title: "Zed",
        dialect: Dialect::Zed,
        variables: Variables::Never,
        table: ("context_servers", None),
        places: &[Place::Config("zed/settings.json"), Place::Project(".zed/settings.json")],
    },
];

impl Client {
    /// The client with this `word`.
    pub(crate) fn named(word: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.word == word)
    }

    /// The client whose files have this path, or else the only client whose files have this name.
    pub(super) fn of_file(path: &Path) -> Option<&'static Self> {
        let of = |is_its: &dyn Fn(&Path) -> bool| {
            let mut clients =
                CLIENTS.iter().filter(|client| client.places.iter().any(|place| is_its(Path::new(place.file()))));
            let client = clients.next();
            client.filter(|_| clients.next().is_none())
        };
        of(&|file| path.ends_with(file)).or_else(|| of(&|file| path.file_name() == file.file_name()))
    }

    /// Files that may have servers, even if they do not exist: the user's files, then the files of the working directory. Each
    /// path occurs once; in the home directory both may be the same file.
    pub(crate) fn files(&self, sources: &dyn Sources) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for path in self.places.iter().filter_map(|place| place.path(sources)) {
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
}

/// The directory of the project to which the file at `path` belongs. `None` for a file of the user, and for one of an unknown client.
pub(crate) fn project_of(path: &Path, sources: &dyn Sources) -> Option<PathBuf> {
    let places = || CLIENTS.iter().flat_map(|client| client.places);
    let is_project = |place: &&Place| matches!(place, Place::Project(_));
    let is_users =
        places().filter(|place| !is_project(place)).any(|place| place.path(sources).as_deref() == Some(path));
    let files = places().filter(is_project).map(|place| Path::new(place.file())).filter(|file| path.ends_with(file));
    let depth = files.map(|file| file.components().count()).max().filter(|_| !is_users)?;
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

    fn path(&self, sources: &dyn Sources) -> Option<PathBuf> {
        match self {
            Self::Home(file) => Some(sources.home()?.join(file)),
            Self::Config(file) => Some(sources.config_home()?.join(file)),
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
        ]);
        for (word, plain_files, set_files) in [
            ("claude-desktop", "/h/.config/Claude/claude_desktop_config.json", "/x/Claude/claude_desktop_config.json"),
            ("claude-code", "/h/.claude.json /p/.mcp.json", "/d/.claude.json /p/.mcp.json"),
            ("codex", "/h/.codex/config.toml /p/.codex/config.toml", "/c/config.toml /p/.codex/config.toml"),
            ("cursor", "/h/.cursor/mcp.json /p/.cursor/mcp.json", "/h/.cursor/mcp.json /p/.cursor/mcp.json"),
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
            ("/p/mcp.json", None, None),
            ("/p/settings.json", None, None),
            ("/p/mine.json", None, None),
        ] {
            let found = Client::of_file(Path::new(path)).map(|client| client.word);
            assert_eq!((found, project_of(Path::new(path), &sources)), (client, project.map(PathBuf::from)), "{path}");
        }
    }
}
