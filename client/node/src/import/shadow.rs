//! A second chain under another layer, which executes the same blocks as the first. Results on which both layers must
//! agree are compared after each block.
//!
//! The shadow executes every block by itself, so a layer that returns a wrong value is found as well as one that
//! computes a wrong root. Its data is in a separate directory within the first one's (`shadow-LAYER`), or in memory if
//! the first one's is. When it is opened, it executes the blocks that the first chain has already.

use super::report::ShadowReport;
use crate::datadir::{DataDir, OpenError, OpenOptions};
use alloy_primitives::{Address, B256, U256};
use polytrie_chain::{Candidate, Chain, ChainError, InsertError, InvalidBlock};
use polytrie_kv::Durability;
use polytrie_state::{Account, AccountWrite, StateError, StateReader, WriteSet};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use thiserror::Error;

/// The prefix of the name of a shadow's directory; the name of its layer follows.
pub const SHADOW_PREFIX: &str = "shadow-";

/// A chain that follows another one under another layer.
#[derive(Debug)]
pub struct Shadow {
    chain: Chain,
    /// Number of blocks that were compared.
    blocks: u64,
    roots: bool,
    /// The data directory, which stays locked.
    _dir: Option<DataDir>,
}

/// The first difference between two layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Number of the block after which, or in which, they differ.
    pub block: u64,
    /// The value that differs.
    pub what: What,
    /// The names of the two layers; the shadow's is the second.
    pub layers: [String; 2],
    /// The values under these layers, in the same order.
    pub values: [String; 2],
}

/// A value that can differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The root of the whole state.
    StateRoot,
    /// An account: nonce, balance, hash of its code.
    Account(Key),
    /// Whether all slots of an account were removed.
    Wipe(Key),
    /// A slot of an account.
    Slot(Key, B256),
    /// A slot of an account, as it was read after its write.
    Stored(Address, U256),
}

/// The address of an account, or its hash if the address is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The address of the account.
    Address(Address),
    /// The hash of its address.
    Hash(B256),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Hash(hash) => write!(f, "with the hash {hash}"),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StateRoot => write!(f, "the state root"),
            Self::Account(account) => write!(f, "account {account}"),
            Self::Wipe(account) => {
                write!(f, "whether the storage of account {account} was removed")
            }
            Self::Slot(account, slot) => write!(f, "account {account}, slot with the hash {slot}"),
            Self::Stored(account, slot) => write!(f, "account {account}, slot {slot:#x}"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block, what, layers: [main, shadow], values: [found, other] } = self;
        write!(f, "block {block}, {what}: {found} under `{main}`, {other} under `{shadow}`")
    }
}

/// The errors of a shadow.
#[derive(Debug, Error)]
pub enum ShadowError {
    /// The two layers differ.
    #[error("the layers differ at {0}; one of them is wrong, please report it")]
    Differs(Box<Difference>),
    /// A block is valid under the first layer and invalid under the second.
    #[error(
        "the layers differ: valid under the layer of the data directory, but under `{layer}` {block}; one of them is wrong, please report it"
    )]
    Refused {
        /// The shadow's layer.
        layer: String,
        /// The block, and the rule that it breaks under the shadow's layer.
        block: Box<InvalidBlock>,
    },
    /// The shadow's layer is the layer of the chain.
    #[error("--shadow {layer} is the layer of the data directory itself; name another one")]
    Same {
        /// The layer.
        layer: String,
    },
    /// The shadow has blocks that are no part of the chain, and cannot be undone.
    #[error(
        "the shadow in {dir} is at block {number} ({hash}), from where it cannot go back to a block of this chain; remove that directory, it is made again"
    )]
    Apart {
        /// The shadow's directory.
        dir: String,
        /// Number of its head.
        number: u64,
        /// Hash of its head.
        hash: B256,
    },
    /// The chain begins after the last block that the shadow has.
    #[error(
        "the chain begins with the state at block {start}, to which no blocks lead a shadow: make the shadow with `polytrie db convert --to {layer} --out {dir}`, where nothing may be before"
    )]
    Begun {
        /// The shadow's layer.
        layer: String,
        /// The shadow's directory.
        dir: String,
        /// Number of the block that the chain begins with.
        start: u64,
    },
    /// The shadow cannot be opened.
    #[error("the shadow cannot be opened: {0}")]
    Open(Box<OpenError>),
    /// The user asked to stop while the shadow caught up.
    #[error(
        "interrupted while the shadow caught up, at its block {block}; run the same command again to go on from there"
    )]
    Interrupted {
        /// Number of its head, which is durable.
        block: u64,
    },
    /// The shadow failed.
    #[error("the shadow under `{layer}`: {error}")]
    Broken {
        /// The shadow's layer.
        layer: String,
        /// The error.
        error: Box<ChainError>,
    },
}

impl Shadow {
    /// Opens the shadow of a chain that was opened with `options`, and brings it to the same block. `chain` must have
    /// been opened to keep its writes. Stops when another thread sets `interrupt`.
    ///
    /// # Errors
    ///
    /// If the layers are the same, or the shadow cannot be opened, is not of this chain, or was interrupted.
    pub fn open(
        layer: &str,
        options: &OpenOptions,
        dir: &DataDir,
        chain: &Chain,
        interrupt: &AtomicBool,
    ) -> Result<Self, ShadowError> {
        if layer == chain.layer().name() {
            return Err(ShadowError::Same { layer: layer.to_owned() });
        }
        let mut own = options.clone();
        own.datadir = options.datadir.as_ref().map(|d| d.join(format!("{SHADOW_PREFIX}{layer}")));
        own.state = Some(layer.to_owned());
        own.kv = Some(dir.stamp.kv.clone());
        // A new shadow needs the accounts of the genesis. One that is there knows its chain, whose genesis file may be gone.
        if own.chain.is_none() && own.is_new() {
            let stamped = |_| dir.stamp.chain.clone();
            own.chain = Some(dir.genesis().map_or_else(stamped, |spec| spec.name().to_owned()));
        }
        // The file may have changed since the chain was made.
        let of_chain = options.datadir.clone().unwrap_or_default();
        own.first_block = Some((of_chain, chain.spec().genesis_header().clone()));
        own.chain_options.keep_writes = true;
        own.store.durability = Durability::Deferred;
        own.chain_options.witness_levels = None;
        // Its access lists would be kept and never taken, and its slow blocks would repeat lines of the log.
        own.chain_options.keep_access_lists = false;
        own.chain_options.log_slow_blocks = None;
        // Settings that only one data directory can have stay with the first one.
        own.layer = own.layer.beside();
        let open = |error| ShadowError::Open(Box::new(error));
        let place = own.datadir.as_ref().map_or("memory".to_owned(), |d| d.display().to_string());
        if let Some(start) = chain.start().filter(|_| own.is_new()) {
            return Err(ShadowError::Begun { layer: layer.to_owned(), dir: place, start });
        }
        let own = DataDir::open(&own, true).map_err(open)?;
        let begin = |spec| {
            let (store, layer) = (own.store.clone(), Arc::clone(&own.layer));
            Chain::open(spec, store, layer, own.chain_options()).map_err(|error| open(error.into()))
        };
        // The genesis block takes the accounts in the file. All other blocks follow the rules of the chain.
        if let Ok(None) = own.chain_db().head() {
            drop(begin(own.spec().map_err(open)?)?);
        }
        let shadow = begin(Arc::clone(chain.spec()))?;
        let roots = dir.kind.canonical && own.kind.canonical;
        let mut shadow = Self { _dir: Some(own), ..Self::of(shadow, roots) };
        shadow.catch_up(chain, place, interrupt)?;
        Ok(shadow)
    }

    /// Makes the shadow of a chain at the same block; `roots` says whether state roots can be compared.
    pub(super) const fn of(chain: Chain, roots: bool) -> Self {
        Self { chain, blocks: 0, roots, _dir: None }
    }

    /// Goes back to the last block that both chains have, and executes the blocks of the chain from there on.
    /// Afterwards it also has the chain's blocks of other branches.
    pub(super) fn catch_up(
        &mut self,
        main: &Chain,
        dir: String,
        interrupt: &AtomicBool,
    ) -> Result<(), ShadowError> {
        let target = main.head().number();
        let (number, hash) = (self.chain.head().number(), self.chain.head().hash());
        // A crash may leave it ahead of the chain, or on a branch that the chain has left or not reached yet.
        let shared = self.last_shared(main).map_err(|e| self.broken(e))?;
        if let Some(start) = main.start().filter(|start| shared < *start) {
            let layer = self.chain.layer().name().to_owned();
            return Err(ShadowError::Begun { layer, dir, start });
        }
        self.chain.unwind_to(shared).map_err(|error| match error {
            ChainError::NoUndo { .. } => ShadowError::Apart { dir, number, hash },
            error => self.broken(error),
        })?;
        let number = shared;
        if number < target {
            tracing::info!(from = number + 1, to = target, "the shadow catches up");
        }
        for number in number + 1..=target {
            if interrupt.load(Ordering::Relaxed) {
                self.flush()?;
                return Err(ShadowError::Interrupted { block: self.chain.head().number() });
            }
            let missing = || main.db().missing(number);
            let rlp = main.db().block_rlp(number).and_then(|rlp| rlp.ok_or_else(missing));
            let rlp = rlp.map_err(|e| self.broken(e))?;
            let candidate = Candidate::prepare_without_senders(main.spec(), rlp)
                .map_err(|e| self.broken(ChainError::Corrupt(format!("block {number}: {e}"))))?;
            self.insert(candidate)?;
            // These writes are compared with nothing; kept until the end they would take memory for each block.
            self.chain.take_written();
        }
        // A later block may be on top of one of these.
        main.copy_side_blocks(&mut self.chain).map_err(|e| self.broken(e))
    }

    /// Returns the number of the last block that both chains have.
    fn last_shared(&self, main: &Chain) -> Result<u64, ChainError> {
        let hash = |chain: &Chain, number| {
            Ok::<_, ChainError>(chain.db().canonical(number)?.map(|(hash, _)| hash))
        };
        let mut shared = main.spec().genesis_header().number;
        let mut highest = main.head().number().min(self.chain.head().number());
        while shared < highest {
            let middle = highest - (highest - shared) / 2;
            if hash(main, middle)? == hash(&self.chain, middle)? {
                shared = middle;
            } else {
                highest = middle - 1;
            }
        }
        Ok(shared)
    }

    /// Inserts a block that the chain has just inserted, and compares the results.
    ///
    /// # Errors
    ///
    /// The first difference, or the error of either chain.
    pub(super) fn follow(
        &mut self,
        candidate: Candidate,
        main: &mut Chain,
    ) -> Result<(), super::ImportError> {
        main.settle().map_err(|error| match error {
            InsertError::Invalid(block) => super::ImportError::Stored { block },
            InsertError::Broken(error) => error.into(),
        })?;
        self.insert(candidate)?;
        Ok(self.compare(main)?)
    }

    fn insert(&mut self, candidate: Candidate) -> Result<(), ShadowError> {
        let inserted = self.chain.insert(candidate).and_then(|_| self.chain.settle());
        inserted.map_err(|error| match error {
            InsertError::Invalid(block) => {
                ShadowError::Refused { layer: self.chain.layer().name().to_owned(), block }
            }
            InsertError::Broken(error) => self.broken(error),
        })
    }

    fn compare(&mut self, main: &mut Chain) -> Result<(), ShadowError> {
        let names = [main.layer().name().to_owned(), self.chain.layer().name().to_owned()];
        let differs = |block, (what, values): (What, [String; 2])| {
            let layers = names.clone();
            ShadowError::Differs(Box::new(Difference { block, what, layers, values }))
        };
        let (theirs, own) = (main.take_written(), self.chain.take_written());
        for (a, b) in theirs.iter().zip(&own) {
            if let Some(difference) = first_difference(&a.writes, &b.writes) {
                return Err(differs(a.number, difference));
            }
            self.blocks += 1;
        }
        let block = main.head().number();
        let roots = [&*main, &self.chain].map(|chain| chain.layer().commitment().as_state_root());
        if let [Some(a), Some(b)] = roots
            && a != b
        {
            return Err(differs(block, (What::StateRoot, [a.to_string(), b.to_string()])));
        }
        // Written values must be readable; of several blocks only the last one's values must still be there.
        let Some(last) = theirs.last() else { return Ok(()) };
        let reader = |chain: &Chain| chain.layer().reader();
        let readers = [reader(&*main), reader(&self.chain)];
        let [a, b] = readers.map(|reader| reader.map_err(|e| self.broken(e.into())));
        match read_back(&last.writes, [&*a?, &*b?]).map_err(|e| self.broken(e.into()))? {
            Some(difference) => Err(differs(block, difference)),
            None => Ok(()),
        }
    }

    /// Makes all its blocks durable.
    pub(super) fn flush(&mut self) -> Result<(), ShadowError> {
        self.chain.flush().map_err(|e| self.broken(e))
    }

    pub(super) fn report(&self) -> ShadowReport {
        let state = self.chain.layer().name().to_owned();
        ShadowReport { state, blocks: self.blocks, roots: self.roots }
    }

    fn broken(&self, error: ChainError) -> ShadowError {
        let layer = self.chain.layer().name().to_owned();
        ShadowError::Broken { layer, error: Box::new(error) }
    }
}

fn key(write: &AccountWrite) -> Key {
    write.address.map_or(Key::Hash(write.hash), Key::Address)
}

/// Returns the first difference between two write sets of one block, in order of hashes.
fn first_difference(a: &Arc<WriteSet>, b: &Arc<WriteSet>) -> Option<(What, [String; 2])> {
    let (mut a, mut b) = (a.accounts().iter().peekable(), b.accounts().iter().peekable());
    loop {
        let (left, right) = match (a.peek(), b.peek()) {
            (None, None) => return None,
            (Some(left), Some(right)) if left.hash == right.hash => (a.next()?, b.next()?),
            (Some(left), right) if right.is_none_or(|right| left.hash < right.hash) => {
                let values = [account(left.after), format!("{} (unchanged)", account(left.before))];
                return Some((What::Account(key(left)), values));
            }
            (_, Some(right)) => {
                let values =
                    [format!("{} (unchanged)", account(right.before)), account(right.after)];
                return Some((What::Account(key(right)), values));
            }
            (Some(_), None) => return None,
        };
        if (left.before, left.after) != (right.before, right.after) {
            let value = |write: &AccountWrite| {
                format!("{} (before: {})", account(write.after), account(write.before))
            };
            return Some((What::Account(key(left)), [value(left), value(right)]));
        }
        if left.wipe != right.wipe {
            let values = [left.wipe.to_string(), right.wipe.to_string()];
            return Some((What::Wipe(key(left)), values));
        }
        if left.slots == right.slots {
            continue;
        }
        let all = left.slots.iter().chain(&right.slots).map(|slot| slot.hash);
        let find = |write: &AccountWrite, hash: &B256| {
            write.slots.iter().find(|slot| slot.hash == *hash).copied()
        };
        let hash = all.filter(|hash| find(left, hash) != find(right, hash)).min()?;
        let value = |write: &AccountWrite| match find(write, &hash) {
            Some(slot) => format!("{:#x} (before: {:#x})", slot.after, slot.before),
            None => "unchanged".to_owned(),
        };
        return Some((What::Slot(key(left), hash), [value(left), value(right)]));
    }
}

fn account(account: Option<Account>) -> String {
    match account {
        None => "none".to_owned(),
        Some(Account { nonce, balance, code_hash }) => {
            format!("nonce {nonce}, balance {balance}, code {code_hash}")
        }
    }
}

/// Returns the first value that one of the layers does not return as it was written.
fn read_back(
    writes: &WriteSet,
    readers: [&dyn StateReader; 2],
) -> Result<Option<(What, [String; 2])>, StateError> {
    for write in writes.accounts() {
        let Some(address) = write.address else { continue };
        let [a, b] = readers.map(|reader| reader.account(&address));
        let (a, b) = (a?, b?);
        if a != write.after || b != write.after {
            return Ok(Some((What::Account(key(write)), [account(a), account(b)])));
        }
        for slot in &write.slots {
            let Some(number) = slot.slot else { continue };
            let [a, b] = readers.map(|reader| reader.slot(&address, &number));
            let (a, b) = (a?, b?);
            if a != slot.after || b != slot.after {
                let values = [format!("{a:#x}"), format!("{b:#x}")];
                return Ok(Some((What::Stored(address, number), values)));
            }
        }
    }
    Ok(None)
}
