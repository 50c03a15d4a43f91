//! What follows from each end of a request of mcpd. The test is the server.

use std::future::poll_fn;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use super::*;
use crate::jsonrpc::{MessageError, parse};
use crate::list_kind::{ListKind, PerKind};
use crate::log_level::LogLevel;
use crate::message_limit;
use crate::transport::http::RequestError;
use crate::transport::{Arrival, Incoming};

const LEGACY: &str = "2025-11-25";
const LATER: Duration = Duration::from_secs(60 * 60);

/// An instance, and the end of its link that the server has.
struct Connection {
    instance: Instance,
    stdin: std::io::PipeReader,
    _stdout: pipe::Sender,
}

/// How a request ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Result,
    Error,
    Malformed,
    NoResponse,
    Expired,
}

impl Connection {
    fn new(protocol: &'static str) -> Self {
        let (stdin, writer) = std::io::pipe().expect("a pipe");
        let writer = pipe::Sender::from_owned_fd(OwnedFd::from(writer)).expect("a sender");
        let (stdout, reader) = pipe::pipe().expect("a pipe");
        let config = Arc::new(ServerConfig::new("s", "x"));
        let limit = MessageLimit::new("servers.s", None, message_limit::DEFAULT);
        let setup = InstanceSetup {
            config,
            scope: AgentScope::Any,
            label: None,
            stats: Arc::default(),
            message_limit: limit,
            tap: TapPoint::default(),
        };
        let mut instance = Instance::new(Link::pipes(writer, reader, message_limit::DEFAULT), setup);
        instance.wire.negotiated(protocol);
        Self { instance, stdin, _stdout: stdout }
    }

    /// The server sends this line.
    fn receive(&mut self, line: String) -> Vec<String> {
        let line = Bytes::from(line);
        let message = parse(&line).expect("a message");
        shown(self.instance.handle_message(Incoming::Message { line, message }))
    }

    fn expire(&mut self) -> Vec<String> {
        shown(self.instance.expire(Instant::now() + LATER))
    }

    /// Ends the request with this id.
    fn end(&mut self, id: u64, end: End) -> Vec<String> {
        match end {
            End::Result => self.receive(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)),
            End::Error => self.receive(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"no"}}}}"#)),
            End::Malformed => {
                let error = MessageError::BadResponse { id: id.to_string().into() };
                shown(self.instance.handle_message(Incoming::Malformed(error)))
            }
            End::NoResponse => {
                let error = RequestError::NoResponse { media_type: None };
                shown(self.instance.arrive(Arrival::RequestFailed { request: id, error }))
            }
            End::Expired => self.expire(),
        }
    }

    /// Everything that the server has received.
    async fn received(mut self) -> String {
        while self.instance.wire.has_unwritten() {
            poll_fn(|cx| self.instance.wire.poll_write(cx)).await.expect("the server reads");
        }
        drop(self.instance);
        let mut received = String::new();
        self.stdin.read_to_string(&mut received).expect("text");
        received
    }
}

/// The effects, each in a few words.
fn shown(effects: impl IntoIterator<Item = Effect>) -> Vec<String> {
    let show = |effect| match effect {
        Effect::Listed { kind, list, .. } => format!("{kind:?}: {} items", list.items.len()),
        Effect::ListFailed { kind, partial, .. } => {
            format!("{kind:?} failed after {} items", partial.map_or(0, |list| list.items.len()))
        }
        Effect::Checked(_) => "checked".to_owned(),
        Effect::Subscribed(subscription) => format!("subscribed to {:?}", subscription.uri),
        Effect::TopicsAnswered { accepted, refused } => format!("{} accepted, {refused:?} refused", accepted.len()),
        Effect::SubscribeRefused(uri) => format!("{uri:?} refused"),
        Effect::Notify { .. } => "notified".to_owned(),
    };
    effects.into_iter().map(show).collect()
}

fn start_lists(instance: &mut Instance, kinds: &[ListKind]) {
    instance.lists.start(&mut instance.wire, PerKind::from_fn(|kind| kinds.contains(&kind)));
}

fn subscribe_again(instance: &mut Instance) {
    let uri = Bytes::from_static(b"x://1");
    instance.subscriptions.subscribe_quietly(&mut instance.wire, &uri, &Bytes::from_static(b"\"x://1\""));
}

#[tokio::test]
async fn each_list_that_times_out_at_one_time_is_reported() {
    let mut connection = Connection::new(LEGACY);
    start_lists(&mut connection.instance, &[ListKind::Tools, ListKind::Prompts, ListKind::Resources]);
    let first = connection.instance.wire.next_id() - 3;
    let page = r#"{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"x"}"#;
    assert!(connection.receive(format!(r#"{{"jsonrpc":"2.0","id":{first},"result":{page}}}"#)).is_empty());
    let mut reported = connection.expire();
    reported.sort();
    let expected = ["Prompts failed after 0 items", "Resources failed after 0 items", "Tools failed after 1 items"];
    assert_eq!(reported, expected);
    assert!(connection.expire().is_empty(), "each is reported once");
}

/// The kind of a request, how it begins, and the effects of its ends: a result, an error, a malformed response, no response, and none in
/// time.
type Row = (&'static str, fn(&mut Instance), [&'static [&'static str]; 5]);

const ROWS: &[Row] = &[
    ("page", |instance| start_lists(instance, &[ListKind::Prompts]), [&["Prompts failed after 0 items"]; 5]),
    (
        "check",
        |instance| instance.health.check(&mut instance.wire, oneshot::channel().0, ListKind::Tools),
        [&["checked"], &["checked"], &["checked"], &["checked"], &[]],
    ),
    (
        "renewed subscription",
        subscribe_again,
        [&[], &["b\"x://1\" refused"], &["b\"x://1\" refused"], &["b\"x://1\" refused"], &["b\"x://1\" refused"]],
    ),
    ("ping", |instance| instance.health.ping(&mut instance.wire), [&[]; 5]),
    ("list in place of a ping", |instance| instance.health.probe(&mut instance.wire, ListKind::Tools), [&[]; 5]),
    (
        "unsubscription",
        |instance| instance.subscriptions.unsubscribe(&mut instance.wire, &Bytes::from_static(b"\"x://1\"")),
        [&[]; 5],
    ),
];

#[tokio::test]
async fn end_of_each_request_has_its_effects() {
    for (name, begin, expected) in ROWS {
        let ends = [End::Result, End::Error, End::Malformed, End::NoResponse, End::Expired];
        for (end, expected) in ends.into_iter().zip(expected) {
            let mut connection = Connection::new(LEGACY);
            begin(&mut connection.instance);
            let id = connection.instance.wire.next_id() - 1;
            assert_eq!(connection.end(id, end), *expected, "{name}: {end:?}");
        }
    }
}

/// A server that has not refused a subscription may have accepted it.
#[tokio::test]
async fn renewed_subscription_without_a_usable_response_is_ended_at_the_server() {
    for (end, is_ended) in [
        (End::Result, false),
        (End::Error, false),
        (End::Malformed, true),
        (End::NoResponse, true),
        (End::Expired, true),
    ] {
        let mut connection = Connection::new(LEGACY);
        subscribe_again(&mut connection.instance);
        let id = connection.instance.wire.next_id() - 1;
        connection.end(id, end);
        let received = connection.received().await;
        assert_eq!(received.contains("\"resources/unsubscribe\""), is_ended, "{end:?}: {received}");
    }
}

#[tokio::test]
async fn log_level_is_set_again_after_each_end_of_a_request_for_another() {
    for end in [End::Result, End::Error, End::Malformed, End::NoResponse, End::Expired] {
        let mut connection = Connection::new(LEGACY);
        let instance = &mut connection.instance;
        instance.logging.declare(true);
        instance.logging.set_level(&mut instance.wire, Some(LogLevel::Info));
        instance.logging.set_level(&mut instance.wire, Some(LogLevel::Debug));
        let id = instance.wire.next_id() - 1;
        assert!(connection.end(id, end).is_empty());
        let received = connection.received().await;
        assert_eq!(received.matches("\"logging/setLevel\"").count(), 2, "{end:?}: {received}");
        assert!(received.contains("\"debug\""), "{end:?}: {received}");
    }
}
