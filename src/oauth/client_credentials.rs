//! Logs in with client credentials, without a person.
//!
//! Such a token has no refresh token: the next one is requested like the first. Source: OAuth 2.1, 4.2; MCP extension
//! `io.modelcontextprotocol/oauth-client-credentials`.

use super::client_registration::{AuthMethod, ClientRegistration};
use super::error::TokenError;
use super::http::shown_origin;
use super::login::Login;
use super::record::Grant;
use super::request::Form;
use super::requirements::Requirements;
use super::token_response::{self, TokenResponse};

impl Login {
    /// Logs in with client credentials, and stores the token.
    ///
    /// # Errors
    /// If the request is refused, or the token cannot be stored; for a person, on one line.
    pub(crate) async fn log_in_with_client_credentials(&self, requirements: Requirements) -> Result<(), String> {
        let lock = self.store().lock().await?;
        let grant = self.request_token(requirements).await.map_err(TokenError::why)?;
        self.save(&lock, grant).await
    }

    /// Requests a token with the client credentials.
    ///
    /// # Errors
    /// If the request is refused.
    pub(super) async fn request_token(&self, requirements: Requirements) -> Result<Grant, TokenError> {
        let Requirements { found, scopes } = &requirements;
        let Some(id) = &self.settings().client_id else {
            return Err(TokenError::Refused("`client_id` is not set".to_owned()));
        };
        let known = found.issuer.token_endpoint_auth_methods_supported.as_deref();
        let registration =
            ClientRegistration { id: id.clone(), secret: None, method: AuthMethod::supported(true, known) };
        let form = Form::client_credentials(&self.signing(&registration), scopes, &found.resource);
        let response = self.http().form(&found.token, form).await.map_err(|none| TokenError::Temporary(none.reason))?;
        let granted = token_response::parse_token(response.status, &response.body).map_err(|refused| {
            let issuer = shown_origin(&found.token);
            let why =
                format!("{issuer} sends no token for the client credentials: it {}", self.masked(&refused.reason));
            TokenError::of(response.status, &refused, why)
        })?;
        // Source: RFC 6749, 4.4.3: a refresh token should not be included.
        let granted = TokenResponse { refresh_token: None, ..granted };
        Ok(Grant { uses_client_credentials: true, ..requirements.granted(granted, registration) })
    }
}
