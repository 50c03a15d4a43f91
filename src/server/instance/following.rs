//! Hearing from a server of the modern era how far its tasks are, for those who follow them.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Status Notifications".

use bytes::Bytes;
use serde_json::json;

use super::listening::Topic;
use super::{Effect, Instance};
use crate::era::Era;
use crate::era::notification::{subscription, without_subscription};
use crate::era::task::Status;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::pending::minted;
use crate::jsonrpc::splice::applied;
use crate::server::followers::Following;

impl Instance {
    /// The first agent follows a task, or the last one does so no more.
    pub(in crate::server) fn follow(&mut self, Following { id, begins }: Following) {
        if self.wire.era() == Era::Legacy {
            return;
        }
        let raw = json!(String::from_utf8_lossy(&id)).to_string();
        let topic = Topic::Task(id);
        if begins {
            self.listening.want(topic, &raw.into());
        } else {
            self.listening.forget(&topic);
        }
    }

    /// The server says how far a task is, which it may say to who has asked for that alone.
    pub(super) fn task_told(&mut self, line: &Bytes, params: Option<&Bytes>) -> Effect {
        let is_heard = subscription(params).and_then(|raw| minted(&raw)).is_some_and(|id| self.listening.hears(id));
        let id = params.and_then(|params| members(params, ["taskId"]).ok()).and_then(|[raw]| text(&raw?));
        let (true, Some(id)) = (is_heard, id) else { return Effect::Nothing };
        let status = params.and_then(Status::read);
        let ended = matches!(status, Some(Status::Completed(_) | Status::Failed(_) | Status::Cancelled));
        if ended {
            self.listening.has_ended(&Topic::Task(id.clone()));
            self.stated.at_work.end(&id);
        }
        Effect::TaskTold { line: applied(line, &without_subscription(params)).into(), id, ended }
    }
}
