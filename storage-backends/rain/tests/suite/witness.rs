//! Blocks executed from their witnesses alone.

#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_primitives::{B256, Bytes};
use polytrie_kv::Store;
use polytrie_rain::{RainLayer, RainOptions};
use polytrie_state::{
    BlockRef, Commitment, Outcome, Session, StateError, StateLayer, Stateless, Witness,
};
use polytrie_testing::{Block, History, Seed};
use std::sync::Arc;

fn layer() -> (Store, Arc<RainLayer>) {
    let store = Store::memory(RainLayer::TABLES).unwrap();
    let layer = RainLayer::open(store.clone(), RainOptions::default()).unwrap();
    (store, layer)
}

/// Executes a block, which leaves a witness without so many levels if `levels` is given.
fn finish(
    layer: &RainLayer,
    levels: Option<u8>,
    number: u64,
    block: &Block,
) -> Result<Outcome, StateError> {
    let parent = BlockRef { number, hash: B256::ZERO };
    let mut session = match levels {
        None => Session::begin(layer, parent)?,
        Some(levels) => Session::begin_witnessed(layer, parent, levels)?,
    };
    for tx in &block.txs {
        session.apply(tx)?;
    }
    Ok(session.finish()?.outcome)
}

/// Executes a block on a layer that has only a witness, and the top levels of `holder` if there is one.
fn from_witness(
    witness: &Witness,
    holder: Option<&RainLayer>,
    block: &Block,
) -> Result<Commitment, StateError> {
    let layer = RainLayer::on_witness(witness, holder)?;
    Ok(finish(&layer, None, 0, block)?.commitment)
}

/// Every block of a history, with all nodes in the bag and with the top levels left to the receiver.
#[test]
fn witnesses_are_enough() {
    let seed = Seed::or(41);
    for history in [History::adversarial(seed.value()), History::random(seed.value(), 30)] {
        let layers = [0, 1, 3].map(|levels| {
            let (store, layer) = layer();
            layer.load(&mut history.genesis().genesis().map(Ok)).unwrap();
            (levels, store, layer)
        });
        for (number, block) in (0..).zip(&history.blocks) {
            let mut sizes = Vec::new();
            for (levels, store, layer) in &layers {
                let mut outcome = finish(layer, Some(*levels), number, block).unwrap();
                let witness = outcome.witness.take().unwrap();
                assert!(witness.nodes.is_sorted_by(|a, b| hash(a) < hash(b)), "{}", block.label);
                assert_eq!(witness.root, layer.commitment().digest());
                sizes.push(witness.nodes.len());
                let holder = (*levels > 0).then_some(&**layer);
                let found = from_witness(&witness, holder, block);
                let context = format!("{}, seed {}", block.label, seed.value());
                assert_eq!(found.unwrap(), outcome.commitment, "{context}");
                outcome.write(store).unwrap();
            }
            assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
        }
    }
}

fn hash(node: &Bytes) -> B256 {
    alloy_primitives::keccak256(node)
}

/// A witness without one of its nodes, or with a byte of one changed, leads to no root or to the true one, never to a
/// wrong one.
#[test]
fn nothing_in_a_witness_is_believed() {
    let seed = Seed::or(42);
    let history = History::random(seed.value(), 12);
    let (store, layer) = layer();
    layer.load(&mut history.genesis().genesis().map(Ok)).unwrap();
    let mut refused = 0;
    for (number, block) in (0..).zip(&history.blocks) {
        let mut outcome = finish(&layer, Some(0), number, block).unwrap();
        let witness = outcome.witness.take().unwrap();
        let right = outcome.commitment.clone();
        for at in 0..witness.nodes.len() {
            let mut without = witness.clone();
            without.nodes.remove(at);
            let mut changed = witness.clone();
            let mut bytes = changed.nodes[at].to_vec();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            changed.nodes[at] = bytes.into();
            for other in [without, changed] {
                match from_witness(&other, None, block) {
                    Ok(found) => assert_eq!(found, right),
                    Err(StateError::Corrupt(_)) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        outcome.write(&store).unwrap();
    }
    assert!(refused > 0);
    // A process that only carries a witness handles it as bytes.
    let witness = finish(&layer, Some(0), 0, &history.blocks[0]).unwrap().witness.unwrap();
    let bytes = alloy_rlp::encode(&witness);
    assert_eq!(alloy_rlp::decode_exact::<Witness>(&bytes).unwrap(), witness);
}

/// A few nodes that refer to each other sixteen times each stand for more rows than any memory holds.
#[test]
fn nodes_that_multiply_are_refused() {
    let mut below = Bytes::from_static(b"\xc4\x82\x20\x00\x80");
    let mut nodes = Vec::new();
    for _ in 0..12 {
        let mut branch = vec![0xf9, 0x02, 0x11];
        for _ in 0..16 {
            branch.push(0xa0);
            branch.extend_from_slice(hash(&below).as_slice());
        }
        branch.push(0x80);
        below = branch.into();
        nodes.push(below.clone());
    }
    let witness = Witness { root: hash(&below), levels: 0, nodes, codes: Vec::new() };
    let found = RainLayer::on_witness(&witness, None).map(drop);
    let Err(StateError::Corrupt(reason)) = found else { panic!("{found:?}") };
    assert!(reason.contains("two places"), "{reason}");
}

/// A witness of the last block, made against the state two blocks before, is carried over where the block between
/// touched other accounts, and refused where it touched accounts of the last block. Carried over, it leads to the true root.
#[test]
fn an_older_witness_is_carried_over_where_nothing_it_holds_has_changed() {
    let seed = Seed::or(43);
    let (mut revised, mut refused) = (0, 0);
    for history in [History::adversarial(seed.value()), History::random(seed.value(), 40)] {
        let (store, layer) = layer();
        layer.load(&mut history.genesis().genesis().map(Ok)).unwrap();
        for (number, pair) in (0..).zip(history.blocks.windows(2)) {
            let [between, block] = pair else { unreachable!() };
            let context = format!("{}, seed {}", block.label, seed.value());
            // The later block, executed too early to see the nodes it needs.
            let older =
                [0, 1, 3].map(|levels| finish(&layer, Some(levels), number, block).ok()?.witness);
            finish(&layer, None, number, between).unwrap().write(&store).unwrap();
            let expected = finish(&layer, None, number + 1, block).unwrap().commitment;
            for witness in older.iter().flatten() {
                match layer.revise(witness, 2).unwrap() {
                    None => refused += 1,
                    Some(newer) => {
                        assert_eq!(newer.root, layer.commitment().digest());
                        // A node that only the newer state needs, such as a sibling, may be missing.
                        match from_witness(&newer, Some(&layer), block) {
                            Ok(found) => {
                                assert_eq!(found, expected, "{context}");
                                revised += 1;
                            }
                            Err(StateError::Corrupt(_)) => refused += 1,
                            Err(error) => panic!("{context}: {error}"),
                        }
                    }
                }
            }
        }
    }
    assert!(revised > 0 && refused > 0, "{revised} revised, {refused} refused");
}
