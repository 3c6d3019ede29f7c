//! The seam of polytrie: the interface of a state layer.
//!
//! A layer keeps accounts, slots and code and authenticates them with a [`Commitment`]. It is opened on a
//! [`Store`](polytrie_kv::Store) and driven block by block:
//!
//! ```text
//! layer.begin(parent) ──► Session          reads see the block's own writes
//!   session.hint(access)                   from the EVM's hooks; may be dropped, never changes a result
//!   session.apply(writes of one tx)        in order; the layer may work on them at once
//!   session.finish() ──► Outcome           commitment, write batch, undo record; nothing durable yet
//! outcome.write(store)                     one atomic write: layer, chain, undo record and head together
//! layer.undo(record) ──► Outcome           one block back
//! ```
//!
//! If a session or an outcome is dropped, the block never happened.
//!
//! [`Session`] is the same for every layer: it merges the writes of the block's transactions into one [`WriteSet`]
//! (deduplicated, sorted by hashed key, free of no-ops, "wipe, then set"), so that no layer can get that wrong. A new
//! layer implements three traits: [`StateLayer`], [`LayerSession`] for a block in progress, and [`StateReader`] for
//! reads beside it.

mod access;
mod account;
pub mod ahead;
mod bag;
mod beside;
mod byte_cache;
mod cache;
mod capabilities;
mod check;
mod code;
mod commitment;
mod counters;
mod error;
pub mod flat;
pub mod foreign;
mod fork;
mod genesis;
mod group;
pub mod keccak;
mod keys;
mod known;
mod layer;
mod layer_session;
mod lifecycle;
mod outcome;
mod pending;
mod preimages;
mod proof;
mod proposal;
mod reader;
mod records;
mod scan;
mod sealed;
mod session;
mod stamp;
mod steps;
mod trail;
mod undo;
mod wiped;
mod witness;
mod writes;

pub use access::Access;
pub use account::Account;
pub use bag::{BagCounts, BagNode, TakeNode};
pub use beside::{Beside, WAKE_UP};
pub use byte_cache::ByteCache;
pub use capabilities::{Bags, PastWitnesses, Prove, Prune, Pruned, Stateless, UndoWalk};
pub use check::{AccountWalk, CheckReport, count_rows};
pub use code::{CODE_TABLE, read_code, read_codes, write_code, write_codes};
pub use commitment::{Commitment, CommitmentKind};
pub use counters::{ACCOUNT_BYTES, CallCount, SLOT_BYTES, SessionCounters};
pub use error::{Result, StateError};
pub use fork::Fork;
pub use genesis::{GenesisAccount, GenesisAccounts, GenesisSlots, clear_tables, in_order_of_hash};
pub use group::{Group, GroupedBlock};
pub use keys::{hash_address, hash_slot};
pub use known::{HasStorage, Known};
pub use layer::{AccountVisit, BlockRef, HashVisit, Horizon, SlotVisit, StateLayer};
pub use layer_session::{LayerSession, Wants};
pub use lifecycle::Lifecycle;
pub use outcome::Outcome;
pub use pending::PendingOutcome;
pub use preimages::{
    PREIMAGE_TABLE, put_address_preimage, put_preimages, put_slot_preimage, read_address, read_slot,
};
pub use proof::{Proof, ProofError, Proven, SlotClaim, SlotProof};
pub use proposal::{HeadChange, Proposal, Unaccepted};
pub use reader::StateReader;
pub use records::{PlainRecords, UndoRecords};
pub use scan::{any_slot, each_row, scan, visit_over};
pub use sealed::{seal, unseal};
pub use session::{Finished, FinishedLater, Session};
pub use stamp::{STAMP_FILE, Stamp, StampError};
pub use steps::{UndoSteps, undo_in_steps};
pub use trail::{Lacking, Mark, TRAIL_TABLE, Trail, TrailStep};
pub use undo::{UndoRecord, undo_writes_in_full};
pub use wiped::{SLOTS_A_PIECE, WIPED_TABLE, has_wiped, remove_wiped};
pub use witness::{Touched, Witness};
pub use writes::{AccountChange, AccountWrite, SlotWrite, TxWrites, WriteSet};
