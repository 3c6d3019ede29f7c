//! Tests of kept witnesses: with every block and every undo, for all keys or a share of them.

use super::{Chain, account, address, destroyed, setup};
use crate::{LvmtLayer, LvmtOptions, Proofs, WITNESSES, verify::join};
use alloy_primitives::U256;
use polytrie_kv::KeyRange;
use polytrie_kv_testing::{entries, set_row};
use polytrie_state::{AccountChange, Proof, Prove, Prune, StateError, StateLayer};

/// Returns blocks after which keys lie on several levels, some of them written often, and some removed.
fn blocks() -> Vec<Vec<AccountChange>> {
    let mut blocks = vec![(0..200).map(|n| account(n, n, &[(1, 1 + n), (7, 7)])).collect()];
    for round in 1..7u64 {
        let written = (0..200).filter(|n| (n + round) % 5 == 0);
        let mut block: Vec<_> =
            written.map(|n| account(n, round, &[(1, round * n), (7, round % 3)])).collect();
        block.push(destroyed(1_000 + round));
        if round == 4 {
            block[3] = destroyed(block[3].address.into_word()[31].into());
        }
        blocks.push(block);
    }
    blocks
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rows(chain: &Chain) -> Rows {
    entries(&chain.store, WITNESSES, KeyRange::ALL)
}

fn shards() -> Vec<Proofs> {
    (1..=4).map(|shard| Proofs::Shard { shard, of: 4 }).collect()
}

#[test]
fn kept_nodes_are_those_of_the_versions_forward_and_back() {
    let setup = setup(4, "kept");
    let mut on_request = Chain::new(setup.clone());
    let all = [vec![Proofs::Full], shards()].concat();
    let mut chains: Vec<Chain> =
        all.into_iter().map(|proofs| Chain::with(setup.clone(), proofs)).collect();
    let mut before: Vec<Vec<Rows>> = vec![Vec::new(); chains.len()];
    for block in blocks() {
        on_request.block(block.clone());
        for (chain, before) in chains.iter_mut().zip(&mut before) {
            before.push(rows(chain));
            chain.block(block.clone());
            chain.assert_clean();
            assert_eq!(chain.layer.commitment(), on_request.layer.commitment());
        }
    }
    assert_eq!(rows(&on_request), Rows::new());
    for (kept, none) in chains[0].undo.iter().zip(&on_request.undo) {
        let more = kept.len() - none.len();
        assert!(more <= 8, "what takes a block back knows the share, and none of its nodes");
    }
    // A proof from kept nodes equals one from summed nodes.
    for n in (0..310).step_by(7) {
        assert_eq!(chains[0].prove(n, &[1, 7, 9]), on_request.prove(n, &[1, 7, 9]));
    }
    for (chain, before) in chains.iter_mut().zip(before) {
        for before in before.into_iter().rev() {
            chain.undo();
            assert!(rows(chain) == before, "the rows are as they were");
            chain.assert_clean();
        }
    }
}

#[test]
fn shards_prove_every_key_together() {
    let setup = setup(4, "shards");
    let mut whole = Chain::new(setup.clone());
    let mut chains: Vec<Chain> =
        shards().into_iter().map(|proofs| Chain::with(setup.clone(), proofs)).collect();
    for block in blocks() {
        whole.block(block.clone());
        chains.iter_mut().for_each(|chain| chain.block(block.clone()));
    }
    let ask = |n: u64, slots: &[u64]| {
        let slots: Vec<U256> = slots.iter().copied().map(U256::from).collect();
        let mut proofs: Vec<Proof> = Vec::new();
        for chain in &chains {
            match chain.layer.prove(&address(n), &slots) {
                Ok(proof) => proofs.push(proof),
                Err(error) => {
                    assert!(
                        error.to_string().contains("ask a node with `--lvmt.proofs "),
                        "{error}"
                    );
                }
            }
        }
        proofs
    };
    let mut apart = 0;
    for n in 0..310 {
        let [of_account] = <[Proof; 1]>::try_from(ask(n, &[])).unwrap();
        let proven = whole.verify(&of_account).unwrap();
        assert_eq!(proven.state.exists, whole.verify(&whole.prove(n, &[])).unwrap().state.exists);
        for slot in [1, 7, 9] {
            let found = ask(n, &[slot]);
            let expected = whole.verify(&whole.prove(n, &[slot])).unwrap();
            let [part] = <[Proof; 1]>::try_from(found)
                .unwrap_or_else(|found| panic!("slot {slot} of {n}: {} proofs", found.len()));
            if part.proof.get("elsewhere").is_none() {
                assert_eq!(whole.verify(&part).unwrap(), expected);
                continue;
            }
            apart += 1;
            let alone = whole.verify(&part).unwrap_err();
            assert!(alone.to_string().contains("give the proof of the account, too"), "{alone}");
            for order in [[&part, &of_account], [&of_account, &part]] {
                let joined = join(&order.map(Clone::clone)).unwrap();
                assert_eq!(whole.verify(&joined).unwrap(), expected);
            }
        }
    }
    assert!(apart > 300, "{apart}");
}

/// Parts name what they show, and are checked against the commitment like all other fields.
#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let setup = setup(4, "parts");
    let mut chain = Chain::with(setup.clone(), Proofs::Full);
    let mut shards: Vec<Chain> =
        shards().into_iter().map(|proofs| Chain::with(setup.clone(), proofs)).collect();
    let mut ask = |block: Vec<AccountChange>, n: u64| {
        chain.block(block.clone());
        let mut part = None;
        for shard in &mut shards {
            shard.block(block.clone());
            let found = (1..9).find_map(|slot| {
                let found = shard.layer.prove(&address(n), &[U256::from(slot)]).ok()?;
                found.proof.get("elsewhere").is_some().then_some(found)
            });
            part = part.or(found);
        }
        let verify = chain.layer.commitment();
        (chain.prove(n, &[]), part.unwrap(), verify)
    };
    let slots: Vec<(u64, u64)> = (1..9).map(|slot| (slot, slot)).collect();
    let both = || vec![account(1, 1, &slots), account(2, 2, &slots)];
    let (whole, part, commitment) = ask(both(), 1);
    let verify = |proof: &Proof| crate::verify(setup.key(), &commitment, proof);
    let joined = join(&[whole.clone(), part.clone()]).unwrap();
    assert_eq!(verify(&joined).unwrap().state.slots.len(), 1);

    let refused = |proofs: &[&Proof], reason: &str| {
        let proofs: Vec<Proof> = proofs.iter().map(|proof| (*proof).clone()).collect();
        let found = join(&proofs).and_then(|joined| verify(&joined)).unwrap_err();
        assert!(found.to_string().contains(reason), "{found}; expected {reason}");
    };
    refused(&[&part], "0 of the proofs are of an account");
    refused(&[&whole, &whole], "2 of the proofs are of an account");
    refused(&[&whole, &part, &part], "two of its parts show the same slot");
    let (other, of_other, _) = ask(vec![account(3, 3, &[])], 2);
    refused(&[&whole, &of_other], "another account");
    refused(&[&other, &part], "another account");
    // A part claims to be the whole proof.
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut proof = joined.clone();
        change(&mut proof.proof);
        proof
    };
    let mut alone = part.clone();
    alone.proof.as_object_mut().unwrap().remove("elsewhere");
    let forged = [
        alone,
        changed(&|proof| proof["parts"][0]["slots"][0]["value"] = "0x63".into()),
        changed(&|proof| proof["parts"][0]["slots"][0]["key"] = "0x63".into()),
        changed(&|proof| proof["parts"][0]["slots"] = serde_json::json!([])),
        changed(&|proof| proof["account"]["incarnation"] = 1.into()),
        changed(&|proof| proof["account"] = serde_json::Value::Null),
    ];
    for forged in &forged {
        assert!(verify(forged).is_err(), "{}", forged.proof);
    }
    // The storage of a destroyed account is shown for an incarnation that it no longer has.
    ask(vec![destroyed(1)], 2);
    let (again, _, commitment) = ask(both(), 1);
    let old = join(&[again.clone(), part.clone()]).unwrap_err();
    assert!(old.to_string().contains("block"), "{old}");
    let mut stale = part;
    stale.proof["elsewhere"]["incarnation"] = 1.into();
    let stale = join(&[again, stale]).unwrap();
    assert!(crate::verify(setup.key(), &commitment, &stale).is_err());
}

#[test]
fn what_is_kept_belongs_to_the_state() {
    let setup = setup(4, "kept");
    let all = [vec![Proofs::None, Proofs::OnRequest, Proofs::Full], shards()].concat();
    for made in &all {
        let mut chain = Chain::with(setup.clone(), *made);
        chain.block(vec![account(1, 1, &[])]);
        for asked in &all {
            let options = LvmtOptions { proofs: *asked, ..LvmtOptions::default() };
            let found = LvmtLayer::open(chain.store.clone(), setup.clone(), options);
            if asked == made || !asked.are_kept() && !made.are_kept() {
                assert_eq!(found.unwrap().commitment(), chain.layer.commitment());
                continue;
            }
            let text = found.unwrap_err().to_string();
            let kept = if made.are_kept() { made } else { asked };
            assert!(text.contains(&format!("`{kept}`")), "{text}");
        }
        // No nodes are kept for an empty state.
        chain.undo();
        assert_eq!(rows(&chain), Rows::new());
        for asked in &all {
            let options = LvmtOptions { proofs: *asked, ..LvmtOptions::default() };
            LvmtLayer::open(chain.store.clone(), setup.clone(), options).unwrap();
        }
    }
    for (shard, of) in [(1, 32), (0, 4), (5, 4), (1, 3)] {
        let options = LvmtOptions { proofs: Proofs::Shard { shard, of }, ..LvmtOptions::default() };
        let store = Chain::new(setup.clone()).store;
        let error = LvmtLayer::open(store, setup.clone(), options).unwrap_err();
        assert!(error.to_string().contains(&format!("no shard {shard}/{of}")), "{error}");
    }
}

#[test]
fn proofs_hold_after_collecting() {
    let mut chain = Chain::with(setup(4, "collect"), Proofs::Full);
    for block in blocks() {
        chain.block(block);
    }
    let before = rows(&chain);
    chain.layer.prune(&mut |_| Ok(())).unwrap();
    assert!(rows(&chain) == before, "the rows are as they were");
    chain.assert_clean();
    chain.check_proofs(0..20);
}

/// A damaged node never leads to a proof that verifies wrongly.
#[test]
fn a_damaged_node_is_no_proof() {
    let mut chain = Chain::with(setup(4, "damage"), Proofs::Full);
    chain.block((0..40).map(|n| account(n, n, &[])).collect());
    chain.check_proofs(0..40);
    let mut refused = 0;
    for (key, row) in rows(&chain).into_iter().take(6) {
        let mut damaged = row.clone();
        damaged[20] ^= 1;
        let write = |row: &[u8]| set_row(&chain.store, WITNESSES, &key, Some(row));
        write(&damaged);
        for n in 0..40 {
            match chain.layer.prove(&address(n), &[]) {
                Ok(proof) => assert!(chain.verify(&proof).is_ok(), "account {n}"),
                Err(StateError::Corrupt(_)) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        write(&row);
    }
    assert!(refused > 0);
}
