//! The baseline: copies bytes between socket and pipe without parsing. Built like mcpd (tokio on one thread), so the
//! difference is the cost of parsing and routing.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net;
use std::process::Stdio;

use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;

use crate::echo;

/// The hidden argument that makes this program the relay; the socket's path and the servers' number of tools follow it.
pub(crate) const MODE: &str = "relay";

/// The one that makes it what a client launches to get there; the socket's path follows it.
pub(crate) const LAUNCHED_MODE: &str = "relay-launched";

/// The size of a Linux pipe. A smaller buffer would slow the relay at large messages and flatter mcpd.
const BUFFER: usize = 1 << 16;

/// Serves every connection with a new server, until it is killed.
pub(crate) fn serve(socket: &str, tools: &str) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = UnixListener::bind(socket)?;
        loop {
            let (agent, _) = listener.accept().await?;
            tokio::spawn(relay(agent, tools.to_owned()));
        }
    })
}

/// Connects standard streams to the socket, with two threads that copy bytes.
pub(crate) fn launched(socket: &str) -> io::Result<()> {
    let from_relay = net::UnixStream::connect(socket)?;
    let to_relay = from_relay.try_clone()?;
    std::thread::spawn(move || {
        // Ends with whichever side ends first.
        let _ = copy(io::stdin().lock(), &to_relay);
        let _ = to_relay.shutdown(Shutdown::Write);
    });
    copy(from_relay, io::stdout().lock())
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read])?;
        to.flush()?;
    }
}

async fn relay(mut agent: UnixStream, tools: String) -> io::Result<()> {
    let mut server = Command::new(std::env::current_exe()?)
        .args([echo::MODE, &tools])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (Some(stdin), Some(stdout)) = (server.stdin.take(), server.stdout.take()) else {
        return Err(io::Error::other("the server has no pipes"));
    };
    let mut pipes = tokio::io::join(stdout, stdin);
    tokio::io::copy_bidirectional_with_sizes(&mut agent, &mut pipes, BUFFER, BUFFER).await?;
    Ok(())
}
