//! Caches as the runners write them: npm 11, pnpm 9 and 10, bun 1.1 and 1.4, uv 0.13, pipx 1.7.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::process::getuid;
use tempfile::TempDir;

use super::*;

/// A home directory with caches.
struct Home {
    directory: TempDir,
    env: BTreeMap<String, String>,
}

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let env = [("HOME", path("")), ("PATH", path("bin")), ("TMPDIR", path("tmp"))];
        let env = env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let home = Self { directory, env };
        files.iter().for_each(|(name, text)| home.write(name, text));
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("written");
    }

    fn set(&mut self, variable: &str, name: &str) {
        let path = self.path(name).to_string_lossy().into_owned();
        self.env.insert(variable.to_owned(), path);
    }

    /// The version of each package of the line, with its checksum, or why it is not known.
    fn found_at(&self, line: &str, cwd: &str) -> String {
        let words = shlex::split(line).expect("words");
        let found = installed_packages(&words[0], &words[1..], &self.env, &self.path(cwd));
        let text = |(_, found): (PackageWord, Result<InstalledPackage, UnknownVersion>)| match found {
            Ok(InstalledPackage { version, integrity, .. }) => {
                [version].into_iter().chain(integrity).collect::<Vec<_>>().join(" ")
            }
            Err(error) => format!("{error:?}"),
        };
        found.into_iter().map(text).collect::<Vec<_>>().join(", ")
    }

    fn found(&self, line: &str) -> String {
        self.found_at(line, "")
    }
}

fn package_json(version: &str) -> String {
    named_json("semver", version)
}

fn named_json(name: &str, version: &str) -> String {
    format!("{{\"name\": \"{name}\", \"version\": \"{version}\"}}")
}

#[test]
fn npx_runs_what_its_cache_has_for_the_word() {
    let lock = |version: &str| {
        format!(
            "{{\"lockfileVersion\": 3, \"packages\": {{\"\": {{}}, \"node_modules/semver\": {{\"version\": \"{version}\", \
             \"integrity\": \"sha512-9lp==\"}}}}}}"
        )
    };
    let mut home = Home::new(&[
        // The names of the directories are those of npm for `semver`, `semver@latest` and `semver@7.5`.
        (".npm/_npx/a9bef924e4cb6cdb/node_modules/semver/package.json", &package_json("7.8.6")),
        (".npm/_npx/a9bef924e4cb6cdb/package-lock.json", &lock("7.8.6")),
        (".npm/_npx/81ffe89bfc828045/node_modules/semver/package.json", &package_json("7.8.5")),
        (".npm/_npx/81ffe89bfc828045/package-lock.json", &lock("7.8.4")),
        (".npm/_npx/dc5e9822c762a236/node_modules/semver/package.json", &package_json("7.5.4")),
        (".npm/_npx/0011223344556677/node_modules/semver/package.json", &package_json("1.0.0")),
        (".npm/_npx/0011223344556677/node_modules/other/package.json", &named_json("other", "2.0.0")),
        (".npm/_npx/0011223344556677/package.json", r#"{"_npx": {"packages": ["other@^2", "semver"]}}"#),
        ("elsewhere/_npx/a9bef924e4cb6cdb/node_modules/semver/package.json", &package_json("6.0.0")),
    ]);
    for (line, expected) in [
        ("npx -y semver", "7.8.6 sha512-9lp=="),
        ("npm exec -y -- semver", "7.8.6 sha512-9lp=="),
        ("npx -y --package=semver run", "7.8.6 sha512-9lp=="),
        ("npx semver@latest", "7.8.5"),
        ("npx semver@7.5", "7.5.4"),
        ("npx semver@1.0.0", "NotInstalled"),
        ("npx -p semver -p other@^2 run", "1.0.0, 2.0.0"),
        ("npx -y --cache elsewhere semver", "6.0.0"),
        ("npx ./semver", "Elsewhere"),
        ("npx semver@npm:other", "Alias"),
        ("env npx semver", "7.8.6 sha512-9lp=="),
        ("env npm_config_cache=elsewhere npx semver", "Changed"),
        ("npm --cache elsewhere exec semver", "6.0.0"),
        ("npx -y", ""),
    ] {
        assert_eq!(home.found(line), expected, "{line}");
    }
    home.write(".npmrc", "loglevel=silent\ncache = ~/elsewhere\n");
    assert_eq!(home.found("npx semver"), "6.0.0");
    home.set("NPM_CONFIG_CACHE", ".npm");
    assert_eq!(home.found("npx semver"), "7.8.6 sha512-9lp==");
}

#[test]
fn npx_prefers_packages_of_its_project_and_global_ones() {
    let home = Home::new(&[
        (".npm/_npx/a9bef924e4cb6cdb/node_modules/semver/package.json", &package_json("7.8.6")),
        ("project/package.json", "{}"),
        ("project/node_modules/semver/package.json", &package_json("5.0.0")),
        ("other/package.json", "{}"),
        ("node/bin/node", ""),
        ("node/lib/node_modules/semver/package.json", &package_json("4.0.0")),
    ]);
    assert_eq!(home.found_at("npx semver", "project/src"), "5.0.0");
    assert_eq!(home.found_at("npx semver@5.0.0", "project"), "5.0.0");
    assert_eq!(home.found_at("npx semver", "other"), "7.8.6");
    assert_eq!(home.found_at("bunx semver", "project"), "5.0.0");
    fs::set_permissions(home.path("node/bin/node"), fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::create_dir(home.path("bin")).expect("a directory");
    symlink(home.path("node/bin/node"), home.path("bin/node")).expect("a link");
    assert_eq!(home.found_at("npx semver", "other"), "4.0.0");
    assert_eq!(home.found_at("npx semver@latest", "other"), "NotInstalled", "a tag is looked up");
}

#[test]
fn pnpm_runs_the_version_that_its_metadata_names() {
    let lock = "packages:\n\n  semver@7.8.6:\n    resolution: {integrity: sha512-9lp==}\n    hasBin: true\n\n  '@a/b@1.0.0':\n    \
                resolution: {integrity: sha512-ab}\n";
    let home = Home::new(&[
        (".cache/pnpm/dlx/66ed/pkg/package.json", r#"{"dependencies": {"semver": "7.8.6"}}"#),
        (".cache/pnpm/dlx/66ed/pkg/node_modules/semver/package.json", &package_json("7.8.6")),
        (".cache/pnpm/dlx/66ed/pkg/pnpm-lock.yaml", lock),
        (".cache/pnpm/dlx/b6b4/pkg/package.json", r#"{"dependencies": {"semver": "7.5.4"}}"#),
        (".cache/pnpm/dlx/b6b4/pkg/node_modules/semver/package.json", &package_json("7.5.4")),
        (".cache/pnpm/dlx/c0/pkg/package.json", r#"{"dependencies": {"@a/b": "^1.0.0"}}"#),
        (".cache/pnpm/dlx/c0/pkg/node_modules/@a/b/package.json", &named_json("@a/b", "1.0.0")),
        (".cache/pnpm/dlx/c0/pkg/pnpm-lock.yaml", lock),
        (".cache/pnpm/dlx/d0/1a2b/package.json", r#"{"dependencies": {"broken": "1"}}"#),
        (
            ".cache/pnpm/metadata-v1.3/registry.npmjs.org/semver.json",
            r#"{"dist-tags": {"latest": "7.8.6", "old": "7.5.4"}}"#,
        ),
    ]);
    for (line, expected) in [
        ("pnpm dlx semver", "7.8.6 sha512-9lp=="),
        ("pnpx semver@latest", "7.8.6 sha512-9lp=="),
        ("pnpm dlx semver@old", "7.5.4"),
        ("pnpm dlx semver@7.5.4", "7.5.4"),
        ("pnpm dlx semver@7.5.3", "NotInstalled"),
        ("pnpm dlx semver@^7", "Ambiguous"),
        ("pnpm dlx @a/b", "1.0.0 sha512-ab"),
        ("pnpm dlx broken", "NotInstalled"),
        ("yarn dlx semver", "NotKept"),
    ] {
        assert_eq!(home.found(line), expected, "{line}");
    }
}

#[test]
fn bunx_runs_what_is_in_the_directory_of_its_word() {
    let user = getuid().as_raw();
    let lock = "{\n  \"packages\": {\n    \"semver\": [\"semver@7.8.6\", \"\", { \"bin\": { \"semver\": \"x\" } }, \"sha512-9lp==\"],\n  }\n}\n";
    let mut home = Home::new(&[
        (
            &format!(".bun/install/cache/.bunx-{user}/semver@latest/node_modules/semver/package.json"),
            &package_json("7.8.6"),
        ),
        (&format!(".bun/install/cache/.bunx-{user}/semver@latest/bun.lock"), lock),
        (&format!("tmp/bunx-{user}-@a/b@^1/node_modules/@a/b/package.json"), &named_json("@a/b", "1.0.0")),
        (&format!("own/.bunx-{user}/semver@latest/node_modules/semver/package.json"), &package_json("6.0.0")),
    ]);
    for (line, expected) in [
        ("bunx semver", "7.8.6 sha512-9lp=="),
        ("bun x semver@latest", "7.8.6 sha512-9lp=="),
        ("bunx semver@^7", "NotInstalled"),
        ("bunx @a/b@^1", "1.0.0"),
    ] {
        assert_eq!(home.found(line), expected, "{line}");
    }
    home.set("BUN_INSTALL_CACHE_DIR", "own");
    assert_eq!(home.found("bunx semver"), "6.0.0");
}

/// An environment of uv with this package.
fn environment(version: &str, number: usize) -> String {
    format!(
        ".cache/uv/environments-v2/8b0c/{number}/lib/python3.11/site-packages/Some_Server-{version}.dist-info/METADATA"
    )
}

#[test]
fn uvx_runs_the_newest_version_in_its_cache_that_fits() {
    let versions = ["1.2", "1.10", "0.9", "2.0rc1"];
    let mut home = Home::new(&[(".cache/uv/environments-v2/8b0c/1.lock", "")]);
    versions.iter().enumerate().for_each(|(number, version)| home.write(&environment(version, number), ""));
    for (line, expected) in [
        ("uvx some-server", "1.10"),
        ("uvx some_server@latest", "1.10"),
        ("uvx 'some-server<1.5'", "1.2"),
        ("uvx 'some-server==1.*'", "1.10"),
        ("uv tool run some-server==0.9", "0.9"),
        ("uvx some-server@2.0rc1", "2.0rc1"),
        ("uvx 'some-server>2'", "NotInstalled"),
        ("uvx other", "NotInstalled"),
        ("uvx --from git+https://example.org/x some-server", "Elsewhere"),
    ] {
        assert_eq!(home.found(line), expected, "{line}");
    }
    home.write(".local/share/uv/tools/some-server/lib/python3.11/site-packages/some_server-1.1.dist-info/METADATA", "");
    assert_eq!(home.found("uvx some-server"), "1.1", "a tool that is installed");
    assert_eq!(home.found("uvx some-server@latest"), "1.10");
    assert_eq!(home.found("uvx 'some-server<1'"), "0.9");
    home.set("UV_CACHE_DIR", "own");
    assert_eq!(home.found("uvx some-server@latest"), "NotInstalled");
    assert_eq!(home.found("uvx --cache-dir .cache/uv some-server@latest"), "1.10");
}

#[test]
fn pipx_runs_the_environment_of_its_word_or_that_of_uv() {
    let metadata = |spec: &str, version: &str| {
        format!(
            "{{\"main_package\": {{\"package\": \"some-server\", \"package_or_url\": \"{spec}\", \"package_version\": \"{version}\"}}}}"
        )
    };
    let home = Home::new(&[
        (".cache/pipx/0de4/pipx_metadata.json", &metadata("some-server", "1.2")),
        (".cache/pipx/9cda/pipx_metadata.json", &metadata("some-server==1.1", "1.1")),
        (&environment("1.3", 0), ""),
    ]);
    for (line, expected) in [
        ("pipx run some-server", "1.2"),
        ("pipx run some-server==1.1", "1.1"),
        ("pipx run --spec some-server==1.1 run", "1.1"),
        ("pipx run 'some-server>1.2'", "1.3"),
        ("pipx run 'some-server>2'", "NotInstalled"),
    ] {
        assert_eq!(home.found(line), expected, "{line}");
    }
}

#[test]
fn digest_of_an_image_is_the_answer_of_its_client() {
    let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
    let (home, client) = (Home::new(&[]), "bin/docker");
    let line = "docker run -i --rm mcp/time:1 x";
    assert_eq!(home.found(line), "NoImage(\"`docker` is not found\")");
    let answers = |script: &str| {
        home.write(client, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(home.path(client), fs::Permissions::from_mode(0o755)).expect("a mode");
        home.found(line)
    };
    let (one, other) = (digest("a"), digest("b"));
    let answer = format!(
        "test \"$*\" = 'image inspect --format {{{{json .RepoDigests}}}} -- mcp/time:1' && echo '[\"x/y@{one}\",\"docker.io/mcp/time@{other}\"]'"
    );
    assert_eq!(answers(&answer), format!("{other} {other}"));
    assert_eq!(answers(&format!("echo '[\"x/y@{one}\"]'")), format!("{one} {one}"), "the only one");
    assert_eq!(answers("echo '[]'"), "LocalImage");
    assert_eq!(answers("echo '[\"x/y@sha256:0\"]'"), "NotExact");
    assert_eq!(
        answers("echo; echo 'Cannot connect to the daemon' >&2; exit 1"),
        "NoImage(\"Cannot connect to the daemon\")"
    );
}

#[test]
fn whatever_lies_in_a_cache_is_no_version_unless_it_is_an_exact_one_of_this_package() {
    let home = Home::new(&[]);
    let path = ".npm/_npx/a9bef924e4cb6cdb/node_modules/semver/package.json";
    for (text, expected) in [
        ("", "NotInstalled"),
        ("[]", "NotInstalled"),
        ("{\"name\": \"semver\", \"version\": 1}", "NotInstalled"),
        ("{\"version\": \"1.2.3\"}", "NotInstalled"),
        (&named_json("other", "1.2.3"), "NotInstalled"),
        (&package_json(""), "NotExact"),
        (&package_json("1.2.3\\n[servers.x]"), "NotExact"),
        (&package_json("1 2"), "NotExact"),
        (&package_json(&"1".repeat(300)), "NotExact"),
        (&package_json("file:/tmp/x"), "NotExact"),
        (&package_json("https://example.org/x.tgz"), "NotExact"),
        (&package_json("github:user/x"), "NotExact"),
        (&package_json("npm:other@1.2.3"), "NotExact"),
        (&package_json("latest"), "NotExact"),
        (&package_json("1.2"), "NotExact"),
        (&package_json("v1.2.3"), "NotExact"),
        (&package_json("1.2.3"), "1.2.3"),
    ] {
        home.write(path, text);
        assert_eq!(home.found("npx semver"), expected, "{text}");
    }
    fs::remove_file(home.path(path)).expect("removed");
    rustix::fs::mknodat(rustix::fs::CWD, home.path(path), rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
    assert_eq!(home.found("npx semver"), "NotInstalled", "a FIFO does not block");
}
