//! The log of a shard: the accounts and slots that each change wrote, from which the shard is rebuilt after a
//! checkpoint.
//!
//! `shard ‖ number → rlp([before, [[hash, [[nonce, balance, code hash]?], wipe, [[slot hash, value]…]]…]]) ‖ checksum`,
//! where `before` is the number of the row before it (or of the checkpoint), so that a row that is lost is noticed.

use crate::LOG;
use alloy_primitives::{B256, U256};
use alloy_rlp::{Encodable, Header, RlpDecodable, RlpEncodable};
use polytrie_kv::{Batch, KeyRange, Read, append_checksum, strip_checksum};
use polytrie_state::{Account, AccountWrite, Result, corrupt, each_row};

/// The write of a change to one account.
#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(crate) struct ShardWrite {
    pub(crate) hash: B256,
    /// The account after the change: one entry, or none if the account is gone.
    after: Vec<Account>,
    /// Whether all slots of the account are removed before `slots` are set.
    pub(crate) wipe: bool,
    slots: Vec<SlotRlp>,
}

#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
struct SlotRlp {
    hash: B256,
    value: U256,
}

impl ShardWrite {
    /// Makes the write of an account and of its slots, in the order of `slots`.
    pub(crate) fn new(
        hash: B256,
        after: Option<Account>,
        wipe: bool,
        slots: impl Iterator<Item = (B256, U256)>,
    ) -> Self {
        let slots = slots.map(|(hash, value)| SlotRlp { hash, value }).collect();
        Self { hash, after: after.into_iter().collect(), wipe, slots }
    }

    /// Returns the account after the change; `None` if it is gone.
    pub(crate) fn after(&self) -> Option<Account> {
        self.after.first().copied()
    }

    /// Returns the number of slots that the write sets.
    pub(crate) const fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Returns slots by hash and their values after the change, in order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (B256, U256)> {
        self.slots.iter().map(|slot| (slot.hash, slot.value))
    }
}

impl From<&AccountWrite> for ShardWrite {
    fn from(write: &AccountWrite) -> Self {
        let slots = write.slots.iter().map(|slot| (slot.hash, slot.after));
        Self::new(write.hash, write.after, write.wipe, slots)
    }
}

/// A row of the log.
#[derive(Debug, RlpEncodable, RlpDecodable)]
pub(crate) struct LogRow {
    /// Number of the row before this one, or of the checkpoint after that row.
    pub(crate) before: u64,
    pub(crate) writes: Vec<ShardWrite>,
}

impl LogRow {
    /// Encodes the row.
    fn encoded(&self) -> Vec<u8> {
        // Written first, the writes give the lengths of the lists around them. To compute those would take as long.
        let room = self.writes.iter().map(|write| 120 + 70 * write.slot_count()).sum();
        let mut writes = Vec::with_capacity(room);
        self.writes.iter().for_each(|write| write.encode(&mut writes));
        let list = Header { list: true, payload_length: writes.len() };
        let payload_length = self.before.length() + list.length_with_payload();
        let row = Header { list: true, payload_length };
        let mut out = Vec::with_capacity(row.length_with_payload());
        row.encode(&mut out);
        self.before.encode(&mut out);
        list.encode(&mut out);
        out.extend_from_slice(&writes);
        out
    }
}

/// Adds the row of a change to the log of a shard.
pub(crate) fn write(batch: &mut Batch, shard: usize, seq: u64, content: &LogRow) {
    let key = key(shard, seq);
    let mut row = content.encoded();
    append_checksum(&key, &mut row);
    batch.put(LOG, &key, &row);
}

/// Removes the rows of the changes after `since`, up to and including `seq`. There are none before them, and an engine may
/// look at each place in a range that ever had a row.
pub(crate) fn remove(batch: &mut Batch, shard: usize, (since, seq): (u64, u64)) {
    batch.delete_range(LOG, &key_after(shard, since), Some(&key_after(shard, seq)[..]));
}

/// Visits the rows of the log of a shard after the change `since` in order, with their numbers. Fails at a row that is
/// damaged.
pub(crate) fn scan_shard(
    store: &dyn Read,
    shard: usize,
    since: u64,
    mut visit: impl FnMut(u64, LogRow) -> Result<()>,
) -> Result<()> {
    let (from, to) = (key_after(shard, since), [shard as u8 + 1]);
    each_row(store, LOG, KeyRange::between(&from, &to), |key, row| {
        let (seq, row) = decode(key, row)
            .ok_or_else(|| corrupt!("a row of the log of shard {shard} is damaged"))?;
        visit(seq, row)
    })
}

fn decode(key: &[u8], content: &[u8]) -> Option<(u64, LogRow)> {
    let (_, seq) = place(key)?;
    let row = alloy_rlp::decode_exact::<LogRow>(strip_checksum(key, content)?).ok()?;
    let writes = &row.writes;
    let is_sound = writes.is_sorted_by(|a, b| a.hash < b.hash)
        && writes
            .iter()
            .all(|w| w.after.len() <= 1 && w.slots.is_sorted_by(|a, b| a.hash < b.hash));
    is_sound.then_some((seq, row))
}

/// Returns the shard and the number of the change that the key of a row names.
pub(crate) fn place(key: &[u8]) -> Option<(usize, u64)> {
    let (shard, seq) = key.split_first()?;
    Some((usize::from(*shard), u64::from_be_bytes(seq.try_into().ok()?)))
}

/// Returns the first key after that of a change.
fn key_after(shard: usize, seq: u64) -> [u8; 9] {
    key(shard, seq.saturating_add(1))
}

fn key(shard: usize, seq: u64) -> [u8; 9] {
    let mut key = [0; 9];
    // There are 16 shards.
    key[0] = shard as u8;
    key[1..].copy_from_slice(&seq.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_and_none_that_is_damaged() {
        let account = Account { nonce: 3, balance: U256::from(5), code_hash: B256::ZERO };
        let slots = [(B256::repeat_byte(2), U256::from(7))].into_iter();
        let write = ShardWrite::new(B256::repeat_byte(1), Some(account), false, slots);
        let content = LogRow { before: 4, writes: vec![write] };
        let (key, mut row) = (key(1, 9), content.encoded());
        assert_eq!(row, alloy_rlp::encode(&content));
        append_checksum(&key, &mut row);
        let (seq, read) = decode(&key, &row).expect("a sound row");
        assert_eq!((seq, read.before, &read.writes), (9, 4, &content.writes));
        for at in 0..row.len() {
            let mut damaged = row.clone();
            damaged[at] ^= 1;
            assert!(decode(&key, &damaged).is_none(), "byte {at}");
        }
        assert!(decode(&key, &row[..row.len() - 1]).is_none());
        assert!(decode(&key, &row[..row.len() - 4]).is_none());
    }
}
