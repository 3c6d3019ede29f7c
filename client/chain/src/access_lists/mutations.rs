//! Access lists that are wrong in one place.

#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_eips::eip7928::{
    AccountChanges, BalanceChange, BlockAccessIndex, CodeChange, NonceChange, SlotChanges,
    StorageChange,
};
use alloy_primitives::{Address, U256};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A change that makes a list wrong. The table has its name for the message of a failed test.
type Mutation = fn(&mut Vec<AccountChanges>, &mut Draw<'_>);

const MUTATIONS: [(&str, Mutation); 16] = [
    ("an account missing", |list, draw| {
        list.remove(draw.below(list.len()));
    }),
    ("an account twice", |list, draw| {
        let at = draw.below(list.len());
        list.insert(at, list[at].clone());
    }),
    ("two accounts in the other order", |list, draw| {
        let at = draw.below(list.len() - 1);
        list.swap(at, at + 1);
    }),
    ("an account more", |list, draw| {
        let address = Address::from(draw.0.random::<[u8; 20]>());
        let at = list.partition_point(|account| account.address < address);
        list.insert(at, AccountChanges::new(address));
    }),
    ("another account", |list, draw| {
        let at = draw.below(list.len());
        list[at].address.0.0[19] ^= 1;
    }),
    ("a slot that is read missing", |list, draw| {
        let account = draw.account(list, |account| !account.storage_reads.is_empty());
        account.storage_reads.remove(draw.below(account.storage_reads.len()));
    }),
    ("a slot more that is read", |list, draw| {
        let account = draw.account(list, |_| true);
        let slot = U256::from(draw.0.random::<u64>() | 1 << 63);
        let at = account.storage_reads.partition_point(|other| *other < slot);
        account.storage_reads.insert(at, slot);
    }),
    ("slots that are read in the other order", |list, draw| {
        let account = draw.account(list, |account| account.storage_reads.len() > 1);
        account.storage_reads.reverse();
    }),
    ("a slot that is changed among those that are read", |list, draw| {
        let account = draw.account(list, |account| !account.storage_changes.is_empty());
        let slot = account.storage_changes.remove(draw.below(account.storage_changes.len())).slot;
        let at = account.storage_reads.partition_point(|other| *other < slot);
        account.storage_reads.insert(at, slot);
    }),
    ("a slot that is read among those that are changed", |list, draw| {
        let account = draw.account(list, |account| !account.storage_reads.is_empty());
        let slot = account.storage_reads.remove(draw.below(account.storage_reads.len()));
        let change = StorageChange::new(draw.index(), U256::from(draw.0.random::<u8>()));
        let at = account.storage_changes.partition_point(|other| other.slot < slot);
        account.storage_changes.insert(at, SlotChanges::new(slot, vec![change]));
    }),
    ("a changed slot without a change", |list, draw| {
        let account = draw.account(list, |account| !account.storage_changes.is_empty());
        let at = draw.below(account.storage_changes.len());
        account.storage_changes[at].changes.clear();
    }),
    ("a change missing", |list, draw| {
        let account = draw.account(list, AccountChanges::has_changes);
        draw.in_changes(account, &mut |changes, at| changes.remove(at));
    }),
    ("a change twice", |list, draw| {
        let account = draw.account(list, AccountChanges::has_changes);
        draw.in_changes(account, &mut |changes, at| changes.repeat(at));
    }),
    ("another value", |list, draw| {
        let account = draw.account(list, AccountChanges::has_changes);
        let bit = draw.below(8);
        draw.in_changes(account, &mut |changes, at| changes.flip(at, bit));
    }),
    ("another place", |list, draw| {
        let account = draw.account(list, AccountChanges::has_changes);
        let index = draw.index();
        draw.in_changes(account, &mut |changes, at| changes.set_index(at, index));
    }),
    ("a change more", |list, draw| {
        let account = draw.account(list, |_| true);
        let (index, value) = (draw.index(), draw.0.random::<u8>());
        let at =
            account.balance_changes.partition_point(|change| change.block_access_index < index);
        account.balance_changes.insert(at, BalanceChange::new(index, U256::from(value)));
    }),
];

/// Returns the list with one mutation, and the mutation's name.
pub(super) fn mutate(
    list: &[AccountChanges],
    transactions: usize,
    random: &mut ChaCha8Rng,
) -> (&'static str, Vec<AccountChanges>) {
    loop {
        let mut mutated = list.to_vec();
        let (name, mutation) = MUTATIONS[random.random_range(0..MUTATIONS.len())];
        mutation(&mut mutated, &mut Draw(random, transactions));
        if mutated != list {
            return (name, mutated);
        }
    }
}

/// Source of random choices for the mutations.
struct Draw<'a>(&'a mut ChaCha8Rng, usize);

impl Draw<'_> {
    fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    /// Returns a random place in the block, or one that the block does not have.
    fn index(&mut self) -> BlockAccessIndex {
        let beyond = [self.1 as u64 + 2, u64::from(u32::MAX), u64::MAX];
        match self.0.random_range(0..10) {
            0 => BlockAccessIndex::new(beyond[self.below(3)]),
            _ => BlockAccessIndex::new(self.0.random_range(0..self.1 as u64 + 2)),
        }
    }

    /// Returns a random account for which `fits` holds.
    fn account<'l>(
        &mut self,
        list: &'l mut [AccountChanges],
        fits: impl Fn(&AccountChanges) -> bool,
    ) -> &'l mut AccountChanges {
        let mut fitting: Vec<_> = list.iter_mut().filter(|account| fits(account)).collect();
        fitting.swap_remove(self.below(fitting.len()))
    }

    /// Calls `what` on a random change of an account.
    fn in_changes(
        &mut self,
        account: &mut AccountChanges,
        what: &mut dyn FnMut(&mut dyn Changes, usize),
    ) {
        let mut lists: Vec<&mut dyn Changes> = Vec::new();
        let slots = account.storage_changes.iter_mut();
        lists.extend(slots.map(|slot| &mut slot.changes as &mut dyn Changes));
        lists.push(&mut account.balance_changes);
        lists.push(&mut account.nonce_changes);
        lists.push(&mut account.code_changes);
        lists.retain(|list| list.count() > 0);
        let list = lists.swap_remove(self.below(lists.len()));
        let at = self.below(list.count());
        what(list, at);
    }
}

/// Changes of one kind.
trait Changes {
    fn count(&self) -> usize;
    fn remove(&mut self, at: usize);
    fn repeat(&mut self, at: usize);
    fn set_index(&mut self, at: usize, index: BlockAccessIndex);
    fn flip(&mut self, at: usize, bit: usize);
}

macro_rules! changes {
    ($kind:ty, $flip:expr) => {
        impl Changes for Vec<$kind> {
            fn count(&self) -> usize {
                self.len()
            }
            fn remove(&mut self, at: usize) {
                self.remove(at);
            }
            fn repeat(&mut self, at: usize) {
                self.insert(at, self[at].clone());
            }
            fn set_index(&mut self, at: usize, index: BlockAccessIndex) {
                self[at].block_access_index = index;
            }
            fn flip(&mut self, at: usize, bit: usize) {
                let flip: fn(&mut $kind, usize) = $flip;
                flip(&mut self[at], bit);
            }
        }
    };
}

changes!(StorageChange, |change, bit| change.new_value ^= U256::ONE << bit);
changes!(BalanceChange, |change, bit| change.post_balance ^= U256::ONE << bit);
changes!(NonceChange, |change, bit| change.new_nonce ^= 1 << bit);
changes!(CodeChange, |change, bit| {
    let mut code = change.new_code.to_vec();
    match code.last_mut() {
        Some(byte) => *byte ^= 1 << bit,
        None => code.push(1 << bit),
    }
    change.new_code = code.into();
});

/// Returns damaged RLP of a list: it does not decode, or decodes to another list.
pub(super) fn damage(rlp: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut damaged = rlp.to_vec();
    let at = random.random_range(0..rlp.len());
    match random.random_range(0..4) {
        0 => damaged.truncate(at),
        1 => damaged.insert(at, random.random()),
        2 => damaged.push(random.random()),
        _ => *damaged.get_mut(at).unwrap() ^= 1 << random.random_range(0..8),
    }
    damaged
}
