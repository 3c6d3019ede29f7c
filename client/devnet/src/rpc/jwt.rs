//! The secret of the Engine API: each request carries a token that is signed with it (JSON Web Token, HS256).
//!
//! The Engine API accepts one kind of token only, so this module implements one kind: a library for all kinds would add
//! the code of all their signatures.

use alloy_primitives::hex;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, Mac, digest::KeyInit};
use polytrie_kv::{
    create_dir,
    disk::{Access, File, if_there, name, parent, sync_dir},
};
use serde::Deserialize;
use sha2_for_hmac::Sha256;
use std::{
    fmt, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Maximum difference in seconds between the time of a token and the node's (as the authentication page of the
/// Engine API says).
const WINDOW: u64 = 60;

/// A secret of 256 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JwtSecret([u8; 32]);

/// The output leaves out the secret.
impl fmt::Debug for JwtSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JwtSecret(…)")
    }
}

/// The error of a secret that cannot be read or made.
#[derive(Debug, Error)]
pub enum JwtError {
    /// The file cannot be read or written.
    #[error("cannot {action} the secret in {}: {source}; name another file with --authrpc.jwtsecret", path.display())]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The content of the file is not a secret.
    #[error(
        "{} holds no secret: expected 64 hexadecimal digits (32 bytes), found {found}; remove the file to have one made, or name another with --authrpc.jwtsecret",
        path.display()
    )]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Description of the content.
        found: String,
    },
}

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    /// Time of the token in seconds since 1970, if it has one.
    iat: Option<u64>,
    /// End of the token's validity in seconds since 1970, if it has one.
    exp: Option<u64>,
}

impl JwtSecret {
    /// Reads the secret from a file. If there is no file, one is made that only its owner can read.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or made, or its content is not a secret.
    pub fn read_or_make(path: &Path) -> Result<Self, JwtError> {
        let io = |action| move |source| JwtError::Io { action, path: path.to_owned(), source };
        match if_there(fs::read(path)).map_err(io("read"))? {
            Some(bytes) => Self::parse(&bytes).map_err(|found| {
                let path = path.to_owned();
                JwtError::Content { path, found }
            }),
            None => Self::make(path).map_err(io("make")),
        }
    }

    /// Parses the secret; the error describes the content.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "bytes that are no text".to_owned())?;
        let text = text.trim();
        let secret = hex::decode(text).map_err(|_| "text that is not hexadecimal".to_owned())?;
        let length = secret.len();
        secret.try_into().map(Self).map_err(|_| format!("{length} bytes"))
    }

    fn make(path: &Path) -> io::Result<Self> {
        let secret: [u8; 32] = rand::random();
        let dir = parent(path);
        create_dir(dir)?;
        // The file appears with its full content or not at all, and only its owner can read it.
        let mut file =
            tempfile::Builder::new().make_in(dir, |path| File::open(path, Access::CreateSecret))?;
        writeln!(file, "{}", hex::encode(secret))?;
        file.as_file().sync("secret: content")?;
        name(file.into_temp_path(), path)?;
        sync_dir(dir, "secret: name")?;
        Ok(Self(secret))
    }

    /// Returns a token with this time, in seconds since 1970, as a consensus layer makes it.
    pub fn token(&self, issued_at: u64) -> String {
        let header = BASE64.encode(r#"{"typ":"JWT","alg":"HS256"}"#);
        let claims = BASE64.encode(format!(r#"{{"iat":{issued_at}}}"#));
        let signed = format!("{header}.{claims}");
        let signature = BASE64.encode(self.mac(&signed).finalize().into_bytes());
        format!("{signed}.{signature}")
    }

    /// Checks that the value of the header `Authorization` is a token that is valid at the time `now`, in
    /// seconds since 1970.
    ///
    /// # Errors
    ///
    /// The reason for which the token is not valid.
    pub(super) fn check(&self, authorization: Option<&str>, now: u64) -> Result<(), String> {
        let value = authorization.ok_or("there is no header Authorization with a token")?;
        let (scheme, token) = value.split_once(' ').ok_or("Authorization names no token")?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err("Authorization names no token: expected Bearer".to_owned());
        }
        let malformed = || "the token is malformed".to_owned();
        let (signed, signature) = token.trim().rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or_else(malformed)?;
        let header: Header = part(header).ok_or_else(malformed)?;
        if header.alg != "HS256" {
            return Err("the token is not signed with HS256".to_owned());
        }
        let signature = BASE64.decode(signature).map_err(|_| malformed())?;
        let wrong = || "the token is signed with another secret".to_owned();
        self.mac(signed).verify_slice(&signature).map_err(|_| wrong())?;
        let claims: Claims = part(claims).ok_or(
            "the claims of the token do not parse: expected JSON whose iat and exp are whole seconds",
        )?;
        let iat = claims.iat.ok_or("the token does not say when it was made")?;
        if iat.abs_diff(now) > WINDOW {
            return Err(format!(
                "the token was made at {iat}, which is not within {WINDOW} seconds of {now}"
            ));
        }
        match claims.exp {
            Some(end) if end.saturating_add(WINDOW) < now => {
                Err(format!("the token ended at {end}, and it is {now}"))
            }
            _ => Ok(()),
        }
    }

    fn mac(&self, signed: &str) -> Hmac<Sha256> {
        // A key shorter than a block of the hash is padded with zeros (RFC 2104).
        let mut key = [0; 64];
        key[..32].copy_from_slice(&self.0);
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&key.into());
        mac.update(signed.as_bytes());
        mac
    }
}

/// Decodes a part of a token; `None` if it is not base64 of the expected JSON.
fn part<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    serde_json::from_slice(&BASE64.decode(text).ok()?).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_kv_testing::{Failure, ForgetfulDisk, Lived, disk_seeds, first_caught};

    const SECRET: JwtSecret = JwtSecret([7; 32]);

    fn check(value: &str, now: u64) -> Result<(), String> {
        SECRET.check(Some(value), now)
    }

    #[test]
    fn a_token_is_good_for_a_minute() {
        let value = format!("Bearer {}", SECRET.token(1000));
        for now in [940, 1000, 1060] {
            check(&value, now).unwrap();
        }
        for now in [939, 1061, 0, u64::MAX] {
            assert!(check(&value, now).unwrap_err().contains("within 60 seconds"));
        }
        check(&value.replace("Bearer", "bearer"), 1000).unwrap();
    }

    #[test]
    fn what_others_have_made_is_refused() {
        assert!(SECRET.check(None, 1000).unwrap_err().contains("no header"));
        let other = JwtSecret([8; 32]).token(1000);
        assert!(check(&format!("Bearer {other}"), 1000).unwrap_err().contains("another secret"));
        let good = SECRET.token(1000);
        for bad in ["Bearer", "Basic abc", "Bearer a.b", "Bearer a.b.c", "Bearer ..", ""] {
            check(bad, 1000).unwrap_err();
        }
        // Here the claims were replaced after the signature.
        let [header, _, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!() };
        let claims = BASE64.encode(r#"{"iat":2000}"#);
        let changed = format!("Bearer {header}.{claims}.{signature}");
        assert!(check(&changed, 2000).unwrap_err().contains("another secret"));
    }

    #[test]
    fn only_one_algorithm_is_taken() {
        let claims = BASE64.encode(r#"{"iat":1000}"#);
        for alg in ["none", "HS512", "RS256"] {
            let header = BASE64.encode(format!(r#"{{"alg":"{alg}"}}"#));
            let signed = format!("{header}.{claims}");
            let signature = BASE64.encode(SECRET.mac(&signed).finalize().into_bytes());
            let refused = check(&format!("Bearer {signed}.{signature}"), 1000).unwrap_err();
            assert!(refused.contains("HS256"), "{alg}: {refused}");
        }
    }

    #[test]
    fn a_token_may_say_when_it_ends() {
        let signed = |claims: &str| {
            let header = BASE64.encode(r#"{"alg":"HS256"}"#);
            let signed = format!("{header}.{}", BASE64.encode(claims));
            let signature = BASE64.encode(SECRET.mac(&signed).finalize().into_bytes());
            format!("Bearer {signed}.{signature}")
        };
        check(&signed(r#"{"iat":1000,"exp":1001,"id":"x"}"#), 1030).unwrap();
        assert!(check(&signed(r#"{"iat":1000,"exp":900}"#), 1000).unwrap_err().contains("ended"));
        assert!(check(&signed(r#"{"exp":2000}"#), 1000).unwrap_err().contains("when it was made"));
        for claims in [r#"{"iat":"1000"}"#, r#"{"iat":1000.5}"#, r#"{"iat":1000,"exp":-1}"#, "1000"]
        {
            let refused = check(&signed(claims), 1000).unwrap_err();
            assert!(refused.contains("do not parse"), "{claims}: {refused}");
        }
    }

    /// Loses power while a secret is made, and checks that a returned secret survives: a consensus layer may
    /// already use it.
    fn lose_power(seed: u64, ignored: Option<&str>) -> Result<Lived, String> {
        let disk = ForgetfulDisk::new(seed);
        if let Some(place) = ignored {
            disk.ignore(place);
        }
        let path = disk.dir().join("below").join("jwt.hex");
        disk.fail_at(1 + seed % 20, Failure::Power);
        let made = JwtSecret::read_or_make(&path).ok();
        disk.restart();
        match (made, JwtSecret::read_or_make(&path)) {
            (_, Err(error)) => Err(error.to_string()),
            (Some(made), Ok(found)) if found != made => Err("another secret".to_owned()),
            _ => Ok(Lived::default()),
        }
    }

    #[test]
    fn a_secret_outlives_a_loss_of_power() {
        for seed in disk_seeds(200) {
            lose_power(seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        for place in ["secret: content", "secret: name"] {
            let caught = first_caught(0..1_000, place, lose_power);
            assert!(caught.is_some(), "without {place} nothing is lost");
        }
    }

    #[test]
    fn a_secret_is_made_once_and_kept_to_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below").join("jwt.hex");
        let made = JwtSecret::read_or_make(&path).unwrap();
        assert_eq!(JwtSecret::read_or_make(&path).unwrap(), made);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(!format!("{made:?}").contains(&hex::encode(made.0)));
        // Other clients write the secret in this form.
        fs::write(&path, format!("0x{}\r\n", "07".repeat(32))).unwrap();
        assert_eq!(JwtSecret::read_or_make(&path).unwrap(), SECRET);
        for (content, found) in
            [("0x0707", "2 bytes"), ("seven", "not hexadecimal"), ("", "0 bytes")]
        {
            fs::write(&path, content).unwrap();
            let error = JwtSecret::read_or_make(&path).unwrap_err().to_string();
            assert!(error.contains(found), "{error}");
        }
    }
}
