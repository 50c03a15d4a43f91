//! Calls of a legacy agent at a modern server.
//!
//! A server that requires input answers `input_required`. The agent is sent a request for each input, and the call is sent again with
//! the answers. This repeats no effects, because the server has ended the first request.

use std::sync::Arc;

use bytes::Bytes;

use super::{BridgeError, Step};
use crate::era::input::RequiredInputs;
use crate::era::request_meta::{self, LegacyClientMeta};
use crate::era::response::{self, ToLegacy};
use crate::jsonrpc::members::NotAnObject;
use crate::jsonrpc::splice::Change;

/// Maximum number of times that one call may require input.
const MAX_INPUT_ROUNDS: usize = 64;
/// Memory limit of an instance in buffer units: once for all its calls that wait for input responses, and once for all its
/// suspended calls. One call may use one unit.
pub(crate) const MAX_RETAINED_MEMORY: usize = 4;

/// A call of a legacy agent.
#[derive(Debug, Clone)]
pub(super) struct CallToModern {
    pub(super) client_meta: Arc<LegacyClientMeta>,
    /// How often the server has required input.
    pub(super) input_rounds: usize,
}

/// The responses of the agent to input requests.
#[derive(Debug)]
pub(super) struct InputResponses {
    /// Raw keys, with the raw results that have arrived.
    inputs: Vec<(Bytes, Option<Bytes>)>,
    /// The server's `requestState`, raw.
    request_state: Option<Bytes>,
}

impl InputResponses {
    /// Copies the parts, so that they do not keep a large line in memory.
    pub(super) fn new(required: &RequiredInputs) -> Self {
        let copy = |raw: &Bytes| Bytes::copy_from_slice(raw);
        let inputs = required.inputs.iter().map(|input| (copy(&input.key), None)).collect();
        Self { inputs, request_state: required.request_state.as_ref().map(copy) }
    }

    pub(super) fn set(&mut self, index: usize, result: Bytes) {
        if let Some((_, slot)) = self.inputs.get_mut(index) {
            *slot = Some(result);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let inputs = self.inputs.iter().map(|(key, result)| key.len() + result.as_ref().map_or(0, Bytes::len));
        inputs.sum::<usize>() + self.request_state.as_ref().map_or(0, Bytes::len)
    }

    pub(super) fn are_complete(&self) -> bool {
        self.inputs.iter().all(|(_, result)| result.is_some())
    }

    /// The change that adds the responses to the call.
    pub(super) fn change(&self, params: &Bytes) -> Change {
        let result = |(key, result): &(Bytes, Option<Bytes>)| Some((key.clone(), result.clone()?));
        let results: Vec<_> = self.inputs.iter().filter_map(result).collect();
        request_meta::with_inputs(params, &results, self.request_state.as_ref())
    }
}

impl CallToModern {
    /// The changes that translate the request.
    pub(super) fn changes(&self, params: &Bytes) -> Result<Vec<Change>, NotAnObject> {
        request_meta::params_to_modern(params, &self.client_meta)
    }

    /// The server has answered with this result. `Err` has the inputs that it requires.
    pub(super) fn on_result(&self, result: &Bytes) -> Result<Step, RequiredInputs> {
        Ok(match response::result_to_legacy(result) {
            Ok(ToLegacy::Complete(changes)) => Step::ForwardResponse(changes),
            Ok(ToLegacy::Required(_)) if self.input_rounds >= MAX_INPUT_ROUNDS => {
                Step::Fail(BridgeError::TooManyInputs(MAX_INPUT_ROUNDS))
            }
            Ok(ToLegacy::Required(required)) => return Err(required),
            Ok(ToLegacy::Unknown(kind)) => Step::Fail(BridgeError::UnknownResult(kind)),
            Ok(ToLegacy::Malformed(_)) | Err(NotAnObject) => Step::Fail(BridgeError::Malformed),
        })
    }
}
