//! Real blocks without the whole state: the accounts and slots that consecutive blocks touch are merged into the state
//! before the first block.
//!
//! A directory holds a JSON file for each block, in one of these forms. It may also hold `codes.json` (code by its
//! hash) and `blockhashes.json` (hashes of earlier blocks by number):
//!
//! | fields | what they are |
//! |---|---|
//! | `block`, `prestate`, `parent` | RLP of the block, what `debug_traceBlockByNumber` answers with `prestateTracer`, RLP of the parent's header |
//! | `block`, `pre` | RLP of the block, and accounts by address with all that the block touches |
//! | `block`, `state`, `codes`, `ancestors` | a witness, as `import --witness` writes it: trie nodes of the state before the block |
//!
//! The first file that names an account or slot has its value; later files have the value after the blocks between.

mod file;
mod merge;
mod nodes;
mod start;

pub use file::{PrestateError, block_files};
use merge::Merged;
pub use start::PartialStart;

use crate::{
    datadir::DataDir,
    state_dump::{PartialState, StateDumpError, Step},
};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::{Bytes, U256};
use polytrie_chain::Chain;
use polytrie_chainspec::ChainSpec;
use polytrie_consensus::decode::decode_lone_header;
use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

/// Blocks, and the state before the first of them.
#[derive(Debug)]
pub struct Prestate {
    blocks: Vec<Bytes>,
    state: PartialState,
    start: PartialStart,
    /// Numbers of the first and the last block.
    range: (u64, u64),
}

impl Prestate {
    /// Reads a directory of files. Their blocks must follow each other.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or has none of the forms above, or if a block is missing.
    pub fn read(dir: &Path, spec: &ChainSpec) -> Result<Self, PrestateError> {
        let file::Directory { files, codes, hashes } = file::read(dir)?;
        let mut merged = Merged::new(codes, &files)?;
        let total_difficulty = before(spec, files.iter().map(|file| file.block.header()));
        let mut total = total_difficulty;
        for file in &files {
            let header = file.block.header();
            let merge = spec.is_merged_after(total);
            let rules = spec.rules(header.number, header.timestamp, merge);
            total += header.difficulty;
            merged.add(file, rules)?;
        }
        let Some((first, last)) = files.first().zip(files.last()) else {
            return Err(PrestateError::Nothing(dir.to_owned()));
        };
        let (header, range) =
            (first.block.header(), (first.block.header().number, last.block.header().number));
        let parent = first.parent.as_ref().map(|parent| decode_lone_header(parent)).transpose();
        let parent = parent.ok().flatten().filter(|parent| parent.hash() == header.parent_hash);
        let number = header.number.saturating_sub(1);
        let ancestors = hashes.into_iter().chain(first.ancestors.clone());
        let start = PartialStart {
            number,
            hash: header.parent_hash,
            header: parent.map(Sealed::into_inner),
            total_difficulty,
            ancestors: ancestors.filter(|(ancestor, _)| *ancestor < number).collect(),
        };
        let blocks = files.into_iter().map(|file| file.rlp).collect();
        Ok(Self { blocks, state: merged.finish(), start, range })
    }

    /// Returns the numbers of the first and the last block.
    pub const fn range(&self) -> (u64, u64) {
        self.range
    }

    /// Returns the number of accounts that the blocks name.
    pub fn accounts(&self) -> u64 {
        self.state.accounts()
    }

    /// Whether the parent's header is known, so that the rules about the first header can be checked.
    pub const fn knows_parent(&self) -> bool {
        self.start.header.is_some()
    }

    /// Returns the block before the first one.
    pub const fn start(&self) -> &PartialStart {
        &self.start
    }

    /// Returns the RLP of each block.
    pub fn blocks(&self) -> &[Bytes] {
        &self.blocks
    }

    /// Returns the RLP of the blocks as one stream.
    pub fn stream(&self) -> Vec<u8> {
        self.blocks.concat()
    }

    /// Returns the part of the state that the blocks touch, as of before the first one.
    pub const fn state(&self) -> &PartialState {
        &self.state
    }

    /// Fills a new directory, as [`PartialState::load`]. Returns the chain, on which the blocks can be inserted.
    ///
    /// # Errors
    ///
    /// Fails if a store or a layer fails, or if `interrupt` is set.
    pub fn begin(
        &self,
        target: &DataDir,
        accounts: u64,
        interrupt: &AtomicBool,
        progress: &mut dyn FnMut(Step),
    ) -> Result<Chain, StateDumpError> {
        let (store, layer) = (target.store.clone(), Arc::clone(&target.layer));
        self.state.load(&store, &*layer, accounts, interrupt, progress)?;
        Ok(self.start.open(target.spec()?, store, layer, target.chain_options())?)
    }
}

/// Returns a total difficulty before the first of these headers that puts the merge at the right block.
fn before<'h>(spec: &ChainSpec, headers: impl Iterator<Item = &'h Header>) -> U256 {
    let (mut mined, mut is_merged) = (U256::ZERO, false);
    for header in headers {
        mined += header.difficulty;
        is_merged |= header.difficulty.is_zero();
    }
    match spec.terminal_total_difficulty().filter(|_| is_merged) {
        Some(terminal) => terminal.saturating_sub(mined),
        None => U256::ZERO,
    }
}
