//! The table of slots of wiped accounts that are too many for an undo record: separate rows, each a piece of the
//! account.
//!
//! ```text
//! number of the block (8 bytes, big-endian) ‖ account ‖ first slot of the piece  →
//!     (slot ‖ length of the value ‖ value, big-endian without leading zeros)… ‖ checksum
//! ```
//!
//! Pieces are written while their block is finished, ahead of the batch that makes it durable, so that only a few of
//! them are in memory. The batch of the block is written after them: if it is there, they are. The pieces of a block
//! that never became durable are of no use; the chain removes them when it is opened, and an account's pieces are
//! replaced when another block of the same number wipes it.

use crate::{Result, StateError, corrupt, layer::SlotVisit, scan};
use alloy_primitives::{B256, U256};
use polytrie_kv::{
    Batch, KeyRange, Read, Store, Table, append_checksum, prefix_end, strip_checksum,
};
use std::ops::ControlFlow;

/// The table of the pieces: number of a block ‖ account ‖ slot → slots from that one on.
pub const WIPED_TABLE: Table = Table::new(2, "WipedSlots", 72);

/// Number of slots of a piece, and the most of one account that an undo record lists itself.
pub const SLOTS_A_PIECE: usize = 1_024;

/// Bytes of pieces that are written in one batch.
const PORTION: usize = 1 << 20;

type Slots = Vec<(B256, U256)>;

/// The slots of a wiped account.
#[derive(Debug)]
pub(crate) enum Wiped {
    /// All slots, in order, if they are few.
    Listed(Slots),
    /// The number of slots that are in pieces.
    Apart(u64),
}

impl Wiped {
    /// Reads the slots that `slots` visits in order, and writes them in pieces if they are many.
    pub(crate) fn of(
        store: &Store,
        number: u64,
        account: &B256,
        slots: impl FnOnce(&mut SlotVisit<'_>) -> Result<()>,
    ) -> Result<Self> {
        let mut pieces = Pieces {
            store,
            prefix: prefix(number, account),
            piece: Vec::new(),
            batch: Batch::new(),
            written: 0,
        };
        slots(&mut |slot, value| {
            if pieces.piece.len() == SLOTS_A_PIECE {
                pieces.put()?;
            }
            pieces.piece.push((slot, value));
            Ok(ControlFlow::Continue(()))
        })?;
        if pieces.written == 0 {
            return Ok(Self::Listed(pieces.piece));
        }
        pieces.put()?;
        store.write(pieces.batch)?;
        Ok(Self::Apart(pieces.written))
    }
}

/// A writer of pieces.
struct Pieces<'a> {
    store: &'a Store,
    prefix: Vec<u8>,
    piece: Slots,
    batch: Batch,
    /// Number of slots in the pieces so far.
    written: u64,
}

impl Pieces<'_> {
    /// Writes the current piece, which is full or the last one.
    fn put(&mut self) -> Result<()> {
        let Some((first, _)) = self.piece.first() else { return Ok(()) };
        if self.written == 0 {
            // A block of this number that never became durable may have left other pieces.
            self.batch.delete_range(WIPED_TABLE, &self.prefix, prefix_end(&self.prefix).as_deref());
        }
        let key = [&self.prefix[..], first.as_slice()].concat();
        self.batch.put(WIPED_TABLE, &key, &encode(&key, &self.piece));
        self.written += self.piece.len() as u64;
        self.piece.clear();
        if self.batch.byte_len() >= PORTION {
            self.store.write(std::mem::take(&mut self.batch))?;
        }
        Ok(())
    }
}

/// Visits the pieces of an account that block `number` wiped, in order, beginning with the piece that would hold the
/// slot `from`.
pub(crate) fn visit_pieces(
    rows: &dyn Read,
    (number, account): (u64, &B256),
    from: &B256,
    mut visit: impl FnMut(&[(B256, U256)]) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let prefix = prefix(number, account);
    let wanted = [&prefix[..], from.as_slice()].concat();
    let after = [&wanted[..], &[0]].concat();
    let before = KeyRange { from: &prefix, to: Some(&after), reverse: true };
    let first = rows.first(WIPED_TABLE, before)?.map_or(wanted, |(key, _)| key);
    let end = prefix_end(&prefix);
    let range = KeyRange { from: &first, to: end.as_deref(), reverse: false };
    scan(rows, WIPED_TABLE, range, |key, row| visit(&decode(key, row).ok_or_else(damaged)?))
}

/// Visits the slots of an account that block `number` wiped in order of their hash, beginning at `from`, if they are
/// in pieces; else none.
///
/// # Errors
///
/// If the store fails, a piece is damaged, and any error of `visit`.
pub(crate) fn visit_wiped(
    rows: &dyn Read,
    wiped: (u64, &B256),
    from: &B256,
    visit: &mut SlotVisit<'_>,
) -> Result<()> {
    visit_pieces(rows, wiped, from, |piece| {
        for (slot, value) in &piece[piece.partition_point(|(slot, _)| slot < from)..] {
            if visit(*slot, *value)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// Whether there are pieces of the blocks from `first` to the one before `end`; `None` stands for all later blocks.
///
/// # Errors
///
/// If the store fails.
pub fn has_wiped(rows: &dyn Read, first: u64, end: Option<u64>) -> Result<bool> {
    let (from, to) = (first.to_be_bytes(), end.map(u64::to_be_bytes));
    let to = to.as_ref().map(<[u8; 8]>::as_slice);
    Ok(rows.first(WIPED_TABLE, KeyRange { from: &from, to, reverse: false })?.is_some())
}

/// Removes the pieces of the blocks from `first` to the one before `end`; `None` stands for all later blocks.
pub fn remove_wiped(batch: &mut Batch, first: u64, end: Option<u64>) {
    let (from, to) = (first.to_be_bytes(), end.map(u64::to_be_bytes));
    batch.delete_range(WIPED_TABLE, &from, to.as_ref().map(<[u8; 8]>::as_slice));
}

fn prefix(number: u64, account: &B256) -> Vec<u8> {
    [&number.to_be_bytes()[..], account.as_slice()].concat()
}

fn encode(key: &[u8], piece: &[(B256, U256)]) -> Vec<u8> {
    let mut row = Vec::with_capacity(piece.len() * 48);
    for (slot, value) in piece {
        let value = value.to_be_bytes_trimmed_vec();
        row.extend_from_slice(slot.as_slice());
        // No value has more than 32 bytes.
        row.push(value.len() as u8);
        row.extend_from_slice(&value);
    }
    append_checksum(key, &mut row);
    row
}

fn decode(key: &[u8], row: &[u8]) -> Option<Slots> {
    let mut rest = strip_checksum(key, row)?;
    let mut piece = Vec::with_capacity(SLOTS_A_PIECE);
    while let Some((slot, after)) = rest.split_first_chunk::<32>() {
        let (length, after) = after.split_first()?;
        let (value, after) = after.split_at_checked(usize::from(*length))?;
        piece.push((B256::new(*slot), U256::try_from_be_slice(value)?));
        rest = after;
    }
    let first = piece.first()?.0;
    let is_sound = rest.is_empty() && key.ends_with(first.as_slice());
    (is_sound && piece.is_sorted_by(|a, b| a.0 < b.0)).then_some(piece)
}

pub(crate) fn damaged() -> StateError {
    corrupt!("slots of a wiped account that an undo record needs are damaged")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    fn slots(count: usize) -> Slots {
        let mut slots: Slots = (1..=count as u64)
            .map(|n| (keccak256(n.to_be_bytes()), U256::from(n) << (n % 200)))
            .collect();
        slots.sort_unstable();
        slots
    }

    fn keep(store: &Store, number: u64, account: &B256, slots: &[(B256, U256)]) -> Wiped {
        let visit_all = |visit: &mut SlotVisit<'_>| {
            slots.iter().try_for_each(|(slot, value)| visit(*slot, *value).map(drop))
        };
        Wiped::of(store, number, account, visit_all).unwrap()
    }

    fn from(store: &Store, number: u64, account: &B256, from: &B256) -> Slots {
        let mut found = Vec::new();
        let mut push = |slot, value| {
            found.push((slot, value));
            Ok(ControlFlow::Continue(()))
        };
        visit_wiped(store, (number, account), from, &mut push).unwrap();
        found
    }

    #[test]
    fn pieces_hold_what_was_wiped_and_nothing_of_a_block_before() {
        let store = Store::memory(&[WIPED_TABLE]).unwrap();
        let (a, b) = (B256::repeat_byte(1), B256::repeat_byte(0xff));
        for count in [0, 1, SLOTS_A_PIECE] {
            let all = slots(count);
            assert!(matches!(keep(&store, 7, &a, &all), Wiped::Listed(found) if found == all));
        }
        assert!(!has_wiped(&store, 0, None).unwrap());
        for count in [5 * SLOTS_A_PIECE / 2, 2 * SLOTS_A_PIECE, SLOTS_A_PIECE + 1] {
            let all = slots(count);
            for (number, account) in [(7, &a), (7, &b), (8, &a)] {
                let kept = keep(&store, number, account, &all);
                assert!(matches!(kept, Wiped::Apart(found) if found == count as u64));
                assert_eq!(from(&store, number, account, &B256::ZERO), all);
            }
            for at in [0, 1, count / 2, SLOTS_A_PIECE - 1, SLOTS_A_PIECE, count - 1] {
                assert_eq!(from(&store, 7, &a, &all[at].0), all[at..]);
                let after = (U256::from_be_bytes(all[at].0.0) + U256::ONE).into();
                assert_eq!(from(&store, 7, &b, &after), all[at + 1..]);
            }
        }
        assert_eq!(from(&store, 6, &a, &B256::ZERO), []);
        let mut batch = Batch::new();
        remove_wiped(&mut batch, 0, Some(8));
        store.write(batch).unwrap();
        assert!(!has_wiped(&store, 0, Some(8)).unwrap() && has_wiped(&store, 8, None).unwrap());
        assert_eq!(from(&store, 7, &b, &B256::ZERO), []);
    }

    #[test]
    fn no_byte_of_a_piece_may_change() {
        let (key, piece) =
            ([prefix(3, &B256::repeat_byte(1)), slots(9)[0].0.to_vec()].concat(), slots(9));
        let row = encode(&key, &piece);
        assert_eq!(decode(&key, &row).unwrap(), piece);
        for at in 0..row.len() {
            let mut changed = row.clone();
            changed[at] ^= 1;
            assert_eq!(decode(&key, &changed), None, "byte {at}");
        }
        assert_eq!(decode(&key[1..], &row), None);
        assert_eq!(decode(&key, &row[1..]), None);
        assert_eq!(decode(&key, &[]), None);
    }
}
