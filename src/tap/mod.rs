//! The messages of agents and servers as they pass, for operators who watch.
//!
//! Each connection has a [`TapPoint`], where its transport notes each message. While nobody watches, noting a message only reads one flag.
//! [`Tap::watch`] gives each operator a queue of the messages that a [`Filter`] selects. A full queue drops the newest messages. The
//! watcher receives the number of dropped messages in their place.
//!
//! ```text
//! session's transport, server's link ─ TapPoint::note ─► queue of each Watch ─► admin: Matcher, Masking ─► mcpd tap
//! ```
//!
//! [`matcher`] finds what a message is and which request it answers, and [`crate::masking`] removes secrets, in the task of the operator.

#![expect(clippy::disallowed_types, reason = "transports write and operators read; nothing waits while it is locked")]

pub(crate) mod matcher;
pub(crate) mod report;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

use crate::clock::Moment;

/// Watches at once. A further one is refused.
pub(crate) const MAX_WATCHES: usize = 4;
/// Messages that a watcher may be behind. Beyond it, it misses the newest.
const MAX_QUEUED: usize = 8192;
/// Bytes that a watcher may be behind. A message is queued whatever its size if no other is.
const MAX_QUEUED_BYTES: usize = 16 << 20;

/// Where all connections of a daemon are watched. A clone is the same tap.
#[derive(Debug, Clone, Default)]
pub struct Tap(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Whether there are watches.
    is_open: AtomicBool,
    /// The number of the last connection to a server.
    connections: AtomicU64,
    watches: Mutex<Vec<Arc<Queue>>>,
}

/// Where the transport of one connection notes its messages. The default one notes nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct TapPoint(Option<Arc<Connection>>);

#[derive(Debug)]
struct Connection {
    tap: Tap,
    peer: Peer,
}

/// The other end of a connection.
pub(crate) enum Peer {
    Agent {
        session: u64,
        pid: Option<i32>,
        /// `name version`, once the agent has introduced itself.
        client: Box<dyn Fn() -> Option<String> + Send + Sync>,
    },
    Server {
        name: Arc<str>,
        /// Counts connections to all servers since the daemon's start.
        connection: u64,
        pid: Option<u32>,
    },
}

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// From the peer to mcpd.
    From,
    /// From mcpd to the peer.
    To,
}

/// A message that passed.
#[derive(Debug, Clone)]
pub(crate) struct Passed {
    pub(crate) moment: Moment,
    connection: Arc<Connection>,
    pub(crate) direction: Direction,
    /// Without its newline. Of a message over the limit, the beginning.
    pub(crate) text: Bytes,
    /// The size of the whole message.
    pub(crate) size: usize,
}

/// Selects connections.
#[derive(Debug, Clone, Default)]
pub(crate) enum Filter {
    #[default]
    All,
    /// The connections of this server.
    Server(String),
    /// The agent with this session number or client name.
    Agent(String),
}

/// One watcher. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Watch {
    tap: Tap,
    queue: Arc<Queue>,
}

/// What a watcher receives.
#[derive(Debug)]
pub(crate) enum Event {
    Passed(Box<Passed>),
    /// The number of messages that were dropped here.
    Missed(u64),
}

#[derive(Debug)]
struct Queue {
    filter: Filter,
    state: Mutex<QueueState>,
    added: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Oldest first, each with the number of messages that were dropped before it.
    waiting: VecDeque<(u64, Passed)>,
    bytes: usize,
    /// Dropped since the last one that waits.
    missed: u64,
}

impl Tap {
    /// Watches the connections that `filter` selects. `None` if there are too many watches.
    pub(crate) fn watch(&self, filter: Filter) -> Option<Watch> {
        let mut watches = self.watches();
        if watches.len() >= MAX_WATCHES {
            return None;
        }
        let queue = Arc::new(Queue { filter, state: Mutex::default(), added: Notify::new() });
        watches.push(Arc::clone(&queue));
        self.0.is_open.store(true, Ordering::Relaxed);
        drop(watches);
        Some(Watch { tap: self.clone(), queue })
    }

    /// The point of the connection of an agent.
    pub(crate) fn of_agent(
        &self,
        session: u64,
        pid: Option<i32>,
        client: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> TapPoint {
        self.point(Peer::Agent { session, pid, client: Box::new(client) })
    }

    /// The point of a new connection to a server.
    pub(crate) fn of_server(&self, name: &Arc<str>, pid: Option<u32>) -> TapPoint {
        let connection = self.0.connections.fetch_add(1, Ordering::Relaxed) + 1;
        self.point(Peer::Server { name: Arc::clone(name), connection, pid })
    }

    fn point(&self, peer: Peer) -> TapPoint {
        TapPoint(Some(Arc::new(Connection { tap: self.clone(), peer })))
    }

    fn is_open(&self) -> bool {
        self.0.is_open.load(Ordering::Relaxed)
    }

    fn watches(&self) -> MutexGuard<'_, Vec<Arc<Queue>>> {
        // A panic elsewhere cannot leave a half-written value here.
        self.0.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TapPoint {
    /// Whether somebody watches.
    pub(crate) fn is_open(&self) -> bool {
        self.0.as_ref().is_some_and(|connection| connection.tap.is_open())
    }

    /// Notes a message, with or without its newline.
    pub(crate) fn note(&self, direction: Direction, text: &[u8]) {
        if let Some(connection) = self.watched() {
            connection.note(direction, [text], None);
        }
    }

    /// Notes a message that is in parts.
    pub(crate) fn note_parts(&self, direction: Direction, parts: &[Bytes]) {
        if let Some(connection) = self.watched() {
            connection.note(direction, parts.iter().map(|part| &part[..]), None);
        }
    }

    /// Notes a message over the limit, of which only the beginning is known.
    pub(crate) fn note_cut(&self, direction: Direction, beginning: &[u8], size: usize) {
        if let Some(connection) = self.watched() {
            connection.note(direction, [beginning], Some(size));
        }
    }

    fn watched(&self) -> Option<&Arc<Connection>> {
        self.0.as_ref().filter(|connection| connection.tap.is_open())
    }
}

impl Connection {
    #[cold]
    fn note<'p>(
        self: &Arc<Self>,
        direction: Direction,
        parts: impl IntoIterator<Item = &'p [u8]>,
        size: Option<usize>,
    ) {
        // Copied, because a part of a buffer keeps the whole buffer, which no limit here would count.
        let mut text = BytesMut::new();
        parts.into_iter().for_each(|part| text.extend_from_slice(part));
        text.truncate(text.len() - text.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count());
        if text.trim_ascii().is_empty() {
            return;
        }
        let (text, moment) = (text.freeze(), Moment::now());
        let size = size.unwrap_or(text.len());
        let passed = Passed { moment, connection: Arc::clone(self), direction, text, size };
        for queue in self.tap.watches().iter().filter(|queue| queue.filter.may_select(&self.peer)) {
            queue.push(passed.clone());
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, passed: Passed) {
        let mut state = self.state();
        let fits = state.waiting.len() < MAX_QUEUED && state.bytes + passed.text.len() <= MAX_QUEUED_BYTES;
        if fits || state.waiting.is_empty() {
            state.bytes += passed.text.len();
            let missed = std::mem::take(&mut state.missed);
            state.waiting.push_back((missed, passed));
        } else {
            state.missed += 1;
        }
        drop(state);
        self.added.notify_one();
    }

    fn pop(&self) -> Option<Event> {
        let state = &mut *self.state();
        match state.waiting.front_mut() {
            Some((missed, _)) if *missed > 0 => return Some(Event::Missed(std::mem::take(missed))),
            Some(_) => {}
            None if state.missed > 0 => return Some(Event::Missed(std::mem::take(&mut state.missed))),
            None => return None,
        }
        let (_, passed) = state.waiting.pop_front()?;
        state.bytes -= passed.text.len();
        Some(Event::Passed(Box::new(passed)))
    }
}

impl Watch {
    /// The next event, if there is one.
    pub(crate) fn next_queued(&self) -> Option<Event> {
        loop {
            match self.queue.pop()? {
                Event::Passed(passed) if !self.queue.filter.selects(passed.peer()) => {}
                event => return Some(event),
            }
        }
    }

    /// Waits until there may be an event.
    pub(crate) async fn wait(&self) {
        self.queue.added.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.close();
    }
}

impl Watch {
    /// Adds no more messages. Those that wait can still be taken.
    pub(crate) fn close(&self) {
        let mut watches = self.tap.watches();
        watches.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
        self.tap.0.is_open.store(!watches.is_empty(), Ordering::Relaxed);
    }
}

impl Passed {
    pub(crate) fn peer(&self) -> &Peer {
        &self.connection.peer
    }
}

impl Filter {
    /// Whether messages of this peer are selected, or may be once the peer is known. An agent is known after its first message.
    fn may_select(&self, peer: &Peer) -> bool {
        match (self, peer) {
            (Self::Agent(_), Peer::Agent { client, .. }) if client().is_none() => true,
            _ => self.selects(peer),
        }
    }

    fn selects(&self, peer: &Peer) -> bool {
        match (self, peer) {
            (Self::All, _) => true,
            (Self::Server(server), Peer::Server { name, .. }) => **name == **server,
            (Self::Agent(agent), Peer::Agent { session, client, .. }) => is_agent(agent, *session, client().as_deref()),
            (Self::Server(_), Peer::Agent { .. }) | (Self::Agent(_), Peer::Server { .. }) => false,
        }
    }
}

/// Whether `word` is the number of this session, or the name of its client with or without the version.
pub(crate) fn is_agent(word: &str, session: u64, client: Option<&str>) -> bool {
    let is_client = |client: &str| {
        let name = client.rsplit_once(' ').map_or(client, |(name, _)| name);
        client.eq_ignore_ascii_case(word) || name.eq_ignore_ascii_case(word)
    };
    word.parse() == Ok(session) || client.is_some_and(is_client)
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent { session, .. } => write!(f, "agent {session}"),
            Self::Server { name, connection, .. } => write!(f, "server {name}, connection {connection}"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The texts that wait, and the numbers of missed ones.
    fn received(watch: &Watch) -> Vec<String> {
        let text = |event| match event {
            Event::Passed(passed) => String::from_utf8_lossy(&passed.text).into_owned(),
            Event::Missed(count) => format!("missed {count}"),
        };
        std::iter::from_fn(|| watch.next_queued().map(text)).collect()
    }

    fn unknown_agent(tap: &Tap, session: u64) -> TapPoint {
        tap.of_agent(session, None, || None)
    }

    #[test]
    fn messages_are_noted_only_while_somebody_watches() {
        let tap = Tap::default();
        let point = unknown_agent(&tap, 1);
        point.note(Direction::From, b"before");
        let watch = tap.watch(Filter::All).expect("a place");
        point.note(Direction::From, b"during\n");
        point.note_parts(Direction::To, &["a", "b", "\n"].map(Bytes::from));
        point.note(Direction::From, b" \n");
        TapPoint::default().note(Direction::From, b"nowhere");
        assert_eq!(received(&watch), ["during", "ab"]);
        drop(watch);
        assert!(!point.is_open());
    }

    #[test]
    fn a_full_queue_drops_the_newest_and_reports_their_number_in_their_place() {
        let tap = Tap::default();
        let (point, watch) = (unknown_agent(&tap, 1), tap.watch(Filter::All).expect("a place"));
        (0..MAX_QUEUED + 7).for_each(|number| point.note(Direction::To, number.to_string().as_bytes()));
        assert!(matches!(watch.next_queued(), Some(Event::Passed(_))));
        point.note(Direction::To, b"later");
        let all = received(&watch);
        assert_eq!(all.len(), MAX_QUEUED + 1);
        assert_eq!(all[MAX_QUEUED - 1..], ["missed 7", "later"]);
    }

    #[test]
    fn bytes_are_limited_but_one_message_of_any_size_is_queued() {
        let tap = Tap::default();
        let (point, watch) = (unknown_agent(&tap, 1), tap.watch(Filter::All).expect("a place"));
        point.note(Direction::To, &vec![b'x'; MAX_QUEUED_BYTES + 1]);
        point.note(Direction::To, b"y");
        let all = received(&watch);
        assert_eq!((all[0].len(), &*all[1]), (MAX_QUEUED_BYTES + 1, "missed 1"));
        point.note(Direction::To, b"z");
        assert_eq!(received(&watch), ["z"]);
    }

    #[test]
    fn watches_are_limited_until_one_ends() {
        let tap = Tap::default();
        let mut all: Vec<_> = (0..MAX_WATCHES).map(|_| tap.watch(Filter::All).expect("a place")).collect();
        assert!(tap.watch(Filter::All).is_none());
        all.pop();
        assert!(tap.watch(Filter::All).is_some());
    }

    #[test]
    fn an_agent_is_selected_by_its_name_also_before_it_is_known() {
        let tap = Tap::default();
        let name: Arc<std::sync::OnceLock<String>> = Arc::default();
        let known = Arc::clone(&name);
        let agent = tap.of_agent(3, None, move || known.get().cloned());
        let [by_name, by_number, other] =
            ["Claude-Code", "3", "cursor"].map(|word| tap.watch(Filter::Agent(word.to_owned())).expect("a place"));
        agent.note(Direction::From, b"first");
        tap.of_server(&Arc::from("claude-code"), None).note(Direction::To, b"server");
        name.set("claude-code 2.1".to_owned()).expect("unset");
        agent.note(Direction::From, b"second");
        assert_eq!(received(&by_name), ["first", "second"]);
        assert_eq!(received(&by_number), ["first", "second"]);
        assert!(received(&other).is_empty());
    }
}
