//! The mcpd that is measured: the one that users get.
//!
//! Not the one that cargo builds beside a bench. That shares crates with the tests, which ask more of them: tables that take
//! 110 KiB of each guard.

use std::ffi::OsString;
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
    command.args(["build", "--release", "--locked", "--bin", "mcpd", "--target-dir"]).arg(directory());
    let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("mcpd could not be built")) }
}

/// Where it is.
pub(crate) fn path() -> PathBuf {
    std::env::var_os(NAMED).map_or_else(|| directory().join("release/mcpd"), PathBuf::from)
}

fn directory() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_mcpd"));
    beside.ancestors().nth(2).unwrap_or(beside).join("installed")
}
