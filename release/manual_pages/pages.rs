//! The parts of manual pages that `--help` does not have. Pure.

/// A command line and its effect.
pub(super) type Example = (&'static str, &'static str);

pub(super) const EXIT_CODES: [(&str, &str); 4] = [
    ("0", "Success."),
    ("1", "The command failed, or a server is failed, in backoff or unresponsive."),
    ("2", "The command line or the configuration is wrong. Nothing was done."),
    ("3", "No daemon is running."),
];

pub(super) const ENVIRONMENT: [(&str, &str); 7] = [
    ("XDG_RUNTIME_DIR", "The sockets are in its subdirectory mcpd."),
    ("XDG_CONFIG_HOME", "The configuration is in its subdirectory mcpd. Default: ~/.config."),
    ("XDG_CACHE_HOME", "Lists of servers are cached in its subdirectory mcpd. Default: ~/.cache."),
    ("MCPD_KEY", "Sets KEY of [daemon], for example MCPD_CALL_LOG. Overrides all files."),
    ("RUST_LOG", "Log filter of the daemon, unless --log is given."),
    ("CREDENTIALS_DIRECTORY", "Directory of the files for ${cred:NAME} in the configuration. systemd sets it."),
    ("NO_COLOR", "If set to any value, output has no colours."),
];

/// For the page of every command.
pub(super) const FILES: [(&str, &str); 4] = [
    ("/etc/mcpd/config.toml", "Configuration of the machine. Files of the user override it."),
    ("~/.config/mcpd/config.toml", "Configuration of the user."),
    ("~/.config/mcpd/config.d/*.toml", "Additional configuration, read in the order of the names."),
    ("$XDG_RUNTIME_DIR/mcpd/admin.sock", "Operator socket for these commands. Not for agents."),
];

/// For the page of mcpd only.
pub(super) const OTHER_FILES: [(&str, &str); 5] = [
    ("$XDG_RUNTIME_DIR/mcpd/mcp.sock", "Agent socket of the default profile: MCP, one JSON-RPC message per line."),
    ("$XDG_RUNTIME_DIR/mcpd/PROFILE.sock", "Agent socket of another profile."),
    ("/run/user/UID/mcpd", "Used if XDG_RUNTIME_DIR is not set and /run/user/UID belongs to the user."),
    ("~/.local/state/mcpd/run", "Used otherwise."),
    ("~/.cache/mcpd", "Cached lists of servers."),
];

/// The examples of each page, by its title.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "mcpd",
        &[
            ("mcpd demo", "Shows what mcpd does. Needs no configuration."),
            ("mcpd import", "Shows the servers of other clients, and adds them to the configuration."),
            ("mcpd service install", "Runs the daemon now and at each login."),
            ("mcpd connect --print claude-code", "Prints the entry that connects Claude Code."),
        ],
    ),
    (
        "mcpd-serve",
        &[
            ("mcpd serve", "Runs the daemon with the default configuration files."),
            ("mcpd serve --config servers.toml --runtime-dir /tmp/try", "Runs a second daemon with another file."),
        ],
    ),
    (
        "mcpd-start",
        &[
            ("mcpd start", "Starts the daemon and waits until it accepts connections."),
            ("mcpd start --config servers.toml", "Starts it with another configuration."),
        ],
    ),
    ("mcpd-stop", &[("mcpd stop", "Stops the daemon and all servers.")]),
    (
        "mcpd-status",
        &[
            ("mcpd status", "Shows problems, servers, agents and profiles."),
            ("mcpd status --check --json", "Checks every server first, and prints the report as JSON."),
            ("mcpd status --watch", "Updates the view every second."),
        ],
    ),
    (
        "mcpd-tools",
        &[
            ("mcpd tools", "Lists the tools that agents of the default profile see."),
            ("mcpd tools files --all", "Lists every tool of a server, with what hides it."),
            ("mcpd tools files__read_file", "Describes one tool and its arguments."),
        ],
    ),
    (
        "mcpd-call",
        &[
            ("mcpd call files__read_file path=notes.md head=20", "Converts arguments to the types in the schema."),
            ("mcpd call files__read_file '{\"path\":\"notes.md\"}'", "Passes the arguments as JSON."),
            ("mcpd call browser__screenshot url=https://example.org -o page.png", "Saves an image."),
        ],
    ),
    (
        "mcpd-top",
        &[
            ("mcpd top --sort errors", "Lists servers with the most errors first."),
            ("mcpd top --json", "Prints the statistics of the last minute as JSON."),
        ],
    ),
    (
        "mcpd-metrics",
        &[("mcpd metrics", "Prints all metrics."), ("mcpd metrics > metrics.txt", "Writes them to a file.")],
    ),
    (
        "mcpd-dashboard",
        &[
            ("mcpd dashboard", "Opens the page in your browser."),
            ("mcpd dashboard --no-open", "Prints an address for a browser behind a forwarded port."),
            ("mcpd dashboard --stop", "Ends the process that serves the page."),
        ],
    ),
    ("mcpd-calls", &[("mcpd calls -f --server files", "Shows the calls to one server as they end.")]),
    ("mcpd-logs", &[("mcpd logs files -f", "Shows what a server writes to stderr.")]),
    (
        "mcpd-tap",
        &[
            ("mcpd tap files --method 'tools/*'", "Shows what one server receives and sends about tools."),
            ("mcpd tap claude-code -o tap.jsonl", "Writes the messages of one agent to a file."),
        ],
    ),
    (
        "mcpd-bugreport",
        &[
            ("mcpd bugreport", "Writes an archive into the working directory."),
            ("mcpd bugreport --tap 30s", "Also records all messages of 30 seconds."),
        ],
    ),
    (
        "mcpd-diff",
        &[
            ("mcpd diff files", "Shows what a server has changed, word by word."),
            ("mcpd diff --exit-code > /dev/null", "Exits with 1 if anything is not approved."),
        ],
    ),
    (
        "mcpd-approve",
        &[
            ("mcpd approve files read_file", "Shows and approves the changed definition of one tool."),
            ("mcpd approve files --all", "Shows and approves everything that is not approved."),
            ("mcpd approve files prompt:summarize instructions", "Approves a prompt and the instructions."),
        ],
    ),
    ("mcpd-reject", &[("mcpd reject files send_file", "Adds the tool to deny, and applies that.")]),
    (
        "mcpd-restart",
        &[
            ("mcpd restart", "Restarts the daemon with the installed program."),
            ("mcpd restart files", "Restarts a server and waits until it is ready."),
            ("mcpd restart --all", "Restarts every enabled server."),
        ],
    ),
    (
        "mcpd-disable",
        &[
            ("mcpd disable files", "Hides every tool of a server."),
            ("mcpd disable files/write_file", "Hides one tool."),
        ],
    ),
    ("mcpd-enable", &[("mcpd enable files/write_file", "Shows a disabled tool again.")]),
    (
        "mcpd-add",
        &[
            (
                "mcpd add files npx -y @modelcontextprotocol/server-filesystem ~/notes",
                "Adds a server that is a command.",
            ),
            ("mcpd add search https://example.org/mcp", "Adds a server at a URL."),
        ],
    ),
    (
        "mcpd-try",
        &[
            ("mcpd try npx -y some-server ~/notes", "Shows what a server offers and touches."),
            (
                "mcpd try npx -y @modelcontextprotocol/server-filesystem ~/notes --keep files",
                "Adds it with the grants that you accept, in this version.",
            ),
            ("mcpd try --call echo message=hi -- npx -y some-server", "Calls a tool of it."),
        ],
    ),
    ("mcpd-edit", &[("mcpd edit", "Edits the configuration, and applies it.")]),
    ("mcpd-remove", &[("mcpd remove files", "Removes a server from the configuration.")]),
    ("mcpd-import", &[("mcpd import cursor --dry-run", "Shows which servers of Cursor would be imported.")]),
    (
        "mcpd-setup",
        &[
            ("mcpd setup", "Imports servers, runs the daemon and links the clients, with a question for each step."),
            ("mcpd setup --undo", "Gives everything back as it was."),
        ],
    ),
    ("mcpd-link", &[("mcpd link codex --take-over", "Has Codex use mcpd instead of its own copies of servers.")]),
    ("mcpd-unlink", &[("mcpd unlink codex", "Gives the file of Codex back as it was.")]),
    ("mcpd-skill", &[("mcpd skill > ~/.claude/skills/mcpd/SKILL.md", "Saves the skill for Claude Code.")]),
    (
        "mcpd-reload",
        &[
            ("mcpd reload", "Applies the changed configuration."),
            ("mcpd reload --log-level info,mcpd::session=debug", "Logs sessions in detail, until the daemon ends."),
        ],
    ),
    ("mcpd-doctor", &[("mcpd doctor files", "Finds the problems of one server.")]),
    (
        "mcpd-lock",
        &[
            ("mcpd lock", "Writes the versions that run, after a confirmation."),
            ("mcpd lock --check --config dotfiles/mcpd.toml", "Exits with 1 if a server may run another version."),
        ],
    ),
    (
        "mcpd-sandbox",
        &[
            ("mcpd sandbox files", "Starts your shell in the sandbox of a server."),
            ("mcpd sandbox files -- ls -la ~/notes", "Shows what the server sees of a directory."),
        ],
    ),
    ("mcpd-login", &[("mcpd login tracker", "Logs in to a server in a browser.")]),
    ("mcpd-logout", &[("mcpd logout tracker", "Revokes the login of a server.")]),
    ("mcpd-token", &[("mcpd token --rotate", "Replaces the token of the default profile, and prints the new one.")]),
    ("mcpd-check", &[("mcpd check --strict", "Exits with 1 if there are only warnings.")]),
    (
        "mcpd-connect",
        &[
            ("mcpd connect --profile reviewer", "Connects an agent that launches commands to a profile."),
            ("mcpd connect --server files", "Connects it to one server, under the server's own tool names."),
            ("mcpd connect --print codex", "Prints the configuration entry for Codex."),
            ("mcpd connect --print vscode --http", "Prints the entry with which VS Code connects over HTTP."),
            ("mcpd connect --print claude-code --each", "Prints one entry per server of the profile."),
        ],
    ),
    (
        "mcpd-completions",
        &[
            ("source <(mcpd completions bash)", "Enables completions in this shell."),
            ("mcpd completions fish > ~/.config/fish/completions/mcpd.fish", "Enables completions in every fish."),
        ],
    ),
    ("mcpd-demo", &[("mcpd demo", "Runs the demonstration.")]),
    ("mcpd-schema", &[("mcpd schema > mcpd.schema.json", "Saves the schema for an editor.")]),
    ("mcpd-service", &[("mcpd service status", "Shows the state of the systemd units.")]),
];

pub(super) fn examples(title: &str) -> &'static [Example] {
    EXAMPLES.iter().find(|(page, _)| *page == title).map_or(&[], |(_, examples)| examples)
}
