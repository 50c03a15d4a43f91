//! JSON-RPC batches whose responses are incomplete. Pure.
//!
//! Each member is handled as if it had come alone. Its response is collected here, and with the last one all are sent as one array, in
//! the order in which they arrived (JSON-RPC 2.0, "Batch").

use bytes::Bytes;

#[derive(Default)]
pub(super) struct Batches {
    /// The batch that is being handled. Every response meanwhile belongs to it.
    current: Option<Batch>,
    waiting: Vec<Batch>,
    /// Of the collected responses.
    bytes: usize,
}

#[derive(Default)]
struct Batch {
    /// Raw ids. They are unique over all batches of an agent.
    unanswered: Vec<Bytes>,
    /// Responses without their newlines, and the brackets and commas around them.
    parts: Vec<Bytes>,
}

/// A whole line in parts; empty if there is nothing to send.
type Line = Vec<Bytes>;

impl Batches {
    pub(super) fn is_empty(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty()
    }

    /// Of the collected responses.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn begin(&mut self) {
        self.current = Some(Batch::default());
    }

    /// The current batch waits for the response to this request.
    pub(super) fn expect(&mut self, id: &Bytes) {
        if let Some(current) = &mut self.current {
            // Copied, so that a small id does not keep a large line in memory.
            current.unanswered.push(Bytes::copy_from_slice(id));
        }
    }

    /// Every member was handled. Returns the responses if they are complete.
    pub(super) fn end(&mut self) -> Line {
        let Some(current) = self.current.take() else { return Line::new() };
        self.waiting.push(current);
        self.take_complete()
    }

    /// Whether the response to the pending request `id` belongs to a batch. `None` means the response to the message that is being
    /// handled.
    pub(super) fn includes(&self, id: Option<&Bytes>) -> bool {
        let is_awaited = |id: &Bytes| self.waiting.iter().any(|batch| batch.unanswered.contains(id));
        self.current.is_some() || id.is_some_and(is_awaited)
    }

    /// Collects the response to the pending request `id` (`None`: to the message that is being handled), a whole line in parts.
    /// Returns the batch if it is complete.
    pub(super) fn collect(&mut self, id: Option<&Bytes>, response: Vec<Bytes>) -> Line {
        let has = |batch: &&mut Batch| id.is_some_and(|id| batch.unanswered.contains(id));
        let Some(batch) = self.current.as_mut().or_else(|| self.waiting.iter_mut().find(has)) else { return response };
        let before = batch.size();
        batch.add(response);
        self.bytes += batch.size() - before;
        self.stop_awaiting(id)
    }

    /// The request gets no response. Returns the batch if it is complete.
    pub(super) fn stop_awaiting(&mut self, id: Option<&Bytes>) -> Line {
        for batch in self.current.iter_mut().chain(&mut self.waiting) {
            batch.unanswered.retain(|awaited| Some(awaited) != id);
        }
        self.take_complete()
    }

    /// Removes all batches. Returns the responses of each.
    pub(super) fn take_incomplete(&mut self) -> Vec<Line> {
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
    fn add(&mut self, mut response: Vec<Bytes>) {
        self.parts.push(Bytes::from_static(if self.parts.is_empty() { b"[" } else { b"," }));
        if let Some(last) = response.last_mut()
            && last.ends_with(b"\n")
        {
            last.truncate(last.len() - 1);
        }
        self.parts.extend(response);
    }

    fn size(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

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

    /// A batch with these unanswered requests and this response.
    fn batch(batches: &mut Batches, unanswered: &[&'static str], answered: &str) -> Line {
        batches.begin();
        batches.collect(None, answer(answered));
        unanswered.iter().for_each(|awaited| batches.expect(&id(awaited)));
        batches.end()
    }

    #[test]
    fn a_batch_is_sent_with_its_last_response() {
        let mut batches = Batches::default();
        assert_eq!(text(batch(&mut batches, &[], "0")), "[0]\n");
        assert!(batches.is_empty() && batches.bytes() == 0);
        assert!(batch(&mut batches, &["1", "2"], "0").is_empty());
        assert!(batch(&mut batches, &["3"], "9").is_empty());
        assert!(batches.includes(Some(&id("2"))) && !batches.includes(Some(&id("4"))) && !batches.includes(None));
        assert!(batches.collect(Some(&id("2")), answer("two")).is_empty());
        assert_eq!(text(batches.collect(Some(&id("3")), answer("three"))), "[9,three]\n");
        assert_eq!(text(batches.collect(Some(&id("1")), answer("one"))), "[0,two,one]\n");
        assert!(batches.is_empty() && batches.bytes() == 0);
    }

    #[test]
    fn a_batch_does_not_wait_for_cancelled_requests_and_is_not_sent_if_empty() {
        let mut batches = Batches::default();
        assert!(batch(&mut batches, &["1", "2"], "0").is_empty());
        assert!(batches.stop_awaiting(Some(&id("1"))).is_empty());
        assert_eq!(text(batches.stop_awaiting(Some(&id("2")))), "[0]\n");
        batches.begin();
        assert!(batches.end().is_empty());
        batches.begin();
        batches.expect(&id("3"));
        assert!(batches.end().is_empty() && batches.stop_awaiting(Some(&id("3"))).is_empty() && batches.is_empty());
    }

    #[test]
    fn incomplete_batches_can_be_sent() {
        let mut batches = Batches::default();
        batch(&mut batches, &["1"], "0");
        assert_eq!(batches.take_incomplete().into_iter().map(text).collect::<Vec<_>>(), ["[0]\n"]);
        assert!(batches.is_empty() && batches.bytes() == 0);
    }
}
