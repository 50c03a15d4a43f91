//! Mistyped commands get a suggestion.

use crate::support::{Place, Ran};

/// The tip of a command line that is refused. Fails unless it is the only one.
fn tip(args: &[&str]) -> String {
    let ran: Ran = Place::new().mcpd(args).expect_code(2);
    let tips: Vec<_> = ran.stderr.lines().filter_map(|line| line.trim_start().strip_prefix("tip: ")).collect();
    let [tip] = tips[..] else { panic!("{args:?} has {} tips: {ran}", tips.len()) };
    tip.to_owned()
}

fn expect_tip(args: &[&str], phrases: &[&str]) {
    let tip = tip(args);
    for phrase in phrases {
        assert!(tip.contains(phrase), "{args:?}: no {phrase:?} in {tip}");
    }
}

/// Each word of other tools in the place of a command, and what the answer has to name.
const WORDS: &[(&str, &[&str])] = &[
    ("history", &["`mcpd calls`"]),
    ("clients", &["`mcpd link CLIENT`", "`mcpd status`"]),
    ("agents", &["`mcpd status`"]),
    ("prompts", &["`mcpd tools`"]),
    ("secrets", &["`${file:PATH}`"]),
    ("info", &["`mcpd status`"]),
    ("watch", &["`mcpd status --watch`"]),
    ("profile list", &["`mcpd status`", "`mcpd tools --profile NAME`", "`[profiles.NAME]`"]),
    ("profiles", &["`mcpd status`"]),
    ("inspect files", &["`mcpd tools TOOL`", "`mcpd doctor SERVER`", "`mcpd logs SERVER`"]),
    ("search github", &["no catalogue", "`mcpd add NAME COMMAND`", "`mcpd add NAME URL`", "`mcpd import`"]),
    ("install github", &["`mcpd add NAME COMMAND`", "`mcpd service install`"]),
    ("init", &["`mcpd setup`", "`mcpd add NAME COMMAND`"]),
    ("uninstall", &["`mcpd remove SERVER`", "`mcpd service uninstall`"]),
    ("config", &["`mcpd check`", "`mcpd check --show`"]),
    ("config edit", &["`mcpd edit`", "`mcpd check`"]),
    ("test", &["`mcpd check`"]),
    ("run", &["`mcpd start`", "`mcpd serve`", "`mcpd call TOOL`"]),
    ("exec files read", &["`mcpd call TOOL NAME=VALUE`"]),
    ("kill", &["`mcpd stop`"]),
    ("health files down", &["`mcpd status --check`", "`mcpd disable SERVER`"]),
    ("log-level debug", &["`mcpd reload --log-level FILTER`"]),
    ("auth", &["`mcpd login SERVER`"]),
    ("man", &["`mcpd help COMMAND`", "`mcpd help --all`"]),
    ("commands", &["`mcpd help --all`"]),
    ("upgrade", &["`sh install.sh --from DIR`", "`mcpd stop`"]),
    ("deny files/write", &["`mcpd disable --keep SERVER/TOOL`", "`deny = [\"PATTERN\"]` below `[servers.NAME]`"]),
    ("allow files/write", &["`mcpd enable --keep SERVER/TOOL`", "`allow = [\"PATTERN\"]`", "`mcpd edit`"]),
    ("service start", &["`mcpd service install`", "`mcpd start`"]),
    ("service stop", &["`mcpd stop`"]),
    ("service restart", &["`mcpd start`", "`mcpd reload`"]),
    ("service remove", &["`mcpd service uninstall`"]),
    ("service logs", &["`journalctl --user --unit mcpd`"]),
    ("start -d", &["`mcpd start` always runs the daemon in the background"]),
    ("start --foreground", &["`mcpd serve`"]),
    ("start files", &["`mcpd enable SERVER`", "`mcpd restart SERVER`"]),
    ("serve --daemon", &["`mcpd start`"]),
    ("stop files", &["`mcpd disable --stop SERVER`"]),
    ("stop --all", &["`mcpd stop`"]),
    ("status -f", &["`mcpd status --watch`"]),
    ("enable --all", &["`mcpd status` lists them"]),
    ("disable --all", &["`mcpd stop` stops the daemon"]),
    ("calls files", &["`mcpd calls --server NAME`"]),
    ("reload files", &["`mcpd restart SERVER`"]),
    ("logs --server files", &["`mcpd logs NAME`"]),
    ("restart --server files", &["`mcpd restart NAME`"]),
    ("doctor --server files", &["`mcpd doctor NAME`"]),
    ("tools --server files", &["`mcpd tools NAME`"]),
    ("add --scope user files npx", &["leave the scope out"]),
    // What is only misspelt is suggested as before.
    ("stattus", &["'status'"]),
];

#[test]
fn word_of_another_tool_is_answered_with_what_to_type() {
    for (line, phrases) in WORDS {
        expect_tip(&line.split(' ').collect::<Vec<_>>(), phrases);
    }
}

#[test]
fn other_names_of_a_command_work() {
    let place = Place::new();
    for (other, command) in [
        (&["ps"][..], &["status"][..]),
        (&["ls"], &["status"]),
        (&["list"], &["status"]),
        (&["status", "-w"], &["status", "--watch"]),
        (&["down"], &["stop"]),
        (&["rm", "x"], &["remove", "x"]),
        (&["delete", "x"], &["remove", "x"]),
        (&["logs", "--tail", "5"], &["logs", "-n", "5"]),
        (&["calls", "--tail", "5"], &["calls", "-n", "5"]),
        (&["connect", "claude-code"], &["connect", "--print", "claude-code"]),
        (&["connect", "--server", "x", "cursor"], &["connect", "--server", "x", "--print", "cursor"]),
        (&["import", "cursor"], &["import", "--from", "cursor"]),
        (&["import", "cursor", "codex"], &["import", "--from", "cursor", "--from", "codex"]),
        (&["check", "--config", "no.toml"], &["check", "no.toml"]),
        (&["serve", "--log-level", "dbug"], &["serve", "--log", "dbug"]),
        (&["up", "--config", "no.toml"], &["start", "--config", "no.toml"]),
    ] {
        let [other, command] = [other, command].map(|args| place.mcpd(args));
        assert_eq!((other.code, other.stdout, other.stderr), (command.code, command.stdout, command.stderr));
    }
}

#[test]
fn url_without_a_name_is_answered_with_a_name_after_its_host() {
    for (args, line) in [
        (&["https://search.example.org/mcp"][..], "mcpd add search https://search.example.org/mcp"),
        (&["https://mcp.linear.app/sse?key=canary"], "mcpd add linear https://mcp.linear.app/sse…"),
        (&["--lazy", "--url", "https://search.example.org/mcp"], "mcpd add search https://search.example.org/mcp"),
        (&["localhost:3000/mcp"], "mcpd add local http://localhost:3000/mcp"),
    ] {
        let tip = tip(&[&["add"], args].concat());
        assert!(tip.ends_with(line) && !tip.contains("canary"), "{args:?}: {tip}");
    }
}

#[test]
fn configuration_key_given_to_add_is_answered_with_the_table_it_belongs_in() {
    expect_tip(&["add", "x", "--deny", "write_*", "npx"], &["`deny = [\"PATTERN\"]` below `[servers.x]`"]);
    expect_tip(&["add", "--call-timeout", "1m", "x", "npx"], &["`call_timeout = …`"]);
    let ran = Place::new().mcpd(&["add", "npx", "-y", "pkg"]).expect_code(2);
    assert!(
        ran.stderr.contains("the server's name is missing before the command, for example: mcpd add NAME npx -y pkg\n"),
        "{ran}"
    );
}

#[test]
fn connect_print_without_a_client_lists_the_clients() {
    for args in [&["connect", "--print"][..], &["connect", "--print", "emacs"]] {
        let ran = Place::new().mcpd(args).expect_code(2);
        for client in ["claude-code", "codex", "cursor", "zed"] {
            assert!(ran.stderr.contains(client) && ran.stdout.is_empty(), "no {client}: {ran}");
        }
    }
}
