//! Tests of `db stats`, `check`, `dump` and `unwind`.

use crate::{
    run::polytrie,
    support::{CONDENSE, Data, RPC_COMPAT, assert_fails, for_each_layer, import, sample},
};
use alloy_primitives::B256;
use polytrie::{
    chain::TABLES,
    layers::{self, EngineOptions},
};
use polytrie_kv::{Batch, Durability, KeyRange, Store, StoreOptions, Table};
use polytrie_kv_testing::entries;
use polytrie_state::Stamp;
use std::fs;

for_each_layer!(
    stats_say_what_is_there,
    check_finds_damage,
    check_survives_a_ruined_file,
    check_survives_damaged_lengths,
    unwinding_and_importing_again,
    pruning_changes_nothing_that_can_be_asked_for,
    a_dump_leaves_out_what_is_asked,
    an_interrupted_change_of_branch_is_told,
    what_is_lost_is_told_and_repaired,
);

/// A database file that lost its latest commit, for example by a bad sector, is reported and can be
/// repaired. A lost part that was unused changes nothing.
fn what_is_lost_is_told_and_repaired(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported(layer, chain.head);
    let (file, dump) = (data.path().join("db/mdbx.dat"), data.dump());
    let original = fs::read(&file).unwrap();
    // The end of the file is not used.
    fs::write(&file, &original[..original.len() - 8192]).unwrap();
    data.check();
    assert!(data.dump() == dump);
    polytrie!["export", data.file("out"), "--datadir", data.path()].ok();
    polytrie!["db", "repair", "--datadir", data.path()].ok();
    let original = fs::read(&file).unwrap();
    let lost = (0..3).any(|page| {
        let mut bytes = original.clone();
        bytes[page * 4096 + 193..][..16].fill(0);
        fs::write(&file, bytes).unwrap();
        polytrie!["db", "check", "--datadir", data.path()].code != Some(0)
    });
    assert!(lost);
    let words = ["mdbx.dat ends with commit ", " was confirmed", "polytrie db repair"];
    for run in [
        polytrie!["db", "check", "--datadir", data.path()],
        polytrie!["db", "dump", "--datadir", data.path()],
        polytrie!["import", chain.file, "--datadir", data.path()],
    ] {
        assert_fails(&run, 3, &words);
    }
    let run = polytrie!["db", "repair", "--datadir", data.path()].ok();
    assert!(run.text().contains("\nback to the last whole state: "), "{}", run.text());
    polytrie!["import", chain.file, "--datadir", data.path()].ok();
    assert_eq!(data.head().0, chain.head);
    assert!(data.dump() == dump);
    let run = polytrie!["db", "repair", "--datadir", data.path(), "--json", "-"].ok();
    assert_eq!(run.json()["lost"], serde_json::json!([]));
    polytrie!["db", "check", "--datadir", data.path()].ok();
}

/// A command that only reads must not take the head of an interrupted change of branch for the head
/// of the chain.
fn an_interrupted_change_of_branch_is_told(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported(layer, chain.head);
    let kind = layers::layer(layer).unwrap();
    let tables = [kind.tables, TABLES].concat();
    let meta = tables.iter().find(|table| table.name == "ChainMeta").unwrap();
    let put = |row: &[u8]| {
        let mut batch = Batch::new();
        batch.put(*meta, b"switch", row);
        store(&data, &tables).write(batch).unwrap();
    };
    let head: B256 = chain.hash.parse().unwrap();
    put(&[head.as_slice(), &chain.head.to_be_bytes(), &[7; 32]].concat());
    let (out, other) = (data.file("out"), data.file("other"));
    let account = "0x0000000000000000000000000000000000000001";
    let read = || {
        [
            polytrie!["export", out, "--datadir", data.path()],
            polytrie!["db", "dump", out, "--datadir", data.path()],
            polytrie!["proof", "get", "--address", account, "--datadir", data.path()],
            polytrie!["db", "convert", "--to", "raw", "--out", other, "--datadir", data.path()],
        ]
    };
    let unwind = format!("polytrie db unwind --to {}", chain.head);
    let served = polytrie!["devnet", "--read-only", "--http.port", "0", "--datadir", data.path()];
    for run in read().into_iter().chain([served]) {
        assert_fails(&run, 2, &["a change of branch was interrupted", &unwind]);
    }
    assert!(!out.exists());
    let checked = polytrie!["db", "check", "--datadir", data.path()].ok();
    assert!(checked.stderr.contains(&unwind), "{}", checked.stderr);
    put(b"half a row");
    assert_fails(
        &polytrie!["db", "check", "--datadir", data.path()],
        3,
        &["one problem was found"],
    );
    put(&[head.as_slice(), &chain.head.to_be_bytes(), &[7; 32]].concat());
    polytrie!["db", "unwind", "--to", chain.head.to_string(), "--datadir", data.path()].ok();
    for run in &read()[..2] {
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
}

fn stats_say_what_is_there(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported(layer, chain.head);
    let json = data.file("stats.json");
    let run = polytrie!["db", "stats", "--datadir", data.path(), "--json", json].ok();
    let stats: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(stats["state"], layer);
    assert_eq!(stats["kv"], "mdbx");
    assert_eq!(stats["format"], Stamp::FORMAT);
    assert_eq!(stats["head"]["number"], chain.head);
    assert_eq!(stats["head"]["hash"], chain.hash);
    assert!(stats["disk_bytes"].as_u64().unwrap() > 0);
    if layers::layer(layer).unwrap().canonical {
        assert_eq!(stats["commitment"], stats["head"]["state_root"]);
    }
    let rows = |name: &str| {
        let tables = stats["tables"].as_array().unwrap();
        let table = tables.iter().find(|table| table["name"] == name).unwrap();
        assert!(table["bytes"].as_u64().unwrap() > 0, "{table}");
        table["entries"].as_u64().unwrap()
    };
    for (table, expected) in
        [("Blocks", 55), ("CanonicalHeaders", 55), ("HeaderNumbers", 55), ("UndoRecords", 54)]
    {
        assert_eq!(rows(table), expected, "{table}");
        assert!(run.text().contains(table), "{}", run.text());
    }
    for word in [layer, chain.hash, "mdbx", "entries"] {
        assert!(run.text().contains(word), "{word}: {}", run.text());
    }
}

/// Opens the store of a data directory, so that a test can change its rows.
pub(crate) fn store(data: &Data, tables: &[Table]) -> Store {
    let options = EngineOptions::default();
    let engine = layers::open_engine("mdbx", &data.path().join("db"), tables, options).unwrap();
    let durability = Durability::EveryWrite;
    let options = StoreOptions { durability, background: false, ..StoreOptions::default() };
    Store::open(engine, tables, options).unwrap()
}

/// `db check` reports a row of each table that was changed, and one that was removed.
fn check_finds_damage(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported(layer, chain.head);
    let kind = layers::layer(layer).unwrap();
    let tables = [kind.tables, TABLES].concat();
    let mut found = 0;
    for table in &tables {
        let rows = entries(&store(&data, &tables), *table, KeyRange::ALL);
        // A layer without hashes cannot notice a changed state.
        let is_flat = table.name.starts_with("Raw");
        if rows.is_empty() || is_flat {
            continue;
        }
        let (key, value) = match table.name {
            // Only the undo record of the head is changed.
            "UndoRecords" => rows.last().unwrap(),
            // Receipts from before Byzantium may not be comparable.
            "Receipts" => &rows[rows.len() - 3],
            _ => &rows[rows.len() / 2],
        };
        let mut changed = value.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 0x04;
        let mut other = Batch::new();
        other.put(*table, key, &changed);
        let mut gone = Batch::new();
        gone.delete(*table, key);
        for (what, batch) in [("changed", other), ("gone", gone)] {
            if table.name == "UndoRecords" && what == "changed" && !kind.canonical {
                continue;
            }
            // Preimages are never deleted, so a missing one may belong to a slot that is gone.
            if table.name == "Preimages" && what == "gone" {
                continue;
            }
            store(&data, &tables).write(batch).unwrap();
            let run = polytrie!["db", "check", "--datadir", data.path()];
            let context = format!("a row of {} is {what}", table.name);
            assert_eq!(run.code, Some(3), "{context}: {}{}", run.text(), run.stderr);
            let name = data.path().display().to_string();
            assert_fails(&run, 3, &["is damaged", &name, " found, expected none", "import again"]);
            let run = polytrie!["db", "check", "--datadir", data.path(), "--json", "-"];
            assert_eq!(run.code, Some(3));
            assert_eq!(run.json()["clean"], false);
            assert!(!run.json()["problems"].as_array().unwrap().is_empty(), "{context}");
            let mut back = Batch::new();
            back.put(*table, key, value);
            store(&data, &tables).write(back).unwrap();
            found += 1;
        }
    }
    assert!(found >= 13, "{found}");
    data.check();

    // Superfluous rows are reported.
    for (name, key) in [("Blocks", 77_u64), ("Receipts", 55), ("UndoRecords", 1000)] {
        let table = *tables.iter().find(|table| table.name == name).unwrap();
        let mut batch = Batch::new();
        batch.put(table, &key.to_be_bytes(), b"stray");
        store(&data, &tables).write(batch).unwrap();
        let run = polytrie!["db", "check", "--datadir", data.path()];
        assert_fails(&run, 3, &["is damaged"]);
        assert!(run.text().contains(&format!("table {name} has a row of block {key}")));
        let mut batch = Batch::new();
        batch.delete(table, &key.to_be_bytes());
        store(&data, &tables).write(batch).unwrap();
    }
    data.check();
}

/// `db check` reports a file that is no database, and does not crash.
fn check_survives_a_ruined_file(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported(layer, 5);
    let file = data.path().join("db/mdbx.dat");
    let original = fs::read(&file).unwrap();
    let short = b"this is no database".to_vec();
    let ruins = [vec![0xff; original.len()], original[..original.len() / 3].to_vec(), short];
    for ruin in ruins {
        fs::write(&file, &ruin).unwrap();
        let words = ["is damaged", "import again into an empty --datadir"];
        assert_fails(&polytrie!["db", "check", "--datadir", data.path()], 3, &words);
        if ruin.len() > 100 {
            assert_fails(&polytrie!["import", chain.file, "--datadir", data.path()], 3, &words);
        }
        fs::remove_dir_all(data.path().join("db")).unwrap();
        fs::create_dir(data.path().join("db")).unwrap();
    }
    fs::write(&file, original).unwrap();
    data.check();
    assert_eq!(data.head().0, 5);
}

/// `db check` does not crash on lengths that lead beyond the end of the file.
fn check_survives_damaged_lengths(layer: &str) {
    const PAGE: usize = 4096;
    let data = Data::new();
    let genesis = sample("genesis.json");
    let import = import![data.path(), sample("chain.rlp.gz"), genesis, layer];
    import.ok();
    let file = data.path().join("db/mdbx.dat");
    let mut bytes = fs::read(&file).unwrap();
    let number = |bytes: &[u8]| usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    // The first three pages describe the file.
    for page in bytes.chunks_exact_mut(PAGE).skip(3) {
        let (flags, ends) = (number(&page[10..]), number(&page[12..]));
        // On a leaf page the first row begins with its length.
        if flags == 2 && (2..800).contains(&ends) {
            let row = 20 + number(&page[20..]);
            page[row..row + 4].copy_from_slice(&[0xff, 0xff, 0xff, 0]);
        }
    }
    fs::write(&file, bytes).unwrap();
    for command in ["check", "dump"] {
        assert_fails(&polytrie!["db", command, "--datadir", data.path()], 3, &["damaged"]);
    }
}

fn unwinding_and_importing_again(layer: &str) {
    let Some(chain) = CONDENSE.open() else { return };
    let data = chain.imported(layer, 500);
    let dump = data.dump();
    polytrie!["import", chain.file, "--to", "900", "--datadir", data.path()].ok();
    let after = (data.head(), data.dump());
    let run =
        polytrie!["db", "unwind", "--to", "500", "--datadir", data.path(), "--json", "-"].ok();
    assert_eq!(run.json()["blocks"], 400);
    assert_eq!(run.json()["head"]["number"], 500);
    assert_eq!(data.head().0, 500);
    assert!(data.dump() == dump);
    data.check();
    let run = polytrie!["db", "unwind", "--to", "499", "--datadir", data.path()].ok();
    assert!(run.text().starts_with("took back 1 block: head 499 0x"), "{}", run.text());
    let run = polytrie!["db", "unwind", "--to", "600", "--datadir", data.path()];
    assert_fails(&run, 2, &["cannot go back to block 600", "the head is block 499"]);
    polytrie!["import", chain.file, "--to", "900", "--datadir", data.path()].ok();
    assert_eq!((data.head(), data.dump()), after);
    data.check();

    // An unwind reaches as far back as the undo records, and no further.
    polytrie!["import", chain.file, "--datadir", data.path()].ok();
    let run = polytrie!["db", "unwind", "--to", "100", "--datadir", data.path()];
    assert_fails(&run, 2, &["cannot go back to block 100", "reach back to block 286 only"]);
    assert_eq!(data.head().0, chain.head);
    polytrie!["db", "unwind", "--to", "286", "--datadir", data.path()].ok();
    data.check();
    polytrie!["import", chain.file, "--datadir", data.path()].ok();
    assert_eq!(data.head(), (chain.head, chain.hash.to_owned()));
    data.check();
}

fn pruning_changes_nothing_that_can_be_asked_for(layer: &str) {
    let Some(chain) = CONDENSE.open() else { return };
    let data = chain.imported(layer, chain.head);
    let before = data.dump();
    let prune = || polytrie!["db", "prune", "--datadir", data.path(), "--json", "-"].ok().json();
    let pruned = prune();
    assert_eq!(pruned["state"], layer);
    assert_eq!(pruned["bytes_after"] != pruned["bytes_before"], layer == "lvmt", "{pruned}");
    assert_eq!(prune()["bytes_before"], pruned["bytes_after"]);
    let run = polytrie!["db", "prune", "--datadir", data.path()].ok();
    let said = if layer == "lvmt" { "entries are needed" } else { "keeps nothing" };
    assert!(run.text().contains(said), "{}", run.text());
    assert!(data.dump() == before);
    data.check();
    polytrie!["db", "unwind", "--to", "286", "--datadir", data.path()].ok();
    data.check();
    polytrie!["import", chain.file, "--datadir", data.path()].ok();
    assert!(data.dump() == before);
    data.check();
}

fn a_dump_leaves_out_what_is_asked(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported(layer, chain.head);
    let whole = data.dump();
    let hashes: Vec<&str> = whole.lines().map(|line| &line[..75]).collect();
    assert!(hashes.is_sorted());
    assert!(whole.contains("\"code\":\"0x") && whole.contains("\"storage\":{\"0x"));
    let plain = polytrie!["db", "dump", "--no-code", "--no-storage", "--datadir", data.path()].ok();
    assert_eq!(plain.text().lines().count(), whole.lines().count());
    assert!(!plain.text().contains("\"code\"") && !plain.text().contains("\"storage\""));
    let packed = data.file("dump.gz");
    polytrie!["db", "dump", packed, "--datadir", data.path()].ok();
    assert!(crate::fixtures::read(&packed) == whole.as_bytes());
    let run = polytrie!["db", "dump", data.file("no/where"), "--datadir", data.path()];
    assert_fails(&run, 3, &["no/where", "cannot be written"]);
}
