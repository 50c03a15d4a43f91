//! What a legacy server asks for a modern agent's task: it is kept until the agent looks at the task, and answers with an update.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28; MCP 2025-11-25, `basic/utilities/tasks`, "Associated Task".

use bytes::Bytes;

use super::Instance;
use super::held::MOST_MESSAGES;
use crate::era::task::{question_to_modern, related_id};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_REQUEST};
use crate::jsonrpc::splice::applied;
use crate::server::client_capabilities::ClientCapability;
use crate::server::question::{Wish, failed, not_asked, undeclared};

impl Instance {
    /// The modern agent's task that a request with these params says it is about, unless that wants to know about tasks of the agent's.
    pub(super) fn stated_asker(&mut self, params: Option<&Bytes>, wish: &Wish) -> Option<Bytes> {
        let id = related_id(params?).filter(|_| wish.ability != ClientCapability::Tasks)?;
        self.stated.find(&id).map(|_| id)
    }

    /// Keeps what the server asks with its request `id` for that task.
    pub(super) fn hold_for_task(
        &mut self,
        task: &[u8],
        id: &Bytes,
        (method, params): (&Bytes, Option<&Bytes>),
        wish: &Wish,
    ) -> Result<(), ErrorObject> {
        let (server, max_message) = (self.config.name.clone(), self.wire.max_message());
        let not_asked = |why| not_asked(ErrorCode::Unavailable, why, &server);
        if self.stated.has_question(id) {
            return Err(ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered"));
        }
        let (all, bytes) = (self.stated.bytes(), params.map_or(0, Bytes::len));
        let Some(task) = self.stated.find(task).filter(|task| task.is_open()) else {
            return Err(not_asked("the task that this is for has ended"));
        };
        if !task.abilities.include(wish.ability) {
            return Err(undeclared(wish.ability));
        }
        let has_room = task.bytes() + bytes <= max_message && all + bytes <= MOST_MESSAGES * max_message;
        if !has_room || !task.has_room() {
            return Err(not_asked("too many requests for agents are unanswered"));
        }
        let params = params.map(|raw| applied(raw, &question_to_modern(raw).unwrap_or_default()));
        task.ask(id, method, params.as_deref());
        Ok(())
    }

    /// Tells the server that nobody will answer what it has asked for a task.
    pub(super) fn refuse_questions(&mut self, unanswered: &[Bytes]) {
        for id in unanswered {
            let error = failed(ErrorCode::Died, "the task that this was for has ended", &self.config.name);
            self.wire.try_notify(reply::error(Some(id), &error));
        }
    }
}
