//! A small agent: what `mcpd tools`, `call` and `demo` use. Policy holds for it as for any other.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::profile::ProfileArg;
use crate::era;
use crate::jsonrpc::{Message, reply};
use crate::sockets::RuntimeDir;
use crate::transport::{Incoming, MessageReader, Outbox};

/// Largest message taken from the daemon, in bytes: it has a cap of its own.
const MAX_MESSAGE: usize = 1 << 30;

/// One connection to an agent socket.
pub(super) struct Agent {
    reader: MessageReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    next: u64,
}

impl Agent {
    /// Connects as an agent of a profile, or says why it cannot.
    pub(super) async fn of(directory: &RuntimeDir, profile: &ProfileArg, name: &str) -> Result<Self, ExitCode> {
        let socket = profile.path(directory)?;
        Self::connect(&socket, name).await.map_err(|error| profile.closed(directory, socket, &error))
    }

    /// Connects and introduces itself as `name`.
    pub(super) async fn connect(socket: &Path, name: &str) -> io::Result<Self> {
        let (read, write) = UnixStream::connect(socket).await?.into_split();
        let mut agent = Self { reader: MessageReader::new(read, MAX_MESSAGE), write, next: 1 };
        let params = json!({
            "protocolVersion": era::NEWEST_LEGACY,
            "capabilities": {},
            "clientInfo": { "name": name, "version": env!("CARGO_PKG_VERSION") },
        });
        agent.request("initialize", &params).await?.map_err(|error| io::Error::other(error.to_string()))?;
        agent.send(reply::notification("notifications/initialized")).await?;
        Ok(agent)
    }

    /// The raw result of a request, or the error object.
    pub(super) async fn request(&mut self, method: &str, params: &impl Serialize) -> io::Result<Result<Bytes, Value>> {
        self.request_hearing(method, params, |_, _| {}).await
    }

    /// The same. What is notified meanwhile `hear` gets, method and raw params.
    pub(super) async fn request_hearing(
        &mut self,
        method: &str,
        params: &impl Serialize,
        hear: impl Fn(&[u8], &[u8]),
    ) -> io::Result<Result<Bytes, Value>> {
        let expected = self.next.to_string();
        self.send(reply::request(self.next, method, params)).await?;
        self.next += 1;
        loop {
            let incoming = self.reader.next().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
            match incoming {
                Incoming::Message { message: Message::Response { id, outcome }, .. }
                    if id[..] == *expected.as_bytes() =>
                {
                    return outcome
                        .map_or_else(|error| Ok(Err(serde_json::from_slice(&error)?)), |result| Ok(Ok(result)));
                }
                Incoming::Message { message: Message::Notification { method, params }, .. } => {
                    hear(&method, &params.unwrap_or_default());
                }
                _ => {}
            }
        }
    }

    /// Gives the last request up, of which no answer is waited for (MCP 2025-11-25, `basic/utilities/cancellation`).
    pub(super) async fn cancel(&mut self, reason: &str) -> io::Result<()> {
        self.send(reply::cancelled(self.next - 1, reason)).await
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
