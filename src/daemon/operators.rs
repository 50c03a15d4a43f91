//! ConnectedAgent operators, bounded so that the daemon has a file descriptor for each.
//!
//! At the limit, a new operator replaces one that has sent no complete request, so idle connections keep nobody out.

use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

use crate::admin::{self, Activity};

/// Operators connected at once. A new one replaces an idle connection, or waits in the socket if there is none.
pub(super) const MAX_OPERATORS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Operators {
    tasks: JoinSet<()>,
    /// Oldest first.
    connected: Vec<(AbortHandle, Arc<Activity>)>,
    /// Notified when a connection becomes idle.
    idle_notify: Arc<Notify>,
}

impl Operators {
    /// Whether one more can be admitted.
    pub(super) fn have_room(&self) -> bool {
        self.connected.len() < MAX_OPERATORS || self.displaceable().is_some()
    }

    /// Serves a new connection. At the limit it closes an idle one.
    pub(super) fn admit(&mut self, stream: UnixStream, access: admin::Access) {
        if self.connected.len() >= MAX_OPERATORS
            && let Some(at) = self.displaceable()
        {
            self.connected.remove(at).0.abort();
        }
        let activity = Arc::new(Activity::new(Arc::clone(&self.idle_notify)));
        let task = self.tasks.spawn(admin::serve(stream, access, Arc::clone(&activity)));
        self.connected.push((task, activity));
    }

    /// Waits until a connection ends or becomes idle.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            Some(_) = self.tasks.join_next() => self.connected.retain(|(task, _)| !task.is_finished()),
            () = self.idle_notify.notified() => {}
        }
    }

    /// The connection to close first: the oldest without any request, else the oldest idle one.
    fn displaceable(&self) -> Option<usize> {
        let position = |is: fn(&Activity) -> bool| self.connected.iter().position(|(_, activity)| is(activity));
        position(Activity::is_new).or_else(|| position(Activity::is_idle))
    }
}
