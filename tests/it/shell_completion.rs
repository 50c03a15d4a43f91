//! Shells complete commands, options and current names without long waits.

use std::path::Path;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{MCPD, Place, Server, Setup, run, signal};

/// Answers what bash would offer for the last of the words, one a line, in the order in which it would show them; behind a `=` of
/// that word only what follows, since bash takes words apart there.
const BASH: &str = r#"
source <(mcpd completions bash)
complete -p mcpd >/dev/null || exit 9
COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_WORDS=() COMP_TYPE=9
for word in "$@"; do
    while [[ "$word" == *=* ]]; do
        COMP_WORDS+=("${word%%=*}" "=")
        word="${word#*=}"
        [[ -z "$word" ]] && continue 2
    done
    COMP_WORDS+=("$word")
done
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
current="${COMP_WORDS[COMP_CWORD]}"
_mcpd mcpd "${current#=}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// What bash offers behind `mcpd` in this place.
#[track_caller]
fn offered(place: &Place, words: &[&str]) -> Vec<String> {
    let directory = Path::new(MCPD).parent().expect("it is in a directory");
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").expect("PATH is set"));
    let mut command = place.command("bash");
    command.env("PATH", path).args(["--norc", "-c", BASH, "bash", "mcpd"]).args(words);
    let ran = run(&mut command);
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{words:?}: {ran}");
    ran.stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn commands_options_and_words_are_completed_without_a_daemon() {
    let place = Place::new();
    assert_eq!(offered(&place, &["res"]), ["restart"]);
    assert_eq!(offered(&place, &["connect", "--pr"]), ["--profile", "--print"]);
    let clients = ["claude-code", "claude-desktop", "cline", "codex", "copilot", "cursor"];
    assert_eq!(offered(&place, &["connect", "--print", "c"]), clients);
    assert_eq!(offered(&place, &["link", "c"]), clients);
    assert_eq!(offered(&place, &["reload", "--lo"]), ["--log-level"]);
    assert_eq!(offered(&place, &["completions", ""]).first().map(String::as_str), Some("bash"));
    assert_eq!(offered(&place, &["restart", "a"]), [""; 0], "nothing is configured, and nobody complains");
}

#[test]
fn completion_offers_the_servers_of_the_running_daemon() {
    let head = "[profiles.reviewer]\nservers = ['files']";
    let servers = Setup::new().head(head).server(Server::named("files")).server(Server::named("git"));
    let daemon = servers.start();
    let directory = daemon.place().runtime_dir();
    let directory = directory.to_str().expect("text");
    let offered = |words: &[&str]| offered(daemon.place(), &[&["--runtime-dir", directory], words].concat());
    assert_eq!(offered(&["restart", ""])[..2], ["files", "git"]);
    for command in ["disable", "enable", "logs", "diff", "approve", "reject"] {
        assert_eq!(offered(&[command, "f"]), ["files"], "{command}");
    }
    assert_eq!(offered(&["calls", "--server", "g"]), ["git"]);
    assert_eq!(offered(&["connect", "--profile", ""]), ["default", "reviewer"]);
}

#[test]
fn completion_offers_tools_and_arguments_of_the_profile() {
    let place = Place::new();
    let properties =
        json!({ "path": {}, "level": { "enum": ["low", "high", "$(id)"] }, "deep": { "type": "boolean" }, "a b": {} });
    let read = json!({ "name": "read", "inputSchema": { "properties": properties, "required": ["path"] } });
    let tool = |name: &str| json!({ "name": name, "inputSchema": {} });
    let listing = json!({ "tools": [read, tool("write"), tool("secret"), tool("$(id)")] });
    let file = place.write("listing", listing.to_string());
    let head = "[profiles.reader]\ndeny = ['*/write']";
    let files = Server::named("files").arg("--tool-list").arg(file).line("deny = ['secret']");
    let daemon = Setup::new().head(head).server(files).start_in(&place);
    let directory = daemon.place().runtime_dir();
    let directory = directory.to_str().expect("text");
    let offered = |words: &[&str]| offered(&place, &[&["--runtime-dir", directory], words].concat());
    assert_eq!(offered(&["call", "files__"])[..2], ["files__read", "files__write"]);
    assert_eq!(offered(&["call", "--profile", "reader", "files__w"]), [""; 0]);
    assert_eq!(offered(&["call", "files__s"]), [""; 0], "what is denied is not there");
    assert_eq!(offered(&["tools", "files"])[..2], ["files", "files__read"]);
    for command in [&["call"][..], &["tools"], &["calls", "--tool"]] {
        assert_eq!(offered(&[command, &["files/"]].concat()), ["files/read", "files/write"], "{command:?}");
        assert_eq!(offered(&[command, &["files__r"]].concat()), ["files__read"], "{command:?}");
    }
    assert_eq!(offered(&["disable", "files__r"]), ["files__read"]);
    assert_eq!(offered(&["call", "files/read", "lev"]), ["level="]);
    assert_eq!(
        offered(&["disable", "files/"]),
        ["files/read", "files/write", "files/secret"],
        "nothing that a shell runs"
    );
    assert_eq!(offered(&["call", "files__read", ""])[..3], ["path=", "deep=", "level="]);
    assert_eq!(offered(&["call", "files__read", "path=x", "lev"]), ["level="]);
    assert_eq!(offered(&["call", "files__read", "level="]), ["low", "high"]);
    assert_eq!(offered(&["call", "files__read", "deep=t"]), ["true"]);
    let whole = format!("--runtime-dir={directory}");
    assert_eq!(self::offered(&place, &[&whole, "call", "files__r"]), ["files__read"]);
}

#[test]
fn completion_offers_what_can_be_approved_or_rejected() {
    let place = Place::new();
    let tool = |name: &str| json!({ "name": name, "inputSchema": {} });
    let file = place.write("listing", json!({ "tools": [tool("read"), tool("raze"), tool("r$(id)")] }).to_string());
    let library = json!({ "prompts": [{ "name": "review" }, { "name": "$(id)" }] });
    let files = Server::named("files").arg("--tool-list").arg(file).library(library).line("changes = \"hold\"");
    let daemon = Setup::with(files).start_in(&place);
    let directory = daemon.place().runtime_dir();
    let directory = directory.to_str().expect("text");
    let offered = |words: &[&str]| offered(&place, &[&["--runtime-dir", directory], words].concat());
    assert_eq!(offered(&["approve", "files", "r"]), ["read", "raze"]);
    assert_eq!(offered(&["approve", "files", "read", "p"]), ["prompt:review"]);
    assert_eq!(offered(&["reject", "files", "re"]), ["read"]);
}

#[test]
fn completion_offers_the_configured_servers_without_a_daemon() {
    let mut daemon = Server::named("live").start();
    let config = daemon.place().path("xdg-config/mcpd");
    std::fs::create_dir(&config).expect("a fresh directory");
    daemon.place().write("xdg-config/mcpd/config.toml", "[servers.written]\ncommand = 'x'\n[profiles.p]\n");
    let directory = daemon.place().runtime_dir();
    let directory = directory.to_str().expect("text");
    assert_eq!(offered(daemon.place(), &["restart", "--runtime-dir", directory, "l"]), ["live"]);
    assert_eq!(offered(daemon.place(), &["restart", "w"]), ["written"], "nobody is there");
    assert_eq!(offered(daemon.place(), &["connect", "--profile", ""]), ["default", "p"]);
    daemon.signal(Signal::STOP);
    let found = offered(daemon.place(), &["restart", "--runtime-dir", directory, "w"]);
    signal(daemon.pid(), Signal::CONT);
    assert_eq!(found, ["written"], "somebody is there, and hangs");
}

#[test]
fn every_shell_has_a_completion_script_that_names_the_shell() {
    let place = Place::new();
    for (shell, word) in [
        ("bash", "complete -o"),
        ("zsh", "#compdef mcpd"),
        ("fish", "complete --keep-order"),
        ("elvish", "edit:completion"),
    ] {
        let ran = place.mcpd(&["completions", shell]).expect_code(0);
        assert!(ran.stdout.contains(word) && ran.stderr.is_empty(), "{ran}");
        assert!(!ran.stdout.contains('/') || !ran.stdout.contains(MCPD), "it is the same wherever mcpd is: {ran}");
    }
    let unknown = place.mcpd(&["completions", "csh"]).expect_code(2);
    assert!(unknown.stderr.contains("bash, elvish, fish, zsh"), "{unknown}");
}
