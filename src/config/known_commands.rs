//! The commands that are known: how to share them, when to start them, which variables and which sandbox they need. Pure.
//!
//! `add` and `import` write what [`advice`] says, `check` and `doctor` compare it with the configuration. [`runner`] says which commands
//! download a server before they run it.

mod invocation;
mod package_word;
mod proposal;
mod runner;
mod runner_call;
mod table;

use std::path::PathBuf;

pub(crate) use self::invocation::runner;
use self::invocation::{Invocation, values};
pub(crate) use self::package_word::{
    PackageWord, Requirement, normalized, package_of, package_words, permits, pinned_args,
};
pub(crate) use self::proposal::{
    CommandLine, FilesObstacle, Proposal, creates_mounts, expanded, named_paths, proposal,
};
pub(crate) use self::runner::{Launcher, Runner, half_written_cache};
pub(crate) use self::runner_call::RunnerCall;
use self::table::{KnownCommand, SandboxNeeds};
use super::Sharing;
use super::interpolate::Sources;
use super::serialize::Setting;

/// The programs of snap packages. All of them are links to `snap`.
const SNAPS: &str = "/snap/bin";
/// Mode bits: set user id, set group id.
const SET_ID: u32 = 0o6000;
/// The option with which a browser opens no window.
const SHOWS_NO_WINDOW: &str = "--headless";
/// The agent's directory, as mcpd's own configuration writes it.
pub(crate) const AGENT_DIRECTORY: &str = "${agent:cwd}";
/// The predicate of a sentence about a command that gains privileges.
const GAINS_PRIVILEGES: &str = "gains privileges, which no sandbox permits";

/// The key with the variables that are passed to a server.
pub(crate) const PASS_ENV: &str = "pass_env";

/// A key that a known command needs.
pub(crate) struct Advice {
    pub(crate) key: &'static str,
    pub(crate) setting: Setting,
    /// The predicate of a sentence about the server.
    pub(crate) why: &'static str,
}

impl Advice {
    /// The key with its value, in TOML.
    pub(crate) fn assignment(&self) -> String {
        self.setting.assignment(self.key)
    }

    /// The value for the configuration, with the reason as its comment.
    pub(crate) fn setting(&self) -> Setting {
        Setting::Explained(Box::new(self.setting.clone()), format!("This server {}.", self.why))
    }
}

/// The keys that this command needs. `has_cwd`: its working directory is configured.
pub(crate) fn advice(command: &str, args: &[String], has_cwd: bool) -> Vec<Advice> {
    let invocation = Invocation::of(command, args);
    let start = invocation.known().any(|known| known.is_stateless).then(|| Advice {
        key: "start",
        setting: Setting::from("lazy"),
        why: "keeps no state, so it runs only while it is called",
    });
    let variables = variables(command, args);
    let pass_env = (!variables.is_empty()).then(|| Advice {
        key: PASS_ENV,
        setting: names(&variables),
        why: "needs these variables of your session",
    });
    sharing(command, args, has_cwd).into_iter().chain(start).chain(pass_env).collect()
}

/// The sharing that this command needs, if it is not `shared`.
pub(crate) fn sharing(command: &str, args: &[String], has_cwd: bool) -> Option<Advice> {
    let invocation = Invocation::of(command, args);
    let known = invocation.known().find_map(|known| {
        let is_set = values(invocation.rest, known.directory_options).next().is_some();
        known.sharing.filter(|_| !is_set)
    });
    let is_agents = |arg: &String| arg.contains(AGENT_DIRECTORY) || (!has_cwd && (arg == "." || arg.starts_with("./")));
    let (sharing, why) = match known {
        Some(Sharing::Session) => ("session", "keeps one state, which agents would change under each other"),
        Some(Sharing::Workspace) => ("workspace", "works in the directory of its agent"),
        _ if args.iter().any(is_agents) => ("workspace", "works in the directory of its agent"),
        _ => return None,
    };
    Some(Advice { key: "sharing", setting: Setting::from(sharing), why })
}

/// The variables beside the common ones that this command needs, if they are set.
pub(crate) fn variables(command: &str, args: &[String]) -> Vec<&'static str> {
    let invocation = Invocation::of(command, args);
    if invocation.is_browser() && invocation.rest.iter().any(|arg| arg == SHOWS_NO_WINDOW) {
        return Vec::new();
    }
    // What runs in a container does not get the variables of its client.
    let client = invocation.container_client().map(|client| [client]);
    let names = client.as_ref().map_or(invocation.names(), <[_; 1]>::as_slice);
    table::known(names).flat_map(|known| known.variables).copied().collect()
}

/// The assignment that passes these variables, in TOML.
pub(crate) fn pass_env(variables: &[&str]) -> String {
    names(variables).assignment(PASS_ENV)
}

fn names(variables: &[&str]) -> Setting {
    Setting::List(variables.iter().map(|name| (*name).to_owned()).collect())
}

/// Whether the command runs a container that gets no stdin.
pub(crate) fn lacks_stdin(command: &str, args: &[String]) -> bool {
    Invocation::of(command, args).lacks_stdin()
}

/// Whether the command asks a person before it installs the server.
pub(crate) fn asks_before_install(command: &str, args: &[String]) -> bool {
    Invocation::of(command, args).asks_before_install()
}

/// Why a command works in no sandbox: the predicate of a sentence about the command. `path` is the server's `PATH`.
pub(crate) fn privilege_problem(command: &str, path: &str, sources: &dyn Sources) -> Option<&'static str> {
    if Invocation::of(command, &[]).known().any(|known| matches!(known.sandbox, SandboxNeeds::Privileges)) {
        return Some(GAINS_PRIVILEGES);
    }
    let found = if command.contains('/') { Some(PathBuf::from(command)) } else { sources.on_path(command, path) };
    let program = found?;
    if program.starts_with(SNAPS) {
        return Some("is a snap, and `snap` gains privileges, which no sandbox permits");
    }
    let mode = sources.permissions(&program).ok()?.first()?.mode;
    (mode & SET_ID != 0)
        .then_some("has a set-user-ID or set-group-ID bit, and no sandbox permits the privileges that this gives")
}

/// The package that this command runs, if it is known to inspect or signal other processes.
pub(crate) fn process_inspecting_package(command: &str, args: &[String]) -> Option<String> {
    let invocation = Invocation::of(command, args);
    let is_it = |known: &KnownCommand| matches!(known.sandbox, SandboxNeeds::OtherProcesses);
    invocation.known().any(is_it).then(|| invocation.package.map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::super::interpolate::tests::table::Table;
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn known_commands_are_recognized_however_they_are_run() {
        let docker = "DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG XDG_RUNTIME_DIR";
        let display = "DISPLAY WAYLAND_DISPLAY XAUTHORITY XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS";
        let browser = format!("sharing=\"session\" pass_env={display}");
        let image = format!("sharing=\"session\" pass_env={docker}");
        for (line, expected) in [
            ("npx -y @playwright/mcp@latest", &*browser),
            ("npx -y --package=@playwright/mcp playwright-mcp", &browser),
            ("pnpm dlx @playwright/mcp --headless", "sharing=\"session\""),
            ("bun x chrome-devtools-mcp", &browser),
            ("/opt/bin/playwright-mcp", &browser),
            ("docker run -i --rm -e A=b mcr.microsoft.com/playwright/mcp:v1@sha256:00", &image),
            ("docker run -i --rm mcp/unknown", &format!("pass_env={docker}")),
            ("docker -H x run mcp/time", &format!("start=\"lazy\" pass_env={docker}")),
            ("docker container run -i mcp/time", &format!("start=\"lazy\" pass_env={docker}")),
            ("env docker run -i mcp/time", &format!("start=\"lazy\" pass_env={docker}")),
            ("docker run -v /a:/b mcp/time", &format!("start=\"lazy\" pass_env={docker}")),
            ("uvx mcp-server-git", "sharing=\"workspace\" start=\"lazy\" pass_env=SSH_AUTH_SOCK"),
            ("uvx mcp-server-git --repository /srv", "start=\"lazy\" pass_env=SSH_AUTH_SOCK"),
            ("uv tool run mcp-server-time==1.0", "start=\"lazy\""),
            ("pipx run --spec mcp-server-time==1.0 mcp-server-time", "start=\"lazy\""),
            ("uvx --from git+https://example.org/serena serena start-mcp-server", "sharing=\"workspace\""),
            ("npx -y @modelcontextprotocol/server-filesystem .", "sharing=\"workspace\" start=\"lazy\""),
            ("npx -y some ./src", "sharing=\"workspace\""),
            ("npx -y some ${agent:cwd}/src", "sharing=\"workspace\""),
            (
                "uvx awslabs.cost-explorer-mcp-server@latest",
                "pass_env=AWS_PROFILE AWS_REGION AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE",
            ),
            ("npx -y some-other-server", ""),
            ("node playwright", ""),
            ("npx", ""),
        ] {
            let words = words(line);
            let found: Vec<_> = advice(&words[0], &words[1..], false)
                .iter()
                .map(|advice| match &advice.setting {
                    Setting::Text(text) => format!("{}=\"{text}\"", advice.key),
                    Setting::List(names) => format!("{}={}", advice.key, names.join(" ")),
                    _ => String::new(),
                })
                .collect();
            assert_eq!(found.join(" "), expected, "{line}");
        }
        assert!(sharing("npx", &words("-y some ."), true).is_none(), "its directory is configured");
    }

    #[test]
    fn npx_asks_before_it_installs_unless_an_option_answers() {
        for (line, expected) in [
            ("npx some", true),
            ("npx --package=x some", true),
            ("npm exec some", true),
            ("env npx some", true),
            ("npm --yes exec some", false),
            ("npx some -y", true),
            ("npx -y some", false),
            ("npx --yes some", false),
            ("npx --no-install some", false),
            ("npx --no some", false),
            ("npm exec -y -- some", false),
            ("npx", false),
            ("uvx some", false),
            ("bunx some", false),
            ("npm start", false),
        ] {
            let words = words(line);
            assert_eq!(asks_before_install(&words[0], &words[1..]), expected, "{line}");
        }
    }

    #[test]
    fn commands_that_gain_privileges_are_recognized_by_name() {
        let sources = Table::from([("~", "/home/u")]);
        for (command, expected) in
            [("sudo", true), ("/usr/bin/pkexec", true), ("/snap/bin/code", true), ("npx", false), ("sudoku", false)]
        {
            assert_eq!(privilege_problem(command, "/usr/bin", &sources).is_some(), expected, "{command}");
        }
    }
}
