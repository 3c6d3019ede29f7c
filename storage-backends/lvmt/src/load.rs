//! The filling of an empty layer from sorted accounts.

use crate::{
    ACCOUNTS, ENTRIES, EPOCHS, HISTORY, LEAVES, META, SLOTS, TREES, WITNESSES,
    account::AccountState,
    commit::{KeyChange, commit},
    kept::Share,
    key::Key,
    record::slot_value,
    trees::LvmtHead,
};
use polytrie_amt::Setup;
use polytrie_kv::{Batch, Store};
use polytrie_state::{GenesisAccount, Result, clear_tables, in_order_of_hash, write_code};

/// Number of keys of an epoch: a large genesis is loaded in several epochs, so that it takes bounded memory. The
/// commitment depends on it, so it is the same everywhere.
const EPOCH_KEYS: usize = 1 << 17;

/// Bytes of code that are written in one batch.
const CODE_BYTES: usize = 16 << 20;

/// Streams the accounts into the store, in epochs; an account precedes its slots, which may extend into later epochs.
/// The first write empties the tables, so that an interrupted load can be started again. The witnesses of `share` are
/// kept from the first epoch on.
pub(crate) fn load(
    store: &Store,
    setup: &Setup,
    share: Option<Share>,
    accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>>>,
) -> Result<LvmtHead> {
    clear_tables(
        store,
        &[ACCOUNTS, SLOTS, ENTRIES, TREES, LEAVES, EPOCHS, HISTORY, META, WITNESSES],
    )?;
    let mut loading = Loading {
        store,
        setup,
        share,
        head: LvmtHead::empty(setup.height()),
        changes: Vec::new(),
        codes: Batch::new(),
    };
    for account in in_order_of_hash(accounts) {
        let GenesisAccount { hash, account, code, slots } = account?;
        write_code(&mut loading.codes, &account, code.as_ref());
        let state = AccountState { account: Some(account), incarnation: 0 };
        loading.push(KeyChange { key: Key::Account(hash), old: None, value: state.encode() })?;
        for slot in slots {
            let (slot, number) = slot?;
            let key = Key::Slot { account: hash, incarnation: 0, slot };
            loading.push(KeyChange { key, old: None, value: slot_value(&number) })?;
        }
    }
    loading.finish()
}

struct Loading<'a> {
    store: &'a Store,
    setup: &'a Setup,
    share: Option<Share>,
    head: LvmtHead,
    changes: Vec<KeyChange>,
    codes: Batch,
}

impl Loading<'_> {
    fn push(&mut self, change: KeyChange) -> Result<()> {
        self.changes.push(change);
        self.store.engine_write_portion(&mut self.codes, CODE_BYTES)?;
        if self.changes.len() >= EPOCH_KEYS { self.end_epoch() } else { Ok(()) }
    }

    fn end_epoch(&mut self) -> Result<()> {
        let changes = std::mem::take(&mut self.changes);
        let Self { store, setup, share, head, .. } = &*self;
        let mut committed = commit(*store, setup, *share, head, changes, &[], None)?;
        committed.batch.append(&std::mem::take(&mut self.codes));
        self.store.engine_write(&committed.batch)?;
        self.head.apply(committed.update);
        Ok(())
    }

    fn finish(mut self) -> Result<LvmtHead> {
        if !self.changes.is_empty() {
            self.end_epoch()?;
        } else if !self.codes.is_empty() {
            self.store.engine_write(&self.codes)?;
        }
        Ok(self.head)
    }
}
