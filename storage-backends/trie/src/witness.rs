//! Witnesses of blocks: the nodes that whoever holds nothing else needs to execute a block and compute its root.
//!
//! The rows are those after later blocks, so first the tries are taken back in memory, change by change. Then what the
//! block touched is looked up, and its changes are applied, on tries of which nothing is in memory: the rows that this
//! asks for are the witness. Among them are those next to what the block removed, which move up when a branch ends.

use crate::{
    AccountLeaf, EMPTY_ROOT, LeafValue, Nibbles, RowSink, RowSource, SlotValue, Trie, TrieError,
    codec::{self, ChildRef, path_of},
    leaf_on_path,
    proof::{branch_rlp, leaf_rlp},
    row::{self, Row, RowChild},
    stored_root,
};
use alloy_primitives::{B256, Bytes, keccak256};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

/// What taking a block back does to one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountUndo {
    /// Keccak-256 of the address.
    pub account: B256,
    /// The account before the block, its storage root apart; `None` if there was none.
    pub leaf: Option<AccountLeaf>,
    /// Whether the slots it has after the block are removed first.
    pub wipe: bool,
    /// Slots and their values before the block, sorted by hash.
    pub slots: Vec<(B256, Option<SlotValue>)>,
}

/// Accounts and slots of them that were read, by hash.
pub type Touched = BTreeMap<B256, BTreeSet<B256>>;

/// The witness of a block. `rows` gives the rows of the account trie, or of an account's storage trie, as they are now;
/// `back` takes blocks back from the latest one on, each sorted by account, the last of them the block itself; `touched`
/// is what it read. Returns the state root before the block, and the nodes as RLP, each once, in order of their hashes;
/// nodes that their parent embeds are not among them.
///
/// # Errors
///
/// If the rows cannot be read, or are no tries.
pub fn witness<R: RowSource>(
    rows: impl Fn(Option<B256>) -> R,
    back: &[Vec<AccountUndo>],
    touched: &Touched,
) -> Result<(B256, Vec<Bytes>), TrieError> {
    let accounts = Layered::new(rows(None));
    let root = stored_root::<AccountLeaf>(&accounts)?;
    let mut past = Past { rows, root, accounts, storages: BTreeMap::new() };
    let mut forward = Vec::new();
    for (index, undo) in back.iter().enumerate() {
        if index + 1 == back.len() {
            forward = undo.iter().map(|undo| past.now(undo)).collect::<Result<_, _>>()?;
        }
        past.apply(undo)?;
    }
    let mut keys = touched.clone();
    for change in &forward {
        let slots = keys.entry(change.account).or_default();
        slots.extend(change.slots.iter().map(|(slot, _)| *slot));
    }
    let mut nodes = BTreeMap::new();
    for (account, slots) in &keys {
        let Some(leaf) = past.leaf(account)?.filter(|_| !slots.is_empty()) else { continue };
        let change = forward.iter().find(|change| change.account == *account);
        // What is destroyed takes no look at what it had.
        let changes = change.filter(|change| change.leaf.is_some());
        let changes = changes.map_or(&[][..], |change| &change.slots);
        let rows = past.storage(*account);
        note(&mut nodes, &*rows, leaf.storage_root, slots, changes)?;
    }
    let accounts: BTreeSet<B256> = keys.into_keys().collect();
    let changes: Vec<_> = forward.iter().map(|change| (change.account, change.leaf)).collect();
    note(&mut nodes, &past.accounts, past.root, &accounts, &changes)?;
    Ok((past.root, nodes.into_values().collect()))
}

/// The tries at some block in the past, as changes over the rows as they are now.
struct Past<F, R> {
    rows: F,
    root: B256,
    accounts: Layered<R>,
    storages: BTreeMap<B256, Layered<R>>,
}

impl<R: RowSource, F: Fn(Option<B256>) -> R> Past<F, R> {
    fn storage(&mut self, account: B256) -> &mut Layered<R> {
        let rows = &self.rows;
        self.storages.entry(account).or_insert_with(|| Layered::new(rows(Some(account))))
    }

    fn leaf(&self, account: &B256) -> Result<Option<AccountLeaf>, TrieError> {
        let found = leaf_on_path::<AccountLeaf>(account, &self.accounts)?;
        Ok(found.filter(|(key, _)| key == account).map(|(_, leaf)| leaf))
    }

    /// What the keys that `undo` is about hold now.
    fn now(&mut self, undo: &AccountUndo) -> Result<AccountUndo, TrieError> {
        let leaf = self.leaf(&undo.account)?;
        let rows = self.storage(undo.account);
        let value = |slot: &B256| -> Result<Option<SlotValue>, TrieError> {
            let found = leaf_on_path::<SlotValue>(slot, &*rows)?;
            Ok(found.filter(|(key, _)| key == slot).map(|(_, value)| value))
        };
        let slots = undo.slots.iter().map(|(slot, _)| Ok((*slot, value(slot)?)));
        let slots = slots.collect::<Result<_, TrieError>>()?;
        Ok(AccountUndo { account: undo.account, leaf, wipe: false, slots })
    }

    fn apply(&mut self, undo: &[AccountUndo]) -> Result<(), TrieError> {
        let mut leaves = Vec::with_capacity(undo.len());
        for change in undo {
            let mut root = self.leaf(&change.account)?.map_or(EMPTY_ROOT, |leaf| leaf.storage_root);
            let empties = change.wipe || change.leaf.is_none();
            if empties || !change.slots.is_empty() {
                let rows = self.storage(change.account);
                let mut trie = Trie::<SlotValue>::stored(root);
                if empties {
                    trie.clear();
                }
                if change.leaf.is_some() {
                    trie.update(&change.slots, &*rows)?;
                }
                let (changed_root, changed) = trie.commit(Changed::default());
                rows.changed.join(changed);
                root = changed_root;
            }
            let leaf = change.leaf.map(|leaf| AccountLeaf { storage_root: root, ..leaf });
            leaves.push((change.account, leaf));
        }
        let mut trie = Trie::<AccountLeaf>::stored(self.root);
        trie.update(&leaves, &self.accounts)?;
        let (root, changed) = trie.commit(Changed::default());
        self.accounts.changed.join(changed);
        self.root = root;
        Ok(())
    }
}

/// Adds the nodes of one trie that it takes to look up `keys` and to apply `changes`.
fn note<V: LeafValue>(
    nodes: &mut BTreeMap<B256, Bytes>,
    rows: &impl RowSource,
    root: B256,
    keys: &BTreeSet<B256>,
    changes: &[(B256, Option<V>)],
) -> Result<(), TrieError> {
    let noted = Noted { rows, seen: Mutex::default() };
    for key in keys {
        leaf_on_path::<V>(key, &noted)?;
    }
    Trie::<V>::stored(root).update(changes, &noted)?;
    let removed = changes.iter().filter(|(_, value)| value.is_none());
    let removed: BTreeSet<B256> = removed.map(|(key, _)| *key).collect();
    let mut add = |is_root: bool, rlp: Vec<u8>| {
        if is_root || rlp.len() >= 32 {
            nodes.insert(keccak256(&rlp), rlp.into());
        }
    };
    let mut children = Vec::new();
    for (path, bytes) in noted.seen.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let row = row::decode::<V>(&path, &bytes, &mut children);
        let prefix = match row.map_err(|reason| TrieError::Malformed { path, reason })? {
            Row::Leaf(key, value) => {
                add(true, leaf_rlp(&key, 0, &value));
                continue;
            }
            Row::Branch { prefix } => prefix,
        };
        let branch = path.join(&prefix);
        let rlp = branch_rlp(branch.len(), &children);
        if !prefix.is_empty() {
            let mut extension = Vec::new();
            codec::encode_extension(&prefix, &ChildRef::to(&rlp), &mut extension);
            add(path.is_empty(), extension);
        }
        add(branch.is_empty(), rlp);
        // A leaf is needed where a key leads to it, or where another one goes and it may move up.
        let ends_here = any_below(&removed, &branch);
        for (nibble, child) in &children {
            let mut at = branch;
            at.push_unchecked(*nibble);
            if let RowChild::Leaf(key, value) = child
                && (ends_here || any_below(keys, &at))
            {
                add(false, leaf_rlp(key, branch.len() + 1, value));
            }
        }
    }
    Ok(())
}

/// Whether one of the keys begins with `path`.
fn any_below(keys: &BTreeSet<B256>, path: &Nibbles) -> bool {
    let mut first = [0; 32];
    path.pack_to(&mut first);
    let next = keys.range(B256::new(first)..).next();
    next.is_some_and(|key| path_of(key, path.len()) == *path)
}

/// Rows with changes on top.
struct Layered<R> {
    below: R,
    changed: Changed,
}

impl<R> Layered<R> {
    fn new(below: R) -> Self {
        Self { below, changed: Changed::default() }
    }
}

impl<R: RowSource> RowSource for Layered<R> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        match self.changed.rows.get(path) {
            Some(Some(row)) => {
                out.extend_from_slice(row);
                Ok(true)
            }
            Some(None) => Ok(false),
            None if self.changed.cleared => Ok(false),
            None => self.below.load(path, out),
        }
    }
}

/// Rows that were put and removed.
#[derive(Debug, Default)]
struct Changed {
    cleared: bool,
    rows: BTreeMap<Nibbles, Option<Vec<u8>>>,
}

impl RowSink for Changed {
    fn split(&self) -> Self {
        Self::default()
    }

    fn join(&mut self, other: Self) {
        if other.cleared {
            *self = other;
        } else {
            self.rows.extend(other.rows);
        }
    }

    fn put(&mut self, path: &Nibbles, row: &[u8]) {
        self.rows.insert(*path, Some(row.to_vec()));
    }

    fn delete(&mut self, path: &Nibbles) {
        self.rows.insert(*path, None);
    }

    fn delete_all(&mut self) {
        *self = Self { cleared: true, rows: BTreeMap::new() };
    }
}

/// Rows with a note of each that was asked for.
struct Noted<'a, R> {
    rows: &'a R,
    seen: Mutex<BTreeMap<Nibbles, Vec<u8>>>,
}

impl<R: RowSource> RowSource for Noted<'_, R> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        let at = out.len();
        let found = self.rows.load(path, out)?;
        if found {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(*path, out[at..].to_vec());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        codec::{Node, Reference},
        row::Child,
    };
    use alloy_primitives::U256;

    fn key(number: u64) -> B256 {
        // Keys that share much, so that branches end and leaves move up.
        let mut key = keccak256((number % 7).to_be_bytes());
        key.0[1..9].copy_from_slice(&keccak256(number.to_be_bytes()).0[..8]);
        key
    }

    /// The rows that a bag of nodes makes up, as far as it goes.
    fn rows_of<V: LeafValue>(root: B256, bag: &BTreeMap<B256, Bytes>) -> Layered<Nothing> {
        let mut rows = Layered::new(Nothing);
        let mut next = vec![(Nibbles::new(), Reference::Hash(root))];
        while let Some((path, reference)) = next.pop() {
            let find = |reference: &Reference| match reference {
                Reference::Hash(hash) => bag.get(hash).map(|rlp| rlp.to_vec()),
                Reference::Embedded(rlp) => Some(rlp.clone()),
            };
            let Some(rlp) = find(&reference) else { continue };
            let (prefix, refs) = match codec::decode_node::<V>(&rlp).expect("a node") {
                Node::Leaf { suffix, value } => {
                    assert!(path.is_empty(), "other leaves are part of their branch");
                    let mut row = Vec::new();
                    let key = codec::full_key(&path, &suffix).expect("a key");
                    row::encode_leaf(&key, &value, &mut row);
                    rows.changed.put(&path, &row);
                    continue;
                }
                Node::Extension { prefix, child } => {
                    let child = child.reference().expect("an extension leads somewhere");
                    let Some(rlp) = find(&child) else { continue };
                    match codec::decode_node::<V>(&rlp).expect("a node") {
                        Node::Branch { refs } => (prefix, refs),
                        _ => panic!("an extension leads to a branch"),
                    }
                }
                Node::Branch { refs } => (Nibbles::new(), refs),
            };
            let branch = path.join(&prefix);
            let mut leaves = BTreeMap::new();
            for (nibble, child) in (0u8..).zip(refs.iter()) {
                let Some(reference) = child.reference() else { continue };
                let mut at = branch;
                at.push_unchecked(nibble);
                match find(&reference).map(|rlp| codec::decode_node::<V>(&rlp).expect("a node")) {
                    Some(Node::Leaf { suffix, value }) => {
                        let key = codec::full_key(&at, &suffix).expect("a key");
                        leaves.insert(nibble, (key, value));
                    }
                    Some(_) => next.push((at, reference)),
                    None => {}
                }
            }
            let mut row = Vec::new();
            let child_at = |index: usize| {
                let child = &refs[index];
                match leaves.get(&(index as u8)) {
                    Some((key, value)) => Child::Leaf(key, value),
                    None if child.reference().is_none() => Child::None,
                    None => Child::Inner(child),
                }
            };
            row::encode_branch(&prefix, branch.len(), child_at, &mut row);
            rows.changed.put(&path, &row);
        }
        rows
    }

    struct Nothing;

    impl RowSource for Nothing {
        fn load(&self, _: &Nibbles, _: &mut Vec<u8>) -> Result<bool, TrieError> {
            Ok(false)
        }
    }

    #[test]
    fn a_block_can_be_applied_to_its_witness_alone() {
        let mut random = 1u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let slot = |number: u64| SlotValue(U256::from(number));
        let mut trie = Trie::<SlotValue>::empty();
        let mut rows = Layered::new(Nothing);
        let mut values = BTreeMap::<B256, SlotValue>::new();
        // What each block changed, and the root before it.
        type Slots = Vec<(B256, Option<SlotValue>)>;
        let mut blocks: Vec<(B256, Slots)> = Vec::new();
        let mut undos: Vec<Vec<(B256, Option<SlotValue>)>> = Vec::new();
        for _ in 0..60 {
            let mut changes = BTreeMap::new();
            for _ in 0..=draw(12) {
                let value = (draw(2) == 0).then(|| slot(draw(1_000) + 1));
                changes.insert(key(draw(60)), value);
            }
            let changes: Vec<_> = changes.into_iter().collect();
            let undo = changes.iter().map(|(key, _)| (*key, values.get(key).copied())).collect();
            blocks.push((trie.last_root(), changes.clone()));
            undos.push(undo);
            trie.update(&changes, &rows).expect("the rows are there");
            let (_, changed) = trie.commit(Changed::default());
            rows.changed.join(changed);
            for (key, value) in changes {
                match value {
                    Some(value) => values.insert(key, value),
                    None => values.remove(&key),
                };
            }
        }
        // One account whose storage this is.
        let account = B256::repeat_byte(7);
        let leaf_of =
            |root: B256| AccountLeaf { storage_root: root, nonce: 1, ..Default::default() };
        let mut accounts = Trie::<AccountLeaf>::empty();
        accounts.update(&[(account, Some(leaf_of(trie.last_root())))], &Nothing).expect("no rows");
        let (_, account_rows) = accounts.commit(Changed::default());
        for number in 0..blocks.len() {
            let back: Vec<Vec<AccountUndo>> = undos[number..]
                .iter()
                .rev()
                .map(|slots| {
                    let leaf = Some(leaf_of(EMPTY_ROOT));
                    vec![AccountUndo { account, leaf, wipe: false, slots: slots.clone() }]
                })
                .collect();
            let source = |owner: Option<B256>| -> Shared<'_> {
                Shared(if owner.is_some() { &rows.changed } else { &account_rows })
            };
            let read: BTreeSet<B256> = (0..5).map(|_| key(draw(60))).collect();
            let touched = Touched::from([(account, read.clone())]);
            let (_, nodes) = witness(source, &back, &touched).expect("a witness");
            let bag: BTreeMap<B256, Bytes> =
                nodes.into_iter().map(|node| (keccak256(&node), node)).collect();
            let (before, changes) = &blocks[number];
            let partial = rows_of::<SlotValue>(*before, &bag);
            let mut alone = Trie::<SlotValue>::stored(*before);
            for key in &read {
                alone.get(key, &partial).expect("what was read is in the witness");
            }
            alone.update(changes, &partial).expect("what is needed is in the witness");
            let after = blocks.get(number + 1).map_or(trie.last_root(), |(root, _)| *root);
            assert_eq!(alone.root(), after, "block {number}");
        }
    }

    struct Shared<'a>(&'a Changed);

    impl RowSource for Shared<'_> {
        fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
            let found = self.0.rows.get(path).and_then(Option::as_ref);
            out.extend(found.into_iter().flatten());
            Ok(found.is_some())
        }
    }
}
