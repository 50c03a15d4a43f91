//! The agent of a session: its identity, its capabilities, and the state of its introduction. Pure.
//!
//! `mcpd connect` adds members to `_meta` of `initialize`. Source: MCP 2025-11-25, `basic/index`, "_meta", on key prefixes.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::client_capabilities::{ClientCapabilities, ClientCapability};
use crate::era::request_meta::{self, Client, LegacyClientMeta, ModernMeta, SERVER};
use crate::era::{self, Era};
use crate::jsonrpc::members::{members, string, text};
use crate::jsonrpc::pending::parse_own_id;
use crate::log_level::LogLevel;
use crate::methods::servers_may_send;
use crate::printable::excerpt;
use crate::server::messages::call::{Origin, SessionSender};
use crate::server::{Agent, Counter, User};

/// In characters.
const MAX_CLIENT_LEN: usize = 100;
/// The agent's working directory, in `_meta` of `initialize`.
pub(crate) const CWD: &str = "mcpd/cwd";
/// The version of `mcpd connect`.
pub(crate) const CONNECT: &str = "mcpd/connect";
/// The first id for requests to the agent: a previous daemon has used the lower ones.
pub(crate) const IDS_FROM: &str = "mcpd/ids_from";

/// Ids count up from here and must stay below 2^53, so that every language represents them exactly.
const MAX_ID: u64 = 1 << 52;
/// In bytes (PATH_MAX); a longer directory is ignored.
const MAX_PATH_LEN: usize = 4096;
/// In bytes; a longer version is ignored.
const MAX_VERSION_LEN: usize = 64;

/// One session, as the daemon reports it.
#[derive(Debug, Default)]
pub struct SessionStatus {
    /// Set once, by `initialize`.
    initialized: OnceLock<Introduction>,
    /// Set once, by the first modern request. Each modern request names its own client, so later ones may name others.
    modern: OnceLock<Introduction>,
    /// The directory of the configuration that has chosen the profile, as the agent reports it, for display only.
    pub profile_directory: OnceLock<String>,
    /// Calls that were forwarded.
    pub calls: Counter,
    /// Notifications that were dropped because the agent did not read.
    pub dropped: Arc<Counter>,
    /// Responses without a request.
    pub stray_responses: Counter,
}

/// What an agent has declared.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// `name version`, for display only.
    pub client: Option<String>,
    /// The negotiated version.
    pub protocol_version: &'static str,
    /// The server whose face it uses.
    pub face: Option<Arc<str>>,
}

impl SessionStatus {
    /// The introduction of the agent, if it has sent one.
    #[must_use]
    pub fn introduction(&self) -> Option<&Introduction> {
        self.initialized.get().or_else(|| self.modern.get())
    }
}

/// The members for mcpd in `_meta` of `initialize`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct InitializeMeta {
    /// An absolute path. The kernel does not know it for an agent in a container.
    pub(super) cwd: Option<Arc<str>>,
    pub(super) connect: Option<String>,
    pub(super) ids_from: Option<u64>,
    /// The server whose face the agent uses.
    pub(super) face: Option<Arc<str>>,
}

pub(super) struct AgentInfo {
    session: u64,
    user: Arc<User>,
    /// The channel from servers to this session.
    to_session: SessionSender,
    status: Arc<SessionStatus>,
    capabilities: Arc<ClientCapabilities>,
    /// What `_meta` contains when a request of this legacy agent is sent to a modern server.
    client_meta: Arc<LegacyClientMeta>,
    /// The lowest level of log messages. Until the agent sets it, servers decide.
    level: Option<LogLevel>,
    /// The agent has sent `notifications/initialized`.
    is_ready: bool,
    /// A modern request has introduced the agent.
    has_modern_client: bool,
}

impl InitializeMeta {
    /// Reads the `_meta` of the raw params of `initialize`.
    pub(super) fn of(params: &Bytes) -> Self {
        let meta = members(params, ["_meta"]).ok().and_then(|[meta]| meta);
        meta.as_ref().map(Self::read).unwrap_or_default()
    }

    /// Reads a raw `_meta`. Malformed members are ignored.
    pub(super) fn read(meta: &Bytes) -> Self {
        let Ok([cwd, connect, ids_from, face]) = members(meta, [CWD, CONNECT, IDS_FROM, SERVER]) else {
            return Self::default();
        };
        let string = |raw: Option<Bytes>| string(&raw?);
        Self {
            cwd: string(cwd).filter(|cwd| Path::new(cwd).is_absolute() && !cwd.contains('\0')).map(Into::into),
            connect: string(connect).filter(|version| version.len() <= MAX_VERSION_LEN),
            ids_from: ids_from.and_then(|raw| parse_own_id(&raw)).filter(|id| *id <= MAX_ID),
            face: string(face).map(Into::into),
        }
    }
}

impl AgentInfo {
    pub(super) fn new(session: u64, user: Arc<User>, to_session: SessionSender, status: Arc<SessionStatus>) -> Self {
        Self {
            session,
            user,
            to_session,
            status,
            capabilities: Arc::default(),
            client_meta: Arc::default(),
            level: None,
            is_ready: false,
            has_modern_client: false,
        }
    }

    pub(super) fn session(&self) -> u64 {
        self.session
    }

    pub(super) fn to_session(&self) -> &SessionSender {
        &self.to_session
    }

    /// Counts a forwarded call.
    pub(super) fn count_call(&self) {
        self.status.calls.add_one();
    }

    /// The version that the agent uses, in either era, once it has introduced itself.
    pub(super) fn protocol_in_use(&self) -> Option<&'static str> {
        self.status.introduction().map(|introduction| introduction.protocol_version)
    }

    /// The version that was negotiated by `initialize`.
    pub(super) fn protocol_version(&self) -> Option<&'static str> {
        self.status.initialized.get().map(|introduction| introduction.protocol_version)
    }

    /// Whether the negotiated version has this request or notification of servers.
    pub(super) fn version_has(&self, name: &str) -> bool {
        self.protocol_version().is_some_and(|protocol_version| servers_may_send(protocol_version, name))
    }

    pub(super) fn supports(&self, capability: ClientCapability) -> bool {
        self.capabilities.include(capability)
    }

    pub(super) fn is_introduced(&self) -> bool {
        self.has_modern_client || self.protocol_version().is_some()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// The agent has sent `notifications/initialized`, which counts only after `initialize`.
    pub(super) fn set_ready(&mut self) {
        self.is_ready = self.protocol_version().is_some();
    }

    /// Records the directory that has chosen the profile, unless one is known.
    pub(super) fn set_profile_directory(&self, directory: Option<String>) {
        if let Some(directory) = directory.filter(|directory| directory.len() <= MAX_PATH_LEN) {
            let _ = self.status.profile_directory.set(directory);
        }
    }

    pub(super) fn level(&self) -> Option<LogLevel> {
        self.level
    }

    /// Reads `initialize` with these members for mcpd. Returns what the agent has declared.
    ///
    /// # Errors
    /// If a required member is missing or malformed.
    pub(super) fn initialize(
        &mut self,
        params: Option<&Bytes>,
        meta: &InitializeMeta,
        face: Option<Arc<str>>,
    ) -> Result<Introduction, &'static str> {
        let params = params.and_then(|params| members(params, ["protocolVersion", "clientInfo", "capabilities"]).ok());
        let Some([Some(version), client, capabilities]) = params else {
            return Err("`protocolVersion` is missing");
        };
        let version = text(&version).ok_or("`protocolVersion` is not a string")?;
        let capabilities = capabilities.map(|raw| if raw[..] == *b"null" { Bytes::from_static(b"{}") } else { raw });
        // Both are required (MCP, `schema`, "InitializeRequest").
        if !capabilities.as_ref().is_some_and(|raw| raw.starts_with(b"{")) {
            return Err("`capabilities` is missing or not an object");
        }
        if !client.as_ref().is_some_and(is_implementation) {
            return Err("`clientInfo` needs a `name` and a `version`, both strings");
        }
        let protocol_version = era::negotiate(&String::from_utf8_lossy(&version));
        self.capabilities = Arc::new(ClientCapabilities::read(protocol_version, capabilities.as_ref()));
        self.client_meta = Arc::new(LegacyClientMeta {
            capabilities: self.capabilities.raw(),
            client: client.as_deref().map(Bytes::copy_from_slice),
            level: self.level,
        });
        let client = client.and_then(|info| request_meta::name_and_version(&info, MAX_CLIENT_LEN));
        let introduction = Introduction { client, protocol_version, face };
        // Only this task sets it, and only once.
        let _ = self.status.initialized.set(introduction.clone());
        self.warn_of_other_version(meta);
        Ok(introduction)
    }

    fn warn_of_other_version(&self, meta: &InitializeMeta) {
        let version = env!("CARGO_PKG_VERSION");
        if let Some(connect) = meta.connect.as_ref().filter(|connect| *connect != version) {
            let connect = excerpt(connect, MAX_CLIENT_LEN);
            tracing::warn!(
                session = self.session,
                "an agent comes through `mcpd connect` {connect}; this is mcpd {version}"
            );
        }
    }

    /// Records the client of a modern request. The daemon's report has the first one on the connection, also that of
    /// `server/discover`. Servers with an instance per agent get the first one that is not from `server/discover`, because a legacy
    /// agent may send that before `initialize`. Returns the introduction if it is now the agent's: not for `server/discover`, and not
    /// after `initialize`.
    pub(super) fn record_client(
        &mut self,
        params: Option<&Bytes>,
        is_discover: bool,
        face: Option<Arc<str>>,
    ) -> Option<Introduction> {
        if self.has_modern_client {
            return None;
        }
        self.has_modern_client = !is_discover;
        let Client { capabilities, info } = Client::of(params);
        let client = info.and_then(|info| request_meta::name_and_version(&info, MAX_CLIENT_LEN));
        let introduction = Introduction { client, protocol_version: era::MODERN, face };
        // The first one is reported.
        let _ = self.status.modern.set(introduction.clone());
        if is_discover || self.protocol_version().is_some() {
            return None;
        }
        self.capabilities = Arc::new(ClientCapabilities::read(era::MODERN, capabilities.as_ref()));
        Some(introduction)
    }

    /// Reads `logging/setLevel`.
    ///
    /// # Errors
    /// If the level is missing or unknown.
    pub(super) fn set_level(&mut self, params: Option<&Bytes>) -> Result<(), String> {
        let level = params.and_then(|params| members(params, ["level"]).ok()).and_then(|[level]| text(&level?));
        let Some(level) = level.and_then(|word| LogLevel::named(&word)) else {
            return Err(format!("`level` is missing or none of {}", LogLevel::ALL.map(|(word, _)| word).join(", ")));
        };
        self.level = Some(level);
        self.client_meta =
            Arc::new(LegacyClientMeta { level: Some(level), ..LegacyClientMeta::clone(&self.client_meta) });
        Ok(())
    }

    /// The agent, as servers know it.
    pub(super) fn for_servers(&self) -> Agent {
        Agent {
            session: self.session,
            to: self.to_session.clone(),
            level: self.level,
            capabilities: Arc::clone(&self.capabilities),
            era: if self.protocol_version().is_some() { Era::Legacy } else { Era::Modern },
            user: Some(Arc::clone(&self.user)),
        }
    }

    /// The origin of a request: the legacy agent of the connection, or the modern agent with this metadata.
    pub(super) fn origin(&self, modern: Option<&ModernMeta>) -> Origin {
        match modern {
            None => Origin::Legacy(Arc::clone(&self.client_meta)),
            Some(modern) => Origin::Modern { profile: Arc::clone(&self.user.profile), level: modern.level },
        }
    }
}

/// Whether a raw `clientInfo` is valid (MCP, `schema`, "Implementation").
fn is_implementation(info: &Bytes) -> bool {
    let parts = members(info, ["name", "version"]);
    parts.is_ok_and(|parts| parts.into_iter().all(|raw| raw.is_some_and(|raw| text(&raw).is_some())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::StopReceiver;

    fn agent() -> AgentInfo {
        let (to_session, _) = SessionSender::channel(None, Arc::default(), StopReceiver::channel().1);
        let user = User { profile: "p".into(), uid: 1, is_guest: false };
        AgentInfo::new(1, Arc::new(user), to_session, Arc::default())
    }

    fn params(params: &'static str) -> Option<Bytes> {
        Some(Bytes::from_static(params.as_bytes()))
    }

    const INITIALIZE: &str =
        r#"{"protocolVersion":"2025-03-26","clientInfo":{"name":"a","version":"1"},"capabilities":{"sampling":{}}}"#;

    #[test]
    fn initialize_requires_version_client_and_capabilities() {
        for (malformed, expected) in [
            ("{}", "`protocolVersion` is missing"),
            (r#"{"protocolVersion":1}"#, "`protocolVersion` is not a string"),
            (r#"{"protocolVersion":"x"}"#, "`capabilities` is missing or not an object"),
            (
                r#"{"protocolVersion":"x","capabilities":{}}"#,
                "`clientInfo` needs a `name` and a `version`, both strings",
            ),
        ] {
            let mut agent = agent();
            assert_eq!(
                agent.initialize(params(malformed).as_ref(), &InitializeMeta::default(), None).map(drop),
                Err(expected)
            );
            assert!(!agent.is_introduced());
        }
        let mut agent = agent();
        agent.set_ready();
        assert!(!agent.is_ready(), "not before `initialize`");
        let introduction =
            agent.initialize(params(INITIALIZE).as_ref(), &InitializeMeta::default(), None).expect("valid");
        assert_eq!((introduction.client.as_deref(), introduction.protocol_version), (Some("a 1"), "2025-03-26"));
        agent.set_ready();
        assert!(
            agent.is_ready() && agent.supports(ClientCapability::Sampling) && !agent.supports(ClientCapability::Roots)
        );
        assert_eq!(agent.for_servers().era, Era::Legacy);
    }

    #[test]
    fn a_modern_agent_is_introduced_by_its_first_request_but_discover() {
        const META: &str = r#"{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"m","version":"2"}}}"#;
        let mut agent = agent();
        assert!(agent.record_client(params(META).as_ref(), true, None).is_none() && !agent.is_introduced());
        let introduction =
            agent.record_client(params(META).as_ref(), false, None).expect("the first request that counts");
        assert_eq!(introduction.client.as_deref(), Some("m 2"));
        assert!(agent.is_introduced() && agent.record_client(params(META).as_ref(), false, None).is_none());
        assert_eq!(agent.for_servers().era, Era::Modern);
    }

    #[test]
    fn a_modern_request_does_not_replace_an_initialized_agent() {
        let mut agent = agent();
        agent.initialize(params(INITIALIZE).as_ref(), &InitializeMeta::default(), None).expect("valid");
        assert!(agent.record_client(params("{}").as_ref(), false, None).is_none());
        assert!(agent.supports(ClientCapability::Sampling) && agent.protocol_version() == Some("2025-03-26"));
        assert_eq!(agent.status.introduction().and_then(|known| known.client.clone()).as_deref(), Some("a 1"));
    }

    #[test]
    fn malformed_members_are_ignored() {
        for (meta, cwd, connect, ids_from, face) in [
            (r#"{"mcpd/cwd":"/a","mcpd/connect":"1.2","mcpd/ids_from":7}"#, Some("/a"), Some("1.2"), Some(7), None),
            (r#"{"mcpd/cwd":"a","mcpd/connect":1,"mcpd/ids_from":"7","mcpd/server":7}"#, None, None, None, None),
            (r#"{"mcpd/cwd":"/a\u0000","mcpd/ids_from":4503599627370496}"#, None, None, Some(1 << 52), None),
            (r#"{"mcpd/ids_from":4503599627370497,"progressToken":1}"#, None, None, None, None),
            (r#"{"mcpd/ids_from":0}"#, None, None, None, None),
            (r#"{"mcpd/server":"files"}"#, None, None, None, Some("files")),
            ("{}", None, None, None, None),
            ("[]", None, None, None, None),
        ] {
            let connect = connect.map(str::to_owned);
            let expected = InitializeMeta { cwd: cwd.map(Into::into), connect, ids_from, face: face.map(Into::into) };
            assert_eq!(InitializeMeta::read(&Bytes::from_static(meta.as_bytes())), expected, "{meta}");
        }
    }
}
