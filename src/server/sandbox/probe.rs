//! The trial that shows whether a server can have namespaces of its own.
//!
//! mcpd executes itself under the name [`ARGV0`]. This process does what a guard does: it runs a whole stage, and waits for its end. Only
//! the server is missing.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::geteuid;

use super::namespaces::{AtStep, NamespaceFailure, NamespaceStep, Namespaces};
use super::{Restrictions, stage};
use crate::server::launch_spec::LaunchSpec;
use crate::server::start_error::StartError;
use crate::server::subtree;
use crate::server::subtree_owner::{drain, kill_subtree, prepare};
use crate::test_variable::test_variable;

/// The process name, by which `main` recognizes one.
pub(in crate::server) const ARGV0: &str = "mcpd-probe";

/// Tries whether a server below `program`, which is this one or another mcpd, can have namespaces of its own. Waits for the result.
pub(super) fn try_namespaces(program: &Path) -> Result<(), NamespaceFailure> {
    if let Some(errno) = test_variable("MCPD_TEST_NO_NAMESPACES") {
        return Err(NamespaceFailure { step: NamespaceStep::Create, errno });
    }
    let mut command = Command::new(program);
    command.arg0(ARGV0).env_clear().current_dir("/").process_group(0);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().at(NamespaceStep::Trial)?;
    let silent = |_| NamespaceFailure { step: NamespaceStep::Trial, errno: libc::EIO };
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| Err(silent(error)))
}

/// Whether `RLIMIT_NPROC` limits the tasks in each user namespace, and not those of the user in all of them. Root has no such limit.
/// Source: Linux 5.14, "Count rlimits in each user namespace".
pub(in crate::server) fn user_namespaces_limit_tasks() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    !geteuid().is_root() && is_since_5_14(&release)
}

fn is_since_5_14(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(14))
}

/// Runs this process as a trial, and writes the result to standard output.
pub(in crate::server) fn run() -> io::Result<()> {
    let child_signals = prepare(c"mcpd-probe")?;
    let null = || std::fs::File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from);
    let streams = [null()?, null()?, null()?];
    let namespaces = Namespaces { network: true, nested: false };
    let restrictions =
        Restrictions { domain: None, namespaces: Some(namespaces), files: None, unix: true, ports: None };
    let spec = LaunchSpec { cwd: PathBuf::from("/"), sandbox: Some(restrictions), ..LaunchSpec::default() };
    let result = match stage::spawn(&spec, &streams) {
        Ok(started) => loop {
            match subtree::reap_any() {
                Ok(Some((pid, status))) if pid == started.child => {
                    let status = started.status(status.as_raw());
                    break if status == 0 { Ok(()) } else { Err(NamespaceFailure::NO_SERVER) };
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let _ = poll(&mut [PollFd::new(&child_signals, PollFlags::IN)], None);
                    drain(&child_signals);
                }
                Err(_) => break Err(NamespaceFailure::NO_SERVER),
            }
        },
        Err(StartError::Namespaces(failure) | StartError::Grant { failure, .. }) => Err(failure),
        Err(_) => Err(NamespaceFailure::NO_SERVER),
    };
    kill_subtree(&child_signals)?;
    serde_json::to_writer(io::stdout(), &result)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_that_counts_tasks_by_namespace_is_recognized() {
        for (release, expected) in [
            ("6.1.0-56-amd64\n", true),
            ("5.14.0-503.el9", true),
            ("5.13.19", false),
            ("4.18.0-553.el8", false),
            ("", false),
        ] {
            assert_eq!(is_since_5_14(release), expected, "{release}");
        }
    }
}
