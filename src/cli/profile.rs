//! `--profile NAME`: the agent socket that a command goes to.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::{USAGE, completions, connect_failure, fail};
use crate::config::{Profile, is_profile_name};
use crate::sockets::{RuntimeDir, agent_socket};

/// An agent socket, by its profile.
#[derive(Debug, Args)]
pub(super) struct ProfileArg {
    /// As an agent of this profile, as `mcpd status` prints it
    #[arg(long, value_name = "NAME", default_value = Profile::DEFAULT, hide_default_value = true, add = ArgValueCandidates::new(completions::profiles))]
    profile: String,
}

impl ProfileArg {
    /// The profile's name.
    pub(super) fn name(&self) -> &str {
        &self.profile
    }

    /// The options by which another command finds the same one.
    pub(super) fn options(&self) -> Vec<String> {
        match self.profile == Profile::DEFAULT {
            true => Vec::new(),
            false => vec!["--profile".to_owned(), self.profile.clone()],
        }
    }

    /// Its path.
    pub(super) fn path(&self, directory: &RuntimeDir) -> Result<PathBuf, ExitCode> {
        match is_profile_name(&self.profile) {
            true => Ok(directory.socket(&agent_socket(&self.profile))),
            false => Err(self.unknown(directory)),
        }
    }

    /// Says why it cannot be used: no daemon serves, or it has no such profile, or something else.
    pub(super) fn closed(&self, directory: &RuntimeDir, path: PathBuf, error: &io::Error) -> ExitCode {
        let is_missing = error.kind() == io::ErrorKind::NotFound && self.profile != Profile::DEFAULT;
        if is_missing && directory.is_served() { self.unknown(directory) } else { connect_failure(path, error) }
    }

    fn unknown(&self, directory: &RuntimeDir) -> ExitCode {
        let others = directory.profiles();
        let there: Vec<_> = [Profile::DEFAULT].into_iter().chain(others.iter().map(String::as_str)).collect();
        let name = self.profile.escape_debug();
        fail(USAGE, format!("there is no profile `{name}`; the daemon has: {}", there.join(", ")))
    }
}
