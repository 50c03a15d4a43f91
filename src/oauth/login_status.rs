//! The status of logins, for `mcpd login`.

use super::login::Login;
use super::record::TokenState;
use crate::clock;

/// The status of one server's login.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoginStatus {
    /// There is no login.
    Absent {
        /// Whether the server has required one.
        is_required: bool,
    },
    /// There is a login, valid as far as known.
    Valid(ValidLogin),
    /// The login has ended. For a person, on one line.
    Ended(String),
}

/// A valid login.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ValidLogin {
    /// The authorization server.
    pub(crate) issuer: String,
    /// The granted scopes.
    pub(crate) scopes: Vec<String>,
    /// Seconds until the token expires, if known.
    pub(crate) expires_in: Option<u64>,
    /// Whether it uses client credentials.
    pub(crate) uses_client_credentials: bool,
    /// Whether it is renewed without a person.
    pub(crate) renews: bool,
}

impl Login {
    /// # Errors
    /// If it cannot be read.
    pub(crate) async fn status(&self) -> Result<LoginStatus, String> {
        let Some(stored) = self.stored().await? else { return Ok(LoginStatus::Absent { is_required: false }) };
        let Some(grant) = stored.grant else {
            return Ok(LoginStatus::Absent { is_required: stored.challenge.is_some() });
        };
        let now = clock::unix_seconds();
        Ok(match grant.token_state(None, now) {
            TokenState::Unavailable(why) => LoginStatus::Ended(why),
            TokenState::Valid | TokenState::RenewalDue | TokenState::Expired => LoginStatus::Valid(ValidLogin {
                renews: grant.can_renew(),
                issuer: grant.issuer,
                scopes: grant.scopes,
                expires_in: grant.expires_at.map(|end| end.saturating_sub(now)),
                uses_client_credentials: grant.uses_client_credentials,
            }),
        })
    }
}
