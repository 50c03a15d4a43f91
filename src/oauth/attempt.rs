//! One attempt to log in for a person: from what a server wants to a token, with consent in between.

use url::Url;

use super::answer;
use super::application::{Application, Method};
use super::discovery::Found;
use super::login::Login;
use super::redirect::{Expected, NoCode};
use super::request::{Asked, Form, Secret, registration};
use super::wanted::Wanted;
use super::web::told;
use crate::config::OAuthSettings;

/// An attempt that waits for a person.
pub(crate) struct Attempt {
    page: Url,
    expected: Expected,
    verifier: Secret,
    redirect: String,
    wanted: Wanted,
    application: Application,
}

impl Login {
    /// Begins an attempt whose answer is brought back to `redirect`.
    ///
    /// # Errors
    /// If mcpd cannot be let in there; for a person, on one line.
    pub(crate) async fn begin(&self, wanted: Wanted, redirect: &str) -> Result<Attempt, String> {
        let authorization = wanted.found.page(self.web().configured())?;
        let checked = self.web().check_page(&authorization).await;
        checked.map_err(|why| format!("the page of its authorization server: {why}"))?;
        let application = self.application(&wanted, redirect).await?;
        let (state, verifier) = (Secret::fresh()?, Secret::fresh()?);
        let Found { resource, issuer, .. } = &wanted.found;
        let asked = Asked {
            application: &application.id,
            redirect,
            state: &state,
            verifier: &verifier,
            scopes: &wanted.scopes,
            resource,
        };
        let page = asked.page(&authorization);
        let names_issuer = issuer.authorization_response_iss_parameter_supported == Some(true);
        let expected = Expected { state, issuer: issuer.issuer.clone(), names_issuer };
        Ok(Attempt { page, expected, verifier, redirect: redirect.to_owned(), wanted, application })
    }

    /// As what mcpd is known, or makes itself known now. Source: MCP 2025-11-25, `basic/authorization`, "Client Registration
    /// Approaches".
    async fn application(&self, wanted: &Wanted, redirect: &str) -> Result<Application, String> {
        let Wanted { found, scopes } = wanted;
        let known = found.issuer.token_endpoint_auth_methods_supported.as_deref();
        let OAuthSettings { client_id, client_secret, .. } = self.settings();
        if let Some(id) = client_id
            && (!id.starts_with("https://") || found.issuer.client_id_metadata_document_supported == Some(true))
        {
            let method = Method::fitting(client_secret.is_some(), known);
            return Ok(Application { id: id.clone(), secret: None, method });
        }
        let issuer = told(&found.token);
        let Some(endpoint) = &found.registration else {
            return Err(format!(
                "{issuer} does not let programs register themselves: register mcpd there, and give the server \
                 `oauth = {{ client_id = \"…\", redirect_port = … }}`"
            ));
        };
        let method = Method::wished(known);
        let answer = self.web().json(endpoint, registration(redirect, method, scopes)).await?;
        let registered = answer::registration(answer.status, &answer.body, method);
        registered.map_err(|refused| format!("{issuer} does not register mcpd: it {}", refused.reason))
    }

    /// Redeems the code that the attempt has brought, and keeps what there is for it.
    ///
    /// # Errors
    /// If there is nothing for it, or it cannot be kept; for a person, on one line.
    pub(crate) async fn finish(&self, attempt: Attempt, code: &str) -> Result<(), String> {
        let Attempt { verifier, redirect, wanted, application, .. } = attempt;
        // Nobody is to be asked again because there is no place for the answer.
        let change = self.store().change().await?;
        let found = &wanted.found;
        let form = Form::code(&self.signing(&application), code, &redirect, &verifier, &found.resource);
        let answer = self.web().form(&found.token, form).await?;
        let granted = answer::token(answer.status, &answer.body);
        let granted = granted
            .map_err(|refused| format!("{} gives no token: it {}", told(&found.token), self.masked(&refused.reason)))?;
        self.keep(&change, wanted.granted(granted, application)).await
    }
}

impl Attempt {
    /// The page on which a person agrees.
    pub(crate) fn page(&self) -> &Url {
        &self.page
    }

    /// The code in the `query` with which the browser has come back.
    pub(super) fn code(&self, query: &str) -> Result<String, NoCode> {
        self.expected.code(query)
    }

    /// The code in what a person has pasted: the address to which the browser was sent back.
    pub(crate) fn pasted(&self, text: &str) -> Result<String, NoCode> {
        let text = text.trim();
        self.code(text.split_once('?').map_or(text, |(_, query)| query))
    }
}
