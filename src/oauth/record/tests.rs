//! The state of tokens, and changes to grants.

use super::*;
use crate::oauth::request::AuthMethod;

fn grant() -> Grant {
    Grant {
        issuer: "https://b.org".into(),
        resource: "https://a.org".into(),
        token_endpoint: "https://b.org/token".into(),
        revocation_endpoint: None,
        registration: ClientRegistration { id: "me".into(), secret: None, method: AuthMethod::None },
        uses_client_credentials: false,
        is_public: false,
        scopes: vec!["a".into()],
        access_token: "t1".into(),
        refresh_token: Some("r1".into()),
        obtained_at: 1000,
        expires_at: Some(4600),
        over: None,
    }
}

#[test]
fn token_state_follows_lifetime_and_refusal() {
    let nothing = |why: &str| TokenState::Unavailable(why.into());
    let current = grant().bearer();
    let other = bearer("t0");
    let fixed = Grant { refresh_token: None, ..grant() };
    let endless = Grant { expires_at: None, ..grant() };
    let itself = Grant { uses_client_credentials: true, ..fixed.clone() };
    let short = Grant { expires_at: Some(1010), ..grant() };
    for (grant, refused, now, expected) in [
        (grant(), None, 1000, TokenState::Valid),
        (grant(), None, 4539, TokenState::Valid),
        (grant(), None, 4540, TokenState::RenewalDue),
        (grant(), None, 4600, TokenState::Expired),
        (grant(), None, 9999, TokenState::Expired),
        (grant(), None, 0, TokenState::Valid),
        (grant(), current.as_ref(), 1000, TokenState::Expired),
        (grant(), other.as_ref(), 1000, TokenState::Valid),
        (short.clone(), None, 1007, TokenState::Valid),
        (short, None, 1008, TokenState::RenewalDue),
        (fixed.clone(), None, 4599, TokenState::Valid),
        (fixed.clone(), None, 4600, nothing("the login has expired")),
        (fixed, current.as_ref(), 1000, nothing("the server refuses its token, which cannot be renewed")),
        (endless.clone(), None, u64::MAX, TokenState::Valid),
        (endless, current.as_ref(), 1000, TokenState::Expired),
        (itself.clone(), None, 4540, TokenState::RenewalDue),
        (itself.clone(), None, 4600, TokenState::Expired),
        (itself, current.as_ref(), 1000, TokenState::Expired),
        (grant().ended("gone".into()), None, 1000, nothing("gone")),
    ] {
        assert_eq!(grant.token_state(refused, now), expected, "at {now}");
    }
}

#[test]
fn renewal_time_is_known_if_the_token_can_be_renewed() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    for (grant, now, expected) in [
        (grant(), 1000, seconds(3540)),
        (grant(), 4550, seconds(0)),
        (grant(), 9999, seconds(0)),
        (Grant { refresh_token: None, ..grant() }, 1000, None),
        (Grant { refresh_token: None, uses_client_credentials: true, ..grant() }, 1000, seconds(3540)),
        (Grant { expires_at: None, ..grant() }, 1000, None),
    ] {
        assert_eq!(grant.due_in(now), expected, "at {now}");
    }
}

#[test]
fn renewal_replaces_or_keeps_the_refresh_token() {
    let granted = |refresh_token: Option<&str>| TokenResponse {
        access_token: "t2".into(),
        refresh_token: refresh_token.map(str::to_owned),
        expires_in: Some(u64::MAX),
        scopes: None,
    };
    let rotated = grant().renewed(granted(Some("r2")), 2000);
    assert_eq!((&*rotated.access_token, rotated.refresh_token.as_deref()), ("t2", Some("r2")));
    assert_eq!((rotated.obtained_at, rotated.expires_at), (2000, Some(u64::MAX)));
    assert_eq!(rotated.scopes, ["a"]);
    assert_eq!(grant().renewed(granted(None), 2000).refresh_token.as_deref(), Some("r1"));
    let ended = grant().ended("why".into());
    assert!(ended.access_token.is_empty() && ended.refresh_token.is_none());
}

#[test]
fn missing_scopes_accumulate_and_other_challenges_replace() {
    let challenge = |error: &str, scope: &str| Challenge {
        error: Some(error.into()),
        scope: Some(scope.into()),
        ..Challenge::default()
    };
    let mut record = LoginRecord::of("https://a.org");
    for (error, scope) in
        [("invalid_token", "a"), ("insufficient_scope", "b c"), ("insufficient_scope", "c d"), ("invalid_token", "e")]
    {
        record.challenged(challenge(error, scope));
    }
    assert_eq!(record.missing, ["b", "c", "d"]);
    assert_eq!(record.challenge, Some(challenge("invalid_token", "e")));
}
