//! `mcpd completions SHELL`: the script by which a shell asks `mcpd` itself, and what `mcpd` answers it.
//!
//! The script holds nothing that it knows: at each Tab it runs `mcpd` with the words that were typed and a variable that says so, so
//! it is the same for every version. What is asked of a daemon has a limit, and whatever goes wrong ends in fewer completions.

mod live;
mod typed;

use std::process::ExitCode;

use clap::{CommandFactory, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Zsh};

pub(super) use self::live::{arguments, clients, profiles, servers, servers_and_tools, servers_or_their_tools, tools};
use super::arguments::Arguments;
use super::{FAILED, fail, print};

/// Says that a shell asks, and which. No key of the configuration could be named so.
const VARIABLE: &str = "_MCPD_COMPLETE";
const PROGRAM: &str = "mcpd";

/// Has bash ask about whole words.
const BASH_WORDS: &str = include_str!("completions/whole_words.bash");
/// Has an autoloaded function answer the first time that it is run, too, which defines the real one.
const ZSH_FIRST: &str = "\nif [ \"$funcstack[1]\" = \"_mcpd\" ]; then\n    _clap_dynamic_completer_mcpd \"$@\"\nfi\n";

/// The shells that can ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Elvish,
    Fish,
    Zsh,
}

/// Prints the script of `shell`.
pub(super) fn run(shell: Shell) -> ExitCode {
    let (completer, more): (&dyn EnvCompleter, &str) = match shell {
        Shell::Bash => (&Bash, BASH_WORDS),
        Shell::Elvish => (&Elvish, ""),
        Shell::Fish => (&Fish, ""),
        Shell::Zsh => (&Zsh, ZSH_FIRST),
    };
    let mut script = Vec::new();
    match completer.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script) {
        Ok(()) => print([&script[..], more.as_bytes()].concat()),
        Err(error) => fail(FAILED, error),
    }
}

/// Answers a shell, if it is one that asks. To tell it anything else would garble the line that a person is typing.
pub(super) fn answer() -> Option<ExitCode> {
    let asked = CompleteEnv::with_factory(Arguments::command).var(VARIABLE);
    match asked.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::from(FAILED)),
    }
}
