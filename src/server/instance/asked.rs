//! What a server has asked, while it is kept for an agent that comes for it. Pure.

use bytes::Bytes;

use crate::jsonrpc::reply;

/// One thing that the server has asked.
pub(super) struct Asked {
    /// By which the agent's answer is known.
    pub(super) key: String,
    /// The server's own, raw.
    pub(super) id: Bytes,
    /// As text.
    method: Bytes,
    params: Option<Bytes>,
}

impl Asked {
    /// The one of this number. Copied, so that it does not keep a large line in memory.
    pub(super) fn new(number: u64, id: &[u8], method: &[u8], params: Option<&[u8]>) -> Self {
        let [id, method] = [id, method].map(Bytes::copy_from_slice);
        Self { key: number.to_string(), id, method, params: params.map(Bytes::copy_from_slice) }
    }

    /// What counts against the room for all.
    pub(super) fn bytes(&self) -> usize {
        self.params.as_ref().map_or(0, Bytes::len)
    }

    /// As the agent is told of it.
    pub(super) fn input(&self) -> (&str, &[u8], Option<&Bytes>) {
        (&self.key, &self.method, self.params.as_ref())
    }
}

/// The server's requests of `asked` that these are the answers to, by their ids, with lines for it; they are not open any more.
pub(super) fn take_answered(asked: &mut Vec<Asked>, responses: &[(Bytes, Bytes)]) -> Vec<(Bytes, Bytes)> {
    let mut lines = Vec::new();
    for (key, result) in responses {
        if let Some(index) = asked.iter().position(|asked| asked.key.as_bytes() == &key[..]) {
            let asked = asked.remove(index);
            let line = reply::result(&asked.id, result);
            lines.push((asked.id, line));
        }
    }
    lines
}
