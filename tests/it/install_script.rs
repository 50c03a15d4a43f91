//! `install.sh` with releases in a local directory. What it installs here is no program: it must run nothing of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::{Ran, run};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/install.sh");
const MANIFEST: &str = ".local/share/mcpd/installed";
const FILES: &[&str] =
    &["bin/mcpd", "share/man/man1/mcpd.1.gz", "share/bash-completion/completions/mcpd", "share/doc/mcpd/mcpd@.socket"];

/// A home, and a directory with a release, whose names have spaces.
struct Installation {
    dir: TempDir,
}

impl Installation {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("mcpd it ").tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("home")).expect("a fresh directory");
        Self { dir }
    }

    fn home(&self, path: &str) -> PathBuf {
        self.dir.path().join("home").join(path)
    }

    fn release(&self) -> PathBuf {
        self.dir.path().join("a release")
    }

    /// Makes a release with `files`. Each of them would tell if it ran.
    fn publish(&self, files: &[&str], text: &str) {
        let tree = self.dir.path().join("tree");
        let _ = fs::remove_dir_all(&tree);
        for name in files {
            let path = tree.join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(&path, format!("#!/bin/sh\n# {text}\ntouch \"$HOME/ran\"\n")).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its own file");
        }
        fs::create_dir_all(self.release()).expect("a directory");
        let archive = self.release().join(archive());
        let top: Vec<_> =
            fs::read_dir(&tree).expect("a tree").map(|entry| entry.expect("an entry").file_name()).collect();
        run(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&tree).args(top)).expect_code(0);
        self.write_sums(&run(Command::new("sha256sum").arg(archive)).expect_code(0).stdout[..64]);
    }

    fn write_sums(&self, sum: &str) {
        fs::write(self.release().join("SHA256SUMS"), format!("{sum}  {}\n", archive())).expect("a file");
    }

    fn script(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new("sh");
        command.arg(SCRIPT).args(arguments).env_clear();
        command.env("HOME", self.home("")).env("PATH", std::env::var_os("PATH").expect("a path"));
        run(&mut command)
    }

    fn install(&self) -> Ran {
        self.script(&["--from", self.release().to_str().expect("text")])
    }

    /// The files below the home.
    fn installed(&self) -> Vec<String> {
        let mut paths = Vec::new();
        collect(&self.home(""), &mut paths);
        let mut names: Vec<_> = paths.iter().map(|path| relative(path, &self.home(""))).collect();
        names.sort();
        names
    }
}

fn relative(path: &Path, home: &Path) -> String {
    path.strip_prefix(home).expect("below the home").to_str().expect("text").to_owned()
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { collect(&path, paths) } else { paths.push(path) }
    }
}

fn archive() -> String {
    format!("mcpd-{}-{}-linux.tar.gz", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)
}

/// The paths of a home in which `files` are installed, and nothing else.
fn with_manifest(files: &[&str]) -> Vec<String> {
    let mut names: Vec<_> = files.iter().map(|name| format!(".local/{name}")).chain([MANIFEST.to_owned()]).collect();
    names.sort();
    names
}

#[test]
fn release_is_installed_and_uninstalled_without_a_trace() {
    let place = Installation::new();
    place.publish(FILES, "1");
    let ran = place.install().expect_code(0);
    assert_eq!(place.installed(), with_manifest(FILES));
    let program = place.home(".local/bin/mcpd");
    assert_eq!(fs::metadata(&program).expect("it is there").permissions().mode() & 0o777, 0o755);
    assert!(ran.stdout.contains("is NOT on your PATH") && ran.stdout.contains("mcpd import"), "{ran}");
    place.script(&["--uninstall"]).expect_code(0);
    assert_eq!(fs::read_dir(place.home("")).expect("a home").count(), 0, "directories are left");
    assert!(place.script(&["--uninstall"]).expect_code(1).stderr.contains("has installed nothing"));
}

#[test]
fn upgrade_replaces_files_and_removes_obsolete_ones() {
    let place = Installation::new();
    place.publish(&["bin/mcpd", "share/man/man1/mcpd-gone.1.gz"], "1");
    place.install().expect_code(0);
    // As a running program has it.
    let running = fs::File::open(place.home(".local/bin/mcpd")).expect("it is there");
    place.publish(FILES, "2");
    let ran = place.install().expect_code(0);
    assert!(ran.stdout.contains("restart mcpd"), "{ran}");
    assert_eq!(place.installed(), with_manifest(FILES));
    assert!(fs::read_to_string(place.home(".local/bin/mcpd")).expect("text").contains("# 2"));
    assert!(std::io::read_to_string(running).expect("text").contains("# 1"), "the file was replaced, not written to");
    place.script(&["--uninstall"]).expect_code(0);
    assert_eq!(fs::read_dir(place.home("")).expect("a home").count(), 0, "directories of the first version are left");
}

#[test]
fn uninstall_leaves_files_and_directories_of_others() {
    let place = Installation::new();
    let theirs = [".local/bin/other", ".local/share/man/man1/other.1.gz", ".config/mcpd/config.toml"];
    for name in theirs {
        fs::create_dir_all(place.home(name).parent().expect("a directory")).expect("a directory");
        fs::write(place.home(name), "").expect("a file");
    }
    place.publish(FILES, "1");
    place.install().expect_code(0);
    fs::write(place.home(".local/share/bash-completion/completions/other"), "").expect("a file");
    place.script(&["--uninstall"]).expect_code(0);
    let mut left = [&theirs[..], &[".local/share/bash-completion/completions/other"]].concat();
    left.sort_unstable();
    assert_eq!(place.installed(), left);
}

#[test]
fn uninstall_refuses_while_systemd_starts_the_program() {
    let place = Installation::new();
    place.publish(FILES, "1");
    place.install().expect_code(0);
    let unit = place.home(".config/systemd/user/mcpd.service");
    fs::create_dir_all(unit.parent().expect("a directory")).expect("a directory");
    fs::write(unit, format!("ExecStart={} serve\n", place.home(".local/bin/mcpd").display())).expect("a file");
    assert!(place.script(&["--uninstall"]).expect_code(1).stderr.contains("mcpd service uninstall"));
    assert!(place.home(".local/bin/mcpd").exists());
}

#[test]
fn bad_release_changes_nothing() {
    type Damage = fn(&Installation);
    let cases: &[(&str, Damage)] = &[
        ("the checksum of mcpd-", |place| place.write_sums(&"0".repeat(64))),
        ("has no line for mcpd-", |place| fs::write(place.release().join("SHA256SUMS"), "").expect("a file")),
        ("has no SHA256SUMS", |place| fs::remove_file(place.release().join("SHA256SUMS")).expect("it was there")),
        ("has no mcpd-", |place| fs::remove_file(place.release().join(archive())).expect("it was there")),
        ("has no bin/mcpd", |place| place.publish(&["share/man/man1/mcpd.1.gz"], "1")),
        ("cannot be unpacked", |place| {
            fs::write(place.release().join(archive()), "no archive").expect("a file");
            let sum = run(Command::new("sha256sum").arg(place.release().join(archive()))).expect_code(0);
            place.write_sums(&sum.stdout[..64]);
        }),
        ("has a path that it must not have", |place| place.publish(&["bin/mcpd", "etc/profile"], "1")),
        ("this script did not install it", |place| {
            fs::create_dir_all(place.home(".local/bin")).expect("a directory");
            // Of another program of this name.
            symlink("/nowhere", place.home(".local/bin/mcpd")).expect("a link");
        }),
    ];
    for (message, damage) in cases {
        let place = Installation::new();
        place.publish(FILES, "1");
        damage(&place);
        let before = place.installed();
        let ran = place.install().expect_code(1);
        assert!(ran.stderr.contains(message), "{message}: {ran}");
        assert_eq!(place.installed(), before, "{message}");
    }
}

#[test]
fn failed_upgrade_leaves_the_old_version() {
    let place = Installation::new();
    place.publish(FILES, "1");
    place.install().expect_code(0);
    place.publish(FILES, "2");
    place.write_sums(&"0".repeat(64));
    place.install().expect_code(1);
    assert!(fs::read_to_string(place.home(".local/bin/mcpd")).expect("text").contains("# 1"));
    assert_eq!(place.installed(), with_manifest(FILES));
}

#[test]
fn without_a_directory_it_says_that_there_is_no_address() {
    let place = Installation::new();
    let ran = place.script(&[]).expect_code(1);
    assert!(ran.stderr.contains("no public download address") && ran.stderr.contains("--from"), "{ran}");
    assert!(place.script(&["--help"]).expect_code(0).stdout.contains("usage: install.sh"));
    assert!(place.script(&["--form"]).expect_code(1).stderr.contains("unknown argument --form"));
}
