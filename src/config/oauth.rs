//! The settings of OAuth logins. No `Debug` in this module prints a secret.

use std::fmt;

use super::keys::Choice;

/// Whether mcpd logs in to a server that requires it. Source: MCP 2025-11-25, `basic/authorization`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OAuth {
    /// No login: only the headers are sent.
    Off,
    /// As the user after `mcpd login`, or as mcpd itself.
    On(OAuthSettings),
}

/// The configured details of the login. `Debug` does not print the secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OAuthSettings {
    /// The grant. If unset, the authorization server's metadata decides.
    pub grant: Option<OAuthGrant>,
    /// The client id, or the `https://` URL of a client metadata document. If unset, mcpd registers itself.
    pub client_id: Option<String>,
    /// The client secret. It is one of the [`Remote::secrets`](super::Remote::secrets).
    pub client_secret: Option<String>,
    /// The requested scopes, which replace those that the server requires.
    pub scopes: Vec<String>,
    /// The port of the redirect to 127.0.0.1. If unset, any free port.
    pub redirect_port: Option<u16>,
}

/// The OAuth grant. Source: OAuth 2.1, 4.1 and 4.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OAuthGrant {
    /// A person logs in with a browser.
    AuthorizationCode,
    /// mcpd logs in as itself with [`OAuthSettings::client_id`] and [`OAuthSettings::client_secret`].
    ClientCredentials,
}

impl Choice for OAuthGrant {
    const NAMES: &[(&str, Self)] =
        &[("authorization_code", Self::AuthorizationCode), ("client_credentials", Self::ClientCredentials)];
}

impl Default for OAuth {
    fn default() -> Self {
        Self::On(OAuthSettings::default())
    }
}

impl fmt::Debug for OAuthSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthSettings")
            .field("grant", &self.grant)
            .field("client_id", &self.client_id.is_some())
            .field("client_secret", &self.client_secret.is_some())
            .field("scopes", &self.scopes)
            .field("redirect_port", &self.redirect_port)
            .finish()
    }
}
