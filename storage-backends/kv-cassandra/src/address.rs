//! The file that says which store of which cluster a directory belongs to.

use crate::error::{NAME, failed};
use polytrie_kv::{KvError, create_dir, disk::if_there, write_whole};
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
}

impl Address {
    /// Reads the file of the directory, and takes from the arguments what it does not say. A new store gets a random
    /// name.
    ///
    /// # Errors
    ///
    /// If the directory belongs to another store than the arguments name, or if neither names a node of the cluster.
    pub(crate) fn find(
        dir: &Path,
        nodes: &[String],
        keyspace: Option<&str>,
        store: Option<&str>,
    ) -> Result<Self, KvError> {
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
            return Ok(Self {
                format: FORMAT,
                nodes: nodes.to_vec(),
                keyspace: keyspace.unwrap_or(DEFAULT_KEYSPACE).to_owned(),
                store: store.map_or_else(new, str::to_owned),
            });
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
        Ok(known)
    }

    fn read(dir: &Path) -> Result<Option<Self>, KvError> {
        let path = dir.join(ADDRESS_FILE);
        let found = if_there(fs::read(&path)).map_err(|e| KvError::io("read", &path, e))?;
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
    pub(crate) fn keep(&self, dir: &Path) -> Result<(), KvError> {
        if Self::read(dir)?.as_ref() == Some(self) {
            return Ok(());
        }
        create_dir(dir).map_err(|e| KvError::io("create", dir, e))?;
        let path = dir.join(ADDRESS_FILE);
        let text = serde_json::to_vec_pretty(self).map_err(|e| failed("writing", e))?;
        write_whole(&path, &text).map_err(|e| KvError::io("write", &path, e))
    }
}
