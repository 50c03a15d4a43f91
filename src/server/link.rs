//! The transport of one instance: the pipes of its process, or HTTP. It does not look into messages.

use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use tokio::net::unix::pipe;

use super::evidence::{Evidence, StdinUse};
use crate::era;
use crate::jsonrpc::normalise::Sender;
use crate::tap::TapPoint;
use crate::transport::http::{Disconnect, HeaderParams, HttpConnection};
use crate::transport::{Arrival, Incoming, MessageReader, Outbox};

/// The transport of a server at a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteTransport {
    /// MCP 2025-03-26 to 2025-11-25, `basic/transports`, "Streamable HTTP".
    StreamableHttp,
    /// MCP 2024-11-05, `basic/transports`, "HTTP with SSE".
    HttpSse,
}

impl RemoteTransport {
    /// Its name in `mcpd status`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::StreamableHttp => "streamable http",
            Self::HttpSse => "http+sse",
        }
    }
}

/// The link to an instance.
#[expect(clippy::large_enum_variant, reason = "the larger one is what most have, and is used at every turn")]
pub(super) enum Link {
    Pipes { stdin: pipe::Sender, stdout: MessageReader<pipe::Receiver> },
    Http(Box<HttpConnection>),
}

/// Why a link has failed.
#[derive(Debug)]
pub(super) enum LinkError {
    /// The server closed this stream. Its exit status is more informative, if it arrives.
    Stream(&'static str),
    Disconnected(Disconnect),
}

impl LinkError {
    /// The protocol version for a second attempt, by the server's error.
    pub(super) fn version_after_refusal(&self) -> Option<&'static str> {
        match self {
            Self::Disconnected(Disconnect::Status { message, .. }) => era::version_after_refusal(message.as_ref()?),
            Self::Stream(_) | Self::Disconnected(_) => None,
        }
    }

    pub(super) fn is_login_needed(&self) -> bool {
        matches!(self, Self::Disconnected(Disconnect::LoginNeeded { .. }))
    }
}

impl Link {
    /// The link to a process.
    pub(super) fn pipes(stdin: pipe::Sender, stdout: pipe::Receiver, max_message: usize) -> Self {
        Self::Pipes { stdin, stdout: MessageReader::new(stdout, Sender::Server, max_message) }
    }

    /// Notes the messages at this point. Returns an outbox for the link.
    pub(super) fn tapped_outbox(&mut self, tap: TapPoint) -> Outbox {
        match self {
            Self::Pipes { stdout, .. } => {
                stdout.set_tap(tap.clone());
                Outbox::tapped(tap)
            }
            Self::Http(http) => {
                http.set_tap(tap);
                Outbox::default()
            }
        }
    }

    /// Waits until a program that serves a URL listens there. Returns at once on pipes.
    pub(super) async fn wait_listening(&mut self) -> Result<(), LinkError> {
        match self {
            Self::Pipes { .. } => Ok(()),
            Self::Http(http) => http.wait_listening().await.map_err(LinkError::Disconnected),
        }
    }

    /// Writes as much as the server accepts now. Pending if it accepts nothing; ready also if nothing waits to be written.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<Result<(), LinkError>> {
        match self {
            Self::Pipes { stdin, .. } => outbox.poll_write(cx, stdin).map_err(|_| LinkError::Stream("stdin")),
            Self::Http(http) => http.poll_write(outbox).map(Ok),
        }
    }

    /// The next arrival. Cancel-safe.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Arrival, LinkError>> {
        match self {
            Self::Pipes { stdout, .. } => match ready!(stdout.poll_next(cx)) {
                Ok(Some(incoming)) => Poll::Ready(Ok(Arrival::Incoming { incoming, source_request: None })),
                Ok(None) | Err(_) => Poll::Ready(Err(LinkError::Stream("stdout"))),
            },
            Self::Http(http) => http.poll_next(cx).map_err(LinkError::Disconnected),
        }
    }

    /// The next message, if it was read already.
    pub(super) fn next_buffered(&mut self) -> Option<Incoming> {
        match self {
            Self::Pipes { stdout, .. } => stdout.next_buffered(),
            Self::Http(_) => None,
        }
    }

    /// Tells the HTTP transport that this line of the outbox is the request with this id, so that the transport can match the
    /// response. Does nothing on pipes.
    pub(super) fn register_request(&mut self, line: u64, request: u64) {
        if let Self::Http(http) = self {
            http.announce(line, request);
        }
    }

    /// Records that the server supports the modern era, and perhaps also the legacy one. A failing `initialize` no longer ends the connection.
    pub(super) fn note_modern_support(&mut self) {
        if let Self::Http(http) = self {
            http.note_modern_support();
        }
    }

    /// Whether the server is known to support the modern era, and may also support the legacy one.
    pub(super) fn is_known_modern(&self) -> bool {
        matches!(self, Self::Http(http) if http.is_known_modern())
    }

    /// Switches the connection to the modern era: requests open no HTTP session.
    pub(super) fn switch_to_modern(&mut self) {
        if let Self::Http(http) = self {
            http.discovered();
        }
    }

    /// Whether this link repeats parts of messages in HTTP headers.
    pub(super) fn sends_header_params(&self) -> bool {
        matches!(self, Self::Http(http) if http.sends_header_params())
    }

    /// Sets the tool arguments that are sent as headers.
    pub(super) fn set_header_params(&mut self, params: HeaderParams) {
        if let Self::Http(http) = self {
            http.set_header_params(params);
        }
    }

    /// Sets the negotiated version, and the number of the line with the `initialized` notification.
    pub(super) fn set_protocol(&mut self, protocol: &'static str, initialized: u64) {
        if let Self::Http(http) = self {
            http.set_protocol(protocol, initialized);
        }
    }

    /// Notes what the state of the pipes shows, `written` bytes of which have reached the server's stdin.
    pub(super) fn note_pipes(&self, written: u64, evidence: &mut Evidence) {
        if let Self::Pipes { stdin, stdout } = self {
            evidence.note_unended_line(stdout.unended());
            evidence.note_stdin(stdin_use(stdin, written));
        }
    }

    /// The connection, if it is one to a URL.
    pub(super) fn remote(&self) -> Option<RemoteTransport> {
        match self {
            Self::Pipes { .. } => None,
            Self::Http(http) if http.is_http_sse() => Some(RemoteTransport::HttpSse),
            Self::Http(_) => Some(RemoteTransport::StreamableHttp),
        }
    }

    /// States this version in the headers of all requests until another one is negotiated. Does nothing on pipes.
    pub(super) fn state_protocol(&mut self, protocol: &'static str) {
        if let Self::Http(http) = self {
            http.state_protocol(protocol);
        }
    }

    /// The server has forgotten the session: the link is over. Does nothing on pipes.
    pub(super) fn forget_session(&mut self) {
        if let Self::Http(http) = self {
            http.forget_session();
        }
    }

    /// Nobody waits for the answer to this request any longer.
    pub(super) fn cancel(&mut self, request: u64) {
        if let Self::Http(http) = self {
            http.cancel(request);
        }
    }
}

/// What the readers of this pipe have done with the bytes that were written.
fn stdin_use(stdin: &pipe::Sender, written: u64) -> StdinUse {
    // A pipe keeps what nobody has read, even if nobody can read it any more.
    let unread = ioctl_fionread(stdin).unwrap_or_default();
    let mut polled = [PollFd::new(stdin, PollFlags::empty())];
    let is_polled = poll(&mut polled, Some(&Timespec::default())).is_ok();
    match unread {
        _ if unread >= written => StdinUse::NeverRead,
        _ if is_polled && polled[0].revents().contains(PollFlags::ERR) => StdinUse::Closed,
        1.. => StdinUse::PartlyRead,
        0 => StdinUse::Read,
    }
}
