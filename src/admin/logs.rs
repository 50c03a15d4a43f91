//! Telling one operator what servers write to stderr.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::lines::Lines;
use super::operator::{Access, OPERATOR_TIMEOUT, Operator, event, refuse, respond, turn_away, unknown_server};
use super::{Answer, LogsTold, LogsWanted, Told};
use crate::clock::WallClockAnchor;
use crate::manager::View;

/// Bytes of text that are told in one go, or a little more.
const BURST: usize = 64 << 10;
/// Between two looks at what is new. What a server writes in this time is told if the server keeps as much, so that
/// following one that never stops costs little.
const REST: Duration = Duration::from_millis(100);

/// Answers the question `id` for lines. With `follow` it returns when the operator says anything more, or leaves.
pub(super) async fn answer(operator: &mut Operator, id: u64, wanted: LogsWanted, access: &Access) -> io::Result<()> {
    let Ok(_lasting) = access.lasting.try_acquire() else { return turn_away(operator, id).await };
    let LogsWanted { last, server, follow } = wanted;
    let view = access.view.clone();
    let unknown = server.as_deref().and_then(|server| unknown_server(&view.borrow(), server));
    if let Some(error) = unknown {
        return refuse(operator, Some(id), error).await;
    }
    let mut lines = Lines::of(&view.borrow(), server, last);
    while timeout(OPERATOR_TIMEOUT, tell(operator, &mut lines)).await?? {}
    respond(operator, Some(id), Answer::Logs(LogsTold {})).await?;
    if follow { pass_on(operator, &mut lines, view).await } else { Ok(()) }
}

/// Whoever follows may stop reading for as long as it likes: it loses lines, and there are few of its kind.
async fn pass_on(operator: &mut Operator, lines: &mut Lines, mut view: watch::Receiver<Arc<View>>) -> io::Result<()> {
    loop {
        let more = lines.look(&mut view);
        while tell(operator, lines).await? {}
        // Whoever publishes it is the last to end.
        if view.has_changed().is_err() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        tokio::select! {
            () = async { sleep(REST).await; more.await } => {}
            // Nothing more is expected of whoever follows but to leave.
            _ = operator.next() => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

/// Tells some of what is next; whether there was anything.
async fn tell(operator: &mut Operator, lines: &mut Lines) -> io::Result<bool> {
    let anchor = WallClockAnchor::now();
    let mut told = 0;
    while told < BURST
        && let Some(next) = lines.next(anchor)
    {
        let (server, count) = (next.line.server.clone(), next.missed);
        told += next.line.text.len() + server.len();
        if count > 0 {
            operator.feed(event(Told::LinesMissed { server, count })).await?;
        }
        operator.feed(event(Told::Line(Box::new(next.line)))).await?;
    }
    operator.flush().await?;
    Ok(told > 0)
}
