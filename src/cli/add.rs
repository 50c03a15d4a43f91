//! `mcpd add`.

pub(super) mod typed;

use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;

use clap::{Args, Command};
use serde::Serialize;

use self::typed::{Misplaced, is_escaped, misplaced, url_without_scheme, without_query};
use super::config_edit::{check, next_step, our_file, secrets_of};
use super::import::write;
use super::{FAILED, USAGE, fail, json, try_print};
use crate::config;
use crate::config::command_line::{Spelling, command_line, is_url};
use crate::config::edit::file::ConfigFile;
use crate::config::edit::{self, Setting};
use crate::config::import::Plan;
use crate::config::interpolate::{Process, Sources};
use crate::config::{ServerConfig, fitted_name};
use crate::config_lints;
use crate::known_clients::shell_word;
use crate::naming::is_server_name;
use crate::printable;
use crate::sockets::RuntimeDir;

/// What is to be added.
#[derive(Debug, Args)]
pub(super) struct Add {
    /// Name of the server: letters, digits and `-`, with single `_` between them
    name: String,
    /// Where it is reached, in the place of a command or a URL at the end
    #[arg(long)]
    url: Option<String>,
    /// What each request to it carries; repeatable. A secret is moved to a file of its own
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Certificates in PEM that are trusted for it beside the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,
    /// A variable of its environment; repeatable. A secret is moved to a file of its own
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "url")]
    env: Vec<String>,
    /// Its working directory [default: your home directory]
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    cwd: Option<String>,
    /// Start it by its first call
    #[arg(long)]
    lazy: bool,
    /// The configuration to add it to [default: ~/.config/mcpd/config.toml]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Have the running daemon take the configuration over
    #[arg(long)]
    reload: bool,
    /// Print what was done as JSON; with `--reload`, what came of that as another object
    #[arg(long)]
    json: bool,
    /// The command that starts it, with its arguments, or the URL where it is reached. Options of mcpd go before it
    #[arg(
        trailing_var_arg = true,
        required_unless_present = "url",
        conflicts_with = "url",
        value_name = "COMMAND|URL"
    )]
    command: Vec<String>,
}

pub(super) fn run(add: &Add, directory: Option<RuntimeDir>) -> ExitCode {
    let line: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    match added(add, &line) {
        Ok(Added { path, secrets, lines, warning }) => {
            let said = match add.json {
                true => json::page(&Shape { name: &add.name, file: &path, secrets }).and_then(try_print),
                false => {
                    try_print(format!("added {} to {}:\n\n{}", add.name, path.display(), printable::lines(&lines)))
                }
            };
            if let Some(warning) = warning {
                print_note!("{warning}");
            }
            for note in [note(add, &line), relative_note(add)].into_iter().flatten() {
                print_note!("{note}");
            }
            said.map_or_else(|code| code, |()| next_step(directory, add.reload, add.json, &[&add.name]))
        }
        Err((code, error)) => fail(code, error),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Shape<'a> {
    name: &'a str,
    file: &'a Path,
    secrets: Vec<PathBuf>,
}

/// A server that the configuration has now.
struct Added {
    path: PathBuf,
    secrets: Vec<PathBuf>,
    /// What was written to the configuration.
    lines: String,
    /// Why it will not start, as it is printed.
    warning: Option<String>,
}

/// The server that was added; else why there is none, and with which code to end.
fn added(add: &Add, line: &[String]) -> Result<Added, (u8, String)> {
    let Add { name, file, .. } = add;
    if !is_server_name(name) {
        let fitted = fitted_name(name, "server");
        return Err((USAGE, format!("`{}` cannot name a server: write `{fitted}`", name.escape_debug())));
    }
    let path = our_file(file.as_deref()).map_err(|error| (USAGE, error))?;
    let unreadable = |error| (USAGE, format!("cannot read {}: {error}", path.display()));
    let found = ConfigFile::open(&path).map_err(unreadable)?;
    let secrets = secrets_of(&path).map_err(|error| (USAGE, error))?;
    let mut plan = Plan::new(found.text(), &[], &secrets, &Process);
    let settings = settings(add, line).map_err(|error| (USAGE, error))?;
    plan.put(name, settings).map_err(|error| refused(&path, &error))?;
    let (text, secrets) = plan.finish();
    let loaded = check(file.as_deref(), &found, &text, &secrets).map_err(|error| (USAGE, error))?;
    let added = text.strip_prefix(found.text()).unwrap_or(&text).trim();
    let lines = added.lines().fold(String::new(), |lines, line| lines + line + "\n");
    let moved: Vec<_> = secrets.iter().map(|secret| secret.path.clone()).collect();
    write::all(found, &text, secrets).map_err(|error| (FAILED, error))?;
    moved.iter().for_each(|path| print_note!("mcpd: a secret was moved to {}", path.display()));
    let server = loaded.config.servers.iter().find(|server| *server.name == **name);
    Ok(Added { path, secrets: moved, lines, warning: server.and_then(warning) })
}

/// Why a server will not start, if its command is not there.
fn warning(server: &ServerConfig) -> Option<String> {
    let program = server.launch.as_ref().ok()?.program()?;
    let shown = config_lints::shown(program);
    let (complaint, help) = config_lints::unfound(program, &shown, Spelling::Toml, &Process)?;
    Some(format!("warning: command `{}` {complaint}\n  help: {help}", shown.escape_debug()))
}

/// Says that an argument is a file here, which the server will not find where it runs.
fn relative_note(add: &Add) -> Option<String> {
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

/// Says that options of mcpd were passed to the command, and how to have mcpd use them. `line` is the command line.
fn note(add: &Add, line: &[String]) -> Option<String> {
    let known = Add::augment_args(Command::new("add"));
    let takes_value = |option: &str| {
        let name = option.strip_prefix("--")?;
        let known = known.get_arguments().find(|known| known.get_long() == Some(name))?;
        Some(known.get_action().takes_values())
    };
    let Misplaced { options, corrected } = misplaced(line, add.command.len(), takes_value)?;
    let options: Vec<_> = options.iter().map(|option| format!("`{option}`")).collect();
    let file = add.file.as_deref().map(|file| format!("--file {} ", shell_word(&file.to_string_lossy())));
    Some(format!(
        "note: {} after the command: passed on to the server. Options of mcpd go before the server's name; if you meant that, run:\n  \
         mcpd remove {}{}\n  {corrected}",
        options.join(" and "),
        file.unwrap_or_default(),
        add.name
    ))
}

/// How a server is run or reached, as it was typed.
enum Launch {
    Url(String),
    Command(Vec<String>),
}

fn launch(add: &Add, line: &[String]) -> Result<Launch, String> {
    match (&add.url, &add.command[..]) {
        (Some(url), _) => Ok(Launch::Url(url.clone())),
        (None, [url]) if is_url(url) => Ok(Launch::Url(url.clone())),
        (None, [url, ..]) if is_url(url) => Err("what follows the URL is not used: options go before it".to_owned()),
        (None, words) => {
            let meant = words.first().filter(|word| !is_program(word) && !is_escaped(line, words.len()));
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

/// Whether there is such a program, be there blanks in its name.
fn is_program(command: &str) -> bool {
    match command.contains('/') {
        true => Process.exists(Path::new(command)),
        false => Process.var("PATH").is_some_and(|path| Process.on_path(command, &path).is_some()),
    }
}

fn settings(add: &Add, line: &[String]) -> Result<Vec<(String, Setting)>, String> {
    let mut settings = match launch(add, line)? {
        Launch::Url(url) => reached(add, &url)?,
        Launch::Command(words) => run_by(add, &words)?,
    };
    settings.extend(add.lazy.then(|| ("start", Setting::from("lazy"))));
    Ok(settings.into_iter().map(|(key, setting)| (key.to_owned(), setting)).collect())
}

/// Options that are given and cannot be used.
fn refuse(options: [(&str, bool); 2], why: &str) -> Result<(), String> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(format!("`{option}` cannot be used {why}")),
        None => Ok(()),
    }
}

fn run_by(add: &Add, words: &[String]) -> Result<Vec<(&'static str, Setting)>, String> {
    let unused = [("--header", !add.header.is_empty()), ("--ca-file", add.ca_file.is_some())];
    refuse(unused, "with a command: it is for a server at a URL")?;
    let Some((command, args)) = words.split_first() else { return Err("a command is missing".to_owned()) };
    let command = if command.contains('/') { whole(command) } else { command.clone() };
    let env = pairs("--env", &add.env, '=', "NAME=VALUE")?;
    let settings = [
        Some(("command", Setting::Text(command))),
        (!args.is_empty()).then(|| ("args", Setting::List(args.to_vec()))),
        (!env.is_empty()).then_some(("env", Setting::Table(env))),
        add.cwd.as_deref().map(|cwd| ("cwd", Setting::Text(whole(cwd)))),
    ];
    Ok(settings.into_iter().flatten().collect())
}

fn reached(add: &Add, url: &str) -> Result<Vec<(&'static str, Setting)>, String> {
    let unused = [("--env", !add.env.is_empty()), ("--cwd", add.cwd.is_some())];
    refuse(unused, "with a URL: it is for a server that mcpd runs")?;
    // Where it goes to a file of its own, the configuration alone would not say so.
    if let Some(complaint) = config::url_complaint(url).filter(|_| !url.contains("${")) {
        return Err(format!("the URL {complaint}"));
    }
    let headers = pairs("--header", &add.header, ':', "'NAME: VALUE'")?;
    let settings = [
        Some(("url", Setting::from(url))),
        (!headers.is_empty()).then_some(("headers", Setting::Table(headers))),
        add.ca_file.as_deref().map(|path| ("ca_file", Setting::Text(whole(path)))),
    ];
    Ok(settings.into_iter().flatten().collect())
}

/// What is given by an option that may be repeated, each time another name with its value. What is refused may be a secret,
/// and is not repeated.
fn pairs(option: &str, given: &[String], between: char, form: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in given {
        let Some((key, value)) = pair.split_once(between).filter(|(key, _)| !key.is_empty()) else {
            return Err(format!("what follows `{option}` is to be of the form {form}"));
        };
        if pairs.iter().any(|(known, _)| known == key) {
            return Err(format!("`{option} {}` is given twice", key.escape_debug()));
        }
        // Blanks before the value of a header are no part of it. Source: RFC 9110, 5.5.
        let value = if between == ':' { value.trim_start() } else { value };
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

/// A path from here on is one for a daemon that is started elsewhere.
fn whole(path: &str) -> String {
    let is_template = path.starts_with('~') || path.starts_with("${");
    let whole = absolute(path).ok().filter(|_| !is_template);
    whole.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| path.to_owned())
}

fn refused(path: &Path, error: &edit::EditError) -> (u8, String) {
    let hint = if *error == edit::EditError::Syntax { ": `mcpd check` says what is wrong in it" } else { "" };
    (USAGE, format!("{}: {error}{hint}", path.display()))
}
