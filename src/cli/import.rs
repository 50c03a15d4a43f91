//! `mcpd import`: servers of other clients, taken over into our configuration.
//!
//! What would be written is a diff on stdout and nothing else is, so that it can be piped; what became of each server is said
//! on stderr. `found` reads the clients' files, `diff` draws, `ask` asks, `write` writes.

pub(super) mod ask;
pub(super) mod diff;
mod found;
mod json_report;
pub(super) mod write;

use std::fmt::Write as _;
use std::io::{IsTerminal, stderr, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;

use self::found::Found;
use self::json_report::{Source, Taken, Told};
use super::completions;
use super::config_edit::{OLD_ENTRIES, check, next_step, our_file, secrets_of};
use super::outcome::{print_note, print_styled_note};
use super::style::OutputStyle;
use super::text::one_line;
use super::{FAILED, USAGE, fail, try_print};
use crate::config::edit::file::ConfigFile;
use crate::config::import::{ForeignServer, Outcome, Plan, SecretFile};
use crate::config::interpolate::Process;
use crate::config::{self, ServerConfig};
use crate::sockets::RuntimeDir;

/// What is to be imported, and how.
#[derive(Debug, Args)]
pub(super) struct Import {
    /// Import from this client or file only; repeatable [default: every client that is configured here]
    #[arg(long, value_name = "CLIENT|FILE", add = ArgValueCandidates::new(completions::clients))]
    from: Vec<String>,
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write without asking for anything
    #[arg(short, long)]
    yes: bool,
    /// Add a server whose name another has under a name with a number
    #[arg(long)]
    rename: bool,
    /// The configuration to add them to [default: ~/.config/mcpd/config.toml]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Have the running daemon take the configuration over
    #[arg(long)]
    reload: bool,
    /// Print what was found and done as JSON; with `--reload`, what came of that as another object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(import: &Import, directory: Option<RuntimeDir>) -> ExitCode {
    imported(import, directory).unwrap_or_else(|code| code)
}

fn imported(import: &Import, directory: Option<RuntimeDir>) -> Result<ExitCode, ExitCode> {
    let found = Found::look(&import.from, &Process).map_err(|error| fail(USAGE, error))?;
    let path = our_file(import.file.as_deref()).map_err(|error| fail(USAGE, error))?;
    let path = std::path::absolute(&path).map_err(|error| fail(USAGE, error))?;
    let unreadable = |error| fail(USAGE, format!("cannot read {}: {error}", path.display()));
    let file = ConfigFile::open(&path).map_err(unreadable)?;
    let configured = configured(import.file.as_deref())?;
    let secrets = secrets_of(&path).map_err(|error| fail(USAGE, error))?;
    let mut plan = Plan::new(file.text(), &configured, &secrets, &Process);
    let sources = take(&found, &mut plan, import.rename);
    let (text, mut files) = plan.finish();
    let outcome = if found.has_errors() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS };
    let added = sources.iter().map(Source::added).sum();
    let mut told = Told::new(&path, sources, &files);
    if added == 0 {
        print_note!("mcpd: there is nothing to add to {}", path.display());
        told.print(import.json)?;
        // An earlier command may have added servers that the daemon does not run yet.
        let next = if import.reload && !import.dry_run {
            next_step(directory, true, import.json, &[])
        } else {
            ExitCode::SUCCESS
        };
        return Ok(if next == ExitCode::SUCCESS { outcome } else { next });
    }
    check(import.file.as_deref(), &file, &text, &files).map_err(|error| fail(FAILED, error))?;
    if !import.json {
        try_print(diff::unified(file.text(), &text, &path, OutputStyle::of_stdout().has_colour()))?;
    }
    print_note(format_args!("{}", moved(&files)));
    if import.dry_run {
        print_note!("mcpd: nothing is written");
        return told.print(import.json).map(|()| outcome);
    }
    if !import.yes {
        if !stdin().is_terminal() || !stderr().is_terminal() {
            return Err(fail(USAGE, "nothing is written: say `--yes`, or run it on a terminal to be asked"));
        }
        if !ask::agrees(added, &path).map_err(|error| fail(FAILED, error))? {
            print_note!("mcpd: nothing is written");
            return Ok(outcome);
        }
        ask::for_answers(&mut files).map_err(|error| fail(FAILED, error))?;
    }
    let unanswered = write::all(file, &text, files).map_err(|error| fail(FAILED, error))?;
    let is_served = directory.as_ref().is_some_and(RuntimeDir::is_served);
    print_note(format_args!("{}", written(added, &path, &unanswered, is_served)));
    told.written = true;
    told.print(import.json)?;
    let names = told.added();
    let next = next_step(directory, import.reload, import.json, &names);
    Ok(if next == ExitCode::SUCCESS { outcome } else { next })
}

/// The servers that are configured already.
fn configured(named: Option<&Path>) -> Result<Vec<ServerConfig>, ExitCode> {
    let files: Vec<_> = named.map(Path::to_owned).into_iter().collect();
    if files.iter().any(|file| !file.exists()) {
        return Ok(Vec::new());
    }
    config::load(&files, &Process).map(|loaded| loaded.config.servers).map_err(|error| {
        print_styled_note(&(error.render(OutputStyle::of_stderr().has_colour()) + "\n"));
        fail(USAGE, "nothing is imported into a configuration with errors")
    })
}

/// Plans every server that was found, and says what becomes of each.
fn take<'f>(found: &'f Found, plan: &mut Plan<'_>, rename: bool) -> Vec<Source<'f>> {
    let mut sources = Vec::new();
    let colour = OutputStyle::of_stderr().has_colour();
    for file in &found.files {
        let path = one_line(&file.path.display().to_string());
        match &file.project {
            Some(project) => {
                print_note!("{path} ({}, project {})", file.title, one_line(&project.display().to_string()))
            }
            None => print_note!("{path} ({})", file.title),
        }
        for complaint in file.complaints(colour) {
            print_styled_note(&(complaint + "\n"));
        }
        let mut servers = Vec::new();
        for server in file.servers() {
            let outcome = plan.add(server, rename);
            print_note!("  {}", one_line(&(line(&server.title, &outcome) + &place(server))));
            servers.push(Taken::new(server, outcome));
        }
        sources.push(Source { file: &file.path, client: file.title, servers });
    }
    sources
}

/// The project that a server is for, and the working directory that is written for it.
fn place(server: &ForeignServer) -> String {
    let project = server.project.as_ref().map(|project| format!("project {project}"));
    let cwd = server.cwd().map(|cwd| format!("cwd {cwd}"));
    let parts: Vec<_> = project.into_iter().chain(cwd).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn line(title: &str, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Added(name) if name == title => format!("+ {title}"),
        Outcome::Added(name) => format!("+ {title}, as `{name}`"),
        Outcome::Known(name) if name == title => format!("= {title} is there already"),
        Outcome::Known(name) => format!("= {title} is there already, as `{name}`"),
        Outcome::Differs { name, free } => format!(
            "! {title} is not added: there is another `{name}`, which stays as it is; `--rename` adds this one as `{free}`"
        ),
        Outcome::Impossible(reason) => format!("! {title} is not added: {reason}"),
    }
}

/// Which secrets go where.
fn moved(files: &[SecretFile]) -> String {
    files.iter().fold(String::new(), |mut text, file| {
        let _ = writeln!(text, "secret {} goes to {}", one_line(&file.of), one_line(&file.path.display().to_string()));
        text
    })
}

/// What was done, and what to do next. `is_served` says that a daemon runs.
fn written(added: usize, path: &Path, unanswered: &[SecretFile], is_served: bool) -> String {
    let servers = if added == 1 { "server is" } else { "servers are" };
    let mut text = format!("mcpd: {added} {servers} added to {}\n", path.display());
    for file in unanswered {
        let (of, file) = (one_line(&file.of), one_line(&file.path.display().to_string()));
        let _ = writeln!(
            text,
            "mcpd: {of} is missing: write it to {file} with mode 0600. The server that needs it fails until you do"
        );
    }
    let start = if is_served {
        ""
    } else {
        "  `mcpd start` starts the daemon; so does the next client that runs `mcpd connect`\n"
    };
    text + &format!(
        "next:\n  `mcpd check` checks the configuration\n{start}  `mcpd connect --print CLIENT` prints the entry for a client\n  \
         {OLD_ENTRIES}\n"
    )
}
