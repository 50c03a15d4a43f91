//! The word of a command line that names the package or image that a runner downloads, and its version. Pure.

use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifier, VersionSpecifiers};

use super::runner::Launcher;
use super::runner_call::RunnerCall;

/// The operators of versions of Python packages that permit exactly one.
const EXACT_OPERATORS: &[&str] = &["===", "=="];
/// The beginning of the digest of an image.
const DIGEST: &str = "sha256:";

/// A word that names a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackageWord {
    /// Its place among the arguments.
    pub(crate) index: usize,
    pub(crate) launcher: Launcher,
    /// Without extras and version. Of an image, with its registry.
    pub(crate) name: String,
    pub(crate) requirement: Requirement,
    /// The word as it is written, without an option that is a part of it.
    pub(crate) text: String,
    /// What is before the name: the option, if both are one word.
    before: String,
    /// Between the name and the version: extras of a Python package, or the tag of an image.
    after: String,
    /// What separates the version from all before it.
    separator: &'static str,
    /// What is after the version: the marker of a Python package.
    rest: String,
}

/// Which versions a word permits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// None is written, so the newest one runs.
    #[default]
    Newest,
    Exact(String),
    /// A range or a tag.
    Range(String),
    /// Another package of the registry, whatever its version: the word has only its own name for it.
    Alias,
    /// It is not from a registry of packages: a path, a URL or a repository.
    Elsewhere,
}

impl Requirement {
    /// Whether the word can have another version.
    fn has_version(&self) -> bool {
        !matches!(self, Self::Alias | Self::Elsewhere)
    }
}

impl Launcher {
    /// Whether it is one version of what this launcher runs. A launcher may take anything else for a path, a URL, a tag or a range.
    pub(crate) fn is_version(self, text: &str) -> bool {
        match self {
            Self::Npm | Self::Pnpm | Self::Yarn | Self::Bun => is_semantic_version(text),
            Self::Uv | Self::Pipx => Version::from_str(text).is_ok_and(|version| version.to_string() == text),
            Self::Docker | Self::Podman => is_digest(text),
        }
    }
}

impl PackageWord {
    /// Its exact version, if it has one.
    pub(crate) fn version(&self) -> Option<&str> {
        if let Requirement::Exact(version) = &self.requirement { Some(version) } else { None }
    }

    /// The whole word, with this version.
    pub(crate) fn with_version(&self, version: &str) -> String {
        let Self { name, before, after, separator, rest, .. } = self;
        format!("{before}{name}{after}{separator}{version}{rest}")
    }
}

/// The first package that this command line names.
pub(crate) fn package_of(command: &str, args: &[String]) -> Option<PackageWord> {
    package_words(command, args).into_iter().next()
}

/// The arguments with this version of the first package that they name.
pub(crate) fn pinned_args(command: &str, args: &[String], version: &str) -> Option<Vec<String>> {
    let word = package_of(command, args).filter(|word| word.requirement.has_version())?;
    if !word.launcher.is_version(version) {
        return None;
    }
    let mut args = args.to_vec();
    args[word.index] = word.with_version(version);
    Some(args)
}

/// The packages that this command line names: those of options, or else the word that names the command.
pub(crate) fn package_words(command: &str, args: &[String]) -> Vec<PackageWord> {
    let Some(RunnerCall { runner, options, .. }) = RunnerCall::of(command, args) else { return Vec::new() };
    let mut words = Vec::new();
    for index in options.clone() {
        for option in runner.package_options() {
            let joined = args[index].strip_prefix(option).is_some_and(|rest| rest.starts_with('='));
            match joined {
                true => words.push((index, option.len() + 1)),
                false if args[index] == *option && index + 1 < options.end => words.push((index + 1, 0)),
                false => {}
            }
        }
    }
    let is_named = !words.is_empty();
    if !is_named && options.end < args.len() {
        words.push((options.end, 0));
    }
    let word = |(index, start): (usize, usize)| {
        let (before, text) = args[index].split_at(start);
        let parsed = match runner.launcher {
            Launcher::Npm | Launcher::Pnpm | Launcher::Yarn | Launcher::Bun => npm(text),
            Launcher::Uv => python(text, !is_named),
            Launcher::Pipx => python(text, false),
            Launcher::Docker | Launcher::Podman => image(text),
        };
        let elsewhere = || Parsed { name: text.to_owned(), requirement: Requirement::Elsewhere, ..Parsed::default() };
        let Parsed { name, requirement, after, separator, rest } = parsed.unwrap_or_else(elsewhere);
        let (launcher, text, before) = (runner.launcher, text.to_owned(), before.to_owned());
        PackageWord { index, launcher, name, requirement, text, before, after, separator, rest }
    };
    words.into_iter().map(word).collect()
}

#[derive(Default)]
struct Parsed {
    name: String,
    requirement: Requirement,
    after: String,
    separator: &'static str,
    rest: String,
}

/// A package of npm's registry: `name`, `@scope/name` and `name@VERSION`. `None` if it is something else.
fn npm(text: &str) -> Option<Parsed> {
    let is_scoped = text.starts_with('@');
    let split = text[usize::from(is_scoped)..].split_once('@');
    let (name, version) =
        split.map_or((text, None), |(name, version)| (&text[..name.len() + usize::from(is_scoped)], Some(version)));
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric() || "-_".contains(c))
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~".contains(c))
    };
    let is_name = match name.strip_prefix('@').map(|name| name.split_once('/')) {
        Some(parts) => parts.is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
        None => is_part(name),
    };
    if is_name && version.is_some_and(|version| version.starts_with("npm:")) {
        return Some(Parsed { name: text.to_owned(), requirement: Requirement::Alias, ..Parsed::default() });
    }
    // A URL, a path or a repository.
    if !is_name || version.is_some_and(|version| version.contains(['/', ':', '$'])) {
        return None;
    }
    let requirement = match version.unwrap_or_default() {
        "" => Requirement::Newest,
        version if is_npm_version(version) => Requirement::Exact(version.to_owned()),
        version => Requirement::Range(version.to_owned()),
    };
    Some(Parsed { name: name.to_owned(), requirement, separator: "@", ..Parsed::default() })
}

/// Whether it is one version. node-semver also accepts `v` and `=` before it.
fn is_npm_version(text: &str) -> bool {
    is_semantic_version(text.trim_start_matches(['v', '=']))
}

/// Source: semver.org, 2, with the limits of node-semver.
fn is_semantic_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, release) = text.split_once('-').map_or((text, None), |(core, release)| (core, Some(release)));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = |part: &str| is_digits(part) && part.len() < 16 && (part == "0" || !part.starts_with('0'));
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    text.len() < 200
        && core.split('.').count() == 3
        && core.split('.').all(is_number)
        && release
            .is_none_or(|release| release.split('.').all(|part| is_word(part) && (!is_digits(part) || is_number(part))))
        && build.is_none_or(|build| build.len() < 50 && build.split('.').all(is_word))
}

/// A requirement of a Python package: `name`, `name[extra]`, `name==VERSION`, and of `uvx` also `name@VERSION`. Source: PEP 508.
/// `names_command`: the word also names the command.
fn python(text: &str, names_command: bool) -> Option<Parsed> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    let is_file = [".whl", ".gz", ".zip", ".py"].iter().any(|end| name.ends_with(end));
    let is_name = |c: char| c.is_ascii_alphanumeric();
    if is_file || !name.starts_with(is_name) || !name.ends_with(is_name) {
        return None;
    }
    let extras = if after.starts_with('[') { after.find(']')? + 1 } else { 0 };
    let (extras, after) = after.split_at(extras);
    let (version, rest) = after.split_at(after.find(';').unwrap_or(after.len()));
    let written = version.trim();
    if version.contains(['/', ':', '$']) {
        return None;
    }
    let by_sign = written.strip_prefix('@').map(str::trim);
    let requirement = match by_sign {
        Some("") => return None,
        Some(version) if Version::from_str(version).is_ok() => Requirement::Exact(version.to_owned()),
        Some(version) => Requirement::Range(version.to_owned()),
        None if written.is_empty() => Requirement::Newest,
        None => {
            let exact = EXACT_OPERATORS.iter().find_map(|operator| written.strip_prefix(operator)).map(str::trim);
            match exact.filter(|version| Version::from_str(version).is_ok()) {
                Some(version) => Requirement::Exact(version.to_owned()),
                None if VersionSpecifiers::from_str(written).is_ok() => Requirement::Range(written.to_owned()),
                None => return None,
            }
        }
    };
    // `uvx` has understood `name@VERSION` longer than `name==VERSION`.
    let is_plain = requirement == Requirement::Newest && names_command && extras.is_empty();
    let separator = if by_sign.is_some() || is_plain { "@" } else { "==" };
    Some(Parsed { name: name.to_owned(), requirement, after: extras.to_owned(), separator, rest: rest.to_owned() })
}

/// The name of a Python package, as its index has it. Source: PEP 503.
pub(crate) fn normalized(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

/// Whether `version` of a Python package meets the requirement. `None` if either is not a version.
pub(crate) fn permits(requirement: &Requirement, version: &Version) -> Option<bool> {
    match requirement {
        Requirement::Newest => Some(true),
        Requirement::Exact(exact) => Some(Version::from_str(exact).ok()? == *version),
        Requirement::Range(latest) if latest == "latest" => Some(true),
        Requirement::Range(range) => {
            let range = match VersionSpecifier::from_str(&format!("=={range}")) {
                Ok(exact) => VersionSpecifiers::from_iter([exact]),
                Err(_) => VersionSpecifiers::from_str(range).ok()?,
            };
            Some(range.contains(version))
        }
        Requirement::Alias | Requirement::Elsewhere => None,
    }
}

/// An image: `name`, `registry/name:TAG` and `name@sha256:DIGEST`. Source: distribution.github.io/distribution/spec, `reference`.
fn image(text: &str) -> Option<Parsed> {
    let (named, digest) = text.split_once('@').map_or((text, None), |(named, digest)| (named, Some(digest)));
    let tag = named.rfind(':').filter(|at| !named[*at..].contains('/'));
    let (name, tag) = named.split_at(tag.unwrap_or(named.len()));
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    if name.is_empty() || !name.chars().all(is_name) || tag.contains('$') {
        return None;
    }
    let requirement = match digest {
        Some(digest) if is_digest(digest) => Requirement::Exact(digest.to_owned()),
        Some(_) => return None,
        None if tag.is_empty() => Requirement::Newest,
        None => Requirement::Range(tag[1..].to_owned()),
    };
    Some(Parsed { name: name.to_owned(), requirement, after: tag.to_owned(), separator: "@", ..Parsed::default() })
}

/// Whether it is the digest of an image.
fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix(DIGEST).unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        shlex::split(line).expect("words")
    }

    fn described(line: &str) -> String {
        let words = words(line);
        let described = |word: PackageWord| {
            let requirement = match word.requirement {
                Requirement::Newest => "newest".to_owned(),
                Requirement::Exact(version) => format!("exactly {version}"),
                Requirement::Range(range) => format!("within {range}"),
                Requirement::Alias => "alias".to_owned(),
                Requirement::Elsewhere => "elsewhere".to_owned(),
            };
            format!("{} {} {requirement}", word.index, word.name)
        };
        package_words(&words[0], &words[1..]).into_iter().map(described).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn word_that_names_the_package_is_found_with_its_version() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (line, expected) in [
            ("npx -y some", "1 some newest"),
            ("/usr/bin/npx -y @scope/some@1.2.3 --x @other/y", "1 @scope/some exactly 1.2.3"),
            ("npx some@v1.2.3-rc.1+b", "0 some exactly v1.2.3-rc.1+b"),
            ("npx some@1.2", "0 some within 1.2"),
            ("npx some@latest", "0 some within latest"),
            ("npx some@^1.2.3", "0 some within ^1.2.3"),
            ("npx some@", "0 some newest"),
            ("npx -y --package=a@1.0.0 -p b b", "1 a exactly 1.0.0, 3 b newest"),
            ("npx --cache /c some", "2 some newest"),
            ("npm exec -y -- some", "3 some newest"),
            ("npx ./server", "0 ./server elsewhere"),
            ("npx user/repository", "0 user/repository elsewhere"),
            ("npx github:user/repository", "0 github:user/repository elsewhere"),
            ("npx some@npm:other@1.0.0", "0 some@npm:other@1.0.0 alias"),
            ("npx some@file:../x", "0 some@file:../x elsewhere"),
            ("npx some@1.2.3-01", "0 some within 1.2.3-01"),
            ("env A=b npx -y some@1.2.3", "3 some exactly 1.2.3"),
            ("npm --prefix /x exec -y some", "4 some newest"),
            ("npm --package=a@1.0.0 exec b", "0 a exactly 1.0.0"),
            ("docker container run -i mcp/time", "3 mcp/time newest"),
            ("sh -c 'npx some'", ""),
            ("npx https://example.org/x.tgz", "0 https://example.org/x.tgz elsewhere"),
            ("npx ${NAME}", "0 ${NAME} elsewhere"),
            ("npx @scope", "0 @scope elsewhere"),
            ("npx -y", ""),
            ("pnpm dlx some@1.2.3", "1 some exactly 1.2.3"),
            ("bun x some", "1 some newest"),
            ("node some", ""),
            ("uvx some", "0 some newest"),
            ("uvx -p 3.12 some@latest", "2 some within latest"),
            ("uvx some@1.2", "0 some exactly 1.2"),
            ("uvx some==1.2.post1", "0 some exactly 1.2.post1"),
            ("uvx some==1.*", "0 some within ==1.*"),
            ("uvx 'some>=1,<2'", "0 some within >=1,<2"),
            ("uvx --with other --from 'some[cli] == 1.0' run", "3 some exactly 1.0"),
            ("uvx --from=some run", "0 some newest"),
            ("uvx --from git+https://example.org/x run", "1 git+https://example.org/x elsewhere"),
            ("uvx 'some @ https://example.org/x.whl'", "0 some @ https://example.org/x.whl elsewhere"),
            ("uvx ./some", "0 ./some elsewhere"),
            ("uvx some.whl", "0 some.whl elsewhere"),
            ("uv tool run some", "2 some newest"),
            ("pipx run --spec some==1.0 some", "2 some exactly 1.0"),
            ("pipx run some", "1 some newest"),
            ("docker run -i --rm -e A=b mcp/time", "5 mcp/time newest"),
            ("docker run registry:5000/some", "1 registry:5000/some newest"),
            ("docker run -v /a:/b registry:5000/some:1.2", "3 registry:5000/some within 1.2"),
            (&format!("podman run some:1@{digest} x"), &format!("1 some exactly {digest}")),
            ("docker run some@sha256:00", "1 some@sha256:00 elsewhere"),
            ("docker ps", ""),
        ] {
            assert_eq!(described(line), expected, "{line}");
        }
    }

    #[test]
    fn version_is_written_as_the_runner_understands_it() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (line, version, expected) in [
            ("npx -y some a@b", "1.2.3", "npx -y some@1.2.3 a@b"),
            ("npx -y @scope/some@latest", "1.2.3", "npx -y @scope/some@1.2.3"),
            ("npx --package=some@^1 run", "1.2.3", "npx --package=some@1.2.3 run"),
            ("bunx -p some run", "1.2.3", "bunx -p some@1.2.3 run"),
            ("uvx some", "1.2", "uvx some@1.2"),
            ("uvx some@latest", "1.2", "uvx some@1.2"),
            ("uvx 'some>=1'", "1.2", "uvx some==1.2"),
            ("uvx 'some[cli]'", "1.2", "uvx some[cli]==1.2"),
            ("uvx --from some run", "1.2", "uvx --from some==1.2 run"),
            ("uvx --from=some run", "1.2", "uvx --from=some==1.2 run"),
            ("uvx --from 'some; python_version>\"3\"' run", "1.2", "uvx --from some==1.2; python_version>\"3\" run"),
            ("pipx run some", "1.2", "pipx run some==1.2"),
            ("docker run -i mcp/time:1 x", &*digest, &*format!("docker run -i mcp/time:1@{digest} x")),
        ] {
            let words = words(line);
            let pinned = pinned_args(&words[0], &words[1..], version).expect("a package");
            assert_eq!(format!("{} {}", words[0], pinned.join(" ")), expected, "{line}");
            assert_eq!(
                package_of(&words[0], &pinned).expect("a package").name,
                package_of(&words[0], &words[1..]).expect("a package").name
            );
        }
        assert_eq!(pinned_args("npx", &words("-y ./x"), "1.2.3"), None);
        assert_eq!(pinned_args("node", &words("x.js"), "1.2.3"), None);
        assert_eq!(pinned_args("npx", &words("-y x@npm:y"), "1.2.3"), None);
        assert_eq!(pinned_args("npx", &words("-y x"), "file:/tmp/y"), None);
    }

    #[test]
    fn version_is_exact_or_none() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (launcher, text, expected) in [
            (Launcher::Npm, "1.2.3", true),
            (Launcher::Pnpm, "0.0.0-rc.1-x.0+build.01", true),
            (Launcher::Npm, "v1.2.3", false),
            (Launcher::Npm, "=1.2.3", false),
            (Launcher::Npm, "1.2", false),
            (Launcher::Npm, "1.2.3.4", false),
            (Launcher::Npm, "01.2.3", false),
            (Launcher::Npm, "1.2.3-01", false),
            (Launcher::Npm, "1.2.3-", false),
            (Launcher::Npm, "1.2.3-a..b", false),
            (Launcher::Npm, "1.2.3+", false),
            (Launcher::Npm, "9007199254740992.0.0", false),
            (Launcher::Npm, "^1.2.3", false),
            (Launcher::Npm, "latest", false),
            (Launcher::Bun, "file:/tmp/x", false),
            (Launcher::Yarn, "https://example.org/x.tgz", false),
            (Launcher::Npm, "github:user/x", false),
            (Launcher::Npm, "npm:other@1.2.3", false),
            (Launcher::Npm, " 1.2.3", false),
            (Launcher::Npm, "", false),
            (Launcher::Uv, "1.2", true),
            (Launcher::Uv, "1!2.0rc1.post1+local.1", true),
            (Launcher::Uv, "1.*", false),
            (Launcher::Pipx, ">=1", false),
            (Launcher::Pipx, "latest", false),
            (Launcher::Docker, &digest, true),
            (Launcher::Podman, "sha256:00", false),
            (Launcher::Docker, "latest", false),
        ] {
            assert_eq!(launcher.is_version(text), expected, "{launcher:?} {text}");
        }
        assert!(!Launcher::Npm.is_version(&format!("1.2.3-{}", "a".repeat(300))));
    }

    #[test]
    fn ranges_of_python_packages_permit_their_versions() {
        let range = |text: &str| Requirement::Range(text.to_owned());
        for (requirement, version, expected) in [
            (Requirement::Newest, "1.0", Some(true)),
            (range("latest"), "1.0", Some(true)),
            (range(">=1,<2"), "1.5", Some(true)),
            (range(">=1,<2"), "2.0", Some(false)),
            (range("==1.*"), "1.5", Some(true)),
            (range("~=1.4"), "1.3", Some(false)),
            (Requirement::Exact("1.0".to_owned()), "1.0.0", Some(true)),
            (Requirement::Elsewhere, "1.0", None),
        ] {
            let version = Version::from_str(version).expect("a version");
            assert_eq!(permits(&requirement, &version), expected, "{requirement:?} {version}");
        }
        assert_eq!(normalized("Some_Package.x--y"), "some-package-x-y");
    }
}
