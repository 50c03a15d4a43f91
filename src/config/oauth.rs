//! How mcpd is let in at a server that wants to know for whom it asks. No `Debug` here shows a secret.

use std::fmt;

use super::keys::Choice;

/// Whether mcpd logs in at a server that asks for that. Source: MCP 2025-11-25, `basic/authorization`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OAuth {
    /// No: what the headers say is all there is.
    Off,
    /// For the user, once `mcpd login` was run, or as itself.
    On(OAuthSettings),
}

/// What a person knows of that beforehand. `Debug` does not show the secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OAuthSettings {
    /// For whom mcpd logs in; what the authorization server offers decides if it is not given.
    pub grant: Option<OAuthGrant>,
    /// As what mcpd is known to the authorization server, or the `https://` URL of a document that says so; if it is not
    /// given, mcpd registers itself.
    pub client_id: Option<String>,
    /// What goes with it. It is among the [`Remote::secrets`](super::Remote::secrets).
    pub client_secret: Option<String>,
    /// What is asked for, in the place of what the server says.
    pub scopes: Vec<String>,
    /// The port of 127.0.0.1 that the browser is sent back to; any that is free if it is not given.
    pub redirect_port: Option<u16>,
}

/// For whom mcpd logs in. Source: OAuth 2.1, 4.1 and 4.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OAuthGrant {
    /// For a person, who agrees in a browser.
    AuthorizationCode,
    /// For itself, by its [`OAuthSettings::client_id`] and [`OAuthSettings::client_secret`]; nobody is asked.
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
