//! The overview of `mcpd --help`: commands by task, examples and exit codes.

use std::fmt::Write;

use anstyle::Style;
use clap::{Command, CommandFactory, FromArgMatches};

use super::arguments::Arguments;
use super::tips::with_tip;

/// Commands that are in no group are listed in the last.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Set up", &["demo", "import", "add", "edit", "remove", "check", "service", "connect", "login", "logout"]),
    ("Inspect", &["status", "top", "tools", "calls", "logs", "doctor"]),
    ("Control", &["start", "stop", "call", "restart", "enable", "disable", "health", "reload", "log-level"]),
    ("Other", &["serve"]),
];
const HEADING: Style = Style::new().bold();
const EXAMPLES: [(&str, &str); 5] = [
    ("mcpd import", "add the servers of your other clients"),
    ("mcpd service install", "run the daemon now and at each login"),
    ("mcpd connect --print claude-code", "print the entry that connects an agent"),
    ("mcpd status --watch", "watch servers and agents"),
    ("mcpd tools files__read_file", "describe a tool and its arguments"),
];

/// Parses the arguments of this process. Exits if they are wrong or request help.
pub(super) fn parse() -> Arguments {
    let command = Arguments::command();
    let overview = overview(&command);
    let matches = command.override_help(overview).try_get_matches().unwrap_or_else(|error| {
        let words: Vec<_> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        with_tip(error, &words).exit()
    });
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

fn overview(command: &Command) -> String {
    let is_shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    let commands: Vec<_> = command.get_subcommands().filter(is_shown).collect();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{about}\n\n{HEADING}Usage:{HEADING:#} mcpd [--runtime-dir DIR] COMMAND\n");
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    for (at, (heading, names)) in GROUPS.iter().enumerate() {
        let named = names.iter().filter_map(|name| commands.iter().find(|command| command.get_name() == *name));
        let others = commands.iter().filter(|command| at + 1 == GROUPS.len() && !is_grouped(command.get_name()));
        let _ = writeln!(text, "\n{HEADING}{heading}:{HEADING:#}");
        for command in named.chain(others) {
            let _ = writeln!(text, "  {:12} {}", command.get_name(), short_about(command));
        }
    }
    let _ = writeln!(text, "\n{HEADING}Examples:{HEADING:#}");
    for (line, purpose) in EXAMPLES {
        let _ = writeln!(text, "  {line:34} {purpose}");
    }
    text + "\n`mcpd COMMAND --help` describes a command. Exit codes:\n\
            0 success · 1 the command failed, or a server is down · 2 wrong usage or\n\
            configuration · 3 the daemon is not running\n"
}

/// The first part of its description. `mcpd COMMAND --help` prints the rest.
fn short_about(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    about.split([',', ':', ';']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overview_lists_every_command_once_in_eighty_columns() {
        let command = Arguments::command();
        let text = anstream::adapter::strip_str(&overview(&command)).to_string();
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let begin = format!("\n  {:12} ", command.get_name());
            assert_eq!(text.matches(&begin).count(), 1, "{begin:?} in {text}");
        }
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let known = |name: &&str| command.find_subcommand(name).is_some() || *name == "service";
        assert!(GROUPS.iter().flat_map(|(_, names)| names.iter()).all(known), "a group names an unknown command");
    }
}
