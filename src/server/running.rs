//! The task of a server or of one of its instances, for its owner: how to reach it, control it, and wait for its end.

use std::pin::pin;

use tokio::task::{JoinError, JoinHandle};

use super::control::Control;
use super::messages::handle::ServerHandle;
use super::shared_state::SharedState;
use super::stop_order::{Stop, StopOrder};

/// A server's task, as its owner holds it.
#[derive(Debug)]
pub struct Running {
    /// The way to it.
    pub handle: ServerHandle,
    /// Tells it what it is to do.
    pub control: Control,
    /// Ends when no process of the server is left.
    pub task: JoinHandle<()>,
    /// For another task in its place.
    pub record: SharedState,
}

/// Stops all in parallel as far as `stop` says, and returns when no process of theirs is left. Tells if a task ended with
/// a panic rather than in order.
pub(crate) async fn stop_all(all: &mut [Running], mut stop: StopOrder) -> Option<JoinError> {
    let pass_on = |all: &[Running], stop| all.iter().for_each(|running| running.control.stop(stop));
    pass_on(all, stop.now());
    let mut stop_now = pin!(stop.at_least(Stop::Kill));
    let (mut killed, mut panicked) = (false, None);
    for next in 0..all.len() {
        loop {
            tokio::select! {
                // A task that panicked has dropped its process, and so its lifeline.
                ended = &mut all[next].task => {
                    panicked = ended.err().filter(JoinError::is_panic).or(panicked);
                    break;
                }
                () = &mut stop_now, if !killed => killed = true,
            }
            pass_on(all, Stop::Kill);
        }
    }
    panicked
}
