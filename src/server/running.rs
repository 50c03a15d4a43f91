//! A running task of a server or of one of its instances, as held by its owner.

use std::pin::pin;

use tokio::task::{JoinError, JoinHandle};

use super::control::Control;
use super::messages::handle::ServerHandle;
use super::shared_state::SharedState;
use super::stop_level::{StopLevel, StopReceiver};

/// A server's task, with the means to reach, control and await it.
#[derive(Debug)]
pub struct Running {
    /// Sends commands to the task.
    pub handle: ServerHandle,
    /// Sets the desired state.
    pub control: Control,
    /// Ends when no process of the server is left.
    pub task: JoinHandle<()>,
    /// State that a replacement task takes over.
    pub shared: SharedState,
}

/// Stops all tasks in parallel, and returns when none of their processes is left. Follows `stop` as it rises. Returns the error of a
/// task that panicked.
pub(crate) async fn stop_all(all: &mut [Running], mut stop: StopReceiver) -> Option<JoinError> {
    let pass_on = |all: &[Running], stop| all.iter().for_each(|running| running.control.stop(stop));
    pass_on(all, stop.now());
    let mut stop_now = pin!(stop.at_least(StopLevel::Kill));
    let (mut killed, mut panicked) = (false, None);
    for next in 0..all.len() {
        loop {
            tokio::select! {
                // A task that panicked has dropped its process, which closes the lifeline.
                ended = &mut all[next].task => {
                    panicked = ended.err().filter(JoinError::is_panic).or(panicked);
                    break;
                }
                () = &mut stop_now, if !killed => killed = true,
            }
            pass_on(all, StopLevel::Kill);
        }
    }
    panicked
}
