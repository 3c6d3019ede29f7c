//! Using witnesses: a layer that has only a witness, and a bag of nodes that is carried over to a newer state.

use crate::{
    RainLayer, RainOptions, TRIE,
    meta::{Meta, write_shard},
    reader::RainReader,
};
use alloy_primitives::{
    B256, Bytes, keccak256,
    map::{B256Map, B256Set},
};
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    BlockRef, LayerSession, Result, StateError, StateLayer, Stateless, Witness, corrupt,
    write_codes,
};
use polytrie_trie::{
    EMPTY_ROOT, Nibbles, RowSink, Rows, TrieError,
    cow::{CowTrie, Entry},
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes of rows that a witness may make, beside [`TIMES`] its own size. Accounts with the same storage share its nodes
/// in the witness, and each has rows of its own.
const ROOM: usize = 64 << 20;
/// Bytes of rows for each byte of a witness; see [`ROOM`].
const TIMES: usize = 16;

impl RainLayer {
    /// Makes a layer in memory that has only the nodes and codes of a witness: a read of any other node fails with
    /// [`StateError::Corrupt`], and a block that needs no other leads to the true root. The levels that were left out
    /// are taken from `holder`, a layer at the same state root. Blocks leave no undo records, because a witness does
    /// not hold all slots of a contract that is wiped.
    ///
    /// # Errors
    ///
    /// [`StateError::Corrupt`] if the root node is missing, or bytes of the witness are no node.
    pub fn on_witness(witness: &Witness, holder: Option<&Self>) -> Result<Arc<Self>> {
        let bag = Bag::of(witness, holder)?;
        let mut batch = bag.place(witness.root, witness.levels, |_, _| {})?;
        let codes: Vec<_> =
            witness.codes.iter().map(|code| (keccak256(code), code.clone())).collect();
        write_codes(&mut batch, &codes);
        Meta { seq: 0, root: witness.root }.write(&mut batch);
        let store = Store::memory(Self::TABLES)?;
        store.write(batch)?;
        Self::open(store, RainOptions { undo: false, ..RainOptions::default() })
    }
}

impl Stateless for RainLayer {
    fn begin_witnessed(&self, parent: BlockRef, levels: u8) -> Result<Box<dyn LayerSession>> {
        Ok(Box::new(self.session(parent, Some(levels))?))
    }

    fn on_witness(&self, witness: &Witness) -> Result<Arc<dyn StateLayer>> {
        Ok(Self::on_witness(witness, Some(self))?)
    }

    /// Returns the witness on the state of this layer, if its nodes below the first levels are still part of that
    /// state; the first levels are left to this layer. They are the levels that the witness leaves out, or the first
    /// `levels` if it leaves out none.
    fn revise(&self, witness: &Witness, levels: u8) -> Result<Option<Witness>> {
        let mut tops = B256Set::default();
        let levels = match witness.levels {
            0 => {
                // The hashes of the nodes that are replaced, as they were.
                let whole = Bag::of(witness, None)?;
                let depth = usize::from(levels);
                let note = |at: usize, hash: B256| {
                    if at < depth {
                        tops.insert(hash);
                    }
                };
                whole.place(witness.root, 0, note)?;
                levels
            }
            levels => levels,
        };
        let bag = Bag::of(witness, Some(self))?;
        let root = bag.held.as_ref().map_or(EMPTY_ROOT, |(accounts, _)| accounts.root());
        let mut reached = B256Set::default();
        bag.place(root, levels, |_, hash| {
            reached.insert(hash);
        })?;
        let mut nodes = Vec::new();
        for node in &witness.nodes {
            let hash = keccak256(node);
            if reached.contains(&hash) {
                nodes.push(node.clone());
            } else if !tops.contains(&hash) {
                return Ok(None);
            }
        }
        Ok(Some(Witness { root, levels, nodes, codes: witness.codes.clone() }))
    }
}

/// The nodes of a witness by hash, and the layer that has the levels left out.
struct Bag<'a> {
    nodes: B256Map<&'a Bytes>,
    /// Most bytes of rows that the bag may make.
    room: usize,
    held: Option<(CowTrie<Entry>, RainReader)>,
}

impl<'a> Bag<'a> {
    fn of(witness: &'a Witness, holder: Option<&RainLayer>) -> Result<Self> {
        let hold = |holder: &RainLayer| {
            let reader = holder.shared.reader()?;
            Ok::<_, StateError>((reader.version.whole(&reader.rows)?, reader))
        };
        let nodes: B256Map<&Bytes> =
            witness.nodes.iter().map(|node| (keccak256(node), node)).collect();
        let bytes: usize = nodes.values().map(|node| node.len()).sum();
        let room = bytes.saturating_mul(TIMES).saturating_add(ROOM);
        Ok(Self { nodes, room, held: holder.map(hold).transpose()? })
    }

    /// Makes the rows of the state with this root, as far as its nodes are in the bag; `note` gets the depth of each
    /// node of the bag and its hash. Storage tries begin below the deepest leaf.
    fn place(&self, root: B256, levels: u8, mut note: impl FnMut(usize, B256)) -> Result<Batch> {
        let mut batch = Batch::new();
        if root == EMPTY_ROOT {
            return Ok(batch);
        }
        let made = AtomicUsize::new(0);
        let mut walk = Walk::new(self, &made, &mut note);
        let levels = usize::from(levels);
        let mut account_node = |path: &Nibbles, hash: &B256| {
            if path.len() < levels { self.held(path, hash) } else { walk.node(path.len(), hash) }
        };
        let top = account_node(&Nibbles::new(), &root).ok_or_else(|| {
            let reason = if levels == 0 {
                format!("the witness has no root node {root}")
            } else {
                format!(
                    "the witness leaves out the top {levels} levels of a state with the root {root}, which are not held here"
                )
            };
            StateError::Corrupt(reason)
        })?;
        let parts = CowTrie::<Entry>::split(&top).map_err(damaged)?;
        let mut storages = Vec::new();
        for (shard, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            let mut rows = TRIE.account_sink(Batch::new());
            let mut visit = |hash: &B256, entry: &Entry| {
                storages.push((*hash, CowTrie::clone(&entry.storage)));
            };
            part.put_found(
                &mut account_node,
                &mut counted(&mut rows, 0, levels, &made),
                &mut visit,
            )
            .map_err(damaged)?;
            batch.append(&rows.into_inner());
            write_shard(&mut batch, shard, 0, &part.root_reference());
        }
        for (owner, storage) in storages {
            walk.next_trie()?;
            let mut rows = TRIE.storage_sink(Batch::new(), owner);
            let mut lookup = |path: &Nibbles, hash: &B256| walk.node(64 + path.len(), hash);
            storage
                .put_found(&mut lookup, &mut counted(&mut rows, 32, 0, &made), &mut |_, _| {})
                .map_err(damaged)?;
            batch.append(&rows.into_inner());
        }
        walk.next_trie()?;
        Ok(batch)
    }

    /// Returns the node that the holder has at this path, if it has this hash.
    fn held(&self, path: &Nibbles, hash: &B256) -> Option<Bytes> {
        let (accounts, RainReader { version, rows, .. }) = self.held.as_ref()?;
        let mut rlp = Vec::new();
        let found = accounts.node_at(path, &TRIE.account_rows(rows), version.seq, &mut rlp).ok()?;
        (found && keccak256(&rlp) == *hash).then(|| rlp.into())
    }
}

/// The nodes of a bag in the places where tries refer to them.
///
/// A few nodes that refer to each other many times over would fill any memory, and their author chose the root, too. So
/// no node is put into a trie twice: keys are hashes, and no two of them end in the same nibbles far below the root.
struct Walk<'a, 'b, N> {
    bag: &'b Bag<'a>,
    /// Called with each node's depth and hash.
    note: N,
    /// Hashes of the nodes of the trie that is being walked.
    seen: B256Set,
    /// Bytes of rows so far. They are counted when rows are put: nodes that are embedded in their parents become rows,
    /// too.
    made: &'b AtomicUsize,
    refused: Option<&'static str>,
}

impl<'a, 'b, N: FnMut(usize, B256)> Walk<'a, 'b, N> {
    fn new(bag: &'b Bag<'a>, made: &'b AtomicUsize, note: N) -> Self {
        Self { bag, note, seen: B256Set::default(), made, refused: None }
    }

    fn node(&mut self, depth: usize, hash: &B256) -> Option<Bytes> {
        let found = *self.bag.nodes.get(hash)?;
        if !self.seen.insert(*hash) {
            self.refused = Some("a node stands in two places of one trie");
        }
        // The rows of one node exceed the room by little.
        self.expect_room();
        if self.refused.is_some() {
            return None;
        }
        (self.note)(depth, *hash);
        Some(found.clone())
    }

    fn expect_room(&mut self) {
        if self.refused.is_none() && self.made.load(Ordering::Relaxed) > self.bag.room {
            self.refused = Some("it makes far more rows than it has nodes");
        }
    }

    /// Ends the walk of one trie. Fails if the trie was refused.
    fn next_trie(&mut self) -> Result<()> {
        self.seen.clear();
        self.expect_room();
        match self.refused {
            None => Ok(()),
            Some(reason) => Err(corrupt!("the witness: {reason}")),
        }
    }
}

/// Puts rows into one trie, whose keys have `owner` bytes before the path, and counts their bytes. Rows of the first
/// `free` levels, which the witness leaves out, are not counted: there are no more than the holder has.
fn counted<'a>(
    rows: &'a mut Rows<Batch>,
    owner: usize,
    free: usize,
    made: &'a AtomicUsize,
) -> impl FnMut(&Nibbles, &[u8]) + 'a {
    move |path, row| {
        if path.len() >= free {
            made.fetch_add(owner + path.len() + row.len(), Ordering::Relaxed);
        }
        rows.put(path, row);
    }
}

fn damaged(error: TrieError) -> StateError {
    corrupt!("the witness: {error}")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_trie::{AccountLeaf, LeafValue};

    /// Returns an RLP list of these items, which are RLP.
    fn list(items: &[&[u8]]) -> Vec<u8> {
        let body: Vec<u8> = items.concat();
        let mut rlp: Vec<u8> = Vec::new();
        alloy_rlp::Header { list: true, payload_length: body.len() }.encode(&mut rlp);
        rlp.extend_from_slice(&body);
        rlp
    }

    fn string(bytes: &[u8]) -> Vec<u8> {
        alloy_rlp::encode(bytes)
    }

    /// Leaves so deep that they are embedded in their parents make many rows of few nodes.
    #[test]
    fn rows_of_embedded_nodes_take_room() {
        const NONE: &[u8] = &[0x80];
        let leaf = list(&[&[0x30], &[0x01]]);
        let mut pair: [&[u8]; 17] = [NONE; 17];
        pair[..2].fill(&leaf);
        let pair = list(&pair);
        let mut branch: [&[u8]; 17] = [NONE; 17];
        branch[..16].fill(&pair);
        let branch = list(&branch);
        let below = [&[0x10_u8][..], &[0; 30]].concat();
        let extension = list(&[&string(&below), &string(keccak256(&branch).as_slice())]);
        let mut account: Vec<u8> = Vec::new();
        AccountLeaf { storage_root: keccak256(&extension), ..AccountLeaf::default() }
            .encode(&mut account);
        let key = [&[0x20_u8][..], &[0; 32]].concat();
        let account = list(&[&string(&key), &string(&account)]);

        let nodes = [account, extension, branch].map(Bytes::from).to_vec();
        let root = keccak256(&nodes[0]);
        let bytes: usize = nodes.iter().map(|node| node.len()).sum();
        let witness = Witness { root, levels: 0, nodes, codes: Vec::new() };
        let mut bag = Bag::of(&witness, None).unwrap();
        let batch = bag.place(root, 0, |_, _| {}).unwrap();
        assert!(batch.len() > 48 && batch.byte_len() > 5 * bytes, "{}", batch.byte_len());
        bag.room = 4 * bytes;
        let refused = bag.place(root, 0, |_, _| {}).map(drop).unwrap_err();
        assert!(refused.to_string().contains("far more rows"), "{refused}");
    }
}
