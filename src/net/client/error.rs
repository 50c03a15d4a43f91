//! Why the other end could not be reached, as a code for programs and a text for people.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use rustls::{CertificateError, InvalidMessage};

use super::response::cause;
use super::trust::is_ca_used_as_end_entity;

const NOT_PLAIN: &str = "write `https://` in its `url` if it serves HTTPS";
const NOT_TLS: &str = "it answers without TLS: write `http://` in its `url` if it serves plain HTTP";

/// Why nothing could be sent. The text has one line and never holds the URL, whose path may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetError {
    kind: NetErrorKind,
    text: String,
}

/// What a person has to repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetErrorKind {
    /// The proxy, not the server.
    Proxy,
    SelfSigned,
    UnknownIssuer,
    WrongName,
    Expired,
    NotYetValid,
    InvalidCertificate,
    NoAuthorities,
    CaFile,
    NameLookup,
    ConnectionRefused,
    NetworkUnreachable,
    /// The process that listens must not receive the request.
    ForeignListener,
    /// The server redirects to another origin.
    Redirect,
    /// The server answers without TLS.
    NotTls,
    /// The server gives no HTTP response to a request without TLS.
    NotPlain,
    Other,
}

impl NetErrorKind {
    fn of_tls(error: &rustls::Error) -> Option<Self> {
        let refusal = match error {
            rustls::Error::InvalidCertificate(refusal) => refusal,
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => return Some(Self::NotTls),
            _ => return None,
        };
        Some(match refusal {
            _ if is_ca_used_as_end_entity(error) => Self::SelfSigned,
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Self::WrongName,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            _ => Self::InvalidCertificate,
        })
    }

    fn of_io(error: &io::Error) -> Option<Self> {
        match (error.kind(), error.get_ref()) {
            (ErrorKind::ConnectionRefused, _) => Some(Self::ConnectionRefused),
            (ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable, _) => Some(Self::NetworkUnreachable),
            (_, Some(inner)) => Self::of_link(inner),
            (_, None) => None,
        }
    }

    /// What one error of a chain shows.
    fn of_link(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(error) = error.downcast_ref::<NetError>() {
            return Some(error.kind);
        }
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Self::of_tls(error);
        }
        error.downcast_ref::<io::Error>().and_then(Self::of_io)
    }
}

impl NetError {
    pub(crate) fn new(kind: NetErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// By the whole chain of causes. The text is that of the deepest one.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let (mut kind, mut link) = (None, Some(error));
        while let (None, Some(error)) = (kind, link) {
            (kind, link) = (NetErrorKind::of_link(error), error.source());
        }
        match kind {
            Some(NetErrorKind::NotTls) => Self::new(NetErrorKind::NotTls, NOT_TLS),
            _ => Self::new(kind.unwrap_or(NetErrorKind::Other), cause(error)),
        }
    }

    /// The same error with `start` before its text.
    #[must_use]
    pub fn prefixed(self, start: &str) -> Self {
        Self { text: format!("{start}{}", self.text), ..self }
    }

    /// The same error with a text that `edit` has changed.
    #[must_use]
    pub fn with_text(self, edit: impl FnOnce(&str) -> String) -> Self {
        Self { text: edit(&self.text), ..self }
    }

    /// A stable word for the cause.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self.kind {
            NetErrorKind::Proxy => "proxy",
            NetErrorKind::SelfSigned => "certificate_self_signed",
            NetErrorKind::UnknownIssuer => "certificate_unknown_issuer",
            NetErrorKind::WrongName => "certificate_wrong_name",
            NetErrorKind::Expired => "certificate_expired",
            NetErrorKind::NotYetValid => "certificate_not_yet_valid",
            NetErrorKind::InvalidCertificate => "certificate_invalid",
            NetErrorKind::NoAuthorities => "no_certificate_authorities",
            NetErrorKind::CaFile => "ca_file",
            NetErrorKind::NameLookup => "name_lookup",
            NetErrorKind::ConnectionRefused => "connection_refused",
            NetErrorKind::NetworkUnreachable => "network_unreachable",
            NetErrorKind::ForeignListener => "foreign_listener",
            NetErrorKind::Redirect => "redirect",
            NetErrorKind::NotTls => "not_tls",
            NetErrorKind::NotPlain => "not_plain",
            NetErrorKind::Other => "unreachable",
        }
    }

    /// The same error of the first request, which may have the wrong scheme. A later one has not.
    #[must_use]
    pub(crate) fn of_first_request(self) -> Self {
        if self.kind == NetErrorKind::NotPlain { self.with_text(|text| format!("{text}: {NOT_PLAIN}")) } else { self }
    }

    /// Whether nothing listens there.
    pub(crate) fn is_refused_connection(&self) -> bool {
        self.kind == NetErrorKind::ConnectionRefused
    }

    /// Whether the server was reached, and its redirect was refused.
    pub(crate) fn is_redirect(&self) -> bool {
        self.kind == NetErrorKind::Redirect
    }
}

impl From<String> for NetError {
    fn from(text: String) -> Self {
        Self::new(NetErrorKind::Other, text)
    }
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for NetError {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn code_names_what_a_person_has_to_repair() {
        let check = |error: &(dyn Error + 'static), code| assert_eq!(NetError::of(error).code(), code, "{error}");
        for (refusal, code) in [
            (CertificateError::UnknownIssuer, "certificate_unknown_issuer"),
            (
                CertificateError::Other(OtherError(Arc::new(webpki::Error::CaUsedAsEndEntity))),
                "certificate_self_signed",
            ),
            (CertificateError::NotValidForName, "certificate_wrong_name"),
            (CertificateError::Expired, "certificate_expired"),
            (CertificateError::NotValidYet, "certificate_not_yet_valid"),
            (CertificateError::BadSignature, "certificate_invalid"),
        ] {
            // As tokio-rustls wraps it.
            let error = io::Error::new(ErrorKind::InvalidData, rustls::Error::InvalidCertificate(refusal));
            check(&error, code);
        }
        check(&io::Error::from(ErrorKind::ConnectionRefused), "connection_refused");
        check(&io::Error::from(ErrorKind::HostUnreachable), "network_unreachable");
        check(&io::Error::other(NetError::new(NetErrorKind::NameLookup, "not known")), "name_lookup");
        check(&NetError::new(NetErrorKind::Proxy, "the proxy cannot be reached: refused"), "proxy");
        check(&io::Error::other("anything else"), "unreachable");
    }
}
