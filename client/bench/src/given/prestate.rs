//! Real blocks on the part of a state that they touch, in place of a workload.

use super::{GivenError, absolute, load, rules, write_chain};
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

/// Consecutive blocks with what they touch, padded with other accounts.
#[derive(Debug)]
pub struct GivenPrestate {
    spec: Arc<ChainSpec>,
    /// The chain's name, or the absolute path of its genesis file.
    name: String,
    /// Absolute.
    dir: PathBuf,
    prestate: Prestate,
    /// Accounts of the state, if the blocks do not name more.
    accounts: u64,
    /// Of all its files, and of the rules.
    content: B256,
    /// Hash of the last block.
    head: B256,
}

impl GivenPrestate {
    /// Reads a directory, as `import --prestate` takes it, of blocks of `chain`, the name of a built-in chain or the path of a
    /// genesis file. The state is padded to so many accounts.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or they are no blocks that follow each other.
    pub fn open(dir: &Path, chain: &str, accounts: u64) -> Result<Self, GivenError> {
        let (spec, name) = load(chain)?;
        let dir = absolute(dir)?;
        let prestate = Prestate::read(&dir, &spec)?;
        let content = content(&dir, &spec)?;
        let last = prestate.blocks().last().map(|rlp| decode_header(rlp));
        // It has been decoded before.
        let head = last.and_then(Result::ok).map_or(B256::ZERO, |header| header.hash());
        let accounts = accounts.max(prestate.accounts());
        Ok(Self { spec, name, dir, prestate, accounts, content, head })
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> u64 {
        self.prestate.blocks().len() as u64
    }

    /// Whether the rules that compare the first header with the one before it can be checked.
    pub const fn knows_parent(&self) -> bool {
        self.prestate.knows_parent()
    }

    /// What the state depends on that it begins with.
    pub(crate) fn base(&self) -> BaseSpec {
        BaseSpec::Prestate {
            dir: self.dir.clone(),
            chain: self.name.clone(),
            content: self.content,
            accounts: self.accounts,
        }
    }

    /// What readers of a report should know of it.
    pub(crate) fn parameters(&self) -> Value {
        let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let (first, head) = self.prestate.range();
        json!({
            "chain": last(Path::new(&self.name)),
            "genesis_hash": self.spec.genesis_hash(),
            "prestate": last(&self.dir),
            "first": first,
            "head": head,
            "head_hash": self.head,
            "accounts": self.accounts,
            "accounts_named": self.prestate.accounts(),
        })
    }

    /// The blocks with their senders: from the cache, or made now.
    ///
    /// # Errors
    ///
    /// If a sender is not recovered, or the cache fails.
    pub(crate) fn prepare(&self, cache: &Cache) -> Result<PreparedChain, GivenError> {
        let parameters = json!({ "content": self.content });
        let dir = cache.entry("chain-prestate", &parameters, |dir| {
            let start = serde_json::to_vec_pretty(self.prestate.start())
                .map_err(|error| CacheError::at("write", &dir.join(START))(error.into()))?;
            write(&dir.join(START), start)?;
            let above = self.prestate.start().number;
            write_chain(dir, cache, &self.spec, self.raw_blocks(), above, self.head)
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

/// The part of a state that a [`BaseSpec::Prestate`] tells of.
///
/// # Errors
///
/// If it is no longer what it was.
pub(crate) fn read(dir: &Path, chain: &str, expected: B256) -> Result<Prestate, CacheError> {
    let invalid = |reason: String| CacheError::Invalid { path: dir.to_owned(), reason };
    let spec = ChainSpec::load(chain).map_err(|error| invalid(error.to_string()))?;
    if content(dir, &spec)? != expected {
        return Err(invalid("its files have changed while they were measured".to_owned()));
    }
    Prestate::read(dir, &spec).map_err(|error| invalid(error.to_string()))
}

/// A hash of what the state and the blocks follow from.
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
