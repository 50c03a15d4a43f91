//! Inputs that the server of a task requires while the task is in progress. A key means the same input over the whole life of the
//! task, so each input is requested once and sent once. Pure.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Update Requests".

use bytes::Bytes;

use crate::era::input::Input;
use crate::jsonrpc::members::text;

/// Maximum number of inputs of one task.
const MAX_INPUTS: usize = 256;

/// The inputs of one task.
#[derive(Debug, Default)]
pub(crate) struct TaskInputs {
    all: Vec<RequiredInput>,
}

#[derive(Debug)]
struct RequiredInput {
    raw_key: Bytes,
    status: InputStatus,
}

impl RequiredInput {
    /// Compares the keys as text.
    fn has_key(&self, raw_key: &Bytes) -> bool {
        self.raw_key == *raw_key || text(&self.raw_key) == text(raw_key)
    }
}

/// The status of one input.
#[derive(Debug, PartialEq, Eq)]
enum InputStatus {
    /// The agent has no request for it.
    Required,
    /// The agent has a request for it.
    Requested,
    /// The agent has answered with this raw result.
    Answered(Bytes),
    /// The server has the result.
    Sent,
}

/// Identifies one input of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskInputId {
    /// The id of the call that has created the task.
    pub(crate) creating_call: u64,
    index: usize,
}

impl TaskInputs {
    /// The inputs that have to be requested of the agent now. `inputs` has those that the server of this task requires now.
    ///
    /// # Errors
    /// If there are too many. The text continues the sentence ``server `NAME` …``.
    pub(crate) fn begin_requests(
        &mut self,
        creating_call: u64,
        inputs: Vec<Input>,
    ) -> Result<Vec<(TaskInputId, Input)>, String> {
        let position = |input: &Input| self.all.iter().position(|known| known.has_key(&input.key));
        let unknown = inputs.iter().filter(|input| position(input).is_none()).count();
        if self.all.len() + unknown > MAX_INPUTS {
            return Err(format!("has required more than {MAX_INPUTS} inputs"));
        }
        let mut new = Vec::new();
        for input in inputs {
            let index = self.all.iter().position(|known| known.has_key(&input.key)).unwrap_or_else(|| {
                // Copied, so that a small key does not keep a large line in memory.
                let raw_key = Bytes::copy_from_slice(&input.key);
                self.all.push(RequiredInput { raw_key, status: InputStatus::Required });
                self.all.len() - 1
            });
            let status = &mut self.all[index].status;
            if *status == InputStatus::Required {
                *status = InputStatus::Requested;
                new.push((TaskInputId { creating_call, index }, input));
            }
        }
        Ok(new)
    }

    /// The agent has answered this.
    pub(crate) fn answered(&mut self, TaskInputId { index, .. }: TaskInputId, result: Bytes) {
        self.set(index, InputStatus::Answered(result));
    }

    /// The agent got no request or has not answered. The input is requested again when an agent waits for the task again.
    pub(crate) fn not_answered(&mut self, TaskInputId { index, .. }: TaskInputId) {
        self.set(index, InputStatus::Required);
    }

    /// The raw keys and results to send to the server now. There are none before the agent has answered every request, because a
    /// server may refuse a part of them.
    pub(crate) fn take_answers(&mut self) -> Vec<(Bytes, Bytes)> {
        if self.all.iter().any(|input| input.status == InputStatus::Requested) {
            return Vec::new();
        }
        let mut answers = Vec::new();
        for RequiredInput { raw_key, status } in &mut self.all {
            if matches!(status, InputStatus::Answered(_))
                && let InputStatus::Answered(result) = std::mem::replace(status, InputStatus::Sent)
            {
                answers.push((raw_key.clone(), result));
            }
        }
        answers
    }

    /// The server has refused the results. Inputs that it still requires are requested again.
    pub(crate) fn refused(&mut self) {
        for input in &mut self.all {
            if input.status == InputStatus::Sent {
                input.status = InputStatus::Required;
            }
        }
    }

    /// The size of results that were not sent to the server yet.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |input: &RequiredInput| match &input.status {
            InputStatus::Answered(result) => result.len(),
            InputStatus::Required | InputStatus::Requested | InputStatus::Sent => 0,
        };
        self.all.iter().map(bytes).sum()
    }

    fn set(&mut self, index: usize, status: InputStatus) {
        if let Some(input) = self.all.get_mut(index) {
            input.status = status;
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

    fn unzipped(inputs: Vec<(TaskInputId, Input)>) -> (Vec<TaskInputId>, Vec<Bytes>) {
        inputs.into_iter().map(|(id, input)| (id, input.key)).unzip()
    }

    #[test]
    fn each_input_is_requested_once_and_sent_once() {
        let mut all = TaskInputs::default();
        let (ids, keys) = unzipped(all.begin_requests(7, inputs(&["a", "b"])).expect("room"));
        assert_eq!((ids[0].creating_call, keys), (7, vec![Bytes::from("\"a\""), Bytes::from("\"b\"")]));
        let (more, keys) = unzipped(all.begin_requests(7, inputs(&["b", "\\u0061", "c"])).expect("room"));
        assert_eq!(keys, [Bytes::from("\"c\"")], "keys are compared as text");
        all.answered(ids[0], Bytes::from("1"));
        all.answered(more[0], Bytes::from("33"));
        assert!(all.take_answers().is_empty() && all.bytes() == 3, "one request is unanswered");
        all.not_answered(ids[1]);
        assert_eq!(
            all.take_answers(),
            [("\"a\"", "1"), ("\"c\"", "33")].map(|(k, v)| (Bytes::from(k), Bytes::from(v)))
        );
        assert!(all.take_answers().is_empty() && all.bytes() == 0);
        let (_, keys) = unzipped(all.begin_requests(7, inputs(&["a", "b", "c"])).expect("room"));
        assert_eq!(keys, [Bytes::from("\"b\"")], "this input was not answered");
        all.refused();
        let (_, keys) = unzipped(all.begin_requests(7, inputs(&["a", "b"])).expect("room"));
        assert_eq!(keys, [Bytes::from("\"a\"")]);
    }

    #[test]
    fn number_of_inputs_of_a_task_is_bounded() {
        let mut all = TaskInputs::default();
        for n in 0..MAX_INPUTS {
            assert!(all.begin_requests(1, inputs(&[&n.to_string()])).is_ok());
        }
        assert!(all.begin_requests(1, inputs(&["one more"])).is_err() && all.begin_requests(1, inputs(&["0"])).is_ok());
    }
}
