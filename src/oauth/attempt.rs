//! One attempt to log in: from what a server wants to a token, with a person's consent in between.

use url::Url;

use super::answer::{self, Granted};
use super::application::{Application, Method};
use super::challenge::Challenge;
use super::discovery::{self, Found};
use super::login::Login;
use super::record::{Grant, Record};
use super::redirect::{Expected, NoCode};
use super::request::{Asked, Form, Secret, registration};
use super::scopes::{self, Offered};
use super::web::told;
use crate::config::OAuthSettings;
use crate::moment;

/// What came of the beginning.
pub(crate) enum Begun {
    /// The server lets anybody in.
    NotNeeded,
    /// A person is to look at a page.
    Asked(Box<Attempt>),
}

/// An attempt that waits for a person.
pub(crate) struct Attempt {
    page: Url,
    expected: Expected,
    verifier: Secret,
    redirect: String,
    found: Found,
    application: Application,
    scopes: Vec<String>,
}

impl Login {
    /// Begins an attempt whose answer is brought back to `redirect`.
    ///
    /// # Errors
    /// If mcpd cannot be let in there; for a person, on one line.
    pub(crate) async fn begin(&self, redirect: &str) -> Result<Begun, String> {
        // What cannot be read is replaced.
        let kept = self.kept().await.ok().flatten();
        let told = self.web().probe().await?;
        let Some(challenge) = told.or_else(|| kept.as_ref().and_then(|kept| kept.challenge.clone())) else {
            return Ok(Begun::NotNeeded);
        };
        let found = discovery::look(self.web(), &challenge).await?;
        let scopes = self.scopes(&challenge, kept.as_ref(), &found);
        let application = self.application(&found, redirect, &scopes).await?;
        let (state, verifier) = (Secret::fresh()?, Secret::fresh()?);
        let asked = Asked {
            application: &application.id,
            redirect,
            state: &state,
            verifier: &verifier,
            scopes: &scopes,
            resource: &found.resource,
        };
        let page = asked.page(&found.authorization);
        let names_issuer = found.issuer.authorization_response_iss_parameter_supported == Some(true);
        let expected = Expected { state, issuer: found.issuer.issuer.clone(), names_issuer };
        let redirect = redirect.to_owned();
        Ok(Begun::Asked(Box::new(Attempt { page, expected, verifier, redirect, found, application, scopes })))
    }

    fn scopes(&self, challenge: &Challenge, kept: Option<&Record>, found: &Found) -> Vec<String> {
        let before = kept.and_then(|kept| kept.grant.as_ref()).map(|grant| &grant.scopes[..]);
        scopes::chosen(&Offered {
            configured: &self.settings().scopes,
            challenged: &challenge.scopes(),
            before: before.unwrap_or_default(),
            missing: kept.map(|kept| &kept.missing[..]).unwrap_or_default(),
            of_resource: &found.scopes,
            of_issuer: &found.issuer.scopes_supported,
        })
    }

    /// As what mcpd is known, or makes itself known now. Source: MCP 2025-11-25, `basic/authorization`, "Client Registration
    /// Approaches".
    async fn application(&self, found: &Found, redirect: &str, scopes: &[String]) -> Result<Application, String> {
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
        let Attempt { verifier, redirect, found, application, scopes, .. } = attempt;
        // Nobody is to be asked again because there is no place for the answer.
        let change = self.store().change().await?;
        let form = Form::code(&self.signing(&application), code, &redirect, &verifier, &found.resource);
        let answer = self.web().form(&found.token, form).await?;
        let granted = answer::token(answer.status, &answer.body);
        let granted =
            granted.map_err(|refused| format!("{} gives no token: it {}", told(&found.token), refused.reason))?;
        let kept = change.read().await.ok().flatten().filter(|kept| kept.url == self.url());
        let mut record = kept.unwrap_or_else(|| Record::of(self.url()));
        record.missing.clear();
        record.grant = Some(grant(granted, found, application, scopes));
        change.write(record).await
    }
}

fn grant(granted: Granted, found: Found, application: Application, scopes: Vec<String>) -> Grant {
    let now = moment::unix_seconds();
    Grant {
        issuer: found.issuer.issuer,
        resource: found.resource,
        token_endpoint: found.token.into(),
        revocation_endpoint: found.revocation.map(String::from),
        application,
        scopes: granted.scopes.unwrap_or(scopes),
        access_token: granted.access_token,
        refresh_token: granted.refresh_token,
        obtained_at: now,
        expires_at: granted.expires_in.map(|seconds| now.saturating_add(seconds)),
        over: None,
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
