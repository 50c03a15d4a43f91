//! Why a login, a renewal or a logout has failed. Each error is one line for a person, without secrets.

use super::authorization::CallbackError;
use super::http::NoResponse;
use super::metadata::{InvalidEndpoint, NoPage};
use super::store::StoreError;
use crate::net::client::SuppliedUrlError;
use crate::random::NoRandomNumbers;

/// Why a login, a renewal or a logout has failed. `issuer` is the printable origin or name of an authorization server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    NoResponse(#[from] NoResponse),
    #[error(transparent)]
    Callback(#[from] CallbackError),
    #[error(transparent)]
    NoRandomNumbers(#[from] NoRandomNumbers),
    #[error(transparent)]
    Endpoint(#[from] InvalidEndpoint),
    /// The same, with what the URL is for.
    #[error("{what}: {source}")]
    NamedEndpoint { what: NamedUrl, source: InvalidEndpoint },
    #[error("the page of its authorization server: {0}")]
    Page(#[source] SuppliedUrlError),
    #[error("its authorization server {issuer}: {source}")]
    NoPage { issuer: String, source: NoPage },
    #[error("its metadata belongs to another server")]
    ForeignMetadata,
    #[error("its authorization server {issuer} has no metadata")]
    NoIssuerMetadata { issuer: String },
    #[error("its authorization server {issuer} has metadata of another authorization server")]
    OtherIssuer { issuer: String },
    /// An authorization server that the server's own metadata names.
    #[error("the metadata of the authorization server {issuer} belongs to another one")]
    ForeignIssuerMetadata { issuer: String },
    #[error("its authorization server changed from {before} to {now}")]
    ChangedIssuer { before: String, now: String },
    #[error("nobody has logged in to it")]
    NotLoggedIn,
    /// The client secret is not used.
    #[error("it needs a login, and its `oauth` does not set `grant = \"client_credentials\"`")]
    GrantUnset,
    #[error("`client_id` is not set")]
    NoClientId,
    #[error(
        "{issuer} does not support dynamic registration: register mcpd there, and set for the server \
         `oauth = {{ client_id = \"…\", redirect_port = … }}`"
    )]
    NoRegistration { issuer: String },
    #[error("{issuer} does not register mcpd: it {reason}")]
    RegistrationRefused { issuer: String, reason: String },
    #[error("{issuer} sends no token: it {reason}")]
    TokenRefused { issuer: String, reason: String },
    #[error("{issuer} sends no token for the client credentials: it {reason}")]
    ClientCredentialsRefused { issuer: String, reason: String },
    #[error("{issuer} does not renew the login: it {reason}{}", after(.lost))]
    RenewalRefused {
        issuer: String,
        reason: String,
        /// Why the answer to an earlier request was lost, if one was.
        lost: Option<String>,
    },
    #[error("its authorization server cannot revoke tokens: they expire by themselves")]
    NoRevocation,
    #[error("{issuer} does not revoke the token: status {status}")]
    RevocationRefused { issuer: String, status: u16 },
    #[error("cannot listen on 127.0.0.1:{port} for the browser: {source}")]
    Listen { port: u16, source: std::io::Error },
}

/// What a URL is for that a server or its authorization server has named.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(crate) enum NamedUrl {
    #[error("the URL of its metadata")]
    Metadata,
    #[error("its authorization server")]
    Issuer,
    #[error("the page of its authorization server")]
    Page,
    #[error("the token endpoint of its authorization server")]
    Token,
    #[error("the registration endpoint of its authorization server")]
    Registration,
    #[error("the revocation endpoint of its authorization server")]
    Revocation,
}

impl NamedUrl {
    /// The error about this URL.
    pub(super) fn invalid(self, source: InvalidEndpoint) -> LoginError {
        LoginError::NamedEndpoint { what: self, source }
    }
}

fn after(lost: &Option<String>) -> String {
    lost.as_ref().map_or_else(String::new, |why| format!(", after its answer to an earlier request was lost ({why})"))
}
