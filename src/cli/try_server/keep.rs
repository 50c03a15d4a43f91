//! `mcpd try --keep`: adds a server that was tried, with the grants that a person accepts.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;

use super::options::TryOptions;
use super::words::Subject;
use crate::cli::config_edit::{EditOptions, secrets_directory};
use crate::cli::import::write_files;
use crate::cli::reload::Scope;
use crate::cli::text::{count, join_limited, lines, one_line};
use crate::cli::{CommandResult, FAILED, USAGE, fail, prompt};
use crate::clock::unix_seconds;
use crate::config::edit::file::ConfigFile;
use crate::config::edit::{self, EditError};
use crate::config::import::{self, Plan, known_keys, proposed_sandbox};
use crate::config::interpolate::{Process, Sources};
use crate::config::known_commands::{CommandLine, FilesObstacle, PASS_ENV, Proposal, named_paths, runner};
use crate::config::serialize::{Setting, sandbox_text};
use crate::config::{Sandbox, SandboxLevel, fitted_name};
use crate::daemon::pin_directory;
use crate::naming::is_server_name;
use crate::packages::pinned_args;
use crate::pins::{PinRecord, PinnedKind};
use crate::receipt::grants::{self, Evidence, Grant, ProposedGrant, Reason, Withheld};
use crate::receipt::observed::{Endpoint, Observed};
use crate::receipt::touched::Touched;
use crate::server::{GuardProgram, ServerContext};
use crate::sockets::RuntimeDir;
use crate::trial::Trial;

/// The most endpoints of a reason.
const MAX_ENDPOINTS: usize = 3;

/// The most names of secrets in a directory.
const MAX_NAMES: usize = 3;

/// A server that is to be kept, as far as it was checked before the trial.
pub(super) struct Keep {
    name: String,
    path: PathBuf,
}

/// What was added to the configuration.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Kept {
    /// Name of the server.
    pub(super) name: String,
    /// The configuration that was written.
    pub(super) file: PathBuf,
    /// The value of `sandbox`, in TOML. Absent for a server at a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    /// Whether the command line has the version that was tried.
    pinned: bool,
    /// Number of definitions that are approved.
    approved: usize,
    /// Secrets that the server would need, and that are not granted.
    withheld: Vec<PathBuf>,
    /// Files to which secrets were moved.
    secrets: Vec<PathBuf>,
}

impl Keep {
    /// Checks the name and the configuration.
    pub(super) fn prepare(name: &str, options: &EditOptions) -> Result<Self, ExitCode> {
        if !is_server_name(name) {
            let fitted = fitted_name(name, "server");
            return Err(fail(USAGE, format!("`{}` cannot name a server: write `{fitted}`", name.escape_debug())));
        }
        let path = options.path()?;
        let keep = Self { name: name.to_owned(), path };
        let file = keep.open()?;
        let taken = edit::names(file.text()).map_err(|error| fail(USAGE, options.edit_failure(&keep.path, &error)))?;
        if taken.contains(&keep.name) {
            let error = options.edit_failure(&keep.path, &EditError::Exists(keep.name.clone()));
            return Err(fail(USAGE, format!("not tried: {error}: choose another name, or `mcpd remove {name}` first")));
        }
        Ok(keep)
    }

    fn open(&self) -> Result<ConfigFile, ExitCode> {
        ConfigFile::open(&self.path)
            .map_err(|error| fail(USAGE, format!("cannot read {}: {error}", self.path.display())))
    }

    /// Asks for the grants, and adds the server.
    pub(super) fn run(
        self,
        subject: &Subject,
        trial: &Trial,
        traced: Option<(&Observed, &Touched)>,
        options: &TryOptions,
    ) -> Result<Kept, ExitCode> {
        let failed = |error: String| fail(FAILED, format!("not kept: {error}"));
        let mut settings = launch_settings(subject);
        let version = trial.package.as_ref().map(|package| package.version.as_str());
        let pinned = version.is_some_and(|version| pin(&mut settings, version));
        let base = subject.command().map(|_| base(&settings).map_err(|obstacle| failed(obstacle.to_string())));
        // No text was a reference in the trial.
        settings = import::literal(settings);
        let (mut sandbox, mut withheld) = (None, Vec::new());
        if let Some(Proposal { sandbox: base, env }) = base.transpose()? {
            let accepted = self.grants(&base, subject, trial, traced, options)?;
            withheld = accepted.withheld.into_iter().map(|one| one.path).collect();
            for advice in known_keys(&settings).into_iter().filter(|advice| advice.key != PASS_ENV) {
                settings.push((advice.key.to_owned(), advice.setting()));
            }
            sandbox = Some(sandbox_text(&accepted.sandbox));
            let env = env.into_iter().filter(|(_, value)| is_granted(value, &accepted.sandbox)).collect();
            import::accept(Proposal { sandbox: accepted.sandbox, env }, &mut settings);
        }
        settings.push(("changes".to_owned(), Setting::from("hold")));
        let record = approved(&self.name, trial);
        let approved = record.iter().count();
        let secrets = self.write(settings, &record, &options.edit)?;
        if !options.edit.json {
            let pinned = if pinned { ", with its version" } else { "" };
            print_note!(
                "kept {} in {}{pinned}; {} approved",
                self.name,
                self.path.display(),
                count(approved, "definition")
            );
        }
        if !pinned && subject.command().is_some_and(|(command, args)| runner(command, args).is_some()) {
            print_note!(
                "note: no version is written, because it is not known: `mcpd lock {}` writes it after the first start",
                self.name
            );
        }
        Ok(Kept { name: self.name, file: self.path, sandbox, pinned, approved, withheld, secrets })
    }

    /// The grants that the person accepts.
    fn grants(
        &self,
        base: &Sandbox,
        subject: &Subject,
        trial: &Trial,
        traced: Option<(&Observed, &Touched)>,
        options: &TryOptions,
    ) -> Result<Accepted, ExitCode> {
        let program = |command: &str| Path::new(command).file_name().map(|name| name.to_string_lossy().into_owned());
        let restricts_ports = ServerContext::new(GuardProgram::available()).sandbox.restricts_ports();
        let evidence = Evidence {
            base,
            places: &trial.places,
            traced,
            runner: subject.command().and_then(|(command, args)| runner(command, args).and_then(|_| program(command))),
            had_network: !options.no_network,
            restricts_ports,
        };
        let (proposed, withheld) = grants::proposed(&evidence, &Process);
        for (number, one) in proposed.iter().enumerate() {
            let asks = if one.is_servers_wish { "; only the server's behaviour calls for it" } else { "" };
            let (grant, reason) = (grant_text(&one.grant), reason_text(&one.reason));
            let contains = if one.contains.is_empty() {
                String::new()
            } else {
                format!("; it contains {}", one_line(&join_limited(&one.contains, MAX_NAMES)))
            };
            let mark = if one.is_servers_wish { ' ' } else { '+' };
            print_note!("{mark} {:>2}  {grant:40}  {reason}{asks}{contains}", number + 1);
        }
        if proposed.is_empty() {
            print_note!("  {} needs nothing besides its own directories", self.name);
        }
        for Withheld { path, secret } in &withheld {
            print_note!("   -  {:40}  never granted: {}", path.display(), secret.what);
        }
        let is_struck = self.struck(&proposed, options.yes)?;
        let kept = proposed.into_iter().zip(is_struck).filter(|(_, is_struck)| !is_struck).map(|(one, _)| one.grant);
        let kept: Vec<_> = kept.collect();
        Ok(Accepted { sandbox: grants::sandbox(base, &kept, restricts_ports), withheld })
    }

    /// Which lines are struck.
    fn struck(&self, proposed: &[ProposedGrant], accepts: bool) -> Result<Vec<bool>, ExitCode> {
        if proposed.is_empty() {
            return Ok(Vec::new());
        }
        let unmarked: Vec<_> = proposed.iter().map(|one| one.is_servers_wish).collect();
        if accepts {
            return Ok(unmarked);
        }
        if !prompt::is_possible() {
            return Err(fail(
                FAILED,
                "not kept: add `--yes`, or run the command on a terminal to choose the grants".to_owned(),
            ));
        }
        let question =
            format!("Keep {} with the lines marked `+`? Enter accepts, numbers change marks, `q` cancels: ", self.name);
        loop {
            let answer = prompt::answer_line(&question).map_err(|error: io::Error| fail(FAILED, error))?;
            match answer.as_deref().map(|answer| struck_lines(answer, unmarked.clone())) {
                Some(Ok(struck)) => return Ok(struck),
                Some(Err(Some(word))) => print_note!("`{}` is not the number of a line", lines(&word)),
                Some(Err(None)) | None => return Err(fail(FAILED, "not kept")),
            }
        }
    }

    /// Writes the approved definitions, and then the configuration.
    fn write(
        &self,
        settings: Vec<(String, Setting)>,
        record: &PinRecord,
        options: &EditOptions,
    ) -> Result<Vec<PathBuf>, ExitCode> {
        let usage = |error: String| fail(USAGE, format!("not kept: {error}"));
        let file = self.open()?;
        let secrets = secrets_directory(&self.path).map_err(|error| usage(error.to_string()))?;
        let mut plan = Plan::new(file.text(), &[], &secrets, &Process);
        plan.put(&self.name, settings).map_err(|error| usage(options.edit_failure(&self.path, &error)))?;
        let (text, secrets) = plan.finish();
        options.check(&file, &text, &secrets).map_err(|error| usage(error.to_string()))?;
        let moved: Vec<_> = secrets.iter().map(|secret| secret.path.clone()).collect();
        let failed = |error: String| fail(FAILED, format!("not kept: {error}"));
        let pins = pin_directory(&options.files()).ok_or_else(|| failed("HOME is not set".to_owned()))?;
        let pin_file = pins.file(&self.name);
        pins.store(&self.name, record).map_err(|error| failed(format!("{}: {error}", pin_file.display())))?;
        if let Err(error) = write_files(file, &text, secrets) {
            let _ = std::fs::remove_file(pin_file);
            return Err(failed(error.to_string()));
        }
        Ok(moved)
    }
}

/// Applies the change of the configuration `file` to a running daemon.
pub(super) fn apply(options: &EditOptions, directory: Option<RuntimeDir>, file: &Path, name: &str) -> CommandResult {
    options.apply(directory, &[file], Scope::Servers(&[name]))
}

struct Accepted {
    sandbox: Sandbox,
    withheld: Vec<Withheld>,
}

fn launch_settings(subject: &Subject) -> Vec<(String, Setting)> {
    let settings = match subject {
        Subject::Url(url) => vec![("url", Setting::from(url.as_str()))],
        Subject::Command { command, args, env } => {
            let args = (!args.is_empty()).then(|| ("args", Setting::List(args.clone())));
            let env = (!env.is_empty()).then(|| ("env", Setting::Table(env.clone())));
            [Some(("command", Setting::Text(command.clone()))), args, env].into_iter().flatten().collect()
        }
    };
    settings.into_iter().map(|(key, setting)| (key.to_owned(), setting)).collect()
}

/// Writes the version into the arguments. Returns whether it is there.
fn pin(settings: &mut [(String, Setting)], version: &str) -> bool {
    let pinned = import::command_line(settings).and_then(|(command, args)| pinned_args(command, args, version));
    let args = settings.iter_mut().find(|(key, _)| key == "args");
    match (pinned, args) {
        (Some(pinned), Some((_, args))) => {
            *args = Setting::List(pinned);
            true
        }
        _ => false,
    }
}

/// The sandbox that the command line leads to. The trial has shown that it works for some for which `add` proposes none.
fn base(settings: &[(String, Setting)]) -> Result<Proposal, FilesObstacle> {
    match proposed_sandbox(settings, &Process) {
        Some(Err(
            FilesObstacle::OtherProcesses
            | FilesObstacle::OtherPrograms(_)
            | FilesObstacle::Shim(_)
            | FilesObstacle::Window,
        )) => {
            let Some((command, args)) = import::command_line(settings) else { return Err(FilesObstacle::Mounts) };
            let (read, write) = named_paths(CommandLine { command, args, env: &[], cwd: None }, &Process)?;
            Ok(Proposal { sandbox: Sandbox { read, write, ..Sandbox::of_level(SandboxLevel::Files) }, env: Vec::new() })
        }
        Some(proposal) => proposal,
        None => Err(FilesObstacle::Mounts),
    }
}

/// Whether the path in the value of a variable is granted, or the value has none.
fn is_granted(value: &str, sandbox: &Sandbox) -> bool {
    let Some(below) = value.strip_prefix("${HOME}/") else { return true };
    let home = Process.home().unwrap_or_default();
    let is_it =
        |path: &PathBuf| *path == Path::new("~").join(below) || *path == home.join(below) || *path == Path::new(value);
    sandbox.read.iter().chain(&sandbox.write).any(is_it)
}

/// What the server offers, as approved now.
fn approved(name: &str, trial: &Trial) -> PinRecord {
    let mut record = PinRecord::new(name);
    let now = unix_seconds();
    let Some(offer) = &trial.offer else { return record };
    for (kind, list) in offer.lists.iter() {
        let Some(pinned) = PinnedKind::of(kind) else { continue };
        for item in &list.items {
            record.insert(pinned, &item.key, &item.json, now);
        }
    }
    if let Some(text) = &offer.instructions
        && let Ok(json) = serde_json::to_vec(&**text)
    {
        record.insert(PinnedKind::Instructions, &Arc::from(""), &json, now);
    }
    record
}

/// The lines that are struck after an answer, which changes those that it names. `Err`: the word that is no number of a line, or nothing to end.
fn struck_lines(answer: &str, mut struck: Vec<bool>) -> Result<Vec<bool>, Option<String>> {
    for word in answer.split([' ', ',']).filter(|word| !word.is_empty()) {
        if word.eq_ignore_ascii_case("q") {
            return Err(None);
        }
        let index = word.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        match index.and_then(|index| struck.get_mut(index)) {
            Some(line) => *line = !*line,
            None => return Err(Some(word.to_owned())),
        }
    }
    Ok(struck)
}

fn grant_text(grant: &Grant) -> String {
    match grant {
        Grant::Read(path) => format!("read {}", path.display()),
        Grant::Write(path) => format!("change {}", path.display()),
        Grant::Port(port) => format!("connect to TCP port {port}"),
        Grant::Network => "use the whole network".to_owned(),
        Grant::UnixSockets => "use Unix sockets".to_owned(),
        Grant::NestedNamespaces => "create namespaces".to_owned(),
    }
}

fn reason_text(reason: &Reason) -> String {
    let endpoints =
        |all: &[Endpoint]| join_limited(&all.iter().map(Endpoint::to_string).collect::<Vec<_>>(), MAX_ENDPOINTS);
    match reason {
        Reason::NamedAndRead(0) => "the command line names it".to_owned(),
        Reason::NamedAndRead(files) => format!("the command line names it; {} touched", count(*files, "path")),
        Reason::NamedAndWritten(0) => "the command line names it; nothing was changed in the trial".to_owned(),
        Reason::NamedAndWritten(files) => format!("the command line names it; {} changed", count(*files, "file")),
        Reason::Known => "servers of this kind need it".to_owned(),
        Reason::Missed => "it looked for it".to_owned(),
        Reason::RefusedWrite => "it tried to write there".to_owned(),
        Reason::Connected(to) => endpoints(to),
        Reason::Downloads(program) => format!("{program} downloads the package at the first start"),
        Reason::Listened(at) => format!("it listened at {}", endpoints(at)),
        Reason::Sent(to) => format!("it sent to {}", endpoints(to)),
        Reason::NotTraced => "what it uses is not known, because it was not traced".to_owned(),
        Reason::Tried => "it tried to".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_change_marks() {
        // The server alone asks for the second line.
        let answered = |answer| struck_lines(answer, vec![false, true]);
        assert_eq!(answered(""), Ok(vec![false, true]));
        assert_eq!(answered(" 2, 1"), Ok(vec![true, false]));
        assert_eq!(answered("1"), Ok(vec![true, true]));
        assert_eq!(answered("3"), Err(Some("3".to_owned())));
        assert_eq!(answered("0"), Err(Some("0".to_owned())));
        assert_eq!(answered("1 Q"), Err(None));
    }

    #[test]
    fn texts_of_the_trial_are_no_references() {
        let text = |text: &str| text.to_owned();
        let subject = Subject::Command {
            command: text("/srv/${x}"),
            args: vec![text("${cmd:id}"), text("a$b $${c"), text("${HOME}/x")],
            env: vec![(text("V"), text("x${X"))],
        };
        let settings = import::literal(launch_settings(&subject));
        let expected = [
            ("command", Setting::from("/srv/$${x}")),
            ("args", Setting::List(vec![text("$${cmd:id}"), text("a$b $$${c"), text("$${HOME}/x")])),
            ("env", Setting::Table(vec![(text("V"), text("x$${X"))])),
        ];
        assert_eq!(settings, expected.map(|(key, setting)| (text(key), setting)));
    }

    #[test]
    fn version_is_written_into_the_arguments() {
        let args = |words: &[&str]| Setting::List(words.iter().map(|word| (*word).to_owned()).collect());
        let mut settings =
            vec![("command".to_owned(), Setting::from("npx")), ("args".to_owned(), args(&["-y", "@a/b", "/srv"]))];
        assert!(pin(&mut settings, "1.2.3"));
        assert_eq!(settings[1].1, args(&["-y", "@a/b@1.2.3", "/srv"]));
        let mut plain = vec![("command".to_owned(), Setting::from("server")), ("args".to_owned(), args(&["x"]))];
        assert!(!pin(&mut plain, "1.2.3"));
    }
}
