//! The suite that every engine passes.

use crate::{Random, entries};
use polytrie_kv::{Batch, Engine, Entry, KeyRange, KvError, Table, View, prefix_end};
use std::{ops::ControlFlow, sync::Arc};

/// The tables of the suite; an engine under test is opened with them.
pub const TABLES: [Table; 3] = [
    Table::new(0, "first", Table::KEY_LIMIT),
    Table::new(7, "second", 64),
    Table::new(254, "third", 32),
];

/// A test with its name.
type Test = (&'static str, fn(&dyn Engine));

/// Runs every test of an engine's contract.
///
/// `open` opens an engine on the same storage each time; it is called again only after all handles of the engine
/// before are dropped. The storage is empty at first, and each test uses it in sequence.
///
/// # Panics
///
/// If the engine breaks the contract.
pub fn engine_suite(open: impl Fn() -> Arc<dyn Engine>) {
    let tests: [Test; 12] = [
        ("points", points),
        ("many points", many_points),
        ("ranges", ranges),
        ("range deletions", range_deletions),
        ("order within a batch", order_within_a_batch),
        ("unsorted batches", unsorted_batches),
        ("views", views),
        ("keys of every length", keys_of_every_length),
        ("the last key", last_key),
        ("values of every length", values_of_every_length),
        ("nested reads", nested_reads),
        ("threads", threads),
    ];
    for (name, test) in tests {
        let engine = open();
        clear(&*engine);
        tracing::debug!(name, engine = engine.name(), "engine test");
        test(&*engine);
        drop(engine);
    }
    reopening(&open);
}

fn view(engine: &dyn Engine) -> Box<dyn View> {
    engine.view().expect("view")
}

fn write(engine: &dyn Engine, fill: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    fill(&mut batch);
    engine.write(&batch).expect("write");
}

fn get(reader: &dyn View, table: Table, key: &[u8]) -> Option<Vec<u8>> {
    reader.get(table, key).expect("get")
}

fn clear(engine: &dyn Engine) {
    write(engine, |batch| {
        for table in TABLES {
            batch.delete_range(table, &[], None);
        }
    });
    let reader = view(engine);
    for table in TABLES {
        assert_eq!(entries(&*reader, table, KeyRange::ALL), [], "a table was cleared");
        let stats = engine.table_stats(table).expect("stats");
        // RocksDB only estimates the number.
        assert!(stats.entries == 0 || engine.name() == "rocksdb", "no entries are left");
    }
}

fn points(engine: &dyn Engine) {
    let [first, second, _] = TABLES;
    write(engine, |batch| {
        batch.put(first, b"a", b"1");
        batch.put(first, b"b", b"");
        batch.put(second, b"a", b"other table");
    });
    let reader = view(engine);
    assert_eq!(get(&*reader, first, b"a").as_deref(), Some(&b"1"[..]));
    assert_eq!(get(&*reader, first, b"b").as_deref(), Some(&b""[..]), "an empty value is a value");
    assert_eq!(get(&*reader, second, b"a").as_deref(), Some(&b"other table"[..]));
    assert_eq!(get(&*reader, second, b"b"), None);
    let mut out = b"before".to_vec();
    assert!(reader.get_into(first, b"a", &mut out).expect("get"));
    assert!(!reader.get_into(first, b"c", &mut out).expect("get"));
    assert_eq!(out, b"before1", "values are appended");
    drop(reader);

    write(engine, |batch| {
        batch.put(first, b"a", b"a longer value than before");
        batch.delete(first, b"b");
        batch.delete(first, b"never there");
    });
    let reader = view(engine);
    assert_eq!(get(&*reader, first, b"a").as_deref(), Some(&b"a longer value than before"[..]));
    assert_eq!(get(&*reader, first, b"b"), None);
    write(engine, |_| {});
    assert!(engine.disk_bytes().is_ok());
    assert!(engine.table_stats(first).is_ok());
}

/// Returns keys with shared prefixes and with bytes 0x00 and 0xff, one of which is the prefix of another.
fn sample() -> Vec<Entry> {
    let mut keys: Vec<Vec<u8>> = vec![vec![0], vec![0, 0], vec![0xff], vec![0xff; 32], vec![0x7f]];
    for high in 0..60_u8 {
        for low in [0, 1, 0x80, 0xfe, 0xff] {
            keys.push(vec![high, low]);
            keys.push(vec![high, low, 0]);
            keys.push([&[high, low][..], &[0xff; 7]].concat());
        }
    }
    keys.sort();
    keys.dedup();
    keys.into_iter().map(|key| (key.clone(), [&key[..], b"!"].concat())).collect()
}

fn many_points(engine: &dyn Engine) {
    let [table, other, short] = TABLES;
    let sample = sample();
    write(engine, |batch| {
        for (key, value) in &sample {
            batch.put(table, key, value);
        }
        batch.put(table, b"empty", b"");
    });
    let before = view(engine);
    write(engine, |batch| batch.delete(table, b"empty"));
    // The keys are sorted first, as they mostly are, and then shuffled with some repeated. Every third one does not
    // exist.
    let mut keys: Vec<Vec<u8>> = sample.iter().map(|(key, _)| key.clone()).collect();
    keys.extend(sample.iter().step_by(3).map(|(key, _)| [key, &b"?"[..]].concat()));
    keys.push(b"empty".to_vec());
    keys.sort();
    let mut mixed: Vec<Vec<u8>> = keys.iter().rev().step_by(2).cloned().collect();
    mixed.extend(keys.iter().step_by(3).cloned());
    for keys in [keys, mixed, vec![vec![]], vec![]] {
        let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for reader in [&*before, &*view(engine)] {
            let expected: Vec<_> = asked.iter().map(|key| get(reader, table, key)).collect();
            assert_eq!(reader.get_many(table, &asked).expect("get many"), expected);
        }
        let absent = vec![None; asked.len()];
        assert_eq!(before.get_many(other, &asked).expect("get many"), absent, "another table");
    }
    let long = [1; 33];
    let result = before.get_many(short, &[b"a", &long]);
    assert!(matches!(result, Err(KvError::KeyTooLong { found: 33, expected: 32, .. })));
}

fn ranges(engine: &dyn Engine) {
    let table = TABLES[0];
    let sample = sample();
    write(engine, |batch| {
        for (key, value) in &sample {
            batch.put(table, key, value);
        }
    });
    let reader = view(engine);
    let mut bounds: Vec<Vec<u8>> = vec![vec![], vec![30, 0x80], vec![30, 0x81], vec![0xff; 40]];
    bounds.extend(sample.iter().step_by(29).map(|(key, _)| key.clone()));
    for from in &bounds {
        let tos = bounds.iter().map(|to| Some(to.as_slice())).chain([None]);
        for to in tos {
            let range = KeyRange { from, to, reverse: false };
            let mut expected: Vec<Entry> =
                sample.iter().filter(|(key, _)| range.contains(key)).cloned().collect();
            assert_eq!(entries(&*reader, table, range), expected, "{range:?}");
            assert_eq!(reader.first(table, range).expect("first"), expected.first().cloned());
            expected.reverse();
            assert_eq!(entries(&*reader, table, range.rev()), expected, "{range:?} in reverse");
            let last = reader.first(table, range.rev()).expect("first");
            assert_eq!(last, expected.first().cloned());
        }
    }
    assert_eq!(entries(&*reader, TABLES[1], KeyRange::ALL), [], "another table is empty");

    // A visitor's error ends the scan, and the scan returns it.
    let mut seen = 0;
    let result = reader.scan(table, KeyRange::ALL, &mut |_, _| {
        seen += 1;
        if seen == 40 {
            Err(KvError::Corrupt("enough".into()))
        } else {
            Ok(ControlFlow::Continue(()))
        }
    });
    assert!(matches!(result, Err(KvError::Corrupt(text)) if text == "enough"));
    assert_eq!(seen, 40);
}

fn range_deletions(engine: &dyn Engine) {
    let table = TABLES[0];
    let sample = sample();
    let cases: [(&[u8], Option<&[u8]>); 8] = [
        (&[], Some(&[0])),
        (&[], Some(&[3])),
        (&[10, 0x80], Some(&[10, 0x80, 0])),
        (&[10, 1], Some(&[20, 0xff])),
        (&[20, 0xff], Some(&[10, 1])),
        (&[58], None),
        (&[0xff, 0xff, 0], None),
        (&[], None),
    ];
    for (from, to) in cases {
        write(engine, |batch| {
            for (key, value) in &sample {
                batch.put(table, key, value);
            }
        });
        write(engine, |batch| batch.delete_range(table, from, to));
        let deleted = KeyRange { from, to, reverse: false };
        let expected: Vec<Entry> =
            sample.iter().filter(|(key, _)| !deleted.contains(key)).cloned().collect();
        let reader = view(engine);
        assert_eq!(entries(&*reader, table, KeyRange::ALL), expected, "without {deleted:?}");
        for (key, value) in &sample {
            let expected = (!deleted.contains(key)).then(|| value.clone());
            assert_eq!(get(&*reader, table, key), expected);
        }
    }
}

fn order_within_a_batch(engine: &dyn Engine) {
    let table = TABLES[1];
    write(engine, |batch| {
        batch.put(table, b"p1", b"old");
        batch.put(table, b"p2", b"old");
        batch.put(table, b"q", b"old");
    });
    write(engine, |batch| {
        batch.put(table, b"p2", b"new");
        batch.put(table, b"p3", b"new");
        batch.delete_range(table, b"p", prefix_end(b"p").as_deref());
    });
    let found = entries(&*view(engine), table, KeyRange::ALL);
    let expected = [(&b"p2"[..], &b"new"[..]), (b"p3", b"new"), (b"q", b"old")];
    assert_eq!(found, expected.map(|(k, v)| (k.to_vec(), v.to_vec())), "ranges come first");
}

fn unsorted_batches(engine: &dyn Engine) {
    let [first, second, third] = TABLES;
    write(engine, |batch| {
        batch.put(third, b"m", b"1");
        batch.put(first, b"z", b"2");
        batch.put(third, b"a", b"3");
        batch.put(first, b"b", b"4");
        batch.put(second, b"x", b"5");
        batch.put(first, b"z", b"6");
        batch.delete(third, b"m");
        batch.delete(first, b"y");
        batch.put(first, b"y", b"7");
    });
    let reader = view(engine);
    let expected = [(&b"b"[..], &b"4"[..]), (b"y", b"7"), (b"z", b"6")];
    assert_eq!(
        entries(&*reader, first, KeyRange::ALL),
        expected.map(|(k, v)| (k.to_vec(), v.to_vec())),
        "the last change of a key wins",
    );
    assert_eq!(entries(&*reader, third, KeyRange::ALL), [(b"a".to_vec(), b"3".to_vec())]);
}

fn views(engine: &dyn Engine) {
    let table = TABLES[1];
    let key = |i: u32| i.to_be_bytes();
    write(engine, |batch| (0..500).for_each(|i| batch.put(table, &key(i), b"old")));
    let before = view(engine);
    let old = entries(&*before, table, KeyRange::ALL);
    write(engine, |batch| (0..700).step_by(2).for_each(|i| batch.put(table, &key(i), b"new")));
    let between = view(engine);
    let new = entries(&*between, table, KeyRange::ALL);
    write(engine, |batch| batch.delete_range(table, &key(100), Some(&key(400))));
    let after = view(engine);

    assert_eq!(old.len(), 500);
    assert_eq!(new.len(), 600);
    for _ in 0..2 {
        assert_eq!(entries(&*before, table, KeyRange::ALL), old, "a view does not change");
        assert_eq!(entries(&*between, table, KeyRange::ALL), new);
    }
    assert_eq!(entries(&*after, table, KeyRange::ALL).len(), 300);
    assert_eq!(get(&*before, table, &key(0)).as_deref(), Some(&b"old"[..]));
    assert_eq!(get(&*between, table, &key(0)).as_deref(), Some(&b"new"[..]));
    assert_eq!(get(&*before, table, &key(600)), None);
    assert!(get(&*between, table, &key(300)).is_some());
    assert_eq!(get(&*after, table, &key(300)), None);
    drop(before);
    assert_eq!(entries(&*between, table, KeyRange::ALL), new, "nor when an older one goes");

    // These are more views at once than an engine can be expected to hold cheaply.
    let many: Vec<Box<dyn View>> = (0..200).map(|_| view(engine)).collect();
    write(engine, |batch| batch.delete_range(table, &[], None));
    for reader in many {
        assert!(get(&*reader, table, &key(50)).is_some());
    }
}

fn keys_of_every_length(engine: &dyn Engine) {
    let table = TABLES[0];
    let longest = usize::from(table.max_key);
    let keys: Vec<Vec<u8>> =
        (0..=longest).step_by(7).chain([1, longest]).map(|len| vec![0xab; len]).collect();
    write(engine, |batch| {
        for key in &keys {
            batch.put(table, key, &key.len().to_be_bytes());
        }
    });
    let reader = view(engine);
    for key in &keys {
        let expected = key.len().to_be_bytes();
        assert_eq!(
            get(&*reader, table, key).as_deref(),
            Some(&expected[..]),
            "length {}",
            key.len()
        );
        let found = reader.first(table, KeyRange::from(key)).expect("first");
        assert_eq!(found.map(|(key, _)| key).as_ref(), Some(key));
    }
    let mut sorted = keys.clone();
    sorted.sort();
    sorted.dedup();
    let found: Vec<Vec<u8>> =
        entries(&*reader, table, KeyRange::ALL).into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, sorted);
    let rest = entries(&*reader, table, KeyRange::from(&sorted[1]).rev());
    assert_eq!(rest.len(), sorted.len() - 1);
    drop(reader);
    write(engine, |batch| keys.iter().for_each(|key| batch.delete(table, key)));
    assert_eq!(entries(&*view(engine), table, KeyRange::ALL), []);

    // A key that is one byte too long is refused by every engine, and the batch with it.
    let table = TABLES[2];
    let long = vec![1; usize::from(table.max_key) + 1];
    let mut batch = Batch::new();
    batch.put(table, b"fine", b"");
    batch.put(table, &long, b"");
    let too_long = |result: Result<(), KvError>| {
        matches!(result, Err(KvError::KeyTooLong { found: 33, expected: 32, table: "third" }))
    };
    assert!(too_long(engine.write(&batch)));
    let reader = view(engine);
    assert!(too_long(reader.get(table, &long).map(drop)));
    assert_eq!(get(&*reader, table, b"fine"), None, "nothing of the batch was written");
    // A bound may be one byte longer than a key, since it may be the first key after one.
    assert_eq!(entries(&*reader, table, KeyRange::from(&long)), []);
    let endless = vec![1; 100_000];
    for range in [KeyRange::from(&endless), KeyRange::between(&[], &endless)] {
        let result = reader.scan(table, range, &mut |_, _| Ok(ControlFlow::Continue(())));
        assert!(matches!(result, Err(KvError::KeyTooLong { found: 100_000, .. })));
        let mut batch = Batch::new();
        batch.delete_range(table, range.from, range.to);
        assert!(matches!(engine.write(&batch), Err(KvError::KeyTooLong { found: 100_000, .. })));
    }
}

/// Checks the key behind which no other key can be: no bound that is a key excludes it.
fn last_key(engine: &dyn Engine) {
    let table = TABLES[0];
    let last = vec![0xff; usize::from(table.max_key)];
    assert_eq!(prefix_end(&last), None);
    write(engine, |batch| {
        batch.put(table, b"", b"first");
        batch.put(table, &last, b"last");
    });
    let reader = view(engine);
    assert_eq!(get(&*reader, table, &last).as_deref(), Some(&b"last"[..]));
    let ranges =
        [KeyRange::from(&last), KeyRange::between(&last, &Table::END), KeyRange::ALL.rev()];
    for range in ranges {
        let found = reader.first(table, range).expect("first");
        assert_eq!(found, Some((last.clone(), b"last".to_vec())));
    }
    assert_eq!(entries(&*reader, table, KeyRange::between(b"", &last)).len(), 1);
    drop(reader);
    write(engine, |batch| batch.delete_range(table, &[0], None));
    let found = entries(&*view(engine), table, KeyRange::ALL);
    assert_eq!(found, [(b"".to_vec(), b"first".to_vec())]);
    write(engine, |batch| {
        batch.put(table, &last, b"again");
        batch.delete_range(table, b"", Some(&last));
    });
    let found = entries(&*view(engine), table, KeyRange::ALL);
    assert_eq!(found, [(last.clone(), b"again".to_vec())]);
    write(engine, |batch| batch.delete_range(table, &last, None));
    assert_eq!(entries(&*view(engine), table, KeyRange::ALL), []);
}

fn values_of_every_length(engine: &dyn Engine) {
    let table = TABLES[1];
    let mut random = Random::new(1);
    let lengths =
        [0, 1, 100, 1_000, 2_000, 2_045, 4_000, 4_080, 4_096, 5_000, 70_000, 1 << 20, 5 << 20];
    let values: Vec<Vec<u8>> = lengths.iter().map(|len| random.bytes(*len)).collect();
    for shift in 0..3 {
        let shifted =
            || (0..values.len()).map(|i| (i as u8, &values[(i + shift * 5) % values.len()]));
        write(engine, |batch| shifted().for_each(|(key, value)| batch.put(table, &[key], value)));
        let reader = view(engine);
        let expected: Vec<Entry> =
            shifted().map(|(key, value)| (vec![key], value.clone())).collect();
        for (key, value) in &expected {
            assert!(get(&*reader, table, key).as_ref() == Some(value), "{} bytes", value.len());
        }
        assert!(entries(&*reader, table, KeyRange::ALL) == expected);
    }
}

/// Checks that a visitor can read the view that calls it.
fn nested_reads(engine: &dyn Engine) {
    let [first, second, _] = TABLES;
    write(engine, |batch| {
        for i in 0..300_u32 {
            batch.put(first, &i.to_be_bytes(), &(299 - i).to_be_bytes());
            batch.put(second, &i.to_be_bytes(), b"value");
        }
    });
    let reader = view(engine);
    let mut seen = 0;
    std::thread::scope(|scope| {
        for _ in 0..40 {
            // Many scans run at once, and each of them waits in the middle for other gets and scans.
            scope.spawn(|| {
                let result = reader.scan(first, KeyRange::ALL, &mut |_, value| {
                    assert_eq!(get(&*reader, second, value).as_deref(), Some(&b"value"[..]));
                    let found = reader.first(second, KeyRange::from(value))?;
                    assert_eq!(found.map(|(key, _)| key).as_deref(), Some(value));
                    Ok(ControlFlow::Continue(()))
                });
                assert!(result.is_ok());
            });
        }
        let result = reader.scan(first, KeyRange::ALL, &mut |_, _| {
            // Writing while a scan runs does not disturb the scan either.
            if seen % 100 == 50 {
                write(engine, |batch| batch.delete_range(first, &[], None));
            }
            seen += 1;
            Ok(ControlFlow::Continue(()))
        });
        assert!(result.is_ok());
    });
    assert_eq!(seen, 300);
}

/// Checks that readers in several threads see whole batches, one after the other.
fn threads(engine: &dyn Engine) {
    const KEYS: u32 = 50;
    const BATCHES: u32 = 60;
    let [_, second, third] = TABLES;
    let put_all = |number: u32| {
        write(engine, |batch| {
            for i in 0..KEYS {
                batch.put(second, &i.to_be_bytes(), &number.to_be_bytes());
                batch.put(third, &i.to_be_bytes(), &number.to_be_bytes());
            }
        });
    };
    put_all(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut newest = 0;
                while newest < BATCHES {
                    let reader = view(engine);
                    let mut values: Vec<Vec<u8>> = Vec::new();
                    for table in [second, third] {
                        let found = entries(&*reader, table, KeyRange::ALL);
                        assert_eq!(found.len(), KEYS as usize);
                        values.extend(found.into_iter().map(|(_, value)| value));
                    }
                    values.dedup();
                    assert_eq!(values.len(), 1, "a view holds whole batches");
                    let number =
                        u32::from_be_bytes(values[0].as_slice().try_into().expect("4 bytes"));
                    assert!(number >= newest, "a later view is not older");
                    newest = number;
                }
            });
        }
        (1..=BATCHES).for_each(put_all);
    });
}

fn reopening(open: &impl Fn() -> Arc<dyn Engine>) {
    let table = TABLES[1];
    let engine = open();
    clear(&*engine);
    let mut expected = Vec::new();
    for i in 0..20_u32 {
        write(&*engine, |batch| batch.put(table, &i.to_be_bytes(), &[i as u8; 100]));
        expected.push((i.to_be_bytes().to_vec(), vec![i as u8; 100]));
    }
    drop(engine);
    let engine = open();
    assert_eq!(entries(&*view(&*engine), table, KeyRange::ALL), expected, "what was written stays");
    write(&*engine, |batch| batch.put(table, &20_u32.to_be_bytes(), b"more"));
    drop(engine);
    assert_eq!(entries(&*view(&*open()), table, KeyRange::ALL).len(), 21);
}
