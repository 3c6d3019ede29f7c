//! Reads at one block, unaffected by later blocks.

use crate::{
    FLAT, GroupDepth, Reads, STEMS, key::AccountKeys, node::Node, state::View, tree::Tree,
};
use alloy_primitives::{Address, U256};
use polytrie_kv::{Read, Snapshot};
use polytrie_state::{Access, Account, Result, StateReader, hash_address, hash_slot};

/// A reader at the block at which its snapshot was taken.
#[derive(Debug)]
pub(crate) struct BinaryReader {
    pub(crate) rows: Snapshot,
    /// The node at the root of the tree in these rows.
    pub(crate) root: Node,
    group_depth: GroupDepth,
    reads: Reads,
}

impl BinaryReader {
    /// Creates a reader of a snapshot.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    pub(crate) fn new(rows: Snapshot, group_depth: GroupDepth, reads: Reads) -> Result<Self> {
        let root = Tree { rows: &rows, cache: None, group_depth }.root()?;
        Ok(Self { rows, root, group_depth, reads })
    }

    /// Returns the tree in these rows.
    pub(crate) const fn tree(&self) -> Tree<'_> {
        Tree { rows: &self.rows, cache: None, group_depth: self.group_depth }
    }

    const fn view(&self) -> View<'_> {
        View { tree: self.tree(), root: &self.root, reads: self.reads }
    }
}

impl StateReader for BinaryReader {
    polytrie_state::code_from!(rows);

    fn account(&self, address: &Address) -> Result<Option<Account>> {
        self.view().account(address, &hash_address(address))
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256> {
        self.view().slot((address, &hash_address(address)), (slot, &hash_slot(slot)))
    }

    fn has_storage(&self, address: &Address) -> Result<bool> {
        FLAT.has_slots(&self.rows, &hash_address(address))
    }

    fn gathers(&self) -> bool {
        self.rows.gathers()
    }

    fn gather(&self, accesses: &[Access]) -> Result<()> {
        if self.reads == Reads::Flat {
            return FLAT.look_at(&self.rows, accesses);
        }
        let stems = accesses.iter().map(|access| {
            let (address, slot) = access.place();
            let keys = AccountKeys::new(address);
            slot.map_or(keys.header, |slot| keys.slot(&slot).stem)
        });
        let there = self.tree().look_at(&self.root, stems)?;
        let keys: Vec<&[u8]> = there.iter().map(|stem| &stem.0[..]).collect();
        self.rows.get_many(STEMS, &keys)?;
        Ok(())
    }
}
