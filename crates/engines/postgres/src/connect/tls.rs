//! TLS with rustls for connections to PostgreSQL.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use entourage_model::{Error, Result};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::{TlsConnector, client};

use super::url::{Mode, Options, Roots};

/// The name by which PostgreSQL's protocol goes in TLS.
const PROTOCOL: &[u8] = b"postgresql";
/// The driver's words.
const NOT_OFFERED: &str = "server does not support TLS";

/// Makes connections encrypted; whether it is asked to is a matter of the driver's `sslmode`.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    /// Whether the name of the host is compared.
    names_host: bool,
}

impl Tls {
    pub(super) fn new(options: &Options) -> Result<Self> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let lenient = |chain| Arc::new(Lenient { provider: Arc::clone(&provider), chain });
        let verifier: Arc<dyn ServerCertVerifier> = match options.mode {
            Mode::Disable | Mode::Prefer | Mode::Require => lenient(None),
            Mode::VerifyCa => lenient(Some(chain_verifier(&options.roots, &provider)?)),
            Mode::VerifyFull => chain_verifier(&options.roots, &provider)?,
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal("TLS has no versions").caused_by(error))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        let names_host = options.mode == Mode::VerifyFull;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), names_host })
    }
}

fn chain_verifier(roots: &Roots, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>> {
    let trusted = match roots {
        Roots::File(file) => {
            let wrong = |detail: String| Error::invalid(format!("store.url: sslrootcert={}: {detail}", file.display()));
            let bytes = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
            let certificates: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
                .collect::<Result<_, _>>()
                .map_err(|error| wrong(format!("is no PEM: {error}")))?;
            let mut trusted = RootCertStore::empty();
            for certificate in certificates {
                trusted.add(certificate).map_err(|error| wrong(format!("has no CA that can be used: {error}")))?;
            }
            if trusted.is_empty() {
                return Err(wrong("has no certificate in it".to_owned()));
            }
            trusted
        }
        Roots::System => {
            let mut trusted = RootCertStore::empty();
            // One that cannot be used is as if it were not there.
            trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if trusted.is_empty() {
                let detail = "store.url: this machine trusts no CA; name one with sslrootcert=FILE";
                return Err(Error::invalid(detail));
            }
            trusted
        }
    };
    WebPkiServerVerifier::builder_with_provider(Arc::new(trusted), Arc::clone(provider))
        .build()
        .map_err(|error| Error::invalid("store.url: the certificates of sslrootcert cannot be used").caused_by(error))
}

/// Less than `verify-full`. Without a chain anybody may answer, though nobody listens: `prefer` and `require`. With one the
/// chain counts, whatever host the certificate is for: `verify-ca`.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    chain: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name comes last: everything else has been found right.
            Err(error) if is_about_the_name(&error) => Ok(ServerCertVerified::assertion()),
            done => done,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn is_about_the_name(error: &rustls::Error) -> bool {
    matches!(
        error,
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        )
    )
}

/// Says what is wrong with the encryption of a connection, if that is what failed.
pub(crate) fn explain(error: &tokio_postgres::Error) -> Option<Error> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.to_string() == NOT_OFFERED {
            let detail = "PostgreSQL does not offer TLS, and sslmode of store.url asks for it";
            return Some(Error::unavailable(detail));
        }
        // An error of the network wraps that of TLS.
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let of_tls = wrapped.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(reason) = of_tls.or_else(|| cause.downcast_ref::<rustls::Error>()) {
            return Some(Error::unavailable(said(reason)));
        }
        source = cause.source();
    }
    None
}

fn said(error: &rustls::Error) -> String {
    match error {
        // Two authorities of one name differ in their signatures.
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "the certificate of PostgreSQL is not signed by a CA that sslrootcert of store.url trusts".to_owned()
        }
        error if is_about_the_name(error) => {
            format!("the certificate of PostgreSQL is for another host than store.url names: {error}")
        }
        error => format!("no TLS with PostgreSQL: {error}"),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Handshake> {
        let name = ServerName::try_from(domain.to_owned());
        let name = match name {
            Ok(name) => name,
            Err(error) if self.names_host => return Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
            // Nobody looks at it.
            Err(_) => ServerName::try_from("localhost").map_err(io::Error::other)?,
        };
        Ok(Handshake { connector: self.connector.clone(), name })
    }
}

/// The next step of a connection.
pub(crate) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { Ok(Encrypted(self.connector.connect(self.name, stream).await?)) })
    }
}

pub(crate) struct Encrypted<S>(client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    /// A verified certificate binds the connection to PostgreSQL already.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
