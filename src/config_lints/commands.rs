//! Commands that cannot be executed or that mcpd does not need, secrets in their arguments, and missing working directories.

use std::path::Path;

use super::Context;
use crate::client_files::Syntax;
use crate::config::command_line::{self, command_line, cr_complaint, interpreter_with_cr, is_url};
use crate::config::diagnostic::Diagnostic;
use crate::config::interpolate::{Sources, Template};
use crate::config::notes::{Note, Use};
use crate::config::serialize::toml_string;
use crate::config::{AGENT_CWD, Launch, Program, ServerConfig, secret};

/// Maximum size of a file that is read as a script.
const MAX_SCRIPT: u64 = 1 << 20;

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let commands = context.texts().filter(|(_, _, purpose, _)| *purpose == Use::Command);
    let complaints = commands.filter_map(|(server, note, _, template)| {
        let program = server.launch.as_ref().ok()?.program()?;
        let (complaint, help) = unfound(program, template.source(), note.syntax(), context.sources)?;
        Some(note.warning(format!("command `{}` {complaint}", shown(program).escape_debug()), help))
    });
    complaints.collect()
}

/// The command of a program for printing, with secrets masked.
pub(crate) fn shown(program: &Program) -> String {
    let command = program.secrets.masked(&program.command);
    match command_line(&command) {
        Some(_) => command_line::without_secrets(&command.split_whitespace().collect::<Vec<_>>()).join(" "),
        None => command,
    }
}

/// Why the command of a program cannot be run, and what to write instead. `written`: the command in a file of this language.
pub(crate) fn unfound(
    program: &Program,
    written: &str,
    syntax: Syntax,
    sources: &dyn Sources,
) -> Option<(String, String)> {
    let command = &program.command;
    if command.contains(AGENT_CWD) {
        return None;
    }
    let found = not_a_program(program, sources)?;
    Some(something_else(program, written, syntax, sources).unwrap_or(found))
}

/// Whether the command of a program can be run. A relative path may exist in the server's working directory.
pub(super) fn can_run(program: &Program, sources: &dyn Sources) -> bool {
    let is_relative = program.command.contains('/') && !program.command.starts_with('/');
    match unfound(program, &program.command, Syntax::Toml, sources) {
        None => true,
        Some(_) => is_relative && something_else(program, &program.command, Syntax::Toml, sources).is_none(),
    }
}

/// The complaint about a URL or a command line in the place of a program.
fn something_else(program: &Program, written: &str, syntax: Syntax, sources: &dyn Sources) -> Option<(String, String)> {
    if command_line::is_url(written) {
        let [url] = &command_line::without_secrets(&[written])[..] else { return None };
        let help = format!("write {}", command_line::assignment(syntax, "url", &toml_string(url)));
        return Some(("is a URL, to which mcpd connects itself".to_owned(), help));
    }
    let words = command_line(written)?;
    // A path that contains a blank is not a command line.
    let first = Program { command: words.first()?.clone(), ..program.clone() };
    if first.command.contains('/') && not_a_program(&first, sources).is_some() {
        return None;
    }
    let help = format!("write {}", command_line::keys(&words, !program.args.is_empty(), syntax));
    Some(("is a command line: `command` takes the program alone".to_owned(), help))
}

fn not_a_program(program: &Program, sources: &dyn Sources) -> Option<(String, String)> {
    let command = &program.command;
    if !command.contains('/') {
        let path = program.search_path(sources);
        let found = sources.on_path(command, &path);
        return not_on_path(program, sources).or_else(|| unfit_script(&found?, sources));
    }
    if !command.starts_with('/') {
        let complaint = "is looked for in the working directory of the server".to_owned();
        return Some((complaint, "write the absolute path, or begin it with `~/`".to_owned()));
    }
    let path = Path::new(command);
    if !sources.exists(path) {
        return Some(("does not exist".to_owned(), "install it, or write the path where it is".to_owned()));
    }
    let help = "write the path of a program, or make it one with `chmod +x`".to_owned();
    if !sources.is_program(path) {
        return Some(("cannot be executed".to_owned(), help));
    }
    unfit_script(path, sources)
}

/// The complaint about a script whose interpreter cannot be found.
fn unfit_script(path: &Path, sources: &dyn Sources) -> Option<(String, String)> {
    let text = sources.read(path, MAX_SCRIPT).ok()?;
    Some(cr_complaint(interpreter_with_cr(text.as_bytes())?, path))
}

/// A server gets mcpd's own `PATH`, unless its `env` has another.
fn not_on_path(program: &Program, sources: &dyn Sources) -> Option<(String, String)> {
    let path = program.search_path(sources);
    if path.contains(AGENT_CWD) || sources.on_path(&program.command, &path).is_some() {
        return None;
    }
    let searched = match program.env.get("PATH") {
        Some(_) => "is not found on the PATH of its `env`".to_owned(),
        None => format!("is not found; PATH searched: {path}"),
    };
    Some((searched, "write its absolute path, or set `env = { PATH = \"…\" }`".to_owned()))
}

pub(super) fn secret_arguments(context: &Context<'_>) -> Vec<Diagnostic> {
    let args = context.texts().filter(|(_, _, purpose, _)| *purpose == Use::Arg);
    let args: Vec<_> = args.map(|(server, note, _, template)| Argument { server, note, template }).collect();
    args.chunk_by(|one, next| one.server.name == next.server.name).flat_map(secrets_of_server).collect()
}

struct Argument<'a> {
    server: &'a ServerConfig,
    note: &'a Note<'a>,
    template: &'a Template,
}

fn secrets_of_server(args: &[Argument<'_>]) -> Vec<Diagnostic> {
    let texts: Vec<_> = args.iter().map(|arg| arg.template.source()).collect();
    let secrets = secret::in_arguments(&texts);
    let is_secret = |(index, arg): &(usize, &Argument<'_>)| arg.template.names_secret() || secrets.contains(index);
    let warning = |(_, arg): (usize, &Argument<'_>)| {
        let message = format!("an argument of `{}` is a secret, and the process list shows it", arg.server.name);
        let help = "give it in `env` if the server supports that: only this user can read it there";
        arg.note.warning(message, help)
    };
    args.iter().enumerate().filter(is_secret).map(warning).collect()
}

pub(super) fn missing_directories(context: &Context<'_>) -> Vec<Diagnostic> {
    let directories = context.texts().filter(|(_, _, purpose, _)| *purpose == Use::Cwd);
    let missing = directories.filter_map(|(server, note, ..)| {
        let program = server.launch.as_ref().ok()?.program()?;
        let cwd = program.cwd.as_ref().filter(|cwd| !context.sources.exists(cwd))?;
        let shown = program.secrets.masked(cwd.to_str().filter(|cwd| !cwd.contains(AGENT_CWD))?);
        let message = format!("working directory `{}` does not exist, so `{}` cannot be started", shown, server.name);
        Some(
            note.warning(message, format!("`mkdir -p {}`, or write another directory", shlex::try_quote(&shown).ok()?)),
        )
    });
    missing.collect()
}

/// The most common such package.
const BRIDGE: &str = "mcp-remote";

pub(super) fn stdio_bridges(context: &Context<'_>) -> Vec<Diagnostic> {
    let commands = context.texts().filter(|(_, _, purpose, _)| *purpose == Use::Command);
    let bridges = commands.filter_map(|(server, note, ..)| {
        let Ok(Launch::Program(program)) = &server.launch else { return None };
        let at = bridged(program)?;
        let mut args = context.texts().filter(|(of, _, purpose, _)| of.name == server.name && *purpose == Use::Arg);
        let written = args.nth(at).map(|(.., template)| template.shown()).unwrap_or_default();
        let shown = if written == "…" { "https://…".to_owned() } else { written };
        let message = format!("`{}` is run by `{BRIDGE}`, but mcpd connects to URLs itself", server.name);
        let help = format!(
            "write `url = \"{}\"` in place of `command` and `args`, with `headers` for each `--header`",
            shown.escape_debug()
        );
        Some(note.warning(message, help))
    });
    bridges.collect()
}

/// The index of the URL in the arguments of such a program.
fn bridged(program: &Program) -> Option<usize> {
    let name = Path::new(&program.command).file_name().and_then(|name| name.to_str());
    let is_it = |word: &str| word.strip_prefix(BRIDGE).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'));
    let bridge = program.args.iter().position(|arg| is_it(arg)).map(|at| at + 1);
    let start = if name.is_some_and(is_it) { Some(0) } else { bridge }?;
    let is_url = |at: &usize| is_url(&program.args[*at]);
    (start..program.args.len()).find(is_url)
}
