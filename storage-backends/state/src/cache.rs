//! The block's own view of the state: the values it read, the values it wrote, and the values before it.

use crate::{
    Access, Account, AccountChange, AccountWrite, LayerSession, Result, SessionCounters, SlotWrite,
    StateError, TxWrites, WriteSet, counters::Timed, hash_address, hash_slot, keys::hash_keys,
    writes::is_change,
};
use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{AddressMap, B256Map, B256Set, Entry as MapEntry, U256Map},
};

/// The accounts, slots and codes that one block has touched so far, with the value at its start and the value now.
#[derive(Debug)]
pub(crate) struct BlockCache {
    /// The layer, which has the values from before the block.
    pub(crate) layer: Box<dyn LayerSession>,
    /// The calls of the layer that are timed: each one where reads wait for a disk.
    pub(crate) timed: Timed,
    pub(crate) accounts: Entries,
    /// Hashes of addresses that the block names.
    hashes: AddressMap<B256>,
    codes: B256Map<Bytes>,
    /// Hashes of the codes that the block needed and did not write.
    codes_needed: B256Set,
    /// The counts of calls to the layer.
    pub(crate) counters: SessionCounters,
}

/// The accounts that a block has touched, with their slots.
pub(crate) type Entries = AddressMap<Entry>;

#[derive(Debug, Default, Clone)]
pub(crate) struct Entry {
    pub(crate) hash: B256,
    pub(crate) before: Option<Account>,
    now: Option<Account>,
    /// Whether the block has written any part of the account.
    written: bool,
    /// Whether the slots from before the block were removed.
    wiped: bool,
    slots: U256Map<SlotEntry>,
}

#[derive(Debug, Clone, Copy)]
struct SlotEntry {
    hash: B256,
    before: U256,
    now: U256,
}

impl Entry {
    /// Returns the value of a slot before the block, if it was read.
    pub(crate) fn slot_before(&self, slot: &U256) -> Option<U256> {
        self.slots.get(slot).map(|slot| slot.before)
    }

    /// Returns the write of a change of the account, all of whose slots were read; `wipe` says that the slots from before
    /// are removed first.
    ///
    /// # Errors
    ///
    /// [`StateError::Untold`] if a slot was not read.
    pub(crate) fn write_of(&self, change: &AccountChange, wipe: bool) -> Result<AccountWrite> {
        let changed = if change.account.is_none() { &[][..] } else { &change.slots[..] };
        let mut slots = Vec::with_capacity(changed.len());
        for (slot, after) in changed {
            let known = self.slots.get(slot).ok_or(StateError::Untold)?;
            let (before, after) = (if wipe { U256::ZERO } else { known.before }, *after);
            if is_change(wipe, before, after) {
                slots.push(SlotWrite { hash: known.hash, slot: Some(*slot), before, after });
            }
        }
        let (hash, address) = (self.hash, Some(change.address));
        Ok(AccountWrite { hash, address, before: self.before, after: change.account, wipe, slots })
    }

    /// Returns the write that leads to the account as it is now: with the slots whose value has changed, or that are not
    /// zero if `wipe` says that all slots are removed first.
    fn write(&self, address: &Address, before: Option<Account>, wipe: bool) -> AccountWrite {
        let slots = self.slots.iter().filter(|(_, s)| is_change(wipe, s.before, s.now));
        let slots = slots.map(|(slot, s)| SlotWrite {
            hash: s.hash,
            slot: Some(*slot),
            before: s.before,
            after: s.now,
        });
        AccountWrite {
            hash: self.hash,
            address: Some(*address),
            before,
            after: self.now,
            wipe,
            slots: slots.collect(),
        }
    }
}

/// Puts accounts in the order of their hashes, each with the first bytes of its hash.
///
/// References are put in order, because the writes are large, and moving them costs more than comparing hashes. The first
/// bytes of a hash are kept beside the reference: they decide nearly always.
pub(crate) fn in_order<'e, T>(
    accounts: impl Iterator<Item = (T, &'e Entry)>,
) -> Vec<(u64, T, &'e Entry)> {
    let head = |entry: &Entry| u64::from_be_bytes(std::array::from_fn(|i| entry.hash[i]));
    let mut accounts: Vec<_> = accounts.map(|(item, entry)| (head(entry), item, entry)).collect();
    accounts.sort_unstable_by(|(head, _, entry), (other_head, _, other)| {
        head.cmp(other_head).then_with(|| entry.hash.cmp(&other.hash))
    });
    accounts
}

impl BlockCache {
    pub(crate) fn new(layer: Box<dyn LayerSession>, is_slow: bool) -> Self {
        Self {
            layer,
            timed: if is_slow { Timed::Each } else { Timed::Sample },
            accounts: Entries::default(),
            hashes: AddressMap::default(),
            codes: B256Map::default(),
            codes_needed: B256Set::default(),
            counters: SessionCounters::default(),
        }
    }

    /// Hashes addresses together, announces them to the layer, and makes room for their accounts.
    pub(crate) fn expect(&mut self, addresses: impl Iterator<Item = Address>) {
        let mut new = Vec::with_capacity(addresses.size_hint().1.unwrap_or_default());
        self.hashes.reserve(new.capacity());
        for address in addresses.filter(|address| !self.accounts.contains_key(address)) {
            if let MapEntry::Vacant(unknown) = self.hashes.entry(address) {
                unknown.insert(B256::ZERO);
                new.push(Access::Account(address));
            }
        }
        self.accounts.reserve(new.len());
        let hashes = hash_keys(&new);
        self.layer.expect(&hashes);
        for (access, hash) in new.iter().zip(hashes) {
            self.hashes.insert(access.place().0, hash);
        }
    }

    pub(crate) fn account(&mut self, address: &Address) -> Result<Option<Account>> {
        if let Some(known) = self.accounts.get(address) {
            self.counters.accounts_known += 1;
            return Ok(known.now);
        }
        Ok(self.entry(address, self.timed)?.0.now)
    }

    pub(crate) fn slot(&mut self, address: &Address, slot: &U256) -> Result<U256> {
        self.slot_of(address, slot, || hash_slot(slot))
    }

    /// Reads an account or a slot by a key with this hash.
    pub(crate) fn read(&mut self, access: Access, hash: B256) -> Result<()> {
        match access.place() {
            (address, None) => self.entry_of(&address, Some(hash), self.timed).map(drop),
            (address, Some(slot)) => self.slot_of(&address, &slot, || hash).map(drop),
        }
    }

    fn slot_of(
        &mut self,
        address: &Address,
        slot: &U256,
        hash: impl FnOnce() -> B256,
    ) -> Result<U256> {
        let timed = self.timed;
        let (entry, counters, layer) = self.entry(address, timed)?;
        match entry.slots.entry(*slot) {
            MapEntry::Occupied(known) => {
                counters.slots_known += 1;
                Ok(known.get().now)
            }
            MapEntry::Vacant(_) if entry.wiped => {
                counters.slots_known += 1;
                Ok(U256::ZERO)
            }
            MapEntry::Vacant(unknown) => {
                let hash = hash();
                let read = || layer.slot(address, &entry.hash, slot, &hash);
                let value = counters.slots_read.call(timed, read)?;
                unknown.insert(SlotEntry { hash, before: value, now: value });
                Ok(value)
            }
        }
    }

    pub(crate) fn code(&self, hash: &B256) -> Option<Bytes> {
        self.codes.get(hash).cloned()
    }

    /// Returns code from before the block.
    pub(crate) fn read_code(&mut self, hash: &B256) -> Result<Option<Bytes>> {
        let code = self.counters.codes_read.call(self.timed, || self.layer.code(hash))?;
        self.counters.code_bytes_read += code.as_ref().map_or(0, |code| code.len() as u64);
        self.codes_needed.insert(*hash);
        Ok(code)
    }

    pub(crate) fn count_known_code(&mut self, hash: &B256, bytes: usize) {
        if !self.codes.contains_key(hash) && self.codes_needed.insert(*hash) {
            self.counters.codes_known += 1;
            self.counters.code_bytes_known += bytes as u64;
        }
    }

    pub(crate) fn has_storage(&mut self, address: &Address) -> Result<bool> {
        let (entry, _, layer) = self.entry(address, self.timed)?;
        if entry.slots.values().any(|slot| !slot.now.is_zero()) {
            return Ok(true);
        }
        if entry.wiped || entry.before.is_none() {
            return Ok(false);
        }
        // Known slots are zero now; a slot that was not read may still be there. A block that empties a contract slot
        // by slot and then creates on top of it would get "yes" here: the layer only knows the state before the
        // block. No such creation can succeed, for another reason (EIP-7610: code or nonce).
        layer.has_storage(address, &entry.hash)
    }

    /// Applies a change. `timed` says which of the reads of what was there before are timed.
    pub(crate) fn apply(&mut self, change: &AccountChange, timed: Timed) -> Result<()> {
        if let Some((hash, code)) = &change.code {
            self.codes.insert(*hash, code.clone());
        }
        let (entry, counters, layer) = self.entry(&change.address, timed)?;
        entry.written = true;
        entry.now = change.account;
        if change.wiped || change.account.is_none() {
            entry.wiped = true;
            entry.slots.clear();
        }
        if change.account.is_none() {
            return Ok(());
        }
        for (slot, value) in &change.slots {
            match entry.slots.entry(*slot) {
                MapEntry::Occupied(mut known) => known.get_mut().now = *value,
                MapEntry::Vacant(unknown) => {
                    let hash = hash_slot(slot);
                    let before = if entry.wiped {
                        U256::ZERO
                    } else {
                        let read = || layer.slot(&change.address, &entry.hash, slot, &hash);
                        counters.slots_read.call(timed, read)?
                    };
                    unknown.insert(SlotEntry { hash, before, now: *value });
                }
            }
        }
        Ok(())
    }

    /// Returns the writes that were just applied, with the hashes of their keys.
    pub(crate) fn hashed(&self, writes: &TxWrites) -> Vec<AccountWrite> {
        let hashed = |change: &AccountChange| {
            let entry = self.accounts.get(&change.address)?;
            let gone = change.account.is_none();
            let slots = if gone { &[][..] } else { &change.slots[..] };
            let slots = slots.iter().filter_map(|(slot, after)| {
                let hash = entry.slots.get(slot)?.hash;
                Some(SlotWrite { hash, slot: Some(*slot), before: U256::ZERO, after: *after })
            });
            Some(AccountWrite {
                hash: entry.hash,
                address: Some(change.address),
                before: None,
                after: change.account,
                wipe: change.wiped || gone,
                slots: slots.collect(),
            })
        };
        writes.accounts.iter().filter_map(hashed).collect()
    }

    /// Returns all that the block has written so far, with hashed keys: the present value of each account and slot.
    pub(crate) fn hashed_so_far(&self) -> Vec<AccountWrite> {
        let written = self.accounts.iter().filter(|(_, entry)| entry.written);
        written.map(|(address, entry)| entry.write(address, None, entry.wiped)).collect()
    }

    /// Returns the block's write set; the cache stays as it is.
    pub(crate) fn write_set(&mut self) -> Result<WriteSet> {
        let written = in_order(self.accounts.iter().filter(|(_, entry)| entry.written));
        let mut accounts = Vec::with_capacity(written.len());
        let mut codes = Vec::new();
        for (_, address, entry) in written {
            let wipe = entry.wiped
                && entry.before.is_some()
                && self.layer.has_storage(address, &entry.hash)?;
            if let Some(account) = entry.now.filter(|now| {
                now.has_code() && entry.before.is_none_or(|b| b.code_hash != now.code_hash)
            }) && let Some(code) = self.codes.get(&account.code_hash)
            {
                codes.push((account.code_hash, code.clone()));
            }
            accounts.push(entry.write(address, entry.before, wipe));
        }
        Ok(WriteSet::of(accounts, codes))
    }

    /// Returns the entry of an account, read from the layer if it is new to the block, and the counters and the layer
    /// for further reads.
    fn entry(
        &mut self,
        address: &Address,
        timed: Timed,
    ) -> Result<(&mut Entry, &mut SessionCounters, &mut Box<dyn LayerSession>)> {
        self.entry_of(address, None, timed)
    }

    /// Does as [`Self::entry`] for an address with a hash that may be known.
    fn entry_of(
        &mut self,
        address: &Address,
        hash: Option<B256>,
        timed: Timed,
    ) -> Result<(&mut Entry, &mut SessionCounters, &mut Box<dyn LayerSession>)> {
        let Self { accounts, hashes, counters, layer, .. } = self;
        let entry = match accounts.entry(*address) {
            MapEntry::Occupied(found) => found.into_mut(),
            MapEntry::Vacant(vacant) => {
                let hash = hash.or_else(|| hashes.get(address).copied());
                let hash = hash.unwrap_or_else(|| hash_address(address));
                let read = || layer.account(address, &hash);
                let before = counters.accounts_read.call(timed, read)?;
                vacant.insert(Entry { hash, before, now: before, ..Entry::default() })
            }
        };
        Ok((entry, counters, layer))
    }
}
