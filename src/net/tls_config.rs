//! TLS settings from PEM text, with errors that say how to mend the files.
//!
//! The cryptography is `ring`'s, named explicitly: no default of the process is read or set.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, InconsistentKeys, RootCertStore, ServerConfig, SignatureScheme,
};

/// What is wrong with a TLS setting.
#[derive(Debug, thiserror::Error)]
pub enum TlsConfigError {
    #[error("{} cannot be read: {source}; check that it exists and that this user may read it", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("cert_file holds no certificate; it must begin with -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    #[error("ca_file holds no certificate; it must begin with -----BEGIN CERTIFICATE-----")]
    NoCaCertificate,
    #[error("a certificate of {file} is damaged: {reason}")]
    DamagedCertificate { file: &'static str, reason: String },
    #[error("key_file holds no private key; it must have a PRIVATE KEY section (PKCS#8, PKCS#1 or SEC 1)")]
    NoKey,
    #[error(
        "the private key of key_file is encrypted; decrypt it first (openssl pkey -in KEY -out PLAIN_KEY)"
    )]
    EncryptedKey,
    #[error(
        "the private key of key_file is damaged or of an unknown kind (RSA, ECDSA and Ed25519 are known): {reason}"
    )]
    UnusableKey { reason: String },
    #[error("the private key of key_file does not belong to the first certificate of cert_file")]
    KeyMismatch,
    #[error("{name:?} is neither a DNS name nor an IP address")]
    BadServerName { name: String },
    #[error("TLS cannot be set up: {reason}")]
    Refused { reason: String },
}

/// Reads a PEM file. Blocks: for the start and for reloads only.
pub fn read_pem(path: &Path) -> Result<Vec<u8>, TlsConfigError> {
    std::fs::read(path).map_err(|source| TlsConfigError::Unreadable { path: path.to_owned(), source })
}

/// How to talk to an upstream: TLS 1.2 and 1.3, ALPN `http/1.1`.
///
/// Trusted are the certificates of `ca_pem`, or Mozilla's roots (the `webpki-roots` crate) without it. With `verify`
/// false any certificate is taken, which is logged as a warning under `upstream`, the name the config gives it.
pub fn client(
    upstream: &str,
    ca_pem: Option<&[u8]>,
    verify: bool,
) -> Result<Arc<ClientConfig>, TlsConfigError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(refused)?;
    let mut config = if verify {
        builder.with_root_certificates(roots(ca_pem)?).with_no_client_auth()
    } else {
        tracing::warn!(
            upstream,
            "tls.verify = false: this upstream's certificate is not checked, so anyone on the way can read its traffic and its key"
        );
        let anyone = Arc::new(AcceptAnyone(provider));
        builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// How to talk to clients: TLS 1.2 and 1.3, ALPN `http/1.1`. `cert_pem` holds the server's certificate first, then
/// those of its issuers.
pub fn server(cert_pem: &[u8], key_pem: &[u8]) -> Result<Arc<ServerConfig>, TlsConfigError> {
    let chain = certificates(cert_pem, "cert_file")?;
    if chain.is_empty() {
        return Err(TlsConfigError::NoCertificate);
    }
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(refused)?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key(key_pem)?).map_err(
        |error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsConfigError::KeyMismatch,
            rustls::Error::InvalidCertificate(reason) => {
                TlsConfigError::DamagedCertificate { file: "cert_file", reason: format!("{reason:?}") }
            }
            other => TlsConfigError::UnusableKey { reason: other.to_string() },
        },
    )?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The name that an upstream's certificate must bear: the host of its URL (an IPv6 address without brackets), or the
/// config's `server_name`.
pub fn server_name(name: &str) -> Result<ServerName<'static>, TlsConfigError> {
    ServerName::try_from(name.to_owned()).map_err(|_| TlsConfigError::BadServerName { name: name.to_owned() })
}

fn refused(error: rustls::Error) -> TlsConfigError {
    TlsConfigError::Refused { reason: error.to_string() }
}

fn roots(ca_pem: Option<&[u8]>) -> Result<RootCertStore, TlsConfigError> {
    let mut roots = RootCertStore::empty();
    let Some(pem) = ca_pem else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(roots);
    };
    for certificate in certificates(pem, "ca_file")? {
        roots.add(certificate).map_err(|error| TlsConfigError::DamagedCertificate {
            file: "ca_file",
            reason: error.to_string(),
        })?;
    }
    if roots.is_empty() { Err(TlsConfigError::NoCaCertificate) } else { Ok(roots) }
}

fn certificates(pem: &[u8], file: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsConfigError::DamagedCertificate { file, reason: error.to_string() })
}

fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    use rustls::pki_types::pem::Error;
    // PKCS#8's own section name, or the header of the older form (RFC 1421).
    const ENCRYPTED: [&[u8]; 2] = [b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED"];
    if ENCRYPTED.iter().any(|mark| memchr::memmem::find(pem, mark).is_some()) {
        return Err(TlsConfigError::EncryptedKey);
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        Error::NoItemsFound => TlsConfigError::NoKey,
        other => TlsConfigError::UnusableKey { reason: other.to_string() },
    })
}

/// Takes any certificate. Signatures of the handshake are still checked: whoever answers has the key it shows.
#[derive(Debug)]
struct AcceptAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
