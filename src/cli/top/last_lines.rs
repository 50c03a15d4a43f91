//! The lines that one server writes to stderr, for `mcpd top`: those that the daemon has recorded, then new ones. Reconnects when the daemon
//! restarts.

use std::collections::VecDeque;
use std::future::pending;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::admin::report::LineReport;
use crate::admin::{self, AdminError, AdminEvent, FeedItem, LogsRequest};
use crate::cli::daemon_report::POLL_INTERVAL;

/// Received lines that are not read yet. If the queue is full, the daemon skips lines and reports their number.
const QUEUE: usize = 1024;
/// Maximum number of lines of a server.
pub(super) const MAX_LINES: usize = 50;

#[derive(Debug)]
enum LineEvent {
    /// A new connection: earlier lines are sent again.
    Reset,
    Line(Box<LineReport>),
    /// All earlier lines were sent.
    Recorded,
    Failed(AdminError),
}

/// The last lines on stderr of one server.
#[derive(Debug)]
pub(super) struct LastLines {
    events: mpsc::Receiver<LineEvent>,
    lines: VecDeque<LineReport>,
    is_complete: bool,
    error: Option<AdminError>,
}

impl LastLines {
    /// Starts receiving. It ends when this value is dropped.
    pub(super) fn of(server: String, socket: PathBuf) -> Self {
        let (sender, events) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            let receive_again = async {
                loop {
                    if let Err(error) = receive_lines(&socket, &server, &sender).await {
                        let _ = sender.send(LineEvent::Failed(error)).await;
                    }
                    sleep(POLL_INTERVAL).await;
                }
            };
            tokio::select! {
                () = receive_again => {}
                () = sender.closed() => {}
            }
        });
        Self { events, lines: VecDeque::new(), is_complete: false, error: None }
    }

    /// Waits for an event and returns whether there is more to show than one more line. Cancel safe.
    pub(super) async fn update(&mut self) -> bool {
        match self.events.recv().await {
            Some(LineEvent::Reset) => {
                self.lines.clear();
                (self.is_complete, self.error) = (false, None);
            }
            Some(LineEvent::Line(line)) => {
                self.lines.push_back(*line);
                if self.lines.len() > MAX_LINES {
                    self.lines.pop_front();
                }
            }
            Some(LineEvent::Recorded) => {
                self.is_complete = true;
                return true;
            }
            Some(LineEvent::Failed(error)) => {
                self.error = Some(error);
                return true;
            }
            None => pending().await,
        }
        false
    }

    /// The lines, oldest first; `None` until they are received.
    pub(super) fn lines(&self) -> Option<impl ExactSizeIterator<Item = &LineReport>> {
        self.is_complete.then(|| self.lines.iter())
    }

    /// Why they are not received.
    pub(super) fn error(&self) -> Option<&AdminError> {
        self.error.as_ref()
    }
}

async fn receive_lines(socket: &Path, server: &str, sender: &mpsc::Sender<LineEvent>) -> Result<(), AdminError> {
    let request = LogsRequest { last: MAX_LINES, servers: vec![server.to_owned()], follow: true };
    let mut feed = admin::logs(socket, request, false).await?;
    let mut event = LineEvent::Reset;
    while sender.send(event).await.is_ok() {
        event = loop {
            match feed.next().await? {
                Some(FeedItem::Event(AdminEvent::Line(line))) => break LineEvent::Line(line),
                Some(FeedItem::Summary(_)) => break LineEvent::Recorded,
                Some(FeedItem::Event(_)) => {}
                None => return Ok(()),
            }
        };
    }
    Ok(())
}
