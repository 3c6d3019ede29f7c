//! Nodes that other processes have read for this layer ahead of blocks.
//!
//! A bag belongs to a block, and its nodes wait until that block is over. A node is hashed when it arrives, and is used
//! where this layer would have to read the node with this hash at this place. So no sender has to be trusted, and nodes
//! of an older state need no revision: those that are still part of the state are found, others are never looked for.
//!
//! A process that reads for others sends nodes as the store has them, without the changes in its log: nodes that
//! changed since the checkpoint are in the memory of every process that executes blocks.

use crate::{RainLayer, TRIE, version::shard_of};
use alloy_primitives::{
    B256, Bytes,
    map::{HashMap, HashSet},
};
use parking_lot::Mutex;
use polytrie_state::{Access, BagCounts, BagNode, Bags, Result, TakeNode};
use polytrie_trie::{
    Nibbles, SlotValue,
    cow::{CowTrie, Entry, hash_of_row},
};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Most bytes of nodes that may wait for their blocks.
const ROOM: usize = 64 << 20;
/// Bytes that a node takes beside its row and the places in the lists of blocks.
const OVERHEAD: usize = 208;
/// Bytes of a place in the list of a block.
const LISTED: usize = 112;
/// Number of nodes that are put in place before blocks may look for theirs again.
const PORTION: usize = 256;

/// The nodes that wait for their blocks.
#[derive(Debug, Default)]
pub(crate) struct OfferedNodes {
    held: Mutex<Held>,
    /// Number of nodes that wait, read before each read of the store without the lock: mostly it is zero.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Held {
    nodes: HashMap<Place, Offered>,
    /// The places of the nodes by the block that they were sent for.
    by_block: BTreeMap<u64, Vec<Place>>,
    bytes: usize,
    /// The last block that is over.
    over: u64,
    counts: BagCounts,
}

/// The trie, path and hash of a node: the same node may stand in several tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    owner: Option<B256>,
    path: Nibbles,
    hash: B256,
}

#[derive(Debug)]
struct Offered {
    row: Bytes,
    /// The last block that the node was sent for.
    block: u64,
    is_used: bool,
}

impl Offered {
    fn bytes(&self) -> usize {
        self.row.len() + OVERHEAD
    }
}

impl Place {
    /// Returns the place of a node that was sent; `None` if its path or owner is malformed or its row is no node.
    fn of(node: &BagNode) -> Option<Self> {
        let BagNode { owner, path, row } = node;
        if path.len() > 64 || path.iter().any(|nibble| *nibble > 0x0f) {
            return None;
        }
        let path = Nibbles::from_nibbles_unchecked(path);
        let (owner, hash) = match owner.len() {
            0 => (None, hash_of_row::<Entry>(&path, row)),
            32 => (Some(B256::from_slice(owner)), hash_of_row::<SlotValue>(&path, row)),
            _ => return None,
        };
        Some(Self { owner, path, hash: hash.ok()? })
    }
}

impl OfferedNodes {
    /// Appends the row of a node to `out`, if it waits here. Returns whether it does.
    pub(crate) fn find(
        &self,
        owner: Option<B256>,
        path: &Nibbles,
        hash: &B256,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let mut held = self.held.lock();
        let Some(node) = held.nodes.get_mut(&Place { owner, path: *path, hash: *hash }) else {
            return false;
        };
        out.extend_from_slice(&node.row);
        let is_first = !std::mem::replace(&mut node.is_used, true);
        held.counts.used += u64::from(is_first);
        true
    }

    fn offer(&self, block: u64, nodes: Vec<BagNode>) {
        // Hashing takes long, and blocks look nodes up meanwhile, so the lock is not held.
        let is_late = block <= self.held.lock().over;
        let (mut refused, mut found) = (0, Vec::new());
        if !is_late {
            for node in nodes {
                match Place::of(&node) {
                    Some(place) => found.push((place, node.row)),
                    None => refused += 1,
                }
            }
        }
        let mut held = self.held.lock();
        held.counts.refused += refused;
        if block <= held.over {
            held.counts.late += 1;
            return;
        }
        held.counts.bags += 1;
        drop(held);
        let mut found = found.into_iter().peekable();
        while found.peek().is_some() {
            let mut held = self.held.lock();
            if block <= held.over {
                return;
            }
            for (place, row) in found.by_ref().take(PORTION) {
                held.keep(place, row, block);
            }
            self.count.store(held.nodes.len(), Relaxed);
        }
    }

    /// Does as [`Self::over`] does, unless a later block is over already.
    fn over_at_least(&self, block: u64) {
        if block > self.held.lock().over {
            self.over(block);
        }
    }

    /// Drops the nodes of a block that is over, and of all blocks before it.
    pub(crate) fn over(&self, block: u64) {
        let mut held = self.held.lock();
        held.over = block;
        let later = held.by_block.split_off(&block.saturating_add(1));
        for place in std::mem::replace(&mut held.by_block, later).into_values().flatten() {
            held.bytes -= LISTED;
            held.drop_until(&place, block);
        }
        self.count.store(held.nodes.len(), Relaxed);
    }
}

impl Held {
    fn keep(&mut self, place: Place, row: Bytes, block: u64) {
        let offered = Offered { row, block, is_used: false };
        let known = self.nodes.get_mut(&place);
        let more = match &known {
            Some(known) if known.block >= block => return,
            Some(_) => LISTED,
            None => LISTED + offered.bytes(),
        };
        if self.bytes + more > ROOM {
            return;
        }
        self.bytes += more;
        if let Some(known) = known {
            known.block = block;
        } else {
            self.counts.nodes += 1;
            self.nodes.insert(place, offered);
        }
        self.by_block.entry(block).or_default().push(place);
    }

    /// Drops a node, unless it was also sent for a block after `block`.
    fn drop_until(&mut self, place: &Place, block: u64) {
        if self.nodes.get(place).is_some_and(|node| node.block <= block)
            && let Some(node) = self.nodes.remove(place)
        {
            self.bytes -= node.bytes();
        }
    }
}

impl Bags for RainLayer {
    fn levels_kept(&self) -> u8 {
        u8::try_from(self.shared.options.retain).unwrap_or(u8::MAX)
    }

    fn make_room(&self) -> Result<()> {
        self.shared.lifecycle.ready()?;
        self.shared.make_room()
    }

    fn gather(&self, accesses: &[Access]) -> Result<()> {
        self.shared.reader()?.gather_within_room(accesses)
    }

    fn pack(&self, accesses: &[Access], levels: u8, take: &mut TakeNode<'_>) -> Result<()> {
        let (touched, reader) = (Access::by_hash(accesses), self.shared.reader()?);
        reader.gather_within_room(accesses)?;
        let (version, store) = (&reader.version, &reader.rows);
        let levels = usize::from(levels);
        let mut packing = Packing { levels, seen: HashSet::default(), take, is_full: false };
        for (account, slots) in touched {
            if packing.is_full {
                break;
            }
            let (mut storage, part) = (None, &version.parts[shard_of(&account)]);
            part.rows_to(
                &account,
                &TRIE.account_rows(store),
                &mut |path, row| packing.put(None, path, row),
                |entry| storage = Some(CowTrie::clone(&entry.storage)),
            )?;
            let Some(storage) = storage else { continue };
            let rows = TRIE.storage_rows(store, account);
            for slot in slots {
                if packing.is_full {
                    break;
                }
                let mut put = |path: &Nibbles, row: &[u8]| packing.put(Some(account), path, row);
                storage.rows_to(&slot, &rows, &mut put, |_| {})?;
            }
        }
        Ok(())
    }

    fn offer(&self, block: u64, nodes: Vec<BagNode>) {
        self.shared.source.touches.offered.offer(block, nodes);
    }

    fn over(&self, block: u64) {
        self.shared.source.touches.offered.over_at_least(block);
    }

    fn counts(&self) -> BagCounts {
        self.shared.source.touches.offered.held.lock().counts
    }
}

/// A bag that is being filled.
struct Packing<'t, 'u> {
    /// Number of levels of the account trie that are left out.
    levels: usize,
    /// The nodes that the bag has.
    seen: HashSet<(Option<B256>, Nibbles)>,
    take: &'t mut TakeNode<'u>,
    is_full: bool,
}

impl Packing<'_, '_> {
    fn put(&mut self, owner: Option<B256>, path: &Nibbles, row: &[u8]) {
        let is_left_out = owner.is_none() && path.len() < self.levels;
        if self.is_full || is_left_out || !self.seen.insert((owner, *path)) {
            return;
        }
        let owner = owner.map_or_else(Bytes::new, |owner| Bytes::copy_from_slice(owner.as_slice()));
        let (path, row) = (Bytes::from(path.to_vec()), Bytes::copy_from_slice(row));
        self.is_full = (self.take)(BagNode { owner, path, row }).is_break();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_state::Account;
    use polytrie_trie::{AccountLeaf, LeafValue};

    /// Returns a node that is the whole of a storage trie with one slot.
    fn node(owner: u8, value: u8) -> BagNode {
        let mut row = vec![0xff];
        row.extend_from_slice(B256::repeat_byte(7).as_slice());
        SlotValue(alloy_primitives::U256::from(value)).encode_row(&mut row);
        let owner = Bytes::copy_from_slice(&[owner; 32]);
        BagNode { owner, path: Bytes::new(), row: row.into() }
    }

    fn find(nodes: &OfferedNodes, node: &BagNode) -> Option<Vec<u8>> {
        let Place { owner, path, hash } = Place::of(node).unwrap();
        let mut row = Vec::new();
        nodes.find(owner, &path, &hash, &mut row).then_some(row)
    }

    #[test]
    fn nodes_wait_for_the_turn_of_their_block() {
        let nodes = OfferedNodes::default();
        nodes.offer(5, vec![node(1, 1), node(2, 1)]);
        nodes.offer(6, vec![node(1, 1)]);
        assert_eq!(find(&nodes, &node(1, 1)), Some(node(1, 1).row.to_vec()));
        // The right node at another place, and another node at this one.
        assert_eq!(find(&nodes, &node(3, 1)), None);
        assert_eq!(find(&nodes, &node(1, 2)), None);
        nodes.over(5);
        assert_eq!(find(&nodes, &node(2, 1)), None);
        assert!(find(&nodes, &node(1, 1)).is_some());
        nodes.offer(5, vec![node(2, 1)]);
        assert_eq!(find(&nodes, &node(2, 1)), None);
        nodes.over(6);
        assert_eq!(nodes.count.load(Relaxed), 0);
        let held = nodes.held.lock();
        assert_eq!((held.bytes, held.by_block.len()), (0, 0));
        let expected = BagCounts { bags: 2, late: 1, nodes: 2, refused: 0, used: 1 };
        assert_eq!(held.counts, expected);
    }

    /// A session of several blocks has the number of the first one.
    #[test]
    fn the_turn_of_several_blocks_ends_with_that_of_the_last() {
        let nodes = OfferedNodes::default();
        for block in 5..=8 {
            nodes.offer(block, vec![node(1, block as u8)]);
        }
        nodes.over(5);
        nodes.over_at_least(7);
        assert_eq!(find(&nodes, &node(1, 7)), None);
        assert!(find(&nodes, &node(1, 8)).is_some());
        // A head that lags behind does not begin a turn again.
        nodes.over_at_least(6);
        nodes.offer(7, vec![node(1, 7)]);
        assert_eq!(find(&nodes, &node(1, 7)), None);
        let counts = nodes.held.lock().counts;
        assert_eq!((counts.bags, counts.late), (4, 1));
    }

    /// The same nodes for each of many blocks take room, too.
    #[test]
    fn places_of_a_node_in_many_lists_are_counted() {
        assert!(LISTED >= size_of::<Place>());
        let nodes = OfferedNodes::default();
        let bytes = || nodes.held.lock().bytes;
        nodes.offer(1, vec![node(1, 1)]);
        let once = bytes();
        for block in 2..=9 {
            nodes.offer(block, vec![node(1, 1); 3]);
        }
        assert_eq!(bytes(), once + 8 * LISTED);
        nodes.over(8);
        assert_eq!(bytes(), once);
        nodes.over(9);
        assert_eq!(bytes(), 0);
    }

    #[test]
    fn more_than_there_is_room_for_is_left_out() {
        let nodes = OfferedNodes::default();
        let account = AccountLeaf::new(&Account::default(), B256::repeat_byte(1));
        let (mut row, mut sent) = (vec![0xff; 33], 0);
        account.encode_row(&mut row);
        let path = Bytes::copy_from_slice(&[0x0f]);
        let bytes = row.len() + OVERHEAD + LISTED;
        // The account differs each time, so that the node does.
        let mut offer = |count: u64| {
            let batch = (sent..sent + count).map(|n| {
                let mut row = row.clone();
                row[25..33].copy_from_slice(&n.to_be_bytes());
                BagNode { owner: Bytes::new(), path: path.clone(), row: row.into() }
            });
            nodes.offer(1, batch.collect());
            sent += count;
        };
        while nodes.held.lock().bytes + bytes <= ROOM {
            offer(10_000);
        }
        offer(1);
        let held = nodes.held.lock();
        assert_eq!((held.counts.nodes as usize, held.bytes), (ROOM / bytes, ROOM / bytes * bytes));
    }

    #[test]
    fn what_is_no_node_is_refused() {
        let good = node(1, 1);
        let with = |change: fn(&mut BagNode)| {
            let mut node = good.clone();
            change(&mut node);
            node
        };
        let bad = [
            with(|node| node.owner = Bytes::from_static(b"short")),
            with(|node| node.path = vec![0; 65].into()),
            with(|node| node.path = vec![0x10].into()),
            // The key of the leaf begins with nibble 0.
            with(|node| node.path = vec![1].into()),
            with(|node| node.row = Bytes::new()),
            with(|node| node.row = node.row.slice(..node.row.len() - 1)),
        ];
        let nodes = OfferedNodes::default();
        let count = bad.len() as u64;
        nodes.offer(1, bad.to_vec());
        let expected = BagCounts { bags: 1, refused: count, ..BagCounts::default() };
        assert_eq!(nodes.held.lock().counts, expected);
    }
}
