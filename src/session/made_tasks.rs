//! The tasks that the agent has made of what servers ask: for which instance each was made. Pure.
//!
//! An agent does not know that several servers are behind mcpd, and tells whoever asks of any of its tasks.
//!
//! Source: MCP 2025-11-25, `basic/utilities/tasks`, "Task Isolation and Access Control".

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::jsonrpc::members::{members, text};
use crate::server::question::Asker;

/// Tasks of one instance that are remembered. For one more its oldest is forgotten, which is unknown to it from then on.
const MOST: usize = 256;

/// One that was made.
#[derive(Debug)]
pub(super) struct MadeTask {
    /// As text.
    pub(super) id: Bytes,
    pub(super) asker: Asker,
    /// Of the request that it was made of, raw: the token that the agent was given, and the server's own.
    pub(super) progress_token: Option<(Bytes, Bytes)>,
}

/// Those of one agent.
#[derive(Debug, Default)]
pub(super) struct MadeTasks {
    all: Vec<MadeTask>,
}

/// What is no list of tasks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAList;

/// A part of a list of tasks that is to be replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Narrowed {
    /// A slice of the result.
    pub(super) part: Bytes,
    /// What stands there instead.
    pub(super) replacement: Bytes,
}

impl MadeTasks {
    /// Adds one; `false` if one of another instance has its id.
    pub(super) fn add(&mut self, task: MadeTask) -> bool {
        self.all.retain(|made| made.asker.is_there());
        if let Some(index) = self.all.iter().position(|made| made.id == task.id) {
            if !self.all[index].asker.is_same(&task.asker) {
                return false;
            }
            self.all.remove(index);
        }
        let is_of_same = |made: &MadeTask| made.asker.is_same(&task.asker);
        if self.all.iter().filter(|made| is_of_same(made)).count() >= MOST
            && let Some(oldest) = self.all.iter().position(is_of_same)
        {
            self.all.remove(oldest);
        }
        self.all.push(task);
        true
    }

    /// Whether the one of that id was made for this instance.
    pub(super) fn is_of(&self, id: &[u8], asker: &Asker) -> bool {
        self.asker_of(id).is_some_and(|own| own.is_same(asker))
    }

    /// The instance for which the one of that id was made.
    pub(super) fn asker_of(&self, id: &[u8]) -> Option<&Asker> {
        let asker = self.all.iter().find(|made| made.id == id).map(|made| &made.asker);
        asker.filter(|asker| asker.is_there())
    }

    /// Where progress with this raw token of the agent's goes, and the server's own.
    pub(super) fn of_token(&self, token: &[u8]) -> Option<(&Asker, &Bytes)> {
        let own = |made: &MadeTask| made.progress_token.as_ref().is_some_and(|(given, _)| given == token);
        let made = self.all.iter().find(|made| own(made))?;
        Some((&made.asker, &made.progress_token.as_ref()?.1))
    }

    /// What is to be replaced in the agent's raw result of `tasks/list`, so that it has no tasks but those of this instance;
    /// nothing if it has no others.
    pub(super) fn narrow(&self, result: &Bytes, asker: &Asker) -> Result<Option<Narrowed>, NotAList> {
        let Ok([Some(part)]) = members(result, ["tasks"]) else { return Err(NotAList) };
        let all: Vec<&RawValue> = serde_json::from_slice(&part).map_err(|_| NotAList)?;
        let is_own = |task: &&&RawValue| {
            let id = members(&part.slice_ref(task.get().as_bytes()), ["taskId"]).ok().and_then(|[id]| text(&id?));
            id.is_some_and(|id| self.is_of(&id, asker))
        };
        let own: Vec<_> = all.iter().filter(is_own).map(|task| task.get()).collect();
        if own.len() == all.len() {
            return Ok(None);
        }
        let replacement = format!("[{}]", own.join(",")).into();
        Ok(Some(Narrowed { part, replacement }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(tasks: &mut MadeTasks, id: &str, asker: &Asker) -> bool {
        let id = Bytes::copy_from_slice(id.as_bytes());
        tasks.add(MadeTask { id, asker: asker.clone(), progress_token: None })
    }

    #[test]
    fn a_task_is_that_of_the_instance_that_had_it_made_for_as_long_as_that_runs() {
        let (mut tasks, [(one, way), (other, _other_way)]) = (MadeTasks::default(), [(); 2].map(|()| Asker::new()));
        assert!(add(&mut tasks, "a", &one) && add(&mut tasks, "b", &other) && add(&mut tasks, "a", &one));
        assert!(tasks.is_of(b"a", &one) && !tasks.is_of(b"a", &other) && !tasks.is_of(b"c", &one));
        assert!(!add(&mut tasks, "a", &other), "two could not be told apart");
        drop(way);
        assert!(!tasks.is_of(b"a", &one) && tasks.asker_of(b"a").is_none());
        assert!(add(&mut tasks, "a", &other) && tasks.is_of(b"a", &other));
        assert_eq!(tasks.all.len(), 2);
    }

    #[test]
    fn of_many_tasks_of_one_instance_its_own_oldest_is_forgotten() {
        let (mut tasks, [(one, _way), (other, _other_way)]) = (MadeTasks::default(), [(); 2].map(|()| Asker::new()));
        add(&mut tasks, "x", &other);
        (0..=MOST).for_each(|n| assert!(add(&mut tasks, &n.to_string(), &one)));
        assert!(tasks.is_of(b"x", &other) && !tasks.is_of(b"0", &one) && tasks.is_of(b"1", &one));
        assert_eq!(tasks.all.len(), MOST + 1);
    }

    #[test]
    fn a_list_is_cut_only_where_it_has_tasks_of_others() {
        let (mut tasks, [(one, _way), (other, _other_way)]) = (MadeTasks::default(), [(); 2].map(|()| Asker::new()));
        add(&mut tasks, "a", &one);
        add(&mut tasks, "b", &one);
        let narrow = |tasks: &MadeTasks, asker, result: &'static str| {
            let narrowed = tasks.narrow(&Bytes::from_static(result.as_bytes()), asker)?;
            Ok(narrowed.map(|narrowed| String::from_utf8(narrowed.replacement.to_vec()).expect("text")))
        };
        let all = r#"{"x":1.0,"tasks": [ {"n":1.10,"taskId":"\u0061"} , {"taskId":"b"}]}"#;
        assert_eq!(narrow(&tasks, &one, all), Ok(None));
        assert_eq!(narrow(&tasks, &other, all), Ok(Some("[]".to_owned())));
        let mixed =
            r#"{"tasks":[{"n":1.10,"taskId":"a"},{"taskId":"c"},{"taskId":"b"},7,{"taskId":"a","TaskId":"c"}]}"#;
        assert_eq!(narrow(&tasks, &one, mixed), Ok(Some(r#"[{"n":1.10,"taskId":"a"},{"taskId":"b"}]"#.to_owned())));
        for none in ["{}", "[]", r#"{"tasks":7}"#, r#"{"tasks":[],"Tasks":[]}"#] {
            assert_eq!(narrow(&tasks, &one, none), Err(NotAList), "{none}");
        }
    }
}
