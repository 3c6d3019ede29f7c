//! The tests that every state layer must pass.
//!
//! A layer's `tests/suite.rs` is a factory and one line:
//!
//! ```ignore
//! #[derive(Debug)]
//! struct Raw;
//!
//! impl LayerFactory for Raw {
//!     fn tables(&self) -> Vec<Table> { RawLayer::TABLES.to_vec() }
//!     fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> { Ok(RawLayer::open(store)?) }
//!     fn kind(&self) -> CommitmentKind { CommitmentKind::None }
//! }
//!
//! polytrie_testing::layer_suite!(Raw);
//! ```
//!
//! Every test draws its blocks from a seed, which it prints when it fails; `POLYTRIE_TEST_SEED` sets it. The
//! functions panic when the layer is wrong, so they are useful in tests only.

mod check;
mod compare;
mod crash;
mod determinism;
mod driver;
mod forks;
mod groups;
mod histories;
mod load;
mod proofs;
mod readers;
mod reads;
mod reopen;
mod sessions;
mod undo;
mod wipes;

pub use check::{clean_layers_check_clean, damage_is_found};
pub use compare::{assert_reads, assert_state, dump};
pub use crash::{
    a_crash_around_a_change_of_branch_is_survived, a_crash_at_any_write_is_survived,
    a_failed_write_poisons,
};
pub use determinism::{flushing_changes_nothing, threads_change_nothing, variants_change_nothing};
pub use driver::{Driver, Ground, Row, STORE_IN_STEP};
pub use forks::forks_go_their_own_way;
pub use groups::groups_equal_blocks;
pub use histories::{adversarial_history, random_histories, wide_history};
pub use load::{
    a_large_contract_is_loaded_in_portions, an_interrupted_load_is_repeated,
    loading_equals_building,
};
pub use proofs::{proofs_hold, tampered_proofs_do_not};
pub use readers::{
    a_block_ends_with_few_requests, a_block_is_undone_with_few_requests,
    gathered_state_is_read_once, readers_keep_their_block,
};
pub use reads::a_failed_read_is_survived;
pub use reopen::{reopened_in_memory, reopened_on_disk};
pub use sessions::{
    announced_state_is_read_ahead, calls_out_of_order_are_refused, discarded_blocks_leave_nothing,
    finished, hints_change_nothing, sessions_see_their_own_writes,
    splitting_transactions_changes_nothing, write_sets_are_minimal,
};
pub use undo::{
    blocks_are_undone, damaged_undo_records_are_refused, other_blocks_follow_an_undo,
    undo_records_tell_the_past,
};
pub use wipes::{
    a_crash_on_the_way_back_is_survived, damaged_pieces_are_refused,
    large_contracts_are_wiped_and_come_back,
};

use alloy_primitives::{Address, U256};
use polytrie_kv::{Engine, MemoryEngine, Store, Table};
use polytrie_state::{
    Account, Commitment, CommitmentKind, Proof, ProofError, StateError, StateLayer,
};
use std::{fmt::Debug, sync::Arc};

/// The facts about a layer that the suite needs.
pub trait LayerFactory: Debug + Sync {
    /// Returns the tables that the layer needs in its store.
    fn tables(&self) -> Vec<Table>;

    /// Opens the layer. An empty store is an empty state.
    ///
    /// # Errors
    ///
    /// If the store fails, or its rows are damaged.
    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError>;

    /// Returns the kind of its commitments: by default [`CommitmentKind::StateRoot`], which is compared with the oracle's.
    fn kind(&self) -> CommitmentKind {
        CommitmentKind::StateRoot
    }

    /// Whether commitment and rows depend on the state alone. If not, they depend on the blocks that led to it, and
    /// are compared with those of a run of the same blocks.
    fn state_decides_rows(&self) -> bool {
        true
    }

    /// Returns the amount of damage that `check` can find.
    fn scrub(&self) -> Scrub {
        Scrub::AnyByte
    }

    /// Creates an empty engine that exists as long as a test holds a handle of it. A slow engine should be used in
    /// the tests of its own crate only.
    fn memory(&self, tables: &[Table]) -> Arc<dyn Engine> {
        let _ = tables;
        Arc::new(MemoryEngine::new())
    }

    /// Returns the function that verifies the layer's proofs; `None` if the layer makes no proofs.
    fn verifier(&self) -> Option<Verifier> {
        None
    }

    /// Returns the layer with other parameters (cache sizes, workers) that must not change any result.
    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        Vec::new()
    }
}

/// The amount of damage that a layer's `check` can find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scrub {
    /// Any changed byte in any row, any missing row and any additional row.
    AnyByte,
    /// Only rows that cannot be decoded, because a wrong value cannot be recognised.
    Undecodable,
}

/// Verifies a proof of an account and slots. Returns the proven values, slots in the order of the request.
pub type Verifier = fn(&Commitment, &Address, &[U256], &Proof) -> Result<Proven, ProofError>;

/// The result of a proof: the account, if it exists, and the value of each slot.
pub type Proven = (Option<Account>, Vec<U256>);

/// Makes a test of each part of the suite. The argument is an expression that gives a
/// [`suite::LayerFactory`](crate::suite::LayerFactory).
#[macro_export]
macro_rules! layer_suite {
    ($factory:expr) => {
        $crate::layer_suite! { $factory =>
            a_crash_around_a_change_of_branch_is_survived,
            a_crash_at_any_write_is_survived,
            a_crash_on_the_way_back_is_survived,
            a_failed_read_is_survived,
            a_failed_write_poisons,
            adversarial_history,
            an_interrupted_load_is_repeated,
            blocks_are_undone,
            calls_out_of_order_are_refused,
            clean_layers_check_clean,
            damage_is_found,
            damaged_pieces_are_refused,
            damaged_undo_records_are_refused,
            discarded_blocks_leave_nothing,
            flushing_changes_nothing,
            forks_go_their_own_way,
            groups_equal_blocks,
            hints_change_nothing,
            large_contracts_are_wiped_and_come_back,
            loading_equals_building,
            other_blocks_follow_an_undo,
            proofs_hold,
            random_histories,
            readers_keep_their_block,
            reopened_in_memory,
            reopened_on_disk,
            sessions_see_their_own_writes,
            splitting_transactions_changes_nothing,
            tampered_proofs_do_not,
            threads_change_nothing,
            undo_records_tell_the_past,
            variants_change_nothing,
            wide_history,
            write_sets_are_minimal,
        }
    };
    ($factory:expr => $($test:ident),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                $crate::suite::$test(&$factory);
            }
        )+
    };
}
