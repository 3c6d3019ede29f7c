//! The walk over a chain, block by block, with its last states beside each block.

use super::{
    Course, LAYER,
    loads::{Loads, loads},
};
use crate::{BenchError, Comparison, Result, Subject, fixture::store::copied, run::candidates};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::{Address, B256, map::HashMap};
use parking_lot::Mutex;
use polytrie_chain::{
    Candidate, Chain, ChainOptions,
    executor::{
        BlockHashes,
        sandbox::{Replay, Sandbox},
    },
};
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_state::{StateError, StateLayer, StateReader};
use std::{collections::VecDeque, fmt, sync::Arc};

/// The engine. Counts do not depend on it.
const ENGINE: &str = "mdbx";

/// A state of the chain that is still readable.
pub(super) struct Head {
    /// Header of the block after which the state is.
    pub(super) header: Sealed<Header>,
    pub(super) reader: Arc<dyn StateReader>,
    /// Hashes of the accounts that the block changed, or of which it changed slots.
    pub(super) changed: Vec<B256>,
}

/// The block that the walk has reached.
pub(super) struct Turn<'a> {
    pub(super) spec: &'a ChainSpec,
    pub(super) candidate: &'a Candidate,
    /// The states before the block: first that of its parent, each further one a block older.
    pub(super) heads: &'a VecDeque<Head>,
    /// The layer at the state of the parent.
    pub(super) layer: &'a dyn StateLayer,
    /// The loads of its transactions, in their order.
    pub(super) loads: &'a [Loads],
    hashes: &'a Hashes,
}

impl Turn<'_> {
    /// A sandbox that runs transactions on a state and leaves it unchanged.
    pub(super) fn sandbox(&self, head: &Head) -> Sandbox {
        Sandbox::new(Arc::clone(&head.reader), Arc::new(self.hashes.clone()))
    }

    pub(super) fn senders(&self) -> Result<&[Address]> {
        senders(self.candidate)
    }
}

/// The rules of a block, as far as they follow from its header.
pub(super) fn rules<'a>(spec: &'a ChainSpec, header: &Header) -> Rules<'a> {
    spec.rules(header.number, header.timestamp, header.difficulty.is_zero())
}

/// Makes an error that names the block.
pub(super) fn wrong(number: u64) -> impl Fn(&dyn fmt::Display) -> BenchError {
    move |error| BenchError::Wrong(format!("block {number}: {error}"))
}

/// Visits the blocks of a chain from block `first` on. The states of its parent and of `behind` blocks before that
/// are readable. Blocks before `first` are executed only.
///
/// # Errors
///
/// If the chain or the store fails, or `visit` returns an error.
pub(super) fn walk(
    base: &Comparison,
    course: &Course,
    (behind, first): (usize, u64),
    visit: &mut dyn FnMut(&Turn<'_>) -> Result<()>,
) -> Result<()> {
    let cache = &base.cache;
    let subject = Subject::new(LAYER, ENGINE);
    let (_scratch, open, _) = copied(cache, &course.base, &subject, &base.settings)?;
    let options = ChainOptions { keep_writes: true, ..ChainOptions::default() };
    let mut chain = open.begin(course.chain.spec()?, options)?;
    let spec = Arc::clone(chain.spec());
    let hashes = Hashes::default();
    let mut heads = VecDeque::new();
    heads.push_front(head(&mut chain, &hashes)?);
    let blocks = candidates(&course.chain, &spec)?;
    for candidate in blocks.into_iter().take(course.most_blocks) {
        cache.go_on("transactions were counted")?;
        let number = candidate.header.number;
        if number >= first {
            let loads = executed(&spec, &heads[0], &hashes, &candidate)?;
            let (candidate, heads) = (&candidate, &heads);
            let layer = &**chain.layer();
            let (loads, hashes) = (&loads[..], &hashes);
            visit(&Turn { spec: &spec, candidate, heads, layer, loads, hashes })?;
        }
        chain.insert(candidate).map_err(|error| wrong(number)(&error))?;
        chain.settle().map_err(|error| wrong(number)(&error))?;
        heads.push_front(head(&mut chain, &hashes)?);
        heads.truncate(behind + 1);
    }
    Ok(())
}

fn head(chain: &mut Chain, hashes: &Hashes) -> Result<Head> {
    let written = chain.take_written();
    let changed = written.iter().flat_map(|block| block.writes.accounts());
    let changed = changed.map(|write| write.hash).collect();
    let header = chain.head().header.clone();
    hashes.0.lock().insert(header.number, header.hash());
    Ok(Head { header, reader: chain.layer().reader()?, changed })
}

/// The loads of the transactions of a block, executed on the state of its parent.
fn executed(
    spec: &ChainSpec,
    parent: &Head,
    hashes: &Hashes,
    candidate: &Candidate,
) -> Result<Vec<Loads>> {
    let header = &candidate.header;
    let wrong = wrong(header.number);
    let beneficiary = *candidate.coinbase.as_ref().map_err(|error| wrong(error))?;
    let mut sandbox = Sandbox::new(Arc::clone(&parent.reader), Arc::new(hashes.clone()));
    let mut replay =
        Replay::begin(&mut sandbox, header, rules(spec, header)).map_err(|error| wrong(&error))?;
    let transactions = candidate.block.body.transactions.iter().zip(senders(candidate)?);
    transactions
        .map(|(tx, sender)| {
            let state = replay.loads(tx, *sender).map_err(|error| wrong(&error))?;
            Ok(loads(&state, beneficiary))
        })
        .collect()
}

fn senders(candidate: &Candidate) -> Result<&[Address]> {
    candidate.senders().map_err(|error| wrong(candidate.header.number)(error))
}

/// Hashes of the blocks so far, for BLOCKHASH.
#[derive(Debug, Default, Clone)]
struct Hashes(Arc<Mutex<HashMap<u64, B256>>>);

impl BlockHashes for Hashes {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        Ok(self.0.lock().get(&number).copied())
    }
}
