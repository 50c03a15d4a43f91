//! Finds a server's authorization server by its metadata.
//!
//! Source: MCP 2025-11-25, `basic/authorization`, "Authorization Server Discovery". A server without metadata follows
//! 2025-03-26 and is its own authorization server.

use url::Url;

use super::challenge::Challenge;
use super::error::TokenError;
use super::http::{OAuthHttp, shown_origin};
use super::metadata::{Issuer, Resource, canonical, endpoint};
use super::token_response::quoted;
use crate::net::origin;

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
    /// If there is no safe one; for a person, on one line.
    pub(super) fn page(&self, configured: &Url) -> Result<Url, String> {
        let page = self.issuer.page();
        let page = page.map_err(|why| format!("its authorization server {}: {why}", quoted(&self.issuer.issuer)))?;
        endpoint(page, configured).map_err(|why| format!("the page of its authorization server: {why}"))
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
    let of = |what: &str, text: &str| {
        let url = endpoint(text, http.configured());
        url.map_err(|why| TokenError::Refused(format!("the {what} of its authorization server: {why}")))
    };
    let optional = |what, text: &Option<String>| text.as_deref().map(|text| of(what, text)).transpose();
    Ok(Discovery {
        token: of("token endpoint", &issuer.token_endpoint)?,
        registration: optional("registration endpoint", &issuer.registration_endpoint)?,
        revocation: optional("revocation endpoint", &issuer.revocation_endpoint)?,
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
        metadata_urls.push(url.map_err(|why| TokenError::Refused(format!("the URL of its metadata: {why}")))?);
    }
    metadata_urls.extend(Resource::metadata_urls(http.configured()));
    let Some(resource) = first::<Resource>(http, &metadata_urls).await? else { return Ok(None) };
    match resource.is_of(http.configured()) {
        true => Ok(Some(resource)),
        false => Err(TokenError::Refused("its metadata belongs to another server".to_owned())),
    }
}

/// The authorization server with this name.
async fn issuer_named(http: &OAuthHttp, named: &str) -> Result<Issuer, TokenError> {
    let url = endpoint(named, http.configured());
    let url = url.map_err(|why| TokenError::Refused(format!("its authorization server: {why}")))?;
    let refused = |why: &str| TokenError::Refused(format!("its authorization server {} {why}", shown_origin(&url)));
    match first::<Issuer>(http, &Issuer::metadata_urls(&url)).await? {
        None => Err(refused("has no metadata")),
        Some(issuer) if issuer.is_of(named) => Ok(issuer),
        Some(_) => Err(refused("has metadata of another authorization server")),
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
        let is_it = own.is_of(&issuer.issuer);
        let why =
            || format!("the metadata of the authorization server {} belongs to another one", shown_origin(&behind));
        return if is_it { Ok(own) } else { Err(TokenError::Refused(why())) };
    }
    Ok(issuer)
}

async fn first<T: serde::de::DeserializeOwned>(
    http: &OAuthHttp,
    metadata_urls: &[Url],
) -> Result<Option<T>, TokenError> {
    for url in metadata_urls {
        if let Some(found) = http.document(url).await.map_err(TokenError::Temporary)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
