//! Real blocks with the part of the state that they touch, in place of a workload.

use super::{GivenError, absolute, last_part, load, rules, write_chain};
use crate::{
    BaseSpec, Cache, CacheError, PreparedChain,
    fixture::chain::{START, write},
};
use alloy_primitives::{B256, Bytes, Keccak256, keccak256};
use polytrie_chainspec::ChainSpec;
use polytrie_consensus::decode::decode_header;
use polytrie_files::RawBlock;
use polytrie_node::prestate::Prestate;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Consecutive blocks with the state that they touch, and other accounts.
#[derive(Debug)]
pub struct GivenPrestate {
    spec: Arc<ChainSpec>,
    /// Name of the chain, or absolute path of its genesis file.
    name: String,
    /// Absolute path of the directory.
    dir: PathBuf,
    prestate: Prestate,
    /// Number of accounts in the state, unless the blocks name more.
    accounts: u64,
    /// Hash of all its files, and of the rules.
    content: B256,
    /// Hash of the last block.
    head: B256,
}

impl GivenPrestate {
    /// Reads a directory of blocks of `chain`, as `import --prestate` reads it. `chain` is the name of a built-in chain
    /// or the path of a genesis file. The state gets other accounts, up to a number of `accounts`.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read, or the blocks do not follow each other.
    pub fn open(dir: &Path, chain: &str, accounts: u64) -> Result<Self, GivenError> {
        let (spec, name) = load(chain)?;
        let dir = absolute(dir)?;
        // What is read is what the hash names only if it was the same before and after.
        let before = content(&dir, &spec);
        let prestate = Prestate::read(&dir, &spec)?;
        let content = content(&dir, &spec)?;
        if before? != content {
            return Err(changed(&dir).into());
        }
        let last = prestate.blocks().last().map(|rlp| decode_header(rlp));
        // The block has been decoded before.
        let head = last.and_then(Result::ok).map_or(B256::ZERO, |header| header.hash());
        let accounts = accounts.max(prestate.accounts());
        Ok(Self { spec, name, dir, prestate, accounts, content, head })
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.prestate.blocks().len() as u64
    }

    /// Whether the rules that compare the first header with its parent can be checked.
    pub const fn knows_parent(&self) -> bool {
        self.prestate.knows_parent()
    }

    /// Returns the parameters of the first state.
    pub(crate) fn base(&self) -> BaseSpec {
        BaseSpec::Prestate {
            dir: self.dir.clone(),
            chain: self.name.clone(),
            content: self.content,
            accounts: self.accounts,
        }
    }

    /// Returns the parameters for the readers of a report.
    pub(crate) fn parameters(&self) -> Value {
        let (first, head) = self.prestate.range();
        json!({
            "chain": last_part(Path::new(&self.name)),
            "genesis_hash": self.spec.genesis_hash(),
            "prestate": last_part(&self.dir),
            "first": first,
            "head": head,
            "head_hash": self.head,
            "accounts": self.accounts,
            "accounts_named": self.prestate.accounts(),
        })
    }

    /// Returns the blocks with their senders: from the cache, or made now.
    ///
    /// # Errors
    ///
    /// Fails if a sender cannot be recovered, or the cache fails.
    pub(crate) fn prepare(&self, cache: &Cache) -> Result<PreparedChain, GivenError> {
        let parameters = json!({ "content": self.content });
        let dir = cache.entry("chain-prestate", &parameters, |dir| {
            let start = serde_json::to_vec_pretty(self.prestate.start())
                .map_err(|error| CacheError::at("write", &dir.join(START))(error.into()))?;
            write(&dir.join(START), start)?;
            let above = self.prestate.start().number;
            write_chain(dir, cache, &self.spec, self.raw_blocks(), above, self.head).map(drop)
        })?;
        Ok(PreparedChain::at(dir))
    }

    fn raw_blocks(&self) -> impl Iterator<Item = Result<RawBlock, polytrie_files::BlockFileError>> {
        let file: Arc<str> = self.dir.display().to_string().into();
        let raw = move |(index, rlp): (u64, &Bytes)| RawBlock {
            rlp: rlp.clone(),
            file: Arc::clone(&file),
            offset: 0,
            index,
            receipts: None,
            total_difficulty: None,
        };
        (0..).zip(self.prestate.blocks()).map(raw).map(Ok)
    }
}

/// Reads the part of a state of a [`BaseSpec::Prestate`].
///
/// # Errors
///
/// Fails if the files have changed.
pub(crate) fn read(dir: &Path, chain: &str, expected: B256) -> Result<Prestate, CacheError> {
    let invalid = |reason: String| CacheError::Invalid { path: dir.to_owned(), reason };
    let spec = ChainSpec::load(chain).map_err(|error| invalid(error.to_string()))?;
    let prestate = Prestate::read(dir, &spec).map_err(|error| invalid(error.to_string()))?;
    match content(dir, &spec)? == expected {
        true => Ok(prestate),
        false => Err(changed(dir)),
    }
}

/// The error for files that are not those of before.
fn changed(dir: &Path) -> CacheError {
    let reason = "its files have changed while they were measured; run the command again when nothing writes to them";
    CacheError::Invalid { path: dir.to_owned(), reason: reason.to_owned() }
}

/// Returns a hash of the files and rules that the state and the blocks depend on.
fn content(dir: &Path, spec: &ChainSpec) -> Result<B256, CacheError> {
    let entries = fs::read_dir(dir).map_err(CacheError::at("read", dir))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>();
    let mut paths = paths.map_err(CacheError::at("read", dir))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort_unstable();
    let mut content = Keccak256::new();
    content.update(keccak256(rules(spec).1));
    for path in paths {
        let bytes = fs::read(&path).map_err(CacheError::at("read", &path))?;
        let name = path.file_name().unwrap_or_default();
        content.update(keccak256(name.as_encoded_bytes()));
        content.update(keccak256(bytes));
    }
    Ok(content.finalize())
}
