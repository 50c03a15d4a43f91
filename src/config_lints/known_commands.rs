//! Known commands whose configuration lacks what they need.

use super::Context;
use crate::config::diagnostic::Diagnostic;
use crate::config::interpolate::Sources;
use crate::config::known_commands::{self, privilege_problem, process_inspecting_package};
use crate::config::notes::{Note, Use};
use crate::config::{Launch, Program, SandboxLevel, ServerConfig};

/// What is wrong with `docker run` without `-i`.
const NO_STDIN: &str = "a container gets no stdin without `-i`, and a server on stdio needs it";
/// How to correct that.
pub(crate) const PASS_STDIN: &str = "write `\"-i\"` after `\"run\"` in its `args`";
/// What is wrong with `npx` without `-y`.
pub(crate) const ASKS: &str = "`npx` without `-y` asks before it installs a package, and nobody answers";
/// How to correct that.
pub(crate) const ANSWER: &str = "write `\"-y\"` as the first of its `args`";

const NO_SANDBOX: &str = "write `sandbox = \"none\"` if you trust this server with all that you may do";

/// Variables of every session. Most servers that can use them work without them.
const OF_SESSIONS: [&str; 2] = ["DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"];

/// Complaint and help about a server and its program.
type Lint = fn(&Context<'_>, &ServerConfig, &Program) -> Option<(String, String)>;

const LINTS: [Lint; 4] = [sandbox, sharing, variables, stdin];

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let commands = context.texts().filter(|(_, _, purpose, _)| *purpose == Use::Command);
    commands.flat_map(|(server, note, ..)| of_command(context, server, note)).collect()
}

fn of_command(context: &Context<'_>, server: &ServerConfig, note: &Note<'_>) -> Vec<Diagnostic> {
    let Some(program) = server.launch.as_ref().ok().and_then(Launch::program) else { return Vec::new() };
    let complaints = LINTS.iter().filter_map(|lint| lint(context, server, program));
    let warnings = complaints.map(|(complaint, help)| note.warning(complaint, help));
    warnings.chain(question(context, server, program, note)).collect()
}

fn sandbox(context: &Context<'_>, server: &ServerConfig, program: &Program) -> Option<(String, String)> {
    if let Some(reason) = needed_privileges(server, context.sources) {
        return Some((format!("the command of `{}` {reason}", server.name), NO_SANDBOX.to_owned()));
    }
    if server.settings.sandbox.level == SandboxLevel::None {
        return None;
    }
    let package = process_inspecting_package(&program.command, &program.args)?;
    let complaint =
        format!("`{package}` inspects or signals other processes, and the sandbox of `{}` forbids that", server.name);
    Some((complaint, NO_SANDBOX.to_owned()))
}

fn sharing(context: &Context<'_>, server: &ServerConfig, program: &Program) -> Option<(String, String)> {
    if context.loaded.sets(&server.name, "sharing") {
        return None;
    }
    let advice = known_commands::sharing(&program.command, &program.args, program.cwd.is_some())?;
    let complaint = format!("all agents share `{}`, which {}", server.name, advice.why);
    Some((complaint, format!("write `{}`, or `sharing = \"shared\"` if that is intended", advice.assignment())))
}

fn variables(context: &Context<'_>, server: &ServerConfig, program: &Program) -> Option<(String, String)> {
    let is_missing = |name: &&str| {
        let is_passed = program.pass_env.iter().any(|passed| passed == name) || program.env.contains_key(*name);
        !is_passed && context.sources.var(name).is_some_and(|value| !value.is_empty())
    };
    let missing: Vec<_> =
        known_commands::variables(&program.command, &program.args).into_iter().filter(is_missing).collect();
    let first = missing.iter().find(|name| !OF_SESSIONS.contains(name))?;
    let complaint = format!("`{}` may need `{first}`, which is set here and not passed to it", server.name);
    Some((complaint, format!("write `{}`", known_commands::pass_env(&missing))))
}

fn question(context: &Context<'_>, server: &ServerConfig, program: &Program, command: &Note<'_>) -> Option<Diagnostic> {
    if !known_commands::asks_before_install(&program.command, &program.args) {
        return None;
    }
    let mut args = context.texts().filter(|(one, _, purpose, _)| one.name == server.name && *purpose == Use::Arg);
    let answered = args.next().and_then(|(_, first, ..)| first.prefixed("\"-y\", "));
    Some(command.warning(ASKS, ANSWER).corrected(answered))
}

fn stdin(_: &Context<'_>, _: &ServerConfig, program: &Program) -> Option<(String, String)> {
    let is_lacking = known_commands::lacks_stdin(&program.command, &program.args);
    is_lacking.then(|| (NO_STDIN.to_owned(), PASS_STDIN.to_owned()))
}

/// Why the command of a server does not work in its sandbox, if it gains privileges: the rest of a sentence about the command.
fn needed_privileges(server: &ServerConfig, sources: &dyn Sources) -> Option<&'static str> {
    let program = server.launch.as_ref().ok()?.program()?;
    let is_confined = server.settings.sandbox.level != SandboxLevel::None;
    is_confined.then(|| privilege_problem(&program.command, &program.search_path(sources), sources))?
}
