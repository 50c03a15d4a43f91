//! The end of a login: here, and where it was given.

use super::login::Login;
use super::metadata::endpoint;
use super::record::Grant;
use super::request::Form;
use super::web::told;

/// What there was to forget.
pub(crate) struct Forgotten {
    /// Whether there was a login.
    pub(crate) was_in: bool,
    /// Whether mcpd lets itself in again as soon as it is asked.
    pub(crate) comes_back: bool,
    /// Why the authorization server may not have forgotten it; for a person, on one line.
    pub(crate) not_revoked: Option<String>,
}

impl Login {
    /// Forgets the login, and has the authorization server forget it, too.
    ///
    /// # Errors
    /// If it is still there.
    pub(crate) async fn forget(&self) -> Result<Forgotten, String> {
        let change = self.store().change().await?;
        let kept = change.read().await.ok().flatten();
        let grant =
            kept.filter(|kept| kept.url == self.url()).and_then(|kept| kept.grant).filter(|grant| grant.over.is_none());
        let revoked = match &grant {
            Some(grant) => {
                self.web().hold_to(grant);
                self.revoke(grant).await
            }
            None => Ok(()),
        };
        change.remove().await?;
        Ok(Forgotten {
            was_in: grant.is_some(),
            comes_back: grant.is_some_and(|grant| grant.is_own && self.may_enter()),
            not_revoked: revoked.err(),
        })
    }

    /// With the refresh token goes all that was made of it. Source: RFC 7009, 2.1.
    async fn revoke(&self, grant: &Grant) -> Result<(), String> {
        let Some(text) = &grant.revocation_endpoint else {
            return Err("its authorization server takes no tokens back: they end by themselves".to_owned());
        };
        let url = endpoint(text, self.web().configured())?;
        let (token, kind) = match &grant.refresh_token {
            Some(token) => (token, "refresh_token"),
            None => (&grant.access_token, "access_token"),
        };
        let form = Form::revocation(&self.signing(&grant.application), token, kind);
        let answer = self.web().form(&url, form).await?;
        match answer.status {
            200..300 => Ok(()),
            status => Err(format!("{} does not take its token back: status {status}", told(&url))),
        }
    }
}
