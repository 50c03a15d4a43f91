//! The state of the daemon, once a second, for what is shown live. A daemon that is gone is looked for again.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::admin::{self, AskError, report::Report};

/// Between two looks.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// Asks from now on; whoever drops the receiver ends it. A look that is not taken holds up the next.
pub(super) fn status(socket: PathBuf) -> mpsc::Receiver<Result<Report, AskError>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut looks = interval(EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let report = admin::status(&socket).await;
            if sender.send(report).await.is_err() {
                return;
            }
        }
    });
    receiver
}
