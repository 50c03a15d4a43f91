//! The methods of MCP, one row for each: its versions, what its params name, and who answers it. Pure.
//!
//! A new method that mcpd forwards is one row of [`REQUESTS`]. A method in none of the tables may belong to an extension.
//!
//! Source: MCP, `schema` and `changelog` of each version.

use serde_json::json;

use crate::era::{self, Era, TASKS, Versions};
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::list_kind::ListKind;
use crate::printable::one_line;
use crate::task_state::{TaskOperation, unknown_task};
use crate::validity::ResultKind;

/// A method that agents can request.
#[derive(Debug)]
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// The versions that have it.
    pub versions: Versions,
    /// What its params name.
    pub names: Named,
    /// The capability that a server declares if it has the method. `None` if every server has it.
    capability: Option<Capability>,
    /// The form of its results, if agents validate it.
    pub result: Option<ResultKind>,
    /// Who answers it.
    pub answered_by: AnsweredBy,
}

/// What the params of a request name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// Nothing that has a server.
    Nothing,
    /// A target, by the param with this name.
    Target(TargetKind, &'static str),
    /// A prompt or a resource, by the param `ref`.
    Reference,
}

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// The call of a tool.
    Tool,
    /// A prompt, by its exposed name.
    Prompt,
    /// A resource or a resource template, by its URI.
    Resource,
    /// A task that was made before, by its id.
    Task,
    /// Extension method; the key is the method name.
    Method,
    /// What a request of an extension is about, by its URI or name.
    Item,
}

/// Who answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnsweredBy {
    /// mcpd, from what it knows of the agent and its view.
    Daemon(OwnMethod),
    /// mcpd, with a list of its catalog.
    List(ListKind),
    /// A server.
    Server(Forwarding),
}

/// The methods that mcpd answers, apart from lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnMethod {
    /// `initialize`
    Initialize,
    /// `server/discover`
    Discover,
    /// `ping`
    Ping,
    /// `logging/setLevel`
    SetLevel,
    /// `tasks/list`, from the tasks that servers have created for the agent.
    ListTasks,
    /// `subscriptions/listen`, once its servers have accepted the subscriptions.
    Listen,
}

/// What mcpd does about a forwarded request besides forwarding it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarding {
    /// Nothing.
    Plain,
    /// A call of a tool: it is recorded, and may create a task.
    CallTool,
    /// The resource may be one that no list has.
    ReadResource,
    /// The same, and the subscription is recorded.
    Subscribe,
    /// The end of the subscription is recorded. The resource need not be listed any more.
    Unsubscribe,
    /// A server that completes nothing is answered for.
    Complete,
    /// A legacy task, which has an instance.
    Task(TaskOperation),
    /// A method of an extension.
    Extension,
}

/// A notification that agents send.
#[derive(Debug)]
pub struct AgentNotification {
    name: &'static str,
    /// The param that names what it is about.
    pub about: Option<&'static str>,
    /// What mcpd does about it.
    pub meaning: NotificationMeaning,
}

/// What a notification of an agent means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotificationMeaning {
    /// The agent has read the result of `initialize`.
    Initialized,
    /// The agent cancels a request.
    Cancelled,
    /// The progress of a request of a server.
    Progress,
    /// The roots of the agent have changed.
    RootsChanged,
    /// The connection uses the face of a server.
    UseFace,
    /// The directory that has chosen the agent's profile.
    ProfileDirectory,
}

/// The path of a capability in the capabilities of a server.
pub type Capability = &'static [&'static str];

/// The notification with which `mcpd connect` begins a connection that uses the face of one server. It holds for the requests of
/// both eras, so that no request has to be changed.
pub const USE_FACE: &str = "notifications/mcpd/server";
/// With it, an agent reports the directory of the configuration that has chosen its profile.
pub const PROFILE_DIRECTORY: &str = "notifications/mcpd/profile";
/// The notification of servers that the status of a task of a legacy agent has changed.
pub const TASK_STATUS: &str = "notifications/tasks/status";
/// The notification of servers that an elicitation by URL has ended.
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

const SINCE_ELICITATION: Versions = Versions::since("2025-06-18");
const SINCE_TASKS: Versions = Versions::since("2025-11-25");
const LEGACY_TASKS: Versions = Versions::LEGACY.from("2025-11-25");

const TOOL: Named = Named::Target(TargetKind::Tool, "name");
const PROMPT: Named = Named::Target(TargetKind::Prompt, "name");
const RESOURCE: Named = Named::Target(TargetKind::Resource, "uri");
const TASK: Named = Named::Target(TargetKind::Task, "taskId");

/// A method of `versions`. Its other columns are those of a method that every server has.
const fn method(name: &'static str, versions: Versions, answered_by: AnsweredBy) -> Method {
    Method { name, versions, names: Named::Nothing, capability: None, result: None, answered_by }
}

const fn own(name: &'static str, versions: Versions, method: OwnMethod) -> Method {
    self::method(name, versions, AnsweredBy::Daemon(method))
}

const fn list(kind: ListKind, capability: Capability) -> Method {
    method(kind.method(), Versions::ALL, AnsweredBy::List(kind)).needs(capability)
}

const fn forwarded(
    name: &'static str,
    versions: Versions,
    names: Named,
    capability: Capability,
    forwarding: Forwarding,
) -> Method {
    Method { names, ..method(name, versions, AnsweredBy::Server(forwarding)).needs(capability) }
}

impl Method {
    const fn needs(self, capability: Capability) -> Self {
        Self { capability: Some(capability), ..self }
    }

    const fn with_result(self, result: ResultKind) -> Self {
        Self { result: Some(result), ..self }
    }

    /// The capability that a server of this era declares if it has the method. `None` if every server has it.
    #[must_use]
    pub fn capability(&self, era: Era) -> Option<Capability> {
        match (self.names, era) {
            (TASK, Era::Modern) => Some(&["extensions", TASKS]),
            _ => self.capability,
        }
    }
}

/// The requests of agents, the frequent ones first. Servers of the first version could not declare `completion/complete`, but they could have
/// it.
#[rustfmt::skip]
const REQUESTS: &[Method] = &[
    forwarded("tools/call", Versions::ALL, TOOL, &["tools"], Forwarding::CallTool).with_result(ResultKind::Call),
    forwarded("prompts/get", Versions::ALL, PROMPT, &["prompts"], Forwarding::Plain).with_result(ResultKind::Prompt),
    forwarded("resources/read", Versions::ALL, RESOURCE, &["resources"], Forwarding::ReadResource).with_result(ResultKind::Read),
    forwarded("resources/subscribe", Versions::LEGACY, RESOURCE, &["resources", "subscribe"], Forwarding::Subscribe),
    forwarded("resources/unsubscribe", Versions::LEGACY, RESOURCE, &["resources", "subscribe"], Forwarding::Unsubscribe),
    forwarded("completion/complete", Versions::ALL, Named::Reference, &["completions"], Forwarding::Complete).with_result(ResultKind::Completion),
    forwarded("tasks/get", SINCE_TASKS, TASK, &["tasks"], Forwarding::Task(TaskOperation::Get)),
    forwarded("tasks/cancel", SINCE_TASKS, TASK, &["tasks", "cancel"], Forwarding::Task(TaskOperation::Cancel)),
    forwarded("tasks/result", LEGACY_TASKS, TASK, &["tasks"], Forwarding::Task(TaskOperation::Result)).with_result(ResultKind::Call),
    forwarded("tasks/update", Versions::MODERN, TASK, &["tasks"], Forwarding::Plain),
    list(ListKind::Tools, &["tools"]),
    list(ListKind::Prompts, &["prompts"]),
    list(ListKind::Resources, &["resources"]),
    list(ListKind::Templates, &["resources"]),
    own("initialize", Versions::LEGACY, OwnMethod::Initialize),
    own("server/discover", Versions::MODERN, OwnMethod::Discover),
    own("ping", Versions::LEGACY, OwnMethod::Ping),
    own("logging/setLevel", Versions::LEGACY, OwnMethod::SetLevel).needs(&["logging"]),
    own("tasks/list", LEGACY_TASKS, OwnMethod::ListTasks).needs(&["tasks", "list"]),
    own("subscriptions/listen", Versions::MODERN, OwnMethod::Listen),
];

/// A request that no version of MCP has. It may belong to an extension.
pub const EXTENSION: &Method = &method("", Versions::ALL, AnsweredBy::Server(Forwarding::Extension));

#[rustfmt::skip]
const AGENT_NOTIFICATIONS: &[AgentNotification] = &[
    AgentNotification { name: "notifications/progress", about: Some("progressToken"), meaning: NotificationMeaning::Progress },
    AgentNotification { name: "notifications/cancelled", about: Some("requestId"), meaning: NotificationMeaning::Cancelled },
    AgentNotification { name: "notifications/initialized", about: None, meaning: NotificationMeaning::Initialized },
    AgentNotification { name: "notifications/roots/list_changed", about: None, meaning: NotificationMeaning::RootsChanged },
    AgentNotification { name: USE_FACE, about: Some("server"), meaning: NotificationMeaning::UseFace },
    AgentNotification { name: PROFILE_DIRECTORY, about: Some("directory"), meaning: NotificationMeaning::ProfileDirectory },
];

/// The requests and notifications that servers alone send, with their versions.
const OF_SERVERS: &[(&str, Versions)] = &[
    ("roots/list", Versions::ALL),
    ("sampling/createMessage", Versions::ALL),
    ("elicitation/create", SINCE_ELICITATION),
    ("notifications/message", Versions::ALL),
    ("notifications/prompts/list_changed", Versions::ALL),
    ("notifications/resources/list_changed", Versions::ALL),
    ("notifications/resources/updated", Versions::ALL),
    ("notifications/tools/list_changed", Versions::ALL),
    (ELICITATION_COMPLETE, LEGACY_TASKS),
    (TASK_STATUS, LEGACY_TASKS),
    ("notifications/subscriptions/acknowledged", Versions::MODERN),
    ("notifications/tasks", Versions::MODERN),
];

/// The request of agents with this name.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Method> {
    REQUESTS.iter().find(|method| method.name.as_bytes() == name)
}

/// The param by which a request of the modern era names its target, so that it is also in the header `Mcp-Name`. Those about tasks belong
/// to the extension `io.modelcontextprotocol/tasks` (SEP-2663, "Streamable HTTP").
#[must_use]
pub fn naming_param(name: &[u8]) -> Option<&'static str> {
    match find(name)? {
        Method { names: Named::Target(_, param), versions, .. } if versions.include(era::MODERN) => Some(param),
        _ => None,
    }
}

/// The notification of agents with this name.
#[must_use]
pub fn find_notification(name: &[u8]) -> Option<&'static AgentNotification> {
    AGENT_NOTIFICATIONS.iter().find(|notification| notification.name.as_bytes() == name)
}

/// Whether `protocol` has this request or notification of servers, so that it may be sent to an agent with this version.
#[must_use]
pub fn servers_may_send(protocol: &str, name: &str) -> bool {
    OF_SERVERS.iter().any(|(known, versions)| *known == name && versions.include(protocol))
}

/// Whether an extension may have a request with this method: no version of MCP has it, and it is not the name of a notification.
#[must_use]
pub fn may_be_extension_request(method: &[u8]) -> bool {
    !method.starts_with(NOTIFICATION) && !is_known(method)
}

/// Whether an extension may have a notification with this method. A request that lacks its id is none, and mcpd keeps those of its own.
#[must_use]
pub fn may_be_extension_notification(method: &[u8]) -> bool {
    method.strip_prefix(NOTIFICATION).is_some_and(|name| !name.starts_with(b"mcpd/")) && !is_known(method)
}

/// The beginning of the methods of notifications.
const NOTIFICATION: &[u8] = b"notifications/";

fn is_known(method: &[u8]) -> bool {
    find(method).is_some()
        || find_notification(method).is_some()
        || OF_SERVERS.iter().any(|(known, _)| known.as_bytes() == method)
}

impl TargetKind {
    /// The error for a `key` that is unknown. A denied one gets the same bytes.
    #[must_use]
    pub fn unknown(self, key: &[u8], era: Era) -> ErrorObject {
        let text = String::from_utf8_lossy(key);
        match self {
            Self::Tool => ErrorObject::new(INVALID_PARAMS, format!("Unknown tool: {text}")),
            Self::Prompt => ErrorObject::new(INVALID_PARAMS, format!("Unknown prompt: {text}")),
            Self::Task => unknown_task(key),
            Self::Method => ErrorObject::new(METHOD_NOT_FOUND, format!("unknown method: {}", one_line(&text))),
            Self::Item => ErrorObject::new(INVALID_PARAMS, format!("Not found: {text}")),
            Self::Resource => ErrorObject {
                data: Some(json!({ "uri": text })),
                ..ErrorObject::new(era::resource_not_found(era), "Resource not found")
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::era::MODERN;

    const VERSIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN];

    #[test]
    fn names_are_unique() {
        let requests = REQUESTS.iter().map(|method| method.name);
        let notifications = AGENT_NOTIFICATIONS.iter().map(|notification| notification.name);
        let all: Vec<_> = requests.chain(notifications).chain(OF_SERVERS.iter().map(|(name, _)| *name)).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    }

    #[test]
    fn each_version_has_what_its_schema_has() {
        for (name, expected) in [
            ("tools/call", [true, true, true, true, true]),
            ("resources/templates/list", [true, true, true, true, true]),
            ("completion/complete", [true, true, true, true, true]),
            ("resources/subscribe", [true, true, true, true, false]),
            ("logging/setLevel", [true, true, true, true, false]),
            ("initialize", [true, true, true, true, false]),
            ("ping", [true, true, true, true, false]),
            ("tasks/get", [false, false, false, true, true]),
            ("tasks/result", [false, false, false, true, false]),
            ("tasks/list", [false, false, false, true, false]),
            ("server/discover", [false, false, false, false, true]),
            ("subscriptions/listen", [false, false, false, false, true]),
            ("tasks/update", [false, false, false, false, true]),
        ] {
            let method = find(name.as_bytes()).expect(name);
            assert_eq!(VERSIONS.map(|version| method.versions.include(version)), expected, "{name}");
        }
        for (name, expected) in [
            ("sampling/createMessage", [true, true, true, true, true]),
            ("notifications/resources/updated", [true, true, true, true, true]),
            ("elicitation/create", [false, false, true, true, true]),
            (ELICITATION_COMPLETE, [false, false, false, true, false]),
            (TASK_STATUS, [false, false, false, true, false]),
            ("notifications/tasks", [false, false, false, false, true]),
            ("tools/call", [false; 5]),
        ] {
            assert_eq!(VERSIONS.map(|version| servers_may_send(version, name)), expected, "{name}");
        }
    }

    #[test]
    fn capability_of_a_method_depends_on_the_era_for_tasks_only() {
        for method in REQUESTS {
            let [legacy, modern] = Era::ALL.map(|era| method.capability(era));
            let is_of_task = method.names == TASK;
            assert_eq!(modern, if is_of_task { Some(&["extensions", TASKS][..]) } else { legacy }, "{}", method.name);
            assert!(legacy.is_some() || matches!(method.answered_by, AnsweredBy::Daemon(_)), "{}", method.name);
        }
    }

    #[test]
    fn extension_has_no_method_of_mcp() {
        for (method, is_request, is_notification) in [
            ("x/run", true, false),
            ("vendor", true, false),
            ("skills/list", true, false),
            ("resources/directory/read", true, false),
            ("notifications/x/run", false, true),
            ("notifications/cancelled", false, false),
            ("notifications/tasks", false, false),
            ("notifications/mcpd/server", false, false),
            ("notifications/mcpd/other", false, false),
            ("notifications", true, false),
            ("tools/call", false, false),
            ("initialize", false, false),
            ("resources/unsubscribe", false, false),
            ("sampling/createMessage", false, false),
        ] {
            let found = (may_be_extension_request(method.as_bytes()), may_be_extension_notification(method.as_bytes()));
            assert_eq!(found, (is_request, is_notification), "{method}");
        }
    }
}
