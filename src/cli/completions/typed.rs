//! What stands on the line that is being completed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, CommandFactory};

use crate::cli::arguments::Arguments;
use crate::sockets::RuntimeDir;

/// The command that is being typed, as far as it makes sense.
pub(super) struct Typed {
    all: ArgMatches,
}

impl Typed {
    /// By the words that a shell passes on, behind `--`.
    pub(super) fn now() -> Option<Self> {
        Self::of(std::env::args_os().skip_while(|word| word != "--").skip(1))
    }

    fn of(words: impl Iterator<Item = OsString>) -> Option<Self> {
        let all = Arguments::command().ignore_errors(true).try_get_matches_from(words).ok()?;
        Some(Self { all })
    }

    /// The profile that it is for, if it names one.
    pub(super) fn profile(&self) -> Option<String> {
        self.last().try_get_one::<String>("profile").ok().flatten().cloned()
    }

    /// The tool that it calls.
    pub(super) fn tool(&self) -> Option<String> {
        self.last().try_get_one::<String>("tool").ok().flatten().cloned()
    }

    /// What is said of the innermost command.
    fn last(&self) -> &ArgMatches {
        let mut last = &self.all;
        while let Some((_, within)) = last.subcommand() {
            last = within;
        }
        last
    }

    /// Where the daemon is that the command is for.
    pub(super) fn directory(&self) -> Option<RuntimeDir> {
        let given = self.all.try_get_one::<PathBuf>("runtime_dir").ok().flatten().cloned();
        RuntimeDir::resolve(given, |name| std::env::var_os(name)).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_typed_counts_wherever_it_stands_and_however_little_of_it() {
        let typed = |line: &str| Typed::of(line.split(' ').map(OsString::from)).expect("it is taken as it is");
        for (line, directory) in [
            ("mcpd --runtime-dir /x restart ", "/x"),
            ("mcpd restart --runtime-dir /x ", "/x"),
            ("mcpd restart --runtime-dir=/x a", "/x"),
            ("mcpd --runtime-dir /x nonsense --no-option ", "/x"),
        ] {
            assert_eq!(typed(line).directory().expect("it is given").path(), Path::new(directory), "{line}");
        }
    }
}
