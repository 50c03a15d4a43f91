//! The HTTP server's loop: one thread with the minimum of HTTP that these clients need, so that it hides no cost.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::server::SEEN;
use crate::connection::Era;
use crate::cores;
use crate::echo::{Echo, Request};

#[derive(Default)]
struct Seen {
    accepted: AtomicUsize,
    streams: AtomicUsize,
}

/// Serves until it is killed.
pub(crate) fn serve(core: usize, addresses: usize) -> io::Result<()> {
    cores::pin(None, core);
    let (echo, seen) = (Arc::new(Echo::new(Era::Legacy, 3)), Arc::new(Seen::default()));
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        for _ in 0..addresses {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            writeln!(io::stdout(), "{}", listener.local_addr()?)?;
            tokio::spawn(accept(listener, Arc::clone(&echo), Arc::clone(&seen)));
        }
        std::future::pending().await
    })
}

async fn accept(listener: TcpListener, echo: Arc<Echo>, seen: Arc<Seen>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        seen.accepted.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(converse(stream, Arc::clone(&echo), Arc::clone(&seen)));
    }
}

/// Answers one request after another.
async fn converse(mut stream: TcpStream, echo: Arc<Echo>, seen: Arc<Seen>) -> io::Result<()> {
    let (mut input, mut body, mut output) = (Vec::with_capacity(1 << 16), Vec::new(), Vec::new());
    loop {
        let Some(head) = read_whole(&mut stream, &mut input).await? else { return Ok(()) };
        output.clear();
        let opens_stream = input.starts_with(b"GET ") && !input[4..].starts_with(SEEN.as_bytes());
        if opens_stream {
            output.extend_from_slice(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
        } else if input.starts_with(b"GET ") {
            let counts = [&seen.accepted, &seen.streams].map(|count| count.load(Ordering::Relaxed));
            whole(serde_json::to_string(&counts)?.as_bytes(), "", &mut output)?;
        } else if input.starts_with(b"DELETE ") {
            whole(b"", "", &mut output)?;
        } else {
            post(&input, head, &echo, &mut body, &mut output)?;
        }
        stream.write_all(&output).await?;
        if opens_stream {
            seen.streams.fetch_add(1, Ordering::Relaxed);
            // Ends the stream.
            let _ = stream.read(&mut [0]).await;
            seen.streams.fetch_sub(1, Ordering::Relaxed);
            return Ok(());
        }
    }
}

/// Reads a request with its body into the buffer. Returns the end of its head, if any.
async fn read_whole(stream: &mut TcpStream, input: &mut Vec<u8>) -> io::Result<Option<usize>> {
    input.clear();
    loop {
        if stream.read_buf(input).await? == 0 {
            return Ok(None);
        }
        let Some(head) = memmem::find(input, b"\r\n\r\n").map(|at| at + 4) else { continue };
        let whole = head + super::content_length(&input[..head]).unwrap_or(0);
        input.reserve(whole.saturating_sub(input.len()));
        while input.len() < whole {
            if stream.read_buf(input).await? == 0 {
                return Ok(None);
            }
        }
        return Ok(Some(head));
    }
}

fn post(input: &[u8], head: usize, echo: &Echo, body: &mut Vec<u8>, output: &mut Vec<u8>) -> io::Result<()> {
    let request = Request::parse(&input[head..])?;
    if !request.is_call() {
        output.extend_from_slice(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
        return Ok(());
    }
    body.clear();
    echo.answer(&request, body)?;
    if input.starts_with(b"POST /events") {
        return event(body, output);
    }
    whole(body, if request.is_introduction() { "Mcp-Session-Id: 0123456789abcdef\r\n" } else { "" }, output)
}

fn whole(body: &[u8], fields: &str, output: &mut Vec<u8>) -> io::Result<()> {
    let length = body.len();
    write!(output, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{fields}Content-Length: {length}\r\n\r\n")?;
    output.extend_from_slice(body);
    Ok(())
}

/// A stream of one event, in one chunk.
fn event(body: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
    let (before, after) = ("event: message\ndata: ", "\n\n");
    let length = before.len() + body.len() + after.len();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    write!(output, "{head}{length:x}\r\n{before}")?;
    output.extend_from_slice(body);
    write!(output, "{after}\r\n0\r\n\r\n")
}
