//! Quotas of agents: connections, calls in flight, calls per second, and bytes that mcpd holds.
//!
//! A [`Meter`] counts what the agents of a profile, or of one user at a profile, use together. An [`AgentQuota`] is the part of one
//! agent. Its permits give back what they count when they are dropped.

#![expect(clippy::disallowed_types, reason = "sessions count what they use together; nothing waits while it is locked")]

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config::{Quotas, size_text};
use crate::gcra::Gcra;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::reply::ErrorObject;
use crate::server::User;

const SECOND: Duration = Duration::from_secs(1);
/// Suggested delay before a retry, for every quota except the rate.
const RETRY_AFTER: Duration = SECOND;
/// Read rate, in bytes per second, for all large incomplete lines of one quota scope.
///
/// Lines that never end fill the quota of bytes again and again. Without this limit, reading them would take most of the daemon's time.
const READ_RATE: f64 = (16 << 20) as f64;
/// Burst of [`READ_RATE`], in bytes.
const READ_BURST: usize = 4 << 20;

/// What a quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaKey {
    Connections,
    Calls,
    Rate,
    Bytes,
}

/// Whose use a meter counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QuotaScope {
    /// All agents of this profile. The quotas are those of its table.
    Profile(Arc<str>),
    /// The agents of one user. The quotas are defaults.
    User(Arc<User>),
}

/// A quota is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuotaError {
    pub(crate) key: QuotaKey,
    limit: usize,
    scope: QuotaScope,
    retry_after: Duration,
}

/// What the agents of one scope use together.
#[derive(Debug)]
pub(crate) struct Meter {
    scope: QuotaScope,
    usage: Mutex<Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    quotas: Quotas,
    agents: usize,
    calls: usize,
    /// Bytes of requests without a response.
    request_bytes: usize,
    /// Bytes of unread responses and incomplete lines.
    backlog_bytes: usize,
    /// The rate of calls. A burst may have the calls of one second.
    call_rate: Gcra,
    /// The rate at which large incomplete lines are read.
    read_rate: Gcra,
    /// How often each quota was reached.
    refused: [u64; QuotaKey::ALL.len()],
}

/// One quota as it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotaUse {
    pub(crate) key: QuotaKey,
    pub(crate) limit: usize,
    /// What is in use now. A rate has none.
    pub(crate) used: Option<usize>,
    pub(crate) refused: u64,
}

/// The part of one agent.
#[derive(Debug)]
pub(crate) struct AgentQuota {
    /// Of its profile, and of its user there.
    meters: [Arc<Meter>; 2],
}

/// Bytes of a request without a response.
#[derive(Debug)]
pub(super) struct RequestBytes {
    quota: Arc<AgentQuota>,
    bytes: usize,
}

/// A call in flight.
#[derive(Debug)]
pub(super) struct CallPermit {
    request: RequestBytes,
}

impl QuotaKey {
    const ALL: [Self; 4] = [Self::Connections, Self::Calls, Self::Rate, Self::Bytes];

    /// The name in reports: the key of a profile, if there is one.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Calls => "max_calls",
            Self::Rate => "rate",
            Self::Bytes => "bytes",
        }
    }

    fn of(self, quotas: &Quotas) -> Option<usize> {
        match self {
            Self::Connections => quotas.max_agents,
            Self::Calls => quotas.max_calls,
            Self::Rate => quotas.rate,
            Self::Bytes => quotas.max_bytes,
        }
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, limit) = (self.key.name(), self.limit);
        match (self.key, &self.scope) {
            (QuotaKey::Connections, scope) => write!(f, "{limit} connections, the limit of {scope}, are reached"),
            (QuotaKey::Bytes, scope) => {
                write!(f, "{} of unfinished messages, the limit of {scope}, are reached", size_text(limit as u64))
            }
            (_, scope @ QuotaScope::Profile(_)) => write!(f, "`{key} = {limit}` of {scope} is reached"),
            (_, scope @ QuotaScope::User(_)) => write!(
                f,
                "`{key} = {limit}` is reached, the default of {scope}; a `{key}` set there replaces it, for all agents of the \
                 profile together"
            ),
        }
    }
}

impl fmt::Display for QuotaScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(profile) => write!(f, "[profiles.{profile}]"),
            Self::User(user) => write!(f, "each guest at [profiles.{}]", user.profile),
        }
    }
}

impl QuotaError {
    pub(crate) fn to_object(&self, delivery: Delivery) -> ErrorObject {
        ErrorObject::of_mcpd(ErrorCode::Overloaded, self.to_string(), delivery).retry_after(self.retry_after)
    }
}

impl Meter {
    pub(crate) fn new(scope: QuotaScope, quotas: Quotas) -> Arc<Self> {
        Arc::new(Self { scope, usage: Mutex::new(Usage { quotas, ..Usage::default() }) })
    }

    /// Applies other quotas from now on. What is in use stays.
    pub(crate) fn set_quotas(&self, quotas: Quotas) {
        self.usage().quotas = quotas;
    }

    /// The number of connected agents.
    pub(crate) fn agents(&self) -> usize {
        self.usage().agents
    }

    /// How many bytes of backlogs must go until all held bytes are within the quota, and the error for a connection that is closed for it.
    pub(crate) fn excess_backlog(&self) -> Option<(usize, QuotaError)> {
        let usage = self.usage();
        let excess = (usage.request_bytes + usage.backlog_bytes).checked_sub(usage.quotas.max_bytes?)?;
        (excess > 0).then(|| (excess.min(usage.backlog_bytes), self.reached(&usage, QuotaKey::Bytes)))
    }

    /// Counts a connection that is closed.
    pub(crate) fn count_closed(&self) {
        self.usage().refused[QuotaKey::Bytes as usize] += 1;
    }

    /// Each quota that is set, as it is reported.
    pub(crate) fn report(&self) -> Vec<QuotaUse> {
        let usage = self.usage();
        let quota = |key: QuotaKey| {
            let used = match key {
                QuotaKey::Connections => Some(usage.agents),
                QuotaKey::Calls => Some(usage.calls),
                QuotaKey::Rate => None,
                QuotaKey::Bytes => Some(usage.request_bytes + usage.backlog_bytes),
            };
            Some(QuotaUse { key, limit: key.of(&usage.quotas)?, used, refused: usage.refused[key as usize] })
        };
        QuotaKey::ALL.into_iter().filter_map(quota).collect()
    }

    fn reached(&self, usage: &Usage, key: QuotaKey) -> QuotaError {
        let limit = key.of(&usage.quotas).unwrap_or_default();
        QuotaError { key, limit, scope: self.scope.clone(), retry_after: RETRY_AFTER }
    }

    /// Runs `check`. Counts and returns its refusal.
    fn check(&self, check: impl FnOnce(&mut Usage) -> Result<(), (QuotaKey, Duration)>) -> Result<(), QuotaError> {
        let mut usage = self.usage();
        check(&mut usage).map_err(|(key, retry_after)| {
            usage.refused[key as usize] += 1;
            QuotaError { retry_after, ..self.reached(&usage, key) }
        })
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Usage {
    fn check_agent(&self) -> Result<(), (QuotaKey, Duration)> {
        within(self.agents + 1, self.quotas.max_agents).map_err(|()| (QuotaKey::Connections, RETRY_AFTER))
    }

    fn check_bytes(&self, bytes: usize) -> Result<(), (QuotaKey, Duration)> {
        within(self.request_bytes + self.backlog_bytes + bytes, self.quotas.max_bytes)
            .map_err(|()| (QuotaKey::Bytes, RETRY_AFTER))
    }

    fn check_call(&self, bytes: usize, now: Instant) -> Result<(), (QuotaKey, Duration)> {
        self.check_bytes(bytes)?;
        within(self.calls + 1, self.quotas.max_calls).map_err(|()| (QuotaKey::Calls, RETRY_AFTER))?;
        let Some(interval) = self.interval() else { return Ok(()) };
        let wait = self.call_rate.wait(interval, SECOND, now);
        if wait.is_zero() { Ok(()) } else { Err((QuotaKey::Rate, wait.max(Duration::from_millis(1)))) }
    }

    fn begin_call(&mut self, now: Instant) {
        self.calls += 1;
        if let Some(interval) = self.interval() {
            self.call_rate.count(interval, now);
        }
    }

    /// Counts bytes of a large incomplete line, and returns how long the next bytes have to wait.
    fn read(&mut self, bytes: usize, now: Instant) -> Duration {
        if self.quotas.max_bytes.is_none() {
            return Duration::ZERO;
        }
        self.read_rate.count(reading_time(bytes), now);
        self.read_rate.wait(Duration::ZERO, reading_time(READ_BURST), now)
    }

    /// Between the calls of a steady sender at the full rate.
    fn interval(&self) -> Option<Duration> {
        Some(SECOND / u32::try_from(self.quotas.rate?).unwrap_or(u32::MAX).max(1))
    }
}

/// At [`READ_RATE`].
fn reading_time(bytes: usize) -> Duration {
    SECOND.mul_f64(bytes as f64 / READ_RATE)
}

fn within(number: usize, limit: Option<usize>) -> Result<(), ()> {
    if limit.is_some_and(|limit| number > limit) { Err(()) } else { Ok(()) }
}

impl AgentQuota {
    /// Counts one more agent.
    ///
    /// # Errors
    /// If a quota is reached.
    pub(crate) fn connect(profile: &Arc<Meter>, user: &Arc<Meter>) -> Result<Arc<Self>, QuotaError> {
        let meters = [Arc::clone(profile), Arc::clone(user)];
        meters.iter().try_for_each(|meter| meter.check(|usage| usage.check_agent()))?;
        meters.iter().for_each(|meter| meter.usage().agents += 1);
        Ok(Arc::new(Self { meters }))
    }

    /// Whether this meter counts the agent.
    pub(crate) fn is_counted_by(&self, meter: &Arc<Meter>) -> bool {
        self.meters.iter().any(|own| Arc::ptr_eq(own, meter))
    }

    /// Begins a call.
    ///
    /// # Errors
    /// If a quota is reached.
    pub(super) fn begin_call(self: &Arc<Self>, bytes: usize, now: Instant) -> Result<CallPermit, QuotaError> {
        self.meters.iter().try_for_each(|meter| meter.check(|usage| usage.check_call(bytes, now)))?;
        self.meters.iter().for_each(|meter| meter.usage().begin_call(now));
        Ok(CallPermit { request: self.add_request(bytes) })
    }

    /// Holds a request that no server has received yet.
    ///
    /// # Errors
    /// If a quota is reached.
    pub(super) fn hold_request(self: &Arc<Self>, bytes: usize) -> Result<RequestBytes, QuotaError> {
        self.meters.iter().try_for_each(|meter| meter.check(|usage| usage.check_bytes(bytes)))?;
        Ok(self.add_request(bytes))
    }

    fn add_request(self: &Arc<Self>, bytes: usize) -> RequestBytes {
        self.meters.iter().for_each(|meter| meter.usage().request_bytes += bytes);
        RequestBytes { quota: Arc::clone(self), bytes }
    }

    /// Counts bytes of a large incomplete line of the agent. Returns how long mcpd has to pause before it reads more of it.
    pub(super) fn read(&self, bytes: usize, now: Instant) -> Duration {
        self.meters.iter().map(|meter| meter.usage().read(bytes, now)).max().unwrap_or_default()
    }

    /// The backlog of the agent has changed. Returns whether a quota is exceeded.
    pub(super) fn set_backlog(&self, before: usize, now: usize) -> bool {
        let change = |meter: &Arc<Meter>| {
            let mut usage = meter.usage();
            usage.backlog_bytes = usage.backlog_bytes - before + now;
            usage.check_bytes(0).is_err()
        };
        // Every meter has to count the change.
        self.meters.iter().filter(|meter| change(meter)).count() > 0
    }
}

impl Drop for AgentQuota {
    fn drop(&mut self) {
        self.meters.iter().for_each(|meter| meter.usage().agents -= 1);
    }
}

impl Drop for RequestBytes {
    fn drop(&mut self) {
        self.quota.meters.iter().for_each(|meter| meter.usage().request_bytes -= self.bytes);
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.request.quota.meters.iter().for_each(|meter| meter.usage().calls -= 1);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn meter(quotas: Quotas) -> Arc<Meter> {
        Meter::new(QuotaScope::Profile("p".into()), quotas)
    }

    /// The agent of a profile with these quotas, and its profile's meter.
    fn agent(quotas: Quotas) -> (Arc<AgentQuota>, Arc<Meter>) {
        let profile = meter(quotas);
        (AgentQuota::connect(&profile, &meter(Quotas::default())).expect("it is the first"), profile)
    }

    pub(in crate::session) fn unlimited() -> Arc<AgentQuota> {
        agent(Quotas::default()).0
    }

    /// Calls, bytes of requests, and of backlogs.
    fn used(meter: &Meter) -> (usize, usize, usize) {
        let usage = meter.usage();
        (usage.calls, usage.request_bytes, usage.backlog_bytes)
    }

    fn key<T: fmt::Debug>(refused: Result<T, QuotaError>) -> QuotaKey {
        refused.expect_err("a quota is reached").key
    }

    #[test]
    fn agents_and_calls_are_counted_until_they_end() {
        let (one, profile) = agent(Quotas { max_agents: Some(1), max_calls: Some(2), ..Quotas::default() });
        let user = meter(Quotas::default());
        assert_eq!(key(AgentQuota::connect(&profile, &user)), QuotaKey::Connections);
        let now = Instant::now();
        let calls = [(); 2].map(|()| one.begin_call(10, now).expect("within the quota"));
        assert_eq!(key(one.begin_call(10, now)), QuotaKey::Calls);
        assert_eq!(used(&profile), (2, 20, 0));
        drop(calls);
        drop(one);
        let usage = profile.usage();
        assert_eq!((usage.agents, usage.calls, usage.request_bytes, usage.refused), (0, 0, 0, [1, 1, 0, 0]));
    }

    #[test]
    fn a_second_of_calls_may_come_at_once_and_then_one_in_each_interval() {
        let (agent, profile) = agent(Quotas { rate: Some(10), ..Quotas::default() });
        let start = Instant::now();
        let admitted = |at: u64| agent.begin_call(0, start + Duration::from_millis(at)).map(drop);
        assert!((0..10).all(|_| admitted(0).is_ok()));
        let refused = admitted(30).expect_err("the rate is reached");
        assert_eq!((refused.key, refused.retry_after), (QuotaKey::Rate, Duration::from_millis(70)));
        assert!(admitted(100).is_ok() && admitted(100).is_err() && admitted(200).is_ok());
        assert!((0..10).all(|_| admitted(60_000).is_ok()) && admitted(60_000).is_err());
        profile.set_quotas(Quotas { rate: Some(1000), ..Quotas::default() });
        assert!(admitted(60_001).is_ok());
    }

    #[test]
    fn bytes_are_those_of_requests_and_backlogs() {
        let (agent, profile) = agent(Quotas { max_bytes: Some(100), ..Quotas::default() });
        let request = agent.hold_request(60).expect("within the quota");
        assert!(!agent.set_backlog(0, 40) && profile.excess_backlog().is_none());
        assert_eq!(key(agent.begin_call(1, Instant::now())), QuotaKey::Bytes);
        assert!(agent.set_backlog(40, 50));
        assert_eq!(profile.excess_backlog().map(|(bytes, _)| bytes), Some(10));
        drop(request);
        assert!(profile.excess_backlog().is_none() && !agent.set_backlog(50, 0));
        assert_eq!(used(&profile), (0, 0, 0));
    }

    #[test]
    fn error_names_the_key_and_its_table() {
        let (agent, _profile) = agent(Quotas { max_bytes: Some(2 << 20), ..Quotas::default() });
        let refused = agent.hold_request(3 << 20).expect_err("too large");
        assert_eq!(refused.to_string(), "2MiB of unfinished messages, the limit of [profiles.p], are reached");
        let user = User { profile: "p".into(), uid: 7, is_guest: true };
        let guest = Meter::new(QuotaScope::User(Arc::new(user)), Quotas { max_calls: Some(0), ..Quotas::default() });
        let guest = AgentQuota::connect(&meter(Quotas::default()), &guest).expect("no limit of agents");
        let refused = guest.begin_call(0, Instant::now()).expect_err("no call may be sent");
        let expected = "`max_calls = 0` is reached, the default of each guest at [profiles.p]; a `max_calls` set there \
                        replaces it, for all agents of the profile together";
        assert_eq!(refused.to_string(), expected);
    }
}
