//! The MCP client of `mcpd tools`, `mcpd call` and `mcpd demo`, and `--profile NAME`: the socket that a command connects to. Policy applies to
//! it as to every agent.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::Bytes;
use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::{USAGE, completions, connect_failure, fail};
use crate::config::{Profile, is_profile_name};
use crate::jsonrpc::mcpd_error::refused_connection;
use crate::jsonrpc::normalise::Sender;
use crate::jsonrpc::{Message, MessageError, reply};
use crate::sockets::{self, ExpectedListener, RuntimeDir, agent_socket};
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
    /// Connects to a profile. An error is printed.
    pub(super) async fn connect_to(directory: &RuntimeDir, profile: &ProfileArg, name: &str) -> Result<Self, ExitCode> {
        let socket = profile.socket(directory)?;
        let connected = Self::connect(&socket, profile.daemon(), name).await;
        connected.map_err(|error| profile.connect_failure(directory, socket, &error))
    }

    /// Connects and initializes the session with the client name `name`.
    pub(super) async fn connect(socket: &Path, daemon: ExpectedListener, name: &str) -> io::Result<Self> {
        let no_answer = |_| {
            let limit = duration::format(admin::TIMEOUT);
            let path = socket.display();
            io::Error::other(format!(
                "the daemon at {path} does not answer: no response within {limit}; `mcpd doctor` shows why"
            ))
        };
        timeout(admin::TIMEOUT, Self::initialize(socket, daemon, name)).await.map_err(no_answer)?
    }

    async fn initialize(socket: &Path, daemon: ExpectedListener, name: &str) -> io::Result<Self> {
        let (read, write) = sockets::connect(socket, daemon).await?.into_split();
        let mut agent = Self { reader: MessageReader::new(read, Sender::Daemon, MAX_MESSAGE), write, next_id: 1 };
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

#[derive(Debug, Default, Args)]
pub(super) struct ProfileArg {
    /// Profile to use: a set of servers with a socket of its own; `mcpd status` lists the profiles [default: default]
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completions::profiles))]
    profile: Option<String>,
    /// User id of the daemon, if another user runs it and has passed you the socket of a profile
    #[arg(long, value_name = "UID")]
    daemon_uid: Option<u32>,
}

impl ProfileArg {
    pub(super) fn name(&self) -> &str {
        self.given().unwrap_or(Profile::DEFAULT)
    }

    /// The name in the command line.
    pub(super) fn given(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// The daemon that has to listen.
    pub(super) fn daemon(&self) -> ExpectedListener {
        self.daemon_uid.map_or(ExpectedListener::OwnDaemon, ExpectedListener::AnyProcessOf)
    }

    /// The command-line options for the same profile.
    pub(super) fn options(&self) -> Vec<String> {
        let profile = (self.name() != Profile::DEFAULT).then(|| ["--profile".to_owned(), self.name().to_owned()]);
        let daemon = self.daemon_uid.map(|uid| ["--daemon-uid".to_owned(), uid.to_string()]);
        [profile, daemon].into_iter().flatten().flatten().collect()
    }

    /// The path of its socket. An error is printed.
    pub(super) fn socket(&self, directory: &RuntimeDir) -> Result<PathBuf, ExitCode> {
        match is_profile_name(self.name()) {
            true => Ok(directory.socket(&agent_socket(self.name()))),
            false => Err(self.unknown(directory)),
        }
    }

    /// Prints why connecting failed: no daemon, no such profile, or another error.
    pub(super) fn connect_failure(&self, directory: &RuntimeDir, path: PathBuf, error: &io::Error) -> ExitCode {
        let is_missing = error.kind() == io::ErrorKind::NotFound && self.name() != Profile::DEFAULT;
        if is_missing && directory.is_served() { self.unknown(directory) } else { connect_failure(path, error) }
    }

    pub(super) fn unknown(&self, directory: &RuntimeDir) -> ExitCode {
        let others = directory.profiles();
        let known: Vec<_> = [Profile::DEFAULT].into_iter().chain(others.iter().map(String::as_str)).collect();
        let name = self.name().escape_debug();
        fail(USAGE, format!("there is no profile `{name}`; the daemon has: {}", known.join(", ")))
    }
}
