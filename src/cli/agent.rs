//! The MCP client of `mcpd tools`, `mcpd call` and `mcpd demo`, and the profile of an agent: that of `--profile NAME`, else the one that has
//! the working directory. Policy applies to it as to every agent.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::Bytes;
use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::{FAILED, USAGE, completions, connect_failure, fail};
use crate::config::{Profile, is_profile_name};
use crate::jsonrpc::mcpd_error::refused_connection;
use crate::jsonrpc::normalise::Sender;
use crate::jsonrpc::{Message, MessageError, reply};
use crate::methods::PROFILE_DIRECTORY;
use crate::sockets::{
    self, DirectoryChoice, DirectoryError, ExpectedListener, ProfileDirectories, RuntimeDir, SocketError, agent_socket,
};
use crate::transport::{Incoming, MessageReader, Outbox};
use crate::{admin, duration, era};

/// Maximum size of a message in bytes. The daemon has a lower limit.
const MAX_MESSAGE: usize = 1 << 30;

pub(super) struct Agent {
    reader: MessageReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    next_id: u64,
}

impl Agent {
    /// Connects to the profile that is named, or that the working directory has. An error is printed.
    pub(super) async fn connect_to(
        directory: &RuntimeDir,
        argument: &ProfileArg,
        name: &str,
    ) -> Result<(Self, AgentProfile), ExitCode> {
        let named = argument.named();
        let stream = open(directory, &named).await?;
        let profile = argument.choose(directory).await.map_err(|error| fail(FAILED, error))?;
        let stream = if profile.name == named.name { stream } else { open(directory, &profile).await? };
        let socket = profile.socket(directory)?;
        match Self::initialize_in_time(stream, &socket, name, profile.directory()).await {
            Ok(agent) => Ok((agent, profile)),
            Err(error) => Err(profile.connect_failure(directory, socket, &error)),
        }
    }

    /// Connects and initializes the session with the client name `name`.
    pub(super) async fn connect(socket: &Path, daemon: ExpectedListener, name: &str) -> io::Result<Self> {
        Self::initialize_in_time(sockets::connect(socket, daemon).await?, socket, name, None).await
    }

    async fn initialize_in_time(
        stream: UnixStream,
        socket: &Path,
        name: &str,
        chosen_by: Option<&Path>,
    ) -> io::Result<Self> {
        let no_answer = |_| {
            let limit = duration::format(admin::TIMEOUT);
            let path = socket.display();
            io::Error::other(format!(
                "the daemon at {path} does not answer: no response within {limit}; `mcpd doctor` shows why"
            ))
        };
        timeout(admin::TIMEOUT, Self::initialize(stream, name, chosen_by)).await.map_err(no_answer)?
    }

    async fn initialize(stream: UnixStream, name: &str, chosen_by: Option<&Path>) -> io::Result<Self> {
        let (read, write) = stream.into_split();
        let mut agent = Self { reader: MessageReader::new(read, Sender::Daemon, MAX_MESSAGE), write, next_id: 1 };
        if let Some(directory) = chosen_by.and_then(Path::to_str) {
            agent.send(reply::notification_with(PROFILE_DIRECTORY, &json!({ "directory": directory }))).await?;
        }
        let params = json!({
            "protocolVersion": era::NEWEST_LEGACY,
            "capabilities": {},
            "clientInfo": { "name": name, "version": env!("CARGO_PKG_VERSION") },
        });
        agent.request("initialize", &params).await?.map_err(|error| io::Error::other(error.to_string()))?;
        agent.send(reply::notification("notifications/initialized")).await?;
        Ok(agent)
    }

    /// Sends a request and returns the raw result or the error object.
    pub(super) async fn request(&mut self, method: &str, params: &impl Serialize) -> io::Result<Result<Bytes, Value>> {
        self.request_with_notifications(method, params, |_, _| {}).await
    }

    /// As `request`. `on_notification` receives the method and raw params of each notification until the response.
    pub(super) async fn request_with_notifications(
        &mut self,
        method: &str,
        params: &impl Serialize,
        on_notification: impl Fn(&[u8], &[u8]),
    ) -> io::Result<Result<Bytes, Value>> {
        let expected = self.next_id.to_string();
        let sent = self.send(reply::request(self.next_id, method, params)).await;
        self.next_id += 1;
        loop {
            // The daemon may have refused the connection and closed it. Its reason can still be read.
            let Some(incoming) = self.reader.next().await? else {
                return Err(sent.err().unwrap_or(io::ErrorKind::UnexpectedEof.into()));
            };
            match incoming {
                Incoming::Message { message: Message::Response { id, response }, .. }
                    if id[..] == *expected.as_bytes() =>
                {
                    return response
                        .map_or_else(|error| Ok(Err(serde_json::from_slice(&error)?)), |result| Ok(Ok(result)));
                }
                Incoming::Malformed(MessageError::StrayResponse { error: Some(error) }) => {
                    if let Some(reason) = refused_connection(&error) {
                        return Err(io::Error::other(reason));
                    }
                }
                Incoming::Message { message: Message::Notification { method, params }, .. } => {
                    on_notification(&method, &params.unwrap_or_default());
                }
                _ => {}
            }
        }
    }

    /// Cancels the last request (MCP 2025-11-25, `basic/utilities/cancellation`).
    pub(super) async fn cancel(&mut self, reason: &str) -> io::Result<()> {
        self.send(reply::cancelled(self.next_id - 1, reason)).await
    }

    async fn send(&mut self, line: Bytes) -> io::Result<()> {
        let mut outbox = Outbox::default();
        outbox.push(line);
        while !outbox.is_empty() {
            outbox.write_some(&mut self.write).await?;
        }
        Ok(())
    }
}

/// Connects to the socket of a profile. An error is printed.
async fn open(directory: &RuntimeDir, profile: &AgentProfile) -> Result<UnixStream, ExitCode> {
    let socket = profile.socket(directory)?;
    let connected = sockets::connect(&socket, profile.daemon).await;
    connected.map_err(|error| profile.connect_failure(directory, socket, &error))
}

#[derive(Debug, Default, Args)]
pub(super) struct ProfileArg {
    /// Profile to use: a set of servers with a socket of its own; `mcpd status` lists the profiles [default: the one that has the
    /// working directory in its `directories`, else `default`]
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completions::profiles))]
    profile: Option<String>,
    /// User id of the daemon, if another user runs it and has passed you the socket of a profile
    #[arg(long, value_name = "UID")]
    daemon_uid: Option<u32>,
}

impl ProfileArg {
    /// The name in the command line.
    pub(super) fn given(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// The named profile, else the default one, in whatever directory.
    pub(super) fn named(&self) -> AgentProfile {
        let name = self.profile.clone().unwrap_or_else(|| Profile::DEFAULT.to_owned());
        AgentProfile { name, daemon: self.daemon(), directory: None }
    }

    /// The named profile, else that of the working directory. The caller has connected to the daemon.
    ///
    /// # Errors
    /// If the directory may have a profile, and it cannot be determined which.
    pub(super) async fn choose(&self, directory: &RuntimeDir) -> Result<AgentProfile, ProfileError> {
        let default = self.named();
        // Another user's daemon publishes its directories to its own user.
        if self.profile.is_some() || self.daemon_uid.is_some() {
            return Ok(default);
        }
        let directories = directory.profile_directories().await?.ok_or(ProfileError::DaemonEnded)?;
        Ok(match choose_by_directory(&directories)? {
            Some(DirectoryChoice { profile, directory }) => {
                AgentProfile { name: profile, directory: Some(directory), ..default }
            }
            None => default,
        })
    }

    /// The command-line options for the same profile.
    pub(super) fn options(&self) -> Vec<String> {
        let profile = self.profile.clone().map(|profile| ["--profile".to_owned(), profile]);
        let daemon = self.daemon_uid.map(|uid| ["--daemon-uid".to_owned(), uid.to_string()]);
        [profile, daemon].into_iter().flatten().flatten().collect()
    }

    /// The daemon that has to listen.
    pub(super) fn daemon(&self) -> ExpectedListener {
        self.daemon_uid.map_or(ExpectedListener::OwnDaemon, ExpectedListener::AnyProcessOf)
    }
}

/// The profile of the working directory, if it has one.
///
/// # Errors
/// If profiles have directories, and the working directory or one of those is unknown, or it has two profiles.
pub(super) fn choose_by_directory(directories: &ProfileDirectories) -> Result<Option<DirectoryChoice>, ProfileError> {
    if directories.is_empty() {
        return Ok(None);
    }
    Ok(directories.choose(&std::env::current_dir()?)?)
}

/// Why an agent without `--profile` has no profile.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProfileError {
    #[error(transparent)]
    Directories(#[from] SocketError),
    /// After the caller has connected to it.
    #[error("the daemon has ended")]
    DaemonEnded,
    #[error("{0}; name a profile with `--profile NAME`")]
    Directory(#[from] DirectoryError),
    #[error(
        "profiles depend on the working directory, which cannot be determined: {0}; name a profile with `--profile NAME`"
    )]
    UnknownDirectory(#[from] io::Error),
}

/// The profile of an agent.
#[derive(Debug, Clone)]
pub(super) struct AgentProfile {
    name: String,
    daemon: ExpectedListener,
    directory: Option<PathBuf>,
}

impl AgentProfile {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The daemon that has to listen.
    pub(super) fn daemon(&self) -> ExpectedListener {
        self.daemon
    }

    /// The directory that has chosen the profile, as in the configuration.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The path of its socket. An error is printed.
    pub(super) fn socket(&self, directory: &RuntimeDir) -> Result<PathBuf, ExitCode> {
        match is_profile_name(&self.name) {
            true => Ok(directory.socket(&agent_socket(&self.name))),
            false => Err(self.unknown(directory)),
        }
    }

    /// Prints why connecting failed: no daemon, no such profile, or another error.
    pub(super) fn connect_failure(&self, directory: &RuntimeDir, path: PathBuf, error: &io::Error) -> ExitCode {
        let is_missing = error.kind() == io::ErrorKind::NotFound && self.name != Profile::DEFAULT;
        if is_missing && directory.is_served() { self.unknown(directory) } else { connect_failure(path, error) }
    }

    pub(super) fn unknown(&self, directory: &RuntimeDir) -> ExitCode {
        let others = directory.profiles();
        let known: Vec<_> = [Profile::DEFAULT].into_iter().chain(others.iter().map(String::as_str)).collect();
        let name = self.name.escape_debug();
        fail(USAGE, format!("there is no profile `{name}`; the daemon has: {}", known.join(", ")))
    }
}
