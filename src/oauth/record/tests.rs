//! What a grant is worth, and what is made of it.

use super::*;
use crate::oauth::application::Method;

fn grant() -> Grant {
    Grant {
        issuer: "https://b.org".into(),
        resource: "https://a.org".into(),
        token_endpoint: "https://b.org/token".into(),
        revocation_endpoint: None,
        application: Application { id: "me".into(), secret: None, method: Method::None },
        is_own: false,
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
fn a_token_is_renewed_before_it_ends_and_nothing_is_asked_for_in_vain() {
    let nothing = |why: &str| Worth::Nothing(why.into());
    let own = grant().bearer();
    let other = bearer("t0");
    let fixed = Grant { refresh_token: None, ..grant() };
    let endless = Grant { expires_at: None, ..grant() };
    let itself = Grant { is_own: true, ..fixed.clone() };
    let short = Grant { expires_at: Some(1010), ..grant() };
    for (grant, refused, now, expected) in [
        (grant(), None, 1000, Worth::Good),
        (grant(), None, 4539, Worth::Good),
        (grant(), None, 4540, Worth::Due),
        (grant(), None, 4600, Worth::Spent),
        (grant(), None, 9999, Worth::Spent),
        (grant(), None, 0, Worth::Good),
        (grant(), own.as_ref(), 1000, Worth::Spent),
        (grant(), other.as_ref(), 1000, Worth::Good),
        (short.clone(), None, 1007, Worth::Good),
        (short, None, 1008, Worth::Due),
        (fixed.clone(), None, 4599, Worth::Good),
        (fixed.clone(), None, 4600, nothing("the login has expired")),
        (fixed, own.as_ref(), 1000, nothing("the server refuses its token, which cannot be renewed")),
        (endless.clone(), None, u64::MAX, Worth::Good),
        (endless, own.as_ref(), 1000, Worth::Spent),
        (itself.clone(), None, 4540, Worth::Due),
        (itself.clone(), None, 4600, Worth::Spent),
        (itself, own.as_ref(), 1000, Worth::Spent),
        (grant().ended("gone".into()), None, 1000, nothing("gone")),
    ] {
        assert_eq!(grant.worth(refused, now), expected, "at {now}");
    }
}

#[test]
fn when_a_token_is_due_is_known_if_it_can_be_renewed() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    for (grant, now, expected) in [
        (grant(), 1000, seconds(3540)),
        (grant(), 4550, seconds(0)),
        (grant(), 9999, seconds(0)),
        (Grant { refresh_token: None, ..grant() }, 1000, None),
        (Grant { refresh_token: None, is_own: true, ..grant() }, 1000, seconds(3540)),
        (Grant { expires_at: None, ..grant() }, 1000, None),
    ] {
        assert_eq!(grant.due_in(now), expected, "at {now}");
    }
}

#[test]
fn a_renewed_token_brings_the_next_refresh_token_or_keeps_the_old() {
    let granted = |refresh_token: Option<&str>| Granted {
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
fn what_is_missing_adds_up_and_any_other_refusal_stands_for_itself() {
    let challenge = |error: &str, scope: &str| Challenge {
        error: Some(error.into()),
        scope: Some(scope.into()),
        ..Challenge::default()
    };
    let mut record = Record::of("https://a.org");
    for (error, scope) in
        [("invalid_token", "a"), ("insufficient_scope", "b c"), ("insufficient_scope", "c d"), ("invalid_token", "e")]
    {
        record.challenged(challenge(error, scope));
    }
    assert_eq!(record.missing, ["b", "c", "d"]);
    assert_eq!(record.challenge, Some(challenge("invalid_token", "e")));
}
