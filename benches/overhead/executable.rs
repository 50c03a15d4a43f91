//! The mcpd that is measured: the one that users get.
//!
//! Not the one that cargo builds beside a bench. That shares crates with the tests, which ask more of them: tables that take
//! 110 KiB of each guard.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names another.
const NAMED: &str = "MCPD";

/// Builds it, unless another is named.
pub(crate) fn build() -> io::Result<()> {
    if std::env::var_os(NAMED).is_some() {
        return Ok(());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(["build", "--profile", "dist", "--locked", "--bin", "mcpd", "--target-dir"]).arg(directory());
    // Not with what cargo tells a bench of itself: the build script of ring runs anew when that changes, and all is built again.
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

/// Where it is.
pub(crate) fn path() -> PathBuf {
    std::env::var_os(NAMED).map_or_else(|| directory().join("dist/mcpd"), PathBuf::from)
}

fn directory() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_mcpd"));
    beside.ancestors().nth(2).unwrap_or(beside).join("installed")
}
