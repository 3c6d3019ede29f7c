//! Hashed keys: the order in which every layer sees the state.

use crate::{Access, keccak::Inputs};
use alloy_primitives::{Address, B256, U256, keccak256};

/// Keccak-256 of an address: the key of an account.
pub fn hash_address(address: &Address) -> B256 {
    keccak256(address)
}

/// Keccak-256 of a slot's 32 big-endian bytes: the key of a slot within its account.
pub fn hash_slot(slot: &U256) -> B256 {
    keccak256(slot.to_be_bytes::<32>())
}

/// Returns the hash of the key of each access: of its slot, or of its account if it is about that. Hashing many together
/// takes a fraction of the time of hashing each.
pub(crate) fn hash_keys(accesses: &[Access]) -> Vec<B256> {
    let mut hashes = vec![B256::ZERO; accesses.len()];
    Inputs::default().hash_each(&mut hashes, |n, input| match accesses[n].place() {
        (address, None) => input.extend_from_slice(address.as_slice()),
        (_, Some(slot)) => input.extend_from_slice(&slot.to_be_bytes::<32>()),
    });
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_keys_have_the_hashes_that_each_has_alone() {
        let access = |n: u64| {
            let (address, slot) = (Address::left_padding_from(&n.to_be_bytes()), U256::from(n));
            match n % 3 {
                0 => Access::Account(address),
                1 => Access::SlotRead(address, slot),
                _ => Access::SlotWrite(address, slot),
            }
        };
        for count in [0, 1, 2, 9, 2 * Inputs::PORTION as u64 + 5] {
            let accesses: Vec<_> = (0..count).map(access).collect();
            let alone = accesses.iter().map(|access| match access.place() {
                (address, None) => hash_address(&address),
                (_, Some(slot)) => hash_slot(&slot),
            });
            assert_eq!(hash_keys(&accesses), alone.collect::<Vec<_>>());
        }
    }
}
