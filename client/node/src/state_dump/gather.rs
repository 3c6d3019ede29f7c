//! Gathers the content of a dump under the hashes of accounts and slots, for sorting.

use super::{StateDumpError, go_on, preimages::PreimageRows};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use polytrie_files::dump::{DumpAccount, DumpSink, DumpSlot, SlotKeys};
use polytrie_kv::{Batch, Part, Read, Scratch, Sortable, Sorter, Table};
use polytrie_state::Account;
use std::{collections::HashSet, mem, sync::atomic::AtomicBool};

/// Greatest number of accounts and slots in memory: some 60 MiB, twice that while they are written.
const HELD: usize = 1 << 19;
/// Greatest number of slots of an account in memory before the account itself is read.
const WAITING: usize = 1 << 16;
/// Number of bytes of rows that are written at once.
const PORTION: usize = 8 << 20;
/// Number of slots or accounts between two checks for an interrupt.
const LOOK_UP: u64 = 4_096;

/// Table of codes by hash.
const CODES: Table = Table::new(0, "Codes", Table::KEY_LIMIT);
/// Table of slots that come before their account, in the order of the file.
const SLOTS: Table = Table::new(1, "WaitingSlots", Table::KEY_LIMIT);

/// An account, or a slot of an account.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Hash of the account.
    pub(super) account: B256,
    pub(super) what: What,
}

/// Kind of an entry.
#[derive(Debug, Clone)]
pub(super) enum What {
    Account(Box<Named>),
    Slot(B256, U256),
}

/// An account with the root of its storage, if the dump has it.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) account: Account,
    pub(super) storage_root: Option<B256>,
    /// Whether its slots were listed under their hashes: then none can be missing for lack of a
    /// preimage.
    pub(super) hashed: bool,
}

impl Named {
    /// Returns an account that is not from a dump: nothing is known of its storage but the slots.
    pub(super) const fn new(account: Account) -> Self {
        Self { account, storage_root: None, hashed: true }
    }
}

/// Length of a key in bytes: account, kind, slot.
const KEY: usize = 65;

impl Sortable for Entry {
    type Key = [u8; KEY];

    /// Returns a key by which an account comes before its slots.
    fn key(&self) -> Self::Key {
        let mut key = [0; KEY];
        key[..32].copy_from_slice(self.account.as_slice());
        if let What::Slot(slot, _) = &self.what {
            key[32] = 1;
            key[33..].copy_from_slice(slot.as_slice());
        }
        key
    }

    fn value(&self) -> Vec<u8> {
        match &self.what {
            What::Slot(_, value) => value.to_be_bytes_trimmed_vec(),
            What::Account(named) => {
                let Named { account, storage_root, hashed } = &**named;
                let mut row = Vec::with_capacity(105);
                row.push(u8::from(*hashed));
                row.extend_from_slice(&account.nonce.to_be_bytes());
                row.extend_from_slice(&account.balance.to_be_bytes::<32>());
                row.extend_from_slice(account.code_hash.as_slice());
                row.extend(storage_root.iter().flatten());
                row
            }
        }
    }

    fn from_row(key: &[u8], value: &[u8]) -> Option<Self> {
        let (account, rest) = key.split_first_chunk::<32>()?;
        let (kind, slot) = rest.split_first()?;
        let what = match kind {
            0 => {
                let (hashed, rest) = value.split_first()?;
                let (nonce, rest) = rest.split_first_chunk()?;
                let (balance, rest) = rest.split_first_chunk::<32>()?;
                let (code_hash, root) = rest.split_first_chunk::<32>()?;
                let account = Account {
                    nonce: u64::from_be_bytes(*nonce),
                    balance: U256::from_be_bytes(*balance),
                    code_hash: code_hash.into(),
                };
                let storage_root = B256::try_from(root).ok();
                What::Account(Box::new(Named { account, storage_root, hashed: *hashed == 1 }))
            }
            _ => What::Slot(B256::try_from(slot).ok()?, U256::try_from_be_slice(value)?),
        };
        Some(Self { account: account.into(), what })
    }
}

/// Callback that gets the numbers of accounts and slots read.
type Tell<'a> = dyn FnMut(u64, u64) + 'a;

/// Content of a dump, ready to be read in order.
pub(super) struct Collected {
    pub(super) entries: Sorter<Entry>,
    pub(super) codes: Codes,
}

impl Collected {
    /// Returns an empty collection.
    pub(super) fn new(scratch: Scratch) -> Self {
        Self { entries: Sorter::new(scratch.clone(), HELD), codes: Codes::new(scratch) }
    }

    pub(super) fn add_account(&mut self, hash: B256, named: Named) -> Result<(), StateDumpError> {
        Ok(self.entries.add(Entry { account: hash, what: What::Account(Box::new(named)) })?)
    }

    /// Adds a slot by its hash.
    pub(super) fn add_slot(
        &mut self,
        account: B256,
        slot: B256,
        value: U256,
    ) -> Result<(), StateDumpError> {
        Ok(self.entries.add(Entry { account, what: What::Slot(slot, value) })?)
    }
}

/// Content of a dump so far.
pub(super) struct Gathered<'a> {
    collected: Collected,
    slots: Waiting,
    preimages: PreimageRows<'a>,
    /// Number and state root of the dump's block.
    expected: (u64, B256),
    interrupt: &'a AtomicBool,
    pub(super) tell: Option<&'a mut Tell<'a>>,
    read: (u64, u64),
}

polytrie_kv::debug_fields!(Gathered['_] { read });

impl<'a> Gathered<'a> {
    pub(super) fn new(
        scratch: Scratch,
        preimages: PreimageRows<'a>,
        expected: (u64, B256),
        interrupt: &'a AtomicBool,
    ) -> Self {
        Self {
            collected: Collected::new(scratch.clone()),
            slots: Waiting { scratch, held: Vec::new(), spilled: None },
            preimages,
            expected,
            interrupt,
            tell: None,
            read: (0, 0),
        }
    }

    /// Writes the remaining rows.
    pub(super) fn finish(self) -> Result<Collected, StateDumpError> {
        self.preimages.finish()?;
        Ok(self.collected)
    }

    fn look_up(&mut self) -> Result<(), StateDumpError> {
        let (accounts, slots) = self.read;
        if (accounts + slots).is_multiple_of(LOOK_UP) {
            go_on(self.interrupt)?;
            if let Some(tell) = &mut self.tell {
                tell(accounts, slots);
            }
        }
        Ok(())
    }

    fn add_slot(&mut self, of: &DumpAccount, slot: DumpSlot) -> Result<(), StateDumpError> {
        let value = if of.slots == SlotKeys::HashedRlp { slot.rlp } else { slot.number };
        let value = value.ok_or_else(|| {
            let expected = match of.slots {
                SlotKeys::HashedRlp => "a number as RLP, as `geth snapshot dump` writes it",
                _ => "a number of at most 32 bytes",
            };
            content(of, &format!("has a slot {} whose value is not {expected}", slot.key))
        })?;
        // geth's dumps have no zero slots, but a genesis may.
        if value.is_zero() {
            return Ok(());
        }
        let hash = match of.slots {
            SlotKeys::Plain => {
                let hash = keccak256(slot.key);
                self.preimages.add_slot(&hash, &slot.key.into())?;
                hash
            }
            SlotKeys::Hashed | SlotKeys::HashedRlp => slot.key,
        };
        self.collected.add_slot(of.hash, hash, value)
    }
}

impl DumpSink for Gathered<'_> {
    type Error = StateDumpError;

    fn root(&mut self, root: B256) -> Result<(), StateDumpError> {
        let (number, expected) = self.expected;
        if root == expected {
            return Ok(());
        }
        Err(StateDumpError::content(format!(
            "the dump says that it is the state with the root {root}, but block {number} in the file of --header has {expected}; give the header of the block that was dumped, or dump the state of this one"
        )))
    }

    fn slot(&mut self, slot: DumpSlot) -> Result<(), StateDumpError> {
        self.slots.add(slot)?;
        self.read.1 += 1;
        self.look_up()
    }

    fn account(&mut self, account: DumpAccount) -> Result<(), StateDumpError> {
        let found = account.code.as_ref().filter(|code| !code.is_empty());
        let code_hash = match (found, account.code_hash) {
            (Some(code), expected) => {
                let hash = keccak256(code);
                if let Some(expected) = expected.filter(|expected| *expected != hash) {
                    let what =
                        format!("has code with the hash {hash}, but its codeHash is {expected}");
                    return Err(content(&account, &what));
                }
                self.collected.codes.add(hash, code)?;
                hash
            }
            (None, None) => KECCAK256_EMPTY,
            (None, Some(hash)) if hash == KECCAK256_EMPTY => hash,
            (None, Some(hash)) if self.collected.codes.known.contains(&hash) => hash,
            (None, Some(hash)) => {
                let what = format!(
                    "has code with the hash {hash}, which the dump leaves out; dump the state with code (without --nocode or --no-code)"
                );
                return Err(content(&account, &what));
            }
        };
        if let Some(address) = &account.address {
            self.preimages.add_address(&account.hash, address)?;
        }
        let slots = self.slots.take();
        for slot in slots.held {
            self.add_slot(&account, slot)?;
        }
        if let Some((part, _)) = slots.spilled {
            for row in part.rows(SLOTS, Vec::new(), None) {
                let (_, row) = row?;
                let slot = slot_of(&row).ok_or_else(|| Part::unreadable("a slot"))?;
                self.add_slot(&account, slot)?;
            }
        }
        let DumpAccount { hash, nonce, balance, storage_root, slots, .. } = account;
        let hashed = slots != SlotKeys::Plain;
        let account = Account { nonce, balance, code_hash };
        self.collected.add_account(hash, Named { account, storage_root, hashed })?;
        self.read.0 += 1;
        self.look_up()
    }
}

fn content(account: &DumpAccount, what: &str) -> StateDumpError {
    StateDumpError::content(format!("the account {} {what}", name(account.address, &account.hash)))
}

fn name(address: Option<Address>, hash: &B256) -> String {
    address.map_or_else(|| format!("with the hash {hash}"), |address| address.to_string())
}

/// All codes, each once.
pub(super) struct Codes {
    scratch: Scratch,
    part: Option<Part>,
    known: HashSet<B256>,
    batch: Batch,
}

impl Codes {
    fn new(scratch: Scratch) -> Self {
        Self { scratch, part: None, known: HashSet::new(), batch: Batch::new() }
    }

    pub(super) fn add(&mut self, hash: B256, code: &Bytes) -> Result<(), StateDumpError> {
        if self.known.insert(hash) {
            self.batch.put(CODES, hash.as_slice(), code);
            self.write(PORTION)?;
        }
        Ok(())
    }

    pub(super) fn write(&mut self, most: usize) -> Result<(), StateDumpError> {
        if self.batch.byte_len() > most {
            let part = match &mut self.part {
                Some(part) => part,
                none => none.insert(self.scratch.part()?),
            };
            part.write(&mem::take(&mut self.batch))?;
        }
        Ok(())
    }

    /// Returns the code with this hash at the first request for it, and `None` at later ones.
    pub(super) fn take(&mut self, hash: &B256) -> Result<Option<Bytes>, StateDumpError> {
        if *hash == KECCAK256_EMPTY || !self.known.remove(hash) {
            return Ok(None);
        }
        let part = self.part.as_ref().ok_or_else(|| Part::unreadable("code"))?;
        let code = part.get(CODES, hash.as_slice())?;
        Ok(Some(code.ok_or_else(|| Part::unreadable("code"))?.into()))
    }
}

/// Slots that come before their account.
struct Waiting {
    scratch: Scratch,
    held: Vec<DumpSlot>,
    /// Earlier slots on disk if there are many, and their number.
    spilled: Option<(Part, u64)>,
}

impl Waiting {
    fn add(&mut self, slot: DumpSlot) -> Result<(), StateDumpError> {
        self.held.push(slot);
        if self.held.len() < WAITING {
            return Ok(());
        }
        let (part, count) = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert((self.scratch.part()?, 0)),
        };
        let mut batch = Batch::new();
        for slot in self.held.drain(..) {
            batch.put(SLOTS, &count.to_be_bytes(), &row_of(&slot));
            *count += 1;
        }
        Ok(part.write(&batch)?)
    }

    /// Takes all slots; slots that are added later belong to the next account.
    fn take(&mut self) -> Self {
        Self {
            scratch: self.scratch.clone(),
            held: mem::take(&mut self.held),
            spilled: self.spilled.take(),
        }
    }
}

/// Encodes a slot: key ‖ whether there is a number ‖ number ‖ whether there is a number in RLP ‖ that
/// number.
fn row_of(slot: &DumpSlot) -> [u8; 98] {
    let mut row = [0; 98];
    row[..32].copy_from_slice(slot.key.as_slice());
    for (at, value) in [(32, slot.number), (65, slot.rlp)] {
        if let Some(value) = value {
            row[at] = 1;
            row[at + 1..at + 33].copy_from_slice(&value.to_be_bytes::<32>());
        }
    }
    row
}

fn slot_of(row: &[u8]) -> Option<DumpSlot> {
    let row: &[u8; 98] = row.try_into().ok()?;
    let value = |at: usize| (row[at] == 1).then(|| U256::from_be_slice(&row[at + 1..at + 33]));
    Some(DumpSlot { key: B256::from_slice(&row[..32]), number: value(32), rlp: value(65) })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let account = Account { nonce: 7, balance: U256::MAX, code_hash: B256::repeat_byte(9) };
        for storage_root in [None, Some(B256::repeat_byte(1))] {
            let named = Box::new(Named { account, storage_root, hashed: true });
            let entry = Entry { account: B256::repeat_byte(3), what: What::Account(named) };
            let read = Entry::from_row(&entry.key(), &entry.value()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{entry:?}"));
        }
        let what = What::Slot(B256::repeat_byte(4), U256::from(5));
        let entry = Entry { account: B256::repeat_byte(3), what };
        let read = Entry::from_row(&entry.key(), &entry.value()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{entry:?}"));
        for (number, rlp) in [(None, Some(U256::MAX)), (Some(U256::ZERO), None)] {
            let slot = DumpSlot { key: B256::repeat_byte(8), number, rlp };
            assert_eq!(slot_of(&row_of(&slot)), Some(slot));
        }
    }

    #[test]
    fn many_slots_of_one_account_wait_on_disk() {
        let never = AtomicBool::new(false);
        let store = polytrie_kv::Store::memory(&[]).unwrap();
        let rows = PreimageRows::new(&store, false);
        let mut gathered = Gathered::new(Scratch::default(), rows, (0, B256::ZERO), &never);
        let count = 2 * WAITING as u64 + 9;
        for n in 0..count {
            let number = Some(U256::from(n + 1));
            gathered.slot(DumpSlot { key: U256::from(n).into(), number, rlp: None }).unwrap();
            assert!(gathered.slots.held.len() < WAITING);
        }
        let address = Address::repeat_byte(1);
        let account = DumpAccount {
            address: Some(address),
            hash: keccak256(address),
            slots: SlotKeys::Plain,
            nonce: 0,
            balance: U256::ZERO,
            code: None,
            code_hash: None,
            storage_root: None,
        };
        gathered.account(account).unwrap();
        let entries: Vec<_> =
            gathered.collected.entries.drain().unwrap().map(Result::unwrap).collect();
        assert_eq!(entries.len() as u64, count + 1);
        assert!(matches!(entries[0].what, What::Account(_)));
        let hash = keccak256(B256::from(U256::from(70_000)));
        let found = entries.iter().find_map(|entry| match entry.what {
            What::Slot(slot, value) if slot == hash => Some(value),
            _ => None,
        });
        assert_eq!(found, Some(U256::from(70_001)));
    }
}
