//! Messages of an agent, each read once. Pure.
//!
//! The reader of a session parses params together with the envelope, so that large params are parsed on a helper thread.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::agent::CWD;
use super::received_call::ReceivedCall;
use crate::clock::Moment;
use crate::era::request_meta::{Meta, MetaError, ModernMeta, SERVER};
use crate::jsonrpc::members::{members, members_of_parsed};
use crate::jsonrpc::splice::{applied, cut, without};
use crate::jsonrpc::{Message, MessageError, parse};
use crate::methods::{
    self, AnsweredBy, EXTENSION, Forwarding, Method, NotificationMeaning, OwnMethod, may_be_extension_request,
};
use crate::transport::Incoming;

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most messages are requests, and a box would cost each an allocation")]
pub(crate) enum AgentMessage {
    Request(Request),
    Notification(Notification),
    Response {
        /// Without its newline.
        line: Bytes,
        /// Raw JSON.
        id: Bytes,
    },
    Malformed(MessageError),
    /// The message is over the message cap.
    TooLarge {
        /// The id, if it could be read.
        id: Option<Bytes>,
        is_response: bool,
        /// In bytes.
        size: usize,
    },
}

#[derive(Debug)]
pub(crate) struct Request {
    /// Raw JSON.
    pub(super) id: Bytes,
    /// The row of its method; `None` for one that agents cannot request: of a server, or of a notification.
    pub(super) method: Option<&'static Method>,
    /// The method as sent.
    pub(super) method_name: Bytes,
    /// Raw JSON.
    pub(super) params: Option<Bytes>,
    /// The same as a call, if a server answers it.
    pub(super) call: Option<Result<ReceivedCall, MetaError>>,
    /// The metadata of a modern request; `None` for a legacy one.
    pub(super) modern: Result<Option<ModernMeta>, MetaError>,
    /// The server whose face a modern request uses.
    pub(super) face: Option<Arc<str>>,
}

/// The directory that a modern request states, as a digest of what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatedDirectory([u8; 32]);

#[derive(Debug)]
pub(crate) struct Notification {
    /// Without its newline.
    pub(super) line: Bytes,
    pub(super) method: Bytes,
    /// What it means, if it is one of MCP or of mcpd.
    pub(super) meaning: Option<NotificationMeaning>,
    /// The id, token or name of what the notification is about, raw, for methods that have one.
    pub(super) about: Option<Bytes>,
    /// The raw id with which the agent has sent it, and so expects a response.
    pub(super) id: Option<Bytes>,
}

impl From<Incoming> for AgentMessage {
    fn from(incoming: Incoming) -> Self {
        match incoming {
            Incoming::Message { line, message: Message::Request { id, method, .. } }
                if method.starts_with(b"notifications/") =>
            {
                Self::notification_with(id, &line)
            }
            Incoming::Message { line, message: Message::Request { id, method, params } } => {
                Self::Request(Request::parse(line, id, method, params))
            }
            Incoming::Message { line, message: Message::Notification { method, params } } => {
                let known = methods::find_notification(&method);
                let about = known.and_then(|known| known.about).zip(params);
                let about =
                    about.and_then(|(member, params)| members_of_parsed(&params, [member]).ok().and_then(|[raw]| raw));
                let meaning = known.map(|known| known.meaning);
                Self::Notification(Notification { line, method, meaning, about, id: None })
            }
            Incoming::Message { line, message: Message::Response { id, .. } } => Self::Response { line, id },
            Incoming::Malformed(malformed) => Self::Malformed(malformed),
            Incoming::Unclear(unclear) => Self::Malformed(unclear.error),
            Incoming::TooLarge { id, is_response, size } => Self::TooLarge { id, is_response, size },
        }
    }
}

impl AgentMessage {
    /// The raw id of the response that the message gets, if it gets one.
    pub(crate) fn answered_id(&self) -> Option<&Bytes> {
        match self {
            Self::Request(request) => Some(&request.id),
            Self::Notification(notification) => notification.id.as_ref(),
            Self::Response { .. } | Self::Malformed(_) | Self::TooLarge { .. } => None,
        }
    }

    /// The raw id of the request that the message cancels, if it cancels one.
    pub(crate) fn cancelled_id(&self) -> Option<&Bytes> {
        match self {
            Self::Notification(Notification { meaning: Some(NotificationMeaning::Cancelled), about, .. }) => {
                about.as_ref()
            }
            _ => None,
        }
    }

    /// `notifications/cancelled` of the request with this raw id.
    pub(crate) fn cancellation(id: &[u8]) -> Self {
        let (head, tail) = (r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#, "}}");
        Incoming::of([head.as_bytes(), id, tail.as_bytes()].concat().into()).into()
    }

    /// The directory that a request states; the digest of an empty text if it states none. `None` for other messages.
    pub(crate) fn stated_directory(&self) -> Option<StatedDirectory> {
        let Self::Request(Request { params, .. }) = self else { return None };
        let meta = params.as_ref().and_then(|params| members_of_parsed(params, ["_meta"]).ok()).and_then(|[meta]| meta);
        let stated = meta.and_then(|meta| members(&meta, [CWD]).ok()).and_then(|[cwd]| cwd);
        Some(StatedDirectory(Sha256::digest(stated.as_deref().unwrap_or_default()).into()))
    }

    /// Whether it is `initialize`.
    pub(crate) fn is_initialize(&self) -> bool {
        matches!(self, Self::Request(Request { method: Some(method), .. })
            if method.answered_by == AnsweredBy::Daemon(OwnMethod::Initialize))
    }

    /// Whether it is a request that declares a version of the modern era, or tries to. `Err` if what it declares is malformed.
    pub(crate) fn is_modern(&self) -> Result<bool, &MetaError> {
        match self {
            Self::Request(request) => request.modern.as_ref().map(Option::is_some),
            _ => Ok(false),
        }
    }

    /// The same message; a modern request uses the face of `server`.
    pub(crate) fn at_face(mut self, server: &Arc<str>) -> Self {
        if let Self::Request(request) = &mut self
            && matches!(request.modern, Ok(Some(_)))
        {
            request.face = Some(Arc::clone(server));
            if let Some(Ok(call)) = &mut request.call {
                call.face = Some(Arc::clone(server));
            }
        }
        self
    }

    /// A notification that the agent has sent with an id.
    fn notification_with(id: Bytes, line: &Bytes) -> Self {
        let line = without(line, &["id"]).map(|changes| Bytes::from(applied(line, &changes))).unwrap_or_default();
        match Incoming::of(line).into() {
            Self::Notification(notification) => Self::Notification(Notification { id: Some(id), ..notification }),
            _ => Self::Malformed(MessageError::NotAMessage { id: Some(id) }),
        }
    }
}

impl Request {
    fn parse(line: Bytes, id: Bytes, name: Bytes, params: Option<Bytes>) -> Self {
        let request = Self::read(line, id, name, params);
        match &request.call {
            Some(Ok(ReceivedCall { line, face: Some(face), .. })) => {
                Self::read_without_face(line, face).unwrap_or(request)
            }
            _ => request,
        }
    }

    /// Reads a request to `face` again, without the member that names the face: the server does not receive it.
    fn read_without_face(line: &Bytes, face: &Arc<str>) -> Option<Self> {
        let [params] = members_of_parsed(line, ["params"]).ok()?;
        let [meta] = members_of_parsed(&params?, ["_meta"]).ok()?;
        let line = Bytes::from(applied(line, &cut(&meta?, [SERVER]).ok()?.changes));
        let Ok(Message::Request { id, method, params }) = parse(&line) else { return None };
        let mut request = Self::read(line, id, method, params);
        request.face = Some(Arc::clone(face));
        if let Some(Ok(call)) = &mut request.call {
            call.face.clone_from(&request.face);
        }
        Some(request)
    }

    fn read(line: Bytes, id: Bytes, name: Bytes, params: Option<Bytes>) -> Self {
        let method = methods::find(&name).or_else(|| may_be_extension_request(&name).then_some(EXTENSION));
        let call = match method {
            Some(&Method { answered_by: AnsweredBy::Server(Forwarding::Extension), .. }) => {
                Some(ReceivedCall::read_extension(&name, line, &id, params.as_ref(), Moment::now()))
            }
            Some(method @ &Method { answered_by: AnsweredBy::Server(forwarding), .. }) => {
                Some(ReceivedCall::read(method, forwarding, line, &id, params.as_ref(), Moment::now()))
            }
            _ => None,
        };
        let (modern, face) = match &call {
            Some(Ok(call)) => (Ok(call.modern), call.face.clone()),
            // The era of a malformed request is the one that it declares.
            _ => match Meta::of(params.as_ref()) {
                Ok(meta) => (Ok(meta.modern), meta.face),
                Err(error) => (Err(error), None),
            },
        };
        Self { id, method, method_name: name, params, call, modern, face }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &'static str) -> AgentMessage {
        Incoming::of(Bytes::from_static(line.as_bytes())).into()
    }

    #[test]
    fn params_are_parsed_with_the_envelope() {
        let call = parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#);
        let AgentMessage::Request(Request { call: Some(Ok(request)), modern: Ok(None), .. }) = call else {
            panic!("{call:?}")
        };
        assert_eq!(&request.exposed_name[..], b"a");
        let ping = parse(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        assert!(
            matches!(ping, AgentMessage::Request(Request { method: Some(_), call: None, modern: Ok(None), .. })),
            "{ping:?}"
        );
        let malformed = parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}"#);
        assert!(matches!(malformed, AgentMessage::Request(Request { call: Some(Err(_)), .. })), "{malformed:?}");
    }

    #[test]
    fn notifications_have_the_subject_of_their_method() {
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}"#, Some("\"7\"")),
            (r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7}}"#, Some("7")),
            (r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"requestId":7}}"#, None),
            (r#"{"jsonrpc":"2.0","method":"notifications/progress","params":[7]}"#, None),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, None),
        ] {
            let AgentMessage::Notification(notification) = parse(line) else { panic!("{line}") };
            assert_eq!(notification.about.as_deref(), expected.map(str::as_bytes), "{line}");
        }
    }
}
