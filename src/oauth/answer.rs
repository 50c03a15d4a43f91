//! What an authorization server answers: a token, an application that is known now, or why not. Pure.
//!
//! Source: RFC 6749, 5.1 and 5.2; RFC 7591, 3.2.

use http::header::HeaderValue;
use serde::Deserialize;
use serde_json::Value;

use super::application::{Application, Method};
use crate::printable::excerpt;

/// Most of what a peer says that is repeated to a person, in characters.
const SHOWN: usize = 200;

/// A token, and what goes with it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) access_token: String,
    /// What gets the next one.
    pub(super) refresh_token: Option<String>,
    /// For how long it is good, in seconds.
    pub(super) expires_in: Option<u64>,
    /// What it allows, where that is not what was asked for.
    pub(super) scopes: Option<Vec<String>>,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// One of the words that there are for it, if the server has said one.
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

/// The answer of a token endpoint. Some say with status 200 that there is none.
pub(super) fn token(status: u16, body: &[u8]) -> Result<Granted, Refused> {
    let token: Token = read(status, body)?;
    let unfit = |what: &str| Refused { error: None, reason: format!("gives a token that {what}") };
    if token.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(unfit("is no bearer token"));
    }
    if token.access_token.is_empty() || !token.access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(unfit("cannot stand in a header"));
    }
    let seconds = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok()).or_else(|| whole(value));
    Ok(Granted {
        access_token: token.access_token,
        refresh_token: token.refresh_token.filter(|token| !token.is_empty()),
        // None that is worth a renewal is good for no time at all.
        expires_in: token.expires_in.as_ref().and_then(seconds).filter(|seconds| *seconds > 0),
        scopes: token.scope.map(|scope| scope.split_ascii_whitespace().map(str::to_owned).collect()),
    })
}

/// `3600.0` is a number of seconds, too.
fn whole(value: &Value) -> Option<u64> {
    let seconds = value.as_f64().filter(|seconds| (0.0..1e15).contains(seconds))?;
    format!("{seconds:.0}").parse().ok()
}

/// The answer of a registration endpoint to one who asked to say who it is by `method`.
pub(super) fn registration(status: u16, body: &[u8], method: Method) -> Result<Application, Refused> {
    let Registration { client_id, client_secret, token_endpoint_auth_method } = read(status, body)?;
    let told = token_endpoint_auth_method.as_deref().and_then(Method::named);
    let secret = client_secret.filter(|secret| !secret.is_empty());
    let method = match (told.unwrap_or(method), &secret) {
        (_, None) => Method::None,
        // One that is given a secret has to show it.
        (Method::None, Some(_)) if told.is_none() => Method::Basic,
        (method, Some(_)) => method,
    };
    Ok(Application { id: client_id, secret, method })
}

fn read<'a, T: Deserialize<'a>>(status: u16, body: &'a [u8]) -> Result<T, Refused> {
    let read = serde_json::from_slice(body);
    match read {
        Ok(answer) if (200..300).contains(&status) => Ok(answer),
        _ => Err(refused(status, body)),
    }
}

fn refused(status: u16, body: &[u8]) -> Refused {
    match serde_json::from_slice(body) {
        Ok(Error { error, error_description }) => {
            let description = error_description.map(|text| format!(" ({})", quoted(&text))).unwrap_or_default();
            Refused { reason: format!("says {}{description}", quoted(&error)), error: Some(error) }
        }
        Err(_) => Refused { error: None, reason: format!("answers with status {status} and nothing that it should") },
    }
}

/// Text of an authorization server, as a message quotes it.
pub(super) fn quoted(text: &str) -> String {
    excerpt(text, SHOWN)
}

/// A token as it stands in a header; no `Debug` shows it.
pub(super) fn bearer(access_token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {access_token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_with_what_goes_with_it() {
        let plain = Granted { access_token: "t".into(), refresh_token: None, expires_in: None, scopes: None };
        for (body, expected) in [
            (r#"{"access_token":"t","token_type":"Bearer"}"#, plain.clone()),
            (r#"{"access_token":"t","refresh_token":"","expires_in":"x","y":1}"#, plain.clone()),
            (
                r#"{"access_token":"t","token_type":"bearer","refresh_token":"r","expires_in":"60","scope":"a  b"}"#,
                Granted {
                    refresh_token: Some("r".into()),
                    expires_in: Some(60),
                    scopes: Some(vec!["a".into(), "b".into()]),
                    ..plain.clone()
                },
            ),
            (r#"{"access_token":"t","expires_in":3599.6}"#, Granted { expires_in: Some(3600), ..plain.clone() }),
            (r#"{"access_token":"t","expires_in":-1}"#, plain.clone()),
            (r#"{"access_token":"t","expires_in":0}"#, plain.clone()),
        ] {
            assert!(token(200, body.as_bytes()) == Ok(expected), "{body}");
        }
    }

    #[test]
    fn why_there_is_no_token_is_told_in_words_that_steer_no_terminal() {
        let long = format!(r#"{{"error":"x","error_description":"{}"}}"#, "y".repeat(SHOWN + 1));
        for (status, body, error, reason) in [
            (400, r#"{"error":"invalid_grant"}"#, Some("invalid_grant"), "says invalid_grant"),
            (
                200,
                r#"{"error":"bad","error_description":"no\u001b[2J\u202e!"}"#,
                Some("bad"),
                "says bad (no\\u{1b}[2J\\u{202e}!)",
            ),
            (400, &*long, Some("x"), &*format!("says x ({}…)", "y".repeat(SHOWN))),
            (502, "<html>", None, "answers with status 502 and nothing that it should"),
            (200, "{}", None, "answers with status 200 and nothing that it should"),
            (500, r#"{"access_token":"t"}"#, None, "answers with status 500 and nothing that it should"),
            (200, r#"{"access_token":"t","token_type":"mac"}"#, None, "gives a token that is no bearer token"),
            (200, r#"{"access_token":"a\nb"}"#, None, "gives a token that cannot stand in a header"),
            (200, r#"{"access_token":""}"#, None, "gives a token that cannot stand in a header"),
        ] {
            let Err(refused) = token(status, body.as_bytes()) else { panic!("{body} is a token") };
            assert_eq!((refused.error.as_deref(), &*refused.reason), (error, reason), "{body}");
        }
    }

    #[test]
    fn an_application_says_who_it_is_as_it_was_told_to() {
        for (body, asked, expected) in [
            (r#"{"client_id":"c"}"#, Method::Basic, Method::None),
            (r#"{"client_id":"c","client_secret":"s"}"#, Method::None, Method::Basic),
            (r#"{"client_id":"c","client_secret":"s"}"#, Method::Post, Method::Post),
            (
                r#"{"client_id":"c","client_secret":"s","token_endpoint_auth_method":"client_secret_post"}"#,
                Method::Basic,
                Method::Post,
            ),
            (
                r#"{"client_id":"c","client_secret":"s","token_endpoint_auth_method":"none"}"#,
                Method::Basic,
                Method::None,
            ),
        ] {
            let Ok(application) = registration(201, body.as_bytes(), asked) else { panic!("{body} is none") };
            assert_eq!((&*application.id, application.method), ("c", expected), "{body}");
        }
        assert!(registration(400, br#"{"error":"invalid_redirect_uri"}"#, Method::None).is_err());
    }
}
