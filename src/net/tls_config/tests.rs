use super::*;

fn made(name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

#[test]
fn a_certificate_with_its_key_is_taken() {
    let (cert, key) = made("localhost");
    let config = server(cert.as_bytes(), key.as_bytes()).unwrap();
    assert_eq!(config.alpn_protocols, [b"http/1.1"]);
    client("up", Some(cert.as_bytes()), true).unwrap();
    client("up", None, true).unwrap();
    client("up", None, false).unwrap();
}

#[test]
fn every_wrong_pair_says_what_is_wrong() {
    let (cert, key) = made("localhost");
    let (_, other_key) = made("localhost");
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let old_encrypted =
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let garbage_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let garbage_cert = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let cut = &cert[..cert.len() / 2];
    let cases = [
        ("empty certificate file", "", key.as_str(), "cert_file holds no certificate"),
        ("the files are swapped", &key, &cert, "cert_file holds no certificate"),
        ("a key alone", &cert, "", "key_file holds no private key"),
        ("two certificates", &cert, &cert, "key_file holds no private key"),
        ("another key", &cert, &other_key, "does not belong to the first certificate"),
        ("encrypted key", &cert, encrypted, "is encrypted; decrypt it first"),
        ("encrypted key, old form", &cert, old_encrypted, "is encrypted; decrypt it first"),
        ("damaged key", &cert, garbage_key, "damaged or of an unknown kind"),
        ("damaged certificate", garbage_cert, &key, "certificate of cert_file is damaged"),
        ("half a certificate", cut, &key, "certificate of cert_file is damaged"),
    ];
    for (name, cert, key, want) in cases {
        let error = server(cert.as_bytes(), key.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(want), "{name}: {error}");
    }
}

#[test]
fn wrong_roots_say_what_is_wrong() {
    let (_, key) = made("localhost");
    let cases = [
        ("empty", "", "ca_file holds no certificate"),
        ("a key", key.as_str(), "ca_file holds no certificate"),
        (
            "damaged",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "certificate of ca_file is damaged",
        ),
    ];
    for (name, pem, want) in cases {
        let error = client("up", Some(pem.as_bytes()), true).unwrap_err().to_string();
        assert!(error.contains(want), "{name}: {error}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = read_pem(Path::new("/nonexistent/cert.pem")).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/cert.pem cannot be read"), "{error}");
}

#[test]
fn server_names_are_checked() {
    for name in ["api.openai.com", "127.0.0.1", "::1"] {
        server_name(name).unwrap();
    }
    for name in ["", "a b", "https://x"] {
        assert!(server_name(name).is_err(), "{name}");
    }
}
