//! Tips for mistyped command lines: words of other tools, arguments of other commands, and missing arguments. Pure.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

use super::add::corrections::{name_for, url_without_scheme, without_query};
use crate::config::command_line::is_url;
use crate::config::server_keys;
use crate::known_clients::Client;
use crate::naming::is_server_name;
use crate::suggest::misspelt;

/// Words in the place of a command, and what to type instead.
const FOREIGN_COMMANDS: &[(&[&str], &str)] = &[
    (&["servers", "agents", "server", "agent", "info", "show", "get"], "`mcpd status` shows servers and agents"),
    (&["clients", "client"], "`mcpd link CLIENT` connects a client, `mcpd status` shows the connected agents"),
    (&["history", "activity"], "`mcpd calls` shows recorded calls, `mcpd top` shows call rates"),
    (
        &["prompts", "resources"],
        "`mcpd tools` lists the tools that agents see; agents list prompts and resources themselves",
    ),
    (
        &["secret", "secrets"],
        "write `${file:PATH}` in the configuration; the option `--env NAME=VALUE` of `mcpd add` moves a secret to a file of its own",
    ),
    (&["watch", "monitor"], "`mcpd status --watch` updates its view, `mcpd top` shows call rates"),
    (
        &["profile", "profiles"],
        "`mcpd status` lists the profiles, `mcpd tools --profile NAME` the tools of one; the table `[profiles.NAME]` of the \
         configuration defines a profile",
    ),
    (
        &["inspect", "describe"],
        "`mcpd tools TOOL` describes a tool, `mcpd doctor SERVER` checks a server, `mcpd logs SERVER` shows what it writes",
    ),
    (
        &["search", "find"],
        "mcpd has no catalogue of servers: `mcpd add NAME COMMAND` or `mcpd add NAME URL` adds one, `mcpd import` adds those of \
         your other clients",
    ),
    (
        &["install"],
        "`mcpd add NAME COMMAND` or `mcpd add NAME URL` adds a server; `mcpd service install` runs mcpd at each login",
    ),
    (
        &["init", "new", "create"],
        "`mcpd setup` adds the servers of your clients and connects them, `mcpd add NAME COMMAND` adds one server",
    ),
    (
        &["uninstall"],
        "`mcpd remove SERVER` removes a server from the configuration, `mcpd service uninstall` removes the systemd units",
    ),
    (
        &["config", "configure", "validate", "test"],
        "`mcpd edit` opens the configuration, `mcpd check` checks it, `mcpd check --show` prints it",
    ),
    (
        &["run", "daemon"],
        "`mcpd start` starts the daemon, `mcpd serve` runs it in the foreground, `mcpd call TOOL` calls a tool",
    ),
    (&["exec", "tool", "invoke"], "`mcpd call TOOL NAME=VALUE` calls a tool, `mcpd tools` lists the tools"),
    (&["kill", "quit", "shutdown"], "`mcpd stop` stops the daemon"),
    (
        &["pin", "pins", "trust", "changes"],
        "`mcpd diff` shows what servers have changed, `mcpd approve SERVER --all` approves all changes of a server",
    ),
    (&["health"], "`mcpd status --check` checks every server, `mcpd disable SERVER` hides one from agents"),
    (&["log-level"], "`mcpd reload --log-level FILTER` changes the log filter of the running daemon"),
    (&["auth"], "`mcpd login SERVER` logs in to a server"),
    (&["man", "docs", "commands", "usage"], "`mcpd help --all` lists every command, `mcpd help COMMAND` describes one"),
    (
        &["upgrade", "update"],
        "`sh install.sh --from DIR` of the new release installs it; then run `mcpd service install` if mcpd is a service, else \
         `mcpd stop` and `mcpd start`",
    ),
];

/// Options and operands that a command does not have, and what to type instead. An empty list stands for any operand.
const FOREIGN_ARGUMENTS: &[(&str, &[&str], &str)] = &[
    ("start", &["-d", "--daemon", "--detach", "--background"], "`mcpd start` always runs the daemon in the background"),
    ("start", &["-f", "--foreground"], "`mcpd serve` runs the daemon in the foreground"),
    ("start", &[], "`mcpd enable SERVER` starts a stopped server, `mcpd restart SERVER` restarts a server"),
    ("serve", &["-d", "--daemon", "--detach", "--background"], "`mcpd start` runs the daemon in the background"),
    (
        "stop",
        &[],
        "`mcpd disable --stop SERVER` stops one server; `mcpd stop` without a name stops the daemon and all servers",
    ),
    ("stop", &["--all"], "`mcpd stop` stops the daemon and all servers"),
    ("status", &["-f", "--follow"], "`mcpd status --watch` updates its view"),
    ("calls", &[], "`mcpd calls --server NAME` shows the calls to one server"),
    ("reload", &[], "`mcpd restart SERVER` restarts one server; `mcpd reload` applies the configuration to all"),
    ("enable", &["--all"], "write the names of the servers: `mcpd status` lists them"),
    ("disable", &["--all"], "write the names of the servers; `mcpd stop` stops the daemon and all servers"),
    ("add", &["-s", "--scope"], "mcpd has one configuration for all clients: leave the scope out"),
];

/// Words in the place of a subcommand of `mcpd service`, and what to type instead.
const FOREIGN_SERVICE_COMMANDS: &[(&[&str], &str)] = &[
    (&["start", "enable", "add"], "`mcpd service install` runs mcpd now and at each login; `mcpd start` starts it now"),
    (&["stop", "disable"], "`mcpd stop` stops mcpd until the next login, `mcpd service uninstall` removes its units"),
    (&["restart", "reload"], RESTART_SERVICE),
    (&["remove", "delete", "rm"], "`mcpd service uninstall` removes the units"),
    (&["logs", "log"], "`journalctl --user --unit mcpd` shows the log of the daemon, `mcpd logs` what servers write"),
];
const RESTART_SERVICE: &str =
    "`mcpd stop`, then `mcpd start` restarts the daemon; `mcpd reload` applies the configuration";

/// Keys of a server that users mistake for commands.
const POLICY_KEYS: [&str; 3] = ["allow", "deny", "expose"];

/// Adds a tip to `error`. `words` is the command line without the program.
pub(super) fn with_tip(mut error: Error, words: &[String], program: &Command) -> Error {
    if error.kind() == ErrorKind::InvalidSubcommand {
        suggest_command(&mut error, words, program);
    }
    if let Some(tip) = tip(&error, words) {
        for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue] {
            error.remove(kind);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Replaces the suggested commands by the most similar one, if any is similar enough.
fn suggest_command(error: &mut Error, words: &[String], program: &Command) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let group = command(words).and_then(|(name, _)| program.find_subcommand(name)).unwrap_or(program);
    let known = group.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name);
    let similar = misspelt(word, known).map(str::to_owned);
    error.remove(ContextKind::SuggestedSubcommand);
    if let Some(name) = similar {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::String(name));
    }
}

fn tip(error: &Error, words: &[String]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (command, rest) = command(words)?;
    match (error.kind(), command) {
        (ErrorKind::InvalidSubcommand, "service") => {
            row(FOREIGN_SERVICE_COMMANDS, text(ContextKind::InvalidSubcommand)?).map(str::to_owned)
        }
        (ErrorKind::InvalidSubcommand, _) => unknown_command(text(ContextKind::InvalidSubcommand)?, rest),
        (ErrorKind::MissingRequiredArgument, "add") => nameless_url(rest),
        (ErrorKind::UnknownArgument, _) => unknown_argument(command, text(ContextKind::InvalidArg)?, rest),
        _ => None,
    }
}

fn row<'t>(table: &'t [(&[&str], &str)], word: &str) -> Option<&'t str> {
    table.iter().find(|(words, _)| words.contains(&word)).map(|(_, tip)| *tip)
}

/// `rest`: the words after the command, which may name a client.
fn unknown_command(word: &str, rest: &[String]) -> Option<String> {
    if POLICY_KEYS.contains(&word) {
        let one_tool = match word {
            "deny" => "`mcpd disable --keep SERVER/TOOL` hides one tool; for a pattern, ",
            "allow" => "`mcpd enable --keep SERVER/TOOL` shows a disabled tool again; for a pattern, ",
            _ => "",
        };
        return Some(format!(
            "{one_tool}write `{word} = [\"PATTERN\"]` below `[servers.NAME]` in the configuration (`mcpd edit`)"
        ));
    }
    let client = rest.iter().find_map(|word| Client::named(word)).map_or("CLIENT", |client| client.word);
    Some(row(FOREIGN_COMMANDS, word)?.replace("CLIENT", client))
}

fn unknown_argument(command: &str, argument: &str, rest: &[String]) -> Option<String> {
    let is_operand = !argument.starts_with('-');
    let mut rows = FOREIGN_ARGUMENTS.iter().filter(|(name, ..)| *name == command);
    let row = rows.find(|(_, words, _)| words.contains(&argument) || words.is_empty() && is_operand);
    match (row, command, argument) {
        (Some((_, _, tip)), ..) => Some((*tip).to_owned()),
        (None, "add", _) => unknown_option(argument, rest),
        (None, "doctor" | "logs" | "restart" | "enable" | "disable" | "tools", "--server") => {
            Some(format!("the name stands without an option: `mcpd {command} NAME`"))
        }
        _ => None,
    }
}

/// A URL without the name of the server.
fn nameless_url(rest: &[String]) -> Option<String> {
    let url = |word: &String| if is_url(word) { Some(word.clone()) } else { url_without_scheme(word) };
    let url = rest.iter().find_map(url)?;
    let name = name_for(&url);
    Some(format!("the server's name is missing before the URL, for example: mcpd add {name} {}", without_query(&url)))
}

/// For an unknown option of `mcpd add`: a key of the configuration, or an option of a command without a server name.
fn unknown_option(option: &str, rest: &[String]) -> Option<String> {
    let key = option.trim_start_matches('-').replace('-', "_");
    if server_keys().any(|known| known == key) {
        let name = rest.iter().find(|word| is_server_name(word)).map_or("NAME", String::as_str);
        let value = if POLICY_KEYS.contains(&&*key) { "[\"PATTERN\"]" } else { "…" };
        return Some(format!(
            "`{key}` is a key of the configuration: add the server without it, then write `{key} = {value}` below `[servers.{name}]`"
        ));
    }
    match rest {
        [program, next, ..] if next.starts_with(option) && !program.starts_with('-') => Some(format!(
            "the server's name is missing before the command, for example: mcpd add NAME {program} {option} …"
        )),
        _ => None,
    }
}

/// The subcommand and the words after it.
fn command(words: &[String]) -> Option<(&str, &[String])> {
    let mut at = 0;
    while words.get(at)?.starts_with('-') {
        at += if words[at] == "--runtime-dir" { 2 } else { 1 };
    }
    Some((&words[at], &words[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::arguments::command_line;

    #[test]
    fn tips_do_not_replace_existing_commands() {
        let program = command_line();
        for name in FOREIGN_COMMANDS.iter().flat_map(|(names, _)| names.iter()).chain(&POLICY_KEYS) {
            assert!(program.find_subcommand(name).is_none(), "{name}");
        }
        for (name, words, _) in FOREIGN_ARGUMENTS {
            let line = |word: &str| ["mcpd", name, word].map(str::to_owned);
            for word in words.iter().chain(if words.is_empty() { &["x"][..] } else { &[] }) {
                assert!(program.clone().try_get_matches_from(line(word)).is_err(), "{name} {word}");
            }
        }
    }

    #[test]
    fn command_is_found_behind_options_of_the_program() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for line in ["add x", "--runtime-dir /d add x", "--runtime-dir=/d add x"] {
            assert_eq!(command(&words(line)), Some(("add", &["x".to_owned()][..])), "{line}");
        }
        assert_eq!(command(&words("--runtime-dir")), None);
    }
}
