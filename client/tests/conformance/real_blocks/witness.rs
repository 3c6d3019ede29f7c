//! Blocks with the trie nodes that they need, executed as by `polytrie witness verify`. The tests also check the state
//! root.

use super::{archive, mainnet};
use polytrie::{
    layers,
    witness::{WitnessFile, verify},
};

#[test]
fn every_block_executes_to_its_state_root() {
    let mut files = Vec::new();
    if !archive::for_each("witness", |name, bytes| {
        files.push(archive::json::<WitnessFile>(name, bytes));
    }) {
        return;
    }
    assert_eq!(files.len(), 29);
    let (spec, stateless) = (mainnet(), layers::stateless().expect("the layer is in this build"));
    for file in files {
        let verified =
            verify(&spec, &file, &stateless, None).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(verified.hash, file.hash);
        assert!(verified.receipts, "block {}: the receipts were not compared", verified.number);
    }
}
