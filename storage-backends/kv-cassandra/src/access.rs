//! The credentials and the TLS with which a client connects to the nodes.

use crate::error::failed;
use polytrie_kv::{AtPath, Result};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde::{Deserialize, Serialize};
use std::{
    fmt::Display,
    fs,
    path::{self, Path, PathBuf},
    sync::Arc,
};

/// Credentials and TLS of the connections to a cluster; by default there are neither.
///
/// The files are read at each opening. A directory remembers their paths, and not what they hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The role that logs in; `None` if the nodes ask for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<Login>,
    /// File (PEM) of the authorities that signed the certificates of the nodes; `None` for connections without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
}

/// A role of the cluster, and the place of its password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// Name of the role.
    pub user: String,
    /// File with the password, alone on one line.
    pub password_file: PathBuf,
}

/// The content of the files. There is no `Debug`, so that no message can show the password.
pub(crate) struct Keys {
    /// Role and password.
    pub(crate) login: Option<(String, String)>,
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl Access {
    /// Whether there are neither credentials nor TLS.
    pub(crate) fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Takes over what `other` names. The paths become absolute, because a later command may run elsewhere.
    ///
    /// # Errors
    ///
    /// If a path is empty, or the working directory is gone.
    pub(crate) fn replace(&mut self, other: &Self) -> Result<()> {
        let absolute = |file: &Path| path::absolute(file).at("find", file);
        if let Some(Login { user, password_file }) = &other.login {
            let (user, password_file) = (user.clone(), absolute(password_file)?);
            self.login = Some(Login { user, password_file });
        }
        if let Some(file) = &other.tls_ca {
            self.tls_ca = Some(absolute(file)?);
        }
        Ok(())
    }

    /// Reads the files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or holds something else.
    pub(crate) fn load(&self) -> Result<Keys> {
        let login = self.login.as_ref().map(|login| Ok((login.user.clone(), password(login)?)));
        let tls = self.tls_ca.as_deref().map(trusting);
        Ok(Keys { login: login.transpose()?, tls: tls.transpose()? })
    }
}

/// Reads the password. Messages name its file, and never show what that holds.
fn password(Login { user, password_file }: &Login) -> Result<String> {
    let wrong = |found: &dyn Display| {
        let reason = format!(
            "{} {found}; expected the password of `{user}`, alone on one line: put it there, or name another file with --kv.user and --kv.password-file",
            password_file.display()
        );
        failed("reading the password", reason)
    };
    let bytes = fs::read(password_file).map_err(|e| wrong(&format_args!("is not read: {e}")))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong(&"is not text in UTF-8"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() {
        return Err(wrong(&"is empty"));
    }
    // A byte 0 ends a name or a password in what is sent to the node.
    if line.contains(['\n', '\r', '\0']) {
        return Err(wrong(&"has more than one line, or a byte 0"));
    }
    Ok(line.to_owned())
}

/// Makes the settings of connections to nodes that prove with a certificate who they are.
fn trusting(file: &Path) -> Result<Arc<ClientConfig>> {
    let action = "reading the authority of the nodes";
    let wrong = |found: &dyn Display| {
        let reason = format!(
            "{} {found}; expected the certificate of the authority that signed those of the nodes, in PEM: put it there, or name another file with --kv.tls-ca",
            file.display()
        );
        failed(action, reason)
    };
    let pem = fs::read(file).map_err(|e| wrong(&format_args!("is not read: {e}")))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|e| wrong(&format_args!("is damaged: {e}")))?;
        roots
            .add(certificate)
            .map_err(|e| wrong(&format_args!("has a certificate that cannot be used: {e}")))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"has no certificate"));
    }
    // The provider is named, because a default of the process exists only if all crates agree on one.
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| failed(action, e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::tests::certificates::Authority;
    use tempfile::TempDir;

    /// Returns the error of reading a file with this content, as the user sees it; `None` if it is read.
    fn error_of(content: &[u8], access: impl Fn(PathBuf) -> Access) -> Option<String> {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, content).unwrap();
        access(file).load().err().map(|error| error.to_string())
    }

    fn with_password(password_file: PathBuf) -> Access {
        let login = Login { user: "importer".to_owned(), password_file };
        Access { login: Some(login), tls_ca: None }
    }

    fn with_authority(file: PathBuf) -> Access {
        Access { login: None, tls_ca: Some(file) }
    }

    #[test]
    fn a_password_is_one_line() {
        for (content, expected) in [
            (&b"sesame"[..], "sesame"),
            (b"sesame\n", "sesame"),
            (b"sesame\r\n", "sesame"),
            (b" with spaces \n", " with spaces "),
        ] {
            let dir = TempDir::new().unwrap();
            let file = dir.path().join("password");
            fs::write(&file, content).unwrap();
            let keys = with_password(file).load().unwrap();
            assert_eq!(keys.login, Some(("importer".to_owned(), expected.to_owned())));
        }
        for (content, words) in [
            (&b""[..], "is empty"),
            (b"\n", "is empty"),
            (b"sesame\n\n", "more than one line"),
            (b"sesame\nopen", "more than one line"),
            (b"sesame\0", "a byte 0"),
            (b"sesame\xff", "UTF-8"),
        ] {
            let error = error_of(content, with_password).unwrap();
            assert!(error.contains(words) && error.contains("--kv.password-file"), "{error}");
            assert!(error.contains("`importer`") && !error.contains("sesame"), "{error}");
        }
        let error = with_password("/no/such/file".into()).load().err().unwrap().to_string();
        assert!(error.contains("/no/such/file is not read: No such file"), "{error}");
    }

    #[test]
    fn authorities_are_certificates_in_pem() {
        let (authority, other) = (Authority::new("one").pem(), Authority::new("other").pem());
        for content in [
            authority.clone(),
            authority.trim_ascii_end().to_vec(),
            [&b"# two of them\n"[..], &authority, &other].concat(),
        ] {
            assert_eq!(error_of(&content, with_authority), None);
        }
        let garbage = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let key = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (content, words) in [
            (&b""[..], "has no certificate"),
            (b"a certificate", "has no certificate"),
            (key, "has no certificate"),
            (&authority[..authority.len() / 2], "is damaged"),
            (garbage, "cannot be used"),
        ] {
            let error = error_of(content, with_authority).unwrap();
            assert!(error.contains(words) && error.contains("--kv.tls-ca"), "{error}");
        }
        let error = with_authority("/no/such/file".into()).load().err().unwrap().to_string();
        assert!(error.contains("/no/such/file is not read: No such file"), "{error}");
    }

    #[test]
    fn paths_become_absolute_and_what_is_not_named_stays() {
        let mut known = Access::default();
        assert!(known.is_open());
        known.replace(&with_password("a".into())).unwrap();
        known.replace(&with_authority("b".into())).unwrap();
        let here = std::env::current_dir().unwrap();
        let login = Login { user: "importer".to_owned(), password_file: here.join("a") };
        let expected = Access { login: Some(login), tls_ca: Some(here.join("b")) };
        assert_eq!(known, expected);
        known.replace(&Access::default()).unwrap();
        assert_eq!(known, expected);
        assert!(known.replace(&with_authority("".into())).is_err());
    }
}
