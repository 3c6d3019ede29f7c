//! Forged proofs.

use super::{Chain, account, address, destroyed, setup};
use crate::{
    Proven,
    commitment::Body,
    key::Key,
    path::{Path, entry_index},
    prove::show_tuples,
    read::read_record,
    trees::LvmtHead,
    verify::{ClaimedAccount, LvmtProof, verify_witness},
    witness::{Owner, Witness},
};
use alloy_primitives::{KECCAK256_EMPTY, U256};
use polytrie_amt::{VERSION_LIMIT, compress};
use polytrie_state::{Commitment, Proof, ProofError, SlotClaim, StateLayer, hash_address};
use std::collections::btree_map::Entry;

pub(super) const HEIGHT: u8 = 4;

/// Builds a chain of a few hundred keys, each written several times.
pub(super) fn chain() -> Chain {
    let mut chain = Chain::new(setup(HEIGHT, "attacks"));
    // There are so many accounts that entries of level 1 are full.
    chain.block((1_000..1_900).map(|n| account(n, n, &[])).collect());
    for round in 0..4u64 {
        chain.block((0..150).map(|n| account(n, 100 * round + n, &[(1, round + n + 1)])).collect());
    }
    chain.block(vec![destroyed(3)]);
    chain
}

/// A decoded proof, to be changed and encoded again.
pub(super) struct Forgery<'a> {
    chain: &'a Chain,
    pub(super) proof: LvmtProof,
    pub(super) witness: Witness,
}

impl<'a> Forgery<'a> {
    pub(super) fn of(chain: &'a Chain, proof: &Proof) -> Self {
        let proof: LvmtProof = serde_json::from_value(proof.proof.clone()).unwrap();
        let witness = Witness::decode(HEIGHT, &proof.witness).unwrap();
        Self { chain, proof, witness }
    }

    /// Returns the tree, entry and slot of the proven account.
    fn owner(&mut self) -> (Path, u32, u8) {
        let position = hash_address(&self.proof.address);
        let mut found = None;
        for (path, tree) in &self.witness.trees {
            for (index, entry) in &tree.entries {
                for (slot, owner) in &entry.owners {
                    if owner.position == position {
                        found = Some((*path, *index, *slot));
                    }
                }
            }
        }
        found.unwrap()
    }

    fn versions(&mut self, path: &Path, index: u32) -> &mut [u64; 6] {
        &mut self.witness.trees.get_mut(path).unwrap().entries.get_mut(&index).unwrap().versions
    }

    fn owners(&mut self, path: &Path, index: u32) -> &mut std::collections::BTreeMap<u8, Owner> {
        &mut self.witness.trees.get_mut(path).unwrap().entries.get_mut(&index).unwrap().owners
    }

    /// Adds the honest Merkle paths of the tuples that the witness now names.
    fn show(&mut self) {
        let head = head(self.chain);
        show_tuples(&self.chain.store.snapshot(), &head, &mut self.witness).unwrap();
    }

    pub(super) fn claim(&mut self, balance: u64) {
        self.proof.account = Some(ClaimedAccount {
            nonce: 1,
            balance: U256::from(balance),
            code_hash: KECCAK256_EMPTY,
            incarnation: 0,
        });
    }

    /// Verifies the proof twice: encoded, and without encoding. Both must agree.
    pub(super) fn verify(mut self) -> Result<Proven, ProofError> {
        let body = Body::read(&self.chain.layer.commitment()).unwrap();
        let direct = verify_witness(self.chain.setup.key(), &body, &self.proof, &self.witness);
        self.proof.witness = self.witness.encode(HEIGHT).unwrap().into();
        let proof = serde_json::to_value(&self.proof).unwrap();
        let found = self.chain.verify(&Proof { layer: "lvmt".into(), proof });
        assert_eq!(direct.is_ok(), found.is_ok(), "{direct:?}, {found:?}");
        found
    }

    #[track_caller]
    fn refused(self, reason: &str) {
        let found = self.verify();
        let Err(ProofError::Invalid(found)) = found else { panic!("{found:?}") };
        assert!(found.contains(reason), "{found}; expected {reason}");
    }
}

fn head(chain: &Chain) -> LvmtHead {
    let store = chain.store.snapshot();
    let epochs = crate::meta::read_meta(&store).unwrap().unwrap().epochs;
    let history = crate::history::History::load(&store, epochs).unwrap();
    LvmtHead::load(&store, HEIGHT, history).unwrap()
}

#[test]
fn an_honest_proof_survives_being_taken_apart() {
    let chain = chain();
    for n in [0, 3, 149, 150, 9_999] {
        let mut forgery = Forgery::of(&chain, &chain.prove(n, &[1, 2]));
        forgery.show();
        assert_eq!(forgery.verify().unwrap().state.exists, n < 150 && n != 3, "account {n}");
    }
}

#[test]
fn an_old_value_with_its_old_tuple() {
    let mut chain = chain();
    let key = Key::Account(hash_address(&address(7)));
    let old = read_record(&chain.store, &key).unwrap().unwrap();
    chain.block(vec![account(7, 777, &[])]);

    // The old tuple is in the history, and has an honest path; but the version is another one now.
    let mut forgery = Forgery::of(&chain, &chain.prove(7, &[]));
    let (path, index, slot) = forgery.owner();
    let owner = forgery.owners(&path, index).get_mut(&slot).unwrap();
    (owner.at, owner.value) = (old.at, old.value.clone());
    forgery.claim(307);
    forgery.show();
    forgery.refused("not in the history");

    // The version is changed to fit: then the opening does not hold.
    let mut forgery = Forgery::of(&chain, &chain.prove(7, &[]));
    let owner = forgery.owners(&path, index).get_mut(&slot).unwrap();
    (owner.at, owner.value) = (old.at, old.value);
    forgery.versions(&path, index)[usize::from(slot)] -= 1;
    forgery.claim(307);
    forgery.show();
    forgery.refused("an opening");
}

#[test]
fn an_old_tree_with_all_that_was_below_it() {
    let mut chain = chain();
    let old = Forgery::of(&chain, &chain.prove(7, &[])).witness;
    chain.block(vec![account(7, 777, &[])]);
    let mut forgery = Forgery::of(&chain, &chain.prove(7, &[]));
    // Everything below the root is old; only the root is new.
    for (path, tree) in old.trees {
        if path != Path::ROOT {
            forgery.witness.trees.insert(path, tree);
        }
    }
    forgery.claim(307);
    forgery.show();
    forgery.refused("not in the history");
}

#[test]
fn another_slot() {
    let chain = chain();
    // The account shares its entry with others.
    let honest = (0..150u64).find_map(|n| {
        let mut forgery = Forgery::of(&chain, &chain.prove(n, &[]));
        let (path, index, slot) = forgery.owner();
        let versions = *forgery.versions(&path, index);
        let other = (1..6u8).find(|s| *s != slot && versions[usize::from(*s)] > 0)?;
        Some((n, path, index, slot, other))
    });
    let (n, path, index, slot, other) = honest.unwrap();

    let mut forgery = Forgery::of(&chain, &chain.prove(n, &[]));
    let owner = forgery.owners(&path, index).remove(&slot).unwrap();
    forgery.owners(&path, index).insert(other, owner);
    forgery.show();
    forgery.refused("not in the history");

    // The slots are one that no key has, and the reserved one.
    for wrong in [0, 6, 7] {
        let mut forgery = Forgery::of(&chain, &chain.prove(n, &[]));
        let owner = forgery.owners(&path, index).remove(&slot).unwrap();
        forgery.owners(&path, index).insert(wrong, owner);
        forgery.show();
        forgery.refused("cannot be its own");
    }

    // The key belongs to another entry.
    let mut forgery = Forgery::of(&chain, &chain.prove(n, &[]));
    let stranger = (0..150)
        .map(|m| hash_address(&address(m)))
        .find(|p| entry_index(HEIGHT, 0, p) != entry_index(HEIGHT, 0, &path.prefix));
    forgery.owners(&path, index).get_mut(&slot).unwrap().position = stranger.unwrap();
    forgery.show();
    forgery.refused("cannot be its own");
}

#[test]
fn a_key_that_is_there_claimed_to_be_absent() {
    let chain = chain();
    let mut forgery = Forgery::of(&chain, &chain.prove(7, &[]));
    let (path, index, slot) = forgery.owner();
    forgery.owners(&path, index).remove(&slot);
    forgery.proof.account = None;
    forgery.show();
    let found = forgery.verify().unwrap_err().to_string();
    assert!(found.contains("not shown who has") || found.contains("not opened"), "{found}");

    // A version is set to zero, as if the slot were free.
    let mut forgery = Forgery::of(&chain, &chain.prove(7, &[]));
    forgery.owners(&path, index).clear();
    forgery.versions(&path, index)[1..].fill(0);
    forgery.proof.account = None;
    forgery.show();
    let found = forgery.verify().unwrap_err().to_string();
    // If the key lies deeper, the owners above it are missing, too.
    assert!(found.contains("an opening") || found.contains("not shown who has"), "{found}");
}

#[test]
fn a_level_left_out() {
    let chain = chain();
    let deep = (0..150).chain(1_000..1_900).find(|n| {
        let mut forgery = Forgery::of(&chain, &chain.prove(*n, &[]));
        forgery.owner().0.level >= 2
    });
    let n = deep.expect("1,200 keys fill some of the 256 entries of level 1");
    let mut forgery = Forgery::of(&chain, &chain.prove(n, &[]));
    let (path, ..) = forgery.owner();
    for level in 0..path.level {
        let mut forgery = Forgery::of(&chain, &chain.prove(n, &[]));
        let above = Path::of(HEIGHT, level, &path.prefix);
        forgery.witness.trees.remove(&above).unwrap();
        forgery.show();
        forgery.refused("is not opened");
    }
    forgery.witness.trees.remove(&path).unwrap();
    forgery.proof.account = None;
    forgery.show();
    forgery.refused("is not opened");
    let mut forgery = Forgery::of(&chain, &chain.prove(n, &[]));
    let above = Path::of(HEIGHT, path.level - 1, &path.prefix);
    let index = entry_index(HEIGHT, above.level, &path.prefix);
    forgery.versions(&above, index)[0] = 0;
    forgery.refused("does not count");
}

#[test]
fn another_root() {
    let mut chain = chain();
    let old = chain.layer.commitment();
    let proof = chain.prove(7, &[1]);
    chain.block(vec![account(7, 777, &[])]);
    assert!(chain.verify(&proof).is_err(), "a proof of the block before");
    let new = chain.layer.commitment();
    // The trusted digest comes with another body.
    let mixed = Commitment::own(new.digest(), old.body().clone());
    let found = crate::verify(chain.setup.key(), &mixed, &proof).unwrap_err();
    assert!(found.to_string().contains("digest"), "{found}");
    for length in [0, 16, 151] {
        let body = old.body().slice(..length);
        let short = Commitment::own(alloy_primitives::keccak256(&body), body);
        assert!(matches!(
            crate::verify(chain.setup.key(), &short, &proof),
            Err(ProofError::Malformed(_))
        ));
    }
}

#[test]
fn another_question() {
    let chain = chain();
    let number = |n: u64| U256::from(n);
    // Slot 1 is set, 2 and 3 are not.
    let honest = chain.prove(7, &[1, 2, 3]);
    let claimed = |slot: u64| SlotClaim { key: number(slot), value: U256::ZERO };
    let forge = |change: &dyn Fn(&mut LvmtProof)| {
        let mut forgery = Forgery::of(&chain, &honest);
        change(&mut forgery.proof);
        forgery
    };
    // Each answer is removed in sequence, then all of them.
    for slot in 0..3 {
        forge(&|proof| {
            proof.slots.remove(slot);
        })
        .refused("nothing claimed needs");
    }
    forge(&|proof| proof.slots.clear()).refused("nothing claimed needs");
    // An answer to another question replaces a requested one, or is added.
    for slot in [4u64, 5, 6, 1_000] {
        assert!(forge(&|proof| proof.slots[1] = claimed(slot)).verify().is_err());
        assert!(forge(&|proof| proof.slots.push(claimed(slot))).verify().is_err());
    }
    // The same question gets another answer.
    forge(&|proof| proof.slots[0].value += number(1)).refused("not as claimed");
    forge(&|proof| proof.slots[1].value = number(1)).refused("not as claimed");
    // The proof claims another account, present and absent.
    for n in [8, 1_000, 5_000] {
        assert!(forge(&|proof| proof.address = address(n)).verify().is_err());
    }
    // The account is claimed to be absent, and its slots with it.
    let gone = |proof: &mut LvmtProof| {
        proof.account = None;
        proof.slots = vec![claimed(1), claimed(2), claimed(3)];
    };
    forge(&gone).refused("not as claimed");
    // The answers may come in any order, and one may come twice.
    assert_eq!(
        forge(&|proof| proof.slots.swap(0, 2)).verify().unwrap().state.slots[2].0,
        number(1)
    );
    forge(&|proof| proof.slots.push(claimed(2))).verify().unwrap();

    // The proof shows more than was requested.
    let more = Forgery::of(&chain, &chain.prove(8, &[])).witness;
    let mut forgery = Forgery::of(&chain, &honest);
    for (path, tree) in more.trees {
        match forgery.witness.trees.entry(path) {
            Entry::Vacant(vacant) => drop(vacant.insert(tree)),
            Entry::Occupied(found) => found.into_mut().entries.extend(tree.entries),
        }
    }
    forgery.show();
    forgery.refused("nothing claimed needs");
    let mut forgery = Forgery::of(&chain, &honest);
    let (path, index, _) = forgery.owner();
    let mut tree = forgery.witness.trees[&path].clone();
    tree.entries.clear();
    forgery.witness.trees.retain(|known, _| *known != path);
    assert!(!forgery.witness.trees.is_empty(), "{index}");
    forgery.witness.trees.insert(path, tree);
    assert!(forgery.verify().is_err());
}

#[test]
fn points_off_the_curve_and_versions_too_large() {
    let chain = chain();
    let proof = chain.prove(7, &[]);
    let mut forgery = Forgery::of(&chain, &proof);
    let (path, index, slot) = forgery.owner();
    forgery.versions(&path, index)[usize::from(slot)] += VERSION_LIMIT;
    let body = Body::read(&chain.layer.commitment()).unwrap();
    let found = verify_witness(chain.setup.key(), &body, &forgery.proof, &forgery.witness);
    assert!(found.is_err(), "a version of 41 bits");

    let basis = compress(&forgery.witness.trees[&path].entries[&index].opening.basis);
    let mut bytes = forgery.proof.witness.to_vec();
    let at = bytes.windows(32).position(|window| window == basis).unwrap();
    // About half of all numbers are not the x of a point.
    let off = (0..=255u8).find(|byte| {
        let mut point = basis;
        point[31] = *byte;
        polytrie_amt::decompress(&point).is_none()
    });
    bytes[at + 31] = off.unwrap();
    forgery.proof.witness = bytes.into();
    let proof =
        Proof { layer: "lvmt".into(), proof: serde_json::to_value(&forgery.proof).unwrap() };
    assert!(matches!(chain.verify(&proof), Err(ProofError::Malformed(_))));
}

#[test]
fn storage_of_an_earlier_life() {
    let mut chain = chain();
    let before = chain.prove(3, &[1]);
    assert_eq!(chain.verify(&before).unwrap().state.slots[0].1, U256::ZERO);
    chain.block(vec![account(3, 5, &[(9, 9)])]);
    let proven = chain.verify(&chain.prove(3, &[1, 9])).unwrap();
    assert_eq!(proven.state.slots, [(U256::from(1), U256::ZERO), (U256::from(9), U256::from(9))]);
    // The claim names the old incarnation.
    let mut forgery = Forgery::of(&chain, &chain.prove(3, &[1]));
    forgery.claim(5);
    forgery.refused("not as claimed");
}
