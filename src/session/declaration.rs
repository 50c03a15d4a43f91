//! What mcpd declares to an agent: capabilities, extensions and the name of the server. Pure.
//!
//! The rule: no method of a declared capability is answered with −32601, in either era. A method of a declared extension gets
//! −32601 only if no server has it. Agents read capabilities once, but servers start, stop and are added later. So in the view of
//! several servers:
//!
//! - `tools`, `prompts` and `resources` are always declared, with `listChanged`: mcpd itself answers the lists.
//! - `resources.subscribe`, `completions`, `logging` and `tasks` are declared if a server of the view has them, or has never
//!   completed a handshake. mcpd answers for a server that turns out not to have them, but with another error or an empty completion.
//! - `experimental` and unknown capabilities are not declared: nothing tells which server their methods belong to.
//! - Extensions are those that [`View::extensions`] routes.
//!
//! A face declares the capabilities of its server in the server's own form and order, less what mcpd does not route or policy hides.
//! `experimental` and unknown capabilities are among them where the server receives unknown methods, and so answers them itself.
//! What the server has declared in the other era is translated, if the eras share it. A method of a capability that the face declares neither
//! in its handshake nor later is unknown.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::config::Malformed;
use crate::era::{self, Era};
use crate::extensions::{SKILLS, UI};
use crate::jsonrpc::members::{Parts, members, text};
use crate::jsonrpc::splice::{Change, applied, replace_members, with_first};
use crate::list_kind::ListKind;
use crate::manager::{Member, View};
use crate::methods::Capability;
use crate::server::ServerIdentity;
use crate::validity::mended_info;

/// The member of `_meta` in `serverInfo` of a face that names mcpd.
const DAEMON: &str = "mcpd/daemon";

/// What an agent with this version sees of a view.
pub(super) struct Declaration<'a> {
    pub(super) protocol: &'static str,
    pub(super) view: &'a View,
    /// What the server of a face has declared, if that is known.
    pub(super) identity: Option<&'a ServerIdentity>,
}

impl Declaration<'_> {
    fn era(&self) -> Era {
        era::of(self.protocol)
    }

    /// The raw `capabilities`.
    pub(super) fn capabilities(&self) -> String {
        match (self.view.face_member(), self.identity) {
            (Some(member), Some(identity)) => self.of_face(member, identity),
            _ => self.of_all().to_string(),
        }
    }

    /// Whether the server of this face has not declared a capability.
    pub(super) fn lacks(&self, capability: Capability) -> bool {
        let (Some(member), Some(identity)) = (self.view.face_member(), self.identity) else { return false };
        // A server of the first version completes without declaring it.
        let is_implied = capability == ["completions"] && completes(member, identity);
        !is_implied && !has_capability(&self.read_capabilities(), capability)
    }

    /// The capabilities, parsed.
    pub(super) fn read_capabilities(&self) -> Value {
        serde_json::from_str(&self.capabilities()).unwrap_or_default()
    }

    /// The instructions, if there are any.
    pub(super) fn instructions(&self) -> Option<Arc<str>> {
        match self.view.face_member() {
            Some(member) => member.instructions(self.identity).filter(|_| self.view.exposes_face_member(self.era())),
            None => self.view.instructions(self.era()).map(Arc::from),
        }
    }

    /// The raw `serverInfo`: that of the server in a face, with mcpd in its `_meta`, else that of mcpd.
    pub(super) fn server_info(&self) -> String {
        let daemon = daemon_info();
        let Some(member) = self.view.face_member() else { return daemon };
        let info = self.identity.and_then(|identity| identity.info.as_ref());
        let info = info.and_then(|info| match member.config.settings.malformed {
            Malformed::Mend => mended_info(info),
            Malformed::Pass => Some(info.clone()),
        });
        let named = info.and_then(|info| with_daemon(&info, &daemon));
        named.unwrap_or_else(|| {
            // `version` is required.
            let name = Value::from(&*member.config.name);
            format!(r#"{{"name":{name},"version":"unknown","_meta":{{"{DAEMON}":{daemon}}}}}"#)
        })
    }

    /// The capabilities of the view of several servers, or of the server of a face that is not known or not exposed: that may have
    /// all of them.
    fn of_all(&self) -> Value {
        let era = self.era();
        let is_face = self.view.face_member().is_some();
        let known = |member: &Member| member.handle.published().identity(era).cloned().filter(|_| !is_face);
        let servers = self.view.servers.iter().filter(|member| is_face || member.is_enabled());
        let identities: Vec<_> = servers.map(|member| (member, known(member))).collect();
        let any = |has: &dyn Fn(&Member, &ServerIdentity) -> bool| {
            let has = |(member, one): &(&Member, Option<Arc<ServerIdentity>>)| {
                one.as_ref().is_none_or(|one| has(member, one))
            };
            identities.iter().any(has)
        };
        let mut all = era::capabilities(self.protocol);
        if let Some(all) = all.as_object_mut() {
            all.retain(|name, _| match &name[..] {
                "completions" => any(&completes),
                "logging" => any(&|_, one| one.declares(&["logging"])),
                "tasks" => any(&makes_tasks),
                _ => true,
            });
        }
        if !any(&|member, one| {
            member.config.policy.exposes(ListKind::Resources) && one.declares(&["resources", "subscribe"])
        }) {
            all["resources"] = json!({ "listChanged": true });
        }
        if all.get("tasks").is_some() && !any(&|member, one| makes_tasks(member, one) && one.tasks().cancels) {
            all["tasks"] = tasks(false);
        }
        let extensions = self.view.extensions(era);
        if !extensions.is_empty() {
            all["extensions"] = Value::Object(extensions);
        }
        all
    }

    fn of_face(&self, member: &Member, identity: &ServerIdentity) -> String {
        let extensions = self.view.extensions(self.era());
        let mut declared: Vec<String> = Vec::new();
        let mut keep = |name: &str, value: &[u8]| {
            declared.push(format!("{}:{}", Value::from(name), String::from_utf8_lossy(value)))
        };
        let capabilities = match member.config.settings.malformed {
            Malformed::Mend => &identity.capabilities,
            Malformed::Pass => &identity.sent_capabilities,
        };
        for (key, value) in Parts::of_object(capabilities).into_iter().flatten() {
            let name = text(&key).unwrap_or_default();
            match &name[..] {
                b"extensions" => {}
                b"tasks" => {
                    if let Some(tasks) = self.legacy_tasks(member, identity) {
                        keep("tasks", routed_tasks(&value).unwrap_or(tasks.to_string().into_bytes()).as_ref());
                    }
                }
                name if self.is_routed(member, name) => keep(&String::from_utf8_lossy(name), &value),
                _ => {}
            }
        }
        if !extensions.is_empty() {
            let declared = identity.extensions();
            let known = declared.iter().filter(|one| extensions.contains_key(&*one.id));
            let mut routed: Vec<(&str, &[u8])> = known.map(|one| (&*one.id, &one.settings[..])).collect();
            let added = extensions.keys().filter(|id| !declared.iter().any(|known| *known.id == **id));
            routed.extend(added.map(|id| (&**id, &b"{}"[..])));
            let routed =
                routed.iter().map(|(id, raw)| format!("{}:{}", Value::from(*id), String::from_utf8_lossy(raw)));
            keep("extensions", format!("{{{}}}", routed.collect::<Vec<_>>().join(",")).as_bytes());
        }
        format!("{{{}}}", declared.join(","))
    }

    /// Whether agents with this version can use a capability of the server of a face.
    fn is_routed(&self, member: &Member, name: &[u8]) -> bool {
        let exposes = |kind| member.config.policy.exposes(kind);
        let is_exposed = match name {
            b"tools" => exposes(ListKind::Tools),
            b"prompts" => exposes(ListKind::Prompts),
            // Skills and user interfaces are resources.
            b"resources" => {
                let extensions = self.view.extensions(self.era());
                exposes(ListKind::Resources) || [SKILLS, UI].iter().any(|id| extensions.contains_key(*id))
            }
            b"completions" => exposes(ListKind::Prompts) || exposes(ListKind::Resources),
            b"logging" => true,
            // `experimental`, and what mcpd does not know.
            _ => member.receives_unknown_methods(self.era()),
        };
        is_exposed && era::has(self.protocol, name)
    }

    /// The capability `tasks` that a legacy agent has at this server.
    fn legacy_tasks(&self, member: &Member, identity: &ServerIdentity) -> Option<Value> {
        let has_tasks = era::has(self.protocol, "tasks") && makes_tasks(member, identity);
        has_tasks.then(|| tasks(identity.tasks().cancels))
    }
}

/// Whether these capabilities have this one.
pub(super) fn has_capability(capabilities: &Value, path: Capability) -> bool {
    let found = path.iter().try_fold(capabilities, |value, name| value.get(name));
    found.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
}

/// The raw `serverInfo` of mcpd.
pub(super) fn daemon_info() -> String {
    json!({ "name": "mcpd", "version": env!("CARGO_PKG_VERSION") }).to_string()
}

/// Whether the server completes arguments. A server of the first version cannot declare it.
fn completes(member: &Member, identity: &ServerIdentity) -> bool {
    let exposes = |kind| member.config.policy.exposes(kind);
    let is_declared = identity.declares(&["completions"])
        || (!era::has(identity.protocol, "completions")
            && (identity.declares(&["prompts"]) || identity.declares(&["resources"])));
    is_declared && (exposes(ListKind::Prompts) || exposes(ListKind::Resources))
}

/// Whether tool calls of legacy agents can be tasks. Tasks do not cross eras.
fn makes_tasks(member: &Member, identity: &ServerIdentity) -> bool {
    identity.tasks().of_calls && member.config.policy.exposes(ListKind::Tools)
}

/// The legacy capability `tasks` for tool calls. mcpd itself answers `tasks/list`.
fn tasks(cancels: bool) -> Value {
    let mut tasks = json!({ "list": {}, "requests": { "tools": { "call": {} } } });
    if cancels {
        tasks["cancel"] = json!({});
    }
    tasks
}

/// The raw capability `tasks` of a legacy server, if mcpd routes all of it.
fn routed_tasks(raw: &Bytes) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_slice(raw).ok()?;
    let only = |value: &Value, names: &[&str]| {
        value.as_object().is_some_and(|members| members.keys().all(|name| names.contains(&&**name)))
    };
    let requests = &value["requests"];
    let is_routed = only(&value, &["list", "cancel", "requests"])
        && only(requests, &["tools"])
        && only(&requests["tools"], &["call"]);
    is_routed.then(|| raw.to_vec())
}

/// A raw `serverInfo` with mcpd in its `_meta`. `None` if it is malformed.
fn with_daemon(info: &Bytes, daemon: &str) -> Option<String> {
    let entry = format!(r#""{DAEMON}":{daemon}"#);
    let [meta] = members(info, ["_meta"]).ok()?;
    let changes = match meta {
        Some(meta) if meta.starts_with(b"{") => {
            let replacement = applied(&meta, &replace_members(&meta, &[DAEMON], &entry).ok()?).into();
            vec![Change { part: meta, replacement }]
        }
        Some(_) => replace_members(info, &["_meta"], &format!(r#""_meta":{{{entry}}}"#)).ok()?,
        None => vec![with_first(info, &format!(r#""_meta":{{{entry}}}"#))],
    };
    String::from_utf8(applied(info, &changes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcpd_is_added_to_meta_of_server_info() {
        let daemon = r#"{"name":"mcpd"}"#;
        for (info, expected) in [
            (r#"{"name":"s","x":1.0}"#, r#"{"_meta":{"mcpd/daemon":{"name":"mcpd"}},"name":"s","x":1.0}"#),
            ("{}", r#"{"_meta":{"mcpd/daemon":{"name":"mcpd"}}}"#),
            (
                r#"{"name":"s","_meta":{"a/b":1.0,"mcpd/daemon":7}}"#,
                r#"{"name":"s","_meta":{"mcpd/daemon":{"name":"mcpd"},"a/b":1.0}}"#,
            ),
            (r#"{"_meta":{},"name":"s"}"#, r#"{"_meta":{"mcpd/daemon":{"name":"mcpd"}},"name":"s"}"#),
            (r#"{"_meta":7,"name":"s"}"#, r#"{"_meta":{"mcpd/daemon":{"name":"mcpd"}},"name":"s"}"#),
        ] {
            assert_eq!(with_daemon(&Bytes::from_static(info.as_bytes()), daemon).as_deref(), Some(expected), "{info}");
        }
        assert_eq!(with_daemon(&Bytes::from_static(br#"{"_meta":{},"_meta":{}}"#), daemon), None);
    }

    #[test]
    fn tasks_of_tool_calls_keep_their_form() {
        for (raw, expected) in [
            (r#"{"requests":{"tools":{"call":{}}},"list":{"x":1.0}}"#, true),
            (r#"{"requests":{"tools":{"call":{}},"prompts":{"get":{}}}}"#, false),
            (r#"{"requests":{"tools":{"call":{}}},"more":{}}"#, false),
            ("{}", false),
        ] {
            let raw = Bytes::from_static(raw.as_bytes());
            assert_eq!(routed_tasks(&raw), expected.then(|| raw.to_vec()), "{raw:?}");
        }
    }
}
