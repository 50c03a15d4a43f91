//! The calls that the daemon tells of: those that it keeps, then those that end. A daemon that has gone is looked for again.

use std::path::{Path, PathBuf};

use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::admin::{self, AskError, CallsWanted, Next, Told};
use crate::calls::report::CallReport;
use crate::cli::poll::EVERY;

/// Calls of the past that are asked for: as many as a daemon keeps unless it is told otherwise.
const PAST: usize = 1000;
/// Calls that wait to be counted. When there are more, the daemon passes over some and tells how many.
const QUEUE: usize = 1024;

/// What is heard of calls.
#[derive(Debug)]
pub(super) enum Heard {
    /// What was heard before is told again, or was another daemon's.
    Anew,
    /// A call has ended.
    Call(Box<CallReport>),
    /// There are more calls of the past than were told.
    Cut,
    /// So many calls were passed over.
    Missed(u64),
}

/// Listens from now on; whoever drops the receiver ends it.
pub(super) fn calls(socket: PathBuf) -> mpsc::Receiver<Heard> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        while !sender.is_closed() {
            // Why there are none is said by who asks for the state.
            let _ = listen(&socket, &sender).await;
            sleep(EVERY).await;
        }
    });
    receiver
}

async fn listen(socket: &Path, sender: &mpsc::Sender<Heard>) -> Result<(), AskError> {
    let mut feed = admin::calls(socket, CallsWanted { last: PAST, follow: true, ..CallsWanted::default() }).await?;
    let mut told = 0;
    let mut heard = Heard::Anew;
    loop {
        if sender.send(heard).await.is_err() {
            return Ok(());
        }
        heard = loop {
            match feed.next().await? {
                Some(Next::Told(Told::Call(call))) => {
                    told += 1;
                    break Heard::Call(call);
                }
                Some(Next::Told(Told::Missed(count))) => break Heard::Missed(count),
                Some(Next::All(_)) if told >= PAST => break Heard::Cut,
                Some(_) => {}
                None => return Ok(()),
            }
        };
    }
}
