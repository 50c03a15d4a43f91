//! What the server is told that its client can do, and which roots it has.
//!
//! Source: MCP 2025-11-25, `basic/lifecycle`, "Capability Negotiation", and `client/roots`.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::Instance;
use crate::jsonrpc::reply::{self, ErrorObject, METHOD_NOT_FOUND};
use crate::jsonrpc::splice::splice;
use crate::server::Agent;
use crate::server::client_capabilities::ClientCapability;
use crate::server::role::{Role, roots_result};

impl Instance {
    /// Whether it is one agent's own.
    pub(super) fn is_one_agents(&self) -> bool {
        matches!(self.role, Role::Of(_))
    }

    /// What mcpd declares to the server.
    pub(in crate::server) fn capabilities(&self) -> Box<RawValue> {
        self.role.capabilities(self.config.roots())
    }

    /// The roots of an agent have changed, which concerns the server if it is that agent's own.
    pub(in crate::server) fn roots_changed(&mut self, session: u64, line: &Bytes) {
        let has_them = |agent: &Agent| agent.session == session && agent.abilities.include(ClientCapability::Roots);
        if matches!(&self.role, Role::Of(agent) if has_them(agent)) {
            self.wire.try_notify(splice(line, &mut []));
        }
    }

    /// Whether the configuration says which roots there are.
    pub(super) fn answers_roots(&self) -> bool {
        !self.is_one_agents() && !self.config.roots().is_empty()
    }

    /// Those of the configuration, for an instance that is nobody's own.
    pub(super) fn tell_roots(&mut self, id: &Bytes) {
        let line = match self.config.roots() {
            [] => {
                let why = "no `roots` are configured, and the instance is not one agent's own";
                reply::error(Some(id), &ErrorObject::new(METHOD_NOT_FOUND, why))
            }
            roots => reply::result(id, &roots_result(roots)),
        };
        self.wire.try_notify(line);
    }
}
