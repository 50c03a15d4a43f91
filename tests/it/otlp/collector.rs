//! A collector that decodes what it receives.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::http::{HttpServer, Lock, Request, Response};
use crate::support::until;

/// A span, with ids as hexadecimal digits.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    /// Empty for the first span of a trace.
    pub(super) parent: String,
    pub(super) name: String,
    pub(super) kind: u64,
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) attributes: BTreeMap<String, Value>,
    pub(super) is_error: bool,
    pub(super) flags: u64,
}

/// Kinds of spans.
pub(super) const SERVER: u64 = 2;
pub(super) const CLIENT: u64 = 3;

/// Keeps the spans of the requests that it accepts.
pub(super) struct Collector {
    http: HttpServer,
    spans: Arc<Lock<Vec<Span>>>,
}

impl Collector {
    pub(super) fn start() -> Self {
        Self::answering("127.0.0.1:0".parse().expect("an address"), |_| 200)
    }

    /// At this address. `answer` has the status for each request, by its number.
    pub(super) fn answering(address: SocketAddr, answer: impl Fn(usize) -> u16 + Send + Sync + 'static) -> Self {
        let (spans, count) = (Arc::new(Lock::new(Vec::new())), Lock::new(0));
        let kept = Arc::clone(&spans);
        let http = HttpServer::start_at(address, move |request| {
            let number = *count.lock();
            *count.lock() += 1;
            let status = answer(number);
            if status == 200 {
                kept.lock().extend(decode(request));
            }
            Response::status(status)
        });
        Self { http, spans }
    }

    pub(super) fn http(&self) -> &HttpServer {
        &self.http
    }

    /// The head of a configuration with this collector.
    pub(super) fn head(&self) -> String {
        head(self.http.address())
    }

    pub(super) fn spans(&self) -> Vec<Span> {
        self.spans.lock().clone()
    }

    /// Waits for this many spans.
    pub(super) fn wait(&self, count: usize) -> Vec<Span> {
        until(&format!("the collector has {count} spans"), || Some(self.spans()).filter(|spans| spans.len() >= count))
    }

    /// All that it has received, as text.
    pub(super) fn text(&self) -> String {
        let requests = self.http.requests();
        requests.iter().map(|request| request.head() + &String::from_utf8_lossy(&request.body)).collect()
    }
}

/// The head of a configuration with a collector at this address.
pub(super) fn head(address: SocketAddr) -> String {
    format!("[daemon]\notlp_endpoint = \"http://{address}\"")
}

/// The spans of a request. Source: github.com/open-telemetry/opentelemetry-proto, `trace/v1/trace.proto`.
fn decode(request: &Request) -> Vec<Span> {
    assert_eq!((&*request.method, &*request.path), ("POST", "/v1/traces"));
    assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
    let mut spans = Vec::new();
    for resource_spans in Message::of(&request.body).messages(1) {
        let resource = attributes(&resource_spans.messages(1)[0], 1);
        assert_eq!(resource["service.name"], "mcpd");
        for scope_spans in resource_spans.messages(2) {
            assert_eq!(scope_spans.messages(1)[0].text(1), "mcpd");
            spans.extend(scope_spans.messages(2).iter().map(span));
        }
    }
    spans
}

fn span(span: &Message<'_>) -> Span {
    let id = |number| span.bytes(number).iter().map(|byte| format!("{byte:02x}")).collect();
    Span {
        trace: id(1),
        id: id(2),
        parent: id(4),
        name: span.text(5),
        kind: span.number(6),
        began: span.number(7),
        ended: span.number(8),
        attributes: attributes(span, 9),
        is_error: span.messages(15).first().is_some_and(|status| status.number(3) == 2),
        flags: span.number(16),
    }
}

fn attributes(message: &Message<'_>, number: u64) -> BTreeMap<String, Value> {
    let attribute = |attribute: &Message<'_>| {
        let value = &attribute.messages(2)[0];
        let value = if value.has(1) { json!(value.text(1)) } else { json!(value.number(3)) };
        (attribute.text(1), value)
    };
    message.messages(number).iter().map(attribute).collect()
}

/// The fields of a message in the encoding of Protocol Buffers. Source: protobuf.dev/programming-guides/encoding.
struct Message<'a>(Vec<(u64, Field<'a>)>);

#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Message<'a> {
    fn of(mut rest: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let key = varint(&mut rest);
            let field = match key & 7 {
                0 => Field::Number(varint(&mut rest)),
                1 => Field::Number(u64::from_le_bytes(take(&mut rest, 8).try_into().expect("8 bytes"))),
                2 => {
                    let length = varint(&mut rest);
                    Field::Bytes(take(&mut rest, usize::try_from(length).expect("a length")))
                }
                5 => Field::Number(u32::from_le_bytes(take(&mut rest, 4).try_into().expect("4 bytes")).into()),
                other => panic!("no wire type: {other}"),
            };
            fields.push((key >> 3, field));
        }
        Self(fields)
    }

    fn fields(&self, number: u64) -> impl Iterator<Item = Field<'a>> {
        self.0.iter().filter(move |(other, _)| *other == number).map(|(_, field)| *field)
    }

    fn has(&self, number: u64) -> bool {
        self.fields(number).next().is_some()
    }

    /// 0 if it is absent, as the encoding says.
    fn number(&self, number: u64) -> u64 {
        match self.fields(number).last() {
            Some(Field::Number(number)) => number,
            Some(Field::Bytes(_)) => panic!("field {number} is no number"),
            None => 0,
        }
    }

    fn bytes(&self, number: u64) -> &'a [u8] {
        match self.fields(number).last() {
            Some(Field::Bytes(bytes)) => bytes,
            Some(Field::Number(_)) => panic!("field {number} is a number"),
            None => &[],
        }
    }

    fn text(&self, number: u64) -> String {
        String::from_utf8(self.bytes(number).to_vec()).expect("text")
    }

    fn messages(&self, number: u64) -> Vec<Self> {
        let bytes = |field| match field {
            Field::Bytes(bytes) => Self::of(bytes),
            Field::Number(_) => panic!("field {number} is no message"),
        };
        self.fields(number).map(bytes).collect()
    }
}

fn varint(rest: &mut &[u8]) -> u64 {
    let length = rest.iter().position(|byte| byte & 0x80 == 0).expect("an end") + 1;
    take(rest, length).iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(length);
    *rest = left;
    taken
}
