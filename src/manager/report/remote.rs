//! The report on the connection to a server with a URL.

use serde::{Deserialize, Serialize};

use crate::config::{Launch, ServerConfig};
use crate::server::RemoteTransport;

/// The connection to a server with a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RemoteReport {
    /// Scheme, host and port of the URL. Path and query are omitted, because they may be secret.
    pub origin: String,
    /// `streamable http` or `http+sse`, while an instance runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}

pub(super) fn of(config: &ServerConfig, transport: Option<RemoteTransport>) -> Option<RemoteReport> {
    let Ok(Launch::Remote(remote)) = &config.launch else { return None };
    Some(RemoteReport { origin: remote.shown_origin(), transport: transport.map(|it| it.words().to_owned()) })
}
