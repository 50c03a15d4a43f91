//! Which line of a server goes where: to the request that it answers, to one that it is about, or to who listens.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::Sender;

use serde_json::Value;

use super::streams::{Stream, Style};
use super::{Answers, Behavior};
use crate::support::http::stream::Writer;

/// The stream for messages outside a request.
pub(super) const COMMON: usize = 0;

/// Where the answer to a request goes.
enum ResponseTarget {
    /// To the thread that has the request.
    Waiting(Sender<String>),
    /// To a stream.
    Stream(usize),
}

/// Open requests and streams of one session.
pub(super) struct Routes {
    behavior: Behavior,
    /// By the id of the request, as JSON.
    requests: HashMap<String, ResponseTarget>,
    /// By the token, as JSON.
    progress: HashMap<String, usize>,
    streams: BTreeMap<usize, Stream>,
}

impl Routes {
    pub(super) fn new(behavior: Behavior) -> Self {
        let streams = BTreeMap::from([(COMMON, Stream::default())]);
        Self { behavior, requests: HashMap::new(), progress: HashMap::new(), streams }
    }

    /// Registers a thread that waits for the response to this request.
    pub(super) fn wait(&mut self, request: &Value, answer: Sender<String>) {
        self.requests.insert(request["id"].to_string(), ResponseTarget::Waiting(answer));
    }

    /// Opens a stream for this request and its messages.
    pub(super) fn stream(&mut self, request: &Value, writer: Writer) {
        let number = self.streams.len();
        self.requests.insert(request["id"].to_string(), ResponseTarget::Stream(number));
        let token = &request["params"]["_meta"]["progressToken"];
        if !token.is_null() {
            self.progress.insert(token.to_string(), number);
        }
        let style = self.style(number);
        self.streams.entry(number).or_default().listen(writer, None, style);
    }

    /// Whether there is a stream with this event.
    pub(super) fn can_resume(&self, event: &str) -> bool {
        place(event).is_some_and(|(stream, _)| self.streams.contains_key(&stream))
    }

    /// Resumes the stream of an event.
    pub(super) fn resume(&mut self, event: &str, writer: Writer) {
        let Some((number, after)) = place(event) else { return };
        let style = self.style(number);
        self.streams.entry(number).or_default().listen(writer, Some(after), style);
    }

    /// Opens the stream for messages outside a request.
    pub(super) fn listen(&mut self, writer: Writer) {
        let style = self.style(COMMON);
        self.common().listen(writer, None, style);
    }

    /// Routes a line of the server.
    pub(super) fn take(&mut self, line: &str) {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let id = message["id"].to_string();
        if message["method"].is_null()
            && let Some(target) = self.requests.remove(&id)
        {
            match target {
                ResponseTarget::Waiting(sender) => drop(sender.send(line.to_owned())),
                ResponseTarget::Stream(number) => {
                    self.send(number, line);
                    self.streams.entry(number).or_default().finish();
                }
            }
            return;
        }
        let token = message["params"]["progressToken"].to_string();
        let about = match message["method"].as_str() {
            Some("notifications/progress") => self.progress.get(&token).copied(),
            Some(_) if !message["id"].is_null() => self.newest_request(),
            Some(_) if self.behavior.is_stateless => {
                let subscription = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
                self.stream_of(subscription).or_else(|| self.newest_request())
            }
            _ => None,
        };
        let open = about.filter(|number| self.streams.get(number).is_some_and(|stream| !stream.is_done()));
        self.send(open.unwrap_or(COMMON), line);
    }

    /// Whether this request has no answer yet.
    pub(super) fn is_awaited(&self, id: &Value) -> bool {
        self.requests.contains_key(&id.to_string())
    }

    /// Whether the client has closed the stream of this request.
    pub(super) fn is_stream_closed(&self, id: &Value) -> bool {
        self.stream_of(id).and_then(|number| self.streams.get(&number)).is_some_and(Stream::is_closed)
    }

    fn stream_of(&self, id: &Value) -> Option<usize> {
        match self.requests.get(&id.to_string())? {
            ResponseTarget::Stream(number) => Some(*number),
            ResponseTarget::Waiting(_) => None,
        }
    }

    pub(super) fn cut(&mut self) {
        self.streams.values_mut().for_each(Stream::cut);
    }

    pub(super) fn end_streams(&mut self) {
        self.streams.values_mut().for_each(Stream::end_connection);
    }

    pub(super) fn has_listener(&self) -> bool {
        self.streams.get(&COMMON).is_some_and(Stream::is_open)
    }

    /// Whether the client has closed the stream for messages outside a request.
    pub(super) fn is_closed(&self) -> bool {
        self.streams.get(&COMMON).is_some_and(Stream::is_closed)
    }

    /// The server has ended.
    pub(super) fn end(&mut self) {
        self.cut();
        self.requests.clear();
    }

    fn newest_request(&self) -> Option<usize> {
        let streams = self.requests.values().filter_map(|target| match target {
            ResponseTarget::Stream(number) => Some(*number),
            ResponseTarget::Waiting(_) => None,
        });
        streams.max()
    }

    fn send(&mut self, number: usize, line: &str) {
        let style = self.style(number);
        self.streams.entry(number).or_default().send(line, style);
    }

    fn common(&mut self) -> &mut Stream {
        self.streams.entry(COMMON).or_default()
    }

    fn style(&self, number: usize) -> Style {
        let is_old = self.behavior.answers == Answers::Old;
        Style { number, has_ids: self.behavior.has_event_ids && !is_old, retry: self.behavior.retry }
    }
}

/// The stream and the number of an event, by its id.
fn place(event: &str) -> Option<(usize, usize)> {
    let (stream, event) = event.split_once('-')?;
    Some((stream.parse().ok()?, event.parse().ok()?))
}
