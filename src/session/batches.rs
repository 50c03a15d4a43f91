//! Batches of an agent whose answers are not complete. Pure.
//!
//! Each member is handled as if it had come alone, and its answer kept here until that of the last one is there: then all
//! go out as one array, in the order in which they came (JSON-RPC 2.0, "Batch").

use bytes::Bytes;

/// Those of one agent. While one is taken in, every answer is one of its own: nothing else is said meanwhile.
#[derive(Default)]
pub(super) struct Batches {
    open: Option<Batch>,
    waiting: Vec<Batch>,
    /// Of the answers kept.
    bytes: usize,
}

#[derive(Default)]
struct Batch {
    /// Raw ids of requests that have no answer yet. No two of an agent are alike.
    unanswered: Vec<Bytes>,
    /// Answers without their newlines, with what stands between them.
    parts: Vec<Bytes>,
}

/// A whole line in parts, or nothing if there is nothing to say.
type Line = Vec<Bytes>;

impl Batches {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_none() && self.waiting.is_empty()
    }

    /// The bytes of all answers kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A batch is taken in from here on.
    pub(super) fn begin(&mut self) {
        self.open = Some(Batch::default());
    }

    /// The request with this id is one of the batch that is taken in, and has no answer yet.
    pub(super) fn expect(&mut self, id: &Bytes) {
        if let Some(open) = &mut self.open {
            // Copied, so that a small id does not keep a large line in memory.
            open.unanswered.push(Bytes::copy_from_slice(id));
        }
    }

    /// The batch is taken in. Its answers, if it needs no others.
    pub(super) fn end(&mut self) -> Line {
        let Some(open) = self.open.take() else { return Line::new() };
        self.waiting.push(open);
        self.take_complete()
    }

    /// Whether the answer to the request `id`, or one that is to no request, belongs to a batch.
    pub(super) fn wants(&self, id: Option<&Bytes>) -> bool {
        let is_awaited = |id: &Bytes| self.waiting.iter().any(|batch| batch.unanswered.contains(id));
        self.open.is_some() || id.is_some_and(is_awaited)
    }

    /// Keeps a whole line, in parts, that answers the request `id`. What is to be said if it was the last one.
    pub(super) fn keep(&mut self, id: Option<&Bytes>, answer: Vec<Bytes>) -> Line {
        let has = |batch: &&mut Batch| id.is_some_and(|id| batch.unanswered.contains(id));
        let Some(batch) = self.open.as_mut().or_else(|| self.waiting.iter_mut().find(has)) else { return answer };
        let before = batch.size();
        batch.add(answer);
        self.bytes += batch.size() - before;
        self.forget(id)
    }

    /// The request gets no answer any more. What is to be said if it was the last one.
    pub(super) fn forget(&mut self, id: Option<&Bytes>) -> Line {
        for batch in self.open.iter_mut().chain(&mut self.waiting) {
            batch.unanswered.retain(|own| Some(own) != id);
        }
        self.take_complete()
    }

    /// What there is of all, each a line.
    pub(super) fn give_up(&mut self) -> Vec<Line> {
        self.bytes = 0;
        self.waiting.drain(..).map(Batch::into_line).collect()
    }

    fn take_complete(&mut self) -> Line {
        let Some(index) = self.waiting.iter().position(|batch| batch.unanswered.is_empty()) else { return Line::new() };
        let batch = self.waiting.swap_remove(index);
        self.bytes -= batch.size();
        batch.into_line()
    }
}

impl Batch {
    fn add(&mut self, mut answer: Vec<Bytes>) {
        self.parts.push(Bytes::from_static(if self.parts.is_empty() { b"[" } else { b"," }));
        if let Some(last) = answer.last_mut()
            && last.ends_with(b"\n")
        {
            last.truncate(last.len() - 1);
        }
        self.parts.extend(answer);
    }

    fn size(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    /// Where nothing is to be answered, nothing is said.
    fn into_line(mut self) -> Line {
        if !self.parts.is_empty() {
            self.parts.push(Bytes::from_static(b"]\n"));
        }
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: &'static str) -> Bytes {
        Bytes::from_static(id.as_bytes())
    }

    fn answer(text: &str) -> Vec<Bytes> {
        vec![Bytes::copy_from_slice(text.as_bytes()), Bytes::from_static(b"\n")]
    }

    fn text(line: Line) -> String {
        String::from_utf8(line.concat()).expect("text")
    }

    /// A batch of which these are unanswered and this has been answered.
    fn taken_in(batches: &mut Batches, unanswered: &[&'static str], answered: &str) -> Line {
        batches.begin();
        batches.keep(None, answer(answered));
        unanswered.iter().for_each(|own| batches.expect(&id(own)));
        batches.end()
    }

    #[test]
    fn a_batch_is_said_as_one_when_its_last_answer_is_there() {
        let mut batches = Batches::default();
        assert_eq!(text(taken_in(&mut batches, &[], "0")), "[0]\n");
        assert!(batches.is_empty() && batches.bytes() == 0);
        assert!(taken_in(&mut batches, &["1", "2"], "0").is_empty());
        assert!(taken_in(&mut batches, &["3"], "9").is_empty());
        assert!(batches.wants(Some(&id("2"))) && !batches.wants(Some(&id("4"))) && !batches.wants(None));
        assert!(batches.keep(Some(&id("2")), answer("two")).is_empty());
        assert_eq!(text(batches.keep(Some(&id("3")), answer("three"))), "[9,three]\n");
        assert_eq!(text(batches.keep(Some(&id("1")), answer("one"))), "[0,two,one]\n");
        assert!(batches.is_empty() && batches.bytes() == 0);
    }

    #[test]
    fn what_is_cancelled_is_not_waited_for_and_nothing_is_said_where_nothing_is_to_be_answered() {
        let mut batches = Batches::default();
        assert!(taken_in(&mut batches, &["1", "2"], "0").is_empty());
        assert!(batches.forget(Some(&id("1"))).is_empty());
        assert_eq!(text(batches.forget(Some(&id("2")))), "[0]\n");
        batches.begin();
        assert!(batches.end().is_empty());
        batches.begin();
        batches.expect(&id("3"));
        assert!(batches.end().is_empty() && batches.forget(Some(&id("3"))).is_empty() && batches.is_empty());
    }

    #[test]
    fn at_the_end_what_there_is_is_said() {
        let mut batches = Batches::default();
        taken_in(&mut batches, &["1"], "0");
        assert_eq!(batches.give_up().into_iter().map(text).collect::<Vec<_>>(), ["[0]\n"]);
        assert!(batches.is_empty() && batches.bytes() == 0);
    }
}
