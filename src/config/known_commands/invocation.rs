//! What a command line runs: a program, or the package or image of a runner. Pure.

use super::runner::{Launcher, Runner, program_name};
use super::runner_call::RunnerCall;
use super::table::{self, KnownCommand, SandboxNeeds};

/// Options of `npx` that answer its question.
const ANSWERS: &[&str] = &["-y", "--yes", "--no", "--no-install", "--offline"];

/// The runner in this command line, if it has one.
pub(crate) fn runner(command: &str, args: &[String]) -> Option<&'static Runner> {
    RunnerCall::of(command, args).map(|call| call.runner)
}

/// What a command line runs.
pub(super) struct Invocation<'a> {
    runner: Option<&'static Runner>,
    /// The words of the runner up to the end of its options.
    options: &'a [String],
    /// The program, and the packages or the image that it runs.
    names: Vec<&'a str>,
    /// The package or image that a runner runs.
    pub(super) package: Option<&'a str>,
    /// The arguments of what it runs.
    pub(super) rest: &'a [String],
}

impl<'a> Invocation<'a> {
    pub(super) fn of(command: &'a str, args: &'a [String]) -> Self {
        let program = program_name(command);
        let Some(call) = RunnerCall::of(command, args) else {
            return Self { runner: None, options: &[], names: vec![program], package: None, rest: args };
        };
        let (options, rest) = (&args[call.options.clone()], &args[call.options.end..]);
        let words = rest.first().into_iter().map(String::as_str);
        let named = values(options, call.runner.package_options());
        let packages: Vec<_> = words.chain(named).map(without_version).collect();
        let package = packages.first().copied();
        // A program that starts the runner is before it.
        let programs = if call.is_direct() { vec![program] } else { vec![program, call.runner.program] };
        let names = programs.into_iter().chain(packages).collect();
        Self { runner: Some(call.runner), options, names, package, rest: rest.get(1..).unwrap_or_default() }
    }

    /// What is known of it.
    pub(super) fn known(&self) -> impl Iterator<Item = &'static KnownCommand> + use<'_, 'a> {
        table::known(&self.names)
    }

    /// The program, and the packages or the image that it runs.
    pub(super) fn names(&self) -> &[&'a str] {
        &self.names
    }

    pub(super) fn program(&self) -> &'a str {
        self.names.first().copied().unwrap_or_default()
    }

    /// Whether it starts a browser, whose own sandbox may gain privileges.
    pub(super) fn is_browser(&self) -> bool {
        !self.is_container() && self.known().any(|known| matches!(known.sandbox, SandboxNeeds::Browser))
    }

    pub(super) fn is_container(&self) -> bool {
        self.runner.is_some_and(|runner| runner.launcher.runs_images())
    }

    /// The client of the container, if it runs one.
    pub(super) fn container_client(&self) -> Option<&'static str> {
        self.runner.and_then(Runner::container_client)
    }

    pub(super) fn lacks_stdin(&self) -> bool {
        let letters =
            |option: &str| option.strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.contains('i'));
        let has_stdin = |option: &String| option.starts_with("--interactive") || letters(option);
        self.is_container() && !self.options.iter().any(has_stdin)
    }

    pub(super) fn asks_before_install(&self) -> bool {
        self.runner.is_some_and(|runner| runner.launcher == Launcher::Npm)
            && self.package.is_some()
            && !self.options.iter().any(|option| ANSWERS.contains(&option.as_str()))
    }
}

/// The name without a version, a tag or a digest.
fn without_version(word: &str) -> &str {
    let name = word.split("==").next().unwrap_or(word);
    // The `@` at the beginning is that of a scope.
    let end = name.char_indices().skip(1).find(|(_, c)| *c == '@').map_or(name.len(), |(at, _)| at);
    let name = &name[..end];
    let tag = name.rfind(':').filter(|at| !name[*at..].contains('/'));
    tag.map_or(name, |at| &name[..at])
}

/// The values of `options`, written as one word or two.
pub(super) fn values<'a>(args: &'a [String], options: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    args.iter().enumerate().filter_map(move |(index, word)| {
        let joined = options.iter().find_map(|option| word.strip_prefix(option)?.strip_prefix('='));
        let next = || options.contains(&word.as_str()).then(|| args.get(index + 1)).flatten().map(String::as_str);
        joined.or_else(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_has_stdin_only_with_its_option() {
        for (args, lacks) in [
            ("docker run -i --rm image", false),
            ("podman run --rm -it image", false),
            ("docker run --interactive=true image -x", false),
            ("docker run --init --rm image -i", true),
            ("docker run -e TITLE=-i image", true),
            ("docker exec name server", false),
            ("npx -y image", false),
        ] {
            let words: Vec<_> = args.split(' ').map(str::to_owned).collect();
            assert_eq!(Invocation::of(&words[0], &words[1..]).lacks_stdin(), lacks, "{args}");
        }
    }
}
