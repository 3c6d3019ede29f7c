//! A chain from the user: files of blocks, as `import` reads them, in place of a workload.
//!
//! The files are read twice. The first pass checks that they are one chain on top of the genesis block, and finds its
//! length; the second, if the chain is not in the cache yet, recovers the senders. Everything else is checked during
//! the measurement.

mod prestate;

pub use prestate::GivenPrestate;
pub(crate) use prestate::read as read_prestate;

use super::{
    BaseSpec, Cache, CacheError, PreparedChain,
    fixture::chain::{BUILT_IN, ChainFiles, FIGURES, OUTLINE, write},
};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::{Address, B256, Keccak256, keccak256};
use polytrie_chain::executor::{SenderError, recover_senders};
use polytrie_chainspec::{ChainSpec, ChainSpecError};
use polytrie_files::{BlockFileError, BlockReader, ExportError, RawBlock};
use polytrie_node::prestate::PrestateError;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use thiserror::Error;

/// Number of blocks whose senders are recovered at once.
const PORTION: usize = 256;

/// Blocks from files, each on top of the one before, from block 1 on.
#[derive(Debug)]
pub struct GivenChain {
    spec: Arc<ChainSpec>,
    /// Name of the chain, or absolute path of its genesis file.
    name: String,
    files: Vec<PathBuf>,
    /// Number of blocks in the files that belong to it, with the genesis block if it is there.
    taken: usize,
    head: Sealed<Header>,
    /// Hash of all its blocks.
    content: B256,
}

/// Error of files that are no chain to be measured.
#[derive(Debug, Error)]
pub enum GivenError {
    /// A chain that does not exist.
    #[error(transparent)]
    Chain(#[from] ChainSpecError),
    /// A file that cannot be read.
    #[error(transparent)]
    Blocks(#[from] BlockFileError),
    /// A file that does not continue the chain so far.
    #[error("{file}: found {found}, expected {expected}")]
    Gap {
        /// Name of the file.
        file: String,
        /// Description of its block.
        found: String,
        /// Description of the block that would continue the chain.
        expected: String,
    },
    /// Files without a block to measure.
    #[error("the files hold no block after the genesis block; name one that does")]
    Nothing,
    /// A last block that is not after the genesis block.
    #[error("--to {0} leaves no block after the genesis block; choose a later one")]
    NothingTo(u64),
    /// Files that hold another chain in the second pass.
    #[error(
        "the block files have changed while they were read; run the command again when nothing writes to them"
    )]
    Changed,
    /// A transaction whose sender cannot be recovered.
    #[error("{file}: block {number}: {source}")]
    Sender {
        /// Name of the file.
        file: Arc<str>,
        /// Number of the block.
        number: u64,
        /// Transaction and reason.
        source: SenderError,
    },
    /// A failure of the cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A directory of blocks with their state that cannot be used.
    #[error(transparent)]
    Prestate(#[from] PrestateError),
    /// Blocks that cannot be written.
    #[error(transparent)]
    Write(#[from] ExportError),
}

impl GivenChain {
    /// Reads the blocks in the files, up to block `to`. They may begin with the genesis block of `chain`, which is the
    /// name of a built-in chain or the path of a genesis file.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read, or the files are no chain on top of that genesis block.
    pub fn open(
        files: &[PathBuf],
        chain: &str,
        to: Option<u64>,
        cache: &Cache,
    ) -> Result<Self, GivenError> {
        let (spec, name) = load(chain)?;
        let mut content = Keccak256::new();
        let mut head = spec.genesis_header().clone();
        let mut taken = 0;
        for raw in blocks(files) {
            let raw = raw?;
            cache.go_on("blocks were read")?;
            let header = raw.decode_header()?;
            if to.is_some_and(|to| header.number > to) {
                break;
            }
            taken += 1;
            if header.hash() != spec.genesis_hash() || taken > 1 {
                expect_next(&raw, &header, &head, &spec)?;
                content.update(&raw.rlp);
                head = header;
            }
        }
        let genesis = spec.genesis_header().number;
        if head.number == genesis {
            let cut = to.filter(|to| *to <= genesis);
            return Err(cut.map_or(GivenError::Nothing, GivenError::NothingTo));
        }
        if let Some(to) = to.filter(|to| *to > head.number) {
            tracing::warn!(
                "block {to} of --to is not in the files; the chain ends at block {}",
                head.number
            );
        }
        let content = content.finalize();
        Ok(Self { spec, name, files: files.to_vec(), taken, head, content })
    }

    /// Returns the number of blocks without the genesis block.
    pub fn blocks(&self) -> u64 {
        self.head.number - self.spec.genesis_header().number
    }

    /// Returns the parameters of the first state.
    pub(super) fn base(&self) -> BaseSpec {
        BaseSpec::Chain { chain: self.name.clone(), genesis_hash: self.spec.genesis_hash() }
    }

    /// Returns the parameters for the readers of a report. They have no paths, because the same files may have other
    /// paths on another machine.
    pub(super) fn parameters(&self) -> Value {
        json!({
            "chain": last_part(Path::new(&self.name)),
            "genesis_hash": self.spec.genesis_hash(),
            "files": self.files.iter().filter_map(|file| last_part(file)).collect::<Vec<_>>(),
            "head": self.head.number,
            "head_hash": self.head.hash(),
        })
    }

    /// Returns the chain with its senders: from the cache, or made now.
    ///
    /// # Errors
    ///
    /// Fails if a block cannot be decoded, a sender cannot be recovered, or the cache fails.
    pub(super) fn prepare(&self, cache: &Cache) -> Result<PreparedChain, GivenError> {
        // Chains that differ only in their forks have the same genesis block.
        let (kind, rules) = rules(&self.spec);
        let parameters = json!({ kind: keccak256(rules), "content": self.content });
        let dir = cache.entry("chain-given", &parameters, |dir| self.write(dir, cache))?;
        Ok(PreparedChain::at(dir))
    }

    fn write(&self, dir: &Path, cache: &Cache) -> Result<(), GivenError> {
        let taken = blocks(&self.files).take(self.taken);
        let above = self.spec.genesis_header().number;
        // An entry of the cache with other blocks than its name says would be used by later benchmarks, too.
        match write_chain(dir, cache, &self.spec, taken, above, self.head.hash())? {
            content if content == self.content => Ok(()),
            _ => Err(GivenError::Changed),
        }
    }
}

/// Loads a chain by the name of a built-in one or the path of its genesis file. Returns it with its name or the
/// absolute path.
fn load(chain: &str) -> Result<(Arc<ChainSpec>, String), GivenError> {
    let spec = ChainSpec::load(chain)?;
    let name = match spec.outline() {
        // A relative path would mean another file to a process with another working directory.
        Some(_) => absolute(Path::new(chain))?.display().to_string(),
        None => spec.name().to_owned(),
    };
    Ok((spec, name))
}

/// Returns the rules of the chain with its genesis block, and the name of the file for them in the cache.
fn rules(spec: &ChainSpec) -> (&'static str, &str) {
    match spec.outline() {
        Some(outline) => (OUTLINE, outline),
        None => (BUILT_IN, spec.name()),
    }
}

/// Writes a prepared chain: the blocks above a number, the last of which has the hash `head`, with their senders. Returns
/// the hash of all these blocks.
fn write_chain(
    dir: &Path,
    cache: &Cache,
    spec: &ChainSpec,
    mut all: impl Iterator<Item = Result<RawBlock, BlockFileError>>,
    above: u64,
    head: B256,
) -> Result<B256, GivenError> {
    let (name, text) = rules(spec);
    write(&dir.join(name), text)?;
    tracing::info!("recovering the senders of blocks");
    let mut out = ChainFiles::create::<GivenError>(dir)?;
    let (mut count, mut transactions, mut content) = (0_u64, 0, Keccak256::new());
    loop {
        cache.go_on("senders were recovered")?;
        let portion = all.by_ref().take(PORTION).collect::<Result<Vec<_>, _>>()?;
        if portion.is_empty() {
            break;
        }
        let recovered: Vec<_> = portion.par_iter().map(senders).collect::<Result<_, _>>()?;
        for (raw, (number, senders)) in portion.iter().zip(recovered) {
            if number > above {
                count += 1;
                transactions += senders.len() as u64;
                content.update(&raw.rlp);
                out.push::<GivenError>(&raw.rlp, &senders)?;
            }
        }
    }
    out.finish::<GivenError>()?;
    let figures = json!({
        "genesis_hash": spec.genesis_hash(),
        "blocks": count,
        "transactions": transactions,
        "head": head,
    });
    write(&dir.join(FIGURES), format!("{figures:#}\n"))?;
    Ok(content.finalize())
}

/// Returns the blocks of all files.
fn blocks(files: &[PathBuf]) -> impl Iterator<Item = Result<RawBlock, BlockFileError>> {
    files.iter().flat_map(|file| -> Box<dyn Iterator<Item = _>> {
        match BlockReader::open(file) {
            Ok(blocks) => Box::new(blocks),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    })
}

/// Checks that a block is the one after `head`.
fn expect_next(
    raw: &RawBlock,
    header: &Sealed<Header>,
    head: &Sealed<Header>,
    spec: &ChainSpec,
) -> Result<(), GivenError> {
    if header.number == head.number + 1 && header.parent_hash == head.hash() {
        return Ok(());
    }
    let (number, hash) = (head.number + 1, head.hash());
    let expected = match hash == spec.genesis_hash() {
        true => format!(
            "block {number} on top of the genesis block {hash} of {}; check --chain, and name the files from block {number} on",
            spec.name()
        ),
        false => format!("block {number} on top of {hash}; name files that go on without a gap"),
    };
    let found = match header.number == spec.genesis_header().number {
        true => format!("the genesis block {}", header.hash()),
        false => format!("block {} on top of {}", header.number, header.parent_hash),
    };
    Err(GivenError::Gap { file: raw.file.to_string(), found, expected })
}

/// Returns the number of a block, and its senders.
fn senders(raw: &RawBlock) -> Result<(u64, Vec<Address>), GivenError> {
    let block = raw.decode()?;
    let number = block.header.number;
    let senders = recover_senders(&block.body.transactions)
        .map_err(|source| GivenError::Sender { file: Arc::clone(&raw.file), number, source })?;
    Ok((number, senders))
}

/// Returns the last part of a path, which the readers of a report get.
fn last_part(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

fn absolute(path: &Path) -> Result<PathBuf, CacheError> {
    std::path::absolute(path).map_err(CacheError::at("find", path))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::{fs, slice};

    /// Another program may write to a file between the two passes.
    #[test]
    fn files_that_change_between_the_passes_are_no_chain() {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/sample");
        let blocks = BlockReader::open(sample.join("chain.rlp.gz")).unwrap().take(3);
        let blocks: Vec<_> = blocks.map(|block| block.unwrap().rlp).collect();
        let (before, after) = (blocks[..2].concat(), blocks[1..].concat());
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache")).unwrap();
        let file = dir.path().join("chain.rlp");
        let genesis = sample.join("genesis.json");
        fs::write(&file, &before).unwrap();
        let files = slice::from_ref(&file);
        let given = GivenChain::open(files, genesis.to_str().unwrap(), None, &cache).unwrap();
        fs::write(&file, after).unwrap();
        let error = given.prepare(&cache).unwrap_err();
        assert!(matches!(error, GivenError::Changed), "{error}");
        // The cache has kept nothing of it.
        fs::write(&file, before).unwrap();
        assert_eq!(given.prepare(&cache).unwrap().length().unwrap().blocks, given.blocks());
    }
}
