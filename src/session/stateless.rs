//! Requests of the modern era, each of which says itself what it has to be read with: nothing is taken from what came before on the
//! connection, which may be several agents'.
//!
//! Source: MCP 2026-07-28, `basic`, "Statelessness", `basic/versioning`, `server/discover`, `server/utilities/caching`.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::agent_message::Routed;
use super::methods::LONGEST_CLIENT;
use super::{Introduction, Session};
use crate::calls::Caller;
use crate::catalog::Keep;
use crate::era::stated::{Client, Stated};
use crate::era::{self, Era};
use crate::kind::Kind;
use crate::manager::View;
use crate::peer;
use crate::server::client_capabilities::ClientCapabilities;
use crate::server::messages::call::Origin;

impl Session {
    pub(super) fn stateless_request(
        &mut self,
        id: Bytes,
        method: &Bytes,
        params: Option<&Bytes>,
        (stated, routed): (Stated, Routed),
    ) {
        self.meet(params, method[..] == *b"server/discover");
        match (&method[..], routed) {
            _ if !era::has(era::MODERN, method) => self.unknown_method(&id, method),
            (b"server/discover", _) => self.discover(&id),
            (b"subscriptions/listen", _) => self.listen(&id, params, stated),
            (_, Some(Ok(asked))) => self.ask(asked),
            (_, Some(Err(error))) => self.fail(Some(&id), error.to_object()),
            (_, None) => match Kind::listed_by(method) {
                Some(kind) => self.list(kind, id, params, Era::Modern),
                None => self.unknown_method(&id, method),
            },
        }
    }

    /// For who looks at the connection, and for servers that have an instance for each: it is told of one agent, the first that does
    /// more than look what is there, for that may be done before `initialize`.
    fn meet(&mut self, params: Option<&Bytes>, only_looks: bool) {
        if self.is_met {
            return;
        }
        self.is_met = !only_looks;
        let Client { capabilities, info } = Client::of(params);
        let client = info.and_then(|info| peer::software(&info, LONGEST_CLIENT));
        let is_first = self.setup.facts.introduction.get().is_none();
        let introduction = Introduction { client: client.clone(), protocol: era::MODERN };
        // The only task that sets it, and only once.
        let _ = self.setup.facts.stateless.set(introduction);
        if is_first && !only_looks {
            self.caller = Arc::new(Caller { client, ..Caller::clone(&self.caller) });
            self.abilities = Arc::new(ClientCapabilities::read(era::MODERN, capabilities.as_ref()));
            self.attach();
        }
    }

    /// From whom a request comes that states this, or nothing.
    pub(super) fn origin(&self, stated: Option<&Stated>) -> Origin {
        match stated {
            None => Origin::Legacy(Arc::clone(&self.speaker)),
            Some(stated) => Origin::Modern { profile: Arc::clone(&self.caller.profile), level: stated.level },
        }
    }

    fn discover(&mut self, id: &Bytes) {
        let view = self.profile_view.borrow().clone();
        let mut result = complete(Keep::default());
        result["supportedVersions"] = json!([era::MODERN]);
        result["capabilities"] = era::capabilities(era::MODERN);
        let extensions = view.extensions();
        if !extensions.is_empty() {
            result["capabilities"]["extensions"] = Value::Object(extensions);
        }
        if let Some(instructions) = view.instructions() {
            result["instructions"] = instructions.into();
        }
        self.answer(id, result.to_string().as_bytes());
    }

    /// In parts, so that a long list is shared by all who wait for it rather than copied for each.
    pub(super) fn list_stateless(&mut self, id: &Bytes, kind: Kind, view: &View) {
        let said = complete(view.catalog.keep(kind)).to_string();
        let said = said.strip_suffix('}').unwrap_or_default();
        let head = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{said},"#, String::from_utf8_lossy(id));
        let list = view.catalog.list(kind);
        self.respond(Some(id), [head.into(), list.slice(1..), Bytes::from_static(b"}\n")]);
    }
}

/// What a result of mcpd's own says of itself that a client may keep.
fn complete(keep: Keep) -> Value {
    json!({
        "resultType": "complete",
        "ttlMs": keep.ttl,
        "cacheScope": "private",
        "_meta": { era::meta::SERVER: { "name": "mcpd", "version": env!("CARGO_PKG_VERSION") } },
    })
}
