//! Tests of the features of `replica`: blocks whose root is computed later, and a flat state on another disk. Also
//! tests of the shadow, which compares `replica` with the other layers.

use crate::{
    rewrite::rewritten,
    run::{Run, polytrie},
    support::{Data, assert_fails, check, import_with, sample, sample_blocks, stream},
};
use alloy_primitives::{B256, keccak256};
use polytrie::consensus::decode::decode_block;
use std::{fs, path::Path, process::Command};

fn import(data: &Data, file: &Path, more: &[&str]) -> Run {
    import_with(data, file, &sample("genesis.json"), more)
}

/// The settings do not change the state after 300 blocks.
#[test]
fn settings_change_nothing() {
    let blocks = sample_blocks(300);
    let mut dumps = Vec::new();
    for settings in [
        &["--state", "mpt"][..],
        &["--state", "replica"],
        &["--state", "replica", "--replica.workers", "0"],
        &["--state", "replica", "--replica.workers", "3", "--replica.queue", "1"],
        &["--state", "replica", "--replica.depth", "1"],
        &["--state", "replica", "--replica.depth", "4", "--trie.cache", "0", "--flush-every", "7"],
        &["--state", "replica", "--replica.mode", "paper"],
        &["--state", "replica", "--replica.mode", "paper", "--replica.queue", "1"],
    ] {
        let data = Data::new();
        let file = data.write("chain.rlp", stream(&blocks));
        let run = import(&data, &file, settings).ok();
        assert!(run.text().contains("every state root verified"), "{}", run.text());
        data.check();
        dumps.push((data.head(), data.dump()));
    }
    assert!(dumps.windows(2).all(|pair| pair[0] == pair[1]));
}

/// A directory keeps the mode that it was created with, and another mode is refused.
#[test]
fn a_directory_keeps_its_mode() {
    let data = Data::new();
    let paper = ["--state", "replica", "--replica.mode", "paper"];
    import(&data, &sample("chain.rlp.gz"), &[&paper[..], &["--to", "100"]].concat()).ok();
    let other = ["--replica.mode", "default", "--to", "200"];
    assert_fails(&import(&data, &sample("chain.rlp.gz"), &other), 2, &["replica.mode"]);
    import(&data, &sample("chain.rlp.gz"), &["--to", "200"]).ok();
    assert_eq!(data.head().0, 200);
    data.check();
    polytrie!["db", "unwind", "--to", "50", "--datadir", data.path()].ok();
    data.check();
}

/// A block with a wrong state root is named even if later blocks were executed on top of it. Its parent becomes the
/// head, and nothing of the later blocks is kept.
#[test]
fn a_wrong_root_is_found_behind_blocks_that_follow() {
    let mut blocks = sample_blocks(60);
    let wrong = 40;
    blocks[wrong] = rewritten(&blocks[wrong], |b| b.header.state_root = B256::repeat_byte(7));
    for n in wrong + 1..blocks.len() {
        let parent = keccak256(alloy_rlp::encode(decode_block(&blocks[n - 1]).unwrap().header));
        blocks[n] = rewritten(&blocks[n], |b| b.header.parent_hash = parent);
    }
    let number = decode_block(&blocks[wrong]).unwrap().header.number;
    let place = format!("(index {wrong}, offset {})", stream(&blocks[..wrong]).len());
    for depth in ["0", "1", "5"] {
        let data = Data::new();
        let file = data.write("wrong.rlp", stream(&blocks));
        let run = import(&data, &file, &["--state", "replica", "--replica.depth", depth]);
        let named = format!("block {number} (");
        assert_fails(&run, 1, &[&named, &place, "the header's state root is 0x0707"]);
        assert_eq!(data.head().0, number - 1);
        data.check();
        // The right blocks can be imported afterwards.
        import(&data, &sample("chain.rlp.gz"), &["--to", "100", "--replica.depth", depth]).ok();
        assert_eq!(data.head().0, 100);
        data.check();
    }
}

/// A block that breaks another rule, on top of blocks whose roots are not computed yet, leaves those blocks
/// imported.
#[test]
fn an_invalid_block_on_top_of_blocks_that_wait() {
    let mut blocks = sample_blocks(30);
    blocks[29] = rewritten(&blocks[29], |b| b.header.gas_used += 1);
    let number = decode_block(&blocks[29]).unwrap().header.number;
    let data = Data::new();
    let file = data.write("wrong.rlp", stream(&blocks));
    let run = import(&data, &file, &["--state", "replica", "--replica.depth", "4"]);
    assert_fails(&run, 1, &[&format!("block {number} ("), "gas used"]);
    assert_eq!(data.head().0, number - 1);
    data.check();
}

/// A separate directory for the flat state is remembered, used again, and required.
#[test]
fn the_flat_state_has_a_directory_of_its_own() {
    let blocks = sample_blocks(120);
    let data = Data::new();
    let (first, all) = (stream(&blocks[..60]), stream(&blocks));
    let (first, all) = (data.write("first.rlp", first), data.write("all.rlp", all));
    let flat = data.file("flat");
    let path = flat.to_str().unwrap();
    import(&data, &first, &["--state", "replica", "--replica.path", path]).ok();
    data.check();
    import(&data, &all, &["--replica.depth", "2"]).ok();
    data.check();
    let plain = Data::new();
    import(&plain, &all, &["--state", "replica"]).ok();
    assert_eq!(data.dump(), plain.dump());
    let elsewhere = data.file("elsewhere");
    let run = import(&data, &all, &["--replica.path", elsewhere.to_str().unwrap()]);
    assert_fails(&run, 2, &["--replica.path", path]);
    // The same directory in other spellings is accepted.
    for same in [format!("{path}/"), format!("{path}/."), format!("{path}//")] {
        import(&data, &all, &["--replica.path", &same]).ok();
    }
    // The data directory may be moved while the flat state stays in its place.
    let moved = data.file("moved");
    fs::rename(data.path(), &moved).unwrap();
    check(&moved);
    fs::rename(&moved, data.path()).unwrap();
    polytrie!["db", "unwind", "--to", "100", "--datadir", data.path()].ok();
    data.check();
}

/// A directory for the flat state belongs to one data directory. Another one cannot use it, not even before the
/// first one is complete.
#[test]
fn a_flat_state_belongs_to_one_data_directory() {
    let blocks = sample_blocks(60);
    let (data, other) = (Data::new(), Data::new());
    let file = data.write("chain.rlp", stream(&blocks));
    let flat = data.file("flat");
    let path = flat.to_str().unwrap();
    import(&data, &file, &["--state", "replica", "--replica.path", path]).ok();
    for layer in ["replica", "mpt"] {
        let run = import(&other, &file, &["--state", layer, "--replica.path", path, "--to", "10"]);
        assert_eq!(run.code, Some(2), "{}", run.stderr);
    }
    let run = import(&other, &file, &["--state", "replica", "--replica.path", path, "--to", "10"]);
    let name = data.path().display().to_string();
    assert_fails(&run, 2, &[path, &name, "empty directory for --replica.path"]);
    data.check();
    import(&data, &file, &[]).ok();

    // Refused are a directory with other files, the data directory itself, and a directory within it.
    let letters = data.file("letters");
    fs::create_dir(&letters).unwrap();
    fs::write(letters.join("letter.txt"), "dear").unwrap();
    let own = other.path();
    let (within, disk) = (own.join("flat"), other.file("disk"));
    for (place, word) in
        [(&letters, "is not empty"), (&own, "within the data directory"), (&within, "within the")]
    {
        let place = place.to_str().unwrap();
        let run = import(&other, &file, &["--state", "replica", "--replica.path", place]);
        assert_fails(&run, 2, &[place, word, "--replica.path"]);
    }
    assert_eq!(fs::read_dir(&letters).unwrap().count(), 1);
    // The engine in memory would leave the directory empty.
    let (memory, unused) = (Data::new(), data.file("unused"));
    let args = ["--state", "replica", "--kv", "memory", "--replica.path", unused.to_str().unwrap()];
    assert_fails(&import(&memory, &file, &args), 2, &["--replica.path goes with", "`memory`"]);
    assert!(!unused.exists());
    // The file system of a separate disk has this directory when it is empty.
    fs::create_dir_all(disk.join("lost+found")).unwrap();
    let args = ["--state", "replica", "--replica.path", disk.to_str().unwrap()];
    import(&other, &file, &args).ok();
    other.check();
}

/// If a process ends before it writes the stamp of the data directory, its flat directory can be used by the next
/// attempt.
#[test]
fn a_first_attempt_that_was_interrupted_is_no_obstacle() {
    let blocks = sample_blocks(20);
    let data = Data::new();
    let file = data.write("chain.rlp", stream(&blocks));
    let flat = data.file("flat");
    let args = ["--state", "replica", "--replica.path", flat.to_str().unwrap()];
    import(&data, &file, &args).ok();
    // The remains of that attempt: neither chain nor stamp.
    fs::remove_dir_all(data.path().join("db")).unwrap();
    for name in ["polytrie.json", "chain.json"] {
        fs::remove_file(data.path().join(name)).unwrap();
    }
    import(&data, &file, &args).ok();
    data.check();
}

/// A flat state whose disk is not mounted is reported as missing, and no new one is created.
#[test]
fn a_flat_state_that_is_not_there_is_asked_for() {
    let blocks = sample_blocks(30);
    let data = Data::new();
    let file = data.write("chain.rlp", stream(&blocks));
    let (flat, away) = (data.file("flat"), data.file("away"));
    let path = flat.to_str().unwrap();
    import(&data, &file, &["--state", "replica", "--replica.path", path, "--to", "20"]).ok();
    fs::rename(&flat, &away).unwrap();
    for exists in [false, true] {
        if exists {
            fs::create_dir(&flat).unwrap();
        }
        for run in [
            import(&data, &file, &[]),
            polytrie!["db", "check", "--datadir", data.path()],
            polytrie!["db", "dump", "--datadir", data.path()],
        ] {
            assert_fails(&run, 3, &[path, "mount", &data.path().display().to_string()]);
        }
        assert_eq!(flat.exists(), exists);
    }
    assert_eq!(fs::read_dir(&flat).unwrap().count(), 0);
    fs::remove_dir(&flat).unwrap();
    fs::rename(&away, &flat).unwrap();
    import(&data, &file, &[]).ok();
    assert_eq!(data.head().0, 30);
    data.check();
}

/// A store without a mark of its data directory is refused and not changed.
#[test]
fn a_flat_state_without_a_mark_is_refused() {
    let blocks = sample_blocks(30);
    let data = Data::new();
    let file = data.write("chain.rlp", stream(&blocks));
    let flat = data.file("flat");
    let args = ["--state", "replica", "--replica.path", flat.to_str().unwrap(), "--to", "20"];
    import(&data, &file, &args).ok();
    fs::remove_file(flat.join("flat.json")).unwrap();
    assert_fails(&import(&data, &file, &[]), 2, &["flat", "holds no flat.json", "db drop"]);
    assert_fails(&import(&Data::new(), &file, &args), 2, &["flat", "--replica.path"]);
    let run = polytrie!["db", "drop", "--yes", "--datadir", data.path()].ok();
    assert!(run.text().contains("stays") && run.text().contains("flat"), "{}", run.text());
    assert!(flat.join("db/mdbx.dat").exists() && !data.path().exists());
}

/// `db drop` removes the files of polytrie in the flat directory, and no others.
#[test]
fn drop_removes_the_flat_state_too() {
    let blocks = sample_blocks(20);
    let data = Data::new();
    let file = data.write("chain.rlp", stream(&blocks));
    let flat = data.file("flat");
    let path = flat.to_str().unwrap();
    let args = ["--state", "replica", "--replica.path", path];
    import(&data, &file, &args).ok();
    assert_fails(&polytrie!["db", "drop", "--datadir", data.path()], 2, &["--yes", path]);
    let run = polytrie!["db", "drop", "--yes", "--datadir", data.path()].ok();
    assert!(run.text().contains(path), "{}", run.text());
    assert!(!flat.exists() && !data.path().exists());

    import(&data, &file, &args).ok();
    fs::write(flat.join("letter.txt"), "dear").unwrap();
    polytrie!["db", "drop", "--yes", "--datadir", data.path()].ok();
    assert_eq!(fs::read_dir(&flat).unwrap().count(), 1);
    fs::remove_dir_all(&flat).unwrap();

    // If the disk of the flat state is not mounted, the rest is removed, and the output says so.
    import(&data, &file, &args).ok();
    fs::rename(&flat, data.file("away")).unwrap();
    let run = polytrie!["db", "drop", "--yes", "--datadir", data.path()].ok();
    assert!(run.text().contains("was not there"), "{}", run.text());
    assert!(!data.path().exists());
}

/// A copy of a data directory has the same flat state as the first one, which alone may change and remove it.
#[test]
fn a_copy_of_a_data_directory_leaves_the_flat_state_to_the_first() {
    let blocks = sample_blocks(30);
    let data = Data::new();
    let file = data.write("chain.rlp", stream(&blocks));
    let (flat, copy) = (data.file("flat"), data.file("copy"));
    let args = ["--state", "replica", "--replica.path", flat.to_str().unwrap(), "--to", "20"];
    import(&data, &file, &args).ok();
    let copied = Command::new("cp").arg("-r").args([&data.path(), &copy]).status();
    assert!(copied.unwrap().success());
    let name = data.path().display().to_string();
    for run in
        [polytrie!["import", file, "--datadir", copy], polytrie!["db", "check", "--datadir", copy]]
    {
        assert_fails(&run, 2, &[&name, "of which this is a copy", "move it away"]);
    }
    let run = polytrie!["db", "drop", "--yes", "--datadir", copy].ok();
    assert!(run.text().contains("stays") && run.text().contains("a copy"), "{}", run.text());
    assert!(!copy.exists());
    import(&data, &file, &[]).ok();
    data.check();
}

/// Excessive settings are refused before they use up the memory.
#[test]
fn settings_have_bounds() {
    let data = Data::new();
    let file = data.write("chain.rlp", stream(&sample_blocks(3)));
    for (option, most) in [
        ("--replica.workers", 1024_u64),
        ("--replica.readers", 1024),
        ("--replica.queue", 1 << 20),
        ("--replica.depth", 1024),
        ("--threads", 1024),
    ] {
        for value in [most + 1, 100_000_000_000, u64::MAX] {
            let run = import(&data, &file, &["--state", "replica", option, &value.to_string()]);
            assert_eq!(run.code, Some(2), "{option} {value}: {}", run.stderr);
            assert!(run.stderr.contains(option), "{}", run.stderr);
        }
        assert!(!data.path().exists());
    }
    let run = polytrie!["bench", "chain", "--threads", "1025"];
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    import(&data, &file, &["--state", "replica", "--replica.queue", "1048576"]).ok();
}

/// A data directory goes on without the genesis file that it was made from, and so does its shadow.
#[test]
fn a_shadow_goes_on_without_the_genesis_file() {
    let data = Data::new();
    let genesis = data.write("genesis.json", fs::read(sample("genesis.json")).unwrap());
    let file = data.write("chain.rlp", stream(&sample_blocks(60)));
    let first = ["--shadow", "replica", "--to", "20"];
    crate::support::import![
        data.path(),
        file,
        genesis,
        "mpt",
        first[0],
        first[1],
        first[2],
        first[3]
    ]
    .ok();
    fs::remove_file(&genesis).unwrap();
    let run =
        polytrie!["import", file, "--datadir", data.path(), "--shadow", "replica", "--json", "-"];
    assert_eq!(run.ok().json()["shadow"]["blocks"], 40);
    data.check();
}

/// A shadow is made of the genesis that the chain has, not of what its file says now.
#[test]
fn a_shadow_is_made_of_the_genesis_of_its_chain() {
    let data = Data::new();
    let text = fs::read_to_string(sample("genesis.json")).unwrap();
    let genesis = data.write("genesis.json", &text);
    let file = data.write("chain.rlp", stream(&sample_blocks(20)));
    let to = ["--to", "10"];
    crate::support::import![data.path(), file, genesis, "mpt", to[0], to[1]].ok();
    data.write("genesis.json", text.replace("0x706f6c79747269652073616d706c65", "0x00"));
    let run = polytrie!["import", file, "--datadir", data.path(), "--shadow", "replica"];
    assert_fails(&run, 1, &["on genesis block 0x", "name the right one with --chain"]);
    assert!(!data.path().join("shadow-replica").exists());
    data.write("genesis.json", text);
    polytrie!["import", file, "--datadir", data.path(), "--shadow", "replica"].ok();
}

/// All pairs of layers are compared block by block, over an interruption and from the middle of the chain on.
#[test]
fn layers_are_compared_in_lock_step() {
    let blocks = sample_blocks(90);
    for (layer, shadow, roots) in
        [("replica", "mpt", true), ("mpt", "replica", true), ("raw", "replica", false)]
    {
        let data = Data::new();
        let some = |count: usize| data.write(&format!("{count}.rlp"), stream(&blocks[..count]));
        import(&data, &some(20), &["--state", layer]).ok();
        let run = import(&data, &some(60), &["--shadow", shadow, "--json", "-"]).ok();
        assert_eq!(run.json()["shadow"]["blocks"], 40, "{}", run.text());
        assert_eq!(run.json()["shadow"]["roots"], roots);
        let run = import(&data, &some(90), &["--shadow", shadow, "--json", "-"]).ok();
        assert_eq!(run.json()["shadow"]["blocks"], 30, "{}", run.text());
        data.check();
        let run = import(&data, &some(90), &["--shadow", layer]);
        assert_fails(&run, 2, &["--shadow", "itself"]);
        polytrie!["db", "drop", "--datadir", data.path(), "--yes"].ok();
        assert!(!data.path().exists());
    }
    let data = Data::new();
    let file = data.write("chain.rlp", stream(&blocks));
    let run =
        import(&data, &file, &["--kv", "memory", "--state", "replica", "--shadow", "raw"]).ok();
    assert!(run.stderr.contains("90 blocks compared with `raw`"), "{}", run.stderr);
}
