//! A server without a task, for tests of what reads published snapshots.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::runtime::Builder;

use super::era_cache::EraPreference;
use super::identity::ServerIdentity;
use super::lifecycle::State;
use super::listing::{Listing, Next};
use super::messages::command::CommandReceiver;
use super::publish::{Publisher, ServerSnapshot};
use super::shared_state::SharedState;
use super::wiring::Wiring;
use super::{ServerError, ServerHandle};
use crate::catalog::List;
use crate::config::{Malformed, ServerConfig};
use crate::durations::Durations;
use crate::era::{Era, NEWEST_LEGACY};
use crate::list_kind::ListKind;
use crate::logging::ServerOutput;

pub(crate) struct TestServer {
    pub(crate) handle: ServerHandle,
    publisher: Publisher,
    /// Nobody reads it.
    _commands: CommandReceiver,
}

impl TestServer {
    /// A server that is starting.
    pub(crate) fn new(config: &Arc<ServerConfig>) -> Self {
        let shared = SharedState::new(Arc::clone(&config.name), ServerOutput::default(), Durations::default());
        let Wiring { inner, publisher, commands, .. } =
            Wiring::new(Arc::clone(config), true, EraPreference::Shared, Arc::default(), &shared);
        Self { handle: ServerHandle(Arc::new(inner)), publisher, _commands: commands }
    }

    /// The server of the legacy era is ready, with these capabilities and lists.
    pub(crate) fn ready(self, capabilities: &str, lists: &[(ListKind, &str)]) -> Self {
        let identity = ServerIdentity::new(NEWEST_LEGACY, None, Bytes::copy_from_slice(capabilities.as_bytes()), None);
        self.update(|snapshot| {
            snapshot.state = State::Ready { ready_since: Instant::now() };
            (snapshot.first_start_ended, snapshot.lists_known, snapshot.lists_complete) = (true, true, true);
            snapshot.eras.insert(Era::Legacy);
            snapshot.identities.insert(Arc::new(identity));
            for (kind, entries) in lists {
                snapshot.lists[*kind] = Arc::new(list(*kind, entries));
            }
        });
        self
    }

    /// The server cannot be started.
    pub(crate) fn failed(self) -> Self {
        self.update(|snapshot| {
            snapshot.state = State::Failed { reason: ServerError::Internal("was broken by a test".to_owned()) };
            snapshot.first_start_ended = true;
        });
        self
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut ServerSnapshot)) {
        self.publisher.update(change);
    }
}

/// Runs a test of pure code in a runtime, which the queues of servers need.
pub(crate) fn in_runtime(test: impl FnOnce()) {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async { test() });
}

/// The list with these entries.
pub(crate) fn list(kind: ListKind, entries: &str) -> List {
    let page = Bytes::from(format!(r#"{{"{}":{entries}}}"#, kind.member()));
    match Listing::of(kind, Malformed::Pass).page(&page) {
        Ok(Next::Done(list)) => list,
        Ok(Next::Page(..)) | Err(_) => panic!("no list: {entries}"),
    }
}
