//! The outline of the `genesis.json` from which a data directory was made.
//!
//! A genesis of millions of accounts takes seconds to read, and its accounts are not needed once the genesis block is
//! stored. So `D/chain.json` has the rest of it, and the path, size and time of the file: a command that names this
//! file again, or none, starts at once.

use super::{GENESIS_FILE, OpenError};
use alloy_primitives::{B256, keccak256};
use polytrie_chainspec::{ChainSpec, ChainSpecError};
use polytrie_kv::{disk::if_there, write_whole};
use polytrie_state::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

/// Name of the file within the data directory. Without it the genesis is read again.
pub const OUTLINE_FILE: &str = "chain.json";

/// The path, size and time of a file. While these do not change, the content is taken not to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileState {
    path: PathBuf,
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: u64,
}

impl FileState {
    /// Returns the state of a chain's genesis file; `None` if the chain is built in, or the system does not give these
    /// values.
    pub(super) fn of(chain: &str) -> Option<Self> {
        let path = fs::canonicalize(chain).ok()?;
        let data = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let modified = data.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Self { path, bytes: data.len(), modified: u64::try_from(modified.as_nanos()).ok()? })
    }
}

/// The content of the outline's file.
#[derive(Debug, Serialize, Deserialize)]
struct Outline<'a> {
    /// The genesis file from which the outline was made.
    file: FileState,
    /// The genesis file without its accounts, with the state root.
    #[serde(borrow)]
    genesis: &'a RawValue,
}

/// Returns the hash of a chain's rules, as the stamp has it; `None` for a chain that was not read from a file.
pub(super) fn rules(spec: &ChainSpec) -> Option<B256> {
    spec.outline().map(keccak256)
}

/// Reads the outline of a data directory: the state of its genesis file, and the chain. `None` if there is no outline
/// with the rules of the stamp.
pub(super) fn read(dir: &Path, stamp: &Stamp) -> Option<(FileState, Arc<ChainSpec>)> {
    let path = dir.join(OUTLINE_FILE);
    let text = match if_there(fs::read_to_string(&path)) {
        Ok(text) => text?,
        Err(e) => return unusable(&path, &e.to_string()),
    };
    let outline: Outline<'_> = match serde_json::from_str(&text) {
        Ok(outline) => outline,
        Err(e) => return unusable(&path, &e.to_string()),
    };
    match ChainSpec::from_outline(&stamp.chain, outline.genesis.get().as_bytes()) {
        Ok(spec) if rules(&spec) == stamp.rules => Some((outline.file, Arc::new(spec))),
        Ok(_) => unusable(&path, "it was changed, or another file was put in its place"),
        Err(e) => unusable(&path, &e.to_string()),
    }
}

/// Whether the outline was made from this file when it was at the path that the stamp names: moving a file leaves its size
/// and time, and copying it gives it another time.
pub(super) fn is_of_moved(dir: &Path, stamp: &Stamp, file: &Path) -> bool {
    let found = FileState::of(&file.display().to_string());
    let before = found.map(|found| FileState { path: PathBuf::from(&stamp.chain), ..found });
    before.is_some() && read(dir, stamp).map(|(made_from, _)| made_from) == before
}

/// Warns that the outline cannot be used. It only saves time, so the genesis itself is read.
fn unusable<T>(path: &Path, reason: &str) -> Option<T> {
    tracing::warn!("{} is of no use ({reason}); reading the genesis itself", path.display());
    None
}

/// Loads the chain that the stamp names from its genesis, or from the one in the directory: a directory that was moved has
/// that at another path than its stamp says. The chain has no accounts if the file has none.
///
/// # Errors
///
/// If neither genesis can be read and has the rules of the stamp.
pub(super) fn reread(dir: &Path, stamp: &Stamp) -> Result<Arc<ChainSpec>, OpenError> {
    let reason = match load_as_stamped(&stamp.chain, stamp) {
        Ok(Some(spec)) => return Ok(spec),
        Ok(None) => format!("{} has other rules now", stamp.chain),
        Err(error) if stamp.rules.is_none() => return Err(error.into()),
        Err(error) => error.to_string(),
    };
    match load_as_stamped(&dir.join(GENESIS_FILE).display().to_string(), stamp) {
        Ok(Some(spec)) => Ok(spec),
        _ => Err(OpenError::RulesLost { path: dir.to_owned(), reason }),
    }
}

/// Loads a chain; `None` if it has other rules than the stamp.
fn load_as_stamped(chain: &str, stamp: &Stamp) -> Result<Option<Arc<ChainSpec>>, ChainSpecError> {
    match ChainSpec::load(chain) {
        Ok(spec) => {
            let is_as_stamped = stamp.rules.is_none() || rules(&spec) == stamp.rules;
            Ok(is_as_stamped.then_some(spec))
        }
        Err(error) => without_accounts(chain, stamp).map(Some).ok_or(error),
    }
}

/// Loads the chain of a genesis with accounts that were never written to a file ([`super::NewDir::set_genesis`]).
fn without_accounts(chain: &str, stamp: &Stamp) -> Option<Arc<ChainSpec>> {
    let spec = ChainSpec::from_outline(chain, &fs::read(chain).ok()?).ok()?;
    (rules(&spec) == stamp.rules).then(|| Arc::new(spec))
}

/// Writes the outline of a chain that was read from `file`. A crash leaves the old outline or the new one.
pub(super) fn write(dir: &Path, file: FileState, spec: &ChainSpec) -> Result<(), OpenError> {
    let Some(genesis) = spec.outline() else { return Ok(()) };
    let path = dir.join(OUTLINE_FILE);
    let write = || -> io::Result<()> {
        let genesis = serde_json::from_str(genesis)?;
        let mut text = serde_json::to_vec(&Outline { file, genesis })?;
        text.push(b'\n');
        write_whole(&path, &text)
    };
    write().map_err(|source| OpenError::write("write", &path, source))
}

/// Writes the outline into a new directory. A failure is only logged, because the genesis file was there just now.
pub(super) fn write_if_possible(dir: &Path, file: FileState, spec: &ChainSpec) {
    if let Err(error) = write(dir, file, spec) {
        tracing::warn!("{error}; it only saves time: the genesis is read again at each start");
    }
}

/// Loads a chain, and the state of its file from before it was read.
pub(super) fn load(chain: &str) -> Result<(Option<FileState>, Arc<ChainSpec>), ChainSpecError> {
    let file = FileState::of(chain);
    let spec = ChainSpec::load(chain)?;
    // A file with the name of a built-in chain was not loaded.
    Ok((file.filter(|_| spec.outline().is_some()), spec))
}
