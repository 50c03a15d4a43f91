//! A body that is written while the peer reads it, and cut where the test wants.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Interval of checks whether an idle peer is still connected.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Capacity for pieces. A writer blocks while the peer does not read.
const WAITING: usize = 1024;

enum Piece {
    Bytes(Vec<u8>),
    /// Cuts the connection inside the body.
    Cut,
}

/// Writes one body. Dropping it ends the body in order.
#[derive(Clone)]
pub(crate) struct Writer {
    pieces: SyncSender<Piece>,
    is_read: Arc<AtomicBool>,
}

/// The receiving end of a [`Writer`].
pub(super) struct Pieces {
    pieces: Receiver<Piece>,
    is_read: Arc<AtomicBool>,
}

pub(super) fn stream() -> (Writer, Pieces) {
    let (pieces, receiver) = sync_channel(WAITING);
    let is_read = Arc::new(AtomicBool::new(true));
    (Writer { pieces, is_read: Arc::clone(&is_read) }, Pieces { pieces: receiver, is_read })
}

impl Pieces {
    /// Writes pieces as they arrive. Returns whether the body ended in order.
    pub(super) fn write_to(
        &self,
        is_there: impl Fn() -> bool,
        mut write: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<bool> {
        loop {
            match self.pieces.recv_timeout(LOOK_AGAIN) {
                Ok(Piece::Bytes(bytes)) => write(&bytes)?,
                Ok(Piece::Cut) => return Ok(false),
                Err(RecvTimeoutError::Timeout) if is_there() => {}
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => return Ok(true),
            }
        }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.is_read.store(false, Ordering::SeqCst);
    }
}

impl Writer {
    /// Whether the peer was still connected.
    pub(crate) fn write(&self, bytes: impl AsRef<[u8]>) -> bool {
        // An empty chunk would be the end.
        bytes.as_ref().is_empty() || self.pieces.send(Piece::Bytes(bytes.as_ref().to_vec())).is_ok()
    }

    /// Writes one event, with its id unless that is empty.
    pub(crate) fn event(&self, id: &str, data: &str) -> bool {
        let id = if id.is_empty() { String::new() } else { format!("id: {id}\n") };
        let data: String = data.lines().map(|line| format!("data: {line}\n")).collect();
        self.write(format!("{id}{data}\n"))
    }

    /// Whether the connection still accepts data.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::SeqCst)
    }

    /// Ends the connection in the middle of the body.
    pub(crate) fn cut(self) {
        let _ = self.pieces.send(Piece::Cut);
    }
}
