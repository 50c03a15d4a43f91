//! The measure of a middleman: socket to pipe and back, bytes copied, nothing parsed. Built like mcpd (tokio on one thread), so
//! what mcpd costs beyond it is the price of understanding the messages.

use std::io;
use std::process::Stdio;

use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;

use crate::echo;

/// The hidden argument that makes this program the relay; the socket's path and the servers' number of tools follow it.
pub(crate) const MODE: &str = "relay";

/// What Linux gives a pipe; a smaller buffer would make the relay slow at large messages, and mcpd look good.
const BUFFER: usize = 1 << 16;

/// Serves every connection with a server of its own, until it is killed.
pub(crate) fn serve(socket: &str, tools: &str) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = UnixListener::bind(socket)?;
        loop {
            let (agent, _) = listener.accept().await?;
            tokio::spawn(relay(agent, tools.to_owned()));
        }
    })
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
