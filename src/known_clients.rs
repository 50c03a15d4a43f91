//! The clients that mcpd knows, and where each stores its servers on Linux.
//!
//! Pure: it reads the environment through [`Sources`] only. `config/read/clients` parses their files; `entry` formats entries for
//! them.

mod entry;

use std::path::PathBuf;

pub(crate) use self::entry::{Program, shell_word};
use crate::config::interpolate::Sources;

/// A program that is configured with MCP servers.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its name on the command line.
    pub(crate) word: &'static str,
    /// Its product name.
    pub(crate) title: &'static str,
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
        places: &[
            Place::Variable { name: "CLAUDE_CONFIG_DIR", home: "", file: ".claude.json" },
            Place::Project(".mcp.json"),
        ],
    },
    Client {
        word: "claude-desktop",
        title: "Claude Desktop",
        places: &[Place::Config("Claude/claude_desktop_config.json")],
    },
    Client {
        word: "codex",
        title: "Codex",
        places: &[
            Place::Variable { name: "CODEX_HOME", home: ".codex", file: "config.toml" },
            Place::Project(".codex/config.toml"),
        ],
    },
    Client {
        word: "cursor",
        title: "Cursor",
        places: &[Place::Home(".cursor/mcp.json"), Place::Project(".cursor/mcp.json")],
    },
    Client {
        word: "gemini",
        title: "Gemini CLI",
        places: &[Place::Home(".gemini/settings.json"), Place::Project(".gemini/settings.json")],
    },
    // Source: opencode.ai/docs/config and opencode.ai/docs/migrate-v1, "Use your existing configuration".
    Client {
        word: "opencode",
        title: "OpenCode",
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
        places: &[Place::Home(".codeium/windsurf/mcp_config.json"), Place::Home(".codeium/mcp_config.json")],
    },
    Client {
        word: "zed",
        title: "Zed",
        places: &[Place::Config("zed/settings.json"), Place::Project(".zed/settings.json")],
    },
];

impl Client {
    /// The client with this `word`.
    pub(crate) fn named(word: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.word == word)
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

    /// The [`Client::files`] that belong to the project in the working directory.
    pub(crate) fn project_files(&self, sources: &dyn Sources) -> Vec<PathBuf> {
        let (project, user): (Vec<_>, Vec<_>) =
            self.places.iter().partition(|place| matches!(place, Place::Project(_)));
        let paths =
            |places: Vec<&Place>| -> Vec<_> { places.into_iter().filter_map(|place| place.path(sources)).collect() };
        // In the home directory both may be the same file.
        let user = paths(user);
        paths(project).into_iter().filter(|path| !user.contains(path)).collect()
    }

    /// The user's file, for all projects.
    pub(crate) fn main_file(&self, sources: &dyn Sources) -> Option<PathBuf> {
        self.places.first()?.path(sources)
    }
}

impl Place {
    fn path(&self, sources: &dyn Sources) -> Option<PathBuf> {
        match self {
            Self::Home(file) => Some(sources.home()?.join(file)),
            Self::Config(file) => Some(sources.base_directory("XDG_CONFIG_HOME", ".config")?.join(file)),
            Self::Variable { name, home, file } => Some(sources.base_directory(name, home)?.join(file)),
            Self::Project(file) => Some(sources.current_dir()?.join(file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::interpolate::table::Table;

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
}
