//! What a data directory remembers of the `genesis.json` it was made from.
//!
//! A genesis of millions of accounts takes seconds to read, and once its block stands the accounts are not needed again.
//! So `D/chain.json` keeps the rest of it, and which file it was: a command that names that file again, or none, starts
//! at once.

use super::OpenError;
use alloy_primitives::{B256, keccak256};
use polytrie_chainspec::{ChainSpec, ChainSpecError};
use polytrie_kv::write_whole;
use polytrie_state::Stamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

/// Name of the file within the data directory. It can be missing: then the genesis is read again.
pub const OUTLINE_FILE: &str = "chain.json";

/// A file as it was at some moment. As long as it looks the same, its content is taken to be the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileState {
    path: PathBuf,
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: u64,
}

impl FileState {
    /// The file behind a chain's name; `None` if the chain is built in, or the system does not tell enough.
    pub(super) fn of(chain: &str) -> Option<Self> {
        let path = fs::canonicalize(chain).ok()?;
        let data = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let modified = data.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Self { path, bytes: data.len(), modified: u64::try_from(modified.as_nanos()).ok()? })
    }
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Outline<'a> {
    /// The genesis file it was taken from.
    file: FileState,
    /// The genesis file without its accounts, with the state root.
    #[serde(borrow)]
    genesis: &'a RawValue,
}

/// The hash of a chain's rules that the stamp holds; `None` for a chain that did not come from a file.
pub(super) fn rules(spec: &ChainSpec) -> Option<B256> {
    spec.outline().map(keccak256)
}

/// The chain of the data directory as its outline describes it, and which file that came from. `None` if there is no
/// outline with the rules that the stamp holds.
pub(super) fn read(dir: &Path, stamp: &Stamp) -> Option<(FileState, Arc<ChainSpec>)> {
    let path = dir.join(OUTLINE_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
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

/// It only saves time, so the genesis itself is read instead.
fn unusable<T>(path: &Path, reason: &str) -> Option<T> {
    tracing::warn!("{} is of no use ({reason}); reading the genesis itself", path.display());
    None
}

/// The chain that the stamp names, read anew; without accounts if the file has none.
///
/// # Errors
///
/// If it cannot be read, or has other rules than the stamp holds.
pub(super) fn reread(dir: &Path, stamp: &Stamp) -> Result<Arc<ChainSpec>, OpenError> {
    let reason = match ChainSpec::load(&stamp.chain) {
        Ok(spec) if stamp.rules.is_none() || rules(&spec) == stamp.rules => return Ok(spec),
        Ok(_) => format!("{} has other rules now", stamp.chain),
        Err(error) => match without_accounts(stamp) {
            Some(spec) => return Ok(spec),
            None if stamp.rules.is_none() => return Err(error.into()),
            None => error.to_string(),
        },
    };
    Err(OpenError::RulesLost { path: dir.to_owned(), reason })
}

/// The chain of a genesis whose accounts were never written to a file ([`super::NewDir::set_genesis`]).
fn without_accounts(stamp: &Stamp) -> Option<Arc<ChainSpec>> {
    let spec = ChainSpec::from_outline(&stamp.chain, &fs::read(&stamp.chain).ok()?).ok()?;
    (rules(&spec) == stamp.rules).then(|| Arc::new(spec))
}

/// Writes the outline of a chain that was read from `file`, whole or not at all.
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

/// As [`write`], for a directory that is new: what it was made from is at hand, so it counts without an outline too.
pub(super) fn write_if_possible(dir: &Path, file: FileState, spec: &ChainSpec) {
    if let Err(error) = write(dir, file, spec) {
        go_without(&error);
    }
}

/// Says that there is no outline.
pub(super) fn go_without(error: &OpenError) {
    tracing::warn!("{error}; it only saves time: the genesis is read again at each start");
}

/// Loads a chain together with what its file looked like before.
pub(super) fn load(chain: &str) -> Result<(Option<FileState>, Arc<ChainSpec>), ChainSpecError> {
    let file = FileState::of(chain);
    let spec = ChainSpec::load(chain)?;
    // A file that bears the name of a built-in chain is not what was loaded.
    Ok((file.filter(|_| spec.outline().is_some()), spec))
}
