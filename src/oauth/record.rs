//! What is kept of one server's login, and what it is worth. Pure.

use std::time::Duration;

use http::header::HeaderValue;
use serde::{Deserialize, Serialize};

use super::answer::{Granted, bearer};
use super::application::Application;
use super::challenge::Challenge;
use super::scopes;

/// How long before it ends a token is renewed, at most: for what is under way, and clocks that differ.
const MARGIN: u64 = 60;
/// A token is renewed when no more than this part of its life is left, if that is less.
const MARGIN_PART: u64 = 5;

/// What is kept of one server's login. Without `Debug`: it holds secrets.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Of the server; nothing here is ever used for another.
    pub(super) url: String,
    /// What it said when it refused a request without a token, or with a bad one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) challenge: Option<Challenge>,
    /// What it said that a token would have to allow, when one did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) missing: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) grant: Option<Grant>,
}

/// What a person has agreed to, or mcpd's own credentials are good for, and what it was given for that.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) issuer: String,
    /// What the token is for.
    pub(super) resource: String,
    pub(super) token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<String>,
    pub(super) application: Application,
    /// Whether it is mcpd's own, by its client credentials, and nobody has agreed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_own: bool,
    /// Whether the server was reached at a public address when the login was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_public: bool,
    pub(super) scopes: Vec<String>,
    pub(super) access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// In seconds since 1970.
    pub(super) obtained_at: u64,
    /// In seconds since 1970, if the token ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
    /// Why nothing can be made of it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) over: Option<String>,
}

/// What a grant is worth at a moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// Its token is good.
    Good,
    /// Its token is good, and is to be renewed.
    Due,
    /// Its token is to be renewed before anything else.
    Spent,
    /// A person has to agree again; for that person, on one line.
    Nothing(String),
}

impl Record {
    pub(super) fn of(url: &str) -> Self {
        Self { url: url.to_owned(), ..Self::default() }
    }

    /// Keeps what the server has said when it refused a request.
    pub(super) fn challenged(&mut self, challenge: Challenge) {
        if challenge.wants_more() {
            scopes::add(&mut self.missing, &challenge.scopes());
        } else {
            self.challenge = Some(challenge);
        }
    }
}

impl Grant {
    /// What it is worth at `now`, in seconds since 1970, when the server has `refused` this header.
    pub(super) fn worth(&self, refused: Option<&HeaderValue>, now: u64) -> Worth {
        let nothing = |why: &str| Worth::Nothing(why.to_owned());
        if let Some(why) = &self.over {
            return Worth::Nothing(why.clone());
        }
        let can_renew = self.can_renew();
        if refused.is_some() && self.bearer().as_ref() == refused {
            return if can_renew {
                Worth::Spent
            } else {
                nothing("the server refuses its token, which cannot be renewed")
            };
        }
        match (self.left(now), can_renew) {
            (None, _) => Worth::Good,
            (Some(0), false) => nothing("the login has expired"),
            (Some(0), true) => Worth::Spent,
            (Some(left), true) if left <= self.margin() => Worth::Due,
            (Some(_), _) => Worth::Good,
        }
    }

    /// Whether another token can be had without a person.
    pub(super) fn can_renew(&self) -> bool {
        self.is_own || self.refresh_token.is_some()
    }

    /// For how long its token is still good, in seconds, if it ends by itself.
    fn left(&self, now: u64) -> Option<u64> {
        self.expires_at.map(|end| end.saturating_sub(now))
    }

    fn margin(&self) -> u64 {
        let life = self.expires_at.unwrap_or_default().saturating_sub(self.obtained_at);
        MARGIN.min(life / MARGIN_PART)
    }

    /// From `now` until its token is to be renewed, if it can be.
    pub(super) fn due_in(&self, now: u64) -> Option<Duration> {
        let left = self.left(now).filter(|_| self.can_renew())?;
        Some(Duration::from_secs(left.saturating_sub(self.margin())))
    }

    /// Its token as a header.
    pub(super) fn bearer(&self) -> Option<HeaderValue> {
        bearer(&self.access_token)
    }

    /// The same with the token that was `granted` at `now` in the place of its own.
    pub(super) fn renewed(&self, granted: Granted, now: u64) -> Self {
        Self {
            access_token: granted.access_token,
            // Source: RFC 6749, 6: the old one stays if there is no new one.
            refresh_token: granted.refresh_token.or_else(|| self.refresh_token.clone()),
            obtained_at: now,
            expires_at: granted.expires_in.map(|seconds| now.saturating_add(seconds)),
            scopes: granted.scopes.unwrap_or_else(|| self.scopes.clone()),
            ..self.clone()
        }
    }

    /// What is left of it when there is nothing more to be had: whose it was, and why.
    pub(super) fn ended(&self, why: String) -> Self {
        Self { access_token: String::new(), refresh_token: None, over: Some(why), ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
