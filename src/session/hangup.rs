//! Telling an agent that has finished writing from one that has gone.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

/// How often a half-closed connection is looked at. End-of-file is the last event that the runtime reports of a
/// socket, so the hang-up behind it has to be asked for; only sessions in this state pay for it.
const LOOK: Duration = Duration::from_millis(100);

/// Returns once the peer, which had closed its sending half, has closed the other one too.
pub(super) async fn watch(socket: OwnedFd) {
    loop {
        let mut fds = [PollFd::new(&socket, PollFlags::empty())];
        // A signal interrupts even a poll that does not wait.
        let looked = retry_on_intr(|| poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })));
        if looked.is_err() || fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}
