//! Tips for mistyped command lines: command names of other tools, and missing arguments. Pure.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::RESTART;
use super::add::corrections::{name_for, url_without_scheme, without_query};
use crate::config::command_line::is_url;
use crate::config::server_keys;
use crate::naming::is_server_name;

/// Command names of other tools, and the command to use.
const FOREIGN_COMMANDS: [(&[&str], &str); 7] = [
    (&["list", "ls"], "`mcpd tools` lists the tools that agents see, `mcpd status` the servers"),
    (&["servers", "ps", "agents", "info"], "`mcpd status` shows servers and agents"),
    (&["rm", "delete", "uninstall"], "`mcpd remove SERVER` removes a server from the configuration"),
    (&["config", "validate", "test"], "`mcpd check` checks the configuration, `mcpd check --show` prints it"),
    (&["up", "run", "daemon"], "`mcpd start` starts the daemon, `mcpd serve` runs it in the foreground"),
    (&["down", "kill", "quit"], "`mcpd stop` stops the daemon"),
    (&["upgrade", "update"], "docs/operate.md has the steps of an upgrade, under \"Upgrade\""),
];

/// Keys of a server that users mistake for commands.
const POLICY_KEYS: [&str; 3] = ["allow", "deny", "expose"];

/// Adds a tip to `error`. `words` is the command line without the program.
pub(super) fn with_tip(mut error: Error, words: &[String]) -> Error {
    if let Some(tip) = tip(&error, words) {
        for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue] {
            error.remove(kind);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn tip(error: &Error, words: &[String]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    if error.kind() == ErrorKind::InvalidSubcommand {
        return unknown_command(text(ContextKind::InvalidSubcommand)?);
    }
    let (command, rest) = command(words)?;
    match (error.kind(), command) {
        (ErrorKind::MissingRequiredArgument, "restart") => Some(format!("to restart the daemon itself: {RESTART}")),
        (ErrorKind::MissingRequiredArgument, "add") => nameless_url(rest),
        (ErrorKind::UnknownArgument, "add") => unknown_option(text(ContextKind::InvalidArg)?, rest),
        _ => None,
    }
}

fn unknown_command(word: &str) -> Option<String> {
    if POLICY_KEYS.contains(&word) {
        return Some(format!(
            "write `{word} = [\"PATTERN\"]` below `[servers.NAME]` in the configuration, then run `mcpd reload`; \
             `mcpd disable SERVER/TOOL` hides a tool until the daemon is started again"
        ));
    }
    FOREIGN_COMMANDS.iter().find(|(names, _)| names.contains(&word)).map(|(_, tip)| (*tip).to_owned())
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
    use clap::CommandFactory;

    use super::*;
    use crate::cli::arguments::Arguments;

    #[test]
    fn tips_do_not_replace_existing_commands() {
        let command = Arguments::command();
        for name in FOREIGN_COMMANDS.iter().flat_map(|(names, _)| names.iter()).chain(&POLICY_KEYS) {
            assert!(command.find_subcommand(name).is_none(), "{name}");
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
