//! The connected operators, bounded so that the daemon has a file descriptor for each.
//!
//! At the limit, a new operator replaces one that has sent no complete request, so idle connections keep nobody out.

use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use super::admission::Admission;
use crate::admin::{self, Activity};
use crate::calls::History;
use crate::manager::Manager;
use crate::masking::KnownSecrets;
use crate::sockets::{ADMIN_SOCKET, Handover, Listener};
use crate::tap::Tap;

/// Operators connected at once. A new one replaces an idle connection, or waits in the socket if there is none.
const MAX_OPERATORS: usize = 64;
/// Capacity of the queue of reload requests; further operators wait.
const RELOAD_QUEUE: usize = 16;

#[derive(Debug)]
pub(super) struct Operators {
    listener: Listener,
    access: admin::Access,
    tasks: JoinSet<()>,
    /// Oldest first.
    connected: Vec<(AbortHandle, Arc<Activity>)>,
    /// Notified when a connection becomes idle.
    idle_notify: Arc<Notify>,
}

/// Requests of operators that their own tasks cannot answer.
pub(super) struct OperatorRequests {
    pub(super) queries: mpsc::Receiver<admin::Query>,
    pub(super) reloads: mpsc::Receiver<admin::ReloadRequest>,
}

impl Operators {
    pub(super) fn new(
        listener: Listener,
        manager: Manager,
        calls: History,
        tap: Tap,
        secrets: KnownSecrets,
    ) -> (Self, OperatorRequests) {
        let (queries, received_queries) = mpsc::channel(MAX_OPERATORS);
        let (reloads, received_reloads) = mpsc::channel(RELOAD_QUEUE);
        let long_requests = Arc::new(Semaphore::new(admin::MAX_LONG_REQUESTS));
        let view = manager.view();
        let access = admin::Access { queries, calls, tap, secrets, view, manager, reloads, long_requests };
        let (tasks, connected, idle_notify) = Default::default();
        let operators = Self { listener: listener.with_reserve(), access, tasks, connected, idle_notify };
        (operators, OperatorRequests { queries: received_queries, reloads: received_reloads })
    }

    pub(super) fn listener(&mut self) -> &mut Listener {
        &mut self.listener
    }

    /// Passes the socket on to the next program.
    pub(super) fn hand_over(self, to: &mut Handover) {
        to.add_listener(ADMIN_SOCKET, self.listener);
    }

    /// The next connection. While there is no room for it, it waits in the socket. Cancel safe.
    pub(super) async fn accept(&mut self) -> UnixStream {
        loop {
            let has_room = self.connected.len() < MAX_OPERATORS || self.displaceable().is_some();
            tokio::select! {
                stream = self.listener.accept(), if has_room => return stream,
                Some(_) = self.tasks.join_next() => self.connected.retain(|(task, _)| !task.is_finished()),
                () = self.idle_notify.notified() => {}
            }
            // Before an agent can take the descriptors that an operator has freed.
            self.listener.refill();
        }
    }

    /// Whether one is connected.
    pub(super) fn are_connected(&self) -> bool {
        self.connected.iter().any(|(task, _)| !task.is_finished())
    }

    /// Serves or refuses a new connection. At the limit it closes an idle one.
    pub(super) fn serve(&mut self, stream: UnixStream, admission: &Admission) {
        if admission.admits_operator(&stream) {
            if self.connected.len() >= MAX_OPERATORS
                && let Some(at) = self.displaceable()
            {
                self.connected.remove(at).0.abort();
            }
            let activity = Arc::new(Activity::new(Arc::clone(&self.idle_notify)));
            let task = self.tasks.spawn(admin::serve(stream, self.access.clone(), Arc::clone(&activity)));
            self.connected.push((task, activity));
        } else {
            drop(stream);
        }
        self.listener.refill();
    }

    /// The connection to close first: the oldest without any request, else the oldest idle one.
    fn displaceable(&self) -> Option<usize> {
        let position = |is: fn(&Activity) -> bool| self.connected.iter().position(|(_, activity)| is(activity));
        position(Activity::is_new).or_else(|| position(Activity::is_idle))
    }
}
