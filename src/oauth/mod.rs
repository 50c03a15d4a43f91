//! Being let in at servers that want to know for whom mcpd asks. There is no way to log in yet, so there is no [`Login`].

use std::time::Instant;

use reqwest::header::{HeaderMap, HeaderValue};

/// What one server has been told of whom mcpd asks for.
#[derive(Debug, Clone)]
pub(crate) enum Login {}

/// What is shown to a server.
#[derive(Debug, Clone)]
pub(crate) enum Token {}

/// Why there is none.
#[derive(Debug)]
#[expect(dead_code, reason = "there is nothing to be in want of a token")]
pub(crate) enum NoToken {
    /// A person has to log in.
    LoginNeeded {
        /// For a person, on one line.
        why: String,
    },
    /// Who makes it cannot be reached.
    Unavailable {
        /// For a person, on one line.
        reason: String,
    },
}

/// What a server says when it lets nobody in (RFC 9110, `WWW-Authenticate`).
#[derive(Debug)]
pub(crate) struct Challenge {
    /// What it complains of.
    pub(crate) error: Option<String>,
    /// What it would have to be allowed.
    pub(crate) scope: Option<String>,
}

impl Challenge {
    /// The one in the headers of a response.
    pub(crate) fn of(_headers: &HeaderMap) -> Self {
        Self { error: None, scope: None }
    }
}

impl Login {
    /// A token that is good now.
    pub(crate) async fn token(&self, _refused: Option<&Token>) -> Result<Token, NoToken> {
        match *self {}
    }

    /// Keeps what a server has said.
    pub(crate) async fn challenged(&self, _challenge: Challenge) {
        match *self {}
    }
}

impl Token {
    /// The header's value.
    pub(crate) fn bearer(&self) -> &HeaderValue {
        match *self {}
    }

    /// When it is to be replaced.
    pub(crate) fn refresh_at(&self) -> Option<Instant> {
        match *self {}
    }
}
