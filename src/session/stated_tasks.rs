//! Tasks of agents of the modern era, which are bound to the profile rather than to the connection.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28. Nothing is kept of them here: what leads to them is in the id that
//! the agent is told ([`super::seal`]), and all else is between it and the server.

use std::str::from_utf8;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::Session;
use super::asked::{Asked, Lead};
use super::routing::Destination;
use super::seal::Sealed;
use crate::calls::Outcome;
use crate::era::task::{Told, not_declared, told_id};
use crate::jsonrpc::members::text;
use crate::jsonrpc::splice::{Edit, splice};
use crate::jsonrpc::{Message, parse};
use crate::kind::Kind;
use crate::server::messages::call::{RequestKind, Subject, Target};
use crate::server::messages::tasks::{StatedAsk, TaskNews};

/// An unanswered call whose answer may tell of a task.
#[derive(Debug)]
pub(super) struct MayTell {
    /// The exposed name of the tool that has made it, or makes it.
    tool: Bytes,
    /// The mark of the instance that has made it, if it is made.
    maker: Option<u64>,
}

impl Session {
    /// Leads a request about a task to the server whose tool has made it.
    pub(super) fn ask_about_stated_task(&mut self, asked: Asked) {
        if !asked.takes_tasks() {
            let error = not_declared();
            return self.end_unrouted(&asked, &error, Outcome::Error { code: Some(error.code.into()) });
        }
        let view = self.profile_view.borrow().clone();
        let opened = from_utf8(&asked.key).ok().and_then(|id| self.setup.seal.open(&self.caller.profile, id));
        let route = opened.and_then(|task| view.catalog.route(Kind::Tools, task.tool.as_bytes()));
        let member = route.and_then(|route| view.servers.get(route.server));
        let (Some(Sealed { tool, maker, id }), Some(route), Some(member)) = (opened, route, member) else {
            return self.unknown(&asked);
        };
        let account = self.note(&asked, member, Lead::Server(route.server));
        let rename = Some((asked.raw_key.clone(), Bytes::from(json!(id).to_string())));
        let limit = member.config.settings.request_limit();
        let [own, task] = [&asked.key, id.as_bytes()].map(Bytes::copy_from_slice);
        let matter = RequestKind::Stated(Box::new(StatedAsk { id: own, task, maker }));
        let (exposed, name) = (Bytes::copy_from_slice(tool.as_bytes()), Arc::clone(&route.name));
        let target = Target::Named { kind: Kind::Tools, exposed, name };
        let access = Some(self.access(&asked, target, (member, &view)));
        self.send(asked, account, matter, Destination { server: &member.handle, rename, access, limit });
    }

    /// Whether the answer to this may tell of a task.
    pub(super) fn may_tell(&self, asked: &Asked) -> Option<MayTell> {
        if !asked.takes_tasks() {
            return None;
        }
        // Copied, so that a small name does not keep a large line in memory.
        match asked.subject {
            Subject::Call => Some(MayTell { tool: Bytes::copy_from_slice(&asked.key), maker: None }),
            Subject::Task => {
                let task = self.setup.seal.open(&self.caller.profile, from_utf8(&asked.key).ok()?)?;
                Some(MayTell { tool: Bytes::copy_from_slice(task.tool.as_bytes()), maker: Some(task.maker) })
            }
            Subject::Prompt | Subject::Resource => None,
        }
    }

    /// The answer with the id by which the agent knows the task that it tells of, if it does.
    pub(super) fn with_sealed_id(&self, may_tell: &MayTell, news: Option<&TaskNews>, line: Bytes) -> Bytes {
        let (told, maker) = match (may_tell.maker, news) {
            (Some(maker), _) => (Told::State, maker),
            (None, Some(TaskNews::Stated { maker })) => (Told::Made, *maker),
            (None, _) => return line,
        };
        if memchr::memmem::find(&line, b"\"taskId\"").is_none() {
            return line;
        }
        let bare = line.slice(..line.len() - 1);
        let sealed = || {
            let Ok(Message::Response { outcome: Ok(result), .. }) = parse(&bare) else { return None };
            let raw = told_id(&result, told)?;
            let id = text(&raw)?;
            let task = Sealed { tool: from_utf8(&may_tell.tool).ok()?, maker, id: from_utf8(&id).ok()? };
            let id = self.setup.seal.seal(&self.caller.profile, task);
            Some(splice(&bare, &mut [Edit { part: &raw, replacement: json!(id).to_string().as_bytes() }]))
        };
        sealed().unwrap_or(line)
    }
}
