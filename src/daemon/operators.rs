//! The operators that are connected: a bounded number, so that the daemon has a descriptor for each.
//!
//! At the limit, a new operator replaces one that has sent no complete request, so idle connections keep nobody out.

use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

use crate::admin::{self, Waiting};

/// Operators connected at once. One more takes the place of one that has not sent its request, or else waits in the socket.
pub(super) const MAX_OPERATORS: usize = 64;

/// Those that are connected.
#[derive(Debug, Default)]
pub(super) struct Operators {
    tasks: JoinSet<()>,
    /// In the order in which they came.
    connected: Vec<(AbortHandle, Arc<Waiting>)>,
    /// One has begun to wait for its operator.
    waits: Arc<Notify>,
}

impl Operators {
    /// Whether one more can be admitted.
    pub(super) fn have_room(&self) -> bool {
        self.connected.len() < MAX_OPERATORS || self.displaceable().is_some()
    }

    /// Serves one more.
    pub(super) fn admit(&mut self, stream: UnixStream, access: admin::Access) {
        if self.connected.len() >= MAX_OPERATORS
            && let Some(at) = self.displaceable()
        {
            self.connected.remove(at).0.abort();
        }
        let waiting = Arc::new(Waiting::new(Arc::clone(&self.waits)));
        let task = self.tasks.spawn(admin::serve(stream, access, Arc::clone(&waiting)));
        self.connected.push((task, waiting));
    }

    /// Waits until there is room that was not there before.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            Some(_) = self.tasks.join_next() => self.connected.retain(|(task, _)| !task.is_finished()),
            () = self.waits.notified() => {}
        }
    }

    /// Which one makes room: the first that has asked for nothing yet, else the first that asks for nothing now.
    fn displaceable(&self) -> Option<usize> {
        let position = |is: fn(&Waiting) -> bool| self.connected.iter().position(|(_, waiting)| is(waiting));
        position(Waiting::is_for_first).or_else(|| position(Waiting::is_for_any))
    }
}
