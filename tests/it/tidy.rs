//! What neither the compiler nor a lint checks: the rooms stay as the design drew them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{MCPD, skipped};

/// Rooms that do no I/O, so that everything in them is tested as tables and properties.
const PURE: &[&str] = &["catalog", "config", "era", "jsonrpc", "naming", "policy", "server/lifecycle"];

/// The one file of a pure room that frames bytes for tokio.
const FRAMING: &str = "jsonrpc/codec.rs";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file below `dir` with its path relative to it and its text.
fn sources(dir: &Path) -> Vec<(String, String)> {
    let (mut waiting, mut found) = (vec![dir.to_owned()], Vec::new());
    while let Some(next) = waiting.pop() {
        for path in fs::read_dir(next).expect("a directory").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(dir).expect("below it").display().to_string();
                found.push((name, fs::read_to_string(&path).expect("text")));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn the_pure_rooms_know_neither_tokio_nor_processes() {
    let is_pure = |name: &str| {
        let room = |room: &&str| name == format!("{room}.rs") || name.starts_with(&format!("{room}/"));
        PURE.iter().any(room) && name != FRAMING
    };
    for (name, text) in sources(&root().join("src")).iter().filter(|(name, _)| is_pure(name)) {
        // What a comment says a room must not touch is no use of it.
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for word in ["tokio", "std::process", "process::Command"] {
            assert!(!code.contains(word), "src/{name} mentions {word}");
        }
    }
}

#[test]
fn every_module_says_first_what_it_is_for() {
    for dir in ["src", "tests"] {
        for (name, text) in sources(&root().join(dir)) {
            let documented = text.starts_with("//!") || text.starts_with("#![doc = include_str!");
            assert!(documented, "{dir}/{name} does not begin with //!");
        }
    }
}

#[test]
fn no_source_file_is_too_long_to_read() {
    for (name, text) in sources(&root().join("src")) {
        assert!(text.lines().count() <= 300, "src/{name} has {} lines", text.lines().count());
    }
}

#[test]
fn the_unit_file_pleases_systemd() {
    let unit = fs::read_to_string(root().join("systemd/mcpd.service")).expect("text");
    let installed = "%h/.cargo/bin/mcpd";
    assert!(unit.contains(installed), "the unit runs what `cargo install` installs");
    // Verification wants the program to be there, which it is on the user's machine.
    let dir = tempfile::tempdir().expect("a temporary directory");
    let copy = dir.path().join("mcpd.service");
    fs::write(&copy, unit.replace(installed, MCPD)).expect("the test's own directory is writable");
    let mut command = Command::new("systemd-analyze");
    command.args(["--user", "--man=no", "verify"]).arg(&copy).env("XDG_RUNTIME_DIR", dir.path());
    match command.output() {
        Err(error) => skipped(&format!("systemd-analyze cannot be run: {error}")),
        Ok(output) => {
            // It ends with 0 even for a key that does not exist.
            let said = [output.stdout, output.stderr].concat();
            assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said));
        }
    }
}
