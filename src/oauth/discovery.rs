//! Who lets mcpd in at a server, and for what: found by what the server says of itself.
//!
//! Source: MCP 2025-11-25, `basic/authorization`, "Authorization Server Discovery". A server without metadata of its own is one of
//! 2025-03-26, and its own authorization server.

use url::Url;

use super::answer::quoted;
use super::challenge::Challenge;
use super::failure::Failure;
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
    pub(super) token: Url,
    pub(super) registration: Option<Url>,
    pub(super) revocation: Option<Url>,
}

impl Found {
    /// The page on which a person agrees.
    ///
    /// # Errors
    /// If there is none that is safe; for a person, on one line.
    pub(super) fn page(&self, configured: &Url) -> Result<Url, String> {
        let page = self.issuer.page();
        let page = page.map_err(|why| format!("its authorization server {}: {why}", quoted(&self.issuer.issuer)))?;
        endpoint(page, configured).map_err(|why| format!("the page of its authorization server: {why}"))
    }
}

/// # Errors
/// If somebody does not answer, or what there is does not hold.
pub(super) async fn look(web: &Web, challenge: &Challenge) -> Result<Found, Failure> {
    let resource = resource(web, challenge).await?;
    let named = resource.as_ref().and_then(|resource| resource.authorization_servers.first());
    let issuer = match named {
        Some(named) => issuer_named(web, named).await?,
        None => own_issuer(web).await?,
    };
    let of = |what: &str, text: &str| {
        let place = endpoint(text, web.configured());
        place.map_err(|why| Failure::Refused(format!("the {what} of its authorization server: {why}")))
    };
    let optional = |what, text: &Option<String>| text.as_deref().map(|text| of(what, text)).transpose();
    Ok(Found {
        token: of("token endpoint", &issuer.token_endpoint)?,
        registration: optional("registration endpoint", &issuer.registration_endpoint)?,
        revocation: optional("revocation endpoint", &issuer.revocation_endpoint)?,
        issuer,
        scopes: resource.as_ref().map(|resource| resource.scopes_supported.clone()).unwrap_or_default(),
        resource: resource.map_or_else(|| canonical(web.configured()), |resource| resource.resource),
    })
}

/// What the server says of itself, if it does.
async fn resource(web: &Web, challenge: &Challenge) -> Result<Option<Resource>, Failure> {
    let mut places = Vec::new();
    if let Some(named) = &challenge.resource_metadata {
        let place = endpoint(named, web.configured());
        places.push(place.map_err(|why| Failure::Refused(format!("the place of its metadata: {why}")))?);
    }
    places.extend(Resource::places(web.configured()));
    let Some(resource) = first::<Resource>(web, &places).await? else { return Ok(None) };
    match resource.is_of(web.configured()) {
        true => Ok(Some(resource)),
        false => Err(Failure::Refused("its metadata is that of another server".to_owned())),
    }
}

/// An authorization server that the server names.
async fn issuer_named(web: &Web, named: &str) -> Result<Issuer, Failure> {
    let place = endpoint(named, web.configured());
    let url = place.map_err(|why| Failure::Refused(format!("its authorization server: {why}")))?;
    let refused = |why: &str| Failure::Refused(format!("its authorization server {} {why}", told(&url)));
    match first::<Issuer>(web, &Issuer::places(&url)).await? {
        None => Err(refused("has no metadata")),
        Some(issuer) if issuer.is_of(named) => Ok(issuer),
        Some(_) => Err(refused("has metadata that is that of another authorization server")),
    }
}

/// The server itself. Its metadata may have been made by one that stands behind it: if that has some of its own, they count, since a
/// code that it gives is to be redeemed nowhere else (RFC 8414, 3.3 and 6.2; RFC 9700, 4.4).
async fn own_issuer(web: &Web) -> Result<Issuer, Failure> {
    let mut root = web.configured().clone();
    root.set_path("");
    let Some(issuer) = first::<Issuer>(web, &Issuer::places(&root)).await? else {
        return Ok(Issuer::assumed(web.configured()));
    };
    if let Ok(behind) = endpoint(&issuer.issuer, web.configured())
        && !origin::same(&behind, &root)
        && let Ok(Some(own)) = first::<Issuer>(web, &Issuer::places(&behind)).await
    {
        let is_it = own.is_of(&issuer.issuer);
        let why = || format!("the metadata of the authorization server {} is that of another", told(&behind));
        return if is_it { Ok(own) } else { Err(Failure::Refused(why())) };
    }
    Ok(issuer)
}

async fn first<T: serde::de::DeserializeOwned>(web: &Web, places: &[Url]) -> Result<Option<T>, Failure> {
    for place in places {
        if let Some(found) = web.document(place).await.map_err(Failure::Later)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
