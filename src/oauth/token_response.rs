//! Responses of an authorization server: tokens, registrations, and errors, with whether a retry may succeed. Pure.
//!
//! Source: RFC 6749, 5.1 and 5.2; RFC 7591, 3.2.

use http::header::HeaderValue;
use serde::Deserialize;
use serde_json::Value;

use super::error::LoginError;
use super::request::{AuthMethod, ClientRegistration};
use crate::printable::excerpt;

/// Longest quote of a peer's text, in characters.
const MAX_QUOTE_LEN: usize = 200;

/// A token with its attributes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct TokenResponse {
    pub(super) access_token: String,
    /// Obtains the next token.
    pub(super) refresh_token: Option<String>,
    /// Lifetime in seconds.
    pub(super) expires_in: Option<u64>,
    /// The granted scopes, if they differ from the requested ones.
    pub(super) scopes: Option<Vec<String>>,
}

/// Why there is no token or registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ErrorResponse {
    /// The error code, if there is one.
    pub(super) error: Option<String>,
    /// For a person, on one line.
    pub(super) reason: String,
}

#[derive(Deserialize)]
struct Token {
    access_token: String,
    token_type: Option<String>,
    refresh_token: Option<String>,
    expires_in: Option<Value>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Registration {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

#[derive(Deserialize)]
struct Error {
    error: String,
    error_description: Option<String>,
}

/// Parses the response of a token endpoint. Some send errors with status 200.
pub(super) fn parse_token(status: u16, body: &[u8]) -> Result<TokenResponse, ErrorResponse> {
    let token: Token = read(status, body)?;
    let unfit = |what: &str| ErrorResponse { error: None, reason: format!("sends a token that {what}") };
    if token.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(unfit("is not a bearer token"));
    }
    if token.access_token.is_empty() || !token.access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(unfit("is not valid in a header"));
    }
    let seconds = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok()).or_else(|| read_whole(value));
    Ok(TokenResponse {
        access_token: token.access_token,
        refresh_token: token.refresh_token.filter(|token| !token.is_empty()),
        // A lifetime of zero counts as none.
        expires_in: token.expires_in.as_ref().and_then(seconds).filter(|seconds| *seconds > 0),
        scopes: token.scope.map(|scope| scope.split_ascii_whitespace().map(str::to_owned).collect()),
    })
}

/// Accepts `3600.0` as a number of seconds.
fn read_whole(value: &Value) -> Option<u64> {
    let seconds = value.as_f64().filter(|seconds| (0.0..1e15).contains(seconds))?;
    format!("{seconds:.0}").parse().ok()
}

/// Parses the response of a registration endpoint to a request for `method`.
pub(super) fn parse_registration(
    status: u16,
    body: &[u8],
    method: AuthMethod,
) -> Result<ClientRegistration, ErrorResponse> {
    let Registration { client_id, client_secret, token_endpoint_auth_method } = read(status, body)?;
    let named = token_endpoint_auth_method.as_deref().and_then(AuthMethod::named);
    let secret = client_secret.filter(|secret| !secret.is_empty());
    let method = match (named.unwrap_or(method), &secret) {
        (_, None) => AuthMethod::None,
        // A client with a secret must use it.
        (AuthMethod::None, Some(_)) if named.is_none() => AuthMethod::Basic,
        (method, Some(_)) => method,
    };
    Ok(ClientRegistration { id: client_id, secret, method })
}

fn read<'a, T: Deserialize<'a>>(status: u16, body: &'a [u8]) -> Result<T, ErrorResponse> {
    let read = serde_json::from_slice(body);
    match read {
        Ok(response) if (200..300).contains(&status) => Ok(response),
        _ => Err(error_response(status, body)),
    }
}

fn error_response(status: u16, body: &[u8]) -> ErrorResponse {
    match serde_json::from_slice(body) {
        Ok(Error { error, error_description }) => {
            let description = error_description.map(|text| format!(" ({})", quoted(&text))).unwrap_or_default();
            ErrorResponse { reason: format!("answers {}{description}", quoted(&error)), error: Some(error) }
        }
        Err(_) => ErrorResponse { error: None, reason: format!("answers with status {status} and an invalid body") },
    }
}

/// Text of an authorization server for a message.
pub(super) fn quoted(text: &str) -> String {
    excerpt(text, MAX_QUOTE_LEN)
}

/// A token as a header value. It is sensitive: `Debug` does not show it.
pub(super) fn bearer(access_token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {access_token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Error codes for a grant or client that will never be accepted again. Source: RFC 6749, 5.2.
const PERMANENT: [&str; 3] = ["invalid_grant", "invalid_client", "unauthorized_client"];
/// Error codes for temporary failures. Source: RFC 6749, 4.1.2.1; RFC 8628, 3.5.
const TRANSIENT: [&str; 3] = ["server_error", "temporarily_unavailable", "slow_down"];

/// Why there is no token, and whether a later request may succeed.
#[derive(Debug)]
pub(super) enum TokenError {
    /// This grant is invalid for good.
    Permanent(LoginError),
    /// The request was refused.
    Refused(LoginError),
    /// A later request may succeed.
    Temporary(LoginError),
}

impl TokenError {
    /// The meaning of an error response, described as `why`.
    pub(super) fn of(status: u16, refused: &ErrorResponse, why: LoginError) -> Self {
        match refused.error.as_deref() {
            Some(error) if PERMANENT.contains(&error) => Self::Permanent(why),
            Some(error) if !TRANSIENT.contains(&error) && !is_transient(status) => Self::Refused(why),
            // The client was refused, not the request.
            None if status == 401 => Self::Refused(why),
            _ => Self::Temporary(why),
        }
    }
}

/// Without whether a later request may succeed.
impl From<TokenError> for LoginError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Permanent(why) | TokenError::Refused(why) | TokenError::Temporary(why) => why,
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
    fn token_response_has_the_token_and_its_attributes() {
        let plain = TokenResponse { access_token: "t".into(), refresh_token: None, expires_in: None, scopes: None };
        for (body, expected) in [
            (r#"{"access_token":"t","token_type":"Bearer"}"#, plain.clone()),
            (r#"{"access_token":"t","refresh_token":"","expires_in":"x","y":1}"#, plain.clone()),
            (
                r#"{"access_token":"t","token_type":"bearer","refresh_token":"r","expires_in":"60","scope":"a  b"}"#,
                TokenResponse {
                    refresh_token: Some("r".into()),
                    expires_in: Some(60),
                    scopes: Some(vec!["a".into(), "b".into()]),
                    ..plain.clone()
                },
            ),
            (r#"{"access_token":"t","expires_in":3599.6}"#, TokenResponse { expires_in: Some(3600), ..plain.clone() }),
            (r#"{"access_token":"t","expires_in":-1}"#, plain.clone()),
            (r#"{"access_token":"t","expires_in":0}"#, plain.clone()),
        ] {
            assert!(parse_token(200, body.as_bytes()) == Ok(expected), "{body}");
        }
    }

    #[test]
    fn error_texts_contain_no_control_characters() {
        let long = format!(r#"{{"error":"x","error_description":"{}"}}"#, "y".repeat(MAX_QUOTE_LEN + 1));
        for (status, body, error, reason) in [
            (400, r#"{"error":"invalid_grant"}"#, Some("invalid_grant"), "answers invalid_grant"),
            (
                200,
                r#"{"error":"bad","error_description":"no\u001b[2J\u202e!"}"#,
                Some("bad"),
                "answers bad (no\\u{1b}[2J\\u{202e}!)",
            ),
            (400, &*long, Some("x"), &*format!("answers x ({}…)", "y".repeat(MAX_QUOTE_LEN))),
            (502, "<html>", None, "answers with status 502 and an invalid body"),
            (200, "{}", None, "answers with status 200 and an invalid body"),
            (500, r#"{"access_token":"t"}"#, None, "answers with status 500 and an invalid body"),
            (200, r#"{"access_token":"t","token_type":"mac"}"#, None, "sends a token that is not a bearer token"),
            (200, r#"{"access_token":"a\nb"}"#, None, "sends a token that is not valid in a header"),
            (200, r#"{"access_token":""}"#, None, "sends a token that is not valid in a header"),
        ] {
            let Err(refused) = parse_token(status, body.as_bytes()) else { panic!("{body} is a token") };
            assert_eq!((refused.error.as_deref(), &*refused.reason), (error, reason), "{body}");
        }
    }

    #[test]
    fn registration_decides_the_authentication_method() {
        for (body, requested, expected) in [
            (r#"{"client_id":"c"}"#, AuthMethod::Basic, AuthMethod::None),
            (r#"{"client_id":"c","client_secret":"s"}"#, AuthMethod::None, AuthMethod::Basic),
            (r#"{"client_id":"c","client_secret":"s"}"#, AuthMethod::Post, AuthMethod::Post),
            (
                r#"{"client_id":"c","client_secret":"s","token_endpoint_auth_method":"client_secret_post"}"#,
                AuthMethod::Basic,
                AuthMethod::Post,
            ),
            (
                r#"{"client_id":"c","client_secret":"s","token_endpoint_auth_method":"none"}"#,
                AuthMethod::Basic,
                AuthMethod::None,
            ),
        ] {
            let Ok(registration) = parse_registration(201, body.as_bytes(), requested) else {
                panic!("{body} is none")
            };
            assert_eq!((&*registration.id, registration.method), ("c", expected), "{body}");
        }
        assert!(parse_registration(400, br#"{"error":"invalid_redirect_uri"}"#, AuthMethod::None).is_err());
    }

    #[test]
    fn error_codes_decide_whether_a_retry_may_succeed() {
        let (permanent, refused, temporary) = ("permanent", "refused", "temporary");
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
            let kind = match TokenError::of(status, &response, LoginError::NoClientId) {
                TokenError::Permanent(_) => permanent,
                TokenError::Refused(_) => refused,
                TokenError::Temporary(_) => temporary,
            };
            assert_eq!(kind, expected, "{status} {error:?}");
        }
    }
}
