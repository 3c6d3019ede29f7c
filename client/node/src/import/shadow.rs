//! A second chain under another layer, in lock-step with the first: what both must agree on is compared block by
//! block.
//!
//! The shadow executes every block by itself, so a layer that answers a read wrongly is found as well as one that
//! computes a wrong root. Its data is in a directory of its own within the first one's (`shadow-LAYER`), or in
//! memory if that is where the first one is. It catches up with the blocks that the first one has already.

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

/// The beginning of the name of a shadow's directory; its layer follows.
pub const SHADOW_PREFIX: &str = "shadow-";

/// A chain that follows another one under another layer.
#[derive(Debug)]
pub struct Shadow {
    chain: Chain,
    /// Blocks compared.
    blocks: u64,
    roots: bool,
    /// Keeps the directory locked.
    _dir: Option<DataDir>,
}

/// The first thing in which two layers differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The block after which, or by which, they do.
    pub block: u64,
    /// What differs.
    pub what: What,
    /// The two layers' names; that of the shadow comes second.
    pub layers: [String; 2],
    /// The values under these layers, in the same order.
    pub values: [String; 2],
}

/// What can differ.
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
    /// A slot of an account, read back.
    Stored(Address, U256),
}

/// An account by what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Its address.
    Address(Address),
    /// Only the hash of it.
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

/// A shadow cannot go on.
#[derive(Debug, Error)]
pub enum ShadowError {
    /// The two layers differ.
    #[error("the layers differ at {0}; one of them is wrong, please report it")]
    Differs(Box<Difference>),
    /// A block that is valid under the first layer is not under the second.
    #[error(
        "the layers differ: valid under the layer of the data directory, but under `{layer}` {block}"
    )]
    Refused {
        /// The shadow's layer.
        layer: String,
        /// The block, and the rule that it breaks under the shadow's layer.
        block: Box<InvalidBlock>,
    },
    /// A layer compared with itself.
    #[error("--shadow {layer} is the layer of the data directory itself; name another one")]
    Same {
        /// The layer.
        layer: String,
    },
    /// The shadow holds a block that is no part of the chain that it should follow.
    #[error(
        "the shadow in {dir} is at block {number} ({hash}), from where it cannot go back to a block of this chain; remove that directory, it is made again"
    )]
    Apart {
        /// Its directory.
        dir: String,
        /// Its head.
        number: u64,
        /// Hash of its head.
        hash: B256,
    },
    /// It cannot be opened.
    #[error("the shadow cannot be opened: {0}")]
    Open(Box<OpenError>),
    /// The user asked to stop while it caught up.
    #[error(
        "interrupted while the shadow caught up, at its block {block}; run the same command again to go on from there"
    )]
    Interrupted {
        /// Its head, which is durable.
        block: u64,
    },
    /// It failed.
    #[error("the shadow under `{layer}`: {error}")]
    Broken {
        /// Its layer.
        layer: String,
        /// Why.
        error: Box<ChainError>,
    },
}

impl Shadow {
    /// Opens the shadow of a chain that was opened with `options`, and brings it to the same block. `chain` must have
    /// been opened to keep what it writes. It stops where `interrupt` was set from outside.
    ///
    /// # Errors
    ///
    /// If it is the same layer, cannot be opened, does not belong to the chain, or was stopped.
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
        own.chain = options.chain.clone().or_else(|| Some(dir.stamp.chain.clone()));
        own.chain_options.keep_writes = true;
        own.store.durability = Durability::Deferred;
        own.chain_options.witness_levels = None;
        // Its access lists would be kept and never taken, and the log has the first chain's lines.
        own.chain_options.keep_access_lists = false;
        own.chain_options.log_slow_blocks = None;
        // What only one data directory can have stays with the first one.
        own.layer = own.layer.beside();
        let open = |error| ShadowError::Open(Box::new(error));
        let place = own.datadir.as_ref().map_or("memory".to_owned(), |d| d.display().to_string());
        let (shadow, own) =
            DataDir::open(&own, true).and_then(DataDir::into_chain).map_err(open)?;
        let roots = dir.kind.canonical && own.kind.canonical;
        let mut shadow = Self { _dir: Some(own), ..Self::of(shadow, roots) };
        shadow.catch_up(chain, place, interrupt)?;
        Ok(shadow)
    }

    /// The shadow of a chain at the same block; `roots` says whether state roots can be compared.
    pub(super) const fn of(chain: Chain, roots: bool) -> Self {
        Self { chain, blocks: 0, roots, _dir: None }
    }

    /// Goes back to the last block that the chain has too, executes what it lacks from there on, and knows the same blocks of
    /// other branches afterwards.
    pub(super) fn catch_up(
        &mut self,
        main: &Chain,
        dir: String,
        interrupt: &AtomicBool,
    ) -> Result<(), ShadowError> {
        let target = main.head().number();
        let (number, hash) = (self.chain.head().number(), self.chain.head().hash());
        // A crash may leave it further on than the chain, or on a branch that the chain has left or not reached yet.
        let shared = self.last_shared(main).map_err(|e| self.broken(e))?;
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
            let candidate = Candidate::prepare(main.spec(), rlp)
                .map_err(|e| self.broken(ChainError::Corrupt(format!("block {number}: {e}"))))?;
            self.insert(candidate)?;
            // It is compared with nothing: kept until the end it would take the more memory the more there is to catch up.
            self.chain.take_written();
        }
        // A branch may go on from there.
        main.db().copy_side_blocks(self.chain.db()).map_err(|e| self.broken(e))
    }

    /// The last block that both chains have.
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

    /// Takes in a block that the chain has just taken in, and compares what came of it.
    ///
    /// # Errors
    ///
    /// The first difference.
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
        // What was written can be read; of several blocks only the last one's values must still stand.
        let Some(last) = theirs.last() else { return Ok(()) };
        let reader = |chain: &Chain| chain.layer().reader();
        let readers = [reader(&*main), reader(&self.chain)];
        let [a, b] = readers.map(|reader| reader.map_err(|e| self.broken(e.into())));
        match read_back(&last.writes, [&*a?, &*b?]).map_err(|e| self.broken(e.into()))? {
            Some(difference) => Err(differs(block, difference)),
            None => Ok(()),
        }
    }

    /// Makes everything it took in durable.
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

/// The first thing in which two write sets of one block differ, in order of hashes.
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

/// The first value that one of the layers does not give back as it was written.
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
