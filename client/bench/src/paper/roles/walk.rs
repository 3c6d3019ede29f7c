//! A chain, block by block, with its last states beside it.

use super::{
    Course, LAYER,
    loads::{Loads, loads},
};
use crate::{
    BenchError, Comparison, Subject,
    fixture::{OpenStore, copy::copy_tree, store::prepared},
    run::candidates,
};
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
use polytrie_kv::StoreOptions;
use polytrie_state::{StateLayer, StateReader};
use std::{collections::VecDeque, fmt, sync::Arc};

/// The engine; what is counted does not depend on it.
const ENGINE: &str = "mdbx";

/// A state of the chain that is still alive.
pub(super) struct Head {
    /// The block that left it.
    pub(super) header: Sealed<Header>,
    pub(super) reader: Arc<dyn StateReader>,
    /// The accounts that the block changed, or slots of which it changed, by hash.
    pub(super) changed: Vec<B256>,
}

/// A block whose turn has come.
pub(super) struct Turn<'a> {
    pub(super) spec: &'a ChainSpec,
    pub(super) candidate: &'a Candidate,
    /// The states before it: the first that of its parent, each other a block older.
    pub(super) heads: &'a VecDeque<Head>,
    /// The layer at its parent.
    pub(super) layer: &'a dyn StateLayer,
    /// What its transactions load, in their order.
    pub(super) loads: &'a [Loads],
    hashes: &'a Hashes,
}

impl Turn<'_> {
    /// A state to try things out on.
    pub(super) fn sandbox(&self, head: &Head) -> Sandbox {
        Sandbox::new(Arc::clone(&head.reader), Arc::new(self.hashes.clone()))
    }

    pub(super) fn senders(&self) -> Result<&[Address], BenchError> {
        senders(self.candidate)
    }
}

/// The rules for a block, as far as they follow from its header.
pub(super) fn rules<'a>(spec: &'a ChainSpec, header: &Header) -> Rules<'a> {
    spec.rules(header.number, header.timestamp, header.difficulty.is_zero())
}

/// An error that names the block.
pub(super) fn wrong(number: u64) -> impl Fn(&dyn fmt::Display) -> BenchError {
    move |error| BenchError::Wrong(format!("block {number}: {error}"))
}

/// Visits the blocks of a chain, with the states of the last `behind` blocks and of their parent alive, from block
/// `first` on. The blocks before are executed, too.
///
/// # Errors
///
/// If the chain or the store fails, or as `visit`.
pub(super) fn walk(
    base: &Comparison,
    course: &Course,
    (behind, first): (usize, u64),
    visit: &mut dyn FnMut(&Turn<'_>) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let cache = &base.cache;
    let subject = Subject::new(LAYER, ENGINE);
    let scratch = cache.scratch()?;
    let dir = scratch.path().join("store");
    copy_tree(&prepared(cache, &course.base, &subject, &base.settings)?.dir, &dir)?;
    let open = OpenStore::open(&subject, &dir, &base.settings, StoreOptions::default())?;
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

fn head(chain: &mut Chain, hashes: &Hashes) -> Result<Head, BenchError> {
    let written = chain.take_written();
    let changed = written.iter().flat_map(|block| block.writes.accounts());
    let changed = changed.map(|write| write.hash).collect();
    let header = chain.head().header.clone();
    hashes.0.lock().insert(header.number, header.hash());
    Ok(Head { header, reader: chain.layer().reader()?, changed })
}

/// What the transactions of a block load when their turn comes.
fn executed(
    spec: &ChainSpec,
    parent: &Head,
    hashes: &Hashes,
    candidate: &Candidate,
) -> Result<Vec<Loads>, BenchError> {
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

fn senders(candidate: &Candidate) -> Result<&[Address], BenchError> {
    let senders = candidate.senders.as_deref();
    senders.map_err(|error| wrong(candidate.header.number)(error))
}

/// The hashes of the blocks so far, for BLOCKHASH.
#[derive(Debug, Default, Clone)]
struct Hashes(Arc<Mutex<HashMap<u64, B256>>>);

impl BlockHashes for Hashes {
    fn block_hash(&self, number: u64) -> Option<B256> {
        self.0.lock().get(&number).copied()
    }
}
