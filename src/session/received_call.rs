//! A call of an agent as it was received: its parts by range, and the server that it leads to. Pure.
//!
//! Source: MCP 2025-11-25, `server/tools`, `server/prompts`, `server/resources`, `server/utilities/completion`.

use std::sync::Arc;

use bytes::Bytes;

use crate::catalog::{Catalog, Route, interface_in};
use crate::clock::Moment;
use crate::era::request_meta::{Meta, MetaError, ModernMeta};
use crate::era::{self, Era};
use crate::extensions::{self, UI};
use crate::jsonrpc::members::{members, members_of_parsed, string, text};
use crate::jsonrpc::reply::ErrorObject;
use crate::jsonrpc::splice::{applied, replace_members, without};
use crate::jsonrpc::{Message, parse};
use crate::list_kind::ListKind;
use crate::methods::{self, EXTENSION, Forwarding, Method, Named, TargetKind};
use crate::server::ResourceSubscriptionChange;
use crate::server::messages::call::{AccessTarget, RequestKind};
use crate::server::messages::tasks::LegacyTaskRequest;

const NOT_READABLE: &str = "`params` is missing, no object, or has a duplicate member";

/// A request that servers answer. All parts but a name with escapes are slices of the line.
#[derive(Debug, Clone)]
pub struct ReceivedCall {
    /// The row of its method.
    pub method: &'static Method,
    /// What mcpd does about it besides forwarding it.
    pub forwarding: Forwarding,
    /// The whole request, without its newline.
    pub line: Bytes,
    /// Raw JSON.
    pub id: Bytes,
    /// What `exposed_name` names.
    pub target_kind: TargetKind,
    /// The exposed name, the URI or the id of a task, raw.
    pub raw_exposed_name: Bytes,
    /// The same as text.
    pub exposed_name: Bytes,
    /// Raw JSON.
    pub progress_token: Option<Bytes>,
    /// A legacy call that requests a task.
    pub requests_task: bool,
    /// The metadata of a modern request.
    pub modern: Option<ModernMeta>,
    /// The server whose face a modern request uses.
    pub face: Option<Arc<str>>,
    /// What a request of an extension contains; `None` for any other request.
    pub extension: Option<Box<ExtensionRequest>>,
    /// When the line was read.
    pub received: Moment,
}

/// The parts of a request that is not of MCP itself. It may belong to an extension.
#[derive(Debug, Clone)]
pub struct ExtensionRequest {
    /// The method.
    pub method: Box<str>,
    /// The param `uri`, as text.
    pub uri: Option<Box<str>>,
    /// The param `name`, raw and as text.
    pub name: Option<(Bytes, Bytes)>,
    /// It continues a list.
    pub has_cursor: bool,
}

/// The server that a request leads to.
#[derive(Debug, Clone, Copy)]
pub enum RouteTarget<'a> {
    /// A tool or prompt, which has another name at its server.
    Route(&'a Route),
    /// A tool that a user interface of its server calls by the server's own name: the exposed name, and the route.
    OfInterface(&'a str, &'a Route),
    /// The server of this index; names and URIs are the same there.
    Server(usize),
    /// The server of this index, which has named the resource in a result, but does not list it.
    Unlisted(usize),
}

/// The relevant params of a request, raw.
struct Params {
    target_kind: TargetKind,
    key: Option<Bytes>,
    meta: Option<Bytes>,
    requests_task: bool,
}

impl Params {
    fn read(method: &Method, forwarding: Forwarding, params: &Bytes) -> Result<Self, &'static str> {
        let plain = |target_kind, key, meta| Self { target_kind, key, meta, requests_task: false };
        match method.names {
            Named::Target(target_kind, member) if forwarding == Forwarding::CallTool => {
                let [key, meta, task] =
                    members_of_parsed(params, [member, "_meta", "task"]).map_err(|_| NOT_READABLE)?;
                let requests_task = task.is_some_and(|raw| raw[..] != b"null"[..]);
                Ok(Self { requests_task, ..plain(target_kind, key, meta) })
            }
            Named::Target(target_kind, member) => {
                let [key, meta] = members_of_parsed(params, [member, "_meta"]).map_err(|_| NOT_READABLE)?;
                Ok(plain(target_kind, key, meta))
            }
            Named::Reference => {
                let [reference, meta] = members_of_parsed(params, ["ref", "_meta"]).map_err(|_| NOT_READABLE)?;
                let reference = reference.and_then(|raw| members(&raw, ["type", "name", "uri"]).ok());
                let Some([kind, name, uri]) = reference else { return Err("`ref` is missing or malformed") };
                let is_named = |part: &Option<Bytes>| part.as_ref().is_some_and(|raw| raw[..] != b"null"[..]);
                // A server may go by either one, and only one of them is checked.
                if is_named(&name) && is_named(&uri) {
                    return Err("`ref` has both a `name` and a `uri`");
                }
                match kind.as_deref() {
                    Some(br#""ref/prompt""#) => Ok(plain(TargetKind::Prompt, name, meta)),
                    Some(br#""ref/resource""#) => Ok(plain(TargetKind::Resource, uri, meta)),
                    _ => Err("`ref` is neither of a prompt nor of a resource"),
                }
            }
            Named::Nothing => Err(NOT_READABLE),
        }
    }
}

impl ExtensionRequest {
    /// Reads the params of a request or notification. `None` if they are malformed.
    pub(super) fn read(method: &Bytes, params: Option<&Bytes>) -> Option<Self> {
        let read = params.map(|params| members_of_parsed(params, ["uri", "name", "cursor"])).transpose();
        let [uri, name, cursor] = read.ok()?.unwrap_or_default();
        Some(Self {
            method: String::from_utf8_lossy(method).into(),
            uri: uri.and_then(|raw| string(&raw)).map(Into::into),
            name: name.and_then(|raw| Some((raw.clone(), text(&raw)?))),
            has_cursor: cursor.is_some_and(|raw| raw[..] != b"null"[..]),
        })
    }
}

impl ReceivedCall {
    /// Reads the request `line` with this id and these params.
    ///
    /// # Errors
    /// If the params are malformed.
    pub fn read(
        method: &'static Method,
        forwarding: Forwarding,
        line: Bytes,
        id: &Bytes,
        params: Option<&Bytes>,
        received: Moment,
    ) -> Result<Self, MetaError> {
        let params = params.ok_or(MetaError::Malformed(NOT_READABLE))?;
        let Params { target_kind, key, meta, requests_task } =
            Params::read(method, forwarding, params).map_err(MetaError::Malformed)?;
        // A wrong version is reported before other mistakes.
        let Meta { progress_token, modern, face } = Meta::read(meta.as_ref())?;
        let Some((raw_exposed_name, exposed_name)) = key.and_then(|raw| Some((raw.clone(), text(&raw)?))) else {
            return Err(MetaError::Malformed(match target_kind {
                TargetKind::Tool | TargetKind::Prompt => "`name` is missing or not a string",
                TargetKind::Resource => "`uri` is missing or not a string",
                TargetKind::Task => "`taskId` is missing or not a string",
                TargetKind::Method | TargetKind::Item => NOT_READABLE,
            }));
        };
        // Modern calls do not request tasks.
        let requests_task = requests_task && modern.is_none();
        Ok(Self {
            method,
            forwarding,
            line,
            id: id.clone(),
            target_kind,
            raw_exposed_name,
            exposed_name,
            progress_token,
            requests_task,
            modern,
            face,
            extension: None,
            received,
        })
    }

    /// Reads a request whose method MCP itself does not have.
    ///
    /// # Errors
    /// If the params are malformed.
    pub fn read_extension(
        name: &Bytes,
        line: Bytes,
        id: &Bytes,
        params: Option<&Bytes>,
        received: Moment,
    ) -> Result<Self, MetaError> {
        let extension = ExtensionRequest::read(name, params).ok_or(MetaError::Malformed(NOT_READABLE))?;
        let Meta { progress_token, modern, face } = Meta::of(params)?;
        Ok(Self {
            method: EXTENSION,
            forwarding: Forwarding::Extension,
            line,
            id: id.clone(),
            target_kind: TargetKind::Method,
            raw_exposed_name: Bytes::new(),
            exposed_name: name.clone(),
            progress_token,
            requests_task: false,
            modern,
            face,
            extension: Some(Box::new(extension)),
            received,
        })
    }

    /// The error if nothing of this name is exposed.
    pub(super) fn unknown(&self) -> ErrorObject {
        self.target_kind.unknown(&self.exposed_name, self.era())
    }

    /// The error if the skill that the request names is unknown.
    pub(super) fn unknown_skill(&self) -> ErrorObject {
        let uri = self.extension.as_ref().and_then(|extension| extension.uri.as_ref());
        uri.map_or_else(|| self.unknown(), |uri| TargetKind::Item.unknown(uri.as_bytes(), self.era()))
    }

    /// Whether it is about a tool, a prompt or the contents of a resource.
    pub(super) fn names_item(&self) -> bool {
        matches!(
            (self.forwarding, self.target_kind),
            (Forwarding::CallTool | Forwarding::ReadResource, _)
                | (Forwarding::Plain, TargetKind::Tool | TargetKind::Prompt)
        )
    }

    /// Whether it has params.
    pub(super) fn has_params(&self) -> bool {
        matches!(members_of_parsed(&self.line, ["params"]), Ok([Some(_)]))
    }

    /// The request as one of several servers gets it: with this raw cursor, and without the progress token, which one server only could
    /// use.
    ///
    /// # Errors
    /// If the params are malformed.
    pub(super) fn subrequest(&self, cursor: Option<&Bytes>) -> Result<Self, MetaError> {
        const MALFORMED: MetaError = MetaError::Malformed(NOT_READABLE);
        let [method, params] = members(&self.line, ["method", "params"]).map_err(|_| MALFORMED)?;
        let mut params = params.unwrap_or_else(|| Bytes::from_static(b"{}"));
        if let Ok([Some(meta)]) = members(&params, ["_meta"])
            && meta.starts_with(b"{")
        {
            let changes = without(&meta, &["progressToken"]).map_err(|_| MALFORMED)?;
            params = applied(&params, &changes).into();
        }
        if let Some(cursor) = cursor {
            let member = format!("\"cursor\":{}", String::from_utf8_lossy(cursor));
            let changes = replace_members(&params, &["cursor"], &member).map_err(|_| MALFORMED)?;
            params = applied(&params, &changes).into();
        }
        let method = method.unwrap_or_default();
        let [id, method, params] = [&self.id, &method, &params].map(|raw| String::from_utf8_lossy(raw));
        let line = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#));
        let Ok(Message::Request { id, params: Some(params), .. }) = parse(&line) else { return Err(MALFORMED) };
        let Meta { modern, .. } = Meta::of(Some(&params))?;
        let (progress_token, extension) = (None, None);
        Ok(Self { line, id, progress_token, extension, modern, ..self.clone() })
    }

    /// The subscription to one resource, by its raw URI, that a `subscriptions/listen` with this raw id includes.
    ///
    /// # Errors
    /// If the URI is malformed.
    pub(super) fn of_topic(
        id: &Bytes,
        uri: &Bytes,
        face: Option<Arc<str>>,
        received: Moment,
    ) -> Result<Self, MetaError> {
        let [id, uri] = [id, uri].map(|raw| String::from_utf8_lossy(raw));
        let meta = &era::own_params()["_meta"];
        let params = format!(r#"{{"uri":{uri},"_meta":{meta}}}"#);
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/subscribe","params":{params}}}"#);
        let line = Bytes::from(line);
        let Ok(Message::Request { id, method, params }) = parse(&line) else {
            return Err(MetaError::Malformed(NOT_READABLE));
        };
        let method = methods::find(&method).ok_or(MetaError::Malformed(NOT_READABLE))?;
        let request = Self::read(method, Forwarding::Subscribe, line, &id, params.as_ref(), received)?;
        Ok(Self { face, ..request })
    }

    /// The server that it leads to; `None` for unknown and for denied names alike.
    #[must_use]
    pub fn target<'a>(&self, catalog: &'a Catalog) -> Option<RouteTarget<'a>> {
        match self.target_kind {
            TargetKind::Tool => {
                let route = catalog.route(ListKind::Tools, &self.exposed_name).filter(|route| route.is_for(self.era()));
                route.map(RouteTarget::Route).or_else(|| self.target_of_interface(catalog))
            }
            TargetKind::Prompt => catalog.route(ListKind::Prompts, &self.exposed_name).map(RouteTarget::Route),
            TargetKind::Resource => {
                catalog.server_of(std::str::from_utf8(&self.exposed_name).ok()?).map(RouteTarget::Server)
            }
            // The catalog has neither tasks nor extensions.
            TargetKind::Task | TargetKind::Method | TargetKind::Item => None,
        }
    }

    /// The tool that a user interface calls by its own name, if `_meta` names the interface. A tool of the same server may have no
    /// interface itself.
    fn target_of_interface<'a>(&self, catalog: &'a Catalog) -> Option<RouteTarget<'a>> {
        let [params] = members_of_parsed(&self.line, ["params"]).ok()?;
        let [meta] = members_of_parsed(&params?, ["_meta"]).ok()?;
        let uri = interface_in(&meta?).filter(|uri| extensions::of_uri(uri) == Some(UI))?;
        let server = catalog.server_of(&uri)?;
        let is_it = |route: &Route| route.server == server && self.is_own_name(route) && route.is_for(self.era());
        let (exposed, route) = catalog.routes(ListKind::Tools).find(|(_, route)| is_it(route))?;
        Some(RouteTarget::OfInterface(exposed, route))
    }

    /// Whether it calls the tool of `route` by the server's own name.
    pub(super) fn is_own_name(&self, route: &Route) -> bool {
        *route.name.as_bytes() == self.exposed_name[..]
    }

    /// What the agent must be allowed to use for this request, if `target` is where it leads.
    #[must_use]
    pub fn access_target(&self, target: RouteTarget<'_>) -> Option<AccessTarget> {
        let named = |kind, route: &Route| {
            let exposed = Bytes::copy_from_slice(&self.exposed_name);
            Some(AccessTarget::Named { kind, exposed, name: Arc::clone(&route.name) })
        };
        match (self.target_kind, target) {
            (TargetKind::Tool, RouteTarget::Route(route) | RouteTarget::OfInterface(_, route)) => {
                named(ListKind::Tools, route)
            }
            (TargetKind::Prompt, RouteTarget::Route(route)) => named(ListKind::Prompts, route),
            // An agent may end a subscription to a resource that is not exposed any more.
            (TargetKind::Resource, _) if self.forwarding == Forwarding::Unsubscribe => None,
            (TargetKind::Resource, RouteTarget::Unlisted(_)) => {
                Some(AccessTarget::UnlistedUri(Bytes::copy_from_slice(&self.exposed_name)))
            }
            (TargetKind::Resource, _) => Some(AccessTarget::Uri(Bytes::copy_from_slice(&self.exposed_name))),
            _ => None,
        }
    }

    pub(super) fn era(&self) -> Era {
        if self.modern.is_some() { Era::Modern } else { Era::Legacy }
    }

    /// The kind of request, as servers distinguish them. Tokens of modern tasks are resolved elsewhere.
    pub(super) fn kind(&self) -> RequestKind {
        let begins = match self.forwarding {
            Forwarding::CallTool if self.requests_task => return RequestKind::NewTask,
            Forwarding::CallTool if self.supports_tasks() => return RequestKind::MayBeTask,
            Forwarding::Task(operation) => {
                return RequestKind::LegacyTask(Box::new(LegacyTaskRequest {
                    id: Bytes::copy_from_slice(&self.exposed_name),
                    operation,
                }));
            }
            Forwarding::Subscribe => true,
            Forwarding::Unsubscribe => false,
            Forwarding::CallTool
            | Forwarding::Plain
            | Forwarding::ReadResource
            | Forwarding::Complete
            | Forwarding::Extension => return RequestKind::Plain,
        };
        // Copied, because it outlives the line.
        let [uri, raw] = [&self.exposed_name, &self.raw_exposed_name].map(|part| Bytes::copy_from_slice(part));
        RequestKind::ResourceSubscription(Box::new(ResourceSubscriptionChange { uri, raw, begins }))
    }

    /// Whether its agent declares support for modern tasks.
    pub(super) fn supports_tasks(&self) -> bool {
        self.modern.is_some_and(|modern| modern.supports_tasks)
    }

    /// The arguments of a tool call, raw.
    pub(super) fn arguments(&self) -> Option<Bytes> {
        let [params] = members_of_parsed(&self.line, ["params"]).ok()?;
        let [arguments] = members(&params?, ["arguments"]).ok()?;
        arguments
    }
}

impl RouteTarget<'_> {
    /// The index of the server.
    #[must_use]
    pub fn server(&self) -> usize {
        match self {
            Self::Route(route) | Self::OfInterface(_, route) => route.server,
            Self::Server(server) | Self::Unlisted(server) => *server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::AnsweredBy;

    fn read(method: &str, params: &Bytes) -> Result<ReceivedCall, MetaError> {
        let method = methods::find(method.as_bytes()).expect("a method");
        let AnsweredBy::Server(forwarding) = method.answered_by else { panic!("{method:?} is not forwarded") };
        ReceivedCall::read(method, forwarding, params.clone(), &Bytes::from_static(b"1"), Some(params), Moment(0))
    }

    fn check(method: &str, params: &str, expected: Result<(TargetKind, &str), &'static str>) {
        let params = Bytes::copy_from_slice(params.as_bytes());
        let request = read(method, &params);
        let found = request
            .as_ref()
            .map(|request| (request.target_kind, std::str::from_utf8(&request.exposed_name).expect("text")));
        let expected = expected.map_err(MetaError::Malformed);
        assert_eq!(found.map_err(Clone::clone), expected, "{params:?}");
    }

    #[test]
    fn a_request_has_the_subject_of_its_method() {
        check("tools/call", r#"{"name":"a\u0062"}"#, Ok((TargetKind::Tool, "ab")));
        check("tasks/get", r#"{"taskId":"\u0074"}"#, Ok((TargetKind::Task, "t")));
        check("prompts/get", r#"{"name":"p"}"#, Ok((TargetKind::Prompt, "p")));
        check("resources/read", r#"{"uri":"x://y"}"#, Ok((TargetKind::Resource, "x://y")));
        check("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"p"}}"#, Ok((TargetKind::Prompt, "p")));
        check("completion/complete", r#"{"ref":{"type":"ref/resource","uri":"u"}}"#, Ok((TargetKind::Resource, "u")));
        let with_null = r#"{"ref":{"type":"ref/prompt","name":"p","uri":null}}"#;
        check("completion/complete", with_null, Ok((TargetKind::Prompt, "p")));
    }

    #[test]
    fn a_call_may_request_a_task() {
        for (params, expected) in [
            (r#"{"name":"a","task":{}}"#, true),
            (r#"{"name":"a","task":{"ttl":5},"x":1}"#, true),
            (r#"{"name":"a","task":null}"#, false),
            (r#"{"name":"a","arguments":{"task":{}}}"#, false),
        ] {
            let params = Bytes::from_static(params.as_bytes());
            let request = read("tools/call", &params);
            assert_eq!(request.map(|request| request.requests_task), Ok(expected), "{params:?}");
        }
    }

    #[test]
    fn malformed_params_are_explained() {
        check("tools/call", "{}", Err("`name` is missing or not a string"));
        check("tasks/result", r#"{"taskId":7}"#, Err("`taskId` is missing or not a string"));
        check("tools/call", r#"{"name":"a","task":{},"Task":{}}"#, Err(NOT_READABLE));
        check("resources/read", r#"{"uri":7}"#, Err("`uri` is missing or not a string"));
        check("completion/complete", r#"{"ref":7}"#, Err("`ref` is missing or malformed"));
        for reference in [
            r#"{"type":"ref/prompt","name":"p","uri":"u"}"#,
            r#"{"type":"ref/prompt","name":"p","\u0075ri":"u"}"#,
            r#"{"uri":"u","type":"ref/resource","name":"p"}"#,
        ] {
            let params = format!(r#"{{"ref":{reference}}}"#);
            check("completion/complete", &params, Err("`ref` has both a `name` and a `uri`"));
        }
        for reference in [
            r#"{"type":"ref/prompt","name":"p","URI":"u"}"#,
            r#"{"type":"ref/prompt","name":"p","name":"q"}"#,
            r#"{"type":"ref/prompt","type":"ref/resource","name":"p"}"#,
        ] {
            let params = format!(r#"{{"ref":{reference}}}"#);
            check("completion/complete", &params, Err("`ref` is missing or malformed"));
        }
        check("completion/complete", r#"{"ref":{"type":"x"}}"#, Err("`ref` is neither of a prompt nor of a resource"));
        check("tools/call", r#"{"name":"a","_meta":7}"#, Err("`_meta` or its `progressToken` is malformed"));
    }
}
