//! Programs that download a server before they run it.

use std::path::{Component, Path, PathBuf};

/// A program that downloads a server before it runs it.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(super) program: &'static str,
    /// Its subcommand.
    verb: &'static [&'static str],
    pub(super) launcher: Launcher,
}

/// What runners with one cache have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Launcher {
    Npm,
    Pnpm,
    Yarn,
    Bun,
    Uv,
    Pipx,
    Docker,
    Podman,
}

/// The options of runners of the same packages.
#[derive(Debug)]
struct Family {
    /// Options that take a value.
    options: &'static [&'static str],
    /// Those with a value that may be before the subcommand.
    leading: &'static [&'static str],
    /// Those of them that name the package, if it is not the word that names the command.
    names: &'static [&'static str],
}

/// Source: docs.npmjs.com/cli/commands/npx, pnpm.io/cli/dlx, yarnpkg.com/cli/dlx, bun.sh/docs/cli/bunx.
const OF_NPM: Family = Family {
    options: &[
        "--package",
        "-p",
        "--allow-build",
        "--cache",
        "--call",
        "-c",
        "--dir",
        "-C",
        "--loglevel",
        "--prefix",
        "--registry",
        "--reporter",
        "--script-shell",
        "--userconfig",
        "--workspace",
        "-w",
    ],
    leading: &["--cache", "--dir", "-C", "--loglevel", "--prefix", "--registry", "--userconfig", "--workspace", "-w"],
    names: &["--package", "-p"],
};
/// Source: docs.astral.sh/uv/reference/cli, `uv tool run`.
const OF_UV: Family = Family {
    options: &[
        "--from",
        "--allow-insecure-host",
        "--build-constraints",
        "-b",
        "--cache-dir",
        "--color",
        "--config-file",
        "--config-setting",
        "-C",
        "--constraints",
        "-c",
        "--default-index",
        "--directory",
        "--env-file",
        "--exclude-newer",
        "--exclude-newer-package",
        "--extra-index-url",
        "--find-links",
        "-f",
        "--fork-strategy",
        "--index",
        "--index-strategy",
        "--index-url",
        "-i",
        "--keyring-provider",
        "--link-mode",
        "--no-binary-package",
        "--no-build-isolation-package",
        "--no-build-package",
        "--overrides",
        "--prerelease",
        "--project",
        "--python",
        "-p",
        "--python-platform",
        "--refresh-package",
        "--reinstall-package",
        "--resolution",
        "--torch-backend",
        "--upgrade-package",
        "-P",
        "--with",
        "-w",
        "--with-editable",
        "--with-requirements",
    ],
    leading: &["--allow-insecure-host", "--cache-dir", "--color", "--config-file", "--directory", "--project"],
    names: &["--from"],
};
/// Source: pipx.pypa.io/stable/docs, `pipx run`.
const OF_PIPX: Family = Family {
    options: &[
        "--spec",
        "--backend",
        "--fetch-python",
        "--index-url",
        "-i",
        "--pip-args",
        "--python",
        "--python-args",
        "--with",
    ],
    leading: &[],
    names: &["--spec"],
};
/// Source: docs.docker.com/reference/cli/docker/container/run, docs.podman.io, `podman run`.
const OF_IMAGES: Family = Family {
    options: &[
        "--add-host",
        "--annotation",
        "--attach",
        "-a",
        "--cap-add",
        "--cap-drop",
        "--cgroup-parent",
        "--cgroupns",
        "--cidfile",
        "--cpu-period",
        "--cpu-quota",
        "--cpu-shares",
        "-c",
        "--cpus",
        "--cpuset-cpus",
        "--device",
        "--dns",
        "--dns-option",
        "--dns-search",
        "--domainname",
        "--entrypoint",
        "--env",
        "-e",
        "--env-file",
        "--expose",
        "--gpus",
        "--group-add",
        "--health-cmd",
        "--hostname",
        "-h",
        "--ip",
        "--ipc",
        "--label",
        "-l",
        "--label-file",
        "--link",
        "--log-driver",
        "--log-opt",
        "--memory",
        "-m",
        "--memory-swap",
        "--mount",
        "--name",
        "--network",
        "--network-alias",
        "--net",
        "--pid",
        "--pids-limit",
        "--platform",
        "--publish",
        "-p",
        "--pull",
        "--restart",
        "--runtime",
        "--secret",
        "--security-opt",
        "--shm-size",
        "--stop-signal",
        "--stop-timeout",
        "--sysctl",
        "--tmpfs",
        "--ulimit",
        "--user",
        "-u",
        "--userns",
        "--uts",
        "--volume",
        "-v",
        "--volumes-from",
        "--workdir",
        "-w",
    ],
    leading: &["--config", "--connection", "--context", "-c", "--host", "-H", "--log-level", "-l", "--root", "--url"],
    names: &[],
};

const fn runner_of(program: &'static str, verb: &'static [&'static str], launcher: Launcher) -> Runner {
    Runner { program, verb, launcher }
}

const RUNNERS: &[Runner] = &[
    runner_of("npx", &[], Launcher::Npm),
    runner_of("npm", &["exec"], Launcher::Npm),
    runner_of("npm", &["x"], Launcher::Npm),
    runner_of("pnpx", &[], Launcher::Pnpm),
    runner_of("pnpm", &["dlx"], Launcher::Pnpm),
    runner_of("yarn", &["dlx"], Launcher::Yarn),
    runner_of("bunx", &[], Launcher::Bun),
    runner_of("bun", &["x"], Launcher::Bun),
    runner_of("uvx", &[], Launcher::Uv),
    runner_of("uv", &["tool", "run"], Launcher::Uv),
    runner_of("pipx", &["run"], Launcher::Pipx),
    runner_of("docker", &["run"], Launcher::Docker),
    runner_of("docker", &["container", "run"], Launcher::Docker),
    runner_of("podman", &["run"], Launcher::Podman),
    runner_of("podman", &["container", "run"], Launcher::Podman),
];

impl Launcher {
    /// Its cache, by the name of the program that owns it.
    pub(crate) fn cache(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pnpm => "pnpm",
            Self::Yarn => "yarn",
            Self::Bun => "bun",
            Self::Uv => "uv",
            Self::Pipx => "pipx",
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// What it runs is an image, and otherwise a package.
    pub(crate) fn runs_images(self) -> bool {
        matches!(self, Self::Docker | Self::Podman)
    }

    fn family(self) -> &'static Family {
        match self {
            Self::Npm | Self::Pnpm | Self::Yarn | Self::Bun => &OF_NPM,
            Self::Uv => &OF_UV,
            Self::Pipx => &OF_PIPX,
            Self::Docker | Self::Podman => &OF_IMAGES,
        }
    }
}

impl Runner {
    /// The program, if it is the client of a container.
    pub(crate) fn container_client(&self) -> Option<&'static str> {
        self.launcher.runs_images().then_some(self.program)
    }

    /// Whose cache it writes. Runners with the same cache are started one after another.
    pub(crate) fn cache(&self) -> &'static str {
        self.launcher.cache()
    }

    /// The runner that `program` is with these arguments of it, and the number of words up to the end of its subcommand.
    pub(super) fn of(program: &str, args: &[String]) -> Option<(&'static Self, usize)> {
        let program = program_name(program);
        RUNNERS.iter().filter(|runner| runner.program == program).find_map(|runner| {
            let verb = if runner.verb.is_empty() { 0 } else { skipped(args, runner.launcher.family().leading) };
            let end = verb + runner.verb.len();
            args.get(verb..end).filter(|words| words.iter().eq(runner.verb)).map(|_| (runner, end))
        })
    }

    /// Where the options in these arguments of the runner end. The first `start` words are not looked at.
    pub(super) fn options_end(&self, args: &[String], start: usize) -> usize {
        (start + skipped(&args[start..], self.launcher.family().options)).min(args.len())
    }

    /// The options that name the package.
    pub(super) fn package_options(&self) -> &'static [&'static str] {
        self.launcher.family().names
    }
}

/// The number of words that are options at the beginning, with the values of `valued`.
pub(super) fn skipped(args: &[String], valued: &[&str]) -> usize {
    let mut index = 0;
    while args.get(index).is_some_and(|arg| arg.starts_with('-')) {
        index += if valued.contains(&args[index].as_str()) { 2 } else { 1 };
    }
    index
}

pub(super) fn program_name(command: &str) -> &str {
    Path::new(command).file_name().and_then(|name| name.to_str()).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

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
