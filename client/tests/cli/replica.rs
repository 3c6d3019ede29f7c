//! What only `replica` has: blocks that wait for their root, a flat state on another disk; and the shadow, which
//! compares it with the others.

use crate::{
    rewrite::rewritten,
    run::{Run, polytrie, run},
    support::{Data, assert_fails, stream},
};
use alloy_primitives::{B256, Bytes, keccak256};
use polytrie::blocks::{BlockReader, decode_block};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// The chain that is kept in this repository.
fn sample(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sample").join(file)
}

fn sample_blocks(count: usize) -> Vec<Bytes> {
    let blocks = BlockReader::open(sample("chain.rlp.gz")).unwrap();
    blocks.take(count).map(|block| block.unwrap().rlp).collect()
}

fn import(data: &Data, file: &Path, more: &[&str]) -> Run {
    let (dir, genesis) = (data.path(), sample("genesis.json"));
    let mut args = vec!["import".as_ref(), file.as_os_str(), "--datadir".as_ref(), dir.as_os_str()];
    args.extend(["--chain".as_ref(), genesis.as_os_str()]);
    args.extend(more.iter().map(OsStr::new));
    run(&args, &[])
}

/// The settings that must not matter, and the state after 300 blocks under each.
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

/// A wrong state root in a block on top of which others were executed already: it is the one that is named, its
/// parent is the head, and nothing of what came after is left.
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
        // The right blocks go on from there.
        import(&data, &sample("chain.rlp.gz"), &["--to", "100", "--replica.depth", depth]).ok();
        assert_eq!(data.head().0, 100);
        data.check();
    }
}

/// A block that breaks another rule, on top of blocks that wait: those before it stand.
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

/// The flat state in a directory of its own is remembered, found again, and needed.
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
    std::fs::remove_dir_all(&flat).unwrap();
    let run = import(&data, &all, &[]);
    assert_fails(&run, 3, &["--replica.path", "does not belong"]);
}

/// Two layers in lock-step, in all pairs, over an interruption, and from the middle on.
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
