//! The `logs` method: sends servers' stderr lines to an operator.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::lines::MergedLines;
use super::operator::{Access, OPERATOR_TIMEOUT, Operator, event, refuse, refuse_overload, respond, unknown_server};
use super::{AdminEvent, Answer, LogsRequest, LogsSummary};
use crate::clock::WallClockAnchor;
use crate::manager::View;

/// Bytes of text between two flushes. The last line may exceed it.
const BURST: usize = 64 << 10;
/// Pause between two reads while following, so that a server that writes without end costs little. Lines that its log
/// overwrites within this time are reported as missed.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// Answers request `id`. With `follow` it returns when the operator sends another message or disconnects.
pub(super) async fn answer(operator: &mut Operator, id: u64, request: LogsRequest, access: &Access) -> io::Result<()> {
    let Ok(_permit) = access.long_requests.try_acquire() else { return refuse_overload(operator, id).await };
    let LogsRequest { last, servers, follow } = request;
    let view = access.view.clone();
    let unknown = servers.iter().find_map(|server| unknown_server(&view.borrow(), server));
    if let Some(error) = unknown {
        return refuse(operator, Some(id), error).await;
    }
    let mut lines = MergedLines::new(&view.borrow(), servers, last);
    while timeout(OPERATOR_TIMEOUT, send_burst(operator, &mut lines)).await?? {}
    respond(operator, Some(id), Answer::Logs(LogsSummary {})).await?;
    if follow { follow_lines(operator, &mut lines, view).await } else { Ok(()) }
}

/// Sends new lines without a timeout. An operator that stops reading loses lines and occupies one of the long requests.
async fn follow_lines(
    operator: &mut Operator,
    lines: &mut MergedLines,
    mut view: watch::Receiver<Arc<View>>,
) -> io::Result<()> {
    loop {
        let more = lines.refresh(&mut view);
        while send_burst(operator, lines).await? {}
        // The manager publishes the view; it ended.
        if view.has_changed().is_err() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        tokio::select! {
            () = async { sleep(READ_INTERVAL).await; more.await } => {}
            // A follower sends nothing more: this is the end of the connection.
            _ = operator.next() => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

/// Sends up to [`BURST`] bytes of lines and flushes. Returns `false` if there were none.
async fn send_burst(operator: &mut Operator, lines: &mut MergedLines) -> io::Result<bool> {
    let anchor = WallClockAnchor::now();
    let mut sent = 0;
    while sent < BURST
        && let Some(next) = lines.next(anchor)
    {
        let (server, count) = (next.line.server.clone(), next.missed);
        sent += next.line.text.len() + server.len();
        if count > 0 {
            operator.feed(event(AdminEvent::LinesMissed { server, count })).await?;
        }
        operator.feed(event(AdminEvent::Line(Box::new(next.line)))).await?;
    }
    operator.flush().await?;
    Ok(sent > 0)
}
