//! The limits of accounts: what is limited, per whom, its default, and the error. Pure.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Quotas, size_text};
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::reply::ErrorObject;
use crate::server::messages::call::MAX_UNANSWERED_PER_SESSION;

/// Resources that an agent may subscribe to, over all servers. The same limit applies to tasks in `subscriptions/listen`.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 1000;
/// Tasks of an agent. One more replaces the oldest that has ended.
pub(crate) const MAX_TASKS: usize = 256;
/// GET streams of a session over HTTP that are read at the same time.
pub(crate) const MAX_STREAMS: usize = 16;
/// Suggested delay before a retry at every quota except the rate.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What is charged to accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Connected agents.
    Connections,
    /// Calls in flight.
    Calls,
    /// Bytes of unread responses, incomplete lines, and requests without a response.
    Bytes,
    /// Requests of a connection without a response.
    Requests,
    /// Bytes of these.
    RequestBytes,
    /// Subscriptions of a connection. It counts them itself.
    Subscriptions,
    /// Tasks of a connection that have not ended. It counts them itself.
    Tasks,
    /// GET streams of a session over HTTP. It counts them itself.
    Streams,
    /// Bytes of unread responses and incomplete lines, beyond an allowance of each connection.
    Backlog,
    /// Calls per second.
    CallRate,
    /// Bytes per second of large incomplete lines. Lines that never end fill the limit of bytes again and again. Without this
    /// limit, reading them would take most of the daemon's time.
    ReadRate,
    /// New connections per second. An admitted one counts as several. The burst depends on the profile.
    ConnectionRate,
    /// Messages per second that begin no call, such as refused requests. Each costs the daemon time, and no other limit counts it.
    MessageRate,
}

impl Resource {
    pub(super) const COUNT: usize = Self::MessageRate as usize + 1;
    /// Those of which there is something in use. The others are rates.
    pub(super) const COUNTED: [Self; 6] =
        [Self::Connections, Self::Calls, Self::Bytes, Self::Requests, Self::RequestBytes, Self::Backlog];

    /// How much of a rate per second may come at once. `None` if it is no rate.
    pub(super) fn burst(self, per_second: usize) -> Option<usize> {
        match self {
            Self::CallRate => Some(per_second),
            Self::ReadRate => Some(4 << 20),
            Self::ConnectionRate => Some(0),
            Self::MessageRate => Some(256),
            _ => None,
        }
    }
}

/// Whose use a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// All agents.
    All,
    /// All agents of guests.
    Guests,
    /// All agents of a profile.
    Profile,
    /// The agents of the user who runs mcpd, at a profile.
    Owner,
    /// The agents of a guest, at a profile.
    Guest,
    Connection,
}

/// What limits are derived from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Maximum number of connections of all agents.
    pub(super) max_connections: usize,
    /// In bytes.
    pub(super) buffer_unit: usize,
}

/// One limit.
#[derive(Debug)]
pub(super) struct Limit {
    pub(super) resource: Resource,
    pub(super) holder: Holder,
    pub(super) value: Value,
    /// The text of the error, with `{limit}`, `{bytes}`, `{name}` and `{profile}`. Empty if mcpd reads or accepts more slowly instead.
    error: &'static str,
    /// Its name in reports: the key of a profile, if there is one. Limits without a name are not reported.
    pub(super) name: Option<&'static str>,
}

/// Of a holder with these quotas. `None` for no limit.
type Value = fn(Sizes, &Quotas) -> Option<usize>;

const fn fixed(resource: Resource, holder: Holder, value: Value, error: &'static str) -> Limit {
    Limit { resource, holder, value, error, name: None }
}

const fn quota(name: &'static str, resource: Resource, holder: Holder, value: Value, error: &'static str) -> Limit {
    Limit { resource, holder, value, error, name: Some(name) }
}

const ALL_CONNECTIONS: &str = "mcpd serves {limit} agents already";
const GUESTS_CONNECTIONS: &str = "mcpd serves {limit} agents of other users already";
const USER_CONNECTIONS: &str = "mcpd serves {limit} agents of this user at this profile already";
const GUEST_CONNECTIONS: &str = "{limit} connections, the limit of each guest at {profile}, are reached";
const GUEST_BYTES: &str = "{bytes} of unfinished messages, the limit of each guest at {profile}, are reached";
const PROFILE_QUOTA: &str = "`{name} = {limit}` of {profile} is reached";
const GUEST_QUOTA: &str = "`{name} = {limit}` is reached, the default of each guest at {profile}; a `{name}` set there replaces it, \
                           for all agents of the profile together";
const REQUESTS: &str = "this connection has too many unanswered requests";
const REQUEST_BYTES: &str = "the unanswered requests of this connection are too large together";
const BACKLOG: &str = "unread responses and incomplete lines of all agents are over {bytes} together";
const SUBSCRIPTIONS: &str = "this connection has too many subscriptions, or their URIs are too large together";
const TASKS: &str = "this connection has too many tasks that have not ended";
const STREAMS: &str = "this session has too many streams";
const DELAYED: &str = "";

const OF_SUBSCRIPTIONS: Limit =
    fixed(Resource::Subscriptions, Holder::Connection, |_, _| Some(MAX_SUBSCRIPTIONS), SUBSCRIPTIONS);
const OF_TASKS: Limit = fixed(Resource::Tasks, Holder::Connection, |_, _| Some(MAX_TASKS), TASKS);
const OF_STREAMS: Limit = fixed(Resource::Streams, Holder::Connection, |_, _| Some(MAX_STREAMS), STREAMS);

/// Every limit of accounts.
pub(super) const LIMITS: &[Limit] = &[
    fixed(Resource::Connections, Holder::All, |of, _| Some(of.max_connections), ALL_CONNECTIONS),
    fixed(Resource::Connections, Holder::Owner, |of, _| Some((of.max_connections / 2).max(1)), USER_CONNECTIONS),
    fixed(Resource::Connections, Holder::Guest, |of, _| Some((of.max_connections / 16).max(1)), USER_CONNECTIONS),
    quota("connections", Resource::Connections, Holder::Guest, |_, quotas| quotas.max_agents, GUEST_CONNECTIONS),
    fixed(Resource::Connections, Holder::Guests, |of, _| Some(of.max_connections / 2), GUESTS_CONNECTIONS),
    quota("bytes", Resource::Bytes, Holder::Guest, |_, quotas| quotas.max_bytes, GUEST_BYTES),
    quota("max_calls", Resource::Calls, Holder::Profile, |_, quotas| quotas.max_calls, PROFILE_QUOTA),
    quota("max_calls", Resource::Calls, Holder::Guest, |_, quotas| quotas.max_calls, GUEST_QUOTA),
    quota("rate", Resource::CallRate, Holder::Profile, |_, quotas| quotas.rate, PROFILE_QUOTA),
    quota("rate", Resource::CallRate, Holder::Guest, |_, quotas| quotas.rate, GUEST_QUOTA),
    fixed(Resource::RequestBytes, Holder::Connection, |of, _| Some(4 * of.buffer_unit), REQUEST_BYTES),
    fixed(Resource::Requests, Holder::Connection, |_, _| Some(MAX_UNANSWERED_PER_SESSION), REQUESTS),
    OF_SUBSCRIPTIONS,
    OF_TASKS,
    OF_STREAMS,
    fixed(Resource::Backlog, Holder::Guests, |of, _| Some(max_backlog(of) / 2), BACKLOG),
    fixed(Resource::Backlog, Holder::All, |of, _| Some(max_backlog(of)), BACKLOG),
    fixed(Resource::ConnectionRate, Holder::Profile, |_, _| Some(1000), DELAYED),
    fixed(Resource::ReadRate, Holder::Guest, |_, _| Some(16 << 20), DELAYED),
    fixed(Resource::MessageRate, Holder::Guest, |_, _| Some(1000), DELAYED),
];

fn max_backlog(of: Sizes) -> usize {
    of.buffer_unit.saturating_mul(16).max(64 << 20)
}

/// A limit is reached.
#[derive(Debug, Clone)]
pub(crate) struct OverLimit {
    pub(super) limit: &'static Limit,
    pub(super) value: usize,
    pub(super) profile: Option<Arc<str>>,
    /// Until a rate permits another one.
    pub(super) wait: Duration,
}

impl OverLimit {
    pub(crate) const SUBSCRIPTIONS: Self = Self::of(&OF_SUBSCRIPTIONS, MAX_SUBSCRIPTIONS);
    pub(crate) const TASKS: Self = Self::of(&OF_TASKS, MAX_TASKS);

    pub(crate) const STREAMS: Self = Self::of(&OF_STREAMS, MAX_STREAMS);

    const fn of(limit: &'static Limit, value: usize) -> Self {
        Self { limit, value, profile: None, wait: Duration::ZERO }
    }

    /// Whether it is a limit of the connection alone.
    pub(crate) fn is_of_connection(&self) -> bool {
        self.limit.holder == Holder::Connection
    }

    pub(crate) fn to_object(&self, delivery: Delivery) -> ErrorObject {
        let error = ErrorObject::of_mcpd(ErrorCode::Overloaded, self.to_string(), delivery);
        match (self.wait, self.limit.name) {
            (_, None) => error,
            (Duration::ZERO, _) => error.retry_after(RETRY_AFTER),
            (wait, _) => error.retry_after(wait.max(Duration::from_millis(1))),
        }
    }
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profile = self.profile.as_deref().unwrap_or_default();
        let text = self.limit.error.replace("{limit}", &self.value.to_string());
        let text = text.replace("{bytes}", &size_text(self.value as u64));
        let text = text.replace("{name}", self.limit.name.unwrap_or_default());
        f.write_str(&text.replace("{profile}", &format!("[profiles.{profile}]")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../docs/internals/limits.md");

    /// With a comma between thousands.
    fn grouped(number: usize) -> String {
        if number < 1000 { number.to_string() } else { format!("{},{:03}", number / 1000, number % 1000) }
    }

    #[test]
    fn page_has_every_limit_that_no_quota_replaces() {
        const UNIT: usize = 16 << 20;
        let sizes = Sizes { max_connections: 4096, buffer_unit: UNIT };
        for limit in LIMITS {
            let Some(value) = (limit.value)(sizes, &Quotas::default()) else { continue };
            let expected = match (limit.resource, limit.holder) {
                (Resource::Connections, Holder::All) => format!("| connections | {}, or half", grouped(value)),
                (Resource::Connections, Holder::Owner) if value == 4096 / 2 => "| half of all; ".to_owned(),
                (Resource::Connections, Holder::Guest) if value == 4096 / 16 => {
                    "; a sixteenth for another user".to_owned()
                }
                (Resource::Connections, Holder::Guests) if value == 4096 / 2 => {
                    "of all other users | half of all |".to_owned()
                }
                (Resource::Requests, _) => format!("| {}, with together ", grouped(value)),
                (Resource::RequestBytes, _) => format!("with together {} MiB ({} × *M*)", value >> 20, value / UNIT),
                (Resource::Subscriptions, _) => format!("| {} each, with together", grouped(value)),
                (Resource::Tasks, _) => format!("| {} of a connection, ", grouped(value)),
                (Resource::Streams, _) => format!("| {} that are read at the same time |", grouped(value)),
                (Resource::Backlog, Holder::All) => format!("| {} × *M*, at least 64 MiB |", value / UNIT),
                (Resource::ConnectionRate, _) if value == 1000 => "one every 4 ms (refused: every 1 ms)".to_owned(),
                (Resource::MessageRate, _) => format!("| 256 at once, then {} per second |", grouped(value)),
                // These are said with the quotas, and by the order in which connections are closed.
                (Resource::ReadRate, Holder::Guest) | (Resource::Backlog, Holder::Guests) => continue,
                other => panic!("{other:?} is in no row"),
            };
            assert!(PAGE.contains(&expected), "{expected}");
        }
    }
}
