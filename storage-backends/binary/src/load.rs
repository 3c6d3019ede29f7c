//! The filling of an empty layer from sorted accounts, in bounded memory.
//!
//! Accounts come in the order of one hash, and the tree has the order of another. So their leaves are first written
//! by stem, in portions, and the engine sorts them. Then all stems are read in order, and the tree is built from left
//! to right.

use crate::{
    ACCOUNTS, FLAT, GROUPS, GroupDepth, SLOTS, STEMS, Stem,
    key::AccountKeys,
    layer::NAME,
    leaves::{LeafChanges, address_of, slot_of, stored_code},
    node::Node,
    stem::Leaves,
    tree::Tree,
    update::{Update, changed_stems, put_stems},
};
use alloy_primitives::{B256, Bytes};
use polytrie_kv::{Batch, KeyRange, Read, Store};
use polytrie_state::{
    GenesisAccount, PREIMAGE_TABLE, Result, StateError, clear_tables, corrupt, in_order_of_hash,
    read_code, scan, write_code,
};
use std::{mem, ops::ControlFlow};

/// Number of leaves that are gathered before they are written.
const LEAVES: usize = 100_000;
/// Bytes of flat rows that are gathered before they are written.
const BYTES: usize = 16 << 20;
/// Number of stems that are added to the tree at once.
const STEMS_AT_ONCE: usize = 100_000;

/// Loads the accounts; returns the node at the root. The first write empties the tables, where an earlier attempt may
/// have left rows. The addresses and slots must be among the preimages.
///
/// # Errors
///
/// If the accounts come with an error or out of order, or the store fails; [`StateError::Unsupported`] if the
/// preimage of an address or a slot is missing.
pub(crate) fn load(
    store: &Store,
    group_depth: GroupDepth,
    accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>>>,
) -> Result<Node> {
    clear_tables(store, &[ACCOUNTS, SLOTS, GROUPS, STEMS])?;
    let mut loader = Loader { store, batch: Batch::new(), leaves: LeafChanges::default() };
    for account in in_order_of_hash(accounts) {
        loader.account(account?)?;
    }
    loader.write()?;
    build(store, group_depth)
}

struct Loader<'a> {
    store: &'a Store,
    /// The flat rows and code that are not written yet.
    batch: Batch,
    leaves: LeafChanges,
}

impl Loader<'_> {
    fn account(&mut self, account: GenesisAccount<'_>) -> Result<()> {
        let GenesisAccount { hash, account, code, slots } = account;
        expect_known(self.store, "account", &hash)?;
        let keys = AccountKeys::new(address_of(self.store, &hash)?);
        FLAT.put_account(&mut self.batch, &hash, &account);
        write_code(&mut self.batch, &account, code.as_ref());
        let code = match code {
            Some(code) => code,
            None if account.has_code() => self.code_of_another(&account.code_hash)?,
            None => Default::default(),
        };
        self.leaves.set_account(&keys, &account, &code)?;
        for slot in slots {
            let (slot, number) = slot?;
            expect_known(self.store, "slot", &slot)?;
            FLAT.put_slot(&mut self.batch, &hash, &slot, &number);
            self.leaves.set_slot(&keys, &slot_of(self.store, &slot)?, &number);
            self.write_portion()?;
        }
        self.write_portion()
    }

    /// Returns code that came with another account. Where that one is in the portion that is gathered, the portion is
    /// written first.
    fn code_of_another(&mut self, code_hash: &B256) -> Result<Bytes> {
        if let Some(code) = read_code(self.store, code_hash)? {
            return Ok(code);
        }
        self.write()?;
        stored_code(self.store, code_hash)
    }

    fn write_portion(&mut self) -> Result<()> {
        if self.leaves.count() >= LEAVES || self.batch.byte_len() >= BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes the gathered leaves and rows. Stems of earlier portions are read again.
    fn write(&mut self) -> Result<()> {
        let mut batch = mem::take(&mut self.batch);
        let changes = mem::take(&mut self.leaves).into_sorted();
        let stems = changed_stems(self.store, &changes, |stem, leaves| (stem, leaves))?;
        put_stems(&mut batch, &stems);
        Ok(self.store.engine_write(&batch)?)
    }
}

fn expect_known(rows: &dyn Read, what: &str, hash: &B256) -> Result<()> {
    if rows.get(PREIMAGE_TABLE, hash.as_slice())?.is_some() {
        return Ok(());
    }
    Err(StateError::Unsupported {
        layer: NAME,
        reason: format!(
            "has keys made of addresses and slots, and the {what} with the hash {hash} is known by its hash only; fill the directory that it comes from with --preimages, which keeps addresses and slots beside their hashes"
        ),
    })
}

/// Builds the tree over all stored stems.
fn build(store: &Store, group_depth: GroupDepth) -> Result<Node> {
    let tree = Tree { rows: store, cache: None, group_depth };
    let mut root = Node::Empty;
    let mut next = Vec::new();
    loop {
        let mut portion: Vec<(Stem, Option<B256>)> = Vec::new();
        scan(store, STEMS, KeyRange::from(&next), |key, row| {
            let stem = stem_of(key)?;
            portion.push((stem, Leaves::decode(&stem, row)?.hash(&stem)));
            let is_full = portion.len() == STEMS_AT_ONCE;
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let Some((last, _)) = portion.last() else { return Ok(root) };
        next = [&last.0[..], &[0]].concat();
        let update = Update::of_hashes(tree, &root, &portion)?;
        let mut batch = Batch::new();
        update.write(&mut batch);
        store.engine_write(&batch)?;
        root = update.root;
    }
}

/// Decodes the key of a stem's row.
///
/// # Errors
///
/// If it is not a stem.
pub(crate) fn stem_of(key: &[u8]) -> Result<Stem> {
    key.try_into()
        .map(Stem)
        .map_err(|_| corrupt!("a key of {} bytes in {}, expected 31", key.len(), STEMS.name))
}
