//! Tests of blocks, the states before them, and the ways back.

use super::*;
use alloy_primitives::keccak256;
use polytrie_kv::Batch;
use polytrie_state::CODE_TABLE;

#[test]
fn a_transfer_is_mined_on_every_layer() {
    for layer in LAYERS {
        let node = node(layer.name);
        let added = node.submit(transfer(&node, 0, 0, ETHER)).unwrap();
        assert!(added.pending);
        let header = node.mine(MineOptions::default()).unwrap().unwrap();
        assert_eq!(header.number, 1);
        assert_eq!(header.state_root, node.layer().commitment().digest());
        assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(ETHER));
        assert_eq!(node.transaction_place(&node.view(), &added.tx.hash()).unwrap(), Some((1, 0)));
        assert!(node.pool().is_empty());
        assert!(node.mine(MineOptions::default()).unwrap().is_none());
    }
}

/// Code is in a row of its own. Without it a file of the state would have an account without code, and the pool would take a
/// transaction that no block can hold.
#[test]
fn code_that_is_lost_is_damage() {
    let node = node("mpt");
    let sender = node.accounts().addresses()[0];
    let code = Bytes::from_static(&[0]);
    node.cheat(&[sender], |cheats| cheats.set_code(sender, code.clone())).unwrap();
    node.mine(MineOptions::EVEN_EMPTY).unwrap();
    assert_eq!(node.dump().unwrap().accounts[&sender].code, code);
    let mut batch = Batch::new();
    batch.delete(CODE_TABLE, keccak256(&code).as_slice());
    node.db().store().write(batch).unwrap();
    // The view before has a snapshot with the row.
    node.mine(MineOptions::EVEN_EMPTY).unwrap();
    let sent = node.submit(transfer(&node, 0, 0, 1)).unwrap_err();
    for error in [node.dump().unwrap_err(), sent].map(|error| error.to_string()) {
        assert!(error.contains("the code") && error.contains("is missing"), "{error}");
    }
}

/// The store flushes by itself, too. What was reported as durable after that stays so when more blocks follow.
#[test]
fn the_last_durable_block_goes_back_with_reverted_blocks_only() {
    for layer in LAYERS {
        let node = node(layer.name);
        let mine = |nonces: std::ops::Range<u64>| {
            for nonce in nonces {
                node.submit(transfer(&node, 0, nonce, 1)).unwrap();
                node.mine(MineOptions::default()).unwrap().unwrap();
            }
        };
        mine(0..3);
        node.db().store().checkpoint().unwrap();
        assert_eq!(node.durable(), 3, "{}", layer.name);
        mine(3..5);
        let durable = node.durable();
        assert!((3..=5).contains(&durable), "{}: {durable}", layer.name);
        node.flush().unwrap();
        assert_eq!(node.durable(), 5, "{}", layer.name);
        node.rollback(4).unwrap();
        mine(1..6);
        assert!(node.durable() <= 6, "{}", layer.name);
        node.flush().unwrap();
        assert_eq!((node.durable(), node.marks().finalized), (6, Some(6)), "{}", layer.name);
    }
}

#[test]
fn the_state_of_earlier_blocks_on_every_layer() {
    for layer in LAYERS {
        let node = node(layer.name);
        for nonce in 0..5 {
            node.submit(transfer(&node, 0, nonce, ETHER)).unwrap();
            node.mine(MineOptions::default()).unwrap().unwrap();
        }
        let view = node.view();
        for number in 0..=5u64 {
            let state = view.state_at(number).unwrap().unwrap();
            let balance = state.account(&SOMEBODY).unwrap().unwrap_or_default().balance;
            assert_eq!(balance, U256::from(number) * U256::from(ETHER), "{} {number}", layer.name);
            let nonce = state.account(&node.accounts().addresses()[0]).unwrap().unwrap().nonce;
            assert_eq!(nonce, number, "{}", layer.name);
        }
    }
}

#[test]
fn snapshot_and_revert_on_every_layer() {
    for layer in LAYERS {
        let node = node(layer.name);
        let before = node.layer().commitment();
        let point = node.snapshot().unwrap();
        let code = Bytes::from_static(&[0]);
        node.cheat(&[SOMEBODY], |cheats| cheats.set_code(SOMEBODY, code)).unwrap();
        node.submit(transfer(&node, 0, 0, 7)).unwrap();
        node.mine(MineOptions::default()).unwrap().unwrap();
        assert!(node.account(&SOMEBODY).unwrap().has_code());
        assert!(node.revert(point).unwrap());
        assert!(!node.account(&SOMEBODY).unwrap().has_code());
        assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::ZERO);
        assert_eq!(node.layer().commitment(), before, "{}", layer.name);
        assert!(!node.revert(point).unwrap());
        assert_eq!(node.view().head.number(), 0);
    }
}

/// The undo records back to a snapshot are kept beyond the usual number, which is 4 here.
#[test]
fn a_snapshot_can_be_gone_back_to_from_far_away_on_every_layer() {
    for layer in LAYERS {
        let dir = tempfile::tempdir().unwrap();
        let mut on_disk = in_memory(layer.name);
        (on_disk.datadir, on_disk.kv) = (Some(dir.path().join("d")), Some("mdbx".into()));
        for (mut options, kept) in [(on_disk, 4), (in_memory(layer.name), 60)] {
            options.chain_options.undo_blocks = 4;
            let node = node_in(DataDir::open(&options, true).unwrap());
            let mine = |nonces: std::ops::Range<u64>| {
                for nonce in nonces {
                    node.submit(transfer(&node, 0, nonce, ETHER)).unwrap();
                    node.mine(MineOptions::default()).unwrap().unwrap();
                }
                node.layer().commitment()
            };
            let at_7 = mine(0..7);
            let point = node.snapshot().unwrap();
            mine(7..43);
            assert!(node.revert(point).unwrap(), "{}", layer.name);
            assert_eq!(node.layer().commitment(), at_7, "{}", layer.name);
            assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(7 * ETHER));
            mine(7..60);
            let mut records = 0;
            let counted = node.view().db.each_undo_record(&mut |_| {
                records += 1;
                Ok(())
            });
            counted.unwrap();
            assert_eq!(records, kept, "{}", layer.name);
            if kept == 60 {
                node.reset().unwrap();
                assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::ZERO, "{}", layer.name);
            }
        }
    }
}

/// Sets a slot of an account by hand.
fn set_slot(node: &Node, slot: U256, value: u64) {
    node.cheat(&[SOMEBODY], |cheats| cheats.set_slot(SOMEBODY, slot, U256::from(value))).unwrap();
}

#[test]
fn a_change_by_hand_is_seen_at_once_and_stays() {
    for layer in LAYERS {
        let node = node(layer.name);
        let slot = U256::from(3);
        set_balance(&node, SOMEBODY, U256::from(9));
        set_slot(&node, slot, 4);
        for _ in 0..2 {
            assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(9));
            assert_eq!(node.view().state().slot(&SOMEBODY, &slot).unwrap(), U256::from(4));
            node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
        }
        let genesis = node.view().state_at(0).unwrap().unwrap();
        assert_eq!(genesis.account(&SOMEBODY).unwrap(), None);
        assert_eq!(genesis.slot(&SOMEBODY, &slot).unwrap(), U256::ZERO);
    }
}

/// A copy for each change would take a time that grows with the square of their number. Views that a request holds, and
/// snapshots, keep what they had.
#[test]
fn many_changes_by_hand_are_not_copied() {
    let node = node("raw");
    let slot = U256::from(3);
    let read = |view: &View| view.state().slot(&SOMEBODY, &slot).unwrap();
    set_slot(&node, slot, 1);
    let cheats = Arc::as_ptr(&node.view().cheats);
    set_slot(&node, slot, 2);
    assert_eq!(Arc::as_ptr(&node.view().cheats), cheats);
    let held = node.view();
    set_slot(&node, slot, 3);
    assert_eq!([&held, &node.view()].map(|view| read(view)), [2u64, 3].map(U256::from));
    drop(held);
    let point = node.snapshot().unwrap();
    set_slot(&node, slot, 4);
    assert!(node.revert(point).unwrap());
    assert_eq!(read(&node.view()), U256::from(3));
}

/// An account may have slots and nothing else, in its own block and in later ones.
#[test]
fn slots_stay_when_the_rest_of_their_account_is_emptied_by_hand() {
    for layer in LAYERS {
        let node = node(layer.name);
        let slot = U256::from(3);
        set_slot(&node, slot, 4);
        for balance in [0, 7, 0] {
            set_balance(&node, SOMEBODY, U256::from(balance));
            for _ in 0..2 {
                let found = node.view().state().slot(&SOMEBODY, &slot).unwrap();
                assert_eq!(found, U256::from(4), "{} {balance}", layer.name);
                node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
            }
        }
    }
}

/// Blocks of a layer without a commitment have the same hash if they only differ in their changes by hand.
#[test]
fn the_state_before_a_block_in_the_place_of_another_one() {
    let addresses = [1, 2].map(Address::repeat_byte);
    for layer in LAYERS {
        let node = node(layer.name);
        let time = node.clock().now() + 1000;
        for changed in addresses {
            let point = node.snapshot().unwrap();
            set_balance(&node, changed, U256::from(7));
            node.clock().set_next(time);
            node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
            assert_eq!(node.balance(&changed).unwrap(), U256::from(7), "{}", layer.name);
            let genesis = node.view().state_at(0).unwrap().unwrap();
            for address in addresses {
                assert_eq!(genesis.account(&address).unwrap(), None, "{} {address}", layer.name);
            }
            assert!(node.revert(point).unwrap());
        }
    }
}

/// Under a layer without a commitment the second block has the hash of the first one.
#[test]
fn a_snapshot_is_gone_with_its_block() {
    for layer in LAYERS {
        let node = node(layer.name);
        let time = node.clock().now() + 1000;
        let mine = |balance: u64| {
            set_balance(&node, SOMEBODY, U256::from(balance));
            node.clock().set_next(time);
            node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
        };
        let genesis = node.snapshot().unwrap();
        mine(1);
        let point = node.snapshot().unwrap();
        node.rollback(1).unwrap();
        mine(2);
        assert!(!node.revert(point).unwrap(), "{}", layer.name);
        assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(2), "{}", layer.name);
        assert!(node.revert(genesis).unwrap(), "{}", layer.name);
        assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::ZERO, "{}", layer.name);
    }
}

/// A block without changes by hand may have the hash of one that was taken back and had some.
#[test]
fn a_block_has_no_changes_by_hand_but_its_own() {
    for layer in LAYERS {
        let node = node(layer.name);
        let time = node.clock().now() + 1000;
        let point = node.snapshot().unwrap();
        set_balance(&node, SOMEBODY, U256::from(7));
        let mine = || {
            node.clock().set_next(time);
            let header = node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
            node.db().by_hand(&header.hash()).unwrap().accounts.len()
        };
        assert_eq!(mine(), 1, "{}", layer.name);
        assert!(node.revert(point).unwrap());
        assert_eq!(mine(), 0, "{}", layer.name);
    }
}

#[test]
fn slots_of_earlier_blocks_are_told_from_those_of_today() {
    let [changing, late, early, gone] = [1, 2, 3, 4].map(Address::repeat_byte);
    for layer in LAYERS {
        let node = node(layer.name);
        let mine = |changes: &[(Address, u64, u64)]| {
            node.cheat(&[changing, late, early, gone], |cheats| {
                for (address, slot, value) in changes {
                    let balance = U256::from(u8::from(*address != gone || *value > 0));
                    cheats.account_mut(*address).balance = balance;
                    cheats.set_slot(*address, U256::from(*slot), U256::from(*value));
                }
            })
            .unwrap();
            node.mine(MineOptions::EVEN_EMPTY).unwrap().unwrap();
        };
        mine(&[(changing, 1, 1), (late, 1, 0), (early, 1, 1), (gone, 1, 1)]);
        mine(&[(changing, 2, 2), (gone, 1, 0)]);
        mine(&[(changing, 1, 0), (late, 1, 1)]);
        mine(&[(changing, 2, 0), (gone, 2, 1)]);
        mine(&[(changing, 3, 3)]);
        let (yes, no) = (true, false);
        let view = node.view();
        for (address, expected) in [
            (changing, [no, yes, yes, yes, no, yes]),
            (late, [no, no, no, yes, yes, yes]),
            (early, [no, yes, yes, yes, yes, yes]),
            (gone, [no, yes, no, no, yes, yes]),
        ] {
            let found = [0, 1, 2, 3, 4, 5]
                .map(|number| view.state_at(number).unwrap().unwrap().has_storage(&address));
            assert_eq!(found.map(Result::unwrap), expected, "{} {address}", layer.name);
        }
    }
}
