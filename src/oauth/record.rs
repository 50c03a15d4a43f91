//! The stored record of one server's login, and the state of its token. Pure.

use std::time::Duration;

use http::header::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::challenge::{self, Challenge};
use super::request::{ClientRegistration, TokenResponse, bearer};

/// Longest time before its end at which a token is renewed, in seconds. It covers requests in flight and clock
/// differences.
const MARGIN: u64 = 60;
/// A token is renewed in the last part of its lifetime: one in this many.
const MARGIN_DIVISOR: u64 = 5;

/// The stored record of one server's login. Without `Debug`: it contains secrets.
#[skip_serializing_none]
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LoginRecord {
    /// The server's URL. The record is never used for another one.
    pub(super) url: String,
    /// The challenge of a request without a valid token.
    pub(super) challenge: Option<Challenge>,
    /// Scopes that a valid token lacked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) missing: Vec<String>,
    pub(super) grant: Option<Grant>,
}

/// A consent or client credentials, with the token obtained.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) issuer: String,
    /// The `resource` of the token.
    pub(super) resource: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) registration: ClientRegistration,
    /// Whether it was obtained with client credentials, without a person's consent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) uses_client_credentials: bool,
    /// Whether the server had a public address when the login was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_public: bool,
    pub(super) scopes: Vec<String>,
    pub(super) access_token: String,
    pub(super) refresh_token: Option<String>,
    /// In seconds since 1970.
    pub(super) obtained_at: u64,
    /// In seconds since 1970, if the token ends by itself.
    pub(super) expires_at: Option<u64>,
    /// Why no token can be obtained from it any more.
    pub(super) over: Option<String>,
}

/// The state of a grant's token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenState {
    /// The token is valid.
    Valid,
    /// The token is valid and should be renewed.
    RenewalDue,
    /// The token must be renewed first.
    Expired,
    /// A person must consent again; the reason for that person, on one line.
    Unavailable(String),
}

impl LoginRecord {
    pub(super) fn of(url: &str) -> Self {
        Self { url: url.to_owned(), ..Self::default() }
    }

    /// Records the challenge of a refused request.
    pub(super) fn challenged(&mut self, challenge: Challenge) {
        if challenge.needs_more_scopes() {
            challenge::add_scopes(&mut self.missing, &challenge.scopes());
        } else {
            self.challenge = Some(challenge);
        }
    }
}

impl Grant {
    /// The state of the token at `now`, in seconds since 1970, if the server has `refused` this header.
    pub(super) fn token_state(&self, refused: Option<&HeaderValue>, now: u64) -> TokenState {
        let nothing = |why: &str| TokenState::Unavailable(why.to_owned());
        if let Some(why) = &self.over {
            return TokenState::Unavailable(why.clone());
        }
        let can_renew = self.can_renew();
        if refused.is_some() && self.bearer().as_ref() == refused {
            return if can_renew {
                TokenState::Expired
            } else {
                nothing("the server refuses its token, which cannot be renewed")
            };
        }
        match (self.left(now), can_renew) {
            (None, _) => TokenState::Valid,
            (Some(0), false) => nothing("the login has expired"),
            (Some(0), true) => TokenState::Expired,
            (Some(left), true) if left <= self.margin() => TokenState::RenewalDue,
            (Some(_), _) => TokenState::Valid,
        }
    }

    /// Whether a new token can be obtained without a person.
    pub(super) fn can_renew(&self) -> bool {
        self.uses_client_credentials || self.refresh_token.is_some()
    }

    /// The token's remaining lifetime in seconds, if it expires.
    fn left(&self, now: u64) -> Option<u64> {
        self.expires_at.map(|end| end.saturating_sub(now))
    }

    fn margin(&self) -> u64 {
        let life = self.expires_at.unwrap_or_default().saturating_sub(self.obtained_at);
        MARGIN.min(life / MARGIN_DIVISOR)
    }

    /// The time from `now` until the token should be renewed, if it can be.
    pub(super) fn due_in(&self, now: u64) -> Option<Duration> {
        let left = self.left(now).filter(|_| self.can_renew())?;
        Some(Duration::from_secs(left.saturating_sub(self.margin())))
    }

    /// The token as a header value.
    pub(super) fn bearer(&self) -> Option<HeaderValue> {
        bearer(&self.access_token)
    }

    /// The grant with the token that was `granted` at `now`.
    pub(super) fn renewed(&self, granted: TokenResponse, now: u64) -> Self {
        Self {
            access_token: granted.access_token,
            // Source: RFC 6749, 6: without a new refresh token the old one stays valid.
            refresh_token: granted.refresh_token.or_else(|| self.refresh_token.clone()),
            obtained_at: now,
            expires_at: granted.expires_in.map(|seconds| now.saturating_add(seconds)),
            scopes: granted.scopes.unwrap_or_else(|| self.scopes.clone()),
            ..self.clone()
        }
    }

    /// The grant without tokens, once nothing can be obtained from it.
    pub(super) fn ended(&self, why: String) -> Self {
        Self { access_token: String::new(), refresh_token: None, over: Some(why), ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
