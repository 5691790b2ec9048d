//! HTTPS: who shakes hands properly is served, who does not keeps nobody waiting.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_server::{Front, Tls, config::TlsSettings};
use entourage_service::Rules;
use entourage_store::SystemClock;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
    crypto::aws_lc_rs,
    pki_types::ServerName,
    version::{TLS12, TLS13},
};

use super::{
    credentials::Credentials,
    server::{Server, memory_store},
};

struct Https {
    server: Server,
    settings: TlsSettings,
    roots: RootCertStore,
    _folder: Credentials,
}

fn certificate() -> (rcgen::Certificate, String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    (made.cert, cert, key)
}

fn trusting(certificate: &rcgen::Certificate) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    roots
}

fn serving() -> Https {
    let folder = Credentials::new();
    let settings = TlsSettings { cert_file: folder.path("cert.pem"), key_file: folder.path("key.pem") };
    let (made, cert, key) = certificate();
    std::fs::write(&settings.cert_file, cert).unwrap();
    std::fs::write(&settings.key_file, key).unwrap();
    let tls = Some(Tls::open(&settings).unwrap());
    let front = Front { tls, ..Front::development(Arc::new(SystemClock)) };
    let server = Server::behind(front, memory_store(1), Rules::default());
    Https { server, settings, roots: trusting(&made), _folder: folder }
}

/// The first line of the answer to a request for `/healthz`, over one of these versions.
fn healthz(
    https: &Https,
    roots: &RootCertStore,
    version: &'static SupportedProtocolVersion,
) -> std::io::Result<String> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(https.server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut reply = [0; 15];
    stream.read_exact(&mut reply)?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

#[test]
fn both_versions_are_served_to_who_trusts_the_certificate() {
    let https = serving();
    for version in [&TLS12, &TLS13] {
        assert_eq!(healthz(&https, &https.roots, version).unwrap(), "HTTP/1.1 200 OK");
        assert!(
            healthz(&https, &trusting(&certificate().0), version).is_err(),
            "a stranger's certificate was believed"
        );
    }
}

#[test]
fn plain_requests_and_older_versions_are_refused() {
    let https = serving();
    let mut plain = TcpStream::connect(https.server.address).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    let _ = plain.read_to_end(&mut reply);
    assert!(!reply.starts_with(b"HTTP/"), "{}", String::from_utf8_lossy(&reply));
    // A hello of TLS 1.1: the answer is an alert, or the end.
    let mut old = TcpStream::connect(https.server.address).unwrap();
    old.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut hello = vec![0x03, 0x02];
    hello.extend([7; 32]);
    hello.extend([0, 0, 4, 0xc0, 0x13, 0x00, 0x2f, 1, 0]);
    let length = u16::try_from(hello.len()).unwrap().to_be_bytes();
    let mut record = vec![0x16, 0x03, 0x01];
    record.extend((u16::try_from(hello.len()).unwrap() + 4).to_be_bytes());
    record.extend([1, 0, length[0], length[1]]);
    record.extend(hello);
    old.write_all(&record).unwrap();
    let mut reply = Vec::new();
    let _ = old.read_to_end(&mut reply);
    assert!(reply.is_empty() || reply[0] == 0x15, "{reply:?}");
    assert_eq!(healthz(&https, &https.roots, &TLS13).unwrap(), "HTTP/1.1 200 OK");
}

#[test]
fn a_handshake_that_stalls_is_dropped_while_others_are_served() {
    let https = serving();
    let started = Instant::now();
    let stalled: Vec<TcpStream> = [&b""[..], &[0x16], &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]]
        .into_iter()
        .map(|sent| {
            let mut stream = TcpStream::connect(https.server.address).unwrap();
            stream.write_all(sent).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
            stream
        })
        .collect();
    assert_eq!(healthz(&https, &https.roots, &TLS13).unwrap(), "HTTP/1.1 200 OK");
    assert!(started.elapsed() < Duration::from_secs(8), "others wait for a handshake");
    for mut stream in stalled {
        let mut rest = Vec::new();
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
    assert_eq!(healthz(&https, &https.roots, &TLS13).unwrap(), "HTTP/1.1 200 OK");
}

#[test]
fn a_handshake_that_stalls_does_not_delay_the_stop() {
    let mut https = serving();
    let mut stalled = TcpStream::connect(https.server.address).unwrap();
    stalled.write_all(&[0x16, 0x03, 0x01]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let started = Instant::now();
    https.server.ask_to_stop();
    https.server.wait();
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

#[test]
fn a_new_certificate_is_used_without_a_restart() {
    let https = serving();
    let (made, cert, key) = certificate();
    let fresh = trusting(&made);
    assert!(healthz(&https, &fresh, &TLS13).is_err());
    std::fs::write(&https.settings.cert_file, cert).unwrap();
    std::fs::write(&https.settings.key_file, key).unwrap();
    let used = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        healthz(&https, &fresh, &TLS13).is_ok()
    });
    assert!(used, "the old certificate is still shown");
}

#[test]
fn a_key_of_another_certificate_is_refused_at_the_start() {
    let folder = Credentials::new();
    let settings = TlsSettings { cert_file: folder.path("cert.pem"), key_file: folder.path("key.pem") };
    std::fs::write(&settings.cert_file, certificate().1).unwrap();
    std::fs::write(&settings.key_file, certificate().2).unwrap();
    let error = Tls::open(&settings).err().unwrap().to_string();
    assert!(error.contains("cert.pem") && error.contains("cannot be used with this key"), "{error}");
    std::fs::write(&settings.key_file, "nothing").unwrap();
    assert!(Tls::open(&settings).err().unwrap().to_string().contains("private key"));
}
