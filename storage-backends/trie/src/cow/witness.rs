//! Witnesses of blocks: the nodes that a verifier without a state needs to execute a block and compute its root.
//!
//! The keys that a block read are looked up, and its changes are applied, on tries that have nothing in memory; every
//! node that they load is collected. So the witness has the nodes on the paths to keys that were read and written, and
//! the siblings of removed keys, which move up when a branch ends. For a block in the past, the state before it is made
//! first, by undoing the blocks since then.

use super::{CowTrie, Entry, Storage};
use crate::{Nibbles, Result, RowSource, SlotValue};
use alloy_primitives::{B256, Bytes, U256, keccak256};
use polytrie_state::{AccountWrite, SlotWrite, Touched, WriteSet};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Mutex, PoisonError},
};

/// The account trie of a state with the storage tries in it, and the rows of nodes that are not in memory: `rows`
/// returns those of the account trie, or of the storage trie of an account.
#[derive(Debug, Clone)]
pub struct StateTries<F> {
    pub(crate) accounts: CowTrie<Entry>,
    pub(crate) rows: F,
    /// Number of the last change.
    pub(crate) now: u64,
}

impl<R: RowSource, F: Fn(Option<B256>) -> R + Sync> StateTries<F> {
    /// Makes the tries of a version of the state.
    pub const fn new(accounts: CowTrie<Entry>, rows: F, now: u64) -> Self {
        Self { accounts, rows, now }
    }

    /// Makes the tries that the rows hold.
    ///
    /// # Errors
    ///
    /// If the row of the root is damaged, or the store fails.
    pub fn stored(rows: F) -> Result<Self> {
        Ok(Self::new(CowTrie::of_rows(&rows(None))?, rows, 0))
    }

    /// Returns the nodes that a block on top needs, as RLP, each once, in order of their hashes. Nodes that are
    /// embedded in their parents are not among them, nor the nodes of the first `levels` levels of the account trie.
    /// The block reads the keys in `touched`, asks for the root after each of `steps`, and for the root after `writes`,
    /// which are all its writes.
    ///
    /// # Errors
    ///
    /// If rows are missing or damaged, or the store fails.
    pub fn witness(
        &self,
        touched: &Touched,
        steps: &[WriteSet],
        writes: &[AccountWrite],
        levels: u8,
    ) -> Result<Vec<Bytes>> {
        let nodes = Mutex::default();
        let levels = usize::from(levels);
        let rows = |owner| Noted { tries: self, owner, levels, nodes: &nodes };
        // The root node is always loaded, even if the block touches nothing: it says what the root stands for.
        let mut bare = StateTries { accounts: CowTrie::of_rows(&rows(None))?, rows, now: self.now };
        for (account, slots) in touched {
            let Some(entry) = bare.account(account)? else { continue };
            let rows = (bare.rows)(Some(*account));
            for slot in slots {
                entry.storage.get(slot, &rows, bare.now)?;
            }
        }
        let mut within = bare.clone();
        for step in steps {
            within.apply(step.accounts())?;
        }
        bare.apply(writes)?;
        let nodes: BTreeMap<B256, Bytes> =
            nodes.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(nodes.into_values().collect())
    }

    /// Copies what is in memory on the paths of a block in the past, as [`CowTrie::unshare`] does. `back` and `touched` are
    /// those of [`Self::past_witness`].
    pub fn unshare(&mut self, back: &[WriteSet], touched: &Touched) {
        for (account, slots) in touched {
            self.unshare_paths(account, slots);
        }
        for write in back.iter().flat_map(WriteSet::accounts) {
            self.unshare_paths(&write.hash, write.slots.iter().map(|slot| &slot.hash));
        }
    }

    fn unshare_paths<'k>(&mut self, account: &B256, slots: impl IntoIterator<Item = &'k B256>) {
        if let Some(entry) = self.accounts.unshare(account) {
            for slot in slots {
                entry.storage.unshare(slot);
            }
        }
    }

    /// Returns the witness of a block in the past, with the root before it. `back` undoes blocks from this state on;
    /// the last one is the block itself.
    ///
    /// # Errors
    ///
    /// If rows are missing or damaged, or the store fails.
    pub fn past_witness(
        mut self,
        back: &[WriteSet],
        touched: &Touched,
    ) -> Result<(B256, Vec<Bytes>)> {
        let mut writes = Vec::new();
        if let Some((block, later)) = back.split_last() {
            for undo in later {
                self.apply(undo.accounts())?;
            }
            for undo in block.accounts() {
                writes.push(self.redo(undo)?);
            }
            self.apply(block.accounts())?;
        }
        let nodes = self.witness(touched, &[], &writes, 0)?;
        Ok((self.accounts.root(), nodes))
    }

    fn account(&self, hash: &B256) -> Result<Option<&Entry>> {
        self.accounts.get(hash, &(self.rows)(None), self.now)
    }

    /// Returns the write that redoes what `undo` undoes, made from the account as it is before the undo.
    fn redo(&self, undo: &AccountWrite) -> Result<AccountWrite> {
        undo.redo(|slots| {
            let Some(entry) = self.account(&undo.hash)? else { return Ok(()) };
            let rows = (self.rows)(Some(undo.hash));
            entry.storage.leaves(&B256::ZERO, &rows, &mut |hash, value| {
                slots.push(SlotWrite::hashed(*hash, U256::ZERO, value.0));
                Ok(ControlFlow::Continue(()))
            })
        })
    }

    fn apply(&mut self, writes: &[AccountWrite]) -> Result<()> {
        self.now += 1;
        let mut changes = Vec::with_capacity(writes.len());
        for write in writes {
            let before = self.account(&write.hash)?;
            let Some(account) = write.after else {
                changes.push((write.hash, None));
                continue;
            };
            let before = before.filter(|_| !write.wipe);
            let mut storage = before.map_or_else(Storage::default, |entry| entry.storage.clone());
            if !write.slots.is_empty() {
                let slots = write.slots.iter();
                let slots: Vec<_> = slots.map(|s| (s.hash, SlotValue::of(s.after))).collect();
                let rows = (self.rows)(Some(write.hash));
                storage.update(&slots, &rows, self.now, &mut Vec::new())?;
            }
            changes.push((write.hash, Some(Entry { account, storage })));
        }
        self.accounts.update(&changes, &(self.rows)(None), self.now, &mut Vec::new())
    }

    /// Appends the RLP of the node at a path of the account trie, or of the storage trie of `owner`. Returns whether
    /// there is one.
    fn node_at(&self, owner: Option<B256>, path: &Nibbles, rlp: &mut Vec<u8>) -> Result<bool> {
        let rows = (self.rows)(owner);
        let Some(owner) = owner else { return self.accounts.node_at(path, &rows, self.now, rlp) };
        let Some(entry) = self.account(&owner)? else { return Ok(false) };
        entry.storage.node_at(path, &rows, self.now, rlp)
    }
}

/// The nodes of tries as rows, which collects every node that is loaded.
struct Noted<'a, F> {
    tries: &'a StateTries<F>,
    /// The account whose storage trie it is; `None` for the account trie.
    owner: Option<B256>,
    /// Number of levels of the account trie that are not collected.
    levels: usize,
    nodes: &'a Mutex<BTreeMap<B256, Bytes>>,
}

impl<R: RowSource, F: Fn(Option<B256>) -> R + Sync> RowSource for Noted<'_, F> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool> {
        let at = out.len();
        let found = self.tries.node_at(self.owner, path, out)?;
        let rlp = &out[at..];
        let left_out = self.owner.is_none() && path.len() < self.levels;
        if found && !left_out && (path.is_empty() || rlp.len() >= 32) {
            let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.insert(keccak256(rlp), Bytes::copy_from_slice(rlp));
        }
        Ok(found)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{AccountLeaf, RowSink, Trie, cow::tests::Memory};
    use polytrie_state::Account;
    use std::collections::BTreeSet;

    fn key(number: u64) -> B256 {
        // Keys share long prefixes, so that branches end and leaves move up.
        let mut key = keccak256((number % 7).to_be_bytes());
        key.0[1..9].copy_from_slice(&keccak256(number.to_be_bytes()).0[..8]);
        key
    }

    /// The changes of a block to the slots of an account.
    struct Block {
        /// The root before it.
        before: B256,
        /// Whether the slots there were are removed first.
        wipe: bool,
        slots: Vec<SlotWrite>,
        undo: WriteSet,
    }

    const ACCOUNT: B256 = B256::repeat_byte(7);

    /// Returns the write set that undoes a block which found these values.
    fn undo(values: &BTreeMap<B256, U256>, wipe: bool, slots: &[SlotWrite]) -> WriteSet {
        let back = |slot: &SlotWrite| SlotWrite { before: slot.after, after: slot.before, ..*slot };
        let wiped = |(hash, after): (&B256, &U256)| SlotWrite {
            hash: *hash,
            slot: None,
            before: U256::ZERO,
            after: *after,
        };
        let slots = match wipe {
            false => slots.iter().map(back).collect(),
            true => values.iter().filter(|(_, value)| !value.is_zero()).map(wiped).collect(),
        };
        let account = Some(Account { nonce: 1, ..Default::default() });
        let (hash, before, after) = (ACCOUNT, account, account);
        WriteSet::of_undo(
            vec![AccountWrite { hash, address: None, before, after, wipe, slots }],
            Vec::new(),
        )
        .unwrap()
    }

    /// The rows are those of the arena's trie, as other layers have them.
    #[test]
    fn a_block_can_be_applied_to_its_witness_alone() {
        let mut random = 1u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut trie = Trie::<SlotValue>::empty();
        let mut rows = Memory::default();
        let mut values = BTreeMap::<B256, U256>::new();
        let mut blocks: Vec<Block> = Vec::new();
        for _ in 0..60 {
            let wipe = draw(10) == 0;
            let mut changes = BTreeMap::new();
            for _ in 0..=draw(12) {
                let hash = key(draw(60));
                let before = values.get(&hash).copied().filter(|_| !wipe).unwrap_or_default();
                let is_set = wipe || draw(2) == 0;
                let after = if is_set { U256::from(draw(1_000) + 1) } else { U256::ZERO };
                changes.insert(hash, SlotWrite { hash, slot: None, before, after });
            }
            let slots: Vec<_> = changes.into_values().collect();
            let (before, undo) = (trie.last_root(), undo(&values, wipe, &slots));
            if wipe {
                trie.clear();
                values.clear();
            }
            values.extend(slots.iter().map(|slot| (slot.hash, slot.after)));
            trie.update(&leaves(&slots), &rows).unwrap();
            rows = trie.commit(rows).1;
            blocks.push(Block { before, wipe, slots, undo });
        }
        let storage_root = trie.last_root();
        let mut accounts = Trie::<AccountLeaf>::empty();
        let leaf = AccountLeaf { storage_root, nonce: 1, ..Default::default() };
        accounts.update(&[(ACCOUNT, Some(leaf))], &Memory::default()).unwrap();
        let account_rows = accounts.commit(Memory::default()).1;
        let rows_of = |owner: Option<B256>| if owner.is_some() { &rows } else { &account_rows };
        let source = |owner| rows_of(owner).clone();
        for (number, Block { before, wipe, slots, .. }) in blocks.iter().enumerate() {
            let back: Vec<_> =
                blocks[number..].iter().rev().map(|block| block.undo.clone()).collect();
            let read: BTreeSet<B256> = (0..5).map(|_| key(draw(60))).collect();
            let touched = Touched::from([(ACCOUNT, read.clone())]);
            let tries = StateTries::stored(source).unwrap();
            let (_, nodes) = tries.past_witness(&back, &touched).unwrap();
            let bag: BTreeMap<B256, Bytes> =
                nodes.into_iter().map(|node| (keccak256(&node), node)).collect();
            let mut alone = CowTrie::<SlotValue>::stored(*before);
            let mut partial = Memory::default();
            let mut lookup = |_: &Nibbles, hash: &B256| bag.get(hash).cloned();
            let mut put = |path: &Nibbles, row: &[u8]| partial.put(path, row);
            alone.put_found(&mut lookup, &mut put, &mut |_, _| {}).unwrap();
            for key in &read {
                alone.get(key, &partial, 0).expect("what was read is in the witness");
            }
            if *wipe {
                alone = CowTrie::empty();
            }
            alone
                .update(&leaves(slots), &partial, 1, &mut Vec::new())
                .expect("what is needed is in the witness");
            let after = blocks.get(number + 1).map_or(storage_root, |block| block.before);
            assert_eq!(alone.root(), after, "block {number}");
        }
    }

    fn leaves(changes: &[SlotWrite]) -> Vec<(B256, Option<SlotValue>)> {
        let leaf = |slot: &SlotWrite| (!slot.after.is_zero()).then_some(SlotValue(slot.after));
        changes.iter().map(|slot| (slot.hash, leaf(slot))).collect()
    }
}
