//! Counts of the bytes that a storage node sends: a witness for each key, or one bag for a block.

use super::{Counted, Course, loads::Key, walk::walk};
use crate::{BenchError, Comparison, Result};
use alloy_primitives::{
    Address, U256,
    map::{AddressMap, HashSet},
};
use polytrie_state::Prove;
use serde_json::Value;

/// Series: each account and slot with its own path.
pub(in crate::paper) const SEPARATE: &str = "each by itself";
/// Series: each node of a block once.
pub(in crate::paper) const BAGGED: &str = "bagged";
/// Series: a bag without the levels that the receiver holds.
pub(in crate::paper) const COMPACTED: &str = "bagged and compacted";

pub(super) fn count(base: &Comparison, course: &Course, levels: usize) -> Result<Vec<Counted>> {
    let (mut sizes, mut transactions) = (Sizes::default(), 0_u64);
    walk(base, course, (0, 1), &mut |turn| {
        let Some(proofs) = turn.layer.proofs() else {
            return Err(BenchError::Wrong(format!("`{}` makes no proofs", turn.layer.name())));
        };
        let mut bags = Bags::default();
        for loads in turn.loads {
            let mut accounts: AddressMap<Vec<U256>> = AddressMap::default();
            for key in loads.keys() {
                let (Key::Account(address) | Key::Slot(address, _)) = key;
                let slots = accounts.entry(*address).or_default();
                if let Key::Slot(_, slot) = key {
                    slots.push(*slot);
                }
            }
            for (address, slots) in accounts {
                sizes.add(proofs, &address, &slots, levels, &mut bags)?;
            }
            transactions += 1;
        }
        Ok(())
    })?;
    let each = |bytes: u64| vec![bytes as f64 / transactions.max(1) as f64];
    let counted = |name: &str, bytes| Counted { variant: name.to_owned(), values: each(bytes) };
    Ok(vec![
        counted(SEPARATE, sizes.separate),
        counted(BAGGED, sizes.bagged),
        counted(COMPACTED, sizes.compacted),
    ])
}

/// Nodes that are in the bags of a block already.
#[derive(Debug, Default)]
struct Bags {
    whole: HashSet<String>,
    compacted: HashSet<String>,
}

/// Bytes of each series.
#[derive(Debug, Default)]
struct Sizes {
    separate: u64,
    bagged: u64,
    compacted: u64,
}

impl Sizes {
    /// Adds the proof of an account and its slots to the sizes and to the bags of the block.
    fn add(
        &mut self,
        proofs: &dyn Prove,
        address: &Address,
        slots: &[U256],
        levels: usize,
        bags: &mut Bags,
    ) -> Result<()> {
        let proof = proofs.prove(address, slots)?.proof;
        let mut add = |node: &str, is_left_out: bool| {
            // A node is hexadecimal: two digits a byte, after 0x.
            let bytes = (node.len() / 2).saturating_sub(1) as u64;
            self.separate += bytes;
            if bags.whole.insert(node.to_owned()) {
                self.bagged += bytes;
            }
            if !is_left_out && bags.compacted.insert(node.to_owned()) {
                self.compacted += bytes;
            }
        };
        let path: Vec<_> = nodes(&proof["accountProof"]).collect();
        for (level, node) in path.iter().enumerate() {
            // The last node holds what the client read. It is sent at any level, as in the authors' storage node.
            add(node, level < levels && level + 1 < path.len());
        }
        for slot in proof["storageProof"].as_array().into_iter().flatten() {
            // Only levels of the account trie are left out.
            nodes(&slot["proof"]).for_each(|node| add(node, false));
        }
        Ok(())
    }
}

fn nodes(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_state::{Proof, StateError};
    use serde_json::json;

    /// Two accounts below one root: the path of 1 has three nodes, that of 2 ends at the second level.
    struct Two;

    impl Prove for Two {
        fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof, StateError> {
            let path = match address.0[19] {
                1 => json!(["0x000000", "0x1111", "0x22"]),
                _ => json!(["0x000000", "0x3333"]),
            };
            let of_slot = json!({ "proof": ["0x44444444"] });
            let storage: Vec<_> = slots.iter().map(|_| of_slot.clone()).collect();
            let proof = json!({ "accountProof": path, "storageProof": storage });
            Ok(Proof { layer: String::new(), proof })
        }
    }

    #[test]
    fn the_end_of_each_path_is_sent_whatever_the_receiver_holds() {
        let sizes = |levels: usize, slots: &[U256]| {
            let (mut sizes, mut bags) = (Sizes::default(), Bags::default());
            for account in [1, 2] {
                let address = Address::with_last_byte(account);
                sizes.add(&Two, &address, slots, levels, &mut bags).unwrap();
            }
            [sizes.separate, sizes.bagged, sizes.compacted]
        };
        assert_eq!(sizes(0, &[]), [11, 8, 8]);
        assert_eq!(sizes(1, &[]), [11, 8, 5]);
        assert_eq!(sizes(2, &[]), [11, 8, 3]);
        assert_eq!(sizes(9, &[]), [11, 8, 3]);
        // Paths of slots stay whole.
        assert_eq!(sizes(9, &[U256::ZERO]), [19, 12, 7]);
    }
}
