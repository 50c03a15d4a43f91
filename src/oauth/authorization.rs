//! A login by a person's consent: from the server's requirements, over the callback of the authorization server, to a token.
//!
//! Source: RFC 6749, 4.1.2; RFC 9207 (`iss`).

use url::Url;
use url::form_urlencoded::parse;

use super::error::LoginError;
use super::http::shown_origin;
use super::login::Login;
use super::request::{
    self, AuthMethod, AuthorizationRequest, ClientRegistration, Form, Secret, quoted, registration_request,
};
use super::requirements::{Discovery, Requirements};
use crate::config::OAuthSettings;

/// A login that waits for a person's consent.
pub(crate) struct Authorization {
    page: Url,
    expected: ExpectedCallback,
    verifier: Secret,
    redirect: String,
    requirements: Requirements,
    registration: ClientRegistration,
}

impl Login {
    /// Begins a login that ends at `redirect`.
    ///
    /// # Errors
    /// If this login is impossible.
    pub(crate) async fn begin(&self, requirements: Requirements, redirect: &str) -> Result<Authorization, LoginError> {
        let authorization = requirements.found.page(self.http().configured())?;
        self.http().check_page(&authorization).await.map_err(LoginError::Page)?;
        let registration = self.registration(&requirements, redirect).await?;
        let (state, verifier) = (Secret::fresh()?, Secret::fresh()?);
        let Discovery { resource, issuer, .. } = &requirements.found;
        let request = AuthorizationRequest {
            registration: &registration.id,
            redirect,
            state: &state,
            verifier: &verifier,
            scopes: &requirements.scopes,
            resource,
        };
        let page = request.page(&authorization);
        let names_issuer = issuer.authorization_response_iss_parameter_supported == Some(true);
        let expected = ExpectedCallback { state, issuer: issuer.issuer.clone(), names_issuer };
        Ok(Authorization { page, expected, verifier, redirect: redirect.to_owned(), requirements, registration })
    }

    /// The configured registration, or a new one. Source: MCP 2025-11-25, `basic/authorization`, "Client Registration
    /// Approaches".
    async fn registration(
        &self,
        requirements: &Requirements,
        redirect: &str,
    ) -> Result<ClientRegistration, LoginError> {
        let Requirements { found, scopes } = requirements;
        let known = found.issuer.token_endpoint_auth_methods_supported.as_deref();
        let OAuthSettings { client_id, client_secret, .. } = self.settings();
        if let Some(id) = client_id
            && (!id.starts_with("https://") || found.issuer.client_id_metadata_document_supported == Some(true))
        {
            let method = AuthMethod::supported(client_secret.is_some(), known);
            return Ok(ClientRegistration { id: id.clone(), secret: None, method });
        }
        let issuer = shown_origin(&found.token);
        let Some(endpoint) = &found.registration else {
            return Err(LoginError::NoRegistration { issuer });
        };
        let method = AuthMethod::preferred(known);
        let response = self.http().post_json(endpoint, registration_request(redirect, method, scopes)).await?;
        let registered = request::parse_registration(response.status, &response.body, method);
        registered.map_err(|refused| LoginError::RegistrationRefused { issuer, reason: refused.reason })
    }

    /// Exchanges the code for a token, and stores it.
    ///
    /// # Errors
    /// If the code is refused, or the token cannot be stored.
    pub(crate) async fn finish(&self, authorization: Authorization, code: &str) -> Result<(), LoginError> {
        let Authorization { verifier, redirect, requirements, registration, .. } = authorization;
        // Locked first, so that the code is not spent if the token cannot be stored.
        let lock = self.store().lock().await?;
        let found = &requirements.found;
        let form = Form::code(&self.signing(&registration), code, &redirect, &verifier, &found.resource);
        let response = self.http().post_form(&found.token, form).await?;
        let granted = request::parse_token(response.status, &response.body);
        let granted = granted.map_err(|refused| LoginError::TokenRefused {
            issuer: shown_origin(&found.token),
            reason: self.masked(&refused.reason),
        })?;
        Ok(self.save(&lock, requirements.granted(granted, registration)).await?)
    }
}

impl Authorization {
    /// The page where a person consents.
    pub(crate) fn page(&self) -> &Url {
        &self.page
    }

    /// The code in the callback's `query`.
    pub(super) fn code(&self, query: &str) -> Result<String, CallbackError> {
        self.expected.code(query)
    }

    /// The code in the callback address that a person has pasted.
    pub(crate) fn pasted(&self, text: &str) -> Result<String, CallbackError> {
        let text = text.trim();
        self.code(text.split_once('?').map_or(text, |(_, query)| query))
    }
}

/// The expected callback of one login.
#[derive(Clone)]
pub(super) struct ExpectedCallback {
    pub(super) state: Secret,
    pub(super) issuer: String,
    /// Whether the callback must name its issuer.
    pub(super) names_issuer: bool,
}

/// Why a callback has no code.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallbackError {
    /// It belongs to another login. The right one may still come.
    #[error("the response belongs to another login")]
    OtherLogin,
    #[error("the response is from another authorization server")]
    OtherIssuer,
    #[error("the response does not name its authorization server")]
    NoIssuer,
    /// Both texts are printable; the description is in parentheses.
    #[error("the authorization server answers {error}{description}")]
    Refused { error: String, description: String },
    #[error("the response has no code")]
    NoCode,
}

impl ExpectedCallback {
    /// The code in the `query` of a callback.
    pub(super) fn code(&self, query: &str) -> Result<String, CallbackError> {
        let one =
            |name: &str| parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        if one("state").as_deref() != Some(self.state.text()) {
            return Err(CallbackError::OtherLogin);
        }
        match one("iss") {
            Some(issuer) if issuer != self.issuer => return Err(CallbackError::OtherIssuer),
            None if self.names_issuer => return Err(CallbackError::NoIssuer),
            _ => {}
        }
        if let Some(error) = one("error") {
            let description = one("error_description").map(|text| format!(" ({})", quoted(&text))).unwrap_or_default();
            return Err(CallbackError::Refused { error: quoted(&error), description });
        }
        one("code").filter(|code| !code.is_empty()).ok_or(CallbackError::NoCode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_accepted_only_from_the_expected_callback() {
        let state = Secret::fresh().expect("a random token");
        let expected =
            |names_issuer| ExpectedCallback { state: state.clone(), issuer: "https://b.org".into(), names_issuer };
        for (query, names_issuer, result) in [
            ("code=c%2F1&state=S", false, Ok("c/1".to_owned())),
            ("code=c&state=S&iss=https%3A%2F%2Fb.org", true, Ok("c".to_owned())),
            ("code=c", false, Err(CallbackError::OtherLogin)),
            ("code=c&state=other", false, Err(CallbackError::OtherLogin)),
            ("code=c&state=other&state=S", false, Err(CallbackError::OtherLogin)),
            ("error=access_denied&state=other", false, Err(CallbackError::OtherLogin)),
            ("", false, Err(CallbackError::OtherLogin)),
            ("state=S", false, Err(CallbackError::NoCode)),
            ("code=&state=S", false, Err(CallbackError::NoCode)),
            ("code=c&state=S&iss=https://evil.org", false, Err(CallbackError::OtherIssuer)),
            ("code=c&state=S&iss=https://b.org/", false, Err(CallbackError::OtherIssuer)),
            ("code=c&state=S", true, Err(CallbackError::NoIssuer)),
            (
                "error=access_denied&error_description=not%0Anow&state=S",
                false,
                Err(CallbackError::Refused { error: "access_denied".into(), description: " (not\\nnow)".into() }),
            ),
        ] {
            let query = query.replace("=S", &format!("={}", state.text()));
            assert_eq!(expected(names_issuer).code(&query), result, "{query}");
        }
    }
}
