//! Quotas of a profile: what its agents may use together.

use std::ops::RangeInclusive;

use super::keys::{Key, count, size};

/// Sizes of `max_bytes`.
const BYTES: RangeInclusive<u64> = 64 << 10..=1 << 40;
/// Buffers of a guest, in units of the largest message.
const GUEST_MESSAGES: usize = 4;

/// The quotas of the agents of a profile, or of one guest. `None` for no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Agents connected at a time.
    pub max_agents: Option<usize>,
    /// Calls in flight.
    pub max_calls: Option<usize>,
    /// Calls per second. A burst of this size is permitted.
    pub rate: Option<usize>,
    /// Bytes that mcpd holds: unread responses, incomplete lines, and requests without a response.
    pub max_bytes: Option<usize>,
}

impl Quotas {
    /// The keys of `[profiles.NAME]`.
    pub(super) const KEYS: &[Key<Self>] = &[
        Key {
            name: "max_agents",
            doc: "Maximum number of connected agents of this profile. A further connection is refused.",
            rule: count(1..=4096).example("8"),
            field: |quotas| &mut quotas.max_agents,
        },
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
            name: "max_bytes",
            doc: "Maximum number of bytes that mcpd holds for the agents of this profile: unread responses, incomplete lines, and \
                  requests without a response. Beyond it, a call is refused, and the connection that holds most is closed.",
            rule: size(BYTES).example("\"32MiB\""),
            field: |quotas| &mut quotas.max_bytes,
        },
    ];

    /// The default quotas of one guest.
    #[must_use]
    pub fn of_guest(max_message: usize) -> Self {
        Self {
            max_agents: Some(64),
            max_calls: Some(64),
            rate: Some(100),
            max_bytes: Some(max_message.saturating_mul(GUEST_MESSAGES)),
        }
    }

    /// These quotas without those that `other` sets.
    #[must_use]
    pub fn without(self, other: &Self) -> Self {
        let only = |quota: Option<usize>, other: Option<usize>| quota.filter(|_| other.is_none());
        Self {
            max_agents: only(self.max_agents, other.max_agents),
            max_calls: only(self.max_calls, other.max_calls),
            rate: only(self.rate, other.rate),
            max_bytes: only(self.max_bytes, other.max_bytes),
        }
    }
}
