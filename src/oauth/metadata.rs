//! Metadata of servers and authorization servers: where it is, and whether it is valid. Pure.
//!
//! Source: MCP 2025-11-25, `basic/authorization`, "Authorization Server Discovery"; RFC 9728 (servers), RFC 8414 and
//! OpenID Connect Discovery 1.0 (authorization servers); MCP 2025-03-26, `basic/authorization`, 2.3 (without metadata).

use serde::{Deserialize, Deserializer};
use url::{Host, Url};

/// Metadata of a server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Resource {
    /// The `resource` of its tokens.
    pub(super) resource: String,
    /// Its authorization servers.
    #[serde(default, deserialize_with = "or_none")]
    pub(super) authorization_servers: Vec<String>,
    /// Scopes of its tokens.
    #[serde(default, deserialize_with = "or_none")]
    pub(super) scopes_supported: Vec<String>,
}

/// Metadata of an authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Issuer {
    pub(super) issuer: String,
    /// `None` if it supports no consent by a person.
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    #[serde(default, deserialize_with = "or_none")]
    pub(super) scopes_supported: Vec<String>,
    pub(super) grant_types_supported: Option<Vec<String>>,
    pub(super) response_types_supported: Option<Vec<String>>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(super) client_id_metadata_document_supported: Option<bool>,
    pub(super) authorization_response_iss_parameter_supported: Option<bool>,
}

/// Why a person cannot consent at an authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoPage {
    #[error("it has no authorization page")]
    NoEndpoint,
    #[error("it has no authorization page: set `client_id` and `client_secret`")]
    OnlyClientCredentials,
    #[error("it does not declare support for PKCE with S256")]
    NoPkce,
    #[error("it does not support authorization codes (`response_types_supported`)")]
    NoCodes,
}

/// Why a URL in metadata is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidEndpoint {
    #[error("it is not a URL")]
    NotAUrl,
    #[error("it does not begin with `https://`")]
    Unencrypted,
    #[error("it contains a user name or a fragment")]
    UserNameOrFragment,
}

/// Some servers write `null` for an empty list.
fn or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

impl Resource {
    /// The URLs of a server's metadata, in order of preference.
    pub(super) fn metadata_urls(url: &Url) -> Vec<Url> {
        let mut metadata_urls = vec![inserted(url, "oauth-protected-resource")];
        metadata_urls[0].set_query(url.query());
        let root = at(url, "/.well-known/oauth-protected-resource");
        if metadata_urls[0] != root {
            metadata_urls.push(root);
        }
        metadata_urls
    }

    /// Whether it is about the server at `url`: its `resource` must be that URL, or a parent path on the same origin.
    /// Source: RFC 9728, 3.3 and 7.3.
    pub(super) fn is_of(&self, url: &Url) -> bool {
        let Ok(named) = Url::parse(&self.resource) else { return false };
        let (named_path, path) = (named.path().trim_end_matches('/'), url.path());
        let is_within = path.strip_prefix(named_path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        named.fragment().is_none() && named.origin() == url.origin() && is_within
    }
}

/// The `resource` of a server without metadata: its URL without the query, which may contain a secret.
pub(super) fn canonical(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    let text = url.as_str();
    if url.path() == "/" { text.trim_end_matches('/').to_owned() } else { text.to_owned() }
}

impl Issuer {
    /// The URLs of an authorization server's metadata, in the order in which they are tried.
    pub(super) fn metadata_urls(issuer: &Url) -> Vec<Url> {
        let mut metadata_urls =
            vec![inserted(issuer, "oauth-authorization-server"), inserted(issuer, "openid-configuration")];
        let path = issuer.path().trim_end_matches('/');
        if !path.is_empty() {
            metadata_urls.push(at(issuer, &format!("{path}/.well-known/openid-configuration")));
        }
        metadata_urls
    }

    /// The assumed metadata of a server without any: its own authorization server, with fixed paths. Source: MCP
    /// 2025-03-26, `basic/authorization`, 2.3.3.
    pub(super) fn assumed(url: &Url) -> Self {
        let of = |path: &str| at(url, path).to_string();
        Self {
            issuer: url.origin().ascii_serialization(),
            authorization_endpoint: Some(of("/authorize")),
            token_endpoint: of("/token"),
            registration_endpoint: Some(of("/register")),
            revocation_endpoint: None,
            scopes_supported: Vec::new(),
            grant_types_supported: None,
            response_types_supported: None,
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            token_endpoint_auth_methods_supported: None,
            client_id_metadata_document_supported: None,
            authorization_response_iss_parameter_supported: None,
        }
    }

    /// Whether it is the metadata of the issuer `named`.
    pub(super) fn is_of(&self, named: &str) -> bool {
        named.trim_end_matches('/') == self.issuer.trim_end_matches('/')
    }

    /// Whether it supports this grant type, stated or by default. Source: RFC 8414, 2.
    pub(super) fn grants(&self, grant_type: &str) -> bool {
        let grant_types = self.grant_types_supported.as_ref();
        grant_types.map_or(grant_type == "authorization_code", |types| types.iter().any(|one| one == grant_type))
    }

    /// The page where a person consents.
    ///
    /// # Errors
    /// If there is none, or the flow would not be safe.
    pub(super) fn page(&self) -> Result<&str, NoPage> {
        let Some(page) = &self.authorization_endpoint else {
            let grants_credentials = self.grants("client_credentials");
            return Err(if grants_credentials { NoPage::OnlyClientCredentials } else { NoPage::NoEndpoint });
        };
        let lists = |values: &Option<Vec<String>>, value: &str| values.iter().flatten().any(|one| one == value);
        if !lists(&self.code_challenge_methods_supported, "S256") {
            return Err(NoPage::NoPkce);
        }
        if self.response_types_supported.is_some() && !lists(&self.response_types_supported, "code") {
            return Err(NoPage::NoCodes);
        }
        Ok(page)
    }
}

/// Checks a URL that a server or its authorization server has named. `configured` is the server's configured URL.
///
/// # Errors
/// If the URL is not valid, or unencrypted and neither on this machine nor on the configured origin. Source: OAuth 2.1,
/// 1.5.
pub(super) fn endpoint(text: &str, configured: &Url) -> Result<Url, InvalidEndpoint> {
    let url = Url::parse(text).map_err(|_| InvalidEndpoint::NotAUrl)?;
    let is_safe = match url.scheme() {
        "https" => true,
        "http" => is_loopback(&url) || url.origin() == configured.origin(),
        _ => false,
    };
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    match (is_safe, is_plain) {
        (false, _) => Err(InvalidEndpoint::Unencrypted),
        (_, false) => Err(InvalidEndpoint::UserNameOrFragment),
        _ => Ok(url),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// The well-known URL `name` for `url`, inserted before its path. Source: RFC 8414, 3.1.
fn inserted(url: &Url, name: &str) -> Url {
    at(url, &format!("/.well-known/{name}{}", url.path().trim_end_matches('/')))
}

/// Another path on the same host, without query and fragment.
fn at(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests;
