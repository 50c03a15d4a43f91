//! Whose certificates are believed: the system's authorities and, for a server that says so, one of its own.
//!
//! The system's are read once, by whoever needs them first; `SSL_CERT_FILE` and `SSL_CERT_DIR` say where, as they do for
//! other programs. A server's own are kept beside them, not together with a copy of them all.
//!
//! A certificate in `ca_file` is also accepted as the server's own, as `openssl req -x509` makes one for a single server.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;

use super::error::{NetError, NetErrorKind};
use super::stream::Stream;

/// TLS sessions that are kept so that the next connection is cheaper: of 32 hosts, as rustls counts.
const KEPT_SESSIONS: usize = 256;

/// The system's authorities, once they were needed. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Roots(Arc<OnceCell<Arc<WebPkiServerVerifier>>>);

impl Roots {
    /// Reads them, if they are not there yet.
    pub(super) async fn ready(&self) -> Result<(), NetError> {
        self.0.get_or_try_init(|| on_helper(system)).await.map(|_| ())
    }

    #[cfg(test)]
    pub(super) fn is_ready(&self) -> bool {
        self.0.initialized()
    }
}

/// How clients speak TLS, and whom they trust then. Cheap to clone; clones share the sessions that are kept.
#[derive(Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    system: Roots,
    has_own: bool,
}

impl Tls {
    /// With the authorities of the system, and those of `ca_file`, if there is one, which is read now.
    pub(super) async fn new(system: Roots, ca_file: Option<PathBuf>) -> Result<Self, NetError> {
        let own = match ca_file {
            Some(path) => Some(on_helper(move || own(&path)).await?),
            None => None,
        };
        let (provider, has_own) = (provider(), own.is_some());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        // What is called dangerous is to verify otherwise; this leaves all of it to the verifiers of rustls.
        let verifier = Arc::new(Trust { system: system.clone(), own, provider });
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = [&b"h2"[..], b"http/1.1"].map(Vec::from).into();
        config.resumption = Resumption::in_memory_sessions(KEPT_SESSIONS);
        Ok(Self { config: Arc::new(config), system, has_own })
    }

    /// Sees that there is somebody to trust.
    pub(super) async fn ready(&self) -> Result<(), NetError> {
        self.system.ready().await.or_else(|reason| if self.has_own { Ok(()) } else { Err(reason) })
    }

    /// Speaks TLS with the host of this name, or address, to which a connection stands.
    pub(super) async fn open(&self, stream: Stream, host: &str) -> io::Result<Stream> {
        handshake(&self.config, stream, host).await
    }

    /// The same with a proxy, which is asked for nothing but a tunnel.
    pub(super) async fn open_proxy(&self, stream: Stream, host: &str) -> io::Result<Stream> {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols.clear();
        handshake(&Arc::new(config), stream, host).await
    }
}

async fn handshake(config: &Arc<ClientConfig>, stream: Stream, host: &str) -> io::Result<Stream> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let tls = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
    Ok(Stream::Tls(Box::new(tls)))
}

/// Who looks at certificates.
struct Trust {
    system: Roots,
    own: Option<CaFile>,
    provider: Arc<CryptoProvider>,
}

/// The certificates of a `ca_file`.
struct CaFile {
    verifier: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl CaFile {
    /// Accepts authorities as [`WebPkiServerVerifier`] does, and a certificate of the file itself.
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // webpki checks the validity dates before it refuses an authority's certificate as a server's. Only the name is left.
            Err(refusal) if is_ca_used_as_end_entity(&refusal) && self.certificates.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }
}

pub(super) fn is_ca_used_as_end_entity(refusal: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = refusal else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let mut refusal = unknown.clone();
        let own = self.own.iter().map(|own| own.verify(end_entity, intermediates, server_name, ocsp_response, now));
        let system = self.system.0.get().into_iter();
        let system =
            system.map(|system| system.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now));
        for verified in own.chain(system) {
            match verified {
                Ok(verified) => return Ok(verified),
                // Whoever knows the issuer knows best what is wrong.
                Err(error) if refusal == unknown => refusal = error,
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("own", &self.own.is_some()).finish_non_exhaustive()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

async fn on_helper<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NetError> + Send + 'static,
) -> Result<T, NetError> {
    spawn_blocking(work).await.map_err(|error| error.to_string())?
}

fn system() -> Result<Arc<WebPkiServerVerifier>, NetError> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
    let help = "install the package `ca-certificates`, or set `ca_file`";
    verifier(store).map_err(|_| {
        NetError::new(
            NetErrorKind::NoAuthorities,
            format!("found no certificates of authorities on this system{why}; {help}"),
        )
    })
}

fn own(path: &Path) -> Result<CaFile, NetError> {
    let shown = path.display();
    let failed = |text: String| NetError::new(NetErrorKind::CaFile, text);
    let text = std::fs::read(path).map_err(|error| failed(format!("cannot read its `ca_file` {shown}: {error}")))?;
    let unreadable =
        |error: String| failed(format!("its `ca_file` {shown} holds a certificate that cannot be read: {error}"));
    let (mut store, mut certificates) = (RootCertStore::empty(), Vec::new());
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        store.add(certificate.clone()).map_err(|error| unreadable(error.to_string()))?;
        certificates.push(certificate);
    }
    let verifier = verifier(store).map_err(|_| failed(format!("its `ca_file` {shown} holds no certificate in PEM")))?;
    Ok(CaFile { verifier, certificates })
}

/// Fails if the store is empty.
fn verifier(store: RootCertStore) -> Result<Arc<WebPkiServerVerifier>, rustls::client::VerifierBuilderError> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider()).build()
}
