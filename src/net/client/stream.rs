//! What a request is written to: a connection, with TLS around it where its URL says so, and around that of a proxy.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A connection that stands.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<Stream>>),
    /// What is asked of the proxy at its other end is asked of somebody else.
    OfProxy(Box<Stream>),
}

/// The same done with whatever it is.
macro_rules! with {
    ($stream:expr, $inner:ident => $what:expr) => {
        match $stream.get_mut() {
            Stream::Plain($inner) => $what,
            Stream::Tls($inner) => $what,
            Stream::OfProxy($inner) => $what,
        }
    };
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Self::Plain(_) => Connected::new(),
            Self::Tls(tls) if tls.get_ref().1.alpn_protocol() == Some(b"h2") => Connected::new().negotiated_h2(),
            Self::Tls(_) => Connected::new(),
            Self::OfProxy(stream) => stream.connected().proxy(true),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        with!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        with!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with!(self, stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::OfProxy(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
