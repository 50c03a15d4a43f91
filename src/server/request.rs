//! A request of this program's own to one of its servers: what the library asks, the daemon never.
//!
//! It goes the way of an agent's call, under the session number 0, which no agent has. A future that is dropped cancels
//! the request at the server.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde::Serialize;

use super::ServerHandle;
use super::call::{Call, CallKey, Reply, ReplySender, ToAgent};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::jsonrpc::{Message, parse};

impl ServerHandle {
    /// The raw result of a request.
    ///
    /// # Errors
    /// The server's error object, or the one an agent would get in its place.
    pub(crate) async fn request(&self, method: &str, params: &impl Serialize) -> Result<Bytes, ErrorObject> {
        let serial = self.own_requests.fetch_add(1, Ordering::Relaxed) + 1;
        let key = CallKey { session: 0, serial };
        let line = reply::request(serial, method, params);
        let line = line.slice(..line.len() - 1);
        let Ok(Message::Request { id, .. }) = parse(&line) else {
            return Err(ErrorObject::new(reply::INVALID_REQUEST, "the request is not valid JSON-RPC"));
        };
        let (to, mut answers) = ReplySender::channel();
        let reply = Reply::new(key, &id, self.name(), &to);
        self.call(Call { line, id, rename: None, progress_token: None, reply });
        let mut unanswered = CancelOnDrop { server: self, key: Some(key) };
        drop(to);
        while let Some(message) = answers.recv().await {
            if let ToAgent::Answer { line, .. } = message
                && let Ok(Message::Response { outcome, .. }) = parse(&line.slice(..line.len() - 1))
            {
                unanswered.key = None;
                return outcome.map_err(|error| error_object(&error));
            }
        }
        Err(ErrorObject::new(reply::INTERNAL_ERROR, "no answer"))
    }
}

/// A server's error object; what of it cannot be read is left out.
fn error_object(raw: &Bytes) -> ErrorObject {
    serde_json::from_slice(raw).unwrap_or_else(|_| ErrorObject::new(reply::INTERNAL_ERROR, "a malformed error"))
}

/// Tells the server that nobody waits any more, if it has not answered by then.
struct CancelOnDrop<'a> {
    server: &'a ServerHandle,
    key: Option<CallKey>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.server.cancel_soon(key, None);
        }
    }
}
