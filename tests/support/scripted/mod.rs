//! The parts of the scripted server.
//!
//! `flags` → `helpers` (wrappers and children, before any protocol) → `server` (lines, timers, methods) → `tool_list`, `tasks`,
//! `tools` and `client_requests` (calls), over `wire` (bytes out, messages in), `introspect` (the process itself)
//! and `attempt` (what a sandbox refuses).
//! Modern era only: `modern` (request metadata), `input_rounds` (`input_required`), `modern_tasks` and `subscriptions`.

mod attempt;
mod client_requests;
mod flags;
mod helpers;
mod input_rounds;
mod introspect;
mod library;
mod modern;
mod modern_tasks;
mod server;
mod subscriptions;
mod tasks;
mod tool_list;
mod tools;
mod wire;

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use clap::Parser;

use self::flags::Flags;
use self::server::Server;
use self::wire::Output;

/// Runs the role that the command line selects.
pub(crate) fn run() -> ExitCode {
    let mut flags = Flags::parse();
    if flags.ignore_term {
        helpers::block_signals();
    }
    if let Some(code) = helpers::run_helper(&flags) {
        return code;
    }
    let mut output = Output::new(flags.journal.clone(), flags.crlf, &flags.spell);
    output.note(&format!("start {}", std::process::id()));
    if let Some(code) = refusal(&flags) {
        let _ = writeln!(io::stderr(), "cannot start: exit code {code}");
        return ExitCode::from(code);
    }
    if flags.banner {
        output.raw("added 48 packages in 3s\n\n   \r\n\u{feff}byte order mark\r\n{not json}\n[]\n42\n".as_bytes());
    }
    if flags.json_log {
        output.line(r#"{"level":30,"id":1,"msg":"starting"}"#);
    }
    flags.no_tools_capability |= flags.no_tools_if.as_ref().is_some_and(|path| path.exists());
    Server::new(flags, output).serve(&stdin_lines())
}

/// The exit code of a server that exits before any message.
fn refusal(flags: &Flags) -> Option<u8> {
    let unfixed = flags.exit_unless.as_ref().is_some_and(|path| !path.exists());
    flags.exit_at_start.or(unfixed.then_some(3))
}

/// Lines of stdin. The channel has no buffer, so a server that does not read leaves the rest in the pipe.
fn stdin_lines() -> Receiver<Vec<u8>> {
    let (sender, lines) = sync_channel(0);
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut line = Vec::new();
        while stdin.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    lines
}
