//! TLS before a server that has none, with a certificate for `localhost`, 127.0.0.1 and the hosts of `example.org` by an authority of the tests' own.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection};

use super::locked::Lock;
use super::relay::{Relay, copy};

/// Dropping it ends every connection.
pub(crate) struct Tls(Relay);

impl Tls {
    pub(crate) fn before(server: SocketAddr) -> Self {
        Self::at([127, 0, 0, 1], server)
    }

    /// Listens at another address of this machine.
    pub(crate) fn at(host: [u8; 4], server: SocketAddr) -> Self {
        Self::start(host, server, config(b"http/1.1"))
    }

    /// Presents another certificate than the test authority's, and signs with `key`, which may belong to another certificate.
    pub(crate) fn presenting(certificate: &str, key: &str, server: SocketAddr) -> Self {
        let certificate = CertificateDer::from_pem_file(fixture(&format!("{certificate}.pem"))).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(fixture(&format!("{key}.key"))).expect("a key");
        let key = ring::sign::any_supported_type(&key).expect("a key of a known kind");
        let resolver = Arc::new(SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key)));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        Self::start([127, 0, 0, 1], server, Arc::new(config.with_cert_resolver(resolver)))
    }

    fn start(host: [u8; 4], server: SocketAddr, config: Arc<ServerConfig>) -> Self {
        Self(Relay::start(IpAddr::from(host), move |client, keeper| {
            let Some(server) = keeper.connect(server) else { return };
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a sound configuration");
            let ends = Arc::new(Ends { client: copy(&client), server, connection: Lock::new(connection) });
            let back = Arc::clone(&ends);
            keeper.also(move || back.encrypt());
            ends.decrypt(client);
        }))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address()
    }

    pub(crate) fn url(&self, host: &str, path: &str) -> String {
        format!("https://{host}:{}{path}", self.address().port())
    }
}

/// The file of a certificate: `authority` (which signed the server's), `another`, or a self-signed one.
pub(crate) fn authority(name: &str) -> PathBuf {
    fixture(&format!("{name}.pem"))
}

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures/tls", name].iter().collect()
}

/// The TLS configuration of such a server, with `protocol` in ALPN.
pub(super) fn config(protocol: &[u8]) -> Arc<ServerConfig> {
    let certificates = CertificateDer::pem_file_iter(fixture("server.pem")).expect("a file");
    let certificates = certificates.map(|certificate| certificate.expect("a certificate")).collect();
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).expect("a key");
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    let mut config = builder.with_single_cert(certificates, key).expect("they belong together");
    config.alpn_protocols = vec![protocol.to_vec()];
    Arc::new(config)
}

/// One connection.
struct Ends {
    client: TcpStream,
    server: TcpStream,
    connection: Lock<ServerConnection>,
}

impl Ends {
    fn decrypt(&self, mut client: TcpStream) {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = client.read(&mut bytes) {
            let (mut rest, mut plain) = (&bytes[..read], Vec::new());
            let mut connection = self.connection.lock();
            while !rest.is_empty() {
                connection.read_tls(&mut rest).expect("bytes in memory");
                let is_fine = connection.process_new_packets().is_ok();
                // Copies all available bytes.
                let _ = connection.reader().read_to_end(&mut plain);
                if self.flush(&mut connection).is_err() || !is_fine {
                    return self.end();
                }
            }
            drop(connection);
            if (&self.server).write_all(&plain).is_err() {
                break;
            }
        }
        self.end();
    }

    fn encrypt(&self) {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = (&self.server).read(&mut bytes) {
            let mut connection = self.connection.lock();
            connection.writer().write_all(&bytes[..read]).expect("it is flushed each time");
            if self.flush(&mut connection).is_err() {
                break;
            }
        }
        let mut connection = self.connection.lock();
        connection.send_close_notify();
        let _ = self.flush(&mut connection);
        let _ = self.client.shutdown(Shutdown::Write);
    }

    fn flush(&self, connection: &mut ServerConnection) -> std::io::Result<()> {
        while connection.wants_write() {
            connection.write_tls(&mut &self.client)?;
        }
        Ok(())
    }

    fn end(&self) {
        for stream in [&self.client, &self.server] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
