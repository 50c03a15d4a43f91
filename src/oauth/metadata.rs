//! What a server and its authorization server say of themselves: where that is to be found, and whether it holds. Pure.
//!
//! Source: MCP 2025-11-25, `basic/authorization`, "Authorization Server Discovery"; RFC 9728 (of the server), RFC 8414 and OpenID
//! Connect Discovery 1.0 (of the authorization server); MCP 2025-03-26, `basic/authorization`, 2.3 (where there is neither).

use serde::{Deserialize, Deserializer};
use url::{Host, Url};

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Resource {
    /// What a token is to be for.
    pub(super) resource: String,
    /// Who gives tokens.
    #[serde(default, deserialize_with = "or_none")]
    pub(super) authorization_servers: Vec<String>,
    /// What they may be for.
    #[serde(default, deserialize_with = "or_none")]
    pub(super) scopes_supported: Vec<String>,
}

/// What an authorization server says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Issuer {
    pub(super) issuer: String,
    /// None where no person is ever asked.
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

/// Some write `null` where there is nothing.
fn or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

impl Resource {
    /// Where that of the server at `url` is, the best place first.
    pub(super) fn places(url: &Url) -> Vec<Url> {
        let mut places = vec![inserted(url, "oauth-protected-resource")];
        places[0].set_query(url.query());
        let root = at(url, "/.well-known/oauth-protected-resource");
        if places[0] != root {
            places.push(root);
        }
        places
    }

    /// Whether it is about the server at `url`: a token for it is for what it names, which must be that server, or all of a part
    /// of its host that it is in. Source: RFC 9728, 3.3 and 7.3.
    pub(super) fn is_of(&self, url: &Url) -> bool {
        let Ok(named) = Url::parse(&self.resource) else { return false };
        let (named_path, path) = (named.path().trim_end_matches('/'), url.path());
        let is_within = path.strip_prefix(named_path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        named.fragment().is_none() && named.origin() == url.origin() && is_within
    }
}

/// What a token for the server at `url` is for, where the server does not say: its address without what may be a secret.
pub(super) fn canonical(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    let text = url.as_str();
    if url.path() == "/" { text.trim_end_matches('/').to_owned() } else { text.to_owned() }
}

impl Issuer {
    /// Where that of the authorization server `issuer` is, in the order in which they are tried.
    pub(super) fn places(issuer: &Url) -> Vec<Url> {
        let mut places = vec![inserted(issuer, "oauth-authorization-server"), inserted(issuer, "openid-configuration")];
        let path = issuer.path().trim_end_matches('/');
        if !path.is_empty() {
            places.push(at(issuer, &format!("{path}/.well-known/openid-configuration")));
        }
        places
    }

    /// What a server without metadata is taken for: its own authorization server, at places that are always the same.
    /// Source: MCP 2025-03-26, `basic/authorization`, 2.3.3.
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

    /// Whether it is that of the one that was `named`.
    pub(super) fn is_of(&self, named: &str) -> bool {
        named.trim_end_matches('/') == self.issuer.trim_end_matches('/')
    }

    /// Whether it gives tokens in this way, as it says or as one does that says nothing. Source: RFC 8414, 2.
    pub(super) fn grants(&self, way: &str) -> bool {
        let said = self.grant_types_supported.as_ref();
        said.map_or(way == "authorization_code", |said| said.iter().any(|said| said == way))
    }

    /// The page on which a person agrees.
    ///
    /// # Errors
    /// If it has none, or what comes of it would not be safe.
    pub(super) fn page(&self) -> Result<&str, String> {
        let Some(page) = &self.authorization_endpoint else {
            let instead =
                if self.grants("client_credentials") { ": it wants `client_id` and `client_secret`" } else { "" };
            return Err(format!("it has no page on which somebody could agree{instead}"));
        };
        let says = |said: &Option<Vec<String>>, word: &str| said.iter().flatten().any(|said| said == word);
        if !says(&self.code_challenge_methods_supported, "S256") {
            return Err("it does not say that it checks who redeems a code (PKCE with S256)".to_owned());
        }
        if self.response_types_supported.is_some() && !says(&self.response_types_supported, "code") {
            return Err("it gives no codes (`response_types_supported`)".to_owned());
        }
        Ok(page)
    }
}

/// A URL that a server, or its authorization server, has named. `configured` is what a person has.
///
/// # Errors
/// If what is sent there could be read on the way, which is for nobody but this machine, or the host that is reached so anyway; or
/// if it is no such URL at all. Source: OAuth 2.1, 1.5.
pub(super) fn endpoint(text: &str, configured: &Url) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|_| "it is no URL")?;
    let is_safe = match url.scheme() {
        "https" => true,
        "http" => is_loopback(&url) || url.origin() == configured.origin(),
        _ => false,
    };
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    match (is_safe, is_plain) {
        (false, _) => Err("it does not begin with `https://`".to_owned()),
        (_, false) => Err("it has a user's name or a fragment in it".to_owned()),
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

/// The well-known place `name` of what is at `url`: before its path. Source: RFC 8414, 3.1.
fn inserted(url: &Url, name: &str) -> Url {
    at(url, &format!("/.well-known/{name}{}", url.path().trim_end_matches('/')))
}

/// Another path of the same host, and nothing else.
fn at(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests;
