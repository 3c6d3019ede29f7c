//! Tests of Clique chains, whose blocks are sealed by authorized signers until the merge.

#[path = "../../common/eip225.rs"]
mod eip225;
mod geth;
mod wrong;

use crate::{
    clique_maker::{COINBASE_KEEPER, Maker, address, seal},
    database::store,
    run::{Run, polytrie},
    support::{ChainFixture, Data, assert_fails, for_each_layer, stream},
};
use alloy_primitives::Bytes;
use eip225::End;
use polytrie::{bench::Random, chain::TABLES, consensus::decode::decode_header, layers};
use polytrie_chainspec::Clique;
use polytrie_kv::{Batch, KeyRange};
use polytrie_kv_testing::entries;
use polytrie_testing::Seed;
use std::{ffi::OsStr, path::PathBuf, sync::LazyLock};

for_each_layer!(the_chain_of_hive, a_chain_with_votes_and_checkpoints);

/// A chain of 2,000 blocks with 321 transactions. It has one signer, and is under proof of stake from
/// block 120 on.
const HIVE: ChainFixture = ChainFixture {
    file: "chains/clique/chain.rlp",
    chain: "chains/clique/genesis.json",
    head: 2_000,
    hash: "0xaf2316",
};

/// The files of a chain that a test has made.
struct Files {
    data: Data,
    genesis: PathBuf,
}

impl Files {
    fn new(genesis: &str) -> Self {
        let data = Data::new();
        let genesis = data.write("genesis.json", genesis);
        Self { data, genesis }
    }

    fn import(&self, layer: &str, blocks: &[Bytes], more: &[&str]) -> Run {
        let file = self.data.write("blocks.rlp", stream(blocks));
        let path = self.data.path();
        let given = ["import".as_ref(), file.as_os_str(), "--datadir".as_ref(), path.as_os_str()];
        let chain =
            ["--chain".as_ref(), self.genesis.as_os_str(), "--state".as_ref(), layer.as_ref()];
        let more: Vec<&OsStr> = more.iter().map(OsStr::new).collect();
        let args: Vec<&OsStr> = [&given[..], &chain[..], &more[..]].concat();
        crate::run::run(&args, &[])
    }
}

/// Returns the number and the hash of a block.
fn place(rlp: &Bytes) -> (u64, String) {
    let header = decode_header(rlp).unwrap();
    (header.number, header.hash().to_string())
}

fn the_chain_of_hive(layer: &str) {
    let Some(chain) = HIVE.open() else { return };
    // The merge lies within the second part.
    let data = chain.imported(layer, 119);
    polytrie!["import", chain.file, "--datadir", data.path(), "--to", "121"].ok();
    polytrie!["import", chain.file, "--datadir", data.path()].ok();
    let (head, hash) = data.head();
    assert_eq!(head, chain.head);
    assert!(hash.starts_with(chain.hash) && hash.ends_with("e36009"), "{hash}");
    data.check();
}

/// Returns a chain of `count` random blocks with votes, or `None` if the maker is not available.
fn with_votes(clique: Clique, count: usize, seed: &Seed) -> Option<Maker> {
    let mut maker = Maker::new("ABC", clique)?;
    maker.push_random("ABCDE", count, &mut Random::new(seed.value(), 0));
    Some(maker)
}

/// The signers are known at every block, also after an import in parts, after an unwind and after a
/// second import.
fn a_chain_with_votes_and_checkpoints(layer: &str) {
    /// The genesis file and the blocks, which are made once for all layers.
    static MADE: LazyLock<Option<(String, Vec<Bytes>)>> = LazyLock::new(|| {
        let maker = with_votes(Clique::new(5, 50), 300, &Seed::or(225))?;
        Some((maker.genesis, maker.blocks))
    });
    // A failure prints it.
    let _seed = Seed::or(225);
    let Some((genesis, blocks)) = &*MADE else { return };
    let files = Files::new(genesis);
    files.import(layer, blocks, &["--to", "127"]).ok();
    files.import(layer, blocks, &["--to", "200", "--verify", "every=30"]).ok();
    let datadir = files.data.path();
    files.data.check();
    polytrie!["db", "unwind", "--datadir", datadir, "--to", "126"].ok();
    files.import(layer, blocks, &["--to", "260"]).ok();
    polytrie!["db", "unwind", "--datadir", datadir, "--to", "258"].ok();
    files.import(layer, blocks, &[]).ok();
    assert_eq!(files.data.head(), place(blocks.last().unwrap()));
    files.data.check();
    let out = files.data.file("out.rlp");
    polytrie!["export", out, "--datadir", datadir, "--from", "1"].ok();
    assert!(std::fs::read(out).unwrap() == stream(blocks));
}

/// The layer of these tests. A build without `mpt` uses `raw` instead.
const LAYER: &str = if cfg!(feature = "mpt") { "mpt" } else { "raw" };

#[test]
fn the_cases_of_eip_225() {
    for case in eip225::cases() {
        let Some(mut maker) = Maker::new(&case.signers, Clique::new(1, case.epoch)) else { return };
        let (last, before) = case.blocks.split_last().unwrap();
        for block in before {
            let listed = maker.clique.is_checkpoint(maker.number());
            assert_eq!(block.list.is_some(), listed, "{case:?}");
            maker.push(block.by, block.vote, Vec::new());
        }
        let blocks = maker.and(maker.sealed(last.by, last.vote));
        let files = Files::new(&maker.genesis);
        let run = files.import(LAYER, &blocks, &[]);
        let kept = match case.end {
            End::Signers(_) => {
                assert_eq!(run.code, Some(0), "{case:?}: {}", run.stderr);
                blocks.last()
            }
            End::Unauthorized => {
                assert_fails(&run, 1, &["is not one of the 1 authorized signers"]);
                maker.blocks.last()
            }
            End::RecentlySigned => {
                let last = format!("which sealed block {} as well", before.len());
                assert_fails(&run, 1, &[&last]);
                maker.blocks.last()
            }
        };
        if let Some(kept) = kept {
            assert_eq!(files.data.head(), place(kept));
        }
    }
}

#[test]
fn wrong_blocks_are_refused_with_a_sentence() {
    let Some((genesis, all)) = wrong::all() else { return };
    for wrong::Wrong { name, blocks, ours, .. } in all {
        let files = Files::new(&genesis);
        let run = files.import(LAYER, &blocks, &[]);
        let (number, hash) = place(blocks.last().unwrap());
        let place = format!("block {number} ({hash}) is invalid: ");
        assert_eq!(run.code, Some(1), "{name}: {}", run.stderr);
        assert_fails(&run, 1, &[&place, &ours, "blocks.rlp"]);
        assert_eq!(files.data.head().0, number - 1, "{name}");
        files.data.check();
        // Import the blocks again later, when the signers before them are not in memory.
        let side = files.data.write("side.rlp", stream(&blocks));
        polytrie!["db", "unwind", "--datadir", files.data.path(), "--to", "1"].ok();
        let run = polytrie!["import", side, "--datadir", files.data.path()];
        assert_fails(&run, 1, &[&place, &ours]);
    }
}

/// The branch with the larger sum of difficulties wins, and a branch is checked wherever it leaves the
/// chain.
#[test]
fn the_branch_with_more_turns_wins() {
    const NAMES: &str = "ABCDE";
    let start = |count| {
        let mut maker = Maker::new(NAMES, Clique::new(5, 10))?;
        maker.push_in_turn(NAMES, count);
        Some(maker)
    };
    let (Some(mut slow), Some(mut quick)) = (start(135), start(125)) else { return };
    // The branches fork after the last stored row of signers, and before it.
    for _ in 0..6 {
        let turn = slow.in_turn(NAMES);
        let other = slow.allowed(NAMES).into_iter().find(|name| *name != turn).unwrap();
        slow.push(other, None, Vec::new());
    }
    quick.push(quick.in_turn(NAMES), Some((true, 'F')), Vec::new());
    quick.push_in_turn(NAMES, 15);
    assert_eq!((slow.number(), quick.number()), (142, 142));
    for (first, second) in [(&slow, &quick), (&quick, &slow)] {
        let files = Files::new(&slow.genesis);
        files.import(LAYER, &first.blocks, &[]).ok();
        files.import(LAYER, &second.blocks, &[]).ok();
        assert_eq!(files.data.head(), place(quick.blocks.last().unwrap()));
        files.data.check();
        // The import goes on from the winning branch.
        let mut more = start(125).unwrap();
        more.push(more.in_turn(NAMES), Some((true, 'F')), Vec::new());
        more.push_in_turn(NAMES, 20);
        files.import(LAYER, &more.blocks, &[]).ok();
        assert_eq!(files.data.head(), place(more.blocks.last().unwrap()));
        files.data.check();
    }

    // A branch with the larger sum but with a wrong signer.
    let files = Files::new(&slow.genesis);
    files.import(LAYER, &slow.blocks, &[]).ok();
    let mut stranger = quick.sealed(quick.in_turn(NAMES), None);
    seal(&mut stranger, 'F');
    let run = files.import(LAYER, &quick.and(stranger)[..], &[]);
    assert_fails(&run, 1, &["is not one of the 5 authorized signers"]);
    assert_eq!(files.data.head(), place(quick.blocks.last().unwrap()));
}

/// The chain has two blocks in one second, and then the merge.
#[test]
fn a_period_of_zero_and_the_merge() {
    let Some(mut maker) = Maker::with_terminal("A", Clique::new(0, 0), "7") else { return };
    for _ in 0..3 {
        let transactions = vec![maker.transaction(address('B'))];
        maker.push('A', None, transactions);
    }
    let mut late = maker.header('A', None);
    late.timestamp += 1;
    seal(&mut late, 'A');
    let late = maker.and(late);
    maker.push_merged(address('C'), Vec::new());
    let transactions = vec![maker.transaction(COINBASE_KEEPER)];
    maker.push_merged(address('C'), transactions);
    let files = Files::new(&maker.genesis);
    files.import(LAYER, &maker.blocks, &[]).ok();
    assert_eq!(files.data.head(), place(&maker.blocks[4]));
    files.data.check();
    // A Clique block after the merge is invalid.
    let files = Files::new(&maker.genesis);
    let run = files.import(LAYER, &late, &[]);
    assert_fails(&run, 1, &["block 4", "difficulty is 2, expected 0", "past the merge"]);
}

/// A row of signers that is damaged, missing or superfluous is found by a check, and by an import that
/// needs the row.
#[test]
fn damaged_signers_are_found() {
    let Some(maker) = with_votes(Clique::new(5, 50), 300, &Seed::or(1)) else { return };
    let files = Files::new(&maker.genesis);
    files.import(LAYER, &maker.blocks, &["--to", "260"]).ok();
    let data = &files.data;
    let tables = [layers::layer(LAYER).unwrap().tables, TABLES].concat();
    let table = *tables.iter().find(|table| table.name == "CliqueSigners").unwrap();
    let rows = entries(&store(data, &tables), table, KeyRange::ALL);
    let numbers: Vec<_> = rows.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(numbers, [128u64, 256].map(|number| number.to_be_bytes().to_vec()));
    let write = |change: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::new();
        change(&mut batch);
        store(data, &tables).write(batch).unwrap();
    };
    let finds = |number: u64| {
        let run = polytrie!["db", "check", "--datadir", data.path()];
        assert_fails(&run, 3, &["is damaged"]);
        let row = format!("the row of the signers after block {number} is damaged");
        assert!(run.text().contains(&row), "{}", run.text());
    };
    let (key, value) = &rows[1];
    write(&|batch| batch.delete(table, key));
    finds(256);
    // A missing row makes the import read further back, but does not stop it.
    files.import(LAYER, &maker.blocks, &["--to", "270"]).ok();
    let mut changed = value.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 4;
    write(&|batch| batch.put(table, key, &changed));
    finds(256);
    write(&|batch| batch.put(table, key, b"short"));
    finds(256);
    let run = files.import(LAYER, &maker.blocks, &[]);
    assert_fails(&run, 3, &["the row of the signers after block 256 is damaged"]);
    write(&|batch| batch.put(table, key, value));
    data.check();
    write(&|batch| batch.put(table, &384u64.to_be_bytes(), value));
    let run = polytrie!["db", "check", "--datadir", data.path()];
    assert_fails(&run, 3, &["is damaged"]);
    write(&|batch| batch.delete(table, &384u64.to_be_bytes()));
    files.import(LAYER, &maker.blocks, &[]).ok();
    data.check();
}

/// A witness of a block executes to the root of the block. The fees go to the signer, which is recovered
/// from the block itself.
#[cfg(feature = "rain")]
#[test]
fn witnesses_of_sealed_blocks() {
    let Some(maker) = with_votes(Clique::new(5, 50), 20, &Seed::or(2)) else { return };
    let files = Files::new(&maker.genesis);
    let dir = files.data.file("witnesses");
    files.import("rain", &maker.blocks, &["--witness", dir.to_str().unwrap()]).ok();
    for number in 1..=20 {
        let file = dir.join(format!("{number}.json"));
        polytrie!["witness", "verify", file, "--chain", files.genesis].ok();
    }
}
