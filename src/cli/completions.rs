//! `mcpd completions SHELL`: the completion script of a shell, and the completions that the script requests.
//!
//! At each Tab the script runs `mcpd` with the typed words and the variable [`VARIABLE`]. It has no data of its own, so it fits
//! every version. Requests to the daemon have a time limit. Errors only reduce the number of completions.

mod live;
mod typed;

use std::process::ExitCode;

use clap::ValueEnum;
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Zsh};

pub(super) use self::live::{arguments, clients, profiles, servers, servers_and_tools, servers_or_their_tools, tools};
use super::arguments::command_line;
use super::{FAILED, fail, print};

/// Names the shell that requests completions. The underscore keeps it apart from the `MCPD_` variables of the configuration.
const VARIABLE: &str = "_MCPD_COMPLETE";
const PROGRAM: &str = "mcpd";

/// Makes bash pass whole words.
const BASH_WORDS: &str = include_str!("completions/whole_words.bash");
/// An autoloaded function defines the real one when it first runs. This makes it complete the first time, too.
const ZSH_AUTOLOAD: &str =
    "\nif [ \"$funcstack[1]\" = \"_mcpd\" ]; then\n    _clap_dynamic_completer_mcpd \"$@\"\nfi\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Elvish,
    Fish,
    Zsh,
}

pub(super) fn run(shell: Shell) -> ExitCode {
    let (completer, suffix): (&dyn EnvCompleter, &str) = match shell {
        Shell::Bash => (&Bash, BASH_WORDS),
        Shell::Elvish => (&Elvish, ""),
        Shell::Fish => (&Fish, ""),
        Shell::Zsh => (&Zsh, ZSH_AUTOLOAD),
    };
    let mut script = Vec::new();
    match completer.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script) {
        Ok(()) => print([&script[..], suffix.as_bytes()].concat()),
        Err(error) => fail(FAILED, error),
    }
}

/// Prints completions if a shell requests them. Errors are not printed, because they would garble the typed line.
pub(super) fn answer() -> Option<ExitCode> {
    let completer = CompleteEnv::with_factory(command_line).var(VARIABLE);
    match completer.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::from(FAILED)),
    }
}
