//! Tests of full and of read-only disks. They mount file systems and are skipped without the right to
//! do so.

use crate::{
    run::polytrie,
    support::{CONDENSE, Data, RPC_COMPAT, assert_fails, check, for_each_layer, head, import},
};
use polytrie_kv_testing::Mount;
use std::fs;

for_each_layer!(a_full_disk, a_read_only_disk);

fn a_full_disk(layer: &str) {
    let Some(chain) = CONDENSE.open() else { return };
    let data = Data::new();
    let Some(disk) = Mount::new(data.file("disk"), "10m") else { return };
    let dir = disk.0.join("data");
    let import = |flush_every: &str| {
        import![dir, chain.file, chain.chain, layer, "--flush-every", flush_every]
    };
    let words = [
        "the disk is full",
        &*dir.display().to_string(),
        "free some space",
        "nothing already stored is lost",
    ];
    let full = import("50");
    assert_fails(&full, 3, &words);
    // Even a reading command needs room for the table of readers.
    disk.remount("size=11m");
    let (reached, hash) = head(&dir);
    assert!(reached > 50 && reached < chain.head, "{reached}");
    // The message names the block that is stored. A layer that writes each block by itself may have
    // lost none.
    let said = full.text();
    assert!(said.starts_with(&format!("head {reached} {hash} state root 0x")), "{said}");
    let is_lost = said.contains(" lost)");
    assert!(is_lost || layer == "mpt-hash", "{said}");
    assert!(!is_lost || !said.contains("verified"), "{said}");
    check(&dir);
    // A second attempt on the full disk loses nothing, either.
    let again = import("50");
    assert_fails(&again, 3, &words);
    disk.remount("size=200m");
    let (reached_again, hash) = head(&dir);
    assert!(reached_again >= reached);
    assert!(again.text().starts_with(&format!("head {reached_again} {hash} ")), "{}", again.text());
    check(&dir);
    import("1024").ok();
    assert_eq!(head(&dir), (chain.head, chain.hash.to_owned()));
    check(&dir);
    drop(disk);

    // A disk without the room to create the database.
    let tiny = Mount::new(data.file("tiny"), "16k").unwrap();
    fs::write(tiny.0.join("filler"), [7; 12 << 10]).unwrap();
    let dir = tiny.0.join("data");
    let run = import![dir, chain.file, chain.chain, layer];
    assert_fails(&run, 3, &["the disk is full", "free some space"]);
}

fn a_read_only_disk(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = Data::new();
    let Some(disk) = Mount::new(data.file("disk"), "100m") else { return };
    let dir = disk.0.join("data");
    import![dir, chain.file, chain.chain, layer, "--to", "20"].ok();
    let dump = polytrie!["db", "dump", "--datadir", dir].ok().stdout;
    disk.remount("ro");
    let name = dir.display().to_string();
    for run in [
        polytrie!["import", chain.file, "--datadir", dir],
        polytrie!["db", "unwind", "--to", "3", "--datadir", dir],
        polytrie!["db", "drop", "--yes", "--datadir", dir],
    ] {
        assert_fails(&run, 3, &[&name, "Read-only file system", "check the path"]);
    }
    let new = disk.0.join("new");
    let run = polytrie!["init", "--datadir", new, "--chain", "dev", "--state", layer];
    assert_fails(&run, 3, &["new", "Read-only file system", "check the path"]);
    // Reading works without the right to write.
    assert_eq!(head(&dir).0, 20);
    check(&dir);
    assert!(polytrie!["db", "dump", "--datadir", dir].ok().stdout == dump);
    polytrie!["export", "-", "--datadir", dir].ok();
    disk.remount("rw");
    polytrie!["import", chain.file, "--datadir", dir].ok();
    assert_eq!(head(&dir), (chain.head, chain.hash.to_owned()));
}
