//! Tests of proofs: of present and absent keys, and with changed contents.

use super::{Driver, LayerFactory, Proven, Verifier};
use crate::{
    History, Oracle, Seed,
    keys::{SLOTS, slot},
    verify_eip1186,
};
use alloy_primitives::{Address, U256, hex};
use polytrie_state::{Commitment, CommitmentKind, Proof};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

/// Checks proofs of accounts and slots that are present, never existed, or were removed, at every block. Each must
/// prove the values of the oracle, against this commitment and no other.
pub fn proofs_hold(factory: &dyn LayerFactory) {
    let seed = Seed::or(23);
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    let history = History::adversarial(seed.value());
    let mut driver = Driver::in_memory(factory, history.genesis());
    let Some(verify) = factory.verifier() else {
        assert!(driver.layer().proofs().is_none(), "who verifies its proofs?");
        return;
    };
    let addresses = history.addresses();
    let mut last: Option<Commitment> = None;
    for (n, block) in history.blocks.iter().enumerate() {
        driver.run(block).unwrap_or_else(|e| panic!("{}: {e}", block.label));
        let state = &history.states[n + 1];
        let commitment = driver.layer().commitment();
        let touched = block.txs.iter().flat_map(|tx| &tx.accounts).map(|change| change.address);
        let random = (0..3).map(|_| addresses[rng.random_range(0..addresses.len())]);
        let targets: Vec<Address> = touched.take(12).chain(random).collect();
        for address in targets {
            let slots = slots_of_interest(&mut rng, &history, n, &address);
            let proof = prove(&driver, &address, &slots);
            let context = format!("{}, {address}", block.label);
            let expected = truth(state, &address, &slots);
            assert_eq!(
                verify(&commitment, &address, &slots, &proof),
                Ok(expected.clone()),
                "{context}"
            );
            if factory.kind() == CommitmentKind::StateRoot {
                let found = verify_eip1186(&commitment, &address, &slots, &proof);
                assert_eq!(found, Ok(expected), "{context}: by the reference");
            }
            if let Some(last) = last.as_ref().filter(|last| **last != commitment) {
                let found = verify(last, &address, &slots, &proof);
                assert!(found.is_err(), "{context}: it also holds one block earlier");
            }
        }
        last = Some(commitment);
    }
}

/// Returns slots that the block wrote to the account, and some slots near them.
fn slots_of_interest(
    rng: &mut ChaCha8Rng,
    history: &History,
    block: usize,
    address: &Address,
) -> Vec<U256> {
    let changes = history.blocks[block].txs.iter().flat_map(|tx| &tx.accounts);
    let written = changes.filter(|change| change.address == *address).flat_map(|c| &c.slots);
    let mut slots: Vec<U256> = written.map(|(slot, _)| *slot).take(6).collect();
    let all = SLOTS.all();
    slots.extend((0..4).map(|_| slot(all[rng.random_range(0..all.len())])));
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Checks that a proof with any byte changed, of any node or any claim, does not hold, or still proves the right
/// values because the changed part is not needed. Proofs of one key must not prove another.
pub fn tampered_proofs_do_not(factory: &dyn LayerFactory) {
    let Some(verify) = factory.verifier() else { return };
    let seed = Seed::or(24);
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    let history = History::with_genesis_of(seed.value(), 300);
    let driver = Driver::in_memory(factory, history.genesis());
    let state = history.genesis();
    let contract = history.genesis.accounts.iter().max_by_key(|change| change.slots.len());
    let Some(contract) = contract else { panic!("the genesis is empty") };
    let present = contract.address;
    let held: Vec<U256> = contract.slots.iter().map(|(slot, _)| *slot).take(2).collect();
    let slots = [&held[..], &[U256::MAX]].concat();
    let absent = Address::repeat_byte(0xab);

    for (address, slots) in [(present, slots), (absent, vec![U256::ZERO]), (present, vec![])] {
        let commitment = driver.layer().commitment();
        let proof = prove(&driver, &address, &slots);
        let expected = truth(state, &address, &slots);
        assert_eq!(verify(&commitment, &address, &slots, &proof), Ok(expected.clone()));
        tamper(verify, &mut rng, &commitment, (&address, &slots), &proof, &expected);

        for (other, other_slots) in
            [(absent, slots.clone()), (present, slots.clone()), (address, vec![U256::from(1)])]
        {
            if (other, &other_slots) != (address, &slots) {
                let found = verify(&commitment, &other, &other_slots, &proof);
                assert!(
                    found.is_err(),
                    "a proof of {address} proves {other} {other_slots:?}: {found:?}"
                );
            }
        }
    }
}

/// Changes the proof's JSON in every place, one after the other.
fn tamper(
    verify: Verifier,
    rng: &mut ChaCha8Rng,
    commitment: &Commitment,
    (address, slots): (&Address, &[U256]),
    proof: &Proof,
    expected: &Proven,
) {
    let mut places = Vec::new();
    walk(&proof.proof, &mut String::new(), &mut places);
    assert!(!places.is_empty(), "a proof without content");
    for place in places {
        let Some(Value::String(text)) = proof.proof.pointer(&place) else { continue };
        let Some(digits) = text.strip_prefix("0x") else { continue };
        // An element of a list of strings is a node; changing one must be noticed.
        let is_node = place.rsplit('/').next().is_some_and(|last| last.parse::<usize>().is_ok());
        let variants: Vec<String> = if is_node {
            let bytes = hex::decode(digits).unwrap_or_else(|e| panic!("{place}: {e}"));
            let flipped = (0..bytes.len()).map(|n| {
                let mut bytes = bytes.clone();
                bytes[n] ^= rng.random_range(1..=255u8);
                bytes
            });
            let cut = bytes[..bytes.len() - 1].to_vec();
            let longer = [&bytes[..], &[0]].concat();
            flipped.chain([cut, longer]).map(hex::encode_prefixed).collect()
        } else {
            (0..digits.len())
                .map(|n| {
                    let mut digits = digits.as_bytes().to_vec();
                    digits[n] = if digits[n] == b'1' { b'2' } else { b'1' };
                    format!("0x{}", String::from_utf8_lossy(&digits))
                })
                .collect()
        };
        for variant in variants {
            let mut changed = proof.clone();
            if let Some(found) = changed.proof.pointer_mut(&place) {
                *found = Value::String(variant.clone());
            }
            let found = verify(commitment, address, slots, &changed);
            let harmless = !is_node && found.as_ref() == Ok(expected);
            assert!(found.is_err() || harmless, "{place} changed to {variant}: {found:?}");
        }
    }
    lists(verify, commitment, (address, slots), proof);
}

/// Leaves nodes out, doubles them and swaps them.
fn lists(
    verify: Verifier,
    commitment: &Commitment,
    (address, slots): (&Address, &[U256]),
    proof: &Proof,
) {
    let mut places = Vec::new();
    walk(&proof.proof, &mut String::new(), &mut places);
    let mut parents: Vec<String> = places
        .iter()
        .filter_map(|place| place.rsplit_once('/'))
        .filter(|(_, last)| last.parse::<usize>().is_ok())
        .map(|(parent, _)| parent.to_owned())
        .collect();
    parents.dedup();
    let changes: [fn(&mut Vec<Value>); 4] = [
        |nodes| drop(nodes.pop()),
        |nodes| drop(nodes.remove(0)),
        |nodes| nodes.push(nodes[nodes.len() - 1].clone()),
        |nodes| nodes.clear(),
    ];
    for (parent, change) in parents.iter().flat_map(|p| changes.iter().map(move |c| (p, c))) {
        let mut changed = proof.clone();
        if let Some(Value::Array(nodes)) = changed.proof.pointer_mut(parent) {
            change(nodes);
        }
        let found = verify(commitment, address, slots, &changed);
        assert!(found.is_err(), "nodes of {parent} left out or added: {found:?}");
    }
}

/// Collects the JSON pointers of all strings.
fn walk(value: &Value, at: &mut String, places: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::String(_) => {
            places.push(at.clone());
            return;
        }
        Value::Array(items) => items.iter().enumerate().map(|(n, v)| (n.to_string(), v)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, v)| (name.clone(), v)).collect(),
        _ => return,
    };
    for (name, child) in children {
        let length = at.len();
        at.push('/');
        at.push_str(&name);
        walk(child, at, places);
        at.truncate(length);
    }
}

fn truth(state: &Oracle, address: &Address, slots: &[U256]) -> Proven {
    let values = slots.iter().map(|slot| state.slot(address, slot)).collect();
    (state.account(address), values)
}

pub(super) fn prove(driver: &Driver<'_>, address: &Address, slots: &[U256]) -> Proof {
    let Some(proofs) = driver.layer().proofs() else { panic!("there are no proofs to verify") };
    let proof = proofs.prove(address, slots).unwrap_or_else(|e| panic!("{address}: {e}"));
    assert_eq!(proof.layer, driver.layer().name());
    proof
}
