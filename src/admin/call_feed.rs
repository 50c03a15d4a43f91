//! The calls of all servers: those that the daemon has recorded, then each as it ends. Goes on when the daemon has restarted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{AdminError, AdminEvent, CallsRequest, FeedItem};
use crate::calls::report::CallReport;

/// Before it connects again.
const PAUSE: Duration = Duration::from_secs(1);
/// Recorded calls to request: the size of the daemon's record.
const RECORDED: usize = 1000;
/// Received calls that are not read yet. If the queue is full, the daemon skips calls and reports their number.
const QUEUE: usize = 1024;

/// An event of calls.
#[derive(Debug)]
pub(crate) enum CallFeedEvent {
    /// The first connection, or one after a break during which calls were lost. Recorded calls follow; none was reported before.
    Reset,
    /// A call has ended.
    Call(Box<CallReport>),
    /// The daemon has older calls that it did not send.
    HistoryTruncated,
    /// This number of calls was skipped.
    Missed(u64),
}

/// Starts receiving calls. It ends when the receiver is dropped.
pub(crate) fn follow_calls(socket: PathBuf) -> mpsc::Receiver<CallFeedEvent> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let mut last = None;
        while !sender.is_closed() {
            // The poll of the status reports the error.
            let _ = receive(&socket, &sender, &mut last).await;
            sleep(PAUSE).await;
        }
    });
    receiver
}

/// `last` is the last reported call.
async fn receive(
    socket: &Path,
    sender: &mpsc::Sender<CallFeedEvent>,
    last: &mut Option<Box<CallReport>>,
) -> Result<(), AdminError> {
    let request = CallsRequest { last: RECORDED, follow: true, ..CallsRequest::default() };
    let mut feed = super::calls(socket, request).await?;
    let mut recorded = Some(Vec::new());
    while let Some(item) = feed.next().await? {
        let events = match (item, &mut recorded) {
            (FeedItem::Event(AdminEvent::Call(call)), Some(recorded)) => {
                recorded.push(call);
                continue;
            }
            (FeedItem::Event(AdminEvent::Call(call)), None) => {
                *last = Some(call.clone());
                vec![CallFeedEvent::Call(call)]
            }
            (FeedItem::Event(AdminEvent::Missed(count)), _) => vec![CallFeedEvent::Missed(count)],
            (FeedItem::Summary(_), _) => {
                let recorded = recorded.take().unwrap_or_default();
                let events = unreported(recorded, last.as_deref());
                if let Some(CallFeedEvent::Call(call)) =
                    events.iter().rfind(|event| matches!(event, CallFeedEvent::Call(_)))
                {
                    *last = Some(call.clone());
                }
                events
            }
            (FeedItem::Event(_), _) => continue,
        };
        for event in events {
            if sender.send(event).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The events of recorded calls, of which `last` was reported before.
#[expect(clippy::vec_box, reason = "as they come")]
fn unreported(mut recorded: Vec<Box<CallReport>>, last: Option<&CallReport>) -> Vec<CallFeedEvent> {
    let known = last.and_then(|last| recorded.iter().rposition(|call| **call == *last));
    if let Some(known) = known {
        return recorded.drain(known + 1..).map(CallFeedEvent::Call).collect();
    }
    let truncated = (recorded.len() >= RECORDED).then_some(CallFeedEvent::HistoryTruncated);
    [CallFeedEvent::Reset].into_iter().chain(recorded.into_iter().map(CallFeedEvent::Call)).chain(truncated).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_calls_are_reported_once() {
        let call = |tool: usize| -> Box<CallReport> {
            let call = serde_json::json!({
                "time": "", "session": 1, "uid": 0, "profile": "default", "server": "a", "tool": tool.to_string(), "outcome": "ok",
                "duration_ms": 1.0, "request_bytes": 1, "reply_bytes": 1
            });
            Box::new(serde_json::from_value(call).expect("a call"))
        };
        let names = |last: Option<usize>, count: usize| {
            let events = unreported((0..count).map(call).collect(), last.map(call).as_deref());
            let name = |event| match event {
                CallFeedEvent::Call(call) => call.tool,
                other => format!("{other:?}"),
            };
            events.into_iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(None, 2), ["Reset", "0", "1"]);
        assert_eq!(names(Some(1), 4), ["2", "3"]);
        assert_eq!(names(Some(3), 4), [""; 0]);
        assert_eq!(names(Some(9), 1), ["Reset", "0"], "another daemon, or too many calls meanwhile");
        assert_eq!(names(None, RECORDED).last().map(String::as_str), Some("HistoryTruncated"));
    }
}
