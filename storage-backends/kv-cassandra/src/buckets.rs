//! The partition of a key.
//!
//! Cassandra spreads partitions over its nodes and keeps order within a partition only. So a partition is an interval
//! of keys: all keys with the same short prefix, the *bucket*. Buckets are ordered by their bytes, and a scan reads the
//! existing ones in order.

use parking_lot::RwLock;
use polytrie_kv::{KeyRange, Table};
use std::{collections::BTreeMap, ops::Bound};

/// Longest `max_key` of tables whose keys are numbers (a block, a sequence) or begin with one.
const NUMBERS: u16 = 12;
/// Least number of bits of a key in its bucket. Hashes have two whole bytes in it: of 1.5 thousand million slots, each of
/// these 65,280 buckets has 23,000. A hash with two bytes below 16 in front has a third one in it: that makes 65,536
/// more, with 90 slots in each.
const BITS: u32 = 12;

/// Whether the keys of a table are numbers, or begin with one.
pub(crate) const fn is_numbered(table: Table) -> bool {
    table.max_key <= NUMBERS
}

/// Returns the bucket of a key.
///
/// Numbers: all but the last byte, so 256 of them share a bucket. Other keys: the shortest prefix of 12 bits or more,
/// where a byte below 16 counts as four bits, because paths have a nibble in each byte. A key that ends before that has
/// a bucket for itself. No other bucket is a prefix of keys in another one, so the order of buckets is that of keys.
pub(crate) fn bucket(table: Table, key: &[u8]) -> &[u8] {
    if is_numbered(table) {
        let whole = usize::from(table.max_key);
        return &key[..key.len().min(whole.saturating_sub(1))];
    }
    let mut bits = 0;
    let end = key.iter().position(|byte| {
        bits += if *byte < 16 { 4 } else { 8 };
        bits >= BITS
    });
    &key[..end.map_or(key.len(), |last| last + 1)]
}

/// The number of a table, and one of its buckets.
type Place = (u8, Box<[u8]>);

/// The buckets that may have rows, each with the version that brought it: 0 for those that were there when the store was
/// opened. None is ever removed: an empty bucket costs a scan one request.
#[derive(Debug, Default)]
pub(crate) struct Buckets(RwLock<BTreeMap<Place, u64>>);

impl Buckets {
    pub(crate) fn contains(&self, table: Table, bucket: &[u8]) -> bool {
        self.0.read().contains_key(&(table.id, bucket.into()))
    }

    pub(crate) fn insert(&self, table: Table, bucket: &[u8], version: u64) {
        self.0.write().entry((table.id, bucket.into())).or_insert(version);
    }

    /// Returns the buckets that may have rows of a range, in the order of the range.
    pub(crate) fn within(&self, table: Table, range: KeyRange<'_>) -> Vec<Vec<u8>> {
        self.within_before(table, range, u64::MAX)
    }

    /// Returns those that may have rows of the range from before a version.
    pub(crate) fn within_before(
        &self,
        table: Table,
        range: KeyRange<'_>,
        version: u64,
    ) -> Vec<Vec<u8>> {
        if range.is_empty() {
            return Vec::new();
        }
        // The first such bucket is that of the range's first key, or an earlier one that has that bucket as a prefix.
        let first = bucket(table, range.from);
        let buckets = self.0.read();
        let all =
            buckets.range((Bound::Included((table.id, first.into())), Bound::Unbounded::<Place>));
        let within = all
            .take_while(|((id, bucket), _)| {
                *id == table.id && range.to.is_none_or(|to| **bucket < *to)
            })
            .filter(|(_, first)| **first < version)
            .map(|((_, bucket), _)| bucket.to_vec());
        let mut within: Vec<_> = within.collect();
        if range.reverse {
            within.reverse();
        }
        within
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polytrie_kv_testing::Random;

    const HASHED: Table = Table::new(1, "hashed", 32);
    const NUMBERED: Table = Table::new(2, "numbered", 8);

    #[test]
    fn keys_find_their_buckets() {
        let cases: [(Table, &[u8], &[u8]); 8] = [
            (HASHED, b"", b""),
            (HASHED, &[0xab], &[0xab]),
            (HASHED, &[0xab, 0xcd, 0xef], &[0xab, 0xcd]),
            (HASHED, &[1, 2, 3, 4], &[1, 2, 3]),
            (HASHED, &[1, 0x20, 3, 4], &[1, 0x20]),
            (HASHED, &[1, 2], &[1, 2]),
            (NUMBERED, &[0, 0, 0, 0, 0, 0, 7, 1], &[0, 0, 0, 0, 0, 0, 7]),
            (NUMBERED, b"", b""),
        ];
        for (table, key, expected) in cases {
            assert_eq!(bucket(table, key), expected, "{key:02x?}");
        }
    }

    #[test]
    fn a_bucket_has_no_rows_from_before_it_came() {
        let buckets = Buckets::default();
        for (version, first) in [(0, 0x10), (3, 0x20), (5, 0x30), (9, 0x10)] {
            buckets.insert(HASHED, &[first, 0xff], version);
        }
        let before = |version| buckets.within_before(HASHED, KeyRange::ALL, version).len();
        assert_eq!([1, 3, 4, 5, 6].map(before), [1, 1, 2, 2, 3]);
        assert_eq!(buckets.within(HASHED, KeyRange::ALL).len(), 3);
    }

    #[test]
    fn buckets_have_the_order_of_their_keys() {
        let mut random = Random::new(Random::seed());
        for table in [HASHED, NUMBERED] {
            let buckets = Buckets::default();
            let mut keys: Vec<Vec<u8>> = (0..2_000)
                .map(|_| {
                    let len = random.below(usize::from(table.max_key) + 1);
                    let mut key = random.bytes(len);
                    if random.one_in(2) {
                        key.iter_mut().for_each(|byte| *byte &= 0x1f);
                    }
                    key
                })
                .collect();
            keys.sort();
            assert!(keys.is_sorted_by_key(|key| bucket(table, key)));
            keys.iter().for_each(|key| buckets.insert(table, bucket(table, key), 0));
            for _ in 0..200 {
                let [from, to] = [0; 2].map(|_| &keys[random.below(keys.len())]);
                let range = KeyRange {
                    from,
                    to: (!random.one_in(4)).then_some(to),
                    reverse: random.one_in(2),
                };
                let within = buckets.within(table, range);
                let all = keys.iter().filter(|key| range.contains(key));
                assert!(
                    all.clone().all(|key| within.iter().any(|found| found == bucket(table, key)))
                );
                assert!(if range.reverse {
                    within.is_sorted_by(|a, b| a > b)
                } else {
                    within.is_sorted_by(|a, b| a < b)
                });
            }
        }
    }
}
