//! `mcpd check`: reports errors and warnings of a configuration, without starting anything.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_with::skip_serializing_none;
use tokio::time::timeout;

use super::daemon_report::{changed_sentence, with_changed_files};
use super::outcome::{config_failure, print_styled_note, try_print_report};
use super::style::OutputStyle;
use super::text::{count, join_limited, malformed_item, searched_paths, split_searched_path};
use super::{CommandResult, FAILED, USAGE, fail, try_print};
use crate::catalog::Lists;
use crate::config::diagnostic::{Diagnostic, Level};
use crate::config::interpolate::Process;
use crate::config::{self, ConfigError, Launch, LoadedConfig, ServerConfig};
use crate::daemon::{cache_directory, try_addresses};
use crate::manager::report::{MalformedItem, malformed};
use crate::server::last_known;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::{admin, config_lints};

/// Until a daemon has to answer. A daemon that does not is left to `mcpd doctor`.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// Servers that a note names.
const MAX_NAMES: usize = 10;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Configuration file [default: /etc/mcpd/config.toml; $XDG_CONFIG_HOME/mcpd/config.toml, else ~/.config/mcpd/config.toml; and
    /// config.d/*.toml beside it]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The same, as an option like that of other commands
    #[arg(long, value_name = "FILE", hide = true)]
    config: Vec<PathBuf>,
    /// Exit with 1 if there are warnings
    #[arg(long)]
    strict: bool,
    /// Only whether this program can take the place of a running daemon that passes on its sockets in this format
    #[arg(long, value_name = "FORMAT", value_parser = ["1"], hide = true)]
    successor: Option<String>,
    /// The running daemon listens on this address, which its successor takes over
    #[arg(long, value_name = "ADDRESS", hide = true)]
    listening: Vec<SocketAddr>,
    /// Print errors and warnings as JSON
    #[arg(long, conflicts_with = "show")]
    json: bool,
    /// Print the effective configuration, with the origin of each value
    #[arg(long)]
    show: bool,
}

pub(super) async fn run(arguments: &Arguments, directory: Option<RuntimeDir>) -> CommandResult {
    let loaded = config::load(&[&arguments.files[..], &arguments.config].concat(), &Process);
    if arguments.successor.is_some() {
        let loaded = loaded.map_err(|error| config_failure(&error))?;
        try_addresses(&loaded.config.profiles, &arguments.listening).map_err(|error| fail(FAILED, error))?;
        return Ok(ExitCode::SUCCESS);
    }
    let known = |server: &ServerConfig| -> Option<Lists> { last_known(&cache_directory()?, server) };
    let findings = match &loaded {
        Ok(loaded) => Findings::of(loaded, known),
        Err(error) => Findings::refused(error),
    };
    let printed = match &loaded {
        _ if arguments.json => findings.print_json(),
        Ok(loaded) if arguments.show => {
            findings.explain();
            print_note!("{}", findings.summary());
            try_print(config::show(loaded))
        }
        _ => {
            findings.explain();
            try_print(findings.summary() + "\n")
        }
    };
    if let Ok(loaded) = &loaded
        && !arguments.json
        && let Some(directory) = directory
        && let Some(changed) = unloaded_changes(&directory, &loaded.files).await
    {
        print_note!("note: {changed} since the running daemon loaded the configuration: run `mcpd reload` to apply it");
    }
    Ok(match (printed, findings.errors, findings.warnings) {
        (Err(code), ..) if code != ExitCode::SUCCESS => code,
        (_, 1.., _) => ExitCode::from(USAGE),
        (..) if findings.servers > 0 && findings.unstartable == findings.servers => ExitCode::from(FAILED),
        (_, 0, 1..) if arguments.strict => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    })
}

/// The changed ones among `files` that the running daemon has not loaded yet, as the beginning of a sentence.
async fn unloaded_changes(directory: &RuntimeDir, files: &[PathBuf]) -> Option<String> {
    let status = timeout(STATUS_TIMEOUT, admin::status(&directory.socket(ADMIN_SOCKET))).await;
    let report = with_changed_files(status.ok()?.ok()?);
    let is_checked = |path: &String| files.iter().any(|file| absolute(file).is_ok_and(|file| file == Path::new(path)));
    changed_sentence(&report.files_changed.into_iter().filter(is_checked).collect::<Vec<_>>())
}

/// The errors and warnings, with counts.
struct Findings<'a> {
    servers: usize,
    /// Servers that certainly cannot start.
    unstartable: usize,
    errors: usize,
    warnings: usize,
    /// Servers whose tools, prompts and resources are not known yet.
    unknown: Vec<&'a str>,
    /// Those of them that can start and that patterns apply to.
    unchecked: Vec<&'a str>,
    /// Items of the last known lists that agents would reject.
    malformed: Vec<MalformedOf<'a>>,
    /// Servers with a program that prints a secret of theirs, as it is written without its arguments.
    programs: Vec<(&'a str, String)>,
    hint: Option<&'a str>,
    diagnostics: Vec<Diagnostic>,
    /// Why the configuration does not load.
    refusal: Option<&'a ConfigError>,
}

/// An error or a warning.
#[skip_serializing_none]
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct JsonFinding<'a> {
    /// `error` or `warning`.
    level: &'static str,
    /// What is wrong.
    message: String,
    /// What is at the place.
    label: Option<&'a str>,
    /// The configuration file.
    file: &'a Path,
    /// Counted from 1; absent for a file that cannot be read.
    line: Option<usize>,
    /// Counted from 1, in characters; absent for a file that cannot be read.
    column: Option<usize>,
    /// What to write instead.
    help: Option<String>,
}

/// The malformed items of a server.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MalformedOf<'a> {
    /// Name of the server.
    server: &'a str,
    /// Their number.
    count: usize,
    /// The first ones, with reasons.
    items: Vec<MalformedItem>,
}

/// Errors and warnings of the configuration.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JsonReport<'a> {
    /// Number of servers.
    servers: usize,
    /// Number of servers that cannot start.
    unstartable: usize,
    /// Number of errors.
    errors: usize,
    /// Number of warnings.
    warnings: usize,
    /// Names of servers that have not listed what they offer yet.
    unknown: &'a [&'a str],
    /// Servers with items that mcpd mends or leaves out, as they listed them last.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    malformed: &'a [MalformedOf<'a>],
    /// In the order of files and lines.
    diagnostics: Vec<JsonFinding<'a>>,
}

impl<'a> Findings<'a> {
    fn of(loaded: &'a LoadedConfig, known: impl Fn(&ServerConfig) -> Option<Lists>) -> Self {
        let servers = &loaded.config.servers;
        let known: Vec<_> = servers.iter().map(known).collect();
        let unstartable = servers.iter().filter(|server| !config_lints::can_start(server, &Process)).count();
        let unlisted: Vec<_> = (0..servers.len()).filter(|index| known[*index].is_none()).collect();
        let with_patterns = config_lints::servers_with_patterns(loaded);
        let is_unchecked =
            |index: &&usize| with_patterns.contains(index) && config_lints::can_start(&servers[**index], &Process);
        let names = |indices: Vec<&usize>| indices.into_iter().map(|index| &*servers[*index].name).collect::<Vec<_>>();
        let unchecked = names(unlisted.iter().filter(is_unchecked).collect());
        let unknown = names(unlisted.iter().collect());
        let malformed = servers.iter().zip(&known).filter_map(|(server, lists)| {
            let (items, count) = malformed(lists.as_ref()?);
            (count.items > 0).then_some(MalformedOf { server: &server.name, count: count.items, items })
        });
        let malformed = malformed.collect();
        let programs = servers.iter().flat_map(|server| {
            let commands = server.launch.as_ref().map_or(&[][..], Launch::commands);
            commands.iter().map(|command| (&*server.name, command.reference()))
        });
        let programs = programs.collect();
        let mut diagnostics = loaded.warnings.clone();
        diagnostics.extend(config_lints::advise(loaded, &Process, known));
        let (servers, warnings) = (servers.len(), diagnostics.len());
        let hint = loaded.hint.as_deref();
        Self {
            servers,
            unstartable,
            errors: 0,
            warnings,
            unknown,
            unchecked,
            malformed,
            programs,
            hint,
            diagnostics,
            refusal: None,
        }
    }

    fn refused(error: &'a ConfigError) -> Self {
        let errors = error.unreadable().count() + error.diagnostics().len();
        let diagnostics = error.diagnostics().to_vec();
        Self {
            servers: 0,
            unstartable: 0,
            errors,
            warnings: 0,
            unknown: Vec::new(),
            unchecked: Vec::new(),
            malformed: Vec::new(),
            programs: Vec::new(),
            hint: None,
            diagnostics,
            refusal: Some(error),
        }
    }

    /// Prints errors, warnings and notes to stderr.
    fn explain(&self) {
        let colour = OutputStyle::of_stderr().has_colour();
        match self.refusal {
            Some(error) => {
                print_styled_note(&(error.render(colour) + "\n\n"));
                for help in error.unreadable().filter_map(|(file, error)| missing_file_help(file, error)) {
                    print_note!("help: {help}\n");
                }
            }
            None => self.diagnostics.iter().for_each(|warning| {
                let message = split_searched_path(&warning.message).0.to_owned();
                print_styled_note(&(Diagnostic { message, ..warning.clone() }.render(colour) + "\n\n"));
            }),
        }
        for path in searched_paths(self.diagnostics.iter().map(|warning| &*warning.message), "this shell") {
            print_note!("{path}\n");
        }
        if let Some(hint) = self.hint {
            print_note!("{hint}");
        }
        for MalformedOf { server, count, items } in &self.malformed {
            let more = if *count > 1 { format!("; {} more: `mcpd doctor {server}`", count - 1) } else { String::new() };
            print_note!("note: {server}: {}{more}\n", items.first().map(malformed_item).unwrap_or_default());
        }
        for (server, program) in &self.programs {
            print_note!("note: each start of {server} runs `{program}`\n");
        }
        if !self.unchecked.is_empty() {
            let names = join_limited(&self.unchecked, MAX_NAMES);
            print_note!(
                "note: the patterns for {names} were not compared with tools, because mcpd has not listed them yet. `mcpd start` \
                 lists them; then run `mcpd check` again\n"
            );
        }
    }

    fn summary(&self) -> String {
        if self.refusal.is_some() {
            return format!("{}: this configuration is refused", count(self.errors, "error"));
        }
        let verdict = match self.unstartable {
            _ if self.servers == 0 => "no server is configured".to_owned(),
            0 => "valid".to_owned(),
            all if all == self.servers => "no server can start".to_owned(),
            some => format!("{} cannot start", count(some, "server")),
        };
        format!("{}: {verdict}, {}", count(self.servers, "server"), count(self.warnings, "warning"))
    }

    fn print_json(&self) -> Result<(), ExitCode> {
        let unreadable = self.refusal.into_iter().flat_map(ConfigError::unreadable).map(|(file, error)| {
            let message = format!("cannot read {}: {error}", file.display());
            let help = missing_file_help(file, error);
            JsonFinding { level: "error", message, label: None, file, line: None, column: None, help }
        });
        let report = JsonReport {
            servers: self.servers,
            unstartable: self.unstartable,
            errors: self.errors,
            warnings: self.warnings,
            unknown: &self.unknown,
            malformed: &self.malformed,
            diagnostics: unreadable.chain(self.diagnostics.iter().map(finding)).collect(),
        };
        try_print_report(&report)
    }
}

/// The advice about a file that was named and does not exist.
fn missing_file_help(file: &Path, error: &io::Error) -> Option<String> {
    let default = config::default_path(&Process).map(|path| format!(", or omit it to check {}", path.display()));
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    is_missing.then(|| format!("{} does not exist: correct the path{}", file.display(), default.unwrap_or_default()))
}

fn finding(diagnostic: &Diagnostic) -> JsonFinding<'_> {
    let (line, column) = diagnostic.place();
    let level = match diagnostic.level {
        Level::Error => "error",
        Level::Warning => "warning",
    };
    JsonFinding {
        level,
        message: diagnostic.message.clone(),
        label: diagnostic.label.as_deref(),
        file: &diagnostic.file.path,
        line: Some(line),
        column: Some(column),
        help: diagnostic.help.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_ten_servers_and_counts_the_others() {
        let names: Vec<String> = (1..=12).map(|number| format!("s{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (count, expected) in [(1, "s1"), (2, "s1, s2"), (10, "s9, s10"), (11, "s10 and 1 more"), (12, "and 2 more")]
        {
            assert!(join_limited(&names[..count], MAX_NAMES).ends_with(expected), "{count}");
        }
        assert!(!join_limited(&names, MAX_NAMES).contains("s11"));
    }
}
