//! Where a command line has its runner: at the beginning, or behind a program that starts another one. Pure.

use std::ops::Range;

use super::runner::{Runner, program_name, skipped};

/// A program that runs the command in its arguments.
struct Wrapper {
    program: &'static str,
    /// Its options that take a value.
    options: &'static [&'static str],
}

/// Source: the manuals of GNU coreutils, and of setsid.
const WRAPPERS: &[Wrapper] = &[
    Wrapper { program: "env", options: &["-u", "--unset", "-C", "--chdir", "-a", "--argv0"] },
    Wrapper { program: "nice", options: &["-n", "--adjustment"] },
    Wrapper { program: "nohup", options: &[] },
    Wrapper { program: "setsid", options: &[] },
    Wrapper { program: "stdbuf", options: &["-i", "-o", "-e", "--input", "--output", "--error"] },
];

/// A runner in a command line.
#[derive(Debug)]
pub(crate) struct RunnerCall<'a> {
    pub(super) runner: &'static Runner,
    /// The program, as it is written.
    pub(crate) program: &'a str,
    /// Where its arguments begin, among all.
    pub(crate) start: usize,
    /// Its words up to the end of its options, by their places among all arguments.
    pub(super) options: Range<usize>,
    /// Whether anything before the subcommand may change what it does.
    is_changed: bool,
}

impl<'a> RunnerCall<'a> {
    /// The runner of this command line, if it has one.
    pub(crate) fn of(command: &'a str, args: &'a [String]) -> Option<Self> {
        let (mut program, mut start, mut is_plain) = (command, 0, true);
        loop {
            let rest = &args[start..];
            if let Some((runner, end)) = Runner::of(program, rest) {
                let options = start..start + runner.options_end(rest, end);
                let is_changed = !is_plain || (runner.container_client().is_some() && rest[0].starts_with('-'));
                return Some(Self { runner, program, start, options, is_changed });
            }
            let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.program == program_name(program))?;
            let options = skipped(rest, wrapper.options);
            let variables = rest.get(options..)?.iter().take_while(|word| word.contains('=')).count();
            is_plain &= options + variables == 0;
            program = rest.get(options + variables)?;
            start += options + variables + 1;
        }
    }

    /// Whether the command itself is the runner.
    pub(super) fn is_direct(&self) -> bool {
        self.start == 0
    }

    /// Whether the runner may have another environment, directory or daemon than those of its server.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runner_is_found_behind_other_programs_and_leading_options() {
        for (line, expected) in [
            ("npx -y some", "npx 0..1"),
            ("/usr/bin/env npx -y some", "npx 1..2"),
            ("env -i A=b -u", ""),
            ("env -u A B=c npx some", "npx 4..4 changed"),
            ("env nice -n 5 /opt/uvx some", "/opt/uvx 4..4 changed"),
            ("env nohup npx some", "npx 2..2"),
            ("npm --prefix /x exec -y some", "npm 0..4"),
            ("npm --silent exec some", "npm 0..2"),
            ("npm --unknown value exec some", ""),
            ("npm start", ""),
            ("uv --cache-dir /c tool run some", "uv 0..4"),
            ("docker container run -i some", "docker 0..3"),
            ("podman container run some", "podman 0..2"),
            ("docker --context x run some", "docker 0..3 changed"),
            ("docker container ls", ""),
            ("sh -c 'npx some'", ""),
            ("env", ""),
            ("env npm", ""),
            ("npx -p", "npx 0..1"),
        ] {
            let words = shlex::split(line).expect("words");
            let described = RunnerCall::of(&words[0], &words[1..]).map(|call| {
                let changed = if call.is_changed() { " changed" } else { "" };
                format!("{} {:?}{changed}", call.program, Range { start: call.start, ..call.options })
            });
            assert_eq!(described.unwrap_or_default(), expected, "{line}");
        }
    }
}
