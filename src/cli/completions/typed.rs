//! The command line that is being completed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ArgMatches;

use crate::cli::arguments::command_line;
use crate::sockets::RuntimeDir;

/// Errors on the line are ignored.
pub(super) struct TypedLine {
    matches: ArgMatches,
}

impl TypedLine {
    /// Parses the words that the shell passes after `--`.
    pub(super) fn current() -> Option<Self> {
        Self::parse(std::env::args_os().skip_while(|word| word != "--").skip(1))
    }

    fn parse(words: impl Iterator<Item = OsString>) -> Option<Self> {
        let matches = command_line().ignore_errors(true).try_get_matches_from(words).ok()?;
        Some(Self { matches })
    }

    pub(super) fn profile(&self) -> Option<String> {
        self.innermost().try_get_one::<String>("profile").ok().flatten().cloned()
    }

    pub(super) fn tool(&self) -> Option<String> {
        self.innermost().try_get_one::<String>("tool").ok().flatten().cloned()
    }

    /// The arguments of the innermost subcommand.
    fn innermost(&self) -> &ArgMatches {
        let mut matches = &self.matches;
        while let Some((_, inner)) = matches.subcommand() {
            matches = inner;
        }
        matches
    }

    /// The runtime directory of the command's daemon.
    pub(super) fn directory(&self) -> Option<RuntimeDir> {
        let given = self.matches.try_get_one::<PathBuf>("runtime_dir").ok().flatten().cloned();
        RuntimeDir::resolve(given, |name| std::env::var_os(name)).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn options_are_read_from_incomplete_lines() {
        let typed = |line: &str| TypedLine::parse(line.split(' ').map(OsString::from)).expect("a parsed line");
        for (line, directory) in [
            ("mcpd --runtime-dir /x restart ", "/x"),
            ("mcpd restart --runtime-dir /x ", "/x"),
            ("mcpd restart --runtime-dir=/x a", "/x"),
            ("mcpd --runtime-dir /x nonsense --no-option ", "/x"),
        ] {
            assert_eq!(typed(line).directory().expect("a directory").path(), Path::new(directory), "{line}");
        }
    }
}
