//! The roots of a block's receipts and transactions. The leaves are hashed together.

use alloy_consensus::{
    ReceiptEnvelope,
    proofs::{calculate_receipt_root, ordered_trie_root_encoded},
};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{B256, Bytes, keccak256};
use alloy_rlp::Encodable;
use alloy_trie::{HashBuilder, Nibbles, nodes::LeafNodeRef, root::adjust_index_for_rlp};
use polytrie_state::keccak::Inputs;

/// Number of leaves that are hashed together: few enough for their bytes to stay in the processor's cache.
const PORTION: usize = 128;
/// Bytes of a leaf above which it is hashed alone: hardly any other leaf has as many blocks, and logs and calls may take any
/// room.
const LONG: usize = 4 << 10;
/// Length of a value from which on its leaf is hashed. The parent of a shorter leaf holds it whole.
const HASHED: usize = 32;

/// Computes the same root as [`calculate_receipt_root`].
pub(super) fn receipts_root(receipts: &[ReceiptEnvelope]) -> B256 {
    if receipts.len() < 2 {
        return calculate_receipt_root(receipts);
    }
    // Each holds a bloom, so none is short.
    ordered_root(receipts.len(), |index, value| receipts[index].encode_2718(value))
}

/// Computes the root of transactions in the form of EIP-2718. Their bytes are not decoded.
pub fn transactions_root(transactions: &[Bytes]) -> B256 {
    if transactions.len() < 2 || transactions.iter().any(|tx| tx.len() < HASHED) {
        return ordered_trie_root_encoded(transactions);
    }
    ordered_root(transactions.len(), |index, value| value.extend_from_slice(&transactions[index]))
}

/// Computes the root of a trie of `count` values, at least two, under their indices. `encode` appends a value, which has at
/// least [`HASHED`] bytes. The leaves are hashed together, since they are most of the work.
fn ordered_root(count: usize, encode: impl Fn(usize, &mut Vec<u8>)) -> B256 {
    // The keys are the encoded indices, in their own order.
    let order: Vec<usize> = (0..count).map(|place| adjust_index_for_rlp(place, count)).collect();
    let keys: Vec<_> =
        order.iter().map(|index| Nibbles::unpack(alloy_rlp::encode(index))).collect();
    // A leaf begins behind the first nibble in which its key differs from both neighbours.
    let depth = |place: usize| {
        let alike = |other: Option<&Nibbles>| {
            other.map_or(0, |other| other.common_prefix_length(&keys[place]))
        };
        let before = place.checked_sub(1).and_then(|before| keys.get(before));
        1 + alike(before).max(alike(keys.get(place + 1)))
    };
    let mut trie = HashBuilder::default();
    let (mut inputs, mut value, mut hashes) =
        (Inputs::default(), Vec::<u8>::new(), [B256::ZERO; PORTION]);
    for first in (0..count).step_by(PORTION) {
        let places = first..count.min(first + PORTION);
        inputs.clear();
        for (tag, place) in (0..).zip(places.clone()) {
            value.clear();
            encode(order[place], &mut value);
            let rest = keys[place].slice(depth(place)..);
            let alone = |leaf: &[u8]| (leaf.len() > LONG).then(|| keccak256(leaf));
            let leaf = LeafNodeRef::new(&rest, &value);
            if let Some(hash) = inputs.add_unless(tag, alone, |out| leaf.encode(out)) {
                hashes[tag as usize] = hash;
            }
        }
        inputs.hash_all(|tag, hash| hashes[tag as usize] = hash);
        for (place, hash) in places.zip(hashes) {
            trie.add_branch(keys[place].slice(..depth(place)), hash, false);
        }
    }
    trie.root()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{Eip658Value, Receipt, TxType};
    use alloy_primitives::{Address, Log};

    /// The keys change their length at 1, 128 and 256.
    #[test]
    fn it_is_the_root_of_the_leaves_one_by_one() {
        let log = |number: usize| {
            let len = if number % 50 == 7 { LONG + number } else { number % 200 };
            let data = Bytes::from(vec![7_u8; len]);
            Log::new_unchecked(Address::repeat_byte(7), vec![B256::repeat_byte(1)], data)
        };
        let receipt = |number: usize| {
            let receipt = Receipt {
                status: Eip658Value::Eip658(!number.is_multiple_of(7)),
                cumulative_gas_used: 21_000 * number as u64,
                logs: (0..number % 4).map(|_| log(number)).collect(),
            };
            let types = [TxType::Legacy, TxType::Eip1559, TxType::Eip4844];
            ReceiptEnvelope::from_typed(types[number % 3], receipt)
        };
        let receipts: Vec<_> = (0..400).map(receipt).collect();
        for count in (0..20).chain(126..132).chain(255..260).chain([400]) {
            let some = &receipts[..count];
            assert_eq!(receipts_root(some), calculate_receipt_root(some), "{count} receipts");
        }
    }

    #[test]
    fn transactions_may_have_any_bytes() {
        let transaction = |number: usize| {
            let len = if number % 70 == 9 { LONG + number } else { HASHED + number % 150 };
            Bytes::from(vec![number as u8; len])
        };
        let mut all: Vec<_> = (0..300).map(transaction).collect();
        for count in (0..20).chain(126..132).chain(255..260).chain([300]) {
            let some = &all[..count];
            assert_eq!(transactions_root(some), ordered_trie_root_encoded(some), "{count}");
        }
        all[77] = Bytes::new();
        assert_eq!(transactions_root(&all), ordered_trie_root_encoded(&all));
    }
}
