//! A random genesis and random blocks.

use super::builder::{Builder, NO_CODE, Tx, account, code, delegation, value};
use crate::{
    keys::{ADDRESSES, SLOTS, address, slot},
    oracle::Oracle,
};
use alloy_primitives::{Address, U256};
use polytrie_state::Account;
use rand::{RngExt, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

/// Adds a genesis of `count` accounts: every fourth with slots, some with code, some empty.
pub(super) fn genesis(builder: &mut Builder, count: u32) {
    let known = ADDRESSES.all();
    builder.genesis(|rng, tx| {
        for n in 0..count {
            let address =
                address(known.get(n as usize * 7 % known.len().max(1)).copied().unwrap_or(n));
            // The known addresses repeat after a while.
            let address =
                if tx.account(&address).is_some() { self::address(1 << 27 | n) } else { address };
            match rng.random_range(0..8) {
                0 => tx.set_account(address, Account::default()),
                1..4 => tx.set_account(address, account(rng)),
                4..6 => tx.create(address, Some(&code(rng))),
                _ => {
                    tx.create(address, Some(&code(rng)));
                    for _ in 0..rng.random_range(1..20) {
                        tx.set_slot(address, any_slot(rng), value(rng));
                    }
                }
            }
        }
    });
}

/// Adds a block of up to six transactions with random operations on random accounts.
pub(super) fn block(builder: &mut Builder) {
    let parent = builder.parent();
    builder.empty_block("random");
    for _ in 0..builder.rng.random_range(0..=6) {
        builder.tx(|rng, tx| {
            for _ in 0..rng.random_range(1..=8) {
                let address = any_address(rng);
                operation(rng, tx, &parent, address);
            }
        });
    }
}

fn operation(rng: &mut ChaCha8Rng, tx: &mut Tx, parent: &Oracle, address: Address) {
    match rng.random_range(0..24) {
        0..4 => {
            let balance = account(rng).balance;
            tx.touch(address).balance = balance;
        }
        4 => {
            let touched = tx.touch(address);
            touched.nonce = touched.nonce.saturating_add(1);
        }
        // Nothing changes, but the account is in the writes.
        5 => {
            tx.touch(address);
        }
        6..8 => tx.set_code(address, Some(&code(rng))),
        8 => tx.set_code(address, Some(&delegation(&any_address(rng)))),
        9 => tx.set_code(address, None),
        10..17 => {
            for _ in 0..rng.random_range(1..12) {
                slot_write(rng, tx, parent, address);
            }
        }
        17..19 => tx.destroy(address),
        19..21 => {
            tx.create(address, Some(&code(rng)));
            for _ in 0..rng.random_range(0..5) {
                tx.set_slot(address, any_slot(rng), value(rng));
            }
        }
        // An empty account that exists, as before EIP-161.
        21 => {
            let touched = tx.touch(address);
            *touched = Account { nonce: 0, balance: U256::ZERO, code_hash: NO_CODE };
        }
        // The account as it was before the block.
        22 => {
            if let (Some(before), Some(_)) = (parent.account(&address), tx.account(&address)) {
                tx.set_account(address, before);
            }
        }
        _ => clear(tx, parent, address),
    }
}

fn slot_write(rng: &mut ChaCha8Rng, tx: &mut Tx, parent: &Oracle, address: Address) {
    let slot = any_slot(rng);
    let value = match rng.random_range(0..10) {
        // Removed, or absent before as well.
        0..3 => U256::ZERO,
        // The value it already has.
        3 => tx.slot(&address, &slot),
        // The value it had before the block.
        4 => parent.slot(&address, &slot),
        _ => value(rng),
    };
    tx.set_slot(address, slot, value);
}

/// Sets every slot that the account had before the block to zero, one by one.
fn clear(tx: &mut Tx, parent: &Oracle, address: Address) {
    for slot in SLOTS.all().into_iter().map(slot) {
        if !parent.slot(&address, &slot).is_zero() {
            tx.set_slot(address, slot, U256::ZERO);
        }
    }
}

fn any_address(rng: &mut ChaCha8Rng) -> Address {
    address(any_of(rng, &ADDRESSES.groups()))
}

fn any_slot(rng: &mut ChaCha8Rng) -> U256 {
    slot(any_of(rng, &SLOTS.groups()))
}

/// Returns a key of a random group, so that small groups occur as often as large ones.
fn any_of(rng: &mut ChaCha8Rng, groups: &[Vec<u32>]) -> u32 {
    groups.choose(rng).and_then(|group| group.choose(rng)).copied().unwrap_or_default()
}
