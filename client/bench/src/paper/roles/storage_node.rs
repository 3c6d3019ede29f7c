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
        let mut bag = HashSet::default();
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
                sizes.add(proofs, &address, &slots, levels, &mut bag)?;
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

/// Bytes of each series.
#[derive(Debug, Default)]
struct Sizes {
    separate: u64,
    bagged: u64,
    compacted: u64,
}

impl Sizes {
    /// Adds the proof of an account and its slots. `bag` holds the nodes that are in the block's bag already.
    fn add(
        &mut self,
        proofs: &dyn Prove,
        address: &Address,
        slots: &[U256],
        levels: usize,
        bag: &mut HashSet<String>,
    ) -> Result<()> {
        let proof = proofs.prove(address, slots)?.proof;
        let mut add = |level: usize, node: &str| {
            // A node is hexadecimal: two digits a byte, after 0x.
            let bytes = (node.len() / 2).saturating_sub(1) as u64;
            self.separate += bytes;
            if bag.insert(node.to_owned()) {
                self.bagged += bytes;
                self.compacted += if level < levels { 0 } else { bytes };
            }
        };
        for (level, node) in nodes(&proof["accountProof"]).enumerate() {
            add(level, node);
        }
        for slot in proof["storageProof"].as_array().into_iter().flatten() {
            // Only levels of the account trie are left out.
            nodes(&slot["proof"]).for_each(|node| add(usize::MAX, node));
        }
        Ok(())
    }
}

fn nodes(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}
