//! The stamp that says which layer a data directory belongs to.

use crate::{seal, unseal};
use alloy_primitives::B256;
use polytrie_kv::{AtPath, KvError, disk::if_there, write_whole};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Name of the stamp's file within the data directory.
pub const STAMP_FILE: &str = "polytrie.json";

/// The identity of a data directory; written before anything else, with a checksum, and checked on every open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Version of the layout on disk; a change of any format changes it.
    pub format: u32,
    /// The state layer.
    pub state: String,
    /// The key-value engine.
    pub kv: String,
    /// The layer's parameters on which the stored data depends.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// The chain's name, or the path of its genesis file.
    pub chain: String,
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Hash of the genesis block.
    pub genesis_hash: B256,
    /// Hash of the rules of a chain that came from a file: of its genesis without the accounts, which the client
    /// keeps beside the stamp. The rules may change as long as the stored blocks are valid by them.
    pub rules: Option<B256>,
    /// The program version that created the directory.
    pub created_by: String,
}

/// The error of a data directory that cannot be used as requested.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StampError {
    /// The directory was made with another setting.
    #[error("the data directory {} holds {what} `{found}`, you asked for `{expected}`: leave the option out to use what is there, or choose another --datadir", path.display())]
    Mismatch {
        /// The data directory.
        path: PathBuf,
        /// `state layer`, `engine`, …
        what: String,
        /// The stored setting.
        found: String,
        /// The requested setting.
        expected: String,
    },
    /// The directory was written by another version of the program.
    #[error("the data directory {} has format {found}, this program reads format {expected}: use the version that wrote it ({created_by}), or import again into another --datadir; if that is this version, {STAMP_FILE} is damaged: put back a copy of it", path.display())]
    Format {
        /// The data directory.
        path: PathBuf,
        /// The directory's format.
        found: u32,
        /// The format of this program.
        expected: u32,
        /// The program version that wrote the directory.
        created_by: String,
    },
    /// The stamp's file does not decode.
    #[error("{} is not a stamp this program understands ({reason}): put back a copy of the file if {} is a data directory of polytrie, what else is in it is not touched; or choose another --datadir", file.display(), file.parent().unwrap_or(file).display())]
    Unreadable {
        /// The stamp's file.
        file: PathBuf,
        /// The reason why it does not decode.
        reason: String,
    },
    /// The stamp's file could not be read or written.
    #[error(transparent)]
    Io(#[from] KvError),
}

impl Stamp {
    /// The format that this version reads and writes.
    pub const FORMAT: u32 = 5;

    /// Reads the stamp of a data directory; `None` if it has none yet.
    ///
    /// # Errors
    ///
    /// [`StampError::Io`] if it cannot be read, [`StampError::Unreadable`] if it does not decode, and
    /// [`StampError::Format`] if it has another format.
    pub fn read(dir: &Path) -> Result<Option<Self>, StampError> {
        let file = dir.join(STAMP_FILE);
        let Some(bytes) = if_there(fs::read(&file)).at("read", &file)? else { return Ok(None) };
        let value: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|e| StampError::Unreadable { file: file.clone(), reason: e.to_string() })?;
        let format = value.get("format").and_then(serde_json::Value::as_u64);
        if let Some(found) = format.filter(|found| *found != u64::from(Self::FORMAT)) {
            return Err(StampError::Format {
                path: dir.to_owned(),
                found: u32::try_from(found).unwrap_or(u32::MAX),
                expected: Self::FORMAT,
                created_by: value
                    .get("created_by")
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or("unknown")
                    .to_owned(),
            });
        }
        unseal(&bytes).map(Some).map_err(|reason| StampError::Unreadable { file, reason })
    }

    /// Writes the stamp, whole or not at all.
    ///
    /// # Errors
    ///
    /// [`StampError::Io`] if it cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), StampError> {
        let file = dir.join(STAMP_FILE);
        let write = || write_whole(&file, &seal(self)?);
        Ok(write().at("write", &file)?)
    }

    /// Compares one stored setting with the requested one; no request is always fine.
    ///
    /// # Errors
    ///
    /// [`StampError::Mismatch`] if another setting was requested.
    pub fn expect(
        &self,
        dir: &Path,
        what: &str,
        found: &str,
        asked: Option<&str>,
    ) -> Result<(), StampError> {
        match asked {
            Some(asked) if asked != found => Err(StampError::Mismatch {
                path: dir.to_owned(),
                what: what.to_owned(),
                found: found.to_owned(),
                expected: asked.to_owned(),
            }),
            _ => Ok(()),
        }
    }
}
