//! What manual pages say beside the text of `--help`. Pure.

/// A line to type, and what it does.
pub(super) type Example = (&'static str, &'static str);

/// The exit codes of all commands.
pub(super) const EXITS: [(&str, &str); 4] = [
    ("0", "All is well, or was done."),
    ("1", "A server is failed, in backoff or unresponsive, a call failed, or something else did."),
    ("2", "The command line or the configuration is wrong; nothing was done."),
    ("3", "No daemon is running."),
];

/// The variables that are read.
pub(super) const ENVIRONMENT: [(&str, &str); 7] = [
    ("XDG_RUNTIME_DIR", "The sockets are in its directory mcpd."),
    ("XDG_CONFIG_HOME", "The configuration is in its directory mcpd; without it that is ~/.config/mcpd."),
    ("XDG_CACHE_HOME", "What servers offer is kept in its directory mcpd; without it that is ~/.cache/mcpd."),
    ("MCPD_KEY", "Sets KEY of [daemon], as MCPD_CALL_LOG does, on top of all files."),
    ("RUST_LOG", "What the daemon logs, unless --log says so."),
    (
        "CREDENTIALS_DIRECTORY",
        "Where the references ${cred:NAME} of a configuration are looked up, as systemd sets it.",
    ),
    ("NO_COLOR", "Without colours, if it is set to anything."),
];

/// The files that are read and made.
pub(super) const FILES: [(&str, &str); 7] = [
    ("/etc/mcpd/config.toml", "The configuration of the machine, below that of the user."),
    ("~/.config/mcpd/config.toml", "The configuration of the user."),
    ("~/.config/mcpd/config.d/*.toml", "More of it, in the order of the names."),
    ("$XDG_RUNTIME_DIR/mcpd/mcp.sock", "Where agents connect: MCP, one JSON-RPC message a line."),
    ("$XDG_RUNTIME_DIR/mcpd/PROFILE.sock", "The same for agents of one profile."),
    ("$XDG_RUNTIME_DIR/mcpd/admin.sock", "Where these commands ask the daemon. Not for agents."),
    (
        "/run/user/UID/mcpd, ~/.local/state/mcpd/run",
        "In the place of $XDG_RUNTIME_DIR/mcpd without that variable: the first if /run/user/UID is the user's.",
    ),
];

/// Examples of a command, by the title of its page.
pub(super) fn examples(title: &str) -> &'static [Example] {
    match title {
        "mcpd" => &[
            ("mcpd demo", "Shows what it does, with nothing configured."),
            ("mcpd import", "Takes the servers of other clients over, after a look at what would be written."),
            ("mcpd serve", "Runs the daemon."),
            ("mcpd connect --print claude-code", "Says what has Claude Code use it."),
        ],
        "mcpd-serve" => &[
            ("mcpd serve", "Serves what the default files configure."),
            ("mcpd serve --config servers.toml --runtime-dir /tmp/try", "Serves this file, beside another daemon."),
        ],
        "mcpd-status" => &[
            ("mcpd status", "Shows servers, agents and sockets."),
            ("mcpd status --check --json", "Asks each server first, and prints all as JSON."),
        ],
        "mcpd-tools" => &[
            ("mcpd tools", "Lists what agents of the default profile see."),
            ("mcpd tools files --all", "Lists all that a server has, and what hides a part of it."),
            ("mcpd tools files__read_file", "Tells what one tool takes."),
        ],
        "mcpd-call" => &[
            (
                "mcpd call files__read_file path=notes.md head=20",
                "Calls a tool, its arguments by the types that it wants.",
            ),
            ("mcpd call files__read_file '{\"path\":\"notes.md\"}'", "The same as JSON."),
            ("mcpd call browser__screenshot url=https://example.org -o page.png", "Saves an image."),
        ],
        "mcpd-calls" => &[("mcpd calls -f --server files", "Shows the calls of one server as they end.")],
        "mcpd-logs" => &[("mcpd logs files -f", "Shows what a server writes to stderr.")],
        "mcpd-disable" => {
            &[("mcpd disable files", "Hides all of a server."), ("mcpd disable files/write_file", "Hides one tool.")]
        }
        "mcpd-add" => &[
            (
                "mcpd add files npx -y @modelcontextprotocol/server-filesystem ~/notes",
                "Adds a server to the configuration.",
            ),
            ("mcpd add search https://example.org/mcp", "Adds one that is reached at a URL."),
        ],
        "mcpd-import" => &[("mcpd import --from cursor --dry-run", "Shows what would be taken over of Cursor.")],
        "mcpd-check" => &[("mcpd check --strict", "Exits with 1 also if there are only warnings.")],
        "mcpd-connect" => &[
            ("mcpd connect --profile reviewer", "Joins an agent that launches commands to one profile."),
            ("mcpd connect --print codex", "Prints what Codex is to be configured with."),
        ],
        "mcpd-completions" => &[
            ("source <(mcpd completions bash)", "Completes in this shell."),
            ("mcpd completions fish > ~/.config/fish/completions/mcpd.fish", "Completes in every fish."),
        ],
        "mcpd-man" => &[("mcpd man ~/.local/share/man/man1", "Installs the pages for this user.")],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::arguments::Arguments;

    #[test]
    fn every_example_is_a_command_of_its_page() {
        let mut program = Arguments::command();
        program.build();
        let titles = program.get_subcommands().map(|command| format!("mcpd-{}", command.get_name()));
        let mut seen = 0;
        for title in titles.chain(["mcpd".to_owned()]) {
            for (line, _) in examples(&title) {
                seen += 1;
                let words = line.trim_start_matches("source <(").trim_end_matches(')').replace('\'', "");
                let words = words.split(" > ").next().unwrap_or_default().split(' ').map(str::to_owned);
                let words: Vec<_> = words.collect();
                Arguments::try_parse_from(&words).unwrap_or_else(|error| panic!("{line}: {error}"));
                assert!(title == "mcpd" || format!("mcpd-{}", words[1]) == title, "{title}: {line}");
            }
        }
        assert!(seen > 20);
    }
}
