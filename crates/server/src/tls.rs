//! TLS with rustls defaults: 1.2 and 1.3, forward secrecy, no early data. The certificate is reloaded when its files
//! change.

use std::{io, sync::Arc, time::Duration};

use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        version::{TLS12, TLS13},
    },
    server::TlsStream,
};

use crate::{
    config::{ConfigError, TlsSettings},
    file_watcher::FileWatcher,
};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Tls(FileWatcher<ServerConfig>);

impl Tls {
    pub fn open(settings: &TlsSettings) -> Result<Self, ConfigError> {
        let files = vec![settings.cert_file.clone(), settings.key_file.clone()];
        Ok(Self(FileWatcher::open("tls.cert_file", files, parse)?))
    }

    pub(crate) fn reload(&self) {
        self.0.reload();
    }

    pub(crate) fn stale(&self) -> Option<&'static str> {
        self.0.stale()
    }

    /// The handshake, with a timeout.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = self.0.get();
        let accepted = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await;
        accepted.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long"))?
    }
}

fn parse(files: &[Vec<u8>]) -> Result<ServerConfig, String> {
    let [certificates, key] = files else { return Err("a certificate and a key are two files".to_owned()) };
    let certificates = CertificateDer::pem_slice_iter(certificates)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("the certificate is no PEM: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the private key is no PEM: {error}"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| format!("the certificate cannot be used with this key: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
