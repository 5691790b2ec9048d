//! Credentials of requests, and trusted certificate authorities.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, ensure};
use clap::Args;
use entourage_model::Error;
use entourage_server::config::without_secrets;
use rustls::{
    CertificateError, ClientConfig, RootCertStore,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, pem::PemObject},
};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

#[derive(Args, Clone, Debug)]
pub(crate) struct Access {
    /// A service key or token, in a file; otherwise ENTOURAGE_KEY is sent, if it is set.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) authorities: Authorities,
}

/// Who may sign a server's certificate.
#[derive(Args, Clone, Debug)]
pub(crate) struct Authorities {
    /// Over https, trust the authorities in this PEM file instead of those of the system.
    #[arg(long, value_name = "FILE", env = "ENTOURAGE_CA_FILE")]
    ca_file: Option<PathBuf>,
}

impl Access {
    /// A service key or token. Never from the command line, which every user of the machine can read.
    pub(crate) fn key(&self) -> anyhow::Result<Option<String>> {
        let key = match &self.key_file {
            Some(path) => Some(std::fs::read_to_string(path).with_context(|| path.display().to_string())?),
            None => std::env::var("ENTOURAGE_KEY").ok(),
        };
        Ok(key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()))
    }
}

impl Authorities {
    /// For requests to this address; reads no file without TLS.
    pub(crate) fn for_ureq(&self, server: &str) -> anyhow::Result<TlsConfig> {
        let builder = TlsConfig::builder().unversioned_rustls_crypto_provider(provider());
        if !is_https(server) {
            return Ok(builder.build());
        }
        let roots = self.load()?.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
        Ok(builder.root_certs(RootCerts::Specific(Arc::new(roots))).build())
    }

    /// For requests that carry no credential and whose response need not be trusted.
    pub(crate) fn unchecked() -> TlsConfig {
        TlsConfig::builder().unversioned_rustls_crypto_provider(provider()).disable_verification(true).build()
    }

    /// For connections that no HTTP client makes.
    pub(crate) fn for_rustls(&self) -> anyhow::Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.load()?);
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }

    fn load(&self) -> anyhow::Result<Vec<CertificateDer<'static>>> {
        match &self.ca_file {
            Some(path) => read(path).with_context(|| format!("--ca-file {}", path.display())),
            None => {
                let found = rustls_native_certs::load_native_certs();
                let why = || found.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                ensure!(
                    !found.certs.is_empty(),
                    "this system has no certificates of authorities ({}); name a file with --ca-file",
                    why()
                );
                Ok(found.certs)
            }
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
    ensure!(!found.is_empty(), "there is no certificate in it");
    Ok(found)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

pub(crate) fn is_https(server: &str) -> bool {
    server.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// Why the server is unreachable, and what to change.
pub(crate) fn unreachable(server: &str, error: &(dyn std::error::Error + 'static), next: &str) -> Error {
    let next = match distrust(error) {
        None => next,
        Some(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => {
            "ask for it by a name that its certificate has"
        }
        Some(_) => "name the authority that signed its certificate with --ca-file",
    };
    Error::unavailable(format!("no server answers at {} ({error}); {next}", without_secrets(server)))
}

/// Why the server's certificate was rejected.
fn distrust<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a CertificateError> {
    let io = match error.downcast_ref() {
        Some(ureq::Error::Rustls(rustls::Error::InvalidCertificate(why))) => return Some(why),
        Some(ureq::Error::Io(io)) => Some(io),
        _ => error.downcast_ref::<std::io::Error>(),
    };
    match io.and_then(std::io::Error::get_ref).and_then(|inner| inner.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(why)) => Some(why),
        _ => None,
    }
}
