//! Negotiates the era of a connection: which request is sent first, what each response means, and the fallback if the server lacks that era.
//!
//! Source: MCP 2026-07-28, `basic/versioning`, "Backward Compatibility with Initialization-Based Versions". The first request
//! decides the era of a stdio connection. At a URL, requests of the modern era are independent of a connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::{
    HandshakeError, HandshakeEvent, HandshakeResponse, HandshakeResult, ServerInfo, discover, initialize, next,
    set_protocol, shortened,
};
use crate::config::EraChoice;
use crate::era::{self, Era, Eras};
use crate::jsonrpc::members::members;
use crate::jsonrpc::reply::ErrorObject;
use crate::server::era_cache::{EraPreference, EraSupport, Support};
use crate::server::error::ServerError;
use crate::server::instance::{Instance, not_forwarded};

/// Time to answer the first request, before the request of the other era is sent too. A slow server loses nothing: its first
/// response decides.
const FALLBACK_DELAY: Duration = Duration::from_secs(2);
/// Time for a server that has refused `initialize` to answer `server/discover`.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The state of the request of one era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestState {
    NotSent,
    Sent,
    Answered,
    /// The connection of the request has failed.
    Lost,
}

/// A handshake that has not ended.
pub(super) struct Negotiation<'a> {
    plan: HandshakePlan,
    first_message: &'a Notify,
    initialize: RequestState,
    discover: RequestState,
    /// `server/discover` was sent a second time.
    has_retried: bool,
    /// `initialize` was sent a second time, with a version by the words of the refusal.
    has_proposed_again: bool,
    /// The end of the time that the server has to answer.
    answer_deadline: Option<Instant>,
    /// Why `initialize` has no result.
    refusal: Option<HandshakeError>,
    /// The result of `server/discover`, while `initialize` is unanswered.
    modern: Option<Box<ServerInfo>>,
    learned: EraSupport,
    /// The first request was not answered in time, so the request of the other era was sent too.
    was_silent: bool,
}

/// `None` while the handshake continues.
type Progress = Result<Option<ServerInfo>, HandshakeError>;

impl<'a> Negotiation<'a> {
    pub(super) fn new(plan: HandshakePlan, first_message: &'a Notify) -> Self {
        let looks = matches!(plan.fallback, Fallback::IfSilent | Fallback::Always);
        Self {
            plan,
            first_message,
            initialize: RequestState::NotSent,
            discover: RequestState::NotSent,
            has_retried: false,
            has_proposed_again: false,
            answer_deadline: looks.then(|| Instant::now() + FALLBACK_DELAY),
            refusal: None,
            modern: None,
            learned: EraSupport::default(),
            was_silent: false,
        }
    }

    pub(super) async fn run(mut self, instance: &mut Instance) -> Result<HandshakeResult, HandshakeError> {
        self.send(self.plan.first, instance);
        let info = loop {
            let received = match self.answer_deadline {
                Some(at) => timeout_at(at, next(instance, self.first_message)).await,
                None => Ok(next(instance, self.first_message).await),
            };
            let progress = match received {
                Ok(received) => match received? {
                    Some(HandshakeEvent::Initialized(outcome)) => self.initialized(outcome, instance),
                    Some(HandshakeEvent::InitializeLost(why)) => self.initialize_lost(why),
                    Some(HandshakeEvent::Discovered(outcome)) => self.discovered(outcome, instance),
                    Some(HandshakeEvent::DiscoverLost(why)) => self.discover_lost(why, instance),
                    None => Ok(None),
                },
                Err(_) => self.silent(instance),
            };
            if let Some(info) = progress? {
                break info;
            }
        };
        let era = era::of(info.protocol);
        self.learned.set(era, Support::Confirmed);
        self.learned.identities.insert(Arc::clone(&info.identity));
        // The server answered the second request and left the first one unanswered.
        let is_first_unanswered = self.plan.first != era && self.step(self.plan.first) == RequestState::Sent;
        let is_known = self.plan.known.contains(era.other());
        if is_first_unanswered && !is_known && self.learned.of(era.other()) == Support::Unknown {
            self.learned.set(era.other(), Support::Absent);
        }
        // A server that only starts slowly answers both.
        if is_first_unanswered && self.was_silent && era == Era::Legacy {
            instance.stats().unanswered_discovers.add_one();
        }
        set_protocol(instance, info.protocol);
        Ok(HandshakeResult { info, learned: self.learned })
    }

    fn step(&self, era: Era) -> RequestState {
        match era {
            Era::Legacy => self.initialize,
            Era::Modern => self.discover,
        }
    }

    fn send(&mut self, era: Era, instance: &mut Instance) {
        match era {
            Era::Legacy => {
                self.initialize = RequestState::Sent;
                initialize(instance, era::NEWEST_LEGACY);
            }
            Era::Modern => {
                self.discover = RequestState::Sent;
                discover(instance);
            }
        }
    }

    fn is_only(&self, era: Era) -> bool {
        self.plan.fallback == Fallback::Never && self.plan.first == era
    }

    /// Handles a server that has not answered in time.
    fn silent(&mut self, instance: &mut Instance) -> Progress {
        self.answer_deadline = None;
        if let Some(modern) = self.modern.take() {
            self.learned.legacy = Support::Doubtful;
            return Ok(Some(*modern));
        }
        if let Some(why) = self.refusal.take() {
            return Err(why);
        }
        self.was_silent = true;
        self.send(self.plan.first.other(), instance);
        Ok(None)
    }

    fn initialized(&mut self, outcome: HandshakeResponse, instance: &mut Instance) -> Progress {
        if !self.has_proposed_again
            && let Some(version) = version_after_refusal(&outcome)
        {
            self.has_proposed_again = true;
            instance.wire.state_protocol(version);
            initialize(instance, version);
            return Ok(None);
        }
        self.initialize = RequestState::Answered;
        let why = match outcome {
            Ok(Ok(result)) => match ServerInfo::from_initialize(&result) {
                Ok(info) => return Ok(Some(info)),
                Err(why) => HandshakeError::Refused(why),
            },
            Ok(Err(error)) => HandshakeError::Refused(initialize_error(&error)),
            Err(why) => why,
        };
        if let Some(modern) = self.modern.take() {
            self.learned.legacy = Support::Absent;
            return Ok(Some(*modern));
        }
        match self.discover {
            _ if self.is_only(Era::Legacy) => Err(why),
            RequestState::Answered | RequestState::Lost => Err(why),
            // The server may be modern and slow.
            RequestState::Sent => {
                self.refusal = Some(why);
                Ok(None)
            }
            RequestState::NotSent => {
                self.refusal = Some(why);
                self.answer_deadline = Some(Instant::now() + REFUSAL_TIMEOUT);
                self.send(Era::Modern, instance);
                Ok(None)
            }
        }
    }

    fn initialize_lost(&mut self, why: HandshakeError) -> Progress {
        self.initialize = RequestState::Lost;
        let is_login_needed = matches!(&why, HandshakeError::Closed(closed) if closed.is_login_needed());
        match self.modern.take() {
            Some(modern) if !is_login_needed && !self.plan.known.contains(Era::Legacy) => {
                self.learned.legacy = Support::Doubtful;
                Ok(Some(*modern))
            }
            None if self.discover == RequestState::Sent => {
                self.refusal = Some(why);
                Ok(None)
            }
            _ => Err(why),
        }
    }

    fn discovered(&mut self, outcome: HandshakeResponse, instance: &mut Instance) -> Progress {
        let finding = match outcome {
            Ok(answer) => interpret_discover(answer),
            Err(why) if self.is_only(Era::Modern) => return Err(why),
            Err(_) => DiscoverOutcome::Legacy,
        };
        match finding {
            DiscoverOutcome::Retry if !self.has_retried => {
                self.has_retried = true;
                discover(instance);
                return Ok(None);
            }
            DiscoverOutcome::NoCommonVersion { versions } => {
                return Err(HandshakeError::Refused(ServerError::UnsupportedVersion { versions }));
            }
            DiscoverOutcome::Modern(info) => {
                self.discover = RequestState::Answered;
                self.learned.modern = Support::Confirmed;
                self.learned.identities.insert(Arc::clone(&info.identity));
                if self.plan.fallback == Fallback::Always && self.refusal.is_none() {
                    self.modern = Some(info);
                    let is_expected = self.plan.known.contains(Era::Legacy);
                    self.answer_deadline = (!is_expected).then(|| Instant::now() + FALLBACK_DELAY);
                    instance.wire.note_modern_support();
                    if self.initialize == RequestState::NotSent {
                        self.send(Era::Legacy, instance);
                    }
                    return Ok(None);
                }
                match self.initialize {
                    RequestState::Answered => self.learned.legacy = Support::Absent,
                    RequestState::Lost if !self.plan.known.contains(Era::Legacy) => {
                        self.learned.legacy = Support::Doubtful;
                    }
                    _ => {}
                }
                return Ok(Some(*info));
            }
            DiscoverOutcome::Legacy | DiscoverOutcome::Retry if self.is_only(Era::Modern) => {
                return Err(HandshakeError::Refused(ServerError::NoModernEra));
            }
            DiscoverOutcome::Legacy | DiscoverOutcome::Retry => {}
        }
        self.learned.modern = Support::Absent;
        self.go_on_without_modern(instance)
    }

    fn discover_lost(&mut self, why: HandshakeError, instance: &mut Instance) -> Progress {
        if self.is_only(Era::Modern) {
            return Err(why);
        }
        let is_expected = self.plan.known.contains(Era::Modern);
        if is_expected && self.plan.first == Era::Modern && self.plan.fallback == Fallback::IfSilent {
            return Err(why);
        }
        if !is_expected {
            self.learned.modern = Support::Doubtful;
        }
        self.go_on_without_modern(instance)
    }

    fn go_on_without_modern(&mut self, instance: &mut Instance) -> Progress {
        self.discover = RequestState::Answered;
        if let Some(why) = self.refusal.take() {
            return Err(why);
        }
        self.answer_deadline = None;
        if self.initialize == RequestState::NotSent {
            self.send(Era::Legacy, instance);
        }
        Ok(None)
    }
}

/// The version for a second `initialize`, by the text or data of an error, or by the body of an HTTP response.
fn version_after_refusal(outcome: &HandshakeResponse) -> Option<&'static str> {
    match outcome {
        Ok(Ok(_)) | Err(HandshakeError::Refused(_)) => None,
        Ok(Err(error)) => era::version_after_refusal(&String::from_utf8_lossy(error)),
        Err(HandshakeError::Closed(closed)) => closed.version_after_refusal(),
    }
}

fn initialize_error(error: &Bytes) -> ServerError {
    // The error is mcpd's own answer to the request `initialize`, which only a program that repeats its input sends back.
    if serde_json::from_slice(error).is_ok_and(|error: ErrorObject| error == not_forwarded(b"initialize")) {
        return ServerError::NotAServer;
    }
    ServerError::InitializeError { error: shortened(error), is_modern_only: is_version_refused(error) }
}

/// The meaning of a response to `server/discover`.
pub(super) enum DiscoverOutcome {
    Modern(Box<ServerInfo>),
    Legacy,
    /// The server has refused the version that it lists as supported: send `server/discover` once more.
    Retry,
    /// The server is modern, but mcpd supports none of its versions.
    NoCommonVersion {
        /// The versions of the server, shortened.
        versions: String,
    },
}

/// Interprets the response. Only the unsupported-version error of the modern era shows a modern server. All other errors show a
/// legacy one.
pub(super) fn interpret_discover(outcome: Result<Bytes, Bytes>) -> DiscoverOutcome {
    match outcome {
        Ok(result) => ServerInfo::from_discover(&result)
            .map_or(DiscoverOutcome::Legacy, |info| DiscoverOutcome::Modern(Box::new(info))),
        Err(error) => match supported(&error) {
            Some(versions) if versions.iter().any(|version| version == era::MODERN) => DiscoverOutcome::Retry,
            Some(versions) if !versions.iter().any(|version| era::known(version).is_some()) => {
                let versions = shortened(versions.join(", ").as_bytes());
                DiscoverOutcome::NoCommonVersion { versions }
            }
            _ => DiscoverOutcome::Legacy,
        },
    }
}

/// Whether the error has the code for an unsupported version.
pub(super) fn is_version_refused(error: &Bytes) -> bool {
    let code = members(error, ["code"]).ok().and_then(|[code]| code);
    code.is_some_and(|code| code == era::UNSUPPORTED_VERSION.to_string())
}

/// The supported versions in an error for an unsupported version.
fn supported(error: &Bytes) -> Option<Vec<String>> {
    let [data] = members(error, ["data"]).ok()?;
    if !is_version_refused(error) {
        return None;
    }
    let [supported] = members(&data?, ["supported"]).ok()?;
    serde_json::from_slice(&supported?).ok()
}

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct HandshakePlan {
    /// The era of the first request: `initialize` or `server/discover`.
    pub(in crate::server) first: Era,
    pub(super) fallback: Fallback,
    /// Eras that have worked before. Only a refusal disproves one, not a timeout or a lost connection.
    pub(super) known: Eras,
}

/// When the request of the other era is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fallback {
    Never,
    /// If the first one is refused.
    IfRefused,
    /// If the first one is refused, or not answered in time.
    IfSilent,
    /// Always, as the eras of the server are unknown.
    Always,
}

impl HandshakePlan {
    /// Follows the configuration. If that is `auto`, follows the preference and what is known of the server.
    pub(in crate::server) fn of(
        choice: EraChoice,
        preference: EraPreference,
        known: &EraSupport,
        is_remote: bool,
    ) -> Self {
        let preferred = match choice {
            EraChoice::Legacy => return Self::only(Era::Legacy),
            EraChoice::Modern => return Self::only(Era::Modern),
            EraChoice::Auto => match preference {
                EraPreference::Shared => Era::Legacy,
                EraPreference::Of(era) => era,
            },
        };
        let worked = known.expected();
        let is_open = |era| !matches!(known.of(era), Support::Confirmed | Support::Absent);
        let wants_both = preference == EraPreference::Shared && is_open(Era::Modern);
        if is_remote
            && preferred == Era::Legacy
            && known.legacy != Support::Absent
            && (is_open(Era::Legacy) || wants_both)
        {
            return Self { first: Era::Modern, fallback: Fallback::Always, known: worked };
        }
        let first = if known.of(preferred) == Support::Absent { preferred.other() } else { preferred };
        // A legacy server that starts slowly may not tolerate another request before its handshake has ended.
        let is_known_legacy = first == Era::Legacy && (known.legacy == Support::Confirmed || first != preferred);
        let fallback = if is_known_legacy { Fallback::IfRefused } else { Fallback::IfSilent };
        Self { first, fallback, known: worked }
    }

    fn only(first: Era) -> Self {
        Self { first, fallback: Fallback::Never, known: Eras::default() }
    }

    /// The plan after a server has exited at the first request of `era`.
    pub(in crate::server) fn instead_of(era: Era) -> Self {
        Self { first: era.other(), fallback: Fallback::IfRefused, known: Eras::default() }
    }

    /// Whether the other era is tried if the server exits at the first request.
    pub(in crate::server) fn is_trial(self) -> bool {
        matches!(self.fallback, Fallback::IfSilent | Fallback::Always)
    }

    /// The request to name when the start times out: `initialize`, unless only the modern era is tried.
    pub(in crate::server) fn method(self) -> &'static str {
        match (self.first, self.fallback) {
            (Era::Modern, Fallback::Never) => "server/discover",
            _ => "initialize",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_to_discover_decides_the_era() {
        let found = |answer: Result<&'static str, &'static str>| {
            let raw = |text: &'static str| Bytes::from_static(text.as_bytes());
            match interpret_discover(answer.map(raw).map_err(raw)) {
                DiscoverOutcome::Modern(info) => info.protocol.to_owned(),
                DiscoverOutcome::Legacy => "legacy".to_owned(),
                DiscoverOutcome::Retry => "again".to_owned(),
                DiscoverOutcome::NoCommonVersion { versions } => versions,
            }
        };
        assert_eq!(found(Ok(r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#)), "2026-07-28");
        for legacy in [
            Ok("{}"),
            Err(r#"{"code":-32601,"message":"x"}"#),
            Err(r#"{"code":-32602,"message":"x"}"#),
            Err(r#"{"code":-32022,"message":"x"}"#),
            Err(r#"{"code":-32022,"message":"x","data":{"supported":["2025-11-25"]}}"#),
            Err("[]"),
        ] {
            assert_eq!(found(legacy), "legacy", "{legacy:?}");
        }
        let strange = Err(r#"{"code":-32022,"message":"x","data":{"supported":["2031-01-01","2026-07-28"]}}"#);
        assert_eq!(found(strange), "again");
        let newer = Err(r#"{"code":-32022,"message":"x","data":{"supported":["2031-01-01"]}}"#);
        assert!(found(newer).contains("2031-01-01"));
    }

    fn known(legacy: Support, modern: Support) -> EraSupport {
        EraSupport { legacy, modern, ..EraSupport::default() }
    }

    #[test]
    fn configuration_takes_precedence_over_known_support() {
        for preference in [EraPreference::Shared, EraPreference::Of(Era::Legacy), EraPreference::Of(Era::Modern)] {
            for support in [Support::Unknown, Support::Confirmed, Support::Absent] {
                for (choice, first) in [(EraChoice::Legacy, Era::Legacy), (EraChoice::Modern, Era::Modern)] {
                    let plan = HandshakePlan::of(choice, preference, &known(support, support), false);
                    assert_eq!(plan, HandshakePlan::only(first));
                }
            }
        }
    }

    #[test]
    fn instance_opens_in_the_era_of_its_agents_unless_the_server_lacks_it() {
        use EraPreference::{Of, Shared};
        use Support::{Absent, Confirmed, Doubtful, Unknown};
        let (legacy, modern) = (Era::Legacy, Era::Modern);
        for (preference, support, first, fallback) in [
            (Shared, known(Unknown, Unknown), legacy, Fallback::IfSilent),
            (Shared, known(Doubtful, Confirmed), legacy, Fallback::IfSilent),
            (Shared, known(Confirmed, Unknown), legacy, Fallback::IfRefused),
            (Shared, known(Confirmed, Confirmed), legacy, Fallback::IfRefused),
            (Shared, known(Absent, Confirmed), modern, Fallback::IfSilent),
            (Of(modern), known(Unknown, Unknown), modern, Fallback::IfSilent),
            (Of(modern), known(Confirmed, Confirmed), modern, Fallback::IfSilent),
            (Of(modern), known(Confirmed, Doubtful), modern, Fallback::IfSilent),
            (Of(modern), known(Confirmed, Absent), legacy, Fallback::IfRefused),
            (Of(modern), known(Unknown, Absent), legacy, Fallback::IfRefused),
            (Of(legacy), known(Confirmed, Confirmed), legacy, Fallback::IfRefused),
        ] {
            let plan = HandshakePlan::of(EraChoice::Auto, preference, &support, false);
            assert_eq!((plan.first, plan.fallback), (first, fallback), "{preference:?} {support:?}");
        }
    }

    #[test]
    fn both_eras_are_tried_at_a_url_until_they_are_known() {
        use EraPreference::{Of, Shared};
        use Support::{Absent, Confirmed, Doubtful, Failing, Unknown};
        let (legacy, modern) = (Era::Legacy, Era::Modern);
        for (preference, support, first, fallback) in [
            (Shared, known(Unknown, Unknown), modern, Fallback::Always),
            (Shared, known(Confirmed, Doubtful), modern, Fallback::Always),
            (Shared, known(Doubtful, Confirmed), modern, Fallback::Always),
            (Of(legacy), known(Failing, Confirmed), modern, Fallback::Always),
            (Of(modern), known(Confirmed, Failing), modern, Fallback::IfSilent),
            (Shared, known(Confirmed, Absent), legacy, Fallback::IfRefused),
            (Shared, known(Confirmed, Confirmed), legacy, Fallback::IfRefused),
            (Shared, known(Absent, Confirmed), modern, Fallback::IfSilent),
            (Of(legacy), known(Unknown, Unknown), modern, Fallback::Always),
            (Of(legacy), known(Confirmed, Unknown), legacy, Fallback::IfRefused),
            (Of(modern), known(Unknown, Unknown), modern, Fallback::IfSilent),
            (Of(modern), known(Confirmed, Absent), legacy, Fallback::IfRefused),
        ] {
            let plan = HandshakePlan::of(EraChoice::Auto, preference, &support, true);
            assert_eq!((plan.first, plan.fallback), (first, fallback), "{preference:?} {support:?}");
        }
    }
}
