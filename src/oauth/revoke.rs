//! Logout: deletes the stored login, and revokes its token.

use super::http::shown_origin;
use super::login::Login;
use super::metadata::endpoint;
use super::record::Grant;
use super::request::Form;

/// The result of a logout.
pub(crate) struct Logout {
    /// Whether there was a login.
    pub(crate) was_logged_in: bool,
    /// Whether mcpd will log in again by its client credentials.
    pub(crate) logs_in_again: bool,
    /// Why the token may not be revoked; for a person, on one line.
    pub(crate) not_revoked: Option<String>,
}

impl Login {
    /// Deletes the stored login, and revokes its token.
    ///
    /// # Errors
    /// If it could not be deleted.
    pub(crate) async fn log_out(&self) -> Result<Logout, String> {
        let lock = self.store().lock().await?;
        let stored = lock.read().await.ok().flatten();
        let grant = stored
            .filter(|stored| stored.url == self.url())
            .and_then(|stored| stored.grant)
            .filter(|grant| grant.over.is_none());
        let revoked = match &grant {
            Some(grant) => {
                self.http().restrict_to(grant);
                self.revoke(grant).await
            }
            None => Ok(()),
        };
        lock.remove().await?;
        Ok(Logout {
            was_logged_in: grant.is_some(),
            logs_in_again: grant
                .is_some_and(|grant| grant.uses_client_credentials && self.may_use_client_credentials()),
            not_revoked: revoked.err(),
        })
    }

    /// Revoking the refresh token also ends its access tokens. Source: RFC 7009, 2.1.
    async fn revoke(&self, grant: &Grant) -> Result<(), String> {
        let Some(text) = &grant.revocation_endpoint else {
            return Err("its authorization server cannot revoke tokens: they expire by themselves".to_owned());
        };
        let url = endpoint(text, self.http().configured())?;
        let (token, kind) = match &grant.refresh_token {
            Some(token) => (token, "refresh_token"),
            None => (&grant.access_token, "access_token"),
        };
        let form = Form::revocation(&self.signing(&grant.registration), token, kind);
        let response = self.http().form(&url, form).await?;
        match response.status {
            200..300 => Ok(()),
            status => Err(format!("{} does not revoke the token: status {status}", shown_origin(&url))),
        }
    }
}
