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

#[test]
fn command_of_another_tool_is_answered_with_the_command_here() {
    for word in ["list", "ls"] {
        expect_tip(&[word], &["`mcpd tools`", "`mcpd status`"]);
    }
    for word in ["deny", "allow"] {
        let key = format!("`{word} = [\"PATTERN\"]` below `[servers.NAME]`");
        expect_tip(&[word, "files/write"], &[&key, "`mcpd reload`", "`mcpd disable SERVER/TOOL`"]);
    }
    expect_tip(&["rm", "files"], &["`mcpd remove SERVER`"]);
    // What is only misspelt is suggested as before.
    expect_tip(&["stattus"], &["'status'"]);
}

#[test]
fn restart_without_a_server_names_the_server_and_the_way_to_restart_the_daemon() {
    let place = Place::new();
    for args in [&["restart"][..], &["--runtime-dir", "x", "restart"]] {
        let ran = place.mcpd(args).expect_code(2);
        assert!(ran.stderr.contains("<SERVER>"), "{ran}");
        assert!(ran.stderr.contains("tip: to restart the daemon itself: `mcpd stop`, then `mcpd start`"), "{ran}");
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
    expect_tip(&["add", "npx", "-y", "pkg"], &["mcpd add NAME npx -y"]);
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
