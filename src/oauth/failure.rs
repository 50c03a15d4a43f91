//! Why an authorization server gives no token, and whether asking again is of use. Pure.

use super::answer::Refused;

/// What an authorization server says of a grant, or of mcpd, that it will never take again. Source: RFC 6749, 5.2.
const FINAL: [&str; 3] = ["invalid_grant", "invalid_client", "unauthorized_client"];
/// What it says when it might take it later. Source: RFC 6749, 4.1.2.1; RFC 8628, 3.5.
const TRANSIENT: [&str; 3] = ["server_error", "temporarily_unavailable", "slow_down"];

/// Why there is no token. For a person, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// There never will be one for this.
    Over(String),
    /// There will be none, as far as can be known.
    Refused(String),
    /// There may be one later.
    Later(String),
}

impl Failure {
    /// What it means that this status came with that refusal, told as `why`.
    pub(super) fn of(status: u16, refused: &Refused, why: String) -> Self {
        match refused.error.as_deref() {
            Some(error) if FINAL.contains(&error) => Self::Over(why),
            Some(error) if !TRANSIENT.contains(&error) && !is_transient(status) => Self::Refused(why),
            // Of who asks, not of what is asked.
            None if status == 401 => Self::Refused(why),
            _ => Self::Later(why),
        }
    }

    /// For a person who waits for it.
    pub(super) fn why(self) -> String {
        match self {
            Self::Over(why) | Self::Refused(why) | Self::Later(why) => why,
        }
    }
}

/// Whether a status says that another time it might be another one. Source: RFC 9110, 15.5.9 and 15.6; RFC 6585, 4.
fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_again_is_of_use_only_where_the_answer_might_be_another() {
        type Kind = fn(String) -> Failure;
        let (over, refused, later): (Kind, Kind, Kind) = (Failure::Over, Failure::Refused, Failure::Later);
        for (status, error, expected) in [
            (400, Some("invalid_grant"), over),
            (401, Some("invalid_client"), over),
            (500, Some("unauthorized_client"), over),
            (400, Some("invalid_scope"), refused),
            (400, Some("unsupported_grant_type"), refused),
            (401, None, refused),
            (429, Some("invalid_scope"), later),
            (503, Some("invalid_scope"), later),
            (400, Some("slow_down"), later),
            (400, None, later),
            (502, None, later),
            (200, None, later),
        ] {
            let answer = Refused { error: error.map(str::to_owned), reason: String::new() };
            assert_eq!(Failure::of(status, &answer, "why".into()), expected("why".into()), "{status} {error:?}");
        }
        assert_eq!(Failure::Later("x".into()).why(), "x");
    }
}
