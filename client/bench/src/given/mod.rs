//! A chain that was given: files of blocks, as `import` takes them, in place of a workload.
//!
//! They are read twice: once to see that they are one chain on top of the genesis block, and what they hold; and, if that
//! is not in the cache yet, once more to recover the senders. Everything else about them is checked when they are measured.

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

/// Blocks whose senders are recovered at once.
const PORTION: usize = 256;

/// Blocks from files, one on top of the other from block 1 on.
#[derive(Debug)]
pub struct GivenChain {
    spec: Arc<ChainSpec>,
    /// Its name, or the absolute path of its genesis file.
    name: String,
    files: Vec<PathBuf>,
    /// How many blocks of the files belong to it, the genesis block included if it is there.
    taken: usize,
    head: Sealed<Header>,
    /// Of all its blocks after each other.
    content: B256,
}

/// The files are no chain that can be measured.
#[derive(Debug, Error)]
pub enum GivenError {
    /// There is no such chain.
    #[error(transparent)]
    Chain(#[from] ChainSpecError),
    /// A file cannot be read.
    #[error(transparent)]
    Blocks(#[from] BlockFileError),
    /// A file does not go on where the chain ends so far.
    #[error("{file}: found {found}, expected {expected}")]
    Gap {
        /// The file.
        file: String,
        /// What is in it.
        found: String,
        /// What would go on.
        expected: String,
    },
    /// There is nothing to measure.
    #[error("the files hold no block after the genesis block; name one that does")]
    Nothing,
    /// A transaction has no sender.
    #[error("{file}: block {number}: {source}")]
    Sender {
        /// The file.
        file: Arc<str>,
        /// The block.
        number: u64,
        /// Which transaction, and why.
        source: SenderError,
    },
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A directory of blocks and what they touch cannot be used.
    #[error(transparent)]
    Prestate(#[from] PrestateError),
    /// The blocks cannot be kept.
    #[error(transparent)]
    Write(#[from] ExportError),
}

impl GivenChain {
    /// Reads what the files hold, as far as block `to`. They may begin with the genesis block of `chain`, the name of a
    /// built-in chain or the path of a genesis file.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or they are no chain on top of that genesis block.
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
        if head.number == spec.genesis_header().number {
            return Err(GivenError::Nothing);
        }
        let content = content.finalize();
        Ok(Self { spec, name, files: files.to_vec(), taken, head, content })
    }

    /// How many blocks it has beside the genesis block.
    pub fn blocks(&self) -> u64 {
        self.head.number - self.spec.genesis_header().number
    }

    /// What the state depends on that it begins with.
    pub(super) fn base(&self) -> BaseSpec {
        BaseSpec::Chain { chain: self.name.clone(), genesis_hash: self.spec.genesis_hash() }
    }

    /// What readers of a report should know of it. Paths are left out: the same files may be elsewhere on another machine.
    pub(super) fn parameters(&self) -> Value {
        let name =
            |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        json!({
            "chain": Path::new(&self.name).file_name().map(|name| name.to_string_lossy()),
            "genesis_hash": self.spec.genesis_hash(),
            "files": self.files.iter().filter_map(name).collect::<Vec<_>>(),
            "head": self.head.number,
            "head_hash": self.head.hash(),
        })
    }

    /// The chain with its senders: from the cache, or made now.
    ///
    /// # Errors
    ///
    /// If a block cannot be decoded, a sender not recovered, or the cache fails.
    pub(super) fn prepare(&self, cache: &Cache) -> Result<PreparedChain, GivenError> {
        // Chains that differ in their forks only begin with the same block.
        let (kind, rules) = rules(&self.spec);
        let parameters = json!({ kind: keccak256(rules), "content": self.content });
        let dir = cache.entry("chain-given", &parameters, |dir| self.write(dir, cache))?;
        Ok(PreparedChain::at(dir))
    }

    fn write(&self, dir: &Path, cache: &Cache) -> Result<(), GivenError> {
        let taken = blocks(&self.files).take(self.taken);
        let above = self.spec.genesis_header().number;
        write_chain(dir, cache, &self.spec, taken, above, self.head.hash())
    }
}

/// A chain by the name of a built-in one or the path of its genesis file, and its name or the absolute path.
fn load(chain: &str) -> Result<(Arc<ChainSpec>, String), GivenError> {
    let spec = ChainSpec::load(chain)?;
    let name = match spec.outline() {
        // A relative path would mean something else to a process elsewhere.
        Some(_) => absolute(Path::new(chain))?.display().to_string(),
        None => spec.name().to_owned(),
    };
    Ok((spec, name))
}

/// What the chain follows, its genesis block included, and the name of the file that holds it in the cache.
fn rules(spec: &ChainSpec) -> (&'static str, &str) {
    match spec.outline() {
        Some(outline) => (OUTLINE, outline),
        None => (BUILT_IN, spec.name()),
    }
}

/// Writes a prepared chain: the blocks above a number, the last of which has the hash `head`, with their senders.
fn write_chain(
    dir: &Path,
    cache: &Cache,
    spec: &ChainSpec,
    mut all: impl Iterator<Item = Result<RawBlock, BlockFileError>>,
    above: u64,
    head: B256,
) -> Result<(), GivenError> {
    let (name, text) = rules(spec);
    write(&dir.join(name), text)?;
    tracing::info!("recovering the senders of blocks");
    let mut out = ChainFiles::create::<GivenError>(dir)?;
    let (mut count, mut transactions) = (0_u64, 0);
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
    Ok(write(&dir.join(FIGURES), format!("{figures:#}\n"))?)
}

/// The blocks of all files.
fn blocks(files: &[PathBuf]) -> impl Iterator<Item = Result<RawBlock, BlockFileError>> {
    files.iter().flat_map(|file| -> Box<dyn Iterator<Item = _>> {
        match BlockReader::open(file) {
            Ok(blocks) => Box::new(blocks),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    })
}

/// Fails if a block is not the one on top of `head`.
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

/// The number of a block, and its senders.
fn senders(raw: &RawBlock) -> Result<(u64, Vec<Address>), GivenError> {
    let block = raw.decode()?;
    let number = block.header.number;
    let senders = recover_senders(&block.body.transactions);
    let file = || Arc::clone(&raw.file);
    let senders = senders.map_err(|source| GivenError::Sender { file: file(), number, source })?;
    Ok((number, senders))
}

fn absolute(path: &Path) -> Result<PathBuf, CacheError> {
    std::path::absolute(path).map_err(CacheError::at("find", path))
}
