//! mcpd lets itself in: a token for its own credentials, which nobody is asked about.
//!
//! There is nothing to renew such a token with, and no need: it is asked for again as it was the first time.
//! Source: OAuth 2.1, 4.2; MCP extension `io.modelcontextprotocol/oauth-client-credentials`.

use super::answer::{self, Granted};
use super::application::{Application, Method};
use super::failure::Failure;
use super::login::Login;
use super::record::Grant;
use super::request::Form;
use super::wanted::Wanted;
use super::web::told;

impl Login {
    /// Lets itself in, and keeps what it is given.
    ///
    /// # Errors
    /// If it is given nothing, or that cannot be kept; for a person, on one line.
    pub(crate) async fn enter(&self, wanted: Wanted) -> Result<(), String> {
        let change = self.store().change().await?;
        let grant = self.credited(wanted).await.map_err(Failure::why)?;
        self.keep(&change, grant).await
    }

    /// What mcpd is given for its own credentials.
    ///
    /// # Errors
    /// If it is nothing.
    pub(super) async fn credited(&self, wanted: Wanted) -> Result<Grant, Failure> {
        let Wanted { found, scopes } = &wanted;
        let Some(id) = &self.settings().client_id else {
            return Err(Failure::Refused("it has no `client_id`".to_owned()));
        };
        let known = found.issuer.token_endpoint_auth_methods_supported.as_deref();
        let application = Application { id: id.clone(), secret: None, method: Method::fitting(true, known) };
        let form = Form::own(&self.signing(&application), scopes, &found.resource);
        let answer = self.web().form(&found.token, form).await.map_err(Failure::Later)?;
        let granted = answer::token(answer.status, &answer.body).map_err(|refused| {
            let by = told(&found.token);
            let why = format!("{by} gives no token for its client credentials: it {}", self.masked(&refused.reason));
            Failure::of(answer.status, &refused, why)
        })?;
        // Source: RFC 6749, 4.4.3: there should be none, and the credentials are as good.
        let granted = Granted { refresh_token: None, ..granted };
        Ok(Grant { is_own: true, ..wanted.granted(granted, application) })
    }
}
