//! What `mcpd top` receives besides the reports: the calls of all servers, and the lines that one server writes to stderr. Both begin with what the
//! daemon has recorded, and reconnect when it restarts.

use std::collections::VecDeque;
use std::future::pending;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::admin::report::LineReport;
use crate::admin::{self, AdminError, AdminEvent, CallsRequest, FeedItem, LogsRequest};
use crate::calls::report::CallReport;
use crate::cli::daemon_report::POLL_INTERVAL;

/// Recorded calls to request: the default size of the daemon's record.
const HISTORY: usize = 1000;
/// Received calls or lines that are not read yet. If the queue is full, the daemon skips calls or lines and reports their number.
const QUEUE: usize = 1024;
/// Maximum number of lines of a server.
pub(super) const MAX_LINES: usize = 50;

#[derive(Debug)]
pub(super) enum CallEvent {
    /// A new connection: earlier calls are sent again, or were another daemon's.
    Reset,
    /// A call has ended.
    Call(Box<CallReport>),
    /// The daemon has older calls that it did not send.
    HistoryTruncated,
    /// This number of calls was skipped.
    Missed(u64),
}

/// Starts receiving calls. It ends when the receiver is dropped.
pub(super) fn calls(socket: PathBuf) -> mpsc::Receiver<CallEvent> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        while !sender.is_closed() {
            // The poll of the status reports the error.
            let _ = receive_calls(&socket, &sender).await;
            sleep(POLL_INTERVAL).await;
        }
    });
    receiver
}

async fn receive_calls(socket: &Path, sender: &mpsc::Sender<CallEvent>) -> Result<(), AdminError> {
    let mut feed =
        admin::calls(socket, CallsRequest { last: HISTORY, follow: true, ..CallsRequest::default() }).await?;
    let mut received = 0;
    let mut event = CallEvent::Reset;
    loop {
        if sender.send(event).await.is_err() {
            return Ok(());
        }
        event = loop {
            match feed.next().await? {
                Some(FeedItem::Event(AdminEvent::Call(call))) => {
                    received += 1;
                    break CallEvent::Call(call);
                }
                Some(FeedItem::Event(AdminEvent::Missed(count))) => break CallEvent::Missed(count),
                Some(FeedItem::Summary(_)) if received >= HISTORY => break CallEvent::HistoryTruncated,
                Some(_) => {}
                None => return Ok(()),
            }
        };
    }
}

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
    let request =
        LogsRequest { last: MAX_LINES, servers: vec![server.to_owned()], follow: true, ..LogsRequest::default() };
    let mut feed = admin::logs(socket, request).await?;
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
