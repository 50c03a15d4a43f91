//! The tasks that the agent has made for requests of servers, each with the instance that it was made for. Pure.
//!
//! An agent does not know that there are several servers behind mcpd, so it would let any of them see all of its tasks.
//!
//! Source: MCP 2025-11-25, `basic/utilities/tasks`, "Task Isolation and Access Control".

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::splice::Change;
use crate::server::server_request::TaskNotificationSender;

/// Maximum number of tasks per instance. One more removes the oldest; mcpd then answers the instance's requests about it as for an
/// unknown task.
const MAX_TASKS: usize = 256;

#[derive(Debug)]
pub(super) struct ClientTask {
    /// As text.
    pub(super) id: Bytes,
    pub(super) instance: TaskNotificationSender,
    pub(super) progress_token: Option<ProgressToken>,
}

/// The progress token of the request that a task was made for, raw.
#[derive(Debug)]
pub(super) struct ProgressToken {
    /// The token that the agent received.
    pub(super) sent: Bytes,
    /// The server's token.
    pub(super) server_token: Bytes,
}

#[derive(Debug, Default)]
pub(super) struct ClientTasks {
    all: Vec<ClientTask>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotATaskList;

impl ClientTasks {
    /// Adds a task; `false` if a task of another instance has the same id.
    pub(super) fn add(&mut self, task: ClientTask) -> bool {
        self.all.retain(|made| made.instance.is_there());
        if let Some(index) = self.all.iter().position(|made| made.id == task.id) {
            if !self.all[index].instance.is_same(&task.instance) {
                return false;
            }
            self.all.remove(index);
        }
        let is_of_same = |made: &ClientTask| made.instance.is_same(&task.instance);
        if self.all.iter().filter(|made| is_of_same(made)).count() >= MAX_TASKS
            && let Some(oldest) = self.all.iter().position(is_of_same)
        {
            self.all.remove(oldest);
        }
        self.all.push(task);
        true
    }

    /// Whether the task was made for this instance.
    pub(super) fn is_of(&self, id: &[u8], instance: &TaskNotificationSender) -> bool {
        self.instance_of(id).is_some_and(|owner| owner.is_same(instance))
    }

    /// The instance for which the task was made.
    pub(super) fn instance_of(&self, id: &[u8]) -> Option<&TaskNotificationSender> {
        let instance = self.all.iter().find(|made| made.id == id).map(|made| &made.instance);
        instance.filter(|instance| instance.is_there())
    }

    /// The instance that receives progress with this token, and the server's token.
    pub(super) fn of_token(&self, token: &[u8]) -> Option<(&TaskNotificationSender, &Bytes)> {
        let has_token = |made: &ClientTask| made.progress_token.as_ref().is_some_and(|known| known.sent == token);
        let made = self.all.iter().find(|made| has_token(made))?;
        Some((&made.instance, &made.progress_token.as_ref()?.server_token))
    }

    /// Removes tasks of other instances from the agent's raw result of `tasks/list`. Returns the change, if one is needed.
    pub(super) fn narrow(
        &self,
        result: &Bytes,
        instance: &TaskNotificationSender,
    ) -> Result<Option<Change>, NotATaskList> {
        let Ok([Some(part)]) = members(result, ["tasks"]) else { return Err(NotATaskList) };
        let all: Vec<&RawValue> = serde_json::from_slice(&part).map_err(|_| NotATaskList)?;
        let is_visible = |task: &&&RawValue| {
            let id = members(&part.slice_ref(task.get().as_bytes()), ["taskId"]).ok().and_then(|[id]| text(&id?));
            id.is_some_and(|id| self.is_of(&id, instance))
        };
        let visible: Vec<_> = all.iter().filter(is_visible).map(|task| task.get()).collect();
        if visible.len() == all.len() {
            return Ok(None);
        }
        let replacement = format!("[{}]", visible.join(",")).into();
        Ok(Some(Change { part, replacement }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(tasks: &mut ClientTasks, id: &str, instance: &TaskNotificationSender) -> bool {
        let id = Bytes::copy_from_slice(id.as_bytes());
        tasks.add(ClientTask { id, instance: instance.clone(), progress_token: None })
    }

    #[test]
    fn a_task_belongs_to_its_instance_as_long_as_that_runs() {
        let (mut tasks, [(one, way), (other, _other_way)]) =
            (ClientTasks::default(), [(); 2].map(|()| TaskNotificationSender::new()));
        assert!(add(&mut tasks, "a", &one) && add(&mut tasks, "b", &other) && add(&mut tasks, "a", &one));
        assert!(tasks.is_of(b"a", &one) && !tasks.is_of(b"a", &other) && !tasks.is_of(b"c", &one));
        assert!(!add(&mut tasks, "a", &other), "the ids would be ambiguous");
        drop(way);
        assert!(!tasks.is_of(b"a", &one) && tasks.instance_of(b"a").is_none());
        assert!(add(&mut tasks, "a", &other) && tasks.is_of(b"a", &other));
        assert_eq!(tasks.all.len(), 2);
    }

    #[test]
    fn an_instance_with_too_many_tasks_loses_its_oldest() {
        let (mut tasks, [(one, _way), (other, _other_way)]) =
            (ClientTasks::default(), [(); 2].map(|()| TaskNotificationSender::new()));
        add(&mut tasks, "x", &other);
        (0..=MAX_TASKS).for_each(|n| assert!(add(&mut tasks, &n.to_string(), &one)));
        assert!(tasks.is_of(b"x", &other) && !tasks.is_of(b"0", &one) && tasks.is_of(b"1", &one));
        assert_eq!(tasks.all.len(), MAX_TASKS + 1);
    }

    #[test]
    fn tasks_of_others_are_removed_from_a_list() {
        let (mut tasks, [(one, _way), (other, _other_way)]) =
            (ClientTasks::default(), [(); 2].map(|()| TaskNotificationSender::new()));
        add(&mut tasks, "a", &one);
        add(&mut tasks, "b", &one);
        let narrow = |tasks: &ClientTasks, instance, result: &'static str| {
            let change = tasks.narrow(&Bytes::from_static(result.as_bytes()), instance)?;
            Ok(change.map(|change| String::from_utf8(change.replacement.to_vec()).expect("text")))
        };
        let all = r#"{"x":1.0,"tasks": [ {"n":1.10,"taskId":"\u0061"} , {"taskId":"b"}]}"#;
        assert_eq!(narrow(&tasks, &one, all), Ok(None));
        assert_eq!(narrow(&tasks, &other, all), Ok(Some("[]".to_owned())));
        let mixed =
            r#"{"tasks":[{"n":1.10,"taskId":"a"},{"taskId":"c"},{"taskId":"b"},7,{"taskId":"a","TaskId":"c"}]}"#;
        assert_eq!(narrow(&tasks, &one, mixed), Ok(Some(r#"[{"n":1.10,"taskId":"a"},{"taskId":"b"}]"#.to_owned())));
        for none in ["{}", "[]", r#"{"tasks":7}"#, r#"{"tasks":[],"Tasks":[]}"#] {
            assert_eq!(narrow(&tasks, &one, none), Err(NotATaskList), "{none}");
        }
    }
}
