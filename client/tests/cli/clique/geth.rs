//! Tests that geth, which supports Clique up to the merge, accepts the files that we accept and refuses
//! those that we refuse.

use super::{eip225, with_votes, wrong};
use crate::{
    clique_maker::{COINBASE_KEEPER, Maker, address},
    support::{Data, stream},
};
use alloy_primitives::Bytes;
use eip225::End;
use polytrie_chainspec::Clique;
use polytrie_testing::Seed;
use std::{env, ffi::OsStr, fs, process::Command};

/// Imports the blocks into a new directory of geth. `Err` holds the message of geth.
fn import(genesis: &str, blocks: &[Bytes]) -> Result<(), String> {
    let geth =
        env::var_os("POLYTRIE_GETH").expect("POLYTRIE_GETH names a geth: scripts/compare-clique");
    let data = Data::new();
    let run = |args: &[&OsStr]| {
        let mut command = Command::new(&geth);
        command.arg("--datadir").arg(data.path()).args(["--verbosity", "2"]).args(args);
        let output = command.output().expect("geth can be started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    };
    let genesis = data.write("genesis.json", genesis);
    run(&["init".as_ref(), genesis.as_ref()]).expect("geth takes the genesis");
    if blocks.is_empty() {
        return Ok(());
    }
    let file = data.write("blocks.rlp", stream(blocks));
    run(&["import".as_ref(), file.as_ref()])?;
    // The blocks that geth exports again are the ones that it was given.
    let out = data.file("out.rlp");
    let last = blocks.len().to_string();
    run(&["export".as_ref(), out.as_ref(), "1".as_ref(), last.as_ref()])?;
    assert!(fs::read(out).unwrap() == stream(blocks), "geth keeps other blocks");
    Ok(())
}

#[test]
#[ignore = "needs geth: scripts/compare-clique"]
#[expect(clippy::print_stdout, reason = "the script shows what was compared")]
fn geth_takes_and_refuses_the_same_files() {
    let mut taken = 0;
    let mut take = |name: &str, genesis: &str, blocks: &[Bytes]| {
        import(genesis, blocks).unwrap_or_else(|said| panic!("geth refuses {name}: {said}"));
        println!("both take {} blocks: {name}", blocks.len());
        taken += 1;
    };
    for seed in 0..3 {
        let maker = with_votes(Clique::new(5, 50), 300, &Seed::or(seed)).unwrap();
        take("votes, checkpoints, transactions", &maker.genesis, &maker.blocks);
    }
    let mut maker = Maker::with_terminal("A", Clique::new(0, 0), "7").unwrap();
    for _ in 0..3 {
        maker.push('A', None, Vec::new());
    }
    let transactions = vec![maker.transaction(COINBASE_KEEPER)];
    maker.push_merged(address('C'), transactions);
    take("a period of 0, and the merge", &maker.genesis, &maker.blocks);

    let mut refused = 0;
    let mut refuse = |name: &str, genesis: &str, blocks: &[Bytes], says: &str| {
        import(genesis, &blocks[..blocks.len() - 1]).expect("what comes before is right");
        let said = import(genesis, blocks).expect_err(name);
        assert!(said.contains(says), "{name}: {says} is not in what geth says: {said}");
        println!("both refuse block {}: {name} (geth: {says})", blocks.len());
        refused += 1;
    };
    for (index, case) in eip225::cases().iter().enumerate() {
        let mut maker = Maker::new(&case.signers, Clique::new(1, case.epoch)).unwrap();
        let (last, before) = case.blocks.split_last().unwrap();
        for block in before {
            maker.push(block.by, block.vote, Vec::new());
        }
        let blocks = maker.and(maker.sealed(last.by, last.vote));
        let name = format!("case {} of EIP-225", index + 1);
        match case.end {
            End::Signers(_) => take(&name, &maker.genesis, &blocks),
            End::Unauthorized => refuse(&name, &maker.genesis, &blocks, "unauthorized signer"),
            End::RecentlySigned => refuse(&name, &maker.genesis, &blocks, "recently signed"),
        }
    }
    let (genesis, all) = wrong::all().unwrap();
    for wrong::Wrong { name, blocks, geth, .. } in all {
        refuse(name, &genesis, &blocks, geth);
    }
    println!("geth and polytrie took {taken} files and refused {refused}");
}
