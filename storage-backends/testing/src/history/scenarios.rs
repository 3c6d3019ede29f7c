//! The known difficult cases, each as a few blocks that can follow any state.

use super::builder::{Builder, Tx, account, code, delegation, value};
use crate::keys::{ADDRESSES, SLOTS, address, slot};
use alloy_primitives::{Address, U256};
use polytrie_state::{Account, SLOTS_A_PIECE};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

type Scenario = fn(&mut Builder);

pub(super) const ALL: &[Scenario] = &[
    nothing,
    no_ops,
    there_and_back,
    zero_writes,
    wipe,
    recreate_in_one_tx,
    recreate_in_one_block,
    recreate_in_the_next_block,
    written_then_destroyed,
    created_then_destroyed,
    created_thrice,
    empty_accounts,
    account_groups,
    account_ladder,
    slot_groups,
    slot_ladder,
    short_leaves,
    pairs,
    storage_emptied_and_filled,
    shared_code,
    delegations,
    extremes,
    everything_gone,
];

/// Numbers of slots of the accounts that are wiped.
const SIZES: [u32; 4] = [0, 1, 17, 200];

fn nothing(b: &mut Builder) {
    b.empty_block("an empty block");
    b.block("a transaction without writes", |_, _| {});
}

fn no_ops(b: &mut Builder) {
    let (contract, absent) = (address(ADDRESSES.pairs[1][0]), address(ADDRESSES.edges[2]));
    b.block("a contract", |rng, tx| contract_of(rng, tx, contract, 5));
    b.block("writes that change nothing", |_, tx| {
        tx.touch(contract);
        for n in 0..5 {
            let value = tx.slot(&contract, &nth_slot(n));
            tx.set_slot(contract, nth_slot(n), value);
        }
        tx.destroy(absent);
    });
}

fn there_and_back(b: &mut Builder) {
    let contract = address(ADDRESSES.pairs[1][1]);
    b.block("a contract", |rng, tx| contract_of(rng, tx, contract, 6));
    let before = b.parent();
    b.block("there", |rng, tx| {
        tx.touch(contract).balance = account(rng).balance;
        for n in 0..3 {
            tx.set_slot(contract, nth_slot(n), value(rng));
        }
        for n in 3..6 {
            tx.set_slot(contract, nth_slot(n), U256::ZERO);
        }
        tx.set_slot(contract, nth_slot(6), U256::ONE);
    });
    b.tx(|_, tx| {
        if let Some(account) = before.account(&contract) {
            tx.set_account(contract, account);
        }
        for n in 0..7 {
            tx.set_slot(contract, nth_slot(n), before.slot(&contract, &nth_slot(n)));
        }
    });
}

fn zero_writes(b: &mut Builder) {
    let (contract, fresh) = (address(ADDRESSES.pairs[2][0]), address(ADDRESSES.pairs[2][1]));
    b.block("zero to slots that are not there", |rng, tx| {
        contract_of(rng, tx, contract, 1);
        tx.set_slot(contract, nth_slot(7), U256::ZERO);
        tx.destroy(fresh);
        tx.create(fresh, None);
        tx.set_slot(fresh, nth_slot(0), U256::ZERO);
    });
    b.block("zero to slots that are not there, nothing else", |_, tx| {
        tx.set_slot(contract, nth_slot(8), U256::ZERO);
    });
    b.block("removed and set again in one block", |_, tx| {
        tx.set_slot(contract, nth_slot(0), U256::ZERO);
    });
    b.tx(|_, tx| tx.set_slot(contract, nth_slot(0), U256::from(7)));
}

fn wipe(b: &mut Builder) {
    for (size, n) in SIZES.into_iter().zip(ADDRESSES.branches[2]) {
        let contract = address(*n);
        b.block(&format!("a contract of {size} slots"), |rng, tx| {
            contract_of(rng, tx, contract, size);
        });
        b.block(&format!("a contract of {size} slots destroyed"), |_, tx| tx.destroy(contract));
    }
}

fn recreate_in_one_tx(b: &mut Builder) {
    for (size, n) in SIZES.into_iter().zip(ADDRESSES.branches[1]) {
        let contract = address(*n);
        b.block(&format!("a contract of {size} slots"), |rng, tx| {
            contract_of(rng, tx, contract, size);
        });
        let before = b.parent();
        b.block(&format!("a contract of {size} slots recreated in one transaction"), |rng, tx| {
            tx.create(contract, Some(&code(rng)));
            // One slot as it was, one changed, one new; the rest remains wiped.
            tx.set_slot(contract, nth_slot(0), before.slot(&contract, &nth_slot(0)));
            tx.set_slot(contract, nth_slot(1), value(rng));
            tx.set_slot(contract, nth_slot(300), value(rng));
        });
        b.block("recreated without slots", |rng, tx| tx.create(contract, Some(&code(rng))));
    }
}

fn recreate_in_one_block(b: &mut Builder) {
    for (size, n) in SIZES.into_iter().zip(ADDRESSES.branches[3]) {
        let contract = address(*n);
        b.block(&format!("a contract of {size} slots"), |rng, tx| {
            contract_of(rng, tx, contract, size);
        });
        let before = b.parent();
        b.block(&format!("a contract of {size} slots recreated in one block"), |_, tx| {
            tx.destroy(contract);
        });
        b.tx(|_, tx| {
            tx.touch(contract).balance = U256::ONE;
            // The same values as before, so that a comparison of values alone finds no change.
            for n in 0..size.min(3) {
                tx.set_slot(contract, nth_slot(n), before.slot(&contract, &nth_slot(n)));
            }
        });
    }
}

fn recreate_in_the_next_block(b: &mut Builder) {
    for (size, n) in SIZES.into_iter().zip(ADDRESSES.branches[0]) {
        let contract = address(*n);
        b.block(&format!("a contract of {size} slots"), |rng, tx| {
            contract_of(rng, tx, contract, size);
        });
        b.block("destroyed", |_, tx| tx.destroy(contract));
        b.block("recreated in the next block", |rng, tx| contract_of(rng, tx, contract, 2));
    }
}

fn written_then_destroyed(b: &mut Builder) {
    let contract = address(ADDRESSES.triples[0][0]);
    b.block("a contract", |rng, tx| contract_of(rng, tx, contract, 17));
    b.block("written, then destroyed", |rng, tx| {
        tx.set_slot(contract, nth_slot(3), value(rng));
        tx.set_slot(contract, nth_slot(40), value(rng));
    });
    b.tx(|_, tx| tx.destroy(contract));
}

fn created_then_destroyed(b: &mut Builder) {
    let contract = address(ADDRESSES.triples[0][1]);
    b.block("gone", |_, tx| tx.destroy(contract));
    b.block("created, then destroyed", |rng, tx| contract_of(rng, tx, contract, 17));
    b.tx(|_, tx| tx.destroy(contract));
}

fn created_thrice(b: &mut Builder) {
    let contract = address(ADDRESSES.triples[0][2]);
    b.block("created, destroyed, created, destroyed, created", |rng, tx| {
        contract_of(rng, tx, contract, 3);
    });
    for _ in 0..2 {
        b.tx(|_, tx| tx.destroy(contract));
        b.tx(|rng, tx| contract_of(rng, tx, contract, 2));
    }
}

fn empty_accounts(b: &mut Builder) {
    let group = ADDRESSES.quads[0].map(address);
    b.block("empty accounts that exist", |_, tx| {
        for address in group {
            tx.set_account(address, Account::default());
        }
    });
    b.block("touched, and removed for being empty", |_, tx| {
        tx.touch(group[0]);
        tx.destroy(group[1]);
        tx.touch(group[2]).balance = U256::ONE;
    });
    b.block("balance to none: still there, or removed", |_, tx| {
        tx.touch(group[2]).balance = U256::ZERO;
        tx.destroy(group[3]);
    });
}

fn account_groups(b: &mut Builder) {
    for group in b.shuffled(&ADDRESSES.groups()[..]).into_iter().take(5) {
        let group = b.shuffled(&group);
        b.block("a group of accounts", |rng, tx| {
            for n in &group {
                contract_of(rng, tx, address(*n), u32::from(n % 3 == 0));
            }
        });
        let (last, rest) = (group[0], &group[1..]);
        b.block("all accounts of a group but one gone", |_, tx| {
            rest.iter().for_each(|n| tx.destroy(address(*n)));
        });
        b.block("the last one of a group gone", |_, tx| tx.destroy(address(last)));
    }
}

fn account_ladder(b: &mut Builder) {
    let ladder = [&ADDRESSES.pairs[0][..], &ADDRESSES.ladder[..]].concat();
    for reverse in [false, true] {
        b.block("a ladder of accounts", |rng, tx| {
            ladder.iter().for_each(|n| tx.set_account(address(*n), account(rng)));
        });
        let mut order = ladder.clone();
        if reverse {
            order.reverse();
        }
        b.empty_block("a ladder of accounts taken down in one block");
        for n in &order[..4] {
            b.tx(|_, tx| tx.destroy(address(*n)));
        }
        for n in &order[4..] {
            b.block("one more step of the ladder gone", |_, tx| tx.destroy(address(*n)));
        }
    }
}

fn slot_groups(b: &mut Builder) {
    let contract = address(ADDRESSES.quads[1][0]);
    for group in b.shuffled(&SLOTS.groups()[..]).into_iter().take(6) {
        let group = b.shuffled(&group);
        b.block("a group of slots", |rng, tx| {
            group.iter().for_each(|n| tx.set_slot(contract, slot(*n), value(rng)));
        });
        b.block("all slots of a group but one zero", |_, tx| {
            group[1..].iter().for_each(|n| tx.set_slot(contract, slot(*n), U256::ZERO));
        });
        b.block("some of them back", |rng, tx| {
            group.iter().step_by(2).for_each(|n| tx.set_slot(contract, slot(*n), value(rng)));
        });
    }
}

fn slot_ladder(b: &mut Builder) {
    let contract = address(ADDRESSES.quads[1][1]);
    let ladder = [&SLOTS.pairs[0][..], &SLOTS.ladder[..]].concat();
    for reverse in [false, true] {
        b.block("a ladder of slots", |_, tx| {
            tx.create(contract, None);
            ladder.iter().for_each(|n| tx.set_slot(contract, slot(*n), U256::ONE));
        });
        let mut order = ladder.clone();
        if reverse {
            order.reverse();
        }
        for n in order {
            b.block("one more step of the ladder zero", |_, tx| {
                tx.set_slot(contract, slot(n), U256::ZERO);
            });
        }
    }
}

/// Values that grow and shrink across the size at which a leaf is embedded in its parent (fewer than 32 bytes).
fn short_leaves(b: &mut Builder) {
    let contract = address(ADDRESSES.quads[1][2]);
    let groups = [&SLOTS.quads[0][..], &SLOTS.triples[0][..], &SLOTS.pairs[1][..]].concat();
    b.block("short leaves", |_, tx| {
        tx.create(contract, None);
        groups.iter().for_each(|n| tx.set_slot(contract, slot(*n), U256::from(1)));
    });
    for value in [0x7fu32, 0x80, 0xff, 0x100, 0x7f, 0xffff_ffff, 1] {
        b.block(&format!("half of the short leaves to {value:#x}"), |rng, tx| {
            for n in groups.iter().filter(|_| rng.random_bool(0.5)) {
                tx.set_slot(contract, slot(*n), U256::from(value));
            }
        });
    }
    b.block("some short leaves gone", |rng, tx| {
        for n in groups.iter().filter(|_| rng.random_bool(0.5)) {
            tx.set_slot(contract, slot(*n), U256::ZERO);
        }
    });
}

/// A leaf split by a neighbouring leaf and merged again, for accounts and slots.
fn pairs(b: &mut Builder) {
    let contract = address(ADDRESSES.quads[2][0]);
    for ([first, second], [left, right]) in ADDRESSES.pairs.into_iter().zip(SLOTS.pairs) {
        b.block("the first of a pair", |rng, tx| {
            tx.destroy(address(second));
            tx.set_account(address(first), account(rng));
            tx.set_slot(contract, slot(right), U256::ZERO);
            tx.set_slot(contract, slot(left), U256::from(3));
        });
        b.block("the second of a pair", |rng, tx| {
            tx.set_account(address(second), account(rng));
            tx.set_slot(contract, slot(right), U256::from(4));
        });
        b.block("the first of a pair gone, the second changed", |rng, tx| {
            tx.destroy(address(first));
            tx.touch(address(second)).balance = account(rng).balance;
            tx.set_slot(contract, slot(left), U256::ZERO);
            tx.set_slot(contract, slot(right), U256::from(5));
        });
        b.block("the one replaced by the other", |rng, tx| {
            tx.destroy(address(second));
            tx.set_account(address(first), account(rng));
            tx.set_slot(contract, slot(right), U256::ZERO);
            tx.set_slot(contract, slot(left), U256::from(6));
        });
    }
}

fn storage_emptied_and_filled(b: &mut Builder) {
    let contract = address(ADDRESSES.quads[2][1]);
    for size in [1, 2, 40] {
        b.block(&format!("{size} slots filled"), |rng, tx| {
            (0..size).for_each(|n| tx.set_slot(contract, nth_slot(n), value(rng)));
        });
        b.block(&format!("{size} slots emptied, one by one"), |_, tx| {
            (0..size).for_each(|n| tx.set_slot(contract, nth_slot(n), U256::ZERO));
        });
    }
    b.block("filled and emptied in one block", |rng, tx| {
        tx.set_slot(contract, nth_slot(0), value(rng));
    });
    b.tx(|_, tx| tx.set_slot(contract, nth_slot(0), U256::ZERO));
}

fn shared_code(b: &mut Builder) {
    let [first, second, ..] = ADDRESSES.quads[2].map(address);
    b.block("two contracts of the same code", |_, tx| {
        tx.create(first, Some(&[0x60, 0x60, 0x60]));
        tx.create(second, Some(&[0x60, 0x60, 0x60]));
    });
    b.block("one of two contracts of the same code gone", |_, tx| tx.destroy(first));
    b.block("and back", |_, tx| tx.create(first, Some(&[0x60, 0x60, 0x60])));
}

fn delegations(b: &mut Builder) {
    let [owner, to, other] = ADDRESSES.triples[1].map(address);
    for target in [Some(to), Some(other), None, Some(to)] {
        b.block(&format!("delegated to {target:?}"), |_, tx| {
            tx.set_code(owner, target.map(|to| delegation(&to)).as_deref());
            tx.touch(owner).nonce += 1;
        });
    }
    b.block("delegated and undelegated in one block", |_, tx| tx.set_code(owner, None));
    b.tx(|_, tx| tx.set_code(owner, Some(&delegation(&other))));
    b.tx(|_, tx| tx.set_code(owner, None));
}

fn extremes(b: &mut Builder) {
    let [a, c, d, e] = ADDRESSES.edges.map(address);
    b.block("the largest of everything", |rng, tx| {
        let largest = Account { nonce: u64::MAX, balance: U256::MAX, ..Account::default() };
        tx.set_account(a, largest);
        tx.set_code(a, Some(&vec![0xfe; 0x6000]));
        tx.set_account(c, Account { nonce: u64::MAX, ..Account::default() });
        tx.set_account(d, Account { balance: U256::from(0x80), ..Account::default() });
        contract_of(rng, tx, e, 2);
        for n in SLOTS.edges {
            tx.set_slot(e, slot(n), U256::MAX);
        }
    });
    b.block("lowest and highest hashes wiped", |_, tx| {
        tx.destroy(a);
        tx.destroy(e);
    });
}

fn everything_gone(b: &mut Builder) {
    b.block("something", |rng, tx| contract_of(rng, tx, address(1), 3));
    let state = b.parent();
    let all: Vec<Address> = b.touched();
    b.block("everything gone", |_, tx| {
        all.iter().filter(|a| state.account(a).is_some()).for_each(|a| tx.destroy(*a));
    });
    b.empty_block("nothing on top of nothing");
    b.block("a first account", |rng, tx| tx.set_account(address(2), account(rng)));
    b.block("a second one", |rng, tx| contract_of(rng, tx, address(3), 20));
}

/// Blocks of thousands of writes.
pub(super) fn wide(b: &mut Builder) {
    const ACCOUNTS: u32 = 3_000;
    const SIZE: u32 = 4_000;
    let contract = address(ADDRESSES.edges[3]);
    b.genesis(|rng, tx| {
        (0..ACCOUNTS).for_each(|n| tx.set_account(address(n), account(rng)));
        tx.create(contract, Some(&code(rng)));
        (0..SIZE).for_each(|n| tx.append_slot(contract, slot(n), value(rng)));
    });
    b.block("thousands of accounts and slots changed", |rng, tx| {
        (0..ACCOUNTS).step_by(2).for_each(|n| tx.set_account(address(n), account(rng)));
        (0..SIZE).step_by(3).for_each(|n| tx.append_slot(contract, slot(n), value(rng)));
        (SIZE..SIZE + 500).for_each(|n| tx.append_slot(contract, slot(n), value(rng)));
    });
    b.block("thousands of accounts and slots gone", |_, tx| {
        (0..ACCOUNTS).filter(|n| n % 3 != 0).for_each(|n| tx.destroy(address(n)));
        (0..SIZE).filter(|n| n % 5 != 0).for_each(|n| {
            tx.append_slot(contract, slot(n), U256::ZERO);
        });
    });
    b.block("a thousand small contracts", |rng, tx| {
        (0..1_000).for_each(|n| contract_of(rng, tx, address(10_000 + n), n % 4));
    });
    b.block("the large contract recreated, the small ones gone", |rng, tx| {
        tx.create(contract, Some(&code(rng)));
        (0..500).for_each(|n| tx.append_slot(contract, slot(2 * n), value(rng)));
        (0..1_000).for_each(|n| tx.destroy(address(10_000 + n)));
    });
}

/// Contracts with more slots than an undo record lists, wiped in all ways.
pub(super) fn large(b: &mut Builder) {
    // More than two pieces, exactly two, and one full piece with one slot more.
    const SIZES: [usize; 3] = [SLOTS_A_PIECE * 5 / 2, SLOTS_A_PIECE * 2, SLOTS_A_PIECE + 1];
    let [first, second, third] = ADDRESSES.triples[1].map(address);
    b.genesis(|rng, tx| {
        for (contract, size) in [first, second, third].into_iter().zip(SIZES) {
            tx.create(contract, Some(&code(rng)));
            (0..size as u32).for_each(|n| tx.append_slot(contract, slot(n), value(rng)));
        }
        (0..50).for_each(|n| tx.set_account(address(n), account(rng)));
    });
    b.block("some slots of large contracts changed", |rng, tx| {
        (0..20).for_each(|n| tx.set_slot(first, slot(n * 100), value(rng)));
        tx.set_slot(second, slot(3), U256::ZERO);
        tx.set_slot(second, slot(1 << 20), value(rng));
    });
    let before = b.parent();
    b.block("two large contracts destroyed, one of them recreated", |rng, tx| {
        (0..10).for_each(|n| tx.set_account(address(n), account(rng)));
        tx.destroy(first);
        tx.create(second, Some(&code(rng)));
        // One slot as it was, one changed, one new.
        tx.set_slot(second, slot(0), before.slot(&second, &slot(0)));
        tx.set_slot(second, slot(1), value(rng));
        tx.set_slot(second, slot(2 << 20), value(rng));
    });
    b.block("changes after the destruction", |rng, tx| {
        tx.set_slot(second, slot(1), U256::ZERO);
        (5..15).for_each(|n| tx.set_account(address(n), account(rng)));
    });
    b.block("recreated in a later block", |rng, tx| contract_of(rng, tx, first, 40));
    b.block("destroyed and recreated in one block", |_, tx| tx.destroy(third));
    b.tx(|rng, tx| contract_of(rng, tx, third, 3));
    b.block("all of them gone", |_, tx| {
        [first, second, third].into_iter().for_each(|n| tx.destroy(n))
    });
    b.block("something after that", |rng, tx| contract_of(rng, tx, third, 20));
}

/// Creates a contract again with `size` slots.
fn contract_of(rng: &mut ChaCha8Rng, tx: &mut Tx, address: Address, size: u32) {
    tx.create(address, Some(&code(rng)));
    for n in 0..size {
        tx.append_slot(address, nth_slot(n), value(rng));
    }
}

/// Returns the `n`-th slot of a contract. The first ones have neighbouring hashes.
fn nth_slot(n: u32) -> U256 {
    let near = [&SLOTS.quads[1][..], &SLOTS.pairs[2][..]].concat();
    slot(near.get(n as usize).copied().unwrap_or(n))
}
