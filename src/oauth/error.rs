//! Errors of token requests, and whether a later request may succeed. Pure.

use super::token_response::ErrorResponse;

/// Error codes for a grant or client that will never be accepted again. Source: RFC 6749, 5.2.
const PERMANENT: [&str; 3] = ["invalid_grant", "invalid_client", "unauthorized_client"];
/// Error codes for temporary failures. Source: RFC 6749, 4.1.2.1; RFC 8628, 3.5.
const TRANSIENT: [&str; 3] = ["server_error", "temporarily_unavailable", "slow_down"];

/// Why there is no token. Texts are for a person, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenError {
    /// This grant is invalid for good.
    Permanent(String),
    /// The request was refused.
    Refused(String),
    /// A later request may succeed.
    Temporary(String),
}

impl TokenError {
    /// The meaning of an error response, described as `why`.
    pub(super) fn of(status: u16, refused: &ErrorResponse, why: String) -> Self {
        match refused.error.as_deref() {
            Some(error) if PERMANENT.contains(&error) => Self::Permanent(why),
            Some(error) if !TRANSIENT.contains(&error) && !is_transient(status) => Self::Refused(why),
            // The client was refused, not the request.
            None if status == 401 => Self::Refused(why),
            _ => Self::Temporary(why),
        }
    }

    /// The text for a person.
    pub(super) fn why(self) -> String {
        match self {
            Self::Permanent(why) | Self::Refused(why) | Self::Temporary(why) => why,
        }
    }
}

/// Whether a status is temporary. Source: RFC 9110, 15.5.9 and 15.6; RFC 6585, 4.
fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_decide_whether_a_retry_may_succeed() {
        type ListKind = fn(String) -> TokenError;
        let (permanent, refused, temporary): (ListKind, ListKind, ListKind) =
            (TokenError::Permanent, TokenError::Refused, TokenError::Temporary);
        for (status, error, expected) in [
            (400, Some("invalid_grant"), permanent),
            (401, Some("invalid_client"), permanent),
            (500, Some("unauthorized_client"), permanent),
            (400, Some("invalid_scope"), refused),
            (400, Some("unsupported_grant_type"), refused),
            (401, None, refused),
            (429, Some("invalid_scope"), temporary),
            (503, Some("invalid_scope"), temporary),
            (400, Some("slow_down"), temporary),
            (400, None, temporary),
            (502, None, temporary),
            (200, None, temporary),
        ] {
            let response = ErrorResponse { error: error.map(str::to_owned), reason: String::new() };
            assert_eq!(TokenError::of(status, &response, "why".into()), expected("why".into()), "{status} {error:?}");
        }
        assert_eq!(TokenError::Temporary("x".into()).why(), "x");
    }
}
