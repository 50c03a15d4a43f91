//! What a login at a server needs: its authorization server, its scopes, and a person or client credentials.
//!
//! Source: MCP 2025-11-25, `basic/authorization`, "Authorization Server Discovery". A server without metadata follows
//! 2025-03-26 and is its own authorization server.

use url::Url;

use super::challenge::{self, Challenge, ScopeSources};
use super::error::{LoginError, NamedUrl};
use super::http::{OAuthHttp, shown_origin};
use super::login::Login;
use super::metadata::{Issuer, Resource, canonical, endpoint};
use super::record::{Grant, LoginRecord};
use super::request::{ClientRegistration, TokenError, TokenResponse, quoted};
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
    /// If a login is impossible.
    pub(crate) async fn method(&self) -> Result<LoginMethod, LoginError> {
        // An unreadable record is replaced.
        let stored = self.stored().await.ok().flatten();
        let probed = self.http().probe().await?;
        let Some(challenge) = probed.or_else(|| stored.as_ref().and_then(|stored| stored.challenge.clone())) else {
            return Ok(LoginMethod::NotRequired);
        };
        let found = discover(self.http(), &challenge).await?;
        let uses_client_credentials = uses_client_credentials(self.settings(), &found.issuer);
        let before = stored.as_ref().and_then(|stored| stored.grant.as_ref()).map(|grant| &grant.scopes[..]);
        let scopes = challenge::choose_scopes(&ScopeSources {
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
        let found = discover(self.http(), &challenge).await?;
        if !uses_client_credentials(self.settings(), &found.issuer) {
            return Err(TokenError::Refused(LoginError::NotLoggedIn));
        }
        let stored = record.grant.as_ref();
        if stored.is_none() && self.settings().grant.is_none() {
            // The secret may be for a person's login. It must not be sent to an authorization server that the server
            // names meanwhile.
            return Err(TokenError::Refused(LoginError::GrantUnset));
        }
        if let Some(before) = stored.and_then(|stored| Url::parse(&stored.token_endpoint).ok())
            && !origin::same(&before, &found.token)
        {
            // The server now names another authorization server, and no person can check it.
            let (before, now) = (shown_origin(&before), shown_origin(&found.token));
            return Err(TokenError::Refused(LoginError::ChangedIssuer { before, now }));
        }
        let chosen = challenge::choose_scopes(&ScopeSources {
            configured: &self.settings().scopes,
            challenged: &challenge.scopes(),
            resource: &found.scopes,
            ..ScopeSources::default()
        });
        let before = stored.filter(|_| self.settings().scopes.is_empty());
        let mut scopes = before.map(|grant| grant.scopes.clone()).unwrap_or_default();
        challenge::add_scopes(&mut scopes, &chosen);
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

/// A server's authorization server and endpoints.
pub(super) struct Discovery {
    /// The `resource` of a token.
    pub(super) resource: String,
    /// Scopes that the server lists.
    pub(super) scopes: Vec<String>,
    pub(super) issuer: Issuer,
    pub(super) token: Url,
    pub(super) registration: Option<Url>,
    pub(super) revocation: Option<Url>,
}

impl Discovery {
    /// The page where a person consents.
    ///
    /// # Errors
    /// If there is no safe one.
    pub(super) fn page(&self, configured: &Url) -> Result<Url, LoginError> {
        let page = self.issuer.page();
        let page = page.map_err(|source| LoginError::NoPage { issuer: quoted(&self.issuer.issuer), source })?;
        endpoint(page, configured).map_err(|why| NamedUrl::Page.invalid(why))
    }
}

/// # Errors
/// If a request fails, or the metadata is not valid.
pub(super) async fn discover(http: &OAuthHttp, challenge: &Challenge) -> Result<Discovery, TokenError> {
    let resource = resource(http, challenge).await?;
    let named = resource.as_ref().and_then(|resource| resource.authorization_servers.first());
    let issuer = match named {
        Some(named) => issuer_named(http, named).await?,
        None => own_issuer(http).await?,
    };
    let of = |what: NamedUrl, text: &str| {
        endpoint(text, http.configured()).map_err(|why| TokenError::Refused(what.invalid(why)))
    };
    let optional = |what, text: &Option<String>| text.as_deref().map(|text| of(what, text)).transpose();
    Ok(Discovery {
        token: of(NamedUrl::Token, &issuer.token_endpoint)?,
        registration: optional(NamedUrl::Registration, &issuer.registration_endpoint)?,
        revocation: optional(NamedUrl::Revocation, &issuer.revocation_endpoint)?,
        issuer,
        scopes: resource.as_ref().map(|resource| resource.scopes_supported.clone()).unwrap_or_default(),
        resource: resource.map_or_else(|| canonical(http.configured()), |resource| resource.resource),
    })
}

/// The server's metadata, if there is any.
async fn resource(http: &OAuthHttp, challenge: &Challenge) -> Result<Option<Resource>, TokenError> {
    let mut metadata_urls = Vec::new();
    if let Some(named) = &challenge.resource_metadata {
        let url = endpoint(named, http.configured());
        metadata_urls.push(url.map_err(|why| TokenError::Refused(NamedUrl::Metadata.invalid(why)))?);
    }
    metadata_urls.extend(Resource::metadata_urls(http.configured()));
    let Some(resource) = first::<Resource>(http, &metadata_urls).await? else { return Ok(None) };
    match resource.is_of(http.configured()) {
        true => Ok(Some(resource)),
        false => Err(TokenError::Refused(LoginError::ForeignMetadata)),
    }
}

/// The authorization server with this name.
async fn issuer_named(http: &OAuthHttp, named: &str) -> Result<Issuer, TokenError> {
    let url = endpoint(named, http.configured());
    let url = url.map_err(|why| TokenError::Refused(NamedUrl::Issuer.invalid(why)))?;
    match first::<Issuer>(http, &Issuer::metadata_urls(&url)).await? {
        None => Err(TokenError::Refused(LoginError::NoIssuerMetadata { issuer: shown_origin(&url) })),
        Some(issuer) if issuer.is_of(named) => Ok(issuer),
        Some(_) => Err(TokenError::Refused(LoginError::OtherIssuer { issuer: shown_origin(&url) })),
    }
}

/// The server itself. Its metadata may name another issuer behind it. If that has metadata, it counts, since a code of
/// that issuer must be redeemed nowhere else (RFC 8414, 3.3 and 6.2; RFC 9700, 4.4).
async fn own_issuer(http: &OAuthHttp) -> Result<Issuer, TokenError> {
    let mut root = http.configured().clone();
    root.set_path("");
    let Some(issuer) = first::<Issuer>(http, &Issuer::metadata_urls(&root)).await? else {
        return Ok(Issuer::assumed(http.configured()));
    };
    if let Ok(behind) = endpoint(&issuer.issuer, http.configured())
        && !origin::same(&behind, &root)
        && let Ok(Some(own)) = first::<Issuer>(http, &Issuer::metadata_urls(&behind)).await
    {
        let foreign = || TokenError::Refused(LoginError::ForeignIssuerMetadata { issuer: shown_origin(&behind) });
        return if own.is_of(&issuer.issuer) { Ok(own) } else { Err(foreign()) };
    }
    Ok(issuer)
}

async fn first<T: serde::de::DeserializeOwned>(
    http: &OAuthHttp,
    metadata_urls: &[Url],
) -> Result<Option<T>, TokenError> {
    for url in metadata_urls {
        if let Some(found) = http.get_document(url).await.map_err(|none| TokenError::Temporary(none.into()))? {
            return Ok(Some(found));
        }
    }
    Ok(None)
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
