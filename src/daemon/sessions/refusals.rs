//! Refused agents: each gets the reason in its own protocol.
//!
//! A connection may be accepted before its first byte has arrived, and an HTTP client cannot read an error that is a line. Many clients
//! also miss a response if their connection is closed before they have sent the request. So mcpd waits for the first byte, sends the reason,
//! and discards what the client still sends. All of that is limited: a refused connection is charged to nobody.

use std::os::fd::AsFd;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::daemon::admission;
use crate::http_listener::Protocol;
use crate::jsonrpc::reply::ErrorObject;
use crate::test_variable::test_variable;

/// Refused connections that are kept at the same time. Further ones get the reason at once, and are closed.
const MAX_KEPT: usize = 16;
/// How long mcpd waits for the first byte.
const FIRST_BYTE: Duration = Duration::from_millis(250);
/// How long mcpd waits for the client to read the reason and to close the connection.
const LAST_BYTE: Duration = Duration::from_secs(1);
/// Bytes of the client that are discarded meanwhile.
const MAX_DISCARDED: u64 = 1 << 20;

/// The refused connections that are still open.
#[derive(Debug, Default)]
pub(super) struct Refusals(JoinSet<()>);

impl Refusals {
    /// Sends the reason why the connection is closed. Without a `protocol`, the first byte decides.
    pub(super) fn refuse<S>(&mut self, stream: S, protocol: Option<Protocol>, reason: ErrorObject)
    where
        S: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static,
    {
        while self.0.try_join_next().is_some() {}
        if self.0.len() < MAX_KEPT {
            self.0.spawn(end(stream, protocol, reason));
        } else {
            let protocol = protocol.unwrap_or_else(|| Protocol::arrived(&stream));
            admission::send_reason(&stream, &protocol.refusal(&reason));
        }
    }
}

async fn end(mut stream: impl AsyncRead + AsyncWrite + Unpin, protocol: Option<Protocol>, reason: ErrorObject) {
    let mut first = [0; 1];
    let wait = test_variable("MCPD_TEST_LINE_TIMEOUT_MS").map_or(FIRST_BYTE, Duration::from_millis);
    let read = timeout(wait, stream.read(&mut first)).await;
    let first = &first[..read.map_or(0, Result::unwrap_or_default)];
    let reason = protocol.unwrap_or_else(|| Protocol::of(first)).refusal(&reason);
    let ended = async {
        stream.write_all(&reason).await?;
        stream.shutdown().await?;
        copy(&mut stream.take(MAX_DISCARDED), &mut sink()).await
    };
    // The client may be gone, or too slow.
    let _ = timeout(LAST_BYTE, ended).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_the_limits_of_refused_connections() {
        let page = include_str!("../../../docs/internals/limits.md");
        let row = format!("| refused connections that mcpd keeps open to send the reason | {MAX_KEPT} |");
        assert!(page.contains(&row), "{row}");
        let row = format!("nothing arrives within {} ms", FIRST_BYTE.as_millis());
        assert!(page.contains(&row), "{row}");
    }
}
