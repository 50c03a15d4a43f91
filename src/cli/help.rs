//! The overviews of `mcpd --help`, with the commands of daily use, and of `mcpd help --all`, with all commands.

use std::ffi::OsString;
use std::fmt::Write;

use anstyle::Style;
use clap::error::ErrorKind;
use clap::{Command, FromArgMatches};

use super::arguments::{Arguments, WITHOUT_DAEMON, command_line};
use super::tips::with_tip;

/// A heading, its commands of daily use, and its other commands.
const GROUPS: [(&str, &[&str], &[&str]); 3] = [
    (
        "Set up",
        &["import", "add", "edit", "connect"],
        &["remove", "check", "service", "login", "logout", "token", "demo", "completions", "schema"],
    ),
    ("Look", &["status", "tools", "call", "logs", "doctor"], &["calls", "top", "sandbox"]),
    ("Control", &["start", "stop", "restart"], &["reload", "enable", "disable", "serve"]),
];
const HEADING: Style = Style::new().bold();
const EXAMPLES: [(&str, &str); 5] = [
    ("mcpd demo", "see what mcpd does, without a configuration"),
    ("mcpd import", "add the servers of your other clients"),
    ("mcpd service install", "run the daemon now and at each login"),
    ("mcpd connect claude-code", "print the entry that connects an agent"),
    ("mcpd status --watch", "watch servers and agents"),
];
/// Requests for help.
const HELP: [&str; 3] = ["help", "--help", "-h"];
/// Words after one of [`HELP`] for the overview of all commands.
const ALL: [&str; 3] = ["--all", "-a", "all"];
/// Words for `--version`.
const VERSION: [&str; 2] = ["version", "-v"];

/// Which commands an overview lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Daily,
    All,
}

/// Parses the arguments of this process. Exits if they are wrong or request help.
pub(super) fn parse() -> Arguments {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let texts: Vec<_> = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let mut extent = Extent::Daily;
    match &texts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [help, all] if HELP.contains(help) && ALL.contains(all) => {
            extent = Extent::All;
            words.pop();
        }
        [version] if VERSION.contains(version) => words[1] = "--version".into(),
        _ => {}
    }
    let program = command_line();
    let overview = overview(&program, extent);
    let mut program = program.override_help(overview);
    let matches =
        program.try_get_matches_from_mut(words).unwrap_or_else(|error| with_tip(error, &texts, &program).exit());
    if let Some(command) = matches.subcommand_name().filter(|name| WITHOUT_DAEMON.contains(name))
        && matches.contains_id("runtime_dir")
    {
        let why = match command {
            "service" => "its units use the default runtime directory; `mcpd serve --runtime-dir DIR` uses another",
            _ => "it connects to no daemon",
        };
        let message = format!("`mcpd {command}` does not accept `--runtime-dir`: {why}");
        program.error(ErrorKind::ArgumentConflict, message).exit();
    }
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

fn overview(program: &Command, extent: Extent) -> String {
    let about = program.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{about}\n\n{HEADING}Usage:{HEADING:#} mcpd COMMAND\n");
    for (heading, daily, others) in GROUPS {
        let others = if extent == Extent::All { others } else { &[] };
        let _ = writeln!(text, "\n{HEADING}{heading}:{HEADING:#}");
        for name in daily.iter().chain(others) {
            let about = program.find_subcommand(name).map(short_about).unwrap_or_default();
            let _ = writeln!(text, "  {name:12} {about}");
        }
    }
    if extent == Extent::Daily {
        let _ = writeln!(text, "\n{HEADING}Examples:{HEADING:#}");
        for (line, purpose) in EXAMPLES {
            let _ = writeln!(text, "  {line:26} {purpose}");
        }
        text += "\n`mcpd help --all` lists every command, `mcpd help COMMAND` describes one.\n";
    } else {
        text += "\n`mcpd help COMMAND` describes a command. Commands that connect to a daemon\n\
                 accept `--runtime-dir DIR`, the directory of its sockets.\n";
    }
    text + "\nExit codes: 0 success · 1 the command failed, or a server is down ·\n\
            2 wrong usage or configuration · 3 the daemon is not running\n"
}

/// The first part of its description. `mcpd COMMAND --help` prints the rest.
fn short_about(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    about.split([',', ':', ';']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that an overview lists.
    fn listed(text: &str) -> Vec<&str> {
        let lines = text.lines().filter(|line| line.starts_with("  ") && !line.starts_with("  mcpd"));
        lines.filter_map(|line| line.split_whitespace().next()).collect()
    }

    #[test]
    fn overviews_list_twelve_commands_and_every_command_once_in_eighty_columns() {
        let program = command_line();
        for (extent, count) in [(Extent::Daily, 12), (Extent::All, program.get_subcommands().count())] {
            let text = anstream::adapter::strip_str(&overview(&program, extent)).to_string();
            let mut names = listed(&text);
            assert!(names.iter().all(|name| program.find_subcommand(name).is_some()), "{text}");
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }
}
