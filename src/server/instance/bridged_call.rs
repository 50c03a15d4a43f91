//! A pending call whose agent and server speak different eras.
//!
//! Its state is a [`BridgedCall`]; the instance carries out the steps that the state machine returns. A call within one era is a
//! [`PendingCall`] and has nothing of this.

use std::time::Instant;

use bytes::Bytes;

use super::pending_call::PendingCall;
use crate::bridge::BridgedCall;
use crate::jsonrpc::splice::Change;
use crate::server::messages::call::{Call, SessionSender};

/// A bridged call that is queued for the server, was written to it, or waits between two requests to it.
pub(in crate::server) struct PendingBridgedCall {
    pub(super) call: PendingCall,
    pub(super) state: BridgedCall,
    /// The agent of a suspended call.
    pub(super) absent_agent: Option<SessionSender>,
}

impl PendingBridgedCall {
    pub(super) fn new(call: PendingCall, state: BridgedCall) -> Box<Self> {
        Box::new(Self { call, state, absent_agent: None })
    }

    /// The time of its next deadline or check.
    pub(super) fn next_event(&self) -> Instant {
        self.state.next_timer().map_or(self.call.deadline.at(), |at| at.min(self.call.deadline.at()))
    }

    /// The line that sends it once more, with the next id.
    pub(super) fn line(&self, id: u64, changes: &[Change]) -> Bytes {
        self.state.request().line().numbered(id, changes)
    }

    pub(super) fn fits_any_instance(&self) -> bool {
        self.state.fits_any_instance() && self.call.fits_any_instance()
    }

    /// The call as its session sent it.
    pub(super) fn into_call(self) -> Call {
        let Self { call, state, .. } = self;
        call.with_request(state.request().line().clone())
    }
}
