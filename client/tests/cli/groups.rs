//! Tests of `--verify every=N`. It stores the same rows, a wrong block in the middle of a group is found, and every
//! early end of a group is handled.

use crate::{
    branches::{Branch, branch, empty_chain},
    rewrite::rewritten,
    run::polytrie,
    support::{
        CONDENSE, ChainFixture, Data, RPC_COMPAT, assert_fails, for_each_layer, import_with,
        sample, sample_blocks, stream,
    },
};
use alloy_primitives::{Address, B256, Bytes, keccak256};
use polytrie::{
    chain::TABLES,
    consensus::decode::{decode_block, decode_header},
    layers::{self, EngineOptions},
};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{KeyRange, Store, StoreOptions};
use polytrie_kv_testing::entries;
use serde_json::Value;
use std::{fs, path::Path, sync::Arc};

for_each_layer!(
    groups_change_nothing,
    a_wrong_root_in_a_group_is_named,
    an_invalid_block_ends_a_group,
    branches_end_a_group,
    a_wrong_root_within_a_group_is_no_damage,
    a_shadow_ends_every_group,
);

/// The name of a table and its rows.
pub(crate) type Rows = (&'static str, Vec<(Vec<u8>, Vec<u8>)>);

/// Returns all rows of a data directory, by table.
pub(crate) fn rows(datadir: &Path, layer: &str) -> Vec<Rows> {
    let tables = [layers::layer(layer).unwrap().tables, TABLES].concat();
    let dir = datadir.join("db");
    let engine = layers::open_engine("mdbx", &dir, &tables, EngineOptions::default()).unwrap();
    let options = StoreOptions { background: false, ..StoreOptions::default() };
    let store = Store::open(engine, &tables, options).unwrap();
    tables.iter().map(|table| (table.name, entries(&store, *table, KeyRange::ALL))).collect()
}

fn assert_same_rows(a: &Data, b: &Data, layer: &str, context: &str) {
    // The positions of the logs and checkpoints of `rain` depend on which blocks were written together.
    let own = if layer == "rain" { layers::layer(layer).unwrap().tables } else { &[] };
    assert!(own.is_empty() || a.dump() == b.dump(), "{context}: another state");
    for ((table, a), (_, b)) in rows(&a.path(), layer).iter().zip(rows(&b.path(), layer)) {
        let is_own = own.iter().any(|own| own.name == *table);
        assert!(is_own || *a == b, "{context}: other rows in table {table}");
    }
}

fn groups_change_nothing(layer: &str) {
    let fixtures = [CONDENSE, RPC_COMPAT].into_iter().filter_map(ChainFixture::open);
    let mut chains: Vec<_> = fixtures.map(|chain| (chain.file, chain.chain, chain.head)).collect();
    chains.push((sample("chain.rlp.gz"), sample("genesis.json"), 1000));
    for (file, chain, head) in chains {
        let full = Data::new();
        let json =
            import_with(&full, &file, &chain, &["--state", layer, "--json", "-"]).ok().json();
        for (every, flush_every) in [("every=7", "1"), ("every=100000", "1024")] {
            let context = format!("{}, {every}", file.display());
            let data = Data::new();
            let figures = data.file("figures.json");
            let settings = [
                ["--state", layer],
                ["--verify", every],
                ["--flush-every", flush_every],
                ["--json", figures.to_str().unwrap()],
            ];
            let run = import_with(&data, &file, &chain, settings.as_flattened()).ok();
            let verified = match layers::layer(layer).unwrap().canonical {
                true => {
                    format!("(state root verified {} blocks and here)", every.replace('=', " "))
                }
                false => "(state root not comparable)".to_owned(),
            };
            assert!(run.text().contains(&verified), "{context}: {}", run.text());
            assert_eq!(data.head(), full.head(), "{context}");
            // The figures count every block.
            let found: Value = serde_json::from_slice(&fs::read(figures).unwrap()).unwrap();
            for figure in ["blocks", "txs", "gas", "receipts_unchecked", "head"] {
                assert_eq!(found[figure], json[figure], "{context}");
            }
            assert_same_rows(&data, &full, layer, &context);
            data.check();
            // Take back blocks one by one, in the middle of a former group.
            let back = (head - 12).to_string();
            for data in [&data, &full] {
                polytrie!["db", "unwind", "--to", back, "--datadir", data.path()].ok();
            }
            assert_same_rows(&data, &full, layer, &format!("{context}, unwound"));
            data.check();
            // Import the rest, with a group that ends at the block of `--to`.
            let part = (head - 5).to_string();
            import_with(&data, &file, &chain, &["--verify", every, "--to", &part]).ok();
            assert_eq!(data.head().0, head - 5, "{context}");
            import_with(&data, &file, &chain, &["--verify", every]).ok();
            import_with(&full, &file, &chain, &[]).ok();
            assert_same_rows(&data, &full, layer, &format!("{context}, imported again"));
        }
    }
}

/// Returns the blocks of the sample, one of them changed and the later ones rebuilt on top of it.
fn with_wrong(count: usize, wrong: usize, change: impl Fn(&Bytes) -> Bytes) -> Vec<Bytes> {
    let mut blocks = sample_blocks(count);
    blocks[wrong] = change(&blocks[wrong]);
    for n in wrong + 1..blocks.len() {
        let parent = keccak256(alloy_rlp::encode(decode_block(&blocks[n - 1]).unwrap().header));
        blocks[n] = rewritten(&blocks[n], |b| b.header.parent_hash = parent);
    }
    blocks
}

/// Checks that an import under `layer` ends at the block at `wrong`, that the error names it, and that the right blocks
/// can be imported afterwards.
fn ends_at(layer: &str, blocks: &[Bytes], wrong: usize, every: &str, words: &[&str]) {
    let number = decode_block(&blocks[wrong]).unwrap().header.number;
    let place = format!("(index {wrong}, offset {})", stream(&blocks[..wrong]).len());
    let data = Data::new();
    let (file, genesis) = (data.write("wrong.rlp", stream(blocks)), sample("genesis.json"));
    let run = import_with(&data, &file, &genesis, &["--state", layer, "--verify", every]);
    assert_fails(&run, 1, &[&format!("block {number} ("), &place]);
    assert_fails(&run, 1, words);
    assert_eq!(data.head().0, number - 1, "{every}");
    data.check();
    import_with(&data, &sample("chain.rlp.gz"), &genesis, &["--verify", every, "--to", "100"]).ok();
    assert_eq!(data.head().0, 100);
    data.check();
}

fn a_wrong_root_in_a_group_is_named(layer: &str) {
    if !layers::layer(layer).unwrap().canonical {
        return;
    }
    // The change pays another account, so that from this block on the state differs and all state roots are wrong.
    let wrong = 40;
    let change = |rlp: &Bytes| rewritten(rlp, |b| b.header.beneficiary = Address::repeat_byte(7));
    let blocks = with_wrong(60, wrong, change);
    // The block is in the middle of a group, its last, its first, and in a group that never fills up.
    for every in ["every=16", "every=41", "every=20", "every=1000"] {
        let words = ["the header's state root is 0x", "led to the state root 0x"];
        ends_at(layer, &blocks, wrong, every, &words);
    }
    // Only the state root of the block is wrong. It is the last block, or the right blocks follow it.
    let change = |rlp: &Bytes| rewritten(rlp, |b| b.header.state_root = B256::repeat_byte(7));
    let mut blocks = sample_blocks(60);
    blocks[wrong] = change(&blocks[wrong]);
    for count in [wrong + 1, 60] {
        ends_at(layer, &blocks[..count], wrong, "every=50", &["the header's state root is 0x0707"]);
    }
}

fn an_invalid_block_ends_a_group(layer: &str) {
    let wrong = 40;
    let blocks = with_wrong(60, wrong, |rlp| rewritten(rlp, |block| block.header.gas_used += 1));
    for every in ["every=16", "every=20", "every=1000"] {
        ends_at(layer, &blocks, wrong, every, &["gas used"]);
    }
    // A wrong root in an earlier block of the group is reported first.
    if layers::layer(layer).unwrap().canonical {
        let change = |rlp: &Bytes| rewritten(rlp, |b| b.header.state_root = B256::repeat_byte(7));
        let mut both = with_wrong(60, 35, change);
        both[wrong] = rewritten(&both[wrong], |block| block.header.gas_used += 1);
        both.truncate(wrong + 1);
        ends_at(layer, &both, 35, "every=1000", &["the header's state root is 0x0707"]);
    }
}

/// A change of branch in the middle of a group, and a change back.
fn branches_end_a_group(layer: &str) {
    let Some(chain) = CONDENSE.open() else { return };
    let beneficiary = Address::repeat_byte(0xbe);
    let heavier = chain.branch(Branch { fork: 330, tip: 350, seconds: 1, beneficiary });
    let Some(heavier) = heavier else { return };
    let blocks = chain.blocks();
    let all: Vec<&Bytes> = blocks[..=345].iter().chain(&heavier).collect();
    let mut found = Vec::new();
    for verify in ["full", "every=9", "every=1000"] {
        let data = Data::new();
        let file = data.write("branches.rlp", stream(all.iter().copied()));
        let settings = ["--state", layer, "--verify", verify, "--json", "-"];
        let report = import_with(&data, &file, &chain.chain, &settings).ok().json();
        assert!(report["reorganised"].as_u64().unwrap() > 0, "{report}");
        data.check();
        found.push(data);
    }
    for data in &found[1..] {
        assert_eq!(data.head(), found[0].head());
        assert_same_rows(data, &found[0], layer, "after a change of branch");
    }
}

/// A root is checked only for the last block of a group. A wrong root of another block is found when blocks are taken
/// back to it.
fn a_wrong_root_within_a_group_is_no_damage(layer: &str) {
    if !layers::layer(layer).unwrap().canonical {
        return;
    }
    // The state of this chain does not depend on the hashes of its blocks.
    let (genesis, empty) = empty_chain(24);
    let spec = Arc::new(ChainSpec::parse("empty", genesis.as_bytes()).unwrap());
    let beneficiary = Address::repeat_byte(7);
    let mined = branch(&spec, &empty, Branch { fork: 0, tip: 24, seconds: 15, beneficiary });
    let Some(mut blocks) = mined else { return };
    let wrong = 20;
    for n in wrong - 1..blocks.len() {
        let parent = decode_header(&blocks[n - 1]).unwrap().hash();
        blocks[n] = rewritten(&blocks[n], |block| {
            block.header.parent_hash = parent;
            if block.header.number == wrong as u64 {
                block.header.state_root = B256::repeat_byte(7);
            }
        });
    }
    let data = Data::new();
    let (file, genesis) = (data.write("wrong", stream(&blocks)), data.write("genesis", genesis));
    import_with(&data, &file, &genesis, &["--state", layer, "--verify", "every=8"]).ok();
    let run = polytrie!["db", "unwind", "--to", wrong.to_string(), "--datadir", data.path()];
    let words = [format!("block {wrong} is invalid and was imported without"), "0x0707".into()];
    assert_fails(&run, 3, &words.each_ref().map(String::as_str));
    assert_eq!(data.head().0, 24);
    data.check();
}

/// A shadow compares the layers after every block, so there are no groups.
fn a_shadow_ends_every_group(layer: &str) {
    let shadow = if layer == "mpt" { "raw" } else { "mpt" };
    if layers::layer(shadow).is_err() {
        return;
    }
    let data = Data::new();
    let settings = ["--state", layer, "--verify", "every=50", "--shadow", shadow, "--to", "120"];
    let run = import_with(&data, &sample("chain.rlp.gz"), &sample("genesis.json"), &settings).ok();
    assert!(run.stderr.contains("120 blocks compared"), "{}", run.stderr);
    assert!(!run.text().contains("every 50"), "{}", run.text());
    data.check();
}

#[test]
fn what_cannot_be_a_group_is_refused() {
    for verify in ["every=0", "every=", "every=x", "every=-1", "some"] {
        let run = polytrie!["import", "nothing", "--verify", verify];
        assert_eq!(run.code, Some(2), "{verify}: {}", run.stderr);
        assert!(run.stderr.contains("every=N with an N of at least 1"), "{}", run.stderr);
    }
}

/// The output calls only those roots verified that this import has compared itself.
#[test]
fn only_what_was_verified_is_said_to_be() {
    let data = Data::new();
    let (file, chain) = (sample("chain.rlp.gz"), sample("genesis.json"));
    let cases = [
        ("none", "100", "head 100 ", "(roots not verified)"),
        ("full", "50", "head 100 ", "(no block was executed, no state root verified)"),
        ("full", "120", "head 120 ", "(every state root of 20 blocks verified)"),
        ("every=7", "120", "head 120 ", "(no block was executed, no state root verified)"),
        ("every=7", "150", "head 150 ", "(state root verified every 7 of 30 blocks and here)"),
    ];
    for (verify, to, head, words) in cases {
        let run = import_with(&data, &file, &chain, &["--verify", verify, "--to", to]).ok();
        assert!(run.text().starts_with(head) && run.text().contains(words), "{}", run.text());
    }
    let run = import_with(&Data::new(), &file, &chain, &["--to", "9"]).ok();
    assert!(run.text().contains("(every state root verified)"), "{}", run.text());
}
