//! The parts of the overlay, compared with slow and obvious ones.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::{
    AT_ONCE, Found, Generation,
    arena::Arena,
    rows::{Rows, Version},
    tombstones::{Span, Tombstones},
};
use crate::{Batch, KeyRange, LiveSet, Table, Ticket, table::TableSet};
use hashbrown::DefaultHashBuilder;
use polytrie_kv_testing::Random;
use std::{collections::BTreeMap, sync::Arc};

fn key(random: &mut Random) -> Vec<u8> {
    let len = random.below(4);
    (0..len).map(|_| [0, 1, 0x7f, 0xff][random.below(4)]).collect()
}

/// Snapshots that are opened and dropped while writes go on.
struct Watchers {
    live: Arc<LiveSet>,
    tickets: Vec<Ticket>,
}

impl Watchers {
    fn new() -> Self {
        Self { live: Arc::default(), tickets: Vec::new() }
    }

    /// Perhaps opens a snapshot of write `seq`, and perhaps drops one.
    fn change(&mut self, seq: u64, random: &mut Random) {
        if random.one_in(5) {
            self.tickets.push(self.live.enter(seq));
        }
        if random.one_in(5) && !self.tickets.is_empty() {
            self.tickets.swap_remove(random.below(self.tickets.len()));
        }
    }

    /// Returns all write numbers at which reads must be right: those of open snapshots, and the newest.
    fn moments(&self) -> impl Iterator<Item = u64> {
        self.tickets.iter().map(Ticket::seq).chain([u64::MAX])
    }
}

#[test]
fn tombstones_know_the_newest_deletion() {
    let seed = Random::seed();
    let mut random = Random::new(seed);
    for _ in 0..60 {
        let mut watchers = Watchers::new();
        let mut tombstones = Tombstones::default();
        let mut deletions: Vec<(Vec<u8>, Option<Vec<u8>>, u64)> = Vec::new();
        for seq in 1..60 {
            for _ in 0..random.below(3) {
                let (from, to) = (key(&mut random), key(&mut random));
                let to = (!random.one_in(6)).then_some(to);
                tombstones.insert(&from, to.as_deref(), seq, &watchers.live.lock());
                deletions.push((from, to, seq));
            }
            watchers.change(seq, &mut random);
            let key = key(&mut random);
            for moment in watchers.moments() {
                let newest = |key: &[u8]| {
                    let covers = |(from, to, seq): &&(Vec<u8>, Option<Vec<u8>>, u64)| {
                        let range = KeyRange { from, to: to.as_deref(), reverse: false };
                        *seq <= moment && range.contains(key)
                    };
                    deletions.iter().filter(covers).map(|(.., seq)| *seq).max()
                };
                assert_eq!(tombstones.newest(&key, moment), newest(&key), "seed {seed}");

                let (from, to) = (self::key(&mut random), self::key(&mut random));
                let range = KeyRange { from: &from, to: Some(&to), reverse: false };
                let spans: Vec<Span> = tombstones.within(range, moment).collect();
                for pair in spans.windows(2) {
                    let apart = pair[0].to.as_ref().is_some_and(|to| *to <= pair[1].from);
                    assert!(apart, "seed {seed}");
                }
                if range.contains(&key) {
                    let inside = |span: &Span| {
                        let to = span.to.as_deref();
                        KeyRange { from: &span.from, to, reverse: false }.contains(&key)
                    };
                    let is_deleted = newest(&key).is_some();
                    assert_eq!(spans.iter().any(inside), is_deleted, "seed {seed}");
                }
            }
        }
    }
}

#[test]
fn tombstones_that_nobody_sees_are_forgotten() {
    let mut watchers = Watchers::new();
    let mut tombstones = Tombstones::default();
    for seq in 1..1_000 {
        tombstones.insert(b"a", Some(b"b"), seq, &watchers.live.lock());
        assert_eq!(tombstones.newest(b"a", seq - 1), None);
    }
    watchers.tickets.push(watchers.live.enter(999));
    tombstones.insert(b"a", Some(b"b"), 1_000, &watchers.live.lock());
    assert_eq!(tombstones.newest(b"a", 999), Some(999));
    assert_eq!(tombstones.newest(b"a", 1_000), Some(1_000));
    let bytes = tombstones.bytes();
    assert!(bytes < 1_000, "{bytes} bytes for one range");
}

/// All versions of all keys, by key and by the write that made them.
type History = BTreeMap<Vec<u8>, BTreeMap<u64, Option<Vec<u8>>>>;

fn version_at(history: &History, key: &[u8], moment: u64) -> Option<(u64, Option<Vec<u8>>)> {
    let versions = history.get(key)?;
    versions.range(..=moment).next_back().map(|(seq, value)| (*seq, value.clone()))
}

#[test]
fn rows_keep_every_version_that_is_seen() {
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let hash = |key: &[u8]| {
        // The hash has few different values, so that keys must be compared themselves.
        (key.iter().map(|b| u64::from(*b)).sum::<u64>() % 7) << 40
    };
    for _ in 0..30 {
        let mut watchers = Watchers::new();
        let (mut arena, mut rows) = (Arena::default(), Rows::default());
        let mut history = History::new();
        for seq in 1..120 {
            for _ in 0..random.below(8) {
                let key = key(&mut random);
                let value = (!random.one_in(4)).then(|| {
                    let len = random.below(50);
                    random.bytes(len)
                });
                rows.set(
                    &mut arena,
                    (&key, hash(&key)),
                    value.as_deref(),
                    seq,
                    &watchers.live.lock(),
                );
                history.entry(key).or_default().insert(seq, value);
            }
            watchers.change(seq, &mut random);
            for moment in watchers.moments() {
                let key = key(&mut random);
                let found = rows.find(&arena, &key, hash(&key), moment);
                let found = found.map(|Version { seq, value }| (seq, value.map(<[u8]>::to_vec)));
                assert_eq!(found, version_at(&history, &key, moment), "seed {seed}");

                let (from, to) = (self::key(&mut random), self::key(&mut random));
                let to = (!random.one_in(3)).then_some(to.as_slice());
                let range = KeyRange { from: &from, to, reverse: random.one_in(2) };
                let mut expected: Vec<_> = (history.keys())
                    .filter(|key| range.contains(key))
                    .filter(|key| version_at(&history, key, moment).is_some())
                    .cloned()
                    .collect();
                if range.reverse {
                    expected.reverse();
                }
                let limit = 1 + random.below(12);
                let mut keys = Vec::new();
                let more = rows.keys(&arena, range, moment, limit, &mut keys);
                assert_eq!(more, expected.len() > limit, "seed {seed}");
                expected.truncate(limit);
                assert_eq!(keys, expected, "seed {seed}");
            }
        }
        let in_order = rows.in_order(&arena).into_iter().map(|i| rows.newest(&arena, i));
        let found: Vec<_> = in_order
            .map(|(key, version)| (key.to_vec(), version.seq, version.value.map(<[u8]>::to_vec)))
            .collect();
        let newest = |(key, versions): (&Vec<u8>, &BTreeMap<u64, Option<Vec<u8>>>)| {
            let (seq, value) = versions.last_key_value().unwrap();
            (key.clone(), *seq, value.clone())
        };
        assert_eq!(found, history.iter().map(newest).collect::<Vec<_>>(), "seed {seed}");
    }
}

/// Keys are looked up several at once, before the first of them is set.
#[test]
fn a_batch_may_set_a_key_several_times() {
    const TABLE: Table = Table::new(0, "t", 8);
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let (hasher, live) = (DefaultHashBuilder::default(), Arc::<LiveSet>::default());
    let tables = TableSet::new(&[TABLE]).unwrap();
    let generation = Generation::new(&tables);
    let mut model = BTreeMap::new();
    for seq in 1..40 {
        let mut batch = Batch::new();
        for _ in 0..random.below(3 * AT_ONCE) {
            let key = key(&mut random);
            let value = (!random.one_in(4)).then(|| random.bytes(5));
            match &value {
                Some(value) => batch.put(TABLE, &key, value),
                None => batch.delete(TABLE, &key),
            }
            model.insert(key, value);
        }
        generation.apply(&batch, seq, &tables, &hasher, &live.lock()).unwrap();
        for (key, value) in &model {
            let mut found = Vec::new();
            let hash = super::hash(&hasher, key);
            let is_there = generation.find(0, (key.as_slice(), hash), u64::MAX, &mut found);
            let expected = if value.is_some() { Found::Value } else { Found::Removed };
            assert_eq!(is_there, expected, "seed {seed}");
            assert_eq!(found, value.clone().unwrap_or_default(), "seed {seed}");
        }
    }
}

#[test]
fn many_rows_are_found_in_order() {
    let live = Arc::<LiveSet>::default();
    let (mut arena, mut rows) = (Arena::default(), Rows::default());
    let mut random = Random::new(3);
    let mut expected = Vec::new();
    for seq in 0..40 {
        for _ in 0..200 {
            // Half of them share their first eight bytes.
            let mut key = random.bytes(12);
            if random.one_in(2) {
                key[..8].fill(0x55);
            }
            rows.set(&mut arena, (&key, random.next()), Some(b"value"), seq, &live.lock());
            expected.push(key);
        }
        let mut keys = Vec::new();
        assert!(!rows.keys(&arena, KeyRange::ALL, u64::MAX, 10_000, &mut keys));
        expected.sort();
        assert!(keys == expected);
    }
}

#[test]
fn overwriting_takes_no_more_memory() {
    let live = Arc::<LiveSet>::default();
    let (mut arena, mut rows) = (Arena::default(), Rows::default());
    let mut bytes = 0;
    for seq in 0..1_000 {
        for key in 0..100_u64 {
            let len = ((key + seq) % 50) as usize;
            rows.set(
                &mut arena,
                (&key.to_be_bytes(), key << 32),
                Some(&[1; 64][..len]),
                seq,
                &live.lock(),
            );
        }
        if seq == 60 {
            bytes = arena.bytes();
        }
    }
    assert_eq!(arena.bytes(), bytes);
    assert!(bytes < 64 << 10, "{bytes}");
}
