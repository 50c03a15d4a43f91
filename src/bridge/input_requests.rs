//! Requests of a legacy server that a modern agent answers with a later request.

use bytes::Bytes;

use crate::jsonrpc::reply;

/// A request of the server that its agent has not answered.
#[derive(Debug)]
pub(crate) struct PendingInputRequest {
    /// The key in `inputRequests`.
    key: String,
    /// The server's id, raw.
    id: Bytes,
    /// As text.
    method: Bytes,
    params: Option<Bytes>,
}

impl PendingInputRequest {
    /// Copies the parts, so that the input does not keep a large line in memory.
    pub(crate) fn new(number: u64, id: &[u8], method: &[u8], params: Option<&[u8]>) -> Self {
        let [id, method] = [id, method].map(Bytes::copy_from_slice);
        Self { key: number.to_string(), id, method, params: params.map(Bytes::copy_from_slice) }
    }

    pub(crate) fn id(&self) -> &Bytes {
        &self.id
    }

    pub(crate) fn into_id(self) -> Bytes {
        self.id
    }

    /// The size that counts against the limits.
    pub(crate) fn bytes(&self) -> usize {
        self.params.as_ref().map_or(0, Bytes::len)
    }

    /// Key, method and params, as in `inputRequests`.
    pub(crate) fn parts(&self) -> (&str, &[u8], Option<&Bytes>) {
        (&self.key, &self.method, self.params.as_ref())
    }
}

/// Removes the inputs that these responses answer. Returns the server's ids, each with the response line for it.
pub(crate) fn take_answered(
    inputs: &mut Vec<PendingInputRequest>,
    responses: &[(Bytes, Bytes)],
) -> Vec<(Bytes, Bytes)> {
    let mut lines = Vec::new();
    for (key, result) in responses {
        if let Some(index) = inputs.iter().position(|input| input.key.as_bytes() == &key[..]) {
            let input = inputs.remove(index);
            let line = reply::result(&input.id, result);
            lines.push((input.id, line));
        }
    }
    lines
}
