//! `mcpd check`: what there is to say of a configuration, without starting anything.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use super::outcome::print_styled_note;
use super::style::OutputStyle;
use super::text::{count, join_limited, searched_paths, split_searched_path};
use super::{FAILED, USAGE, json, try_print};
use crate::catalog::Lists;
use crate::config::diagnostic::{Diagnostic, Level};
use crate::config::interpolate::Process;
use crate::config::{self, ConfigError, Loaded, ServerConfig};
use crate::config_lints;
use crate::daemon::cache_directory;
use crate::server::last_known;

/// Servers that a note for a person names.
const MOST_NAMES: usize = 10;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Configuration, as `mcpd serve --config FILE` takes it [default: as `mcpd serve`]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Exit with 1 if there are warnings
    #[arg(long)]
    strict: bool,
    /// Print what there is to say as JSON
    #[arg(long, conflicts_with = "show")]
    json: bool,
    /// Print the configuration that holds, with where each value comes from
    #[arg(long)]
    show: bool,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let loaded = config::load(&arguments.files, &Process);
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
    match (printed, findings.errors, findings.warnings) {
        (Err(code), ..) if code != ExitCode::SUCCESS => code,
        (_, 1.., _) => ExitCode::from(USAGE),
        (..) if findings.servers > 0 && findings.unstartable == findings.servers => ExitCode::from(FAILED),
        (_, 0, 1..) if arguments.strict => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    }
}

/// What there is to say.
struct Findings<'a> {
    servers: usize,
    /// Servers that cannot start, as far as can be told without starting them.
    unstartable: usize,
    errors: usize,
    warnings: usize,
    /// Servers that have not said yet what they offer.
    unknown: Vec<&'a str>,
    hint: Option<&'a str>,
    diagnostics: Vec<Diagnostic>,
    /// Why there is no configuration at all.
    refusal: Option<&'a ConfigError>,
}

/// One of them, for programs.
#[derive(Serialize)]
struct Finding<'a> {
    level: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    file: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
}

#[derive(Serialize)]
struct Shape<'a> {
    servers: usize,
    unstartable: usize,
    errors: usize,
    warnings: usize,
    unknown: &'a [&'a str],
    diagnostics: Vec<Finding<'a>>,
}

impl<'a> Findings<'a> {
    fn of(loaded: &'a Loaded, known: impl Fn(&ServerConfig) -> Option<Lists>) -> Self {
        let servers = &loaded.config.servers;
        let known: Vec<_> = servers.iter().map(known).collect();
        let unstartable = servers.iter().filter(|server| !config_lints::can_start(server, &Process)).count();
        let is_unknown = |(server, lists): (&'a ServerConfig, &Option<Lists>)| lists.is_none().then_some(&*server.name);
        let unknown = servers.iter().zip(&known).filter_map(is_unknown).collect();
        let mut diagnostics = loaded.warnings.clone();
        diagnostics.extend(config_lints::advise(loaded, &Process, known));
        let (servers, warnings) = (servers.len(), diagnostics.len());
        let hint = loaded.hint.as_deref();
        Self { servers, unstartable, errors: 0, warnings, unknown, hint, diagnostics, refusal: None }
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
            hint: None,
            diagnostics,
            refusal: Some(error),
        }
    }

    /// For a person, beside what was asked for.
    fn explain(&self) {
        let colour = OutputStyle::of_stderr().has_colour();
        match self.refusal {
            Some(error) => print_styled_note(&(error.render(colour) + "\n\n")),
            None => self.diagnostics.iter().for_each(|warning| {
                let message = split_searched_path(&warning.message).0.to_owned();
                print_styled_note(&(Diagnostic { message, ..warning.clone() }.render(colour) + "\n\n"));
            }),
        }
        for path in searched_paths(self.diagnostics.iter().map(|warning| &*warning.message)) {
            print_note!("{path}\n");
        }
        if let Some(hint) = self.hint {
            print_note!("{hint}");
        }
        if !self.unknown.is_empty() {
            let names = join_limited(&self.unknown, MOST_NAMES);
            print_note!(
                "note: patterns and names were not checked of {names}: what they offer is known once they have run\n"
            );
        }
    }

    /// In one line.
    fn summary(&self) -> String {
        if self.refusal.is_some() {
            return format!("{}: this configuration is refused", count(self.errors, "error"));
        }
        let verdict = match self.unstartable {
            0 => "fine".to_owned(),
            all if all == self.servers => "no server can start".to_owned(),
            some => format!("{} cannot start", count(some, "server")),
        };
        format!("{}, {}: {verdict}", count(self.servers, "server"), count(self.warnings, "warning"))
    }

    fn print_json(&self) -> Result<(), ExitCode> {
        let unreadable = self.refusal.into_iter().flat_map(ConfigError::unreadable).map(|(file, error)| {
            let message = format!("cannot read {}: {error}", file.display());
            Finding { level: "error", message, label: None, file, line: None, column: None, help: None }
        });
        let shape = Shape {
            servers: self.servers,
            unstartable: self.unstartable,
            errors: self.errors,
            warnings: self.warnings,
            unknown: &self.unknown,
            diagnostics: unreadable.chain(self.diagnostics.iter().map(finding)).collect(),
        };
        json::try_print_page(&shape)
    }
}

fn finding(diagnostic: &Diagnostic) -> Finding<'_> {
    let (line, column) = diagnostic.place();
    let level = match diagnostic.level {
        Level::Error => "error",
        Level::Warning => "warning",
    };
    Finding {
        level,
        message: diagnostic.message.clone(),
        label: diagnostic.label.as_deref(),
        file: &diagnostic.file.path,
        line: Some(line),
        column: Some(column),
        help: diagnostic.help.as_deref(),
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
            assert!(join_limited(&names[..count], MOST_NAMES).ends_with(expected), "{count}");
        }
        assert!(!join_limited(&names, MOST_NAMES).contains("s11"));
    }
}
