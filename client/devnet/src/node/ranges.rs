//! Pages of the accounts and slots of a block's state, in the order of their hashes.

use super::Node;
use crate::{NodeError, PendingBlock, Result, dump::Names};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_chain::ChainDb;
use polytrie_node::state_root::storage_root;
use polytrie_state::{Account, BlockRef, Fork, StateError, StateLayer, StateReader, hash_address};
use std::{
    ops::ControlFlow::{self, Break, Continue},
    time::Instant,
};

/// Estimated bytes of an account or a slot in an answer, without code.
const ENTRY: usize = 300;

/// Limits of one page.
#[derive(Debug, Clone, Copy)]
pub struct RangeLimits {
    /// Maximum number of accounts, or of slots of one account.
    pub most: usize,
    /// Maximum size of all entries in bytes; an estimate.
    pub bytes: usize,
    /// Time at which the walk fails.
    pub deadline: Option<Instant>,
}

/// The parts of the accounts that a page includes.
#[derive(Debug, Clone, Copy)]
pub struct AccountParts {
    /// Whether the code is included.
    pub code: bool,
    /// Whether the slots are included.
    pub slots: bool,
    /// Whether accounts are included whose address is not known.
    pub nameless: bool,
}

/// A page of the slots of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotRange {
    /// Hash, slot (if its number is known) and value of each entry, in the order of the hashes.
    pub slots: Vec<(B256, Option<U256>, U256)>,
    /// Hash of the first slot of the next page, if there is one.
    pub next: Option<B256>,
    /// Whether the account has no slots at all.
    pub is_empty: bool,
}

/// A page of the accounts of a state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountRange {
    /// The accounts in the order of their hashes.
    pub accounts: Vec<FoundAccount>,
    /// Hash of the first account of the next page, if there is one.
    pub next: Option<B256>,
}

/// An account that was found by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundAccount {
    /// Hash of the address.
    pub hash: B256,
    /// The address, if it is known.
    pub address: Option<Address>,
    /// Nonce, balance and code hash.
    pub account: Account,
    /// Root of the storage trie.
    pub storage_root: B256,
    /// The code; empty unless requested.
    pub code: Bytes,
    /// The slots whose numbers are known, with their values; empty unless requested.
    pub slots: Vec<(U256, U256)>,
}

impl Node {
    /// Returns slots of an account after a block, from the hash `from` on.
    ///
    /// # Errors
    ///
    /// If the block was reverted, the undo records back to it are not kept any more, a limit of bytes or time is
    /// exceeded, or the store fails.
    pub fn slot_range(
        &self,
        block: BlockRef,
        address: &Address,
        from: B256,
        limits: RangeLimits,
    ) -> Result<SlotRange> {
        let layer = self.fork_after(block, limits.deadline)?.layer;
        let mut found = SlotRange::default();
        let mut left = Left::new(limits);
        layer.slots(hash_address(address), from, &mut |hash, value| {
            if found.slots.len() >= limits.most {
                found.next = Some(hash);
                return Ok(Break(()));
            }
            found.slots.push((hash, None, value));
            Ok(left.take(ENTRY))
        })?;
        left.done()?;
        if found.slots.is_empty() && found.next.is_none() {
            found.is_empty = true;
            layer.slots(hash_address(address), B256::ZERO, &mut |_, _| {
                found.is_empty = false;
                Ok(Break(()))
            })?;
        }
        let names = self.genesis_names();
        for (hash, slot, _) in &mut found.slots {
            *slot = names.slot(self.db(), hash)?;
        }
        Ok(found)
    }

    /// Returns accounts after a block, or after the pending block if it is given, from the hash `from` on.
    ///
    /// # Errors
    ///
    /// As [`Self::slot_range`].
    pub fn account_range(
        &self,
        block: BlockRef,
        pending: Option<&PendingBlock>,
        from: B256,
        parts: AccountParts,
        limits: RangeLimits,
    ) -> Result<AccountRange> {
        let Fork { layer, store } = match pending {
            Some(pending) => self.fork_after_pending(pending, limits.deadline)?,
            None => self.fork_after(block, limits.deadline)?,
        };
        let reader = layer.reader()?;
        let (names, db) = (self.genesis_names(), ChainDb::new(store));
        let mut left = Left::new(limits);
        let mut found = AccountRange::default();
        let mut failed = None;
        layer.accounts(from, &mut |hash, account| {
            if found.accounts.len() >= limits.most {
                found.next = Some(hash);
                return Ok(Break(()));
            }
            let address = match names.address(&db, &hash) {
                Ok(None) if !parts.nameless => return Ok(left.take(0)),
                Ok(address) => address,
                Err(error) => {
                    failed = Some(error);
                    return Ok(Break(()));
                }
            };
            let code = if parts.code { code_of(&*reader, &account)? } else { Bytes::new() };
            let (slots, storage_root) = slots_of(&*layer, hash, parts.slots, &mut left)?;
            let flow = left.take(ENTRY + code.len() * 2);
            match named_slots(names, &db, slots) {
                Ok(slots) => found.accounts.push(FoundAccount {
                    hash,
                    address,
                    account,
                    storage_root,
                    code,
                    slots,
                }),
                Err(error) => failed = Some(error),
            }
            Ok(if failed.is_some() { Break(()) } else { flow })
        })?;
        left.done()?;
        failed.map_or(Ok(found), Err)
    }
}

/// Returns the slots whose numbers are known, and drops those known by hash only.
fn named_slots(names: &Names, db: &ChainDb, found: Slots) -> Result<Vec<(U256, U256)>> {
    let mut named = Vec::with_capacity(found.len());
    for (hash, value) in found {
        if let Some(slot) = names.slot(db, &hash)? {
            named.push((slot, value));
        }
    }
    Ok(named)
}

/// Returns the code of an account. A store without it is damaged.
pub(crate) fn code_of(reader: &dyn StateReader, account: &Account) -> Result<Bytes, StateError> {
    match account.has_code() {
        true => reader.code(&account.code_hash)?.ok_or_else(|| {
            let hash = account.code_hash;
            StateError::Corrupt(format!("the code {hash} of an account is missing"))
        }),
        false => Ok(Bytes::new()),
    }
}

type Slots = Vec<(B256, U256)>;

/// Computes the storage root of an account, and returns it with the slots if they are wanted.
fn slots_of(
    layer: &dyn StateLayer,
    account: B256,
    wanted: bool,
    left: &mut Left,
) -> Result<(Slots, B256), StateError> {
    let mut slots = Vec::new();
    let root = storage_root(|add| {
        layer.slots(account, B256::ZERO, &mut |hash, value| {
            add(hash, &value)?;
            if wanted {
                slots.push((hash, value));
            }
            Ok(left.take(if wanted { ENTRY } else { 0 }))
        })
    })?;
    Ok((slots, root))
}

/// The bytes and the time that are left for an answer.
#[derive(Debug)]
struct Left {
    bytes: Option<usize>,
    deadline: Option<Instant>,
    is_late: bool,
}

impl Left {
    const fn new(limits: RangeLimits) -> Self {
        Self { bytes: Some(limits.bytes), deadline: limits.deadline, is_late: false }
    }

    /// Takes `bytes` from what is left; breaks the walk when bytes or time are used up.
    fn take(&mut self, bytes: usize) -> ControlFlow<()> {
        self.bytes = self.bytes.and_then(|left| left.checked_sub(bytes));
        self.is_late = self.is_late || self.deadline.is_some_and(|at| Instant::now() >= at);
        if self.bytes.is_none() || self.is_late { Break(()) } else { Continue(()) }
    }

    fn done(&self) -> Result<()> {
        let reason = match (self.bytes, self.is_late) {
            (Some(_), false) => return Ok(()),
            (None, _) => {
                "the answer is larger than it may be; ask for fewer accounts or slots, leave storage out, or start the node with a larger --rpc.max-response"
            }
            (_, true) => {
                "the walk through the state took longer than a call may; ask for fewer accounts or slots, or start the node with a larger --rpc.evmtimeout"
            }
        };
        Err(NodeError::Refused(reason.to_owned()))
    }
}
