//! The parts of an agent's request that leads to a server, found by range. Pure.
//!
//! Source: MCP 2025-11-25, `server/tools`, `server/prompts`, `server/resources`, `server/utilities/completion`.

use std::sync::Arc;

use bytes::Bytes;

use crate::catalog::{Catalog, Route};
use crate::era::Era;
use crate::era::stated::{Meta, Stated, Unreadable};
use crate::jsonrpc::members::{members, text};
use crate::kind::Kind;
use crate::moment::Moment;
use crate::server::Subscription;
use crate::server::messages::call::{RequestKind, Subject, Target};
use crate::server::messages::tasks::{TaskAct, TaskAsk};

/// What is wrong with params of which nothing can be read.
const NOT_READABLE: &str = "`params` is missing, no object, or says a thing twice";

/// A request that was read and not routed yet. All but a name with escapes are slices of the line.
#[derive(Debug)]
pub struct Asked {
    /// What is asked.
    pub method: Method,
    /// The whole request, without its newline.
    pub line: Bytes,
    /// Raw JSON.
    pub id: Bytes,
    /// What it is about.
    pub subject: Subject,
    /// The exposed name, the URI or the id of a task, raw.
    pub raw_key: Bytes,
    /// The same as text.
    pub key: Bytes,
    /// Raw JSON.
    pub progress_token: Option<Bytes>,
    /// A task is to be made of it.
    pub makes_task: bool,
    /// What it states of itself, if it is of the modern era.
    pub stated: Option<Stated>,
    /// When it was read.
    pub at: Moment,
}

/// Where it leads.
#[derive(Debug, Clone, Copy)]
pub enum Lead<'a> {
    /// To what has another name there.
    Route(&'a Route),
    /// To the server of this index, where it has the same name.
    Server(usize),
}

/// The methods whose requests lead to one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `tools/call`
    Call,
    /// `prompts/get`
    Get,
    /// `resources/read`
    Read,
    /// `resources/subscribe`
    Subscribe,
    /// `resources/unsubscribe`
    Unsubscribe,
    /// `completion/complete`
    Complete,
    /// `tasks/get`, `tasks/cancel`, `tasks/result`
    Task(TaskAct),
    /// `tasks/update`
    UpdateTask,
}

/// What a request's params say, raw.
struct Params {
    subject: Subject,
    /// What tells that from others of its kind.
    key: Option<Bytes>,
    meta: Option<Bytes>,
    makes_task: bool,
}

impl Method {
    /// The one of that name.
    #[must_use]
    pub fn named(method: &[u8]) -> Option<Self> {
        match method {
            b"tools/call" => Some(Self::Call),
            b"prompts/get" => Some(Self::Get),
            b"resources/read" => Some(Self::Read),
            b"resources/subscribe" => Some(Self::Subscribe),
            b"resources/unsubscribe" => Some(Self::Unsubscribe),
            b"completion/complete" => Some(Self::Complete),
            b"tasks/get" => Some(Self::Task(TaskAct::Get)),
            b"tasks/cancel" => Some(Self::Task(TaskAct::Cancel)),
            b"tasks/result" => Some(Self::Task(TaskAct::Result)),
            b"tasks/update" => Some(Self::UpdateTask),
            _ => None,
        }
    }

    /// What its params say.
    fn read(self, params: &Bytes) -> Result<Params, &'static str> {
        let plain = |subject, key, meta| Params { subject, key, meta, makes_task: false };
        let (subject, key) = match self {
            Self::Call => {
                let [key, meta, task] = members(params, ["name", "_meta", "task"]).map_err(|_| NOT_READABLE)?;
                let makes_task = task.is_some_and(|raw| raw[..] != b"null"[..]);
                return Ok(Params { makes_task, ..plain(Subject::Call, key, meta) });
            }
            Self::Task(_) | Self::UpdateTask => (Subject::Task, "taskId"),
            Self::Get => (Subject::Prompt, "name"),
            Self::Read | Self::Subscribe | Self::Unsubscribe => (Subject::Resource, "uri"),
            Self::Complete => {
                let [reference, meta] = members(params, ["ref", "_meta"]).map_err(|_| NOT_READABLE)?;
                let reference = reference.and_then(|raw| members(&raw, ["type", "name", "uri"]).ok());
                let Some([kind, name, uri]) = reference else { return Err("`ref` is missing or malformed") };
                return match kind.as_deref() {
                    Some(br#""ref/prompt""#) => Ok(plain(Subject::Prompt, name, meta)),
                    Some(br#""ref/resource""#) => Ok(plain(Subject::Resource, uri, meta)),
                    _ => Err("`ref` is neither of a prompt nor of a resource"),
                };
            }
        };
        let [key, meta] = members(params, [key, "_meta"]).map_err(|_| NOT_READABLE)?;
        Ok(plain(subject, key, meta))
    }
}

impl Asked {
    /// What the request `line` with this id and these params asks for, read `at` this moment.
    ///
    /// # Errors
    /// What is wrong with its params.
    pub fn read(
        method: Method,
        line: Bytes,
        id: &Bytes,
        params: Option<&Bytes>,
        at: Moment,
    ) -> Result<Self, Unreadable> {
        let params = params.ok_or(Unreadable::Malformed(NOT_READABLE))?;
        let Params { subject, key, meta, makes_task } = method.read(params).map_err(Unreadable::Malformed)?;
        // Which era it is of comes before what is wrong with the rest.
        let Meta { progress_token, stated } = Meta::read(meta.as_ref())?;
        let Some((raw_key, key)) = key.and_then(|raw| Some((raw.clone(), text(&raw)?))) else {
            return Err(Unreadable::Malformed(match subject {
                Subject::Call | Subject::Prompt => "`name` is missing or not a string",
                Subject::Resource => "`uri` is missing or not a string",
                Subject::Task => "`taskId` is missing or not a string",
            }));
        };
        // What would ask for one is of the legacy era.
        let makes_task = makes_task && stated.is_none();
        Ok(Self { method, line, id: id.clone(), subject, raw_key, key, progress_token, makes_task, stated, at })
    }

    /// What its listener has to expose for it, if it leads there.
    #[must_use]
    pub fn target(&self, lead: Lead<'_>) -> Option<Target> {
        let named = |kind, route: &Route| {
            let exposed = Bytes::copy_from_slice(&self.key);
            Some(Target::Named { kind, exposed, name: Arc::clone(&route.name) })
        };
        match (self.subject, lead) {
            (Subject::Call, Lead::Route(route)) => named(Kind::Tools, route),
            (Subject::Prompt, Lead::Route(route)) => named(Kind::Prompts, route),
            // An agent may end a subscription to what is not exposed any more.
            (Subject::Resource, _) if self.method == Method::Unsubscribe => None,
            (Subject::Resource, _) => Some(Target::Uri(Bytes::copy_from_slice(&self.key))),
            _ => None,
        }
    }

    /// Where it leads; `None` for what is unknown and for what is denied alike.
    #[must_use]
    pub fn lead<'a>(&self, catalog: &'a Catalog) -> Option<Lead<'a>> {
        match self.subject {
            Subject::Call => catalog.route(Kind::Tools, &self.key).map(Lead::Route),
            Subject::Prompt => catalog.route(Kind::Prompts, &self.key).map(Lead::Route),
            Subject::Resource => catalog.server_of(std::str::from_utf8(&self.key).ok()?).map(Lead::Server),
            // Only who had it made knows where it is.
            Subject::Task => None,
        }
    }

    /// The era that it is of.
    pub(super) fn era(&self) -> Era {
        if self.stated.is_some() { Era::Modern } else { Era::Legacy }
    }

    /// What it is about, beside itself.
    pub(super) fn matter(&self) -> RequestKind {
        let begins = match self.method {
            Method::Call if self.makes_task => return RequestKind::NewTask,
            Method::Call if self.takes_tasks() => return RequestKind::MayBeTask,
            Method::Task(act) => {
                return RequestKind::Task(Box::new(TaskAsk { id: Bytes::copy_from_slice(&self.key), act }));
            }
            Method::Subscribe => true,
            Method::Unsubscribe => false,
            Method::Call | Method::Get | Method::Read | Method::Complete | Method::UpdateTask => {
                return RequestKind::Nothing;
            }
        };
        // Copied, for it outlives the line.
        let [uri, raw] = [&self.key, &self.raw_key].map(|part| Bytes::copy_from_slice(part));
        RequestKind::Subscription(Box::new(Subscription { uri, raw, begins }))
    }

    /// Whether it declares that its agent understands tasks of the modern era.
    pub(super) fn takes_tasks(&self) -> bool {
        self.stated.is_some_and(|stated| stated.takes_tasks)
    }

    /// What of a task is asked, if anything.
    pub(super) fn task_act(&self) -> Option<TaskAct> {
        match self.method {
            Method::Task(act) => Some(act),
            _ => None,
        }
    }

    /// What the tool is asked with, raw.
    pub(super) fn arguments(&self) -> Option<Bytes> {
        let [params] = members(&self.line, ["params"]).ok()?;
        let [arguments] = members(&params?, ["arguments"]).ok()?;
        arguments
    }
}

impl Lead<'_> {
    /// The index of the server.
    #[must_use]
    pub fn server(&self) -> usize {
        match self {
            Self::Route(route) => route.server,
            Self::Server(server) => *server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, params: &str, expected: Result<(Subject, &str), &'static str>) {
        let params = Bytes::copy_from_slice(params.as_bytes());
        let method = Method::named(method.as_bytes()).expect("a method");
        let asked = Asked::read(method, params.clone(), &Bytes::from_static(b"1"), Some(&params), Moment(0));
        let found = asked.as_ref().map(|asked| (asked.subject, std::str::from_utf8(&asked.key).expect("text")));
        let expected = expected.map_err(Unreadable::Malformed);
        assert_eq!(found.map_err(Clone::clone), expected, "{params:?}");
    }

    #[test]
    fn says_what_a_request_is_about() {
        check("tools/call", r#"{"name":"a\u0062"}"#, Ok((Subject::Call, "ab")));
        check("tasks/get", r#"{"taskId":"\u0074"}"#, Ok((Subject::Task, "t")));
        check("prompts/get", r#"{"name":"p"}"#, Ok((Subject::Prompt, "p")));
        check("resources/read", r#"{"uri":"x://y"}"#, Ok((Subject::Resource, "x://y")));
        check("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"p"}}"#, Ok((Subject::Prompt, "p")));
        check("completion/complete", r#"{"ref":{"type":"ref/resource","uri":"u"}}"#, Ok((Subject::Resource, "u")));
    }

    #[test]
    fn a_call_says_whether_a_task_is_to_be_made_of_it() {
        for (params, expected) in [
            (r#"{"name":"a","task":{}}"#, true),
            (r#"{"name":"a","task":{"ttl":5},"x":1}"#, true),
            (r#"{"name":"a","task":null}"#, false),
            (r#"{"name":"a","arguments":{"task":{}}}"#, false),
        ] {
            let params = Bytes::from_static(params.as_bytes());
            let asked = Asked::read(Method::Call, params.clone(), &Bytes::from_static(b"1"), Some(&params), Moment(0));
            assert_eq!(asked.map(|asked| asked.makes_task), Ok(expected), "{params:?}");
        }
    }

    #[test]
    fn says_what_is_wrong_with_one() {
        check("tools/call", "{}", Err("`name` is missing or not a string"));
        check("tasks/result", r#"{"taskId":7}"#, Err("`taskId` is missing or not a string"));
        check("tools/call", r#"{"name":"a","task":{},"Task":{}}"#, Err(NOT_READABLE));
        check("resources/read", r#"{"uri":7}"#, Err("`uri` is missing or not a string"));
        check("completion/complete", r#"{"ref":7}"#, Err("`ref` is missing or malformed"));
        check("completion/complete", r#"{"ref":{"type":"x"}}"#, Err("`ref` is neither of a prompt nor of a resource"));
        check("tools/call", r#"{"name":"a","_meta":7}"#, Err("`_meta` or its `progressToken` is malformed"));
    }
}
