//! Certificates of the tests, made anew in each run: what an authority signs, and the PEM of its own.

use rustls::{
    SignatureScheme,
    crypto::aws_lc_rs::sign::any_ecdsa_type,
    pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer},
    sign::SigningKey,
};
use std::sync::Arc;

// Tags of DER.
const BOOLEAN: u8 = 1;
const INTEGER: u8 = 2;
const BIT_STRING: u8 = 3;
const OCTET_STRING: u8 = 4;
const OBJECT: u8 = 6;
const TEXT: u8 = 12;
const SHORT_TIME: u8 = 0x17;
const TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const FIELD_0: u8 = 0xa0;
const FIELD_3: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

// Names of things in X.509.
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 17];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];

/// A certificate and its key.
pub(crate) type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// An authority that signs certificates of nodes.
pub(crate) struct Authority {
    name: &'static str,
    key: Key,
}

impl Authority {
    /// Makes an authority with this name, with the key of this number.
    pub(crate) fn new(name: &'static str, number: u8) -> Self {
        Self { name, key: Key(number) }
    }

    /// Returns its own certificate in PEM.
    pub(crate) fn pem(&self) -> Vec<u8> {
        let value = sequence(&[der(BOOLEAN, &[0xff])]);
        let extension = sequence(&[
            der(OBJECT, BASIC_CONSTRAINTS),
            der(BOOLEAN, &[0xff]),
            der(OCTET_STRING, &value),
        ]);
        let text = base64(&self.certificate(self.name, self.key, extension));
        format!("-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n").into_bytes()
    }

    /// Returns the identity of a node with the address 127.0.0.1, and with the key of this number.
    pub(crate) fn address(&self, number: u8) -> Identity {
        self.sign(number, &der(IP_ADDRESS, &[127, 0, 0, 1]))
    }

    /// Returns the identity of a node with the name localhost and no address, and with the key of this number.
    pub(crate) fn localhost(&self, number: u8) -> Identity {
        self.sign(number, &der(DNS_NAME, b"localhost"))
    }

    fn sign(&self, number: u8, name: &[u8]) -> Identity {
        let value = sequence(&[name.to_vec()]);
        let extension = sequence(&[der(OBJECT, ALTERNATIVE_NAME), der(OCTET_STRING, &value)]);
        let key = Key(number);
        (CertificateDer::from(self.certificate("node", key, extension)), key.private())
    }

    /// Returns a certificate of a key, valid for a hundred years.
    fn certificate(&self, subject: &str, key: Key, extension: Vec<u8>) -> Vec<u8> {
        let algorithm = sequence(&[der(OBJECT, ECDSA_WITH_SHA256)]);
        let content = sequence(&[
            // Version 3.
            der(FIELD_0, &der(INTEGER, &[2])),
            der(INTEGER, &[1]),
            algorithm.clone(),
            name(self.name),
            sequence(&[der(SHORT_TIME, b"000101000000Z"), der(TIME, b"21000101000000Z")]),
            name(subject),
            key.public(),
            der(FIELD_3, &sequence(&[extension])),
        ]);
        let signature = der(BIT_STRING, &[vec![0], self.key.sign(&content)].concat());
        sequence(&[content, algorithm, signature])
    }
}

/// A key on the curve P-256 that follows from a number other than 0 and 255. It protects nothing.
#[derive(Clone, Copy)]
struct Key(u8);

impl Key {
    fn private(self) -> PrivateKeyDer<'static> {
        let secret = der(OCTET_STRING, &[self.0; 32]);
        let key = sequence(&[der(INTEGER, &[1]), secret, der(FIELD_0, &der(OBJECT, P256))]);
        PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key))
    }

    fn signing(self) -> Arc<dyn SigningKey> {
        any_ecdsa_type(&self.private()).unwrap()
    }

    fn public(self) -> Vec<u8> {
        let key = self.signing();
        let public = key.public_key().unwrap();
        public.to_vec()
    }

    fn sign(self, content: &[u8]) -> Vec<u8> {
        let scheme = SignatureScheme::ECDSA_NISTP256_SHA256;
        let signer = self.signing().choose_scheme(&[scheme]).unwrap();
        signer.sign(content).unwrap()
    }
}

/// Returns a value in DER: its tag, its length, and its content.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let head = match length {
        0..=0x7f => vec![tag, length as u8],
        0x80..=0xff => vec![tag, 0x81, length as u8],
        _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
    };
    [&head[..], content].concat()
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    der(SEQUENCE, &parts.concat())
}

fn name(name: &str) -> Vec<u8> {
    let common = sequence(&[der(OBJECT, COMMON_NAME), der(TEXT, name.as_bytes())]);
    sequence(&[der(SET, &common)])
}

/// Returns bytes in base 64, in lines of 64 characters.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for line in bytes.chunks(48) {
        for part in line.chunks(3) {
            let mut three = [0; 3];
            three[..part.len()].copy_from_slice(part);
            let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
            for at in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * at)) as usize % 64];
                text.push(if at <= part.len() { char::from(digit) } else { '=' });
            }
        }
        text.push('\n');
    }
    text
}
