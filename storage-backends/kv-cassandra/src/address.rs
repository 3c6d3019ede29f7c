//! The file that says which store of which cluster a directory belongs to.

use crate::{
    access::Access,
    error::{NAME, failed},
};
use polytrie_kv::{AtPath, KvError, Result, create_dir, disk::if_there, write_whole};
use serde::{Deserialize, Serialize};
use std::{fs, path::Path};

/// The name of the file in the engine's directory. With it and the files of the data directory around it another
/// machine can open the store.
pub const ADDRESS_FILE: &str = "cluster.json";
/// The keyspace of stores whose options name none.
pub const DEFAULT_KEYSPACE: &str = "polytrie";

const FORMAT: u32 = 1;

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    format: u32,
    /// Some nodes, as `host:port`; the driver learns the others from these.
    pub(crate) nodes: Vec<String>,
    pub(crate) keyspace: String,
    /// The prefix of all keys of the store.
    pub(crate) store: String,
    /// Credentials and TLS, as paths of files; none in files of earlier builds.
    #[serde(default, skip_serializing_if = "Access::is_open")]
    pub(crate) access: Access,
}

impl Address {
    /// Reads the file of the directory, and takes from the arguments what it does not say. A new store gets a random
    /// name.
    ///
    /// # Errors
    ///
    /// If the directory belongs to another store than the arguments name, if neither names a node of the cluster, or if a
    /// path has no absolute form.
    pub(crate) fn find(
        dir: &Path,
        nodes: &[String],
        keyspace: Option<&str>,
        store: Option<&str>,
        access: &Access,
    ) -> Result<Self> {
        let action = "finding the store";
        let Some(mut known) = Self::read(dir)? else {
            if nodes.is_empty() {
                let reason = format!(
                    "{} does not say which cluster it belongs to; name some of its nodes with --kv.nodes HOST:PORT,… where it is made (init, import, devnet)",
                    dir.display()
                );
                return Err(failed(action, reason));
            }
            let new = || format!("{:016x}", rand::random::<u64>());
            let mut made = Self {
                format: FORMAT,
                nodes: nodes.to_vec(),
                keyspace: keyspace.unwrap_or(DEFAULT_KEYSPACE).to_owned(),
                store: store.map_or_else(new, str::to_owned),
                access: Access::default(),
            };
            made.access.replace(access)?;
            return Ok(made);
        };
        for (what, found, asked) in
            [("keyspace", &known.keyspace, keyspace), ("store", &known.store, store)]
        {
            if let Some(asked) = asked.filter(|asked| asked != found) {
                let reason = format!(
                    "{} belongs to the {what} `{found}`, you asked for `{asked}`: leave the option out, or choose another directory",
                    dir.display()
                );
                return Err(failed(action, reason));
            }
        }
        // Nodes come and go, so those of the arguments replace those of the file.
        if !nodes.is_empty() {
            known.nodes = nodes.to_vec();
        }
        known.access.replace(access)?;
        Ok(known)
    }

    fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(ADDRESS_FILE);
        let found = if_there(fs::read(&path)).at("read", &path)?;
        let Some(text) = found else { return Ok(None) };
        let damaged = |reason: String| {
            KvError::Corrupt(format!("{NAME}: {} is damaged: {reason}", path.display()))
        };
        let address: Self =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if address.format != FORMAT {
            return Err(damaged(format!("it has format {}, expected {FORMAT}", address.format)));
        }
        Ok(Some(address))
    }

    /// Writes the file, if its content differs.
    ///
    /// # Errors
    ///
    /// If the directory or the file cannot be written.
    pub(crate) fn keep(&self, dir: &Path) -> Result<()> {
        if Self::read(dir)?.as_ref() == Some(self) {
            return Ok(());
        }
        create_dir(dir).at("create", dir)?;
        let path = dir.join(ADDRESS_FILE);
        let text = serde_json::to_vec_pretty(self).map_err(|e| failed("writing", e))?;
        write_whole(&path, &text).at("write", &path)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::access::Login;
    use tempfile::TempDir;

    fn find(dir: &Path, nodes: &[String], access: &Access) -> Address {
        Address::find(dir, nodes, None, None, access).unwrap()
    }

    /// The file has the paths, and not what the files hold.
    #[test]
    fn a_directory_remembers_where_the_password_is() {
        let dir = TempDir::new().unwrap();
        let (password, authority) = (dir.path().join("password"), dir.path().join("authority"));
        fs::write(&password, "sesame").unwrap();
        let login = |user: &str| Login { user: user.to_owned(), password_file: password.clone() };
        let access = Access { login: Some(login("importer")), tls_ca: Some(authority) };
        let made = find(dir.path(), &["host:9042".to_owned()], &access);
        assert_eq!(made.access, access);
        made.keep(dir.path()).unwrap();
        let text = fs::read_to_string(dir.path().join(ADDRESS_FILE)).unwrap();
        assert!(text.contains("importer") && !text.contains("sesame"), "{text}");
        assert_eq!(find(dir.path(), &[], &Access::default()), made);
        let other = Access { login: Some(login("reader")), tls_ca: None };
        let expected = Access { login: Some(login("reader")), ..access };
        assert_eq!(find(dir.path(), &[], &other).access, expected);
    }

    #[test]
    fn a_file_without_credentials_is_as_it_was() {
        let dir = TempDir::new().unwrap();
        let made = find(dir.path(), &["host:9042".to_owned()], &Access::default());
        made.keep(dir.path()).unwrap();
        let path = dir.path().join(ADDRESS_FILE);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("access"), "{text}");
        let earlier = r#"{"format": 1, "nodes": ["host:9042"], "keyspace": "k", "store": "s"}"#;
        fs::write(&path, earlier).unwrap();
        assert!(find(dir.path(), &[], &Access::default()).access.is_open());
    }
}
