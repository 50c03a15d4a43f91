//! Tools of a modern server that it runs as tasks only. An agent that has asked for no task can call them all the same: mcpd follows the
//! task, and answers the call with what becomes of it.
//!
//! Such a tool is found out by the server's refusal (−32021), and then remembered. Source: extension `io.modelcontextprotocol/tasks`,
//! 2026-07-28, "Capability Negotiation".

use std::collections::HashSet;
use std::time::Instant;

use bytes::Bytes;

use super::calls::Unanswered;
use super::crossing::{Crossing, TaskUse, Way};
use super::polls::Step;
use super::tasks::{Open, Task};
use super::{Effect, Instance};
use crate::era;
use crate::era::request;
use crate::era::task::Status;
use crate::jsonrpc::members::members;
use crate::jsonrpc::pending::minted;
use crate::server::messages::call::{Failure, RequestKind};
use crate::server::messages::tasks::{TaskAct, TaskAsk, TaskState};

/// Most of them that are remembered; for one more all are forgotten, and found out again.
const MOST: usize = 1024;

/// Those of one instance, by their own names, as text.
#[derive(Debug, Default)]
pub(super) struct AlwaysTasks {
    names: HashSet<Bytes>,
}

impl AlwaysTasks {
    pub(super) fn include(&self, name: &Bytes) -> bool {
        self.names.contains(name)
    }

    fn remember(&mut self, name: &Bytes) {
        if self.names.len() >= MOST {
            self.names.clear();
        }
        // Copied, so that a small name does not keep a large line in memory.
        self.names.insert(Bytes::copy_from_slice(name));
    }
}

impl Instance {
    /// Makes a call once more that the server has refused, as one that may become a task; gives it back if that is not why.
    ///
    /// This sends nothing again that the server may have done: it has said that it does not take the call as it was.
    pub(super) fn retry_as_task(
        &mut self,
        mut call: Unanswered,
        mut crossing: Crossing,
        error: &Bytes,
    ) -> Option<(Unanswered, Crossing)> {
        let tool = crossing.asked.tool().filter(|_| wants_tasks(error));
        let has_room = self.task_support.declared && self.tasks.have_room() && call.reply.to().is_some();
        let Way::Up { speaker, task: task @ TaskUse::None, rounds: 0, .. } = &mut crossing.way else {
            return Some((call, crossing));
        };
        let changes = request::to_modern(&crossing.asked.params, speaker, true);
        let (Some(tool), true, Ok(changes)) = (tool, has_room, changes) else { return Some((call, crossing)) };
        *task = TaskUse::Followed;
        self.always_tasks.remember(&tool);
        call.deadline.put_off(Instant::now());
        call.crossing = Some(Box::new(crossing));
        self.send_again(call, &changes);
        None
    }

    /// The server has made a task of a call whose agent waits for its result: `modern` says so in its words, `legacy` in the agent's.
    pub(super) fn await_end(
        &mut self,
        mut call: Unanswered,
        mut crossing: Crossing,
        id: &Bytes,
        (modern, legacy): (&Bytes, &Bytes),
    ) -> Effect {
        let made = (TaskState::made(legacy), minted(id), crossing.speaker());
        let (Some(state), Some(request), Some(speaker)) = made else {
            return self.end_failed(call, Failure::AnswerMalformed);
        };
        let (to, token) = (call.reply.to().cloned(), call.progress_token.clone());
        let open = Open::new(self.ends_at(state.ttl), None);
        if !self.add_task(request, Task::new(&state, call.reply.key, to, token, Some(open))) {
            return self.end_failed(call, Failure::TaskIdTaken);
        }
        call.matter = RequestKind::Task(Box::new(TaskAsk { id: state.id, act: TaskAct::Result }));
        crossing.way = Way::About { speaker, step: Step::State };
        if Status::read(modern) == Some(Status::Working) {
            self.wait_on(call, crossing, modern);
        } else {
            self.look_again(call, crossing);
        }
        Effect::Nothing
    }
}

impl Crossing {
    /// Whether its server may make a task of it, which its agent has not asked for.
    pub(super) fn makes_task(&self) -> bool {
        matches!(self.way, Way::Down { makes_task: true, .. } | Way::Up { task: TaskUse::Followed, .. })
    }

    /// Whether it is a call whose task mcpd follows, and of which its agent knows nothing.
    pub(super) fn follows_task(&self) -> bool {
        matches!(self.way, Way::About { .. }) && self.asked.method[..] == *b"tools/call"
    }
}

impl Unanswered {
    /// Whether its answer may be a task.
    pub(super) fn makes_task(&self) -> bool {
        let crossing = self.crossing.as_deref();
        matches!(self.matter, RequestKind::NewTask) || crossing.is_some_and(Crossing::makes_task)
    }

    /// Whether what it waits for is a task of which its agent knows nothing.
    pub(super) fn follows_task(&self) -> bool {
        self.crossing.as_deref().is_some_and(Crossing::follows_task)
    }
}

/// Whether the raw `error` says that the request has to declare that it understands tasks.
fn wants_tasks(error: &Bytes) -> bool {
    let inner = |raw: Option<Bytes>, name| raw.and_then(|raw| members(&raw, [name]).ok()).and_then(|[raw]| raw);
    let Ok([code, data]) = members(error, ["code", "data"]) else { return false };
    let wanted = inner(inner(inner(data, "requiredCapabilities"), "extensions"), era::TASKS);
    wanted.is_some() && code.is_some_and(|code| code[..] == *era::MISSING_CAPABILITY.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_that_it_is_for_want_of_tasks() {
        let tasks = r#""io.modelcontextprotocol/tasks":{}"#;
        for (code, required, expected) in [
            ("-32021", format!(r#"{{"extensions":{{{tasks}}}}}"#), true),
            ("-32021", format!(r#"{{"extensions":{{"a/b":{{}},{tasks}}},"x":1}}"#), true),
            ("-32021", r#"{"extensions":{"a/b":{}}}"#.to_owned(), false),
            ("-32021", r#"{"sampling":{}}"#.to_owned(), false),
            ("-32021", "7".to_owned(), false),
            ("-32602", format!(r#"{{"extensions":{{{tasks}}}}}"#), false),
        ] {
            let error = format!(r#"{{"code":{code},"message":"","data":{{"requiredCapabilities":{required}}}}}"#);
            assert_eq!(wants_tasks(&Bytes::from(error)), expected, "{code} {required}");
        }
        assert!(!wants_tasks(&Bytes::from_static(b"[]")) && !wants_tasks(&Bytes::from_static(br#"{"code":-32021}"#)));
    }

    #[test]
    fn a_bounded_number_of_tools_is_remembered() {
        let (mut tools, name) = (AlwaysTasks::default(), |n: usize| Bytes::from(format!("\"{n}\"")));
        for n in 0..MOST {
            tools.remember(&name(n));
        }
        assert!(tools.include(&name(0)) && !tools.include(&name(MOST)));
        tools.remember(&name(MOST));
        assert!(!tools.include(&name(0)) && tools.include(&name(MOST)));
    }
}
