//! `mcpd add`: adds a server to the configuration.

pub(super) mod corrections;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;

use clap::{Args, Command, ValueEnum};
use serde::Serialize;
use serde_with::skip_serializing_none;

use self::corrections::{is_escaped, misplaced_options, not_a_command, url_without_scheme, without_query};
use super::config_edit::{EditOptions, secrets_directory};
use super::import::write_files;
use super::lock::offer::Unlocked;
use super::outcome::try_print_report;
use super::reload::Scope;
use super::text::split_searched_path;
use super::{CommandResult, FAILED, USAGE, fail, lock, prompt, try_print};
use crate::client_files::Syntax;
use crate::config::command_line::{command_line, is_url, without_secrets};
use crate::config::diagnostic::Diagnostic;
use crate::config::edit::file::ConfigFile;
use crate::config::edit::{self, EditError};
use crate::config::import::{self, Plan, known_keys, proposed_sandbox};
use crate::config::interpolate::{Process, Sources};
use crate::config::known_commands::{AGENT_DIRECTORY, FilesObstacle};
use crate::config::serialize::{Setting, sandbox_text};
use crate::config::{self, LoadedConfig, Sandbox, SandboxLevel, ServerConfig, fitted_name};
use crate::known_clients::shell_word;
use crate::naming::is_server_name;
use crate::sockets::RuntimeDir;
use crate::suggest::misspelt;
use crate::{config_lints, printable};

#[derive(Debug, Args)]
pub(super) struct Add {
    /// Name of the server: letters, digits, `-` and `_`; no `__`, and no `_` at the beginning or end
    name: String,
    /// URL of the server, instead of a command or URL at the end
    #[arg(long)]
    url: Option<String>,
    /// How other programs name the kind of a server. mcpd finds out by itself
    #[arg(short, long, value_enum, hide = true)]
    transport: Option<Transport>,
    /// HTTP header of every request to the server; repeatable. A secret is moved to a file of its own
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Certificate authorities (PEM) to trust for this server, beside the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    /// Environment variable of the server; repeatable. A secret is moved to a file of its own
    #[arg(short, long, value_name = "NAME=VALUE", conflicts_with = "url")]
    env: Vec<String>,
    /// Working directory of the server [default: your home directory]
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    cwd: Option<String>,
    /// Start the server at its first call, not with the daemon
    #[arg(long)]
    lazy: bool,
    /// What the server may reach: `none` (whatever you may), `scope` (no other process) or `files` (also only the files it needs)
    /// [default: scope]
    #[arg(long, value_name = "LEVEL", value_parser = sandbox_level, conflicts_with = "url")]
    sandbox: Option<SandboxLevel>,
    /// Accept the sandbox and the version that are proposed, without a question
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    options: EditOptions,
    /// Command that starts the server, with its arguments, or the URL of the server. Options of mcpd go before the command or URL;
    /// all words after the command belong to the server
    #[arg(
        trailing_var_arg = true,
        required_unless_present = "url",
        conflicts_with = "url",
        value_name = "COMMAND|URL"
    )]
    command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Transport {
    Stdio,
    #[value(alias = "streamable-http")]
    Http,
    Sse,
}

/// Programs whose own option `-y` is likely to follow them, so that the name of the server is missing.
const PROGRAMS_WITH_YES: [&str; 6] = ["bunx", "npm", "npx", "pnpm", "pnpx", "yarn"];

/// The new server.
#[skip_serializing_none]
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JsonReport<'a> {
    /// Name of the server.
    name: &'a str,
    /// The configuration that was written.
    file: &'a Path,
    /// Files to which secrets were moved.
    secrets: Vec<PathBuf>,
    /// The value of `sandbox` that `--yes` writes, in TOML, if it is not written.
    sandbox_proposal: Option<String>,
    /// Why no `sandbox` at level `files` is proposed.
    sandbox_reason: Option<String>,
    /// Packages with the versions that `--yes` writes, if they are not written.
    version_proposal: Option<&'a [String]>,
}

impl<'a> JsonReport<'a> {
    fn of(
        name: &'a str,
        file: &'a Path,
        secrets: Vec<PathBuf>,
        unwritten: Option<&Unwritten>,
        unlocked: Option<&'a Unlocked>,
    ) -> Self {
        let (sandbox_proposal, sandbox_reason) = match unwritten {
            Some(Unwritten::Unanswered(sandbox)) => (Some(sandbox_text(sandbox)), None),
            Some(Unwritten::Refused(obstacle)) => (None, Some(obstacle.to_string())),
            None => (None, None),
        };
        let version_proposal = match unlocked {
            Some(Unlocked::Unanswered(words)) => Some(&**words),
            _ => None,
        };
        Self { name, file, secrets, sandbox_proposal, sandbox_reason, version_proposal }
    }
}

fn usage(error: impl Display) -> ExitCode {
    fail(USAGE, error)
}

pub(super) fn run(add: &Add, directory: Option<RuntimeDir>) -> CommandResult {
    let line: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let (Add { name, options, .. }, line) = (add, &line[..]);
    check_name(name, line).map_err(usage)?;
    let path = options.path()?;
    let file = ConfigFile::open(&path).map_err(|error| usage(format!("cannot read {}: {error}", path.display())))?;
    let secrets = secrets_directory(&path).map_err(usage)?;
    let mut plan = Plan::new(file.text(), &[], &secrets, &Process);
    let mut settings = settings(add, line).map_err(usage)?;
    if edit::names(file.text()).is_ok_and(|names| names.contains(name)) {
        let error = options.edit_failure(&path, &EditError::Exists(name.clone()));
        return Err(usage(format!("not added: {error}: `mcpd remove {name}` first, or `mcpd edit`")));
    }
    let mut known = Vec::new();
    for advice in known_keys(&settings) {
        known.push(format!("note: `{}` is written, because {name} {}", advice.key, advice.why));
        settings.push((advice.key.to_owned(), advice.setting()));
    }
    let unwritten = propose_sandbox(add, &mut settings).map_err(|error| fail(FAILED, error))?;
    let unlocked = lock::offer::propose(name, add.yes, &mut settings).map_err(|error| fail(FAILED, error))?;
    plan.put(name, settings).map_err(|error| usage(format!("not added: {}", options.edit_failure(&path, &error))))?;
    let (text, secrets) = plan.finish();
    let loaded = options.check(&file, &text, &secrets).map_err(usage)?;
    let server = loaded.config.servers.iter().find(|server| *server.name == **name);
    let missing = server.and_then(MissingCommand::of);
    if let Some(missing) = missing.as_ref().filter(|_| !is_escaped(line, add.command.len())) {
        return Err(usage(missing.refusal()));
    }
    let [old, new] = [file.text(), &text].map(|text| config::masked(&path, text).unwrap_or_default());
    let added = new.strip_prefix(&old).unwrap_or(&new).trim();
    let lines = added.lines().fold(String::new(), |lines, line| lines + line + "\n");
    let moved: Vec<_> = secrets.iter().map(|secret| secret.path.clone()).collect();
    let same = file.text().bytes().zip(text.bytes()).take_while(|(before, now)| before == now).count();
    let warnings = warnings(&loaded, &path, same);
    write_files(file, &text, secrets).map_err(|error| fail(FAILED, error))?;
    moved.iter().for_each(|path| print_note!("mcpd: a secret was moved to {}", path.display()));
    let printed = match options.json {
        true => try_print_report(&JsonReport::of(name, &path, moved, unwritten.as_ref(), unlocked.as_ref())),
        false => try_print(format!("added {name} to {}:\n\n{}", path.display(), printable::lines(&lines))),
    };
    let notes = [
        missing.map(|missing| missing.warning()),
        unwritten.and_then(|unwritten| unwritten.note(name, &warnings)),
        unlocked.map(|unlocked| unlocked.note(name)),
        misplaced_options_note(add, line),
        relative_path_note(add),
    ];
    notes.into_iter().flatten().chain(warnings).chain(known).for_each(|note| print_note!("{note}"));
    printed?;
    let code = options.apply(directory, &[&path], Scope::Servers(&[name])).unwrap_or_else(|code| code);
    if code != ExitCode::SUCCESS {
        let path = path.display();
        print_note!("mcpd: {name} stays in {path}: `mcpd edit` corrects it, `mcpd remove {name}` takes it out");
    }
    Ok(code)
}

/// Refuses what cannot be a name, and the command in the place of the name.
fn check_name(name: &str, line: &[String]) -> Result<(), String> {
    if !is_server_name(name) {
        let fitted = fitted_name(name, "server");
        return Err(format!("`{}` cannot name a server: write `{fitted}`", name.escape_debug()));
    }
    if let Some(at) = line.iter().position(|word| word == name)
        && PROGRAMS_WITH_YES.contains(&name)
        && line.get(at + 1).is_some_and(|next| next == "-y")
    {
        let command = without_secrets(&line[at..]).join(" ");
        return Err(format!("the server's name is missing before the command, for example: mcpd add NAME {command}"));
    }
    Ok(())
}

/// A command that cannot be run.
struct MissingCommand {
    /// The command for printing.
    command: String,
    complaint: String,
    help: String,
}

impl MissingCommand {
    fn of(server: &ServerConfig) -> Option<Self> {
        let program = server.launch.as_ref().ok()?.program()?;
        let command = config_lints::shown(program);
        let (complaint, help) = config_lints::unfound(program, &command, Syntax::Toml, &Process)?;
        // The daemon prints the PATH that it has searched.
        let complaint = split_searched_path(&complaint).0.to_owned();
        Some(Self { command, complaint, help })
    }

    fn warning(&self) -> String {
        format!("warning: command `{}` {}\n  help: {}", self.command.escape_debug(), self.complaint, self.help)
    }

    fn refusal(&self) -> String {
        let similar = similar_program(&self.command).map(|name| format!(": did you mean `{name}`?"));
        format!(
            "not added: command `{}` {}{}\n  help: `--` before the command adds it anyway, for example before you install it",
            self.command.escape_debug(),
            self.complaint,
            similar.unwrap_or_default()
        )
    }
}

/// The program on PATH that `command` is most likely a misspelling of.
fn similar_program(command: &str) -> Option<String> {
    let path = Process.var("PATH")?;
    let entries = std::env::split_paths(&path).filter_map(|directory| directory.read_dir().ok()).flatten().flatten();
    let names: BTreeSet<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    misspelt(command, names.iter().map(String::as_str)).map(str::to_owned)
}

/// What `check` says of the configuration behind the first `same` bytes of the file at `path`.
fn warnings(loaded: &LoadedConfig, path: &Path, same: usize) -> Vec<String> {
    let all = config_lints::advise_beside_commands(loaded, &Process, Vec::new());
    let is_new = |found: &&Diagnostic| found.file.path == path && found.span.end > same;
    let text = |found: &Diagnostic| {
        let help = found.help.as_deref().map(|help| format!("\n  help: {help}")).unwrap_or_default();
        printable::lines(&format!("warning: {}{help}", found.message))
    };
    all.iter().filter(is_new).map(text).collect()
}

fn sandbox_level(word: &str) -> Result<SandboxLevel, String> {
    SandboxLevel::of_name(word).ok_or_else(|| "write none, scope or files".to_owned())
}

/// Why the configuration of a server got no sandbox.
enum Unwritten {
    /// Nobody can be asked.
    Unanswered(Sandbox),
    Refused(FilesObstacle),
}

impl Unwritten {
    /// The note for the user, unless it would repeat one of `warnings`.
    fn note(&self, name: &str, warnings: &[String]) -> Option<String> {
        match self {
            Self::Unanswered(sandbox) => Some(format!(
                "note: `--yes` writes `sandbox = {}`, so that {name} reaches only the files it needs",
                sandbox_text(sandbox)
            )),
            Self::Refused(FilesObstacle::NotFound(_)) => None,
            Self::Refused(FilesObstacle::Privileges(reason)) if warnings.iter().any(|text| text.contains(reason)) => {
                None
            }
            Self::Refused(obstacle) => {
                Some(format!("note: {name} has sandbox `scope`, which protects no files: {obstacle}"))
            }
        }
    }
}

/// Adds the sandbox that is proposed, if the user agrees. A server at a URL has none.
fn propose_sandbox(add: &Add, settings: &mut Vec<(String, Setting)>) -> io::Result<Option<Unwritten>> {
    if let Some(level) = add.sandbox {
        settings.push(("sandbox".to_owned(), Setting::Sandbox(Sandbox::of_level(level))));
        return Ok(None);
    }
    let proposal = match proposed_sandbox(settings, &Process) {
        Some(Ok(proposal)) => proposal,
        Some(Err(obstacle)) => return Ok(Some(Unwritten::Refused(obstacle))),
        None => return Ok(None),
    };
    if !add.yes && !prompt::is_possible() {
        return Ok(Some(Unwritten::Unanswered(proposal.sandbox)));
    }
    let question =
        format!("Restrict {} to the files it needs, by `sandbox = {}`?", add.name, sandbox_text(&proposal.sandbox));
    if add.yes || prompt::confirm_default(&printable::lines(&question))? {
        import::accept(proposal, settings);
    }
    Ok(None)
}

/// The note that an argument names a file here, which the server will not find in its own working directory.
fn relative_path_note(add: &Add) -> Option<String> {
    let [_, arguments @ ..] = &add.command[..] else { return None };
    let here = std::env::current_dir().ok()?;
    if add.cwd.is_some() || Process.home().is_some_and(|home| here == Path::new(&home)) {
        return None;
    }
    let is_file = |word: &&String| !word.starts_with(['-', '/', '~', '$']) && here.join(word).is_file();
    let word = arguments.iter().find(is_file)?;
    let whole = here.join(word);
    Some(format!(
        "note: `{}` is a file here, but the server runs in your home directory: write `{}`, or add `--cwd .` before the name",
        printable::lines(word),
        whole.display()
    ))
}

/// The note that options of mcpd after the command go to the server, with the corrected command. `line` is the command line.
fn misplaced_options_note(add: &Add, line: &[String]) -> Option<String> {
    let known = Add::augment_args(Command::new("add"));
    let takes_value = |option: &str| {
        // Many servers have an option `--config` of their own.
        let name = option.strip_prefix("--").filter(|name| *name != "config")?;
        let known = known.get_arguments().find(|known| known.get_long() == Some(name))?;
        Some(known.get_action().takes_values())
    };
    let misplaced = misplaced_options(line, add.command.len(), takes_value)?;
    let options: Vec<_> = misplaced.options.iter().map(|option| format!("`{option}`")).collect();
    let config = add.options.config.as_deref().map(|path| format!("--config {} ", shell_word(&path.to_string_lossy())));
    Some(format!(
        "note: {} after the command: passed on to the server. Options of mcpd go before the command. To correct this, run:\n  \
         mcpd remove {}{}\n  {}",
        options.join(" and "),
        config.unwrap_or_default(),
        add.name,
        misplaced.corrected
    ))
}

/// The command or URL from the command line.
enum Launch {
    Url(String),
    Command(Vec<String>),
}

fn launch(add: &Add, line: &[String]) -> Result<Launch, String> {
    match (&add.url, &add.command[..]) {
        (Some(url), _) => Ok(Launch::Url(url.clone())),
        (None, [url]) if is_url(url) => Ok(Launch::Url(url.clone())),
        (None, [url, ..]) if is_url(url) => {
            Err("nothing may follow the URL: write options of mcpd before it".to_owned())
        }
        (None, [url, ..]) if has_scheme(url) => {
            let url = without_query(url);
            Err(format!(
                "not added: `{url}` looks like a URL, but the URL of a server begins with `http://`, `https://` or `unix:`, in lower case"
            ))
        }
        (None, words) => {
            let meant = words.first().filter(|word| !is_program(word) && !is_escaped(line, words.len()));
            if let Some(complaint) = meant.and_then(|_| not_a_command(&add.name, words)) {
                return Err(format!("not added: {complaint}"));
            }
            if let Some(url) = meant.and_then(|word| url_without_scheme(word)) {
                let (word, url) = (without_query(&words[0]), without_query(&url));
                return Err(format!(
                    "`{word}` is neither a program on PATH nor a URL with its scheme: write `{url}`, or `-- {word}` for a program that is not installed yet"
                ));
            }
            let line = <&[String; 1]>::try_from(words).ok().filter(|[line]| !is_program(line));
            Ok(Launch::Command(line.and_then(|[line]| command_line(line)).unwrap_or_else(|| words.to_vec())))
        }
    }
}

/// Whether the text begins like a URL. A path to a program never contains `://`.
fn has_scheme(word: &str) -> bool {
    let scheme = word.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
    })
}

/// Whether the whole text, blanks included, names a program.
fn is_program(command: &str) -> bool {
    match command.contains('/') {
        true => Process.exists(Path::new(command)),
        false => Process.var("PATH").is_some_and(|path| Process.on_path(command, &path).is_some()),
    }
}

fn settings(add: &Add, line: &[String]) -> Result<Vec<(String, Setting)>, String> {
    let launch = launch(add, line)?;
    match (&launch, add.transport) {
        (Launch::Command(_), Some(Transport::Http | Transport::Sse)) => {
            return Err("a URL is missing: `--transport http` is for a server at a URL".to_owned());
        }
        (Launch::Url(_), Some(Transport::Stdio)) => {
            return Err("a command is missing: `--transport stdio` is for a server that mcpd starts".to_owned());
        }
        _ => {}
    }
    let mut settings = match launch {
        Launch::Url(url) => url_settings(add, &url)?,
        Launch::Command(words) => command_settings(add, &words)?,
    };
    settings.extend(add.lazy.then(|| ("start", Setting::from("lazy"))));
    Ok(settings.into_iter().map(|(key, setting)| (key.to_owned(), setting)).collect())
}

fn command_settings(add: &Add, words: &[String]) -> Result<Vec<(&'static str, Setting)>, String> {
    if let Some(option) = first_given([("--header", !add.header.is_empty()), ("--ca-file", add.ca_file.is_some())]) {
        return Err(format!("`{option}` cannot be used with a command: it is for a server at a URL"));
    }
    let Some((command, args)) = words.split_first() else { return Err("a command is missing".to_owned()) };
    let command = if command.contains('/') { absolute_path(command) } else { command.clone() };
    let env = pairs("--env", &add.env, '=', "NAME=VALUE")?;
    let settings = [
        Some(("command", Setting::Text(command))),
        (!args.is_empty()).then(|| ("args", Setting::List(args.iter().map(|arg| with_agent_directory(arg)).collect()))),
        (!env.is_empty()).then_some(("env", Setting::Table(env))),
        add.cwd.as_deref().map(|cwd| ("cwd", Setting::Text(absolute_path(cwd)))),
    ];
    Ok(settings.into_iter().flatten().collect())
}

/// An argument with the variable of other clients for the agent's directory as mcpd writes it.
fn with_agent_directory(arg: &str) -> String {
    arg.replace("${workspaceFolder}", AGENT_DIRECTORY)
}

fn url_settings(add: &Add, url: &str) -> Result<Vec<(&'static str, Setting)>, String> {
    if let Some(option) = first_given([("--env", !add.env.is_empty()), ("--cwd", add.cwd.is_some())]) {
        return Err(format!("`{option}` cannot be used with a URL: it is for a server that mcpd starts"));
    }
    // A URL with a secret moves to a file, where loading the configuration would not check it.
    if let Some(complaint) = config::url_complaint(url, false).filter(|_| !url.contains("${")) {
        return Err(format!("the URL {complaint}"));
    }
    let headers = pairs("--header", &add.header, ':', "'NAME: VALUE'")?;
    let settings = [
        Some(("url", Setting::from(url))),
        (!headers.is_empty()).then_some(("headers", Setting::Table(headers))),
        add.ca_file.as_deref().map(|path| ("ca_file", Setting::Text(absolute_path(path)))),
    ];
    Ok(settings.into_iter().flatten().collect())
}

fn first_given(options: [(&'static str, bool); 2]) -> Option<&'static str> {
    options.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
}

/// The names and values of a repeatable option. Errors do not repeat a value, since it may be a secret.
fn pairs(option: &str, values: &[String], separator: char, form: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in values {
        let Some((key, value)) = pair.split_once(separator).filter(|(key, _)| !key.is_empty()) else {
            return Err(format!("the value of `{option}` does not have the form {form}"));
        };
        if pairs.iter().any(|(known, _)| known == key) {
            return Err(format!("`{option} {}` is given twice", key.escape_debug()));
        }
        // Blanks before a header's value do not belong to it. Source: RFC 9110, 5.5.
        let value = if separator == ':' { value.trim_start() } else { value };
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

/// Makes a relative path absolute, since the daemon has another working directory. `~` and `${…}` stay.
fn absolute_path(path: &str) -> String {
    let is_template = path.starts_with('~') || path.starts_with("${");
    let whole = absolute(path).ok().filter(|_| !is_template);
    whole.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| path.to_owned())
}
