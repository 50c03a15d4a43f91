//! Programs that download a server before they run it.

use std::path::{Component, Path, PathBuf};

use super::table::{self, KnownCommand, SandboxNeeds};

/// A program that downloads a server before it runs it.
#[derive(Debug)]
pub(crate) struct Runner {
    program: &'static str,
    /// Its subcommand.
    verb: &'static [&'static str],
    /// Whose cache it writes. Runners with the same cache are started one after another.
    pub(crate) cache: &'static str,
    /// Its options that take a value.
    options: &'static [&'static str],
}

/// Options of package runners that take a value.
const OF_PACKAGES: &[&str] = &[
    "--package",
    "-p",
    "--from",
    "--spec",
    "--with",
    "--python",
    "--registry",
    "--index-url",
    "--cache",
    "--prefix",
    "--workspace",
    "-w",
    "--directory",
    "--index",
];
/// Options of `docker run` that take a value.
const OF_IMAGES: &[&str] = &[
    "--add-host",
    "--cap-add",
    "--cap-drop",
    "--cpus",
    "--dns",
    "--entrypoint",
    "--env",
    "-e",
    "--env-file",
    "--gpus",
    "--hostname",
    "-h",
    "--label",
    "-l",
    "--memory",
    "-m",
    "--mount",
    "--name",
    "--network",
    "--net",
    "--platform",
    "--publish",
    "-p",
    "--pull",
    "--runtime",
    "--security-opt",
    "--tmpfs",
    "--user",
    "-u",
    "--userns",
    "--volume",
    "-v",
    "--workdir",
    "-w",
];
/// Options that name the package, if it is not the word that names the command.
const PACKAGE_NAMES: &[&str] = &["--package", "-p", "--from", "--spec"];
/// Options of `npx` that answer its question.
const ANSWERS: &[&str] = &["-y", "--yes", "--no", "--no-install", "--offline"];

const fn packages(program: &'static str, verb: &'static [&'static str], cache: &'static str) -> Runner {
    Runner { program, verb, cache, options: OF_PACKAGES }
}

const fn images(program: &'static str) -> Runner {
    Runner { program, verb: &["run"], cache: program, options: OF_IMAGES }
}

const RUNNERS: &[Runner] = &[
    packages("npx", &[], "npm"),
    packages("npm", &["exec"], "npm"),
    packages("npm", &["x"], "npm"),
    packages("pnpx", &[], "pnpm"),
    packages("pnpm", &["dlx"], "pnpm"),
    packages("yarn", &["dlx"], "yarn"),
    packages("bunx", &[], "bun"),
    packages("bun", &["x"], "bun"),
    packages("uvx", &[], "uv"),
    packages("uv", &["tool", "run"], "uv"),
    packages("pipx", &["run"], "pipx"),
    images("docker"),
    images("podman"),
];

impl Runner {
    /// The program, if it is the client of a container.
    pub(crate) fn container_client(&self) -> Option<&'static str> {
        self.runs_images().then_some(self.program)
    }

    /// What it runs is an image, and otherwise a package.
    fn runs_images(&self) -> bool {
        self.options == OF_IMAGES
    }
}

/// The runner that this command is, if it is one.
pub(crate) fn runner(command: &str, args: &[String]) -> Option<&'static Runner> {
    Invocation::of(command, args).runner
}

/// What a command line runs.
pub(super) struct Invocation<'a> {
    runner: Option<&'static Runner>,
    /// The options of the runner.
    options: &'a [String],
    /// The program, and the packages or the image that it runs.
    names: Vec<&'a str>,
    /// The arguments of what it runs.
    pub(super) rest: &'a [String],
}

impl<'a> Invocation<'a> {
    pub(super) fn of(command: &'a str, args: &'a [String]) -> Self {
        let program = Path::new(command).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let runs = |runner: &&Runner| {
            let mut verb = args.iter().take(runner.verb.len());
            runner.program == program && runner.verb.iter().all(|word| verb.next().is_some_and(|arg| arg == word))
        };
        let Some(runner) = RUNNERS.iter().find(runs) else {
            return Self { runner: None, options: &[], names: vec![program], rest: args };
        };
        let args = &args[runner.verb.len()..];
        let mut index = 0;
        while args.get(index).is_some_and(|arg| arg.starts_with('-')) {
            index += if runner.options.contains(&args[index].as_str()) { 2 } else { 1 };
        }
        let (options, rest) = args.split_at(index.min(args.len()));
        let words = rest.first().into_iter().map(String::as_str);
        let named = values(options, PACKAGE_NAMES).filter(|_| !runner.runs_images());
        let names = [program].into_iter().chain(words.chain(named).map(without_version)).collect();
        Self { runner: Some(runner), options, names, rest: rest.get(1..).unwrap_or_default() }
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
        self.runner.is_some_and(Runner::runs_images)
    }

    /// The package or image that a runner runs.
    pub(super) fn package(&self) -> Option<&'a str> {
        self.runner.and_then(|_| self.names.get(1)).copied()
    }

    pub(super) fn lacks_stdin(&self) -> bool {
        let letters =
            |option: &str| option.strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.contains('i'));
        let has_stdin = |option: &String| option.starts_with("--interactive") || letters(option);
        self.is_container() && !self.options.iter().any(has_stdin)
    }

    pub(super) fn asks_before_install(&self) -> bool {
        self.runner.is_some_and(|runner| runner.cache == "npm")
            && self.package().is_some()
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

/// What runners and their servers report if a download was cut off.
const INCOMPLETE: &[&str] = &[
    "ERR_MODULE_NOT_FOUND",
    "MODULE_NOT_FOUND",
    "Cannot find module",
    "Cannot find package",
    "ENOTEMPTY",
    "ModuleNotFoundError",
    "SyntaxError: Unexpected end of",
    "Unexpected end of JSON input",
];
/// The directories that hold one downloaded server each.
const CACHES: &[&str] = &["/_npx/", "/pnpm/dlx/", "/uv/archive-v0/", "/pipx/.cache/", "/pipx/venvs/"];

/// The directory of a download that was cut off, as far as the last lines of a server's stderr show it.
pub(crate) fn half_written_cache<'a>(stderr: impl Iterator<Item = &'a str> + Clone) -> Option<PathBuf> {
    let is_reported = stderr.clone().any(|line| INCOMPLETE.iter().any(|text| line.contains(text)));
    is_reported.then(|| stderr.into_iter().find_map(cache_directory)).flatten()
}

/// The directory of a downloaded server in which a path of this line lies.
fn cache_directory(line: &str) -> Option<PathBuf> {
    let (cache, at) = CACHES.iter().find_map(|cache| Some((cache, line.find(cache)?)))?;
    let before = line[..at].rfind(|c: char| "'\"`() =".contains(c)).map_or(0, |quote| quote + 1);
    let start = before + line[before..at].find('/').unwrap_or(at - before);
    let name = &line[at + cache.len()..];
    let length = name.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).unwrap_or(name.len());
    let directory = PathBuf::from(&line[start..at + cache.len() + length]);
    let is_plain = directory.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    (length > 0 && directory.is_absolute() && is_plain).then_some(directory)
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

    #[test]
    fn half_written_cache_is_named_by_what_stderr_reports() {
        for (lines, expected) in [
            (
                &[
                    "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /home/u/.npm/_npx/5c1/node_modules/s/i.js",
                ][..],
                Some("/home/u/.npm/_npx/5c1"),
            ),
            (
                &["Error: Cannot find module 'ajv'", "Require stack:", "- /home/u/.npm/_npx/5c1/node_modules/s/i.js"],
                Some("/home/u/.npm/_npx/5c1"),
            ),
            (
                &["npm error code ENOTEMPTY", "npm error path /home/u/.npm/_npx/a-b/node_modules/x"],
                Some("/home/u/.npm/_npx/a-b"),
            ),
            (&["    at file:///c/pnpm/dlx/77/x.mjs:1:1", "code: 'ERR_MODULE_NOT_FOUND'"], Some("/c/pnpm/dlx/77")),
            (
                &[
                    "  File \"/h/.cache/uv/archive-v0/Xy_1/lib/a.py\", line 1",
                    "ModuleNotFoundError: No module named 'b'",
                ],
                Some("/h/.cache/uv/archive-v0/Xy_1"),
            ),
            (&["Error: no token", "    at /home/u/.npm/_npx/5c1/node_modules/s/i.js"], None),
            (&["Error: Cannot find module './x'", "- /home/u/project/i.js"], None),
            (&["Cannot find module '/home/u/../x/_npx/5c1/i.js'"], None),
            (&["Cannot find module '/home/u/_npx/..'"], None),
            (&["Cannot find module 'x/_npx/'"], None),
        ] {
            assert_eq!(half_written_cache(lines.iter().copied()), expected.map(PathBuf::from), "{lines:?}");
        }
    }
}
