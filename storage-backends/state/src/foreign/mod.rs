//! What layers have in common whose commitment lives in a store of its own, which commits by itself, as one over a published
//! crate does: flat rows in the chain's store, and the same rows under other keys in that one.

mod keys;
mod proof;

pub use keys::{Changes, Key, Row, changed, current, key_of, slot_key, sorter};
pub use proof::{Way, proof_keys, prove, verify};
