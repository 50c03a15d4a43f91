//! What the server of a task wants to know while it is at work, each thing by a key that means nothing else over the task's whole
//! life: it is asked for once, and told once. Pure.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Update Requests".

use bytes::Bytes;

use crate::era::input::Input;
use crate::jsonrpc::members::text;

/// Most things that a server may want to know for one task.
const MAX_INPUTS: usize = 256;

/// All of one task.
#[derive(Debug, Default)]
pub(crate) struct TaskInputs {
    all: Vec<RequiredInput>,
}

#[derive(Debug)]
struct RequiredInput {
    raw_key: Bytes,
    progress: Progress,
}

impl RequiredInput {
    /// However the key is spelled.
    fn is(&self, raw_key: &Bytes) -> bool {
        self.raw_key == *raw_key || text(&self.raw_key) == text(raw_key)
    }
}

/// How far one of them is.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// The agent is to be asked.
    Required,
    /// The agent has a request for it.
    Requested,
    /// The agent has answered with this raw result.
    Answered(Bytes),
    /// The server has the result.
    Sent,
}

/// Which of them, of which task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskInput {
    /// The id of the call that has made the task.
    pub(crate) task: u64,
    index: usize,
}

impl TaskInputs {
    /// What of `inputs`, which the server of this task wants to know now, the agent is to be asked, with where the answer belongs.
    ///
    /// # Errors
    /// Why it is not, of the server.
    pub(crate) fn begin_asking(&mut self, task: u64, inputs: Vec<Input>) -> Result<Vec<(TaskInput, Input)>, String> {
        let known = |input: &Input| self.all.iter().position(|wanted| wanted.is(&input.key));
        let unknown = inputs.iter().filter(|input| known(input).is_none()).count();
        if self.all.len() + unknown > MAX_INPUTS {
            return Err(format!("has wanted to know more than {MAX_INPUTS} things"));
        }
        let mut to_ask = Vec::new();
        for input in inputs {
            let index = self.all.iter().position(|wanted| wanted.is(&input.key)).unwrap_or_else(|| {
                // Copied, so that a small key does not keep a large line in memory.
                let raw_key = Bytes::copy_from_slice(&input.key);
                self.all.push(RequiredInput { raw_key, progress: Progress::Required });
                self.all.len() - 1
            });
            let progress = &mut self.all[index].progress;
            if *progress == Progress::Required {
                *progress = Progress::Requested;
                to_ask.push((TaskInput { task, index }, input));
            }
        }
        Ok(to_ask)
    }

    /// The agent has answered this.
    pub(crate) fn answered(&mut self, TaskInput { index, .. }: TaskInput, result: Bytes) {
        self.set(index, Progress::Answered(result));
    }

    /// The agent was not asked, or has not answered: it is to be asked when somebody waits again.
    pub(crate) fn not_answered(&mut self, TaskInput { index, .. }: TaskInput) {
        self.set(index, Progress::Required);
    }

    /// The raw keys and answers of what the server is to be told now: once the agent has answered everything, since a server need not
    /// take a part.
    pub(crate) fn take_answers(&mut self) -> Vec<(Bytes, Bytes)> {
        if self.all.iter().any(|wanted| wanted.progress == Progress::Requested) {
            return Vec::new();
        }
        let mut to_tell = Vec::new();
        for RequiredInput { raw_key, progress } in &mut self.all {
            if matches!(progress, Progress::Answered(_))
                && let Progress::Answered(result) = std::mem::replace(progress, Progress::Sent)
            {
                to_tell.push((raw_key.clone(), result));
            }
        }
        to_tell
    }

    /// The server did not take what it was told: if it wants to know that still, the agent is asked once more.
    pub(crate) fn not_taken(&mut self) {
        for wanted in &mut self.all {
            if wanted.progress == Progress::Sent {
                wanted.progress = Progress::Required;
            }
        }
    }

    /// Of what was answered and not told.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |wanted: &RequiredInput| match &wanted.progress {
            Progress::Answered(result) => result.len(),
            Progress::Required | Progress::Requested | Progress::Sent => 0,
        };
        self.all.iter().map(bytes).sum()
    }

    fn set(&mut self, index: usize, progress: Progress) {
        if let Some(wanted) = self.all.get_mut(index) {
            wanted.progress = progress;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(keys: &[&str]) -> Vec<Input> {
        let input = |key: &&str| Input { key: Bytes::from(format!("\"{key}\"")), method: Bytes::new(), params: None };
        keys.iter().map(input).collect()
    }

    fn asked(inputs: Vec<(TaskInput, Input)>) -> (Vec<TaskInput>, Vec<Bytes>) {
        inputs.into_iter().map(|(place, input)| (place, input.key)).unzip()
    }

    #[test]
    fn each_thing_is_asked_for_and_told_once() {
        let mut all = TaskInputs::default();
        let (places, keys) = asked(all.begin_asking(7, inputs(&["a", "b"])).expect("room"));
        assert_eq!((places[0].task, keys), (7, vec![Bytes::from("\"a\""), Bytes::from("\"b\"")]));
        let (more, keys) = asked(all.begin_asking(7, inputs(&["b", "\\u0061", "c"])).expect("room"));
        assert_eq!(keys, [Bytes::from("\"c\"")], "however it is spelled");
        all.answered(places[0], Bytes::from("1"));
        all.answered(more[0], Bytes::from("33"));
        assert!(all.take_answers().is_empty() && all.bytes() == 3, "one is still being asked for");
        all.not_answered(places[1]);
        assert_eq!(
            all.take_answers(),
            [("\"a\"", "1"), ("\"c\"", "33")].map(|(k, v)| (Bytes::from(k), Bytes::from(v)))
        );
        assert!(all.take_answers().is_empty() && all.bytes() == 0);
        let (_, keys) = asked(all.begin_asking(7, inputs(&["a", "b", "c"])).expect("room"));
        assert_eq!(keys, [Bytes::from("\"b\"")], "that one was not answered");
        all.not_taken();
        let (_, keys) = asked(all.begin_asking(7, inputs(&["a", "b"])).expect("room"));
        assert_eq!(keys, [Bytes::from("\"a\"")]);
    }

    #[test]
    fn a_task_wants_to_know_a_bounded_number_of_things() {
        let mut all = TaskInputs::default();
        for n in 0..MAX_INPUTS {
            assert!(all.begin_asking(1, inputs(&[&n.to_string()])).is_ok());
        }
        assert!(all.begin_asking(1, inputs(&["one more"])).is_err() && all.begin_asking(1, inputs(&["0"])).is_ok());
    }
}
