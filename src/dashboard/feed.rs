//! The status of the daemon, polled. It goes on when the daemon has restarted.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::pages::Pages;
use crate::admin::report::Report;
use crate::admin::{self, AdminError};

/// Between two polls while a page is open.
const WATCHED: Duration = Duration::from_secs(1);
/// The same without a page, for its plots.
const UNWATCHED: Duration = Duration::from_secs(10);

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
