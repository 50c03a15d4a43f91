//! Calls that were not written when their instance ended: the next instance gets them.
//!
//! No server has seen any byte of such a call, so it is no repetition to send it.

use bytes::Bytes;

use super::Instance;
use super::calls::Unanswered;
use super::crossing::{Crossing, Way};
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::splice::{Edit, splice};
use crate::server::messages::call::{Call, Failure, RequestKind};

impl Unanswered {
    /// Whether another instance can take it: it is about nothing that its own instance alone has.
    fn fits_any_instance(&self) -> bool {
        let is_new = match self.crossing.as_deref() {
            None => true,
            Some(Crossing { way: Way::Up { rounds: 0, .. } | Way::Down { .. }, .. }) => !self.is_parked(),
            Some(_) => false,
        };
        is_new && matches!(self.matter, RequestKind::Nothing | RequestKind::NewTask | RequestKind::MayBeTask)
    }

    /// The call as it came, of which `line` was to be written.
    fn into_call(self, line: &Bytes) -> Result<Call, Box<Self>> {
        let parts = match &self.crossing {
            Some(crossing) => Ok(crossing.asked.parts()),
            None => self.original(line),
        };
        let Ok((line, id, rename, progress_token)) = parts else { return Err(Box::new(self)) };
        let Self { reply, matter, deadline, origin, access, .. } = self;
        Ok(Call { line, id, rename, progress_token, matter, limit: deadline.call_limit(), origin, access, reply })
    }

    /// What was numbered for the server, with the id and the progress token of the agent. The name stays the server's own.
    fn original(&self, line: &Bytes) -> Result<Parts, NotAnObject> {
        let (id, token) = id_and_token(line)?;
        let own = self.progress_token.as_ref();
        let mut edits = vec![Edit { part: &id, replacement: self.reply.id() }];
        edits.extend(token.iter().zip(own).map(|(part, replacement)| Edit { part, replacement }));
        let line = splice(line, &mut edits);
        let line = line.slice(..line.len() - 1);
        let (id, token) = id_and_token(&line)?;
        Ok((line, id, None, token.filter(|_| own.is_some())))
    }
}

/// Line, id, name with what replaces it, and progress token of a request.
pub(super) type Parts = (Bytes, Bytes, Option<(Bytes, Bytes)>, Option<Bytes>);

fn id_and_token(line: &Bytes) -> Result<(Bytes, Option<Bytes>), NotAnObject> {
    let [id, params] = members(line, ["id", "params"])?;
    let member = |object: Option<Bytes>, name| match object {
        Some(object) => members(&object, [name]).map(|[value]| value),
        None => Ok(None),
    };
    let token = member(member(params, "_meta")?, "progressToken")?;
    Ok((id.ok_or(NotAnObject)?, token))
}

impl Instance {
    /// Takes the calls that were not written, as they came. For an instance that has ended.
    ///
    /// One that cannot be read again ends with `failure`.
    pub(in crate::server) fn take_unsent(&mut self, failure: &Failure) -> Vec<Call> {
        let is_unsent = |call: &Unanswered, has_begun: bool| !has_begun && call.fits_any_instance();
        let mut unsent = Vec::new();
        for (_, call) in self.wire.remove_calls_where(is_unsent) {
            let line = self.wire.retracted(call.line).unwrap_or_default();
            self.count_calls(self.calls - 1);
            match call.into_call(&line.slice(..line.len().saturating_sub(1))) {
                Ok(call) => unsent.push(call),
                Err(call) => {
                    self.stats.errors.add_one();
                    call.reply.fail(failure.clone(), false);
                }
            }
        }
        unsent
    }
}
