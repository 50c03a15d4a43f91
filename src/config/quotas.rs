//! Quotas of a profile: what its agents may use together.

use super::keys::{Key, count, size};
use super::settings::MAX_MESSAGE;

/// Connections of a guest: several agents, each with some servers of its own.
const GUEST_CONNECTIONS: usize = 64;
/// Buffers of a guest, in buffer units.
const GUEST_BUFFERS: usize = 4;

/// The quotas of the agents of a profile, or of one guest. `None` for no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Agents connected at a time. Only guests have this limit.
    pub max_agents: Option<usize>,
    /// Calls in flight.
    pub max_calls: Option<usize>,
    /// Calls per second. A burst of this size is permitted.
    pub rate: Option<usize>,
    /// Bytes that mcpd holds: unread responses, incomplete lines, and requests without a response. Only guests have this limit.
    pub max_bytes: Option<usize>,
    /// Maximum size of one message, in bytes.
    pub max_message: Option<usize>,
}

impl Quotas {
    /// The keys of `[profiles.NAME]`.
    pub(super) const KEYS: &[Key<Self>] = &[
        Key {
            name: "max_calls",
            doc: "Maximum number of calls of this profile that are in flight. A further call is refused.",
            rule: count(1..=65_536).example("16"),
            field: |quotas| &mut quotas.max_calls,
        },
        Key {
            name: "rate",
            doc: "Maximum number of calls of this profile per second. After a pause, as many may come at once. A further call is refused.",
            rule: count(1..=1_000_000).example("50"),
            field: |quotas| &mut quotas.rate,
        },
        Key {
            name: "max_message",
            doc: "Maximum size of one message from or to an agent of this profile, instead of `max_message` of `[daemon]`. Its lists \
                  are cut to fit.",
            rule: size(MAX_MESSAGE).example("\"64MiB\""),
            field: |quotas| &mut quotas.max_message,
        },
    ];

    /// The default quotas of one guest.
    #[must_use]
    pub fn of_guest(buffer_unit: usize) -> Self {
        Self {
            max_agents: Some(GUEST_CONNECTIONS),
            max_calls: Some(64),
            rate: Some(100),
            max_message: None,
            max_bytes: Some(buffer_unit.saturating_mul(GUEST_BUFFERS)),
        }
    }

    /// These quotas without those that `other` sets.
    #[must_use]
    pub fn without(self, other: &Self) -> Self {
        let only = |quota: Option<usize>, other: Option<usize>| quota.filter(|_| other.is_none());
        Self { max_calls: only(self.max_calls, other.max_calls), rate: only(self.rate, other.rate), ..self }
    }
}
