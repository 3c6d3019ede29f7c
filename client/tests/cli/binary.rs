//! Tests of the layer `binary` and the effect of its settings on a data directory.

use crate::{
    run::polytrie,
    support::{Data, RPC_COMPAT, assert_fails, check, import, sample},
};

/// The group depth is stored with the data. It changes the rows but no result, and the settings of the reads
/// change neither.
#[test]
fn the_group_depth_is_remembered() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let mut states = Vec::new();
    for depth in ["1", "8"] {
        let data = Data::new();
        let dir = data.path();
        let extra = ["--binary.group-depth", depth, "--to", "20"];
        import![dir, chain.file, chain.chain, "binary", extra[0], extra[1], extra[2], extra[3]]
            .ok();
        let run = polytrie!["import", chain.file, "--datadir", dir, "--binary.group-depth", "4"];
        assert_fails(&run, 2, &["binary.group-depth", "`4`", &format!("`{depth}`")]);
        let args = ["--binary.reads", "tree", "--json", "-"];
        let run = polytrie!["import", chain.file, "--datadir", dir, args[0], args[1], args[2], "-"];
        let commitment = run.ok().json()["head"]["commitment"].clone();
        check(&dir);
        states.push((commitment, data.dump()));
    }
    assert!(states[0] == states[1], "{} {}", states[0].0, states[1].0);
    let run = polytrie!["import", chain.file, "--binary.group-depth", "9"];
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("9 is not in 1..=8"), "{}", run.stderr);
}

/// The name of this setting is the longest that `db stats` lists.
#[test]
fn the_group_depth_stands_apart_from_its_name() {
    let data = Data::new();
    let (dir, genesis) = (data.path(), sample("genesis.json"));
    polytrie!["init", "--datadir", dir, "--chain", genesis, "--state", "binary"].ok();
    let stats = polytrie!["db", "stats", "--datadir", dir].ok();
    assert!(stats.text().contains("\nbinary.group-depth 5\n"), "{}", stats.text());
}
