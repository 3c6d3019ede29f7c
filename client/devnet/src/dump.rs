//! Dump and load of the whole state by address, for files that another node can load.

use super::{
    BlockTime, MineOptions, Node, NodeError, Result, View, node::code_of, producer::check_time,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_chain::ChainDb;
use polytrie_chainspec::ChainSpec;
use polytrie_state::{Account, StateReader};
use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

/// Maximum number of empty blocks that are made to reach the block number of a loaded state.
const MOST_BLOCKS: u64 = 100_000;

/// An account with its code and all its slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WholeAccount {
    /// Nonce.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Code; empty for an account without code.
    pub code: Bytes,
    /// Slots with values other than zero.
    pub slots: BTreeMap<U256, U256>,
}

/// The state of a node at one view of its chain.
#[derive(Debug, Clone)]
pub struct Dump {
    /// The view of the chain to which the state belongs.
    pub view: Arc<View>,
    /// All accounts by address.
    pub accounts: BTreeMap<Address, WholeAccount>,
}

/// The block from which a loaded state comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Origin {
    /// Number of the block.
    pub number: u64,
    /// Time of the block, in seconds.
    pub timestamp: u64,
}

impl Node {
    /// Returns all accounts, with the changes that wait for the next block. This takes time and memory in proportion to
    /// the state, and blocks the chain meanwhile.
    ///
    /// # Errors
    ///
    /// If an account or a slot is known by its hash only (it came with an import), or the store fails.
    pub fn dump(&self) -> Result<Dump> {
        let _chain = self.chain();
        let view = self.view();
        let state = view.state();
        // A state that came with an import may be larger than memory, so the walk stops at the first unknown preimage.
        let genesis = self.genesis_names();
        let mut found = Ok(Vec::new());
        self.layer().accounts(B256::ZERO, &mut |hash, account| {
            let address = self.address(genesis, &hash);
            Ok(gather(&mut found, address.map(|address| (address, hash, account))))
        })?;
        let mut accounts = BTreeMap::new();
        for (address, hash, account) in found? {
            let mut slots = Ok(Vec::new());
            self.layer().slots(hash, B256::ZERO, &mut |hash, value| {
                let slot = self.slot(genesis, &hash);
                Ok(gather(&mut slots, slot.map(|slot| (slot, value))))
            })?;
            accounts.insert(address, whole(&*state, account, slots?.into_iter().collect())?);
        }
        for change in view.cheats.writes().accounts {
            let Some(account) = change.account else {
                accounts.remove(&change.address);
                continue;
            };
            let before = accounts.remove(&change.address).unwrap_or_default();
            let mut slots = if change.wiped { BTreeMap::new() } else { before.slots };
            slots.extend(change.slots);
            slots.retain(|_, value| !value.is_zero());
            accounts.insert(change.address, whole(&*state, account, slots)?);
        }
        Ok(Dump { view, accounts })
    }

    /// Replaces each of these accounts; other accounts keep their values. A nonce never decreases, so that no
    /// transaction can be replayed. If the chain is shorter than that of `origin`, empty blocks are made up to its
    /// number, and the last of them has the loaded state. The pool is emptied.
    ///
    /// # Errors
    ///
    /// If the node is read only or has failed, no block can have the time of `origin`, or the store fails.
    pub fn load(
        &self,
        accounts: BTreeMap<Address, WholeAccount>,
        origin: Option<Origin>,
    ) -> Result<()> {
        self.writable()?;
        let head = self.view().head.header.clone();
        let missing = origin.map_or(0, |origin| origin.number.saturating_sub(head.number));
        let missing = if missing > MOST_BLOCKS {
            tracing::warn!(
                "the state that was loaded is of block {}, more than {MOST_BLOCKS} blocks ahead: the chain stays at block {}",
                head.number + missing,
                head.number
            );
            0
        } else {
            missing
        };
        let last = origin.map_or(0, |origin| origin.timestamp);
        if missing > 0 {
            check_time(last.max(head.timestamp.saturating_add(missing)), head.timestamp)?;
        }
        self.pool().clear();
        let mine = |left: u64| {
            let parent = self.view().head.header.timestamp;
            let time = BlockTime::Exactly(last.saturating_sub(left).max(parent + 1));
            self.mine(MineOptions { allow_empty: true, time, quiet: true })
        };
        for left in (1..missing).rev() {
            mine(left)?;
        }
        let addresses: Vec<_> = accounts.keys().copied().collect();
        self.cheat(&addresses, |cheats| {
            for (address, account) in accounts {
                cheats.replace(address, account);
            }
        })?;
        if missing > 0 {
            mine(0)?;
        }
        let mut clock = self.clock();
        if missing > 0 && clock.now() < last {
            clock.set(last);
        }
        Ok(())
    }

    fn address(&self, genesis: &Names, hash: &B256) -> Result<Address> {
        genesis.address(self.db(), hash)?.ok_or_else(|| unknown("account", hash))
    }

    fn slot(&self, genesis: &Names, hash: &B256) -> Result<U256> {
        genesis.slot(self.db(), hash)?.ok_or_else(|| unknown("slot", hash))
    }

    pub(super) fn genesis_names(&self) -> &Names {
        self.genesis_names.get_or_init(|| Names::of_genesis(&self.spec))
    }
}

/// The addresses and slots of the genesis by their hashes.
#[derive(Debug, Default)]
pub(super) struct Names {
    addresses: BTreeMap<B256, Address>,
    slots: BTreeMap<B256, U256>,
}

impl Names {
    fn of_genesis(spec: &ChainSpec) -> Self {
        let mut names = Self::default();
        for (address, account) in spec.genesis_accounts() {
            names.addresses.insert(polytrie_state::hash_address(&address), address);
            for (slot, _) in account.storage.iter().flatten() {
                let slot = U256::from_be_bytes(slot.0);
                names.slots.insert(polytrie_state::hash_slot(&slot), slot);
            }
        }
        names
    }

    pub(super) fn address(&self, db: &ChainDb, hash: &B256) -> Result<Option<Address>> {
        Ok(match self.addresses.get(hash) {
            Some(address) => Some(*address),
            None => db.address_of(hash)?,
        })
    }

    pub(super) fn slot(&self, db: &ChainDb, hash: &B256) -> Result<Option<U256>> {
        Ok(match self.slots.get(hash) {
            Some(slot) => Some(*slot),
            None => db.slot_of(hash)?,
        })
    }
}

/// Appends an item to `found` until the first error, which replaces the items and ends the walk.
fn gather<T>(found: &mut Result<Vec<T>>, item: Result<T>) -> ControlFlow<()> {
    match (item, found) {
        (Ok(item), Ok(found)) => {
            found.push(item);
            ControlFlow::Continue(())
        }
        (Ok(_), Err(_)) => ControlFlow::Break(()),
        (Err(error), found) => {
            *found = Err(error);
            ControlFlow::Break(())
        }
    }
}

fn whole(
    state: &dyn StateReader,
    account: Account,
    slots: BTreeMap<U256, U256>,
) -> Result<WholeAccount> {
    Ok(WholeAccount {
        nonce: account.nonce,
        balance: account.balance,
        code: code_of(state, &account)?,
        slots,
    })
}

fn unknown(what: &str, hash: &B256) -> NodeError {
    NodeError::Refused(format!(
        "{what} {hash} is known by its hash only, because it came with an import; the state can be dumped by hash: polytrie db dump"
    ))
}
