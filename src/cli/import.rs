//! `mcpd import`: adds the servers of other clients to mcpd's configuration.
//!
//! Only the diff goes to stdout, so that it can be piped. The outcome for each server goes to stderr. Secret files are written before the
//! configuration, which therefore never refers to a missing file.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Serialize;
use serde_with::skip_serializing_none;

use super::client_changes::WriteOptions;
use super::config_edit::{EditOptions, link_hint, secrets_directory};
use super::lock::offer::{locked_args, runs_any_version};
use super::outcome::{config_failure, print_note, print_styled_note, try_print_report};
use super::reload::Scope;
use super::style::OutputStyle;
use super::text::one_line;
use super::{CommandResult, FAILED, USAGE, completions, diff, fail, prompt, try_print};
use crate::config::clients::project_of;
use crate::config::edit::file::{ConfigFile, WriteError};
use crate::config::import::{Content, Foreign, ForeignServer, ImportChoices, Outcome, Plan, SecretFile, foreign};
use crate::config::interpolate::{Process, Sources};
use crate::config::{self, Config, ServerConfig};
use crate::known_clients::{CLIENTS, Client, MAX_FILE};
use crate::sockets::RuntimeDir;

#[derive(Debug, Args)]
pub(super) struct Import {
    /// Import from these clients or files only [default: every client that is configured here]
    #[arg(value_name = "CLIENT|FILE", add = ArgValueCandidates::new(completions::clients))]
    sources: Vec<String>,
    /// The same, as an option
    #[arg(long, value_name = "CLIENT|FILE", hide = true, add = ArgValueCandidates::new(completions::clients))]
    from: Vec<String>,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Write without confirmation or questions
    #[arg(short, long)]
    yes: bool,
    /// If another server of the configuration has the same name, add a number to the name
    #[arg(long)]
    rename: bool,
    /// Also add servers that a client starts in one project only
    #[arg(long)]
    projects: bool,
    #[command(flatten)]
    options: EditOptions,
}

pub(super) fn run(import: &Import, directory: Option<RuntimeDir>) -> CommandResult {
    let options = &import.options;
    let imported = import_servers(import, |_, _| Ok(()))?;
    let Imported { code, report, .. } = &imported;
    if report.written {
        let is_served = directory.as_ref().is_some_and(RuntimeDir::is_served);
        print_note(format_args!("{}", summary(&imported)));
        print_note(format_args!("{}", next_steps(is_served)));
    }
    if options.json {
        report.print()?;
    }
    if !report.written {
        return Ok(*code);
    }
    let applied = options.apply(directory, &[&report.file], Scope::Servers(&report.added()));
    let applied = applied.unwrap_or_else(|code| code);
    Ok(if applied == ExitCode::SUCCESS { *code } else { applied })
}

/// What an import has done.
pub(super) struct Imported {
    /// Whether every file could be read.
    pub(super) code: ExitCode,
    pub(super) report: JsonReport,
    /// Secrets that the user has to write.
    unanswered: Vec<SecretFile>,
    /// The configuration as it is now, or would be.
    pub(super) config: Option<Config>,
}

impl Import {
    /// All servers of all clients.
    pub(super) fn all(WriteOptions { yes, dry_run, json }: WriteOptions) -> Self {
        let options = EditOptions { config: None, no_reload: false, json };
        let (rename, projects) = (false, false);
        Self { sources: Vec::new(), from: Vec::new(), dry_run, yes, rename, projects, options }
    }
}

impl Imported {
    /// Has a running daemon use the new servers, and prints what was done.
    pub(super) fn apply(&self, import: &Import, directory: &RuntimeDir) -> CommandResult {
        print_note(format_args!("{}", summary(self)));
        if !directory.is_served() {
            return Ok(ExitCode::SUCCESS);
        }
        import.options.apply(Some(directory.clone()), &[&self.report.file], Scope::Servers(&self.report.added()))
    }
}

/// Adds the servers to the configuration after a confirmation. An error is printed. `before_writing` gets the new text and the files of secrets.
pub(super) fn import_servers(
    import: &Import,
    before_writing: impl FnOnce(&str, &[SecretFile]) -> Result<(), ExitCode>,
) -> Result<Imported, ExitCode> {
    let Import { sources, from, options, .. } = import;
    let client_files =
        ClientFile::read_all(&[&sources[..], from].concat(), &Process).map_err(|error| fail(USAGE, error))?;
    let path = std::path::absolute(options.path()?).map_err(|error| fail(USAGE, error))?;
    let unreadable = |error| fail(USAGE, format!("cannot read {}: {error}", path.display()));
    let file = ConfigFile::open(&path).map_err(unreadable)?;
    let loaded = configured(options)?;
    let secrets = secrets_directory(&path).map_err(|error| fail(USAGE, error))?;
    let servers = loaded.as_ref().map_or(&[][..], |config| &config.servers);
    let mut plan = Plan::new(file.text(), servers, &secrets, &Process).locking(&locked_args);
    let choices = ImportChoices { rename: import.rename, projects: import.projects };
    let sources = plan_servers(&client_files, &mut plan, choices);
    let (text, mut files) = plan.finish();
    let has_errors = client_files.iter().any(ClientFile::has_errors);
    let code = if has_errors { ExitCode::from(FAILED) } else { ExitCode::SUCCESS };
    let mut report = JsonReport::new(&path, sources, &files);
    let imported = |report, config, unanswered| Ok(Imported { code, report, unanswered, config });
    let added = report.added().len();
    if added == 0 {
        print_note!("mcpd: there is nothing to add to {}", path.display());
        return imported(report, loaded, Vec::new());
    }
    let config = options.check(&file, &text, &files).map_err(|error| fail(FAILED, error))?.config;
    if !options.json {
        try_print(diff::masked(file.text(), &text, &path, OutputStyle::of_stdout().has_colour()))?;
    }
    print_note(format_args!("{}", secret_lines(&files)));
    let of_projects = report.added_of_projects();
    if !of_projects.is_empty() {
        print_note!("note: all agents will see these servers of projects: {}", one_line(&of_projects.join(", ")));
        print_note!("  help: `[profiles]` limits what an agent sees");
    }
    if import.dry_run {
        print_note!("mcpd: nothing is written");
        return imported(report, Some(config), Vec::new());
    }
    if !import.yes {
        if !prompt::is_possible() {
            return Err(fail(USAGE, "nothing is written: add `--yes`, or run the command on a terminal to confirm"));
        }
        if !prompt::confirm_import(added, &path).map_err(|error| fail(FAILED, error))? {
            print_note!("mcpd: nothing is written");
            return imported(report, loaded, Vec::new());
        }
        prompt::fill_in(&mut files).map_err(|error| fail(FAILED, error))?;
    }
    before_writing(&text, &files)?;
    let unanswered = write_files(file, &text, files).map_err(|error| fail(FAILED, error))?;
    report.written = true;
    imported(report, Some(config), unanswered)
}

/// The configuration as it is; `None` if the named file does not exist.
fn configured(options: &EditOptions) -> Result<Option<Config>, ExitCode> {
    let files = options.files();
    if files.iter().any(|file| !file.exists()) {
        return Ok(None);
    }
    config::load(&files, &Process).map(|loaded| Some(loaded.config)).map_err(|error| {
        config_failure(&error);
        fail(USAGE, "nothing is imported into a configuration with errors: correct the errors above first")
    })
}

/// Adds every server of the client files to the plan, and prints the outcome for each.
fn plan_servers(files: &[ClientFile], plan: &mut Plan<'_>, choices: ImportChoices) -> Vec<Source> {
    let mut sources = Vec::new();
    let colour = OutputStyle::of_stderr().has_colour();
    for file in files {
        let path = one_line(&file.path.display().to_string());
        print_note!("{path} ({})", file.title);
        for complaint in file.complaints(colour) {
            print_styled_note(&(complaint + "\n"));
        }
        let mut servers = Vec::new();
        for server in file.servers() {
            let outcome = plan.add(server, choices);
            print_note!(
                "  {}",
                one_line(&(outcome_line(&server.title, &outcome) + &location(server) + &sandbox(&outcome)))
            );
            servers.push(ServerReport::new(server, outcome));
        }
        sources.push(Source { file: file.path.clone(), client: file.title, servers });
    }
    sources
}

/// The server's project, and the working directory if it is another one, in parentheses.
fn location(server: &ForeignServer) -> String {
    let project = server.project.as_ref().map(|project| format!("project {project}"));
    let cwd = server.cwd().filter(|_| !server.runs_in_project()).map(|cwd| format!("cwd {cwd}"));
    let parts: Vec<_> = project.into_iter().chain(cwd).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// Why the sandbox of an added server protects no files.
fn sandbox(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Added { obstacle: Some(obstacle), .. } => format!(", with sandbox `scope`: {obstacle}"),
        _ => String::new(),
    }
}

fn outcome_line(title: &str, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Added { name, .. } if name == title => format!("+ {title}"),
        Outcome::Added { name, .. } => format!("+ {title}, as `{name}`"),
        Outcome::Known(name) if name == title => format!("= {title} is there already"),
        Outcome::Known(name) => format!("= {title} is there already, as `{name}`"),
        Outcome::Differs { name, free } => format!(
            "! {title} is not added: there is another `{name}`, which stays as it is; `--rename` adds this one as `{free}`"
        ),
        Outcome::Private => format!(
            "- {title} is not added: its client starts it in one project only; `--projects` adds it for all agents"
        ),
        Outcome::Impossible(reason) => format!("! {title} is not added: {reason}"),
    }
}

fn secret_lines(files: &[SecretFile]) -> String {
    files.iter().fold(String::new(), |mut text, file| {
        let (of, path) = (one_line(&file.of), one_line(&file.path.display().to_string()));
        let _ = match &file.content {
            Content::Known(_) => writeln!(text, "secret {of}: will be copied to {path}, which only you can read"),
            Content::Prompt(_) => writeln!(text, "secret {of}: its value is not in the file; {path} has to contain it"),
        };
        text
    })
}

/// The result, and what the user has to write.
fn summary(Imported { report, unanswered, config, .. }: &Imported) -> String {
    let added = report.added().len();
    let servers = if added == 1 { "server is" } else { "servers are" };
    let mut text = format!("mcpd: {added} {servers} added to {}\n", report.file.display());
    for file in unanswered {
        let (of, file) = (one_line(&file.of), one_line(&file.path.display().to_string()));
        let _ = writeln!(
            text,
            "mcpd: {of} is missing: write it to {file} with mode 0600. The server that needs it fails until you do"
        );
    }
    let added = report.added();
    let is_open = |server: &&ServerConfig| added.contains(&&*server.name) && runs_any_version(server);
    let open: Vec<_> = config.iter().flat_map(|config| &config.servers).filter(is_open).map(|one| &*one.name).collect();
    if !open.is_empty() {
        let _ = writeln!(
            text,
            "mcpd: after their first start, `mcpd lock {}` writes the versions that run",
            open.join(" ")
        );
    }
    text
}

fn next_steps(is_served: bool) -> String {
    let start = if is_served { "" } else { "\n  `mcpd start` starts the servers" };
    format!("next:{start}\n  `mcpd check` checks the configuration\n  {}\n", link_hint(None))
}

/// Writes the known secrets and the `text` of the configuration. Returns the secrets without content. If the configuration cannot
/// be written, the secret files are removed again.
pub(in crate::cli) fn write_files(
    file: ConfigFile,
    text: &str,
    secrets: Vec<SecretFile>,
) -> Result<Vec<SecretFile>, WriteError> {
    let (known, unanswered): (Vec<_>, Vec<_>) =
        secrets.into_iter().partition(|secret| matches!(secret.content, Content::Known(_)));
    let mut written = Vec::new();
    let outcome = known.iter().try_for_each(|secret| {
        let Content::Known(content) = &secret.content else { return Ok(()) };
        write_secret(&secret.path, content)?;
        written.push(&secret.path);
        Ok(())
    });
    let outcome = outcome.and_then(|()| file.write(text));
    match outcome {
        Ok(()) => Ok(unanswered),
        Err(error) => {
            written.iter().for_each(|path| drop(fs::remove_file(path)));
            Err(error)
        }
    }
}

/// Writes a file that only its owner can read, and makes its directory private.
fn write_secret(path: &Path, content: &str) -> Result<(), WriteError> {
    let cannot = |source| WriteError::Io { path: path.to_owned(), source };
    ConfigFile::open(path).map_err(cannot)?.write(content)?;
    make_private(path.parent().unwrap_or(path)).map_err(cannot)
}

fn make_private(directory: &Path) -> io::Result<()> {
    let mode = fs::metadata(directory)?.permissions().mode();
    if mode & 0o077 != 0 { fs::set_permissions(directory, Permissions::from_mode(0o700)) } else { Ok(()) }
}

/// A file with servers, or a file that cannot be read.
struct ClientFile {
    path: PathBuf,
    /// The client's title.
    title: &'static str,
    read: Result<Foreign, io::Error>,
}

impl ClientFile {
    /// Reads the files that `from` names, by client or by path, or else the files of every client: the user's files first.
    ///
    /// # Errors
    /// If an element of `from` is neither a client nor a file.
    fn read_all(from: &[String], sources: &dyn Sources) -> Result<Vec<Self>, String> {
        let all = CLIENTS.iter().flat_map(|client| files_of(client, sources));
        let mut candidates: Vec<Candidate> = if from.is_empty() { all.collect() } else { Vec::new() };
        candidates.sort_by_key(|candidate| project_of(&candidate.path, sources).is_some());
        for from in from {
            match Client::named(from) {
                Some(client) => candidates.extend(files_of(client, sources)),
                None if Path::new(from).exists() => candidates.push(Candidate::named(from, sources)),
                None => return Err(unknown(from)),
            }
        }
        let mut seen = HashSet::new();
        candidates.retain(|candidate| seen.insert(candidate.path.clone()));
        let files: Vec<_> = candidates.into_iter().filter_map(|candidate| candidate.read(sources)).collect();
        if files.is_empty() {
            let titles: Vec<_> = CLIENTS.iter().map(|client| client.title).collect();
            print_note!(
                "mcpd: no MCP servers are in the files of {}: `mcpd import FILE` imports another file, `mcpd add` adds one server",
                titles.join(", ")
            );
        }
        Ok(files)
    }

    /// Whether the file, or a part of it, could not be read.
    fn has_errors(&self) -> bool {
        self.read.as_ref().map_or(true, |read| !read.errors.is_empty() || read.left_out > 0)
    }

    /// Errors and warnings about the file, for a person.
    fn complaints(&self, colour: bool) -> Vec<String> {
        match &self.read {
            Ok(read) if read.errors.is_empty() && !read.is_about_servers => {
                vec!["  there are no MCP servers in this file, or it is one of mcpd's own".to_owned()]
            }
            Ok(read) => {
                let complaints = read.errors.iter().chain(&read.warnings).map(|complaint| complaint.render(colour));
                let more = (read.left_out > 0).then(|| format!("  {} further servers are left out", read.left_out));
                complaints.chain(more).collect()
            }
            Err(error) => vec![format!("  cannot be read: {error}")],
        }
    }

    fn servers(&self) -> &[ForeignServer] {
        self.read.as_ref().map_or(&[], |read| &read.servers)
    }
}

/// A file that may have servers.
struct Candidate {
    path: PathBuf,
    title: &'static str,
    /// Whether the command line names its path. Then it has to exist and to have servers.
    is_named: bool,
}

impl Candidate {
    fn named(path: &str, sources: &dyn Sources) -> Self {
        let path = sources.current_dir().map_or_else(|| PathBuf::from(path), |directory| directory.join(path));
        let known = CLIENTS.iter().flat_map(|client| files_of(client, sources)).find(|file| file.path == path);
        let title = known.map_or("a file", |file| file.title);
        Self { path, title, is_named: true }
    }

    /// Returns `None` for a file that nobody named and that has no servers.
    fn read(self, sources: &dyn Sources) -> Option<ClientFile> {
        let Self { path, title, is_named } = self;
        let read = sources.read(&path, MAX_FILE).map(|text| foreign(&path, &text, sources));
        let is_relevant = match &read {
            Ok(read) => read.is_about_servers || !read.errors.is_empty(),
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        };
        (is_named || is_relevant).then_some(ClientFile { path, title, read })
    }
}

fn files_of(client: &'static Client, sources: &dyn Sources) -> Vec<Candidate> {
    let candidate = |path: PathBuf| Candidate { path, title: client.title, is_named: false };
    client.files(sources).into_iter().map(candidate).collect()
}

fn unknown(from: &str) -> String {
    let words: Vec<_> = CLIENTS.iter().map(|client| client.word).collect();
    format!("`{}` is neither a file nor a client: the clients are {}", from.escape_debug(), words.join(", "))
}

/// Servers of other clients' files, and what happened to each.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport {
    /// mcpd's configuration.
    pub(super) file: PathBuf,
    /// Whether `file` was written.
    pub(super) written: bool,
    /// Files that were read.
    sources: Vec<Source>,
    /// Files to which secrets were moved.
    secrets: Vec<Secret>,
}

/// A client's file, or a file that was named on the command line.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Source {
    /// Path of the file.
    pub(super) file: PathBuf,
    /// The client that uses the file.
    pub(super) client: &'static str,
    /// Servers in the file.
    pub(super) servers: Vec<ServerReport>,
}

/// One server of a client's file.
#[skip_serializing_none]
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ServerReport {
    /// Its name in the client's file.
    title: String,
    /// The directory of the project that the server belongs to; absent for all projects.
    project: Option<String>,
    /// The working directory that is written.
    cwd: Option<String>,
    /// `added` (with `--dry-run`: would be added), `known` (it exists already), `differs` (another server has its name), `private` (`--projects`
    /// adds it) or `impossible`.
    outcome: &'static str,
    /// Its name in mcpd.
    name: Option<String>,
    /// Why it is `impossible`.
    reason: Option<String>,
    /// Why its sandbox is not level `files`; absent if it is, and for a server at a URL.
    sandbox_reason: Option<String>,
}

/// The file of one secret.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Secret {
    /// Server and variable.
    of: String,
    /// Path of the file.
    file: PathBuf,
}

impl JsonReport {
    pub(super) fn new(file: &Path, sources: Vec<Source>, secrets: &[SecretFile]) -> Self {
        let secret = |secret: &SecretFile| Secret { of: secret.of.clone(), file: secret.path.clone() };
        Self { file: file.to_owned(), written: false, sources, secrets: secrets.iter().map(secret).collect() }
    }

    pub(super) fn print(&self) -> Result<(), ExitCode> {
        try_print_report(self)
    }

    /// The names of the added servers in mcpd's configuration.
    pub(super) fn added(&self) -> Vec<&str> {
        self.added_servers().filter_map(|server| server.name.as_deref()).collect()
    }

    /// The names of the added servers that belong to a project.
    pub(super) fn added_of_projects(&self) -> Vec<&str> {
        let of_projects = self.added_servers().filter(|server| server.project.is_some());
        of_projects.filter_map(|server| server.name.as_deref()).collect()
    }

    fn added_servers(&self) -> impl Iterator<Item = &ServerReport> {
        self.sources.iter().flat_map(|source| &source.servers).filter(|server| server.outcome == "added")
    }
}

impl ServerReport {
    pub(super) fn new(server: &ForeignServer, outcome: Outcome) -> Self {
        let mut sandbox_reason = None;
        let (outcome, name, reason) = match outcome {
            Outcome::Added { name, obstacle } => {
                sandbox_reason = obstacle.map(|obstacle| obstacle.to_string());
                ("added", Some(name), None)
            }
            Outcome::Known(name) => ("known", Some(name), None),
            Outcome::Differs { name, .. } => ("differs", Some(name), None),
            Outcome::Private => ("private", None, None),
            Outcome::Impossible(reason) => ("impossible", None, Some(reason)),
        };
        let cwd = server.cwd().map(str::to_owned);
        Self {
            title: server.title.clone(),
            project: server.project.clone(),
            cwd,
            outcome,
            name,
            reason,
            sandbox_reason,
        }
    }
}
