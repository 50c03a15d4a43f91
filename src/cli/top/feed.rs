//! The stream of calls for `mcpd top`: recorded calls first, then each call that ends. It reconnects when the daemon restarts.

use std::path::{Path, PathBuf};

use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::admin::{self, AdminError, AdminEvent, CallsRequest, FeedItem};
use crate::calls::report::CallReport;
use crate::cli::poll::POLL_INTERVAL;

/// Recorded calls to request: the default size of the daemon's record.
const HISTORY: usize = 1000;
/// Received calls that are not counted yet. If the queue is full, the daemon skips calls and reports their number.
const QUEUE: usize = 1024;

#[derive(Debug)]
pub(super) enum FeedEvent {
    /// A new connection: earlier calls are sent again, or were another daemon's.
    Reset,
    /// A call has ended.
    Call(Box<CallReport>),
    /// The daemon has older calls that it did not send.
    HistoryTruncated,
    /// This number of calls was skipped.
    Missed(u64),
}

/// Starts receiving. It ends when the receiver is dropped.
pub(super) fn start(socket: PathBuf) -> mpsc::Receiver<FeedEvent> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        while !sender.is_closed() {
            // The poll of the status reports the error.
            let _ = receive(&socket, &sender).await;
            sleep(POLL_INTERVAL).await;
        }
    });
    receiver
}

async fn receive(socket: &Path, sender: &mpsc::Sender<FeedEvent>) -> Result<(), AdminError> {
    let mut feed =
        admin::calls(socket, CallsRequest { last: HISTORY, follow: true, ..CallsRequest::default() }).await?;
    let mut received = 0;
    let mut event = FeedEvent::Reset;
    loop {
        if sender.send(event).await.is_err() {
            return Ok(());
        }
        event = loop {
            match feed.next().await? {
                Some(FeedItem::Event(AdminEvent::Call(call))) => {
                    received += 1;
                    break FeedEvent::Call(call);
                }
                Some(FeedItem::Event(AdminEvent::Missed(count))) => break FeedEvent::Missed(count),
                Some(FeedItem::Summary(_)) if received >= HISTORY => break FeedEvent::HistoryTruncated,
                Some(_) => {}
                None => return Ok(()),
            }
        };
    }
}
