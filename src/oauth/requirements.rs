//! The requirements of a server: whether it needs a login, and by a person or client credentials.

use url::Url;

use super::client_registration::ClientRegistration;
use super::discovery::{self, Discovery};
use super::error::TokenError;
use super::http::shown_origin;
use super::login::Login;
use super::metadata::Issuer;
use super::record::{Grant, LoginRecord};
use super::scopes::{self, ScopeSources};
use super::token_response::TokenResponse;
use crate::clock;
use crate::config::{OAuthGrant, OAuthSettings};
use crate::net::origin;

/// How to log in to a server.
pub(crate) enum LoginMethod {
    /// The server needs no login.
    NotRequired,
    /// With client credentials.
    ClientCredentials(Requirements),
    /// With a person's consent.
    Consent(Requirements),
}

/// What to request, and where.
pub(crate) struct Requirements {
    pub(super) found: Discovery,
    pub(super) scopes: Vec<String>,
}

impl Login {
    /// Determines the login method by a request to the server.
    ///
    /// # Errors
    /// If a login is impossible; for a person, on one line.
    pub(crate) async fn method(&self) -> Result<LoginMethod, String> {
        // An unreadable record is replaced.
        let stored = self.stored().await.ok().flatten();
        let probed = self.http().probe().await?;
        let Some(challenge) = probed.or_else(|| stored.as_ref().and_then(|stored| stored.challenge.clone())) else {
            return Ok(LoginMethod::NotRequired);
        };
        let found = discovery::discover(self.http(), &challenge).await.map_err(TokenError::why)?;
        let uses_client_credentials = uses_client_credentials(self.settings(), &found.issuer);
        let before = stored.as_ref().and_then(|stored| stored.grant.as_ref()).map(|grant| &grant.scopes[..]);
        let scopes = scopes::choose(&ScopeSources {
            configured: &self.settings().scopes,
            challenged: &challenge.scopes(),
            before: before.unwrap_or_default(),
            missing: stored.as_ref().map(|stored| &stored.missing[..]).unwrap_or_default(),
            resource: &found.scopes,
            // Only a person's login needs `offline_access`.
            issuer: if uses_client_credentials { &[] } else { &found.issuer.scopes_supported },
        });
        let requirements = Requirements { found, scopes };
        Ok(if uses_client_credentials {
            LoginMethod::ClientCredentials(requirements)
        } else {
            LoginMethod::Consent(requirements)
        })
    }

    /// The requirements of a stored record, for a login without a person. Requests the scopes granted before, and none
    /// that some call lacked: a refusal would also end what works.
    ///
    /// # Errors
    /// If a request fails, or a person is needed.
    pub(super) async fn stored_requirements(&self, record: &LoginRecord) -> Result<Requirements, TokenError> {
        let challenge = record.challenge.clone().unwrap_or_default();
        let found = discovery::discover(self.http(), &challenge).await?;
        if !uses_client_credentials(self.settings(), &found.issuer) {
            return Err(TokenError::Refused(NOT_LOGGED_IN.to_owned()));
        }
        let stored = record.grant.as_ref();
        if stored.is_none() && self.settings().grant.is_none() {
            // The secret may be for a person's login. It must not be sent to an authorization server that the server
            // names meanwhile.
            return Err(TokenError::Refused(GRANT_UNSET.to_owned()));
        }
        if let Some(before) = stored.and_then(|stored| Url::parse(&stored.token_endpoint).ok())
            && !origin::same(&before, &found.token)
        {
            // The server now names another authorization server, and no person can check it.
            let (before, now) = (shown_origin(&before), shown_origin(&found.token));
            return Err(TokenError::Refused(format!("its authorization server changed from {before} to {now}")));
        }
        let chosen = scopes::choose(&ScopeSources {
            configured: &self.settings().scopes,
            challenged: &challenge.scopes(),
            resource: &found.scopes,
            ..ScopeSources::default()
        });
        let before = stored.filter(|_| self.settings().scopes.is_empty());
        let mut scopes = before.map(|grant| grant.scopes.clone()).unwrap_or_default();
        scopes::add(&mut scopes, &chosen);
        Ok(Requirements { found, scopes })
    }
}

impl Requirements {
    /// The grant of a token obtained now. It counts as a person's, unless the caller changes that.
    pub(super) fn granted(self, granted: TokenResponse, registration: ClientRegistration) -> Grant {
        let Self { found, scopes } = self;
        let now = clock::unix_seconds();
        Grant {
            issuer: found.issuer.issuer,
            resource: found.resource,
            token_endpoint: found.token.into(),
            revocation_endpoint: found.revocation.map(String::from),
            registration,
            uses_client_credentials: false,
            is_public: false,
            scopes: granted.scopes.unwrap_or(scopes),
            access_token: granted.access_token,
            refresh_token: granted.refresh_token,
            obtained_at: now,
            expires_at: granted.expires_in.map(|seconds| now.saturating_add(seconds)),
            over: None,
        }
    }
}

/// Why the client secret is not used.
const GRANT_UNSET: &str = "it needs a login, and its `oauth` does not set `grant = \"client_credentials\"`";
/// Why there is no token if a person must log in.
pub(super) const NOT_LOGGED_IN: &str = "nobody has logged in to it";

/// Whether client credentials are configured and allowed.
pub(super) fn allows_client_credentials(settings: &OAuthSettings) -> bool {
    let has_both = settings.client_id.is_some() && settings.client_secret.is_some();
    has_both && settings.grant != Some(OAuthGrant::AuthorizationCode)
}

/// Whether to use client credentials at this authorization server: if configured, or if it supports nothing else.
/// Source: MCP extension `io.modelcontextprotocol/oauth-client-credentials`; RFC 8414, 2 (`grant_types_supported`).
fn uses_client_credentials(settings: &OAuthSettings, issuer: &Issuer) -> bool {
    let is_only_way = || issuer.grants("client_credentials") && !issuer.grants("authorization_code");
    allows_client_credentials(settings) && (settings.grant.is_some() || is_only_way())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_credentials_are_used_if_configured_or_the_only_grant() {
        use OAuthGrant::{AuthorizationCode, ClientCredentials};
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let words = |words: &str| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (id, secret, grant, offered, expected) in [
            ("i", "s", None, Some("client_credentials"), true),
            ("i", "s", None, Some("client_credentials refresh_token"), true),
            ("i", "s", None, Some("client_credentials authorization_code"), false),
            ("i", "s", None, Some("authorization_code"), false),
            ("i", "s", None, Some(""), false),
            ("i", "s", None, None, false),
            ("i", "", None, Some("client_credentials"), false),
            ("", "", None, Some("client_credentials"), false),
            ("i", "s", Some(AuthorizationCode), Some("client_credentials"), false),
            ("i", "s", Some(ClientCredentials), Some("client_credentials authorization_code"), true),
            ("i", "s", Some(ClientCredentials), Some("authorization_code"), true),
            ("i", "s", Some(ClientCredentials), None, true),
        ] {
            let settings =
                OAuthSettings { grant, client_id: text(id), client_secret: text(secret), ..OAuthSettings::default() };
            let url = Url::parse("https://b.org").expect("a URL");
            let issuer = Issuer { grant_types_supported: offered.map(words), ..Issuer::assumed(&url) };
            assert_eq!(uses_client_credentials(&settings, &issuer), expected, "{id} {secret} {grant:?} {offered:?}");
        }
    }
}
