//! Trusted certificates: the system's authorities and, for a server that has one, its `ca_file`.
//!
//! The system's are read once, when the first connection needs TLS. `SSL_CERT_FILE` and `SSL_CERT_DIR` name other ones, as for
//! other programs.
//!
//! A certificate in `ca_file` is also accepted as the server's own, as `openssl req -x509` makes one for a single server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;

use super::error::{NetError, NetErrorKind};
use super::stream::Stream;

/// Cached TLS sessions, which make the next connection cheaper: of 32 hosts, as rustls counts.
const MAX_TLS_SESSIONS: usize = 256;

/// The system's authorities, read when they are first needed. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Roots(Arc<OnceCell<Arc<RootCertStore>>>);

impl Roots {
    async fn get(&self) -> Result<&Arc<RootCertStore>, NetError> {
        self.0.get_or_try_init(|| on_helper(system_roots)).await
    }

    #[cfg(test)]
    pub(super) fn is_ready(&self) -> bool {
        self.0.initialized()
    }
}

/// The TLS configuration of a server's clients. Cheap to clone; clones share cached TLS sessions.
#[derive(Clone)]
pub(super) struct Tls(Arc<Parts>);

struct Parts {
    system: Roots,
    /// The certificates of `ca_file`, if there is one.
    ca_file: Option<Vec<CertificateDer<'static>>>,
    /// Built for the first `https://` URL.
    config: OnceCell<Arc<ClientConfig>>,
}

impl Tls {
    /// Trusts the system's authorities.
    pub(super) fn new(system: Roots) -> Self {
        Self(Arc::new(Parts { system, ca_file: None, config: OnceCell::new() }))
    }

    /// Trusts the system's authorities and the certificates of `ca_file`, which is read now.
    pub(super) async fn with_ca_file(system: Roots, path: PathBuf) -> Result<Self, NetError> {
        let ca_file = Some(on_helper(move || read_ca_file(&path)).await?);
        Ok(Self(Arc::new(Parts { system, ca_file, config: OnceCell::new() })))
    }

    /// Fails if there is no certificate to trust.
    pub(super) async fn ready(&self) -> Result<(), NetError> {
        self.config().await.map(drop)
    }

    /// Starts TLS on a connection to the host with this name or address.
    pub(super) async fn open(&self, stream: Stream, host: &str) -> io::Result<Stream> {
        handshake(self.config().await.map_err(io::Error::other)?, stream, host).await
    }

    /// Starts TLS on a connection to a proxy, which needs no ALPN: mcpd only sends it `CONNECT`.
    pub(super) async fn open_proxy(&self, stream: Stream, host: &str) -> io::Result<Stream> {
        let mut config = ClientConfig::clone(self.config().await.map_err(io::Error::other)?);
        config.alpn_protocols.clear();
        handshake(&Arc::new(config), stream, host).await
    }

    async fn config(&self) -> Result<&Arc<ClientConfig>, NetError> {
        self.0.config.get_or_try_init(|| self.0.build()).await
    }
}

impl Parts {
    async fn build(&self) -> Result<Arc<ClientConfig>, NetError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let mut config = match &self.ca_file {
            None => builder.with_root_certificates(Arc::clone(self.system.get().await?)).with_no_client_auth(),
            Some(certificates) => {
                // `ca_file` is enough: a system without authorities is no error here.
                let system = self.system.get().await;
                let mut roots = system.map_or_else(|_| RootCertStore::empty(), |roots| RootCertStore::clone(roots));
                roots.add_parsable_certificates(certificates.iter().cloned());
                let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
                let inner = verifier.map_err(|error| error.to_string())?;
                let verifier = SelfSignedVerifier { inner, certificates: certificates.clone() };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
            }
        };
        config.alpn_protocols = [&b"h2"[..], b"http/1.1"].map(Vec::from).into();
        config.resumption = Resumption::in_memory_sessions(MAX_TLS_SESSIONS);
        Ok(Arc::new(config))
    }
}

async fn handshake(config: &Arc<ClientConfig>, stream: Stream, host: &str) -> io::Result<Stream> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let tls = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
    Ok(Stream::Tls(Box::new(tls)))
}

/// Verifies certificates with rustls, and also accepts a self-signed one that is in `ca_file`.
#[derive(Debug)]
struct SelfSignedVerifier {
    inner: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for SelfSignedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // webpki checks the validity dates before it refuses an authority's certificate as a server's. The name is left.
            Err(error) if is_ca_used_as_end_entity(&error) && self.certificates.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

pub(super) fn is_ca_used_as_end_entity(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

async fn on_helper<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NetError> + Send + 'static,
) -> Result<T, NetError> {
    spawn_blocking(work).await.map_err(|error| error.to_string())?
}

fn system_roots() -> Result<Arc<RootCertStore>, NetError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        let help = "install the package `ca-certificates`, or set `ca_file`";
        let text = format!("found no certificates of authorities on this system{why}; {help}");
        return Err(NetError::new(NetErrorKind::NoAuthorities, text));
    }
    Ok(Arc::new(roots))
}

/// The certificates of a `ca_file`; at least one, each usable as an authority.
fn read_ca_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, NetError> {
    let shown = path.display();
    let failed = |text: String| NetError::new(NetErrorKind::CaFile, text);
    let text = std::fs::read(path).map_err(|error| failed(format!("cannot read its `ca_file` {shown}: {error}")))?;
    let unreadable =
        |error: String| failed(format!("its `ca_file` {shown} holds a certificate that cannot be read: {error}"));
    let (mut roots, mut certificates) = (RootCertStore::empty(), Vec::new());
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate.clone()).map_err(|error| unreadable(error.to_string()))?;
        certificates.push(certificate);
    }
    if certificates.is_empty() {
        return Err(failed(format!("its `ca_file` {shown} holds no certificate in PEM")));
    }
    Ok(certificates)
}
