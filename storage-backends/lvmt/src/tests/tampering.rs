//! Changes each field of a witness by itself.
//!
//! The suite of all layers changes the bytes of a proof. Here a witness is one string of bytes, and with most of them
//! changed it does not decode. So the witness is decoded, changed, and encoded again.

use super::attacks::{Forgery, HEIGHT, chain};
use crate::{
    path::Path,
    record::Position,
    verify::ClaimedAccount,
    witness::{EntryWitness, Owner, TreeWitness, Witness},
};
use alloy_primitives::{B256, U256};
use polytrie_amt::{G1Affine, SLOTS};
use std::collections::BTreeMap;

/// A description of a change, and the change.
type Change = (&'static str, Box<dyn Fn(&mut Forgery<'_>)>);

/// The proofs are of an account with slots that are set and not set, of a removed account, and of one that never
/// existed.
#[test]
fn no_field_of_a_proof_can_be_another() {
    let chain = chain();
    let points = [1, 2].map(|index| chain.setup.point(0, index));
    for (n, slots) in [(7, &[1, 2, 3][..]), (3, &[1][..]), (9_999, &[1][..])] {
        let honest = chain.prove(n, slots);
        let forgery = || Forgery::of(&chain, &honest);
        let mut changes = Changes::default();
        changes.of_claims(&forgery());
        changes.of_trees(&forgery().witness, points);
        changes.of_merkle_nodes(&forgery().witness);
        assert!(changes.0.len() > 30, "account {n}: {} changes", changes.0.len());
        forgery().verify().unwrap();
        for (what, change) in changes.0 {
            let mut forgery = forgery();
            change(&mut forgery);
            assert!(forgery.verify().is_err(), "account {n}: {what}");
        }
        let mut secure = honest;
        secure.proof["insecure"] = false.into();
        assert!(chain.verify(&secure).is_err(), "a setup for development that claims to be none");
    }
}

#[derive(Default)]
struct Changes(Vec<Change>);

impl Changes {
    fn add(&mut self, what: &'static str, change: impl Fn(&mut Forgery<'_>) + 'static) {
        self.0.push((what, Box::new(change)));
    }

    /// Changes the claimed values. `another_question` in `attacks.rs` changes which questions are answered.
    fn of_claims(&mut self, forgery: &Forgery<'_>) {
        if forgery.proof.account.is_none() {
            self.add("that there is no account", |forgery| forgery.claim(0));
        } else {
            self.add("that there is an account", |forgery| forgery.proof.account = None);
            self.add("its nonce", |forgery| account(forgery).nonce += 1);
            self.add("its balance", |forgery| account(forgery).balance += U256::from(1));
            self.add("its code", |forgery| account(forgery).code_hash = B256::ZERO);
            self.add("its incarnation", |forgery| account(forgery).incarnation += 1);
        }
        for slot in 0..forgery.proof.slots.len() {
            let value = move |forgery: &mut Forgery<'_>| {
                forgery.proof.slots[slot].value += U256::from(1);
            };
            self.add("the value of a slot", value);
        }
    }

    fn of_trees(&mut self, witness: &Witness, points: [G1Affine; 2]) {
        for (&path, found) in &witness.trees {
            self.add("a tree that is left out", move |f| drop(f.witness.trees.remove(&path)));
            if path != Path::ROOT {
                self.add("the name of a tree", move |f| {
                    let mut other = path;
                    other.prefix.0[0] ^= 0x10;
                    rename(&mut f.witness.trees, path, other);
                });
                self.add("the epoch of a tree", move |f| next_epoch(&mut tree(f, path).at));
                self.add("the leaf of a tree", move |f| next_leaf(&mut tree(f, path).at));
                self.add("the commitment of a tree", move |f| {
                    exchange(&mut tree(f, path).commitment, points);
                });
            }
            for (&index, found) in &found.entries {
                self.of_entry((path, index), found, points);
            }
        }
    }

    fn of_entry(&mut self, at: (Path, u32), found: &EntryWitness, points: [G1Affine; 2]) {
        let (path, index) = at;
        self.add("an entry that is left out", move |f| {
            drop(tree(f, path).entries.remove(&index));
        });
        self.add("the index of an entry", move |f| {
            rename(&mut tree(f, path).entries, index, index ^ 1);
        });
        for slot in 0..SLOTS {
            self.add("a version", move |f| entry(f, at).versions[slot] ^= 1);
        }
        self.add("the basis of an opening", move |f| {
            exchange(&mut entry(f, at).opening.basis, points);
        });
        assert_eq!(found.opening.nodes.len(), usize::from(HEIGHT));
        for depth in 0..found.opening.nodes.len() {
            self.add("a node of an opening", move |f| {
                exchange(&mut entry(f, at).opening.nodes[depth], points);
            });
        }
        for (&slot, found) in &found.owners {
            self.add("an owner that is left out", move |f| {
                drop(entry(f, at).owners.remove(&slot));
            });
            self.add("the slot of an owner", move |f| {
                rename(&mut entry(f, at).owners, slot, slot % 5 + 1);
            });
            for byte in [0, 31] {
                self.add("an owner", move |f| owner(f, at, slot).position.0[byte] ^= 1);
            }
            self.add("the epoch of a tuple", move |f| next_epoch(&mut owner(f, at, slot).at));
            self.add("the leaf of a tuple", move |f| next_leaf(&mut owner(f, at, slot).at));
            for byte in 0..found.value.len() {
                self.add("a byte of a value", move |f| owner(f, at, slot).value[byte] ^= 1);
            }
            self.add("the length of a value", move |f| owner(f, at, slot).value.push(0));
        }
    }

    fn of_merkle_nodes(&mut self, witness: &Witness) {
        for (&number, found) in &witness.epochs {
            self.add("an epoch that is left out", move |f| {
                drop(f.witness.epochs.remove(&number));
            });
            self.add("the number of an epoch", move |f| {
                rename(&mut f.witness.epochs, number, number ^ 1);
            });
            self.add("how many tuples an epoch has", move |f| {
                f.witness.epochs.get_mut(&number).unwrap().count += 1;
            });
            self.of_nodes(found.nodes.len(), move |witness| {
                &mut witness.epochs.get_mut(&number).unwrap().nodes
            });
        }
        self.of_nodes(witness.history.len(), |witness| &mut witness.history);
    }

    fn of_nodes(
        &mut self,
        count: usize,
        nodes: impl Fn(&mut Witness) -> &mut Vec<B256> + Copy + 'static,
    ) {
        for at in 0..count {
            self.add("a Merkle node", move |f| nodes(&mut f.witness)[at].0[7] ^= 1);
            self.add("a Merkle node that is left out", move |f| {
                nodes(&mut f.witness).remove(at);
            });
        }
        self.add("a Merkle node too many", move |f| nodes(&mut f.witness).push(B256::ZERO));
    }
}

fn account<'f>(forgery: &'f mut Forgery<'_>) -> &'f mut ClaimedAccount {
    forgery.proof.account.as_mut().unwrap()
}

fn tree<'f>(forgery: &'f mut Forgery<'_>, path: Path) -> &'f mut TreeWitness {
    forgery.witness.trees.get_mut(&path).unwrap()
}

fn entry<'f>(forgery: &'f mut Forgery<'_>, (path, index): (Path, u32)) -> &'f mut EntryWitness {
    tree(forgery, path).entries.get_mut(&index).unwrap()
}

fn owner<'f>(forgery: &'f mut Forgery<'_>, at: (Path, u32), slot: u8) -> &'f mut Owner {
    entry(forgery, at).owners.get_mut(&slot).unwrap()
}

fn next_epoch(at: &mut Position) {
    at.epoch ^= 1;
}

fn next_leaf(at: &mut Position) {
    at.leaf ^= 1;
}

/// Replaces a point by another point of the curve.
fn exchange(point: &mut G1Affine, points: [G1Affine; 2]) {
    *point = if *point == points[0] { points[1] } else { points[0] };
}

/// Moves the value of one key to another key.
fn rename<K: Ord, V>(map: &mut BTreeMap<K, V>, from: K, to: K) {
    let value = map.remove(&from).unwrap();
    map.insert(to, value);
}
