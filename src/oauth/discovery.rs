//! Who lets mcpd in at a server, and for what: found by what the server says of itself.
//!
//! Source: MCP 2025-11-25, `basic/authorization`, "Authorization Server Discovery". A server without metadata of its own is one of
//! 2025-03-26, and its own authorization server.

use url::Url;

use super::challenge::Challenge;
use super::metadata::{Issuer, Resource, canonical, endpoint};
use super::web::{Web, told};
use crate::net::origin;

/// What is known of the way in.
pub(super) struct Found {
    /// What a token is for.
    pub(super) resource: String,
    /// What it may be allowed, as the server says.
    pub(super) scopes: Vec<String>,
    pub(super) issuer: Issuer,
    pub(super) authorization: Url,
    pub(super) token: Url,
    pub(super) registration: Option<Url>,
    pub(super) revocation: Option<Url>,
}

/// # Errors
/// If somebody does not answer, or what there is does not hold; for a person, on one line.
pub(super) async fn look(web: &Web, challenge: &Challenge) -> Result<Found, String> {
    let resource = resource(web, challenge).await?;
    let named = resource.as_ref().and_then(|resource| resource.authorization_servers.first());
    let issuer = match named {
        Some(named) => issuer_named(web, named).await?,
        None => own_issuer(web).await?,
    };
    let of = |what: &str, text: &str| {
        endpoint(text, web.configured()).map_err(|why| format!("the {what} of its authorization server: {why}"))
    };
    let optional = |what, text: &Option<String>| text.as_deref().map(|text| of(what, text)).transpose();
    Ok(Found {
        authorization: of("page", &issuer.authorization_endpoint)?,
        token: of("token endpoint", &issuer.token_endpoint)?,
        registration: optional("registration endpoint", &issuer.registration_endpoint)?,
        revocation: optional("revocation endpoint", &issuer.revocation_endpoint)?,
        issuer,
        scopes: resource.as_ref().map(|resource| resource.scopes_supported.clone()).unwrap_or_default(),
        resource: resource.map_or_else(|| canonical(web.configured()), |resource| resource.resource),
    })
}

/// What the server says of itself, if it does.
async fn resource(web: &Web, challenge: &Challenge) -> Result<Option<Resource>, String> {
    let mut places = Vec::new();
    if let Some(named) = &challenge.resource_metadata {
        places.push(endpoint(named, web.configured()).map_err(|why| format!("the place of its metadata: {why}"))?);
    }
    places.extend(Resource::places(web.configured()));
    let Some(resource) = first::<Resource>(web, &places).await? else { return Ok(None) };
    match resource.is_of(web.configured()) {
        true => Ok(Some(resource)),
        false => Err("its metadata is that of another server".to_owned()),
    }
}

/// An authorization server that the server names.
async fn issuer_named(web: &Web, named: &str) -> Result<Issuer, String> {
    let url = endpoint(named, web.configured()).map_err(|why| format!("its authorization server: {why}"))?;
    let Some(issuer) = first::<Issuer>(web, &Issuer::places(&url)).await? else {
        return Err(format!("its authorization server {} has no metadata", told(&url)));
    };
    issuer.check(Some(named)).map_err(|why| format!("its authorization server {}: {why}", told(&url)))?;
    Ok(issuer)
}

/// The server itself. Its metadata may have been made by one that stands behind it: if that has some of its own, they count, since a
/// code that it gives is to be redeemed nowhere else (RFC 8414, 3.3 and 6.2; RFC 9700, 4.4).
async fn own_issuer(web: &Web) -> Result<Issuer, String> {
    let mut root = web.configured().clone();
    root.set_path("");
    let Some(issuer) = first::<Issuer>(web, &Issuer::places(&root)).await? else {
        return Ok(Issuer::assumed(web.configured()));
    };
    if let Ok(behind) = endpoint(&issuer.issuer, web.configured())
        && !origin::same(&behind, &root)
        && let Ok(Some(own)) = first::<Issuer>(web, &Issuer::places(&behind)).await
    {
        let check = own.check(Some(&issuer.issuer));
        return check.map(|()| own).map_err(|why| format!("the authorization server {}: {why}", told(&behind)));
    }
    issuer.check(None).map_err(|why| format!("the server as an authorization server: {why}"))?;
    Ok(issuer)
}

async fn first<T: serde::de::DeserializeOwned>(web: &Web, places: &[Url]) -> Result<Option<T>, String> {
    for place in places {
        if let Some(found) = web.document(place).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
