//! What the daemon reports: its status, polled, and calls as they end. Both go on when the daemon has restarted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::pages::Pages;
use crate::admin::report::Report;
use crate::admin::{self, AdminError, AdminEvent, CallsRequest, FeedItem};
use crate::calls::report::CallReport;

/// Between two polls while a page is open.
const WATCHED: Duration = Duration::from_secs(1);
/// The same without a page, for its plots.
const UNWATCHED: Duration = Duration::from_secs(10);
/// Recorded calls to request: the default size of the daemon's record.
const HISTORY: usize = 1000;
/// Received calls that are not counted yet. If the queue is full, the daemon skips calls and reports their number.
const QUEUE: usize = 1024;

/// The status, again and again.
pub(super) struct StatusFeed(mpsc::Receiver<Result<Report, AdminError>>);

impl StatusFeed {
    /// It ends when this is dropped.
    pub(super) fn start(socket: PathBuf, pages: Arc<Pages>) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let pause = if pages.are_open() { WATCHED } else { UNWATCHED };
                tokio::select! {
                    () = sleep(pause) => {}
                    // Its first picture would be old.
                    () = pages.first_opened() => {}
                }
                if sender.send(admin::status(&socket).await).await.is_err() {
                    return;
                }
            }
        });
        Self(receiver)
    }

    pub(super) async fn next(&mut self) -> Option<Result<Report, AdminError>> {
        self.0.recv().await
    }
}

/// An event of calls.
#[derive(Debug)]
pub(super) enum CallFeedEvent {
    Call(Box<CallReport>),
    /// This number of calls was skipped.
    Missed(u64),
}

/// Recorded calls, then new ones. After a restart of the daemon, these are those of the new daemon.
pub(super) struct CallFeed(mpsc::Receiver<CallFeedEvent>);

impl CallFeed {
    /// It ends when this is dropped.
    pub(super) fn start(socket: PathBuf) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            while !sender.is_closed() {
                // The poll of the status reports the error.
                let _ = receive(&socket, &sender).await;
                sleep(WATCHED).await;
            }
        });
        Self(receiver)
    }

    pub(super) async fn next(&mut self) -> Option<CallFeedEvent> {
        self.0.recv().await
    }
}

async fn receive(socket: &Path, sender: &mpsc::Sender<CallFeedEvent>) -> Result<(), AdminError> {
    let request = CallsRequest { last: HISTORY, follow: true, ..CallsRequest::default() };
    let mut feed = admin::calls(socket, request).await?;
    while let Some(item) = feed.next().await? {
        let event = match item {
            FeedItem::Event(AdminEvent::Call(call)) => CallFeedEvent::Call(call),
            FeedItem::Event(AdminEvent::Missed(count)) => CallFeedEvent::Missed(count),
            FeedItem::Event(_) | FeedItem::Summary(_) => continue,
        };
        if sender.send(event).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
