//! The measured mcpd: built as users install it.
//!
//! Not the binary that cargo builds for a bench: its crates have features for tests, with tables that take 110 KiB in each
//! guard.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names another binary.
const NAMED: &str = "MCPD";

/// Builds it, unless the variable names another one.
pub(crate) fn build() -> io::Result<()> {
    if std::env::var_os(NAMED).is_some() {
        return Ok(());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command
        .args(["build", "--release", "--locked", "--bin", "mcpd", "--bin", "mcpd-init", "--target-dir"])
        .arg(directory());
    // Without cargo's variables for benches, which would rerun the build script of ring and rebuild everything.
    for (name, _) in std::env::vars_os().filter(|(name, _)| tells_of_a_package(name)) {
        command.env_remove(name);
    }
    let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("mcpd could not be built")) }
}

fn tells_of_a_package(name: &OsStr) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"]
        .iter()
        .any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()))
}

/// The path of the binary.
pub(crate) fn path() -> PathBuf {
    std::env::var_os(NAMED).map_or_else(|| directory().join("release/mcpd"), PathBuf::from)
}

fn directory() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_mcpd"));
    beside.ancestors().nth(2).unwrap_or(beside).join("installed")
}
