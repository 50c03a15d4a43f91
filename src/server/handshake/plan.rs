//! Chooses the era in which an instance is opened, and the fallback if the server lacks that era. Pure.
//!
//! Source: MCP 2026-07-28, `basic/versioning`, "Backward Compatibility with Initialization-Based Versions". The first request
//! decides the era of a stdio connection. At a URL, requests of the modern era are independent of a connection.

use crate::config::EraChoice;
use crate::era::{Era, Eras};
use crate::server::era_cache::{EraPreference, EraSupport, Support};

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
