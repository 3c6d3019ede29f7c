//! What the state layers of polytrie are tested with.
//!
//! - [`Oracle`]: the state as a sorted map, the state root computed from all of it, and the same as a layer
//!   ([`OracleLayer`]). Slow and obvious; never for users.
//! - [`History`]: random blocks, hard on purpose, over [`keys`] whose hashes begin alike.
//! - [`suite`]: what every layer must pass. A layer's `tests/suite.rs` implements [`suite::LayerFactory`] and
//!   calls [`layer_suite!`].
//! - [`follow`]: what a layer must pass as well that has files of its own, which commit by themselves; [`follow_suite!`].
//! - [`AlteredLayer`]: another layer in all but a few methods, to see what becomes of a mistake.
//! - [`fixture`]: real data that is too large for the repository; [`for_each_json`]: what is in its archives.

mod altered;
mod fixtures;
pub mod follow;
mod history;
pub mod keys;
mod oracle;
pub mod suite;

pub use altered::{AlterLayer, AlterSession, AlteredLayer, AlteredSession};
pub use fixtures::{fixture, for_each_in_suite, for_each_json};
pub use history::{Block, History, Seed};
pub use oracle::{Oracle, OracleAccount, OracleLayer, verify_eip1186};
pub use polytrie_kv_testing::skipped;
