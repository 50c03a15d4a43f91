//! `mcpd connect`: bytes between standard streams and an agent socket, and nothing else.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use super::profile::Door;
use super::{FAILED, fail};
use crate::sockets::RuntimeDir;

/// Copied at once: a pipe's capacity.
const CHUNK: usize = 64 << 10;

/// Two threads that block: an agent's few messages need no event loop, and one end must never wait for the other.
pub(super) fn run(directory: &RuntimeDir, door: &Door) -> ExitCode {
    let path = match door.path(directory) {
        Ok(path) => path,
        Err(refused) => return refused,
    };
    let socket = match UnixStream::connect(&path) {
        Ok(socket) => socket,
        Err(error) => return door.closed(directory, path, &error),
    };
    let to_daemon = match socket.try_clone() {
        Ok(to_daemon) => to_daemon,
        Err(error) => return fail(FAILED, error),
    };
    std::thread::spawn(move || {
        // The agent may be done writing and still wait for answers.
        let _ = copy(io::stdin().lock(), &to_daemon);
        let _ = to_daemon.shutdown(Shutdown::Write);
    });
    match copy(&socket, io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // The agent has closed our output: it is gone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(FAILED, error),
    }
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                to.write_all(&chunk[..read])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
