//! The suite that every layer passes, with trees of height 4, so that keys lie on many levels: without proofs and with proofs
//! on request, with the witnesses of all keys kept, and with those of a shard.

#![expect(clippy::unwrap_used, reason = "tests")]

use polytrie_amt::{PowersOfTau, Setup};
use polytrie_kv::{Store, Table};
use polytrie_lvmt::{LvmtLayer, LvmtOptions, Proofs, verify};
use polytrie_state::{CommitmentKind, StateError, StateLayer};
use polytrie_testing::{
    layer_suite,
    suite::{self, LayerFactory, Verifier},
};
use std::sync::{Arc, LazyLock};

static SETUP: LazyLock<Arc<Setup>> = LazyLock::new(|| {
    let powers = PowersOfTau::insecure_dev(4, "suite").unwrap();
    Arc::new(Setup::derive(&powers, true, &mut |_| {}))
});

#[derive(Debug)]
struct Lvmt(LvmtOptions);

/// The layer with these proofs.
fn with(proofs: Proofs) -> Lvmt {
    Lvmt(LvmtOptions { proofs, ..LvmtOptions::default() })
}

impl LayerFactory for Lvmt {
    fn tables(&self) -> Vec<Table> {
        LvmtLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(LvmtLayer::open(store, SETUP.clone(), self.0)?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::Own
    }

    fn state_decides_rows(&self) -> bool {
        false
    }

    fn verifier(&self) -> Option<Verifier> {
        // A client of a shard cannot prove every key.
        matches!(self.0.proofs, Proofs::OnRequest | Proofs::Full).then_some(
            |of, address, slots, proof| {
                verify(SETUP.key(), of, proof)?.state.answer(address, slots)
            },
        )
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        // Kept witnesses are additional rows.
        if self.0.proofs.are_kept() {
            return Vec::new();
        }
        vec![Box::new(Self(LvmtOptions { proofs: Proofs::None, read_ahead: true }))]
    }
}

layer_suite!(with(Proofs::OnRequest));

mod full {
    use super::*;

    layer_suite!(with(Proofs::Full));
}

/// The rows of a shard are a part of those of all keys: all other rows do not depend on the number of shards. The
/// tests of the crate request the proofs of all keys from all shards.
mod shard {
    use super::*;

    const SHARD: Proofs = Proofs::Shard { shard: 3, of: 4 };

    layer_suite! { with(SHARD) =>
        a_crash_at_any_write_is_survived,
        a_crash_on_the_way_back_is_survived,
        adversarial_history,
        blocks_are_undone,
        clean_layers_check_clean,
        damage_is_found,
        discarded_blocks_leave_nothing,
        forks_go_their_own_way,
        groups_equal_blocks,
        large_contracts_are_wiped_and_come_back,
        loading_equals_building,
        other_blocks_follow_an_undo,
        reopened_on_disk,
        threads_change_nothing,
    }
}

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&with(Proofs::None));
}

#[test]
fn announced_records_are_read_ahead() {
    let options = LvmtOptions { read_ahead: true, ..LvmtOptions::default() };
    suite::announced_state_is_read_ahead(&Lvmt(options));
}

#[test]
fn gathered_records_are_read_once() {
    suite::gathered_state_is_read_once(&with(Proofs::None));
}

#[test]
fn a_block_ends_with_few_requests() {
    for proofs in [Proofs::None, Proofs::Full] {
        // The entries of some levels, the trees below level 1, and the kept nodes. An entry that the block itself fills has one
        // below it, which is read alone.
        suite::a_block_ends_with_few_requests(&with(proofs), 15);
    }
}
