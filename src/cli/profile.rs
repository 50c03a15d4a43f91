//! `--profile NAME`: the agent socket that a command connects to.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::{USAGE, completions, connect_failure, fail};
use crate::config::{Profile, is_profile_name};
use crate::sockets::{ExpectedListener, RuntimeDir, agent_socket};

#[derive(Debug, Args)]
pub(super) struct ProfileArg {
    /// Profile to use: a set of servers with a socket of its own; `mcpd status` lists the profiles [default: default]
    #[arg(long, value_name = "NAME", default_value = Profile::DEFAULT, hide_default_value = true, add = ArgValueCandidates::new(completions::profiles))]
    profile: String,
    /// User id of the daemon, if another user runs it and has passed you the socket of a profile
    #[arg(long, value_name = "UID")]
    daemon_uid: Option<u32>,
}

impl ProfileArg {
    pub(super) fn name(&self) -> &str {
        &self.profile
    }

    /// The daemon that has to listen.
    pub(super) fn daemon(&self) -> ExpectedListener {
        self.daemon_uid.map_or(ExpectedListener::OwnDaemon, ExpectedListener::AnyProcessOf)
    }

    /// The command-line options for the same profile.
    pub(super) fn options(&self) -> Vec<String> {
        let profile = (self.profile != Profile::DEFAULT).then(|| ["--profile".to_owned(), self.profile.clone()]);
        let daemon = self.daemon_uid.map(|uid| ["--daemon-uid".to_owned(), uid.to_string()]);
        [profile, daemon].into_iter().flatten().flatten().collect()
    }

    /// The path of its socket. An error is printed.
    pub(super) fn socket(&self, directory: &RuntimeDir) -> Result<PathBuf, ExitCode> {
        match is_profile_name(&self.profile) {
            true => Ok(directory.socket(&agent_socket(&self.profile))),
            false => Err(self.unknown(directory)),
        }
    }

    /// Prints why connecting failed: no daemon, no such profile, or another error.
    pub(super) fn connect_failure(&self, directory: &RuntimeDir, path: PathBuf, error: &io::Error) -> ExitCode {
        let is_missing = error.kind() == io::ErrorKind::NotFound && self.profile != Profile::DEFAULT;
        if is_missing && directory.is_served() { self.unknown(directory) } else { connect_failure(path, error) }
    }

    pub(super) fn unknown(&self, directory: &RuntimeDir) -> ExitCode {
        let others = directory.profiles();
        let known: Vec<_> = [Profile::DEFAULT].into_iter().chain(others.iter().map(String::as_str)).collect();
        let name = self.profile.escape_debug();
        fail(USAGE, format!("there is no profile `{name}`; the daemon has: {}", known.join(", ")))
    }
}
