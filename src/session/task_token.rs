//! Task ids as modern agents see them: the server's task id with an HMAC. Pure but for the key.
//!
//! A modern agent may use a task id on any connection to its profile, in the aggregate and in faces. So the id contains the server, its
//! own name of the tool whose call created the task, the instance, and the server's id. The HMAC covers these and the profile, so
//! nobody can forge an id.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Security Considerations".

use std::str::from_utf8;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use hmac::digest::Key;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;

use super::received_call::ReceivedCall;
use crate::era::response::{TaskReport, reported_task_id};
use crate::jsonrpc::members::text;
use crate::jsonrpc::splice::{Edit, splice};
use crate::jsonrpc::{Message, parse};
use crate::methods::TargetKind;
use crate::random::{self, NoRandomNumbers};
use crate::server::messages::tasks::TaskEvent;

/// Bytes of the HMAC in an id.
const CODE_LEN: usize = 16;

/// The decoded id of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskTokenContents<'a> {
    /// The configured name of the server.
    pub(super) server: &'a str,
    /// The tag of the instance that runs the task: a server may have several instances.
    pub(super) instance_tag: u64,
    /// The server's own name of the tool whose call made the task.
    pub(super) tool: &'a str,
    /// The server's id.
    pub(super) id: &'a str,
}

/// The HMAC key. Ids are valid as long as the daemon runs.
#[derive(Clone)]
pub struct TaskTokenKey(Hmac<Sha256>);

impl TaskTokenKey {
    /// A random key.
    ///
    /// # Errors
    /// If the system provides no random numbers.
    pub fn generate() -> Result<Self, NoRandomNumbers> {
        // A shorter key than a block of the hash is filled with zeros, as here (RFC 2104, 2).
        let (token, mut key) = (random::token()?, Key::<Hmac<Sha256>>::default());
        key.iter_mut().zip(token.bytes()).for_each(|(to, byte)| *to = byte);
        Ok(Self(Hmac::new(&key)))
    }
}

/// Without the key.
impl std::fmt::Debug for TaskTokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TaskTokenKey")
    }
}

/// An unanswered call whose response may contain the id of a task.
#[derive(Debug)]
pub(super) struct TaskIdReplacement {
    /// The configured name of the server.
    server: Arc<str>,
    /// The server's own name of the tool.
    tool: Arc<str>,
    /// The tag of the instance that runs the task, if the task exists already.
    instance_tag: Option<u64>,
}

/// Issues and verifies the task ids of one profile.
#[derive(Debug)]
pub(super) struct TaskTokens {
    key: Arc<TaskTokenKey>,
    profile: Arc<str>,
}

impl TaskTokens {
    pub(super) fn new(key: Arc<TaskTokenKey>, profile: Arc<str>) -> Self {
        Self { key, profile }
    }

    pub(super) fn issue(&self, TaskTokenContents { server, instance_tag, tool, id }: TaskTokenContents<'_>) -> String {
        let rest = format!("{server}.{instance_tag:x}.{:x}.{tool}.{id}", tool.len());
        let code = self.mac(&rest).finalize().into_bytes();
        format!("{}.{rest}", URL_SAFE_NO_PAD.encode(&code[..CODE_LEN]))
    }

    /// Decodes an id that was issued for this profile.
    pub(super) fn verify<'a>(&self, token: &'a [u8]) -> Option<TaskTokenContents<'a>> {
        let (code, rest) = from_utf8(token).ok()?.split_once('.')?;
        let code = URL_SAFE_NO_PAD.decode(code).ok().filter(|code| code.len() == CODE_LEN)?;
        // In constant time.
        self.mac(rest).verify_truncated_left(&code).ok()?;
        // No server name contains a dot, but a tool's own name may.
        let (server, rest) = rest.split_once('.')?;
        let (instance_tag, rest) = rest.split_once('.')?;
        let (len, rest) = rest.split_once('.')?;
        let (tool, rest) = rest.split_at_checked(usize::from_str_radix(len, 16).ok()?)?;
        let instance_tag = u64::from_str_radix(instance_tag, 16).ok()?;
        Some(TaskTokenContents { server, instance_tag, tool, id: rest.strip_prefix('.')? })
    }

    /// How to replace the task id in the response to a modern request of an agent that supports tasks. `tool` is the own name of the
    /// tool that the request calls, or whose call has created its task.
    pub(super) fn id_replacement(
        &self,
        request: &ReceivedCall,
        server: &Arc<str>,
        tool: Option<Arc<str>>,
    ) -> Option<TaskIdReplacement> {
        let instance_tag = match request.target_kind {
            _ if !request.supports_tasks() => return None,
            TargetKind::Tool => None,
            TargetKind::Task => Some(self.verify(&request.exposed_name)?.instance_tag),
            TargetKind::Prompt | TargetKind::Resource | TargetKind::Method | TargetKind::Item => return None,
        };
        Some(TaskIdReplacement { server: Arc::clone(server), tool: tool?, instance_tag })
    }

    /// Replaces the server's task id in the response `line`, if there is one.
    pub(super) fn replace_id(
        &self,
        replacement: &TaskIdReplacement,
        response: Option<&TaskEvent>,
        line: Bytes,
    ) -> Bytes {
        let (report, instance_tag) = match (replacement.instance_tag, response) {
            (Some(instance_tag), _) => (TaskReport::State, instance_tag),
            (None, Some(TaskEvent::Modern { instance_tag })) => (TaskReport::Created, *instance_tag),
            (None, _) => return line,
        };
        if memchr::memmem::find(&line, b"\"taskId\"").is_none() {
            return line;
        }
        let bare = line.slice(..line.len() - 1);
        let replaced = || {
            let Ok(Message::Response { response: Ok(result), .. }) = parse(&bare) else { return None };
            let raw = reported_task_id(&result, report)?;
            let id = text(&raw)?;
            let TaskIdReplacement { server, tool, .. } = replacement;
            let task = TaskTokenContents { server, instance_tag, tool, id: from_utf8(&id).ok()? };
            let token = json!(self.issue(task)).to_string();
            Some(splice(&bare, &mut [Edit { part: &raw, replacement: token.as_bytes() }]))
        };
        replaced().unwrap_or(line)
    }

    fn mac(&self, rest: &str) -> Hmac<Sha256> {
        // No profile name contains a NUL.
        self.key.0.clone().chain_update(&*self.profile).chain_update([0]).chain_update(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_valid_only_for_its_profile_and_key() {
        let key = || Arc::new(TaskTokenKey::generate().expect("random numbers"));
        let tokens = TaskTokens::new(key(), "default".into());
        let task = TaskTokenContents { server: "s", instance_tag: u64::MAX, tool: "build.é", id: "a.b/\"c" };
        let token = tokens.issue(task);
        assert_eq!(tokens.verify(token.as_bytes()), Some(task));
        assert_eq!(TaskTokens::new(Arc::clone(&tokens.key), "other".into()).verify(token.as_bytes()), None);
        assert_eq!(TaskTokens::new(key(), "default".into()).verify(token.as_bytes()), None);
        let (code, rest) = token.split_once('.').expect("a code");
        for forged in [
            String::new(),
            rest.to_owned(),
            format!("{code}.s.ffffffffffffffff.8.build.è.a.b/\"c"),
            format!("{code}.s.fffffffffffffffe.8.build.é.a.b/\"c"),
            format!("{code}.t.ffffffffffffffff.8.build.é.a.b/\"c"),
            format!("{code}.{rest}d"),
            format!(".{rest}"),
            format!("{}.{rest}", &code[1..]),
            code.to_owned(),
        ] {
            assert_eq!(tokens.verify(forged.as_bytes()), None, "{forged}");
        }
    }
}
