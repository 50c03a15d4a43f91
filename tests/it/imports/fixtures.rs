//! Sample files of each client, and stand-ins for the programs that they name.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::{MCPD, Place, Ran, SCRIPTED, Setup, run};

/// A sample file, where it belongs, and what is in it.
pub(super) struct Fixture {
    pub(super) file: &'static str,
    /// What the command line calls its client.
    pub(super) word: &'static str,
    /// Below the place of the test.
    to: &'static str,
    pub(super) local: &'static [&'static str],
    pub(super) by_workspace: &'static [&'static str],
    pub(super) remote: &'static [&'static str],
    /// Whether the file leaves one tool of two.
    pub(super) only_echo: bool,
}

const NONE: Fixture =
    Fixture { file: "", word: "", to: "", local: &[], by_workspace: &[], remote: &[], only_echo: false };

pub(super) const FILES: &[Fixture] = &[
    Fixture {
        file: "claude_desktop_config.json",
        word: "claude-desktop",
        to: "xdg-config/Claude/claude_desktop_config.json",
        local: &["desk-files", "Desk-Notes"],
        ..NONE
    },
    Fixture {
        file: "claude.json",
        word: "claude-code",
        to: "home/.claude.json",
        local: &["memory", "weather"],
        remote: &["tracker"],
        ..NONE
    },
    Fixture { file: "mcp.json", word: "claude-code", to: ".mcp.json", local: &["issues"], ..NONE },
    Fixture {
        file: "cursor.json",
        word: "cursor",
        to: "home/.cursor/mcp.json",
        by_workspace: &["code"],
        remote: &["search"],
        ..NONE
    },
    Fixture {
        file: "vscode.json",
        word: "vscode",
        to: ".vscode/mcp.json",
        local: &["clock"],
        remote: &["shop", "maps"],
        ..NONE
    },
    Fixture {
        file: "vscode_settings.json",
        word: "vscode",
        to: "xdg-config/Code/User/settings.json",
        local: &["old-clock"],
        ..NONE
    },
    Fixture {
        file: "windsurf.json",
        word: "windsurf",
        to: "home/.codeium/windsurf/mcp_config.json",
        local: &["plans"],
        remote: &["docs"],
        only_echo: true,
        ..NONE
    },
    Fixture {
        file: "zed.json",
        word: "zed",
        to: "xdg-config/zed/settings.json",
        local: &["prose", "older-prose"],
        ..NONE
    },
    Fixture {
        file: "gemini.json",
        word: "gemini",
        to: "home/.gemini/settings.json",
        local: &["charts"],
        remote: &["stars"],
        only_echo: true,
        ..NONE
    },
    Fixture {
        file: "opencode.json",
        word: "opencode",
        to: "xdg-config/opencode/opencode.json",
        local: &["maps-offline"],
        remote: &["library"],
        ..NONE
    },
    Fixture {
        file: "cline.json",
        word: "cline",
        to: "home/.cline/data/settings/cline_mcp_settings.json",
        local: &["sketches", "folders"],
        remote: &["posters"],
        ..NONE
    },
    Fixture {
        file: "copilot.json",
        word: "copilot",
        to: "home/.copilot/mcp-config.json",
        local: &["errands"],
        remote: &["parcels"],
        ..NONE
    },
    Fixture {
        file: "goose.yaml",
        word: "goose",
        to: "xdg-config/goose/config.yaml",
        local: &["orchard"],
        remote: &["stalls"],
        only_echo: true,
        ..NONE
    },
    Fixture {
        file: "codex.toml",
        word: "codex",
        to: "home/.codex/config.toml",
        local: &["ledger"],
        remote: &["archive"],
        only_echo: true,
        ..NONE
    },
];

impl Fixture {
    /// Puts the file where its client has it.
    pub(super) fn put(&self, place: &Place) -> PathBuf {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/clients").join(self.file);
        let to = place.path(self.to);
        fs::create_dir_all(to.parent().expect("a directory")).expect("the test's own directory is writable");
        let text = fs::read_to_string(from).expect("a fixture");
        for project in ["garden", "kitchen"] {
            fs::create_dir_all(place.path("srv").join(project)).expect("the test's own directory is writable");
        }
        let projects = format!("\"{}/", place.path("srv").display());
        fs::write(&to, text.replace("\"/srv/", &projects)).expect("the test's own directory is writable");
        to
    }

    /// One of its servers.
    pub(super) fn any(&self) -> &str {
        self.local.first().or(self.by_workspace.first()).expect("a server")
    }
}

/// Puts all of them.
pub(super) fn everything(place: &Place) -> Vec<PathBuf> {
    FILES.iter().map(|fixture| fixture.put(place)).collect()
}

/// Where our own configuration is.
pub(super) fn place_of(place: &Place) -> PathBuf {
    place.path("xdg-config/mcpd/config.toml")
}

/// Programs by the names that configurations have for them: scripted servers with two tools, which leave behind how they
/// were started.
pub(super) struct Shims {
    directory: PathBuf,
}

impl Shims {
    pub(super) fn new(place: &Place) -> Self {
        let directory = place.path("shims");
        fs::create_dir_all(&directory).expect("the test's own directory is writable");
        fs::create_dir_all(place.path("work")).expect("the test's own directory is writable");
        for name in ["npx", "uvx"] {
            let path = directory.join(name);
            let script = format!(
                "#!/bin/sh\n{{ echo \"$@\"; env; }} > '{0}'/$$.new\nmv '{0}'/$$.new '{0}'/$$.seen\n\
                 exec '{SCRIPTED}' --bare --tool echo --tool refuse\n",
                directory.display()
            );
            fs::write(&path, script).expect("the test's own directory is writable");
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("one's own file");
        }
        Self { directory }
    }

    fn path(&self) -> String {
        format!("{}:{}", self.directory.display(), std::env::var("PATH").expect("PATH is set"))
    }

    /// Runs mcpd, which finds them first.
    pub(super) fn mcpd(&self, place: &Place, args: &[&str]) -> Ran {
        run(place.command(MCPD).args(args).arg("--runtime-dir").arg(place.runtime_dir()).env("PATH", self.path()))
    }

    /// A daemon that finds them first.
    pub(super) fn on_path(&self, setup: Setup) -> Setup {
        let setup = setup.variable("PATH", &self.path());
        setup.variable("LEDGER_HOST", "ledger.example.org")
    }

    /// The arguments of the server that was started with one that ends in `program`.
    pub(super) fn arguments(&self, program: &str) -> String {
        self.started(program).lines().next().unwrap_or_default().to_owned()
    }

    /// The variable `name` of its environment.
    pub(super) fn seen(&self, program: &str, name: &str) -> Option<String> {
        let line = format!("{name}=");
        self.started(program).lines().find_map(|seen| seen.strip_prefix(&line).map(str::to_owned))
    }

    fn started(&self, program: &str) -> String {
        let files = fs::read_dir(&self.directory).expect("a directory").map(|entry| entry.expect("an entry").path());
        let seen = files.filter(|path| path.extension().is_some_and(|kind| kind == "seen"));
        let mut texts = seen.map(|path| fs::read_to_string(path).expect("text"));
        let is_it =
            |text: &String| text.lines().next().is_some_and(|line| line.split(' ').any(|arg| arg.ends_with(program)));
        texts.find(is_it).unwrap_or_else(|| panic!("{program} was not started"))
    }
}
