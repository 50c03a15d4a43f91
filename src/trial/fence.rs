//! What a server on trial may reach: level `files`, the trial's directory, and the paths that its command line names.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::outcome::{NamedPath, Places, TrialError};
use super::progress::TrialRun;
use crate::config::interpolate::Process;
use crate::config::known_commands::{CommandLine, FilesObstacle, Proposal, expanded, named_paths, proposal};
use crate::config::{NamespaceUse, Network, Program, Sandbox, SandboxLevel, ServerConfig, Start};

/// The most processes and threads.
const TASKS: usize = 1024;
/// Variables that make launchers use what they have downloaded before they ask the network.
const WARM: &[(&str, &str)] = &[("npm_config_prefer_offline", "true")];
/// Variables that make launchers do without a network.
const OFFLINE: &[(&str, &str)] = &[("npm_config_offline", "true"), ("UV_OFFLINE", "1")];

/// A server, and what it may reach.
pub(super) struct Fence {
    server: ServerConfig,
    directory: PathBuf,
    has_namespaces: bool,
    /// Whether the measured run has the system's network.
    network: bool,
    /// Without read and write.
    sandbox: Sandbox,
    named: Vec<NamedPath>,
}

impl Fence {
    /// `directory` is the trial's.
    pub(super) fn new(
        server: ServerConfig,
        directory: &Path,
        has_namespaces: bool,
        network: bool,
    ) -> Result<Self, TrialError> {
        let program = server.launch.as_ref().ok().and_then(|launch| launch.program());
        let sandbox = program.map(sandbox).transpose().map_err(TrialError::Unfit)?;
        let mut sandbox = sandbox.unwrap_or_else(|| Sandbox::of_level(SandboxLevel::Files));
        let written = std::mem::take(&mut sandbox.write).into_iter();
        let written = written.map(|path| NamedPath { is_copied: has_namespaces && path.is_dir(), path });
        let read = std::mem::take(&mut sandbox.read).into_iter().map(|path| NamedPath { path, is_copied: false });
        let named = written.chain(read).collect();
        let fence = Self { directory: directory.to_owned(), has_namespaces, network, sandbox, named, server };
        if !has_namespaces {
            // The sandbox makes only the others.
            fs::create_dir_all(fence.home()).map_err(TrialError::System)?;
        }
        Ok(fence)
    }

    /// The definition of the server for one run, which may start for `limit`.
    pub(super) fn server(&self, run: TrialRun, limit: Duration) -> ServerConfig {
        let mut server = self.server.clone();
        let is_offline = run == TrialRun::Measured && !self.network;
        let paths = |is_copied| {
            let chosen = self.named.iter().filter(move |named| named.is_copied == is_copied);
            chosen.map(|named| named.path.clone()).collect()
        };
        server.settings.sandbox = Sandbox {
            read: paths(false),
            write: paths(true),
            namespaces: if self.has_namespaces { NamespaceUse::Require } else { NamespaceUse::Auto },
            network: if is_offline { Network::Ports(Vec::new()) } else { Network::Any },
            ..self.sandbox.clone()
        };
        server.settings.start = Start::Eager;
        server.settings.handshake_timeout = limit;
        server.settings.tasks_max.max = Some(TASKS);
        let mut variables: Vec<(&str, &str)> = Vec::new();
        if run == TrialRun::Measured {
            variables.extend(WARM);
        }
        if is_offline {
            variables.extend(OFFLINE);
        }
        for (name, value) in variables {
            server = server.env(name, value);
        }
        if self.has_namespaces { server } else { server.env("HOME", self.home().to_string_lossy()) }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes this directory, as it is without links, only readable. Returns whether there was a copy of it.
    pub(super) fn give_up_copy(&mut self, real: &Path) -> bool {
        let is_it =
            |named: &&mut NamedPath| named.is_copied && fs::canonicalize(&named.path).is_ok_and(|path| path == real);
        self.named.iter_mut().find(is_it).map(|named| named.is_copied = false).is_some()
    }

    pub(super) fn places(&self) -> Places {
        Places { private: self.private(), home: self.home(), named: self.named.clone() }
    }

    fn private(&self) -> PathBuf {
        self.directory.join(&*self.server.name)
    }

    fn home(&self) -> PathBuf {
        self.private().join("home")
    }
}

/// The sandbox for a program, with the paths that its command line names.
fn sandbox(program: &Program) -> Result<Sandbox, FilesObstacle> {
    let env: Vec<_> = program.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let cwd = program.cwd.as_deref().and_then(Path::to_str);
    let line = CommandLine { command: &program.command, args: &program.args, env: &env, cwd };
    let mut sandbox = match proposal(line, &Process) {
        Ok(Proposal { mut sandbox, env }) => {
            // What it needs of the home directory stays outside.
            let of_home: Vec<_> = env.iter().map(|(_, value)| PathBuf::from(value.replace("${HOME}", "~"))).collect();
            sandbox.read.retain(|path| !of_home.contains(path));
            sandbox
        }
        // A trial shows whether it works all the same.
        Err(
            FilesObstacle::OtherProcesses
            | FilesObstacle::OtherPrograms(_)
            | FilesObstacle::Shim(_)
            | FilesObstacle::Window,
        ) => {
            let (read, write) = named_paths(line, &Process)?;
            Sandbox { read, write, ..Sandbox::of_level(SandboxLevel::Files) }
        }
        Err(obstacle) => return Err(obstacle),
    };
    let whole = |path: &mut PathBuf| {
        if let Some(expanded) = path.to_str().and_then(|path| expanded(path, &Process)) {
            *path = expanded;
        }
    };
    sandbox.read.iter_mut().chain(&mut sandbox.write).for_each(whole);
    Ok(sandbox)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_directories_are_copied_and_files_are_read() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().join("notes");
        fs::create_dir(&directory).expect("a fresh directory");
        let file = place.path().join("key.json");
        fs::write(&file, "{}").expect("a fresh file");
        // The directory of temporary files is visible to servers anyway if it lies in `/usr` or the like.
        let server = ServerConfig::new("a", "/bin/cat").args([&directory, &file].map(|path| path.to_string_lossy()));
        let fence = |has_namespaces| Fence::new(server.clone(), Path::new("/trial"), has_namespaces, false);
        let mut fence = fence(true).unwrap_or_else(|error| panic!("{error}"));
        let named = |path: &Path, is_copied| NamedPath { path: path.to_owned(), is_copied };
        assert_eq!(fence.places().named, [named(&directory, true), named(&file, false)]);
        assert_eq!(fence.places().home, Path::new("/trial/a/home"));
        let sandbox = fence.server(TrialRun::Install, Duration::from_secs(1)).settings.sandbox;
        assert_eq!((&sandbox.write[..], &sandbox.read[..]), (&[directory.clone()][..], &[file.clone()][..]));
        assert_eq!((sandbox.namespaces, sandbox.network), (NamespaceUse::Require, Network::Any));
        let offline = fence.server(TrialRun::Measured, Duration::from_secs(1));
        assert_eq!(offline.settings.sandbox.network, Network::Ports(Vec::new()));
        let program = offline.launch.expect("a command").program().cloned().expect("a program");
        assert_eq!(program.env.get("UV_OFFLINE").map(String::as_str), Some("1"));

        assert!(!fence.give_up_copy(&file), "it was no copy");
        assert!(fence.give_up_copy(&fs::canonicalize(&directory).expect("it exists")));
        assert!(fence.server(TrialRun::Install, Duration::from_secs(1)).settings.sandbox.write.is_empty());
    }
}
