//! Tools to test the state layers of polytrie.
//!
//! - [`Oracle`]: the state as a sorted map, with the state root computed from all of it, and the same as a layer
//!   ([`OracleLayer`]). Slow and simple; never for users.
//! - [`History`]: random blocks, difficult on purpose, over [`keys`] with hashes that share prefixes.
//! - [`suite`]: the tests that every layer must pass. A layer's `tests/suite.rs` implements [`suite::LayerFactory`] and
//!   calls [`layer_suite!`].
//! - [`follow`]: further tests for layers that have files of their own, which commit separately; [`follow_suite!`].
//! - [`AlteredLayer`]: a layer that differs from another one in a few methods, to see the effect of a mistake.
//! - [`fixture`]: real data that is too large for the repository; [`for_each_json`]: the files in its archives.

mod altered;
mod fixtures;
pub mod follow;
mod history;
pub mod keys;
mod oracle;
pub mod suite;

pub use altered::{AlterLayer, AlterSession, AlteredLayer, AlteredSession, InSessions};
pub use fixtures::{fixture, for_each_in_suite, for_each_json};
pub use history::{Block, History, Seed};
pub use oracle::{Oracle, OracleAccount, OracleLayer, verify_eip1186};
pub use polytrie_kv_testing::skipped;
