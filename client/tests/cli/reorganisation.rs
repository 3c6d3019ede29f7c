//! Tests of branches. The heavier branch wins in whatever order the files are imported, and a branch with an invalid
//! block never wins.

use crate::{
    branches::{Branch, branch, empty_chain, in_memory, in_memory_under},
    fixtures::fixture,
    rewrite::rewritten,
    run::polytrie,
    support::{CONDENSE, Chain, Data, assert_fails, for_each_layer, import, stream},
};
use alloy_primitives::{Address, Bytes, keccak256};
use polytrie::{
    chain::{Candidate, Chain as Blockchain, ChainError, ChainOptions, Inserted},
    consensus::decode::decode_header,
    layers::LAYERS,
};
use polytrie_chainspec::ChainSpec;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

for_each_layer!(
    a_lighter_branch_stays_aside,
    a_heavier_branch_wins_in_either_order,
    back_and_forth,
    an_invalid_branch_loses,
    branches_with_other_rules,
    unwinding_forgets_branches,
    a_shadow_knows_branches,
);

/// A chain and a branch of it.
struct Case {
    chain: Chain,
    main: PathBuf,
    branch: Vec<Bytes>,
    data: Data,
}

/// The block at which the branch leaves the chain.
const FORK: u64 = 330;
/// The last block of the chain as first imported.
const TIP: u64 = 350;
/// The last block of a branch that is as fast as the chain, and becomes heavier because it is longer.
const LONGER: u64 = 356;

impl Case {
    fn new(layer: &str, seconds: u64, tip: u64) -> Option<Self> {
        let chain = CONDENSE.open()?;
        let beneficiary = Address::repeat_byte(0xbe);
        let branch = chain.branch(Branch { fork: FORK, tip, seconds, beneficiary })?;
        let data = Data::new();
        let main = data.write("main", stream(&chain.blocks()[..=TIP as usize]));
        polytrie!["init", "--datadir", data.path(), "--chain", chain.chain, "--state", layer].ok();
        Some(Self { chain, main, branch, data })
    }

    fn import(&self, datadir: &Path, file: &Path) -> serde_json::Value {
        polytrie!["import", file, "--datadir", datadir, "--json", "-"].ok().json()
    }

    /// Imports the branch into a new directory that never held another branch.
    fn straight(&self, layer: &str, branch: &[Bytes]) -> (Data, String) {
        let data = Data::new();
        let blocks = &self.chain.blocks()[..=FORK as usize];
        let file = data.write("straight", stream(blocks.iter().chain(branch)));
        import![data.path(), file, self.chain.chain, layer, "--trace", data.file("trace")].ok();
        let dump = data.dump();
        (data, dump)
    }
}

fn hash(rlp: &Bytes) -> String {
    decode_header(rlp).unwrap().hash().to_string()
}

fn a_lighter_branch_stays_aside(layer: &str) {
    let Some(case) = Case::new(layer, 100, TIP) else { return };
    case.import(&case.data.path(), &case.main);
    let before = (case.data.head(), case.data.dump());
    let file = case.data.write("branch", stream(&case.branch));
    let run = polytrie!["import", file, "--datadir", case.data.path(), "--json", "-"].ok();
    let said = format!("0 blocks ({} of other branches)", TIP - FORK);
    assert!(run.stderr.contains(&said), "{}", run.stderr);
    let report = run.json();
    assert_eq!(report["side"], TIP - FORK);
    assert_eq!(report["reorganised"], 0);
    assert_eq!((case.data.head(), case.data.dump()), before);
    case.data.check();
    // The blocks of the branch are known, so they are skipped.
    let report = case.import(&case.data.path(), &file);
    assert_eq!((&report["side"], &report["skipped"]), (&0.into(), &(TIP - FORK).into()));
    // The chain itself can be continued.
    polytrie!["import", case.chain.file, "--datadir", case.data.path()].ok();
    assert_eq!(case.data.head(), (case.chain.head, case.chain.hash.to_owned()));
    case.data.check();
}

fn a_heavier_branch_wins_in_either_order(layer: &str) {
    let Some(case) = Case::new(layer, 1, LONGER) else { return };
    let (straight, expected) = case.straight(layer, &case.branch);
    let tip = (LONGER, hash(case.branch.last().unwrap()));
    let file = case.data.write("branch", stream(&case.branch));

    let trace = case.data.file("trace");
    let import_traced = |file: &Path| {
        polytrie!["import", file, "--datadir", case.data.path(), "--json", "-", "--trace", trace]
            .ok()
            .json()
    };
    import_traced(&case.main);
    assert_eq!(case.data.head().0, TIP);
    let report = import_traced(&file);
    // No figures of the losing branch are left.
    assert!(fs::read(&trace).unwrap() == fs::read(straight.file("trace")).unwrap());
    assert_eq!((&report["side"], &report["reorganised"]), (&21.into(), &1.into()), "{report}");
    assert_eq!(report["blocks"], LONGER - FORK);
    assert_eq!(case.data.head(), tip);
    // Blocks that are executed when their branch becomes the heavier one have figures, too.
    let straight = Data::new();
    let shared = case.data.write("shared", stream(&case.chain.blocks()[..=FORK as usize]));
    let chain = &case.chain.chain;
    import![straight.path(), shared, chain, layer].ok();
    let alone = case.import(&straight.path(), &file);
    for figure in ["blocks", "txs", "gas", "receipts_unchecked"] {
        assert_eq!(report[figure], alone[figure], "{figure}");
    }
    assert!(case.data.dump() == expected);
    case.data.check();

    // In the other order, the chain is the lighter branch.
    let other = case.data.file("other");
    let shared = case.data.write("shared", stream(&case.chain.blocks()[..=FORK as usize]));
    polytrie![
        "import",
        shared,
        file,
        case.main,
        "--datadir",
        other,
        "--chain",
        case.chain.chain,
        "--state",
        layer,
    ]
    .ok();
    assert_eq!(crate::support::head(&other), tip);
    assert!(polytrie!["db", "dump", "--datadir", other].ok().text() == expected);
    crate::support::check(&other);
}

/// The branch becomes heavier than the chain, and then the longer chain becomes heavier than the branch.
fn back_and_forth(layer: &str) {
    let Some(case) = Case::new(layer, 1, LONGER) else { return };
    let file = case.data.write("branch", stream(&case.branch));
    let (main, whole) = (&case.main, &case.chain.file);
    let report =
        polytrie!["import", main, file, whole, "--datadir", case.data.path(), "--json", "-"];
    let report = report.ok().json();
    assert!(report["reorganised"].as_u64().unwrap() >= 2, "{report}");
    assert_eq!(case.data.head(), (case.chain.head, case.chain.hash.to_owned()));
    case.data.check();
    let (straight, expected) = case.straight(layer, &[]);
    assert_eq!(straight.head().0, FORK);
    polytrie!["db", "unwind", "--datadir", case.data.path(), "--to", FORK.to_string()].ok();
    assert!(case.data.dump() == expected);
    case.data.check();
}

/// The branch is heavier, but one of its blocks is invalid, so the chain stays the head.
fn an_invalid_branch_loses(layer: &str) {
    let Some(case) = Case::new(layer, 1, LONGER) else { return };
    case.import(&case.data.path(), &case.main);
    let before = (case.data.head(), case.data.dump());
    // A wrong bloom is found only by execution. The later blocks of the branch are rebuilt on top of it.
    let mut wrong = case.branch.clone();
    let mut parent = None;
    for (index, rlp) in wrong.iter_mut().enumerate().skip(1) {
        *rlp = rewritten(rlp, |block| {
            if let Some(parent) = parent {
                block.header.parent_hash = parent;
            }
            if index == 1 {
                block.header.logs_bloom = alloy_primitives::Bloom::repeat_byte(1);
            }
            parent = Some(keccak256(alloy_rlp::encode(&block.header)));
        });
    }
    let file = case.data.write("wrong", stream(&wrong));
    let run = polytrie!["import", file, "--datadir", case.data.path()];
    let place = format!("{} (index 1, offset {}): ", file.display(), wrong[0].len());
    let invalid = format!("{place}block {} ({}) is invalid", FORK + 2, hash(&wrong[1]));
    assert_fails(&run, 1, &[&invalid, "logs bloom", "get the file again"]);
    assert_eq!((case.data.head(), case.data.dump()), before);
    case.data.check();
    // The valid branch still wins, and the invalid one is refused again.
    let right = case.data.write("branch", stream(&case.branch));
    case.import(&case.data.path(), &right);
    let tip = hash(case.branch.last().unwrap());
    assert_eq!(case.data.head(), (LONGER, tip.clone()));
    polytrie!["import", file, "--datadir", case.data.path()];
    assert_eq!(case.data.head(), (LONGER, tip));
    case.data.check();
}

/// Two branches by another client: one is valid before a fork, the other one after it.
fn branches_with_other_rules(layer: &str) {
    let files = ["common", "fork-outdated", "fork-upgraded"];
    let [Some(common), Some(outdated), Some(upgraded)] =
        files.map(|name| fixture(&format!("chains/fork/{name}.blocks")))
    else {
        return;
    };
    let heads = [
        ("outdated", "0xfee4cb230625ef62fa98d9b51f5ae8a6c37077c1cd932e7a2b6012325d7b8688"),
        ("upgraded", "0xba10c781a48988938935606a37f2aec2a7bb8aff3648ef0c8f0f3629611c07db"),
    ];
    for ((name, head), (good, bad)) in
        heads.into_iter().zip([(&outdated, &upgraded), (&upgraded, &outdated)])
    {
        let Some(genesis) = fixture(&format!("chains/fork/genesis-{name}.json")) else { return };
        let data = Data::new();
        let import = |file: &Path| import![data.path(), file, genesis, layer];
        import(&common).ok();
        // The invalid branch would become the head. Its first block is executed and refused.
        let words = ["block 7 ", "the header's gas used is", "get the file again"];
        assert_fails(&import(bad), 1, &words);
        assert_eq!(data.head().0, 6);
        import(good).ok();
        assert_eq!(data.head(), (10, head.to_owned()));
        // The invalid branch is not heavier here, so it is stored and not executed.
        import(bad).ok();
        assert_eq!(data.head(), (10, head.to_owned()));
        data.check();
    }
}

/// A shadow knows a branch whose blocks were imported before the shadow began.
fn a_shadow_knows_branches(layer: &str) {
    let shadow = if layer == "mpt" { "raw" } else { "mpt" };
    if polytrie::layers::layer(shadow).is_err() {
        return;
    }
    let Some(case) = Case::new(layer, 1, LONGER) else { return };
    let file = case.data.write("branch", stream(&case.branch));
    // The first blocks alone are lighter than the chain.
    let begun = case.data.write("begun", stream(&case.branch[..10]));
    let report =
        polytrie!["import", case.main, begun, "--datadir", case.data.path(), "--json", "-"];
    assert_eq!(report.ok().json()["side"], 10);
    let run = polytrie!["import", file, "--datadir", case.data.path(), "--shadow", shadow].ok();
    let compared = format!("{} blocks compared", LONGER - FORK);
    assert!(run.stderr.contains(&compared), "{}", run.stderr);
    assert_eq!(case.data.head(), (LONGER, hash(case.branch.last().unwrap())));
    case.data.check();
}

/// A shadow that is ahead of its chain, because the chain lost blocks in a crash, must be made again.
#[test]
#[cfg(all(feature = "mpt", feature = "raw"))]
fn a_shadow_far_ahead_is_to_be_made_again() {
    let Some(chain) = CONDENSE.open() else { return };
    let (ahead, data) = (chain.imported("raw", 1100), Data::new());
    polytrie!["init", "--datadir", data.path(), "--chain", chain.chain, "--state", "mpt"].ok();
    std::fs::rename(ahead.path(), data.path().join("shadow-raw")).unwrap();
    let import = || {
        polytrie!["import", chain.file, "--datadir", data.path(), "--shadow", "raw", "--to", "20"]
    };
    let shadow = data.path().join("shadow-raw");
    let words = [&shadow.display().to_string(), "is at block 1100", "remove that directory"];
    let run = import();
    assert_ne!(run.code, Some(0));
    assert_fails(&run, run.code.unwrap(), &words);
    std::fs::remove_dir_all(shadow).unwrap();
    import().ok();
}

/// A change of branch may take back as many blocks as there are undo records, however much longer the new branch is.
#[test]
fn as_deep_as_undo_records_reach() {
    let (genesis, empty) = empty_chain(20);
    let spec = Arc::new(ChainSpec::parse("empty", genesis.as_bytes()).unwrap());
    let mined = |tip, seconds| {
        let beneficiary = Address::with_last_byte(u8::try_from(seconds % 251).unwrap());
        branch(&spec, &empty, Branch { fork: 0, tip, seconds, beneficiary })
    };
    let (Some(main), Some(light)) = (mined(10, 1), mined(20, 1_000)) else { return };
    let insert = |chain: &mut Blockchain, rlp: &Bytes| {
        chain.insert(Candidate::prepare(&spec, rlp.clone()).unwrap())
    };
    // Imports the blocks of a branch up to the one that makes it the heavier one.
    let better = |chain: &mut Blockchain, branch: &[Bytes]| {
        for rlp in &main {
            insert(chain, rlp).unwrap();
        }
        let mut ended = branch.iter().map(|rlp| insert(chain, rlp)).enumerate();
        let (at, ended) = ended.find(|(_, e)| !matches!(e, Ok(Inserted::Side))).unwrap();
        (at + 1, ended)
    };
    let reaching = |undo_blocks| {
        in_memory(&spec, ChainOptions { undo_blocks, ..ChainOptions::default() }).unwrap()
    };

    // The fork is too deep, at the first import and when the blocks come again.
    let mut chain = reaching(9);
    let (length, ended) = better(&mut chain, &light);
    let tip = &light[length - 1];
    let again = insert(&mut chain, tip);
    for ended in [ended, again] {
        let error = ended.unwrap_err().to_string();
        assert!(error.contains("leaves the chain at block 0, but from the head 10"), "{error}");
    }
    assert_eq!(chain.head().hash(), decode_header(&main[9]).unwrap().hash());
    assert!(!chain.is_known(length as u64, &decode_header(tip).unwrap().hash()).unwrap());

    // The fork is exactly as deep as the undo records. The new branch is longer than the number of records that are
    // kept.
    let mut chain = reaching(10);
    let (length, ended) = better(&mut chain, &light);
    assert!(length > 13, "{length}");
    assert!(matches!(ended, Ok(Inserted::Reorganised { undone: 10, .. })), "{ended:?}");
    let report = chain.db().check(&spec, &mut |_| {}).unwrap();
    assert_eq!((report.problems, report.undo_records), (Vec::new(), 10));

    // The last block is invalid, so all blocks are taken back. This must also work under a layer that keeps data of its
    // own to take blocks back.
    let mut wrong = light.clone();
    wrong[length - 1] = rewritten(tip, |block| block.header.gas_used = 1);
    for kind in LAYERS.iter().filter(|kind| kind.name != "lvmt") {
        let options = ChainOptions { undo_blocks: 10, ..ChainOptions::default() };
        let mut chain = in_memory_under(kind, &spec, options);
        let (_, ended) = better(&mut chain, &wrong);
        assert!(ended.unwrap_err().to_string().contains("gas used"), "{}", kind.name);
        assert_eq!(chain.head().hash(), decode_header(&main[9]).unwrap().hash(), "{}", kind.name);
        let report = chain.db().check(&spec, &mut |_| {}).unwrap();
        assert_eq!(report.undo_records, 10);
    }
}

/// If the number of kept undo records is lowered, the oldest ones are deleted, without gaps in the rest. Records that a
/// change of branch still needs are kept longer.
#[test]
fn how_many_undo_records_are_kept_can_change() {
    let (genesis, empty) = empty_chain(60);
    let spec = Arc::new(ChainSpec::parse("empty", genesis.as_bytes()).unwrap());
    let from = Branch { fork: 0, tip: 60, seconds: 1, beneficiary: Address::with_last_byte(9) };
    let Some(blocks) = branch(&spec, &empty, from) else { return };
    for kind in LAYERS.iter().filter(|kind| kind.name != "lvmt") {
        let options = |undo_blocks| ChainOptions { undo_blocks, ..ChainOptions::default() };
        let mut chain = in_memory_under(kind, &spec, options(20));
        let (store, layer) = (chain.db().store().clone(), Arc::clone(chain.layer()));
        let insert = |chain: &mut Blockchain, blocks: &[Bytes]| {
            for rlp in blocks {
                chain.insert(Candidate::prepare(&spec, rlp.clone()).unwrap()).unwrap();
            }
            chain.settle().unwrap();
            let report = chain.db().check(&spec, &mut |_| {}).unwrap();
            assert_eq!(report.problems, Vec::<String>::new(), "{}", kind.name);
            report.undo_records
        };
        assert_eq!(insert(&mut chain, &blocks[..30]), 20);
        drop(chain);
        let mut chain = Blockchain::open(spec.clone(), store, layer, options(10)).unwrap();
        assert_eq!(insert(&mut chain, &blocks[30..31]), 10);
        chain.keep_way_back_to(Some(25));
        assert_eq!(insert(&mut chain, &blocks[31..50]), 25);
        assert!(matches!(chain.unwind_to(24), Err(ChainError::NoUndo { lowest: 25, .. })));
        assert_eq!(chain.unwind_to(25).unwrap(), 25);
        assert_eq!(insert(&mut chain, &blocks[25..50]), 25);
        chain.keep_way_back_to(None);
        assert_eq!(insert(&mut chain, &blocks[50..]), 10);
    }
}

/// Blocks of branches that stand on unwound blocks are forgotten.
fn unwinding_forgets_branches(layer: &str) {
    let Some(case) = Case::new(layer, 100, TIP) else { return };
    let file = case.data.write("branch", stream(&case.branch));
    polytrie!["import", case.main, file, "--datadir", case.data.path()].ok();
    let check =
        || polytrie!["db", "check", "--json", "-", "--datadir", case.data.path()].ok().json();
    assert_eq!(check()["side_blocks"], TIP - FORK);
    let unwind = |to: u64| {
        let to = to.to_string();
        polytrie!["db", "unwind", "--to", to, "--json", "-", "--datadir", case.data.path()].ok()
    };
    assert_eq!(unwind(TIP).json()["blocks"], 0);
    assert_eq!(check()["side_blocks"], TIP - FORK);
    assert_eq!(unwind(FORK - 5).json()["blocks"], TIP - FORK + 5);
    assert_eq!(check()["side_blocks"], 0);
    // The branch alone has no known parent. After the common blocks of the chain it is the only branch.
    let run = polytrie!["import", file, "--datadir", case.data.path()];
    assert_fails(&run, 1, &["must be imported before it"]);
    polytrie!["import", case.main, "--to", FORK.to_string(), "--datadir", case.data.path()].ok();
    case.import(&case.data.path(), &file);
    assert_eq!(case.data.head(), (TIP, hash(case.branch.last().unwrap())));
    case.data.check();
}
