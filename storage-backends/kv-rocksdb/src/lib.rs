//! RocksDB behind the key-value seam of polytrie.
//!
//! A log-structured merge tree: writes cost little whatever the size of the state, reads cost more than those of a
//! B+tree that fits in memory. It is a separate crate because it needs libclang and a C++ build of several minutes;
//! only the feature `rocksdb` of the client compiles it.

mod engine;
mod error;
mod open;
mod view;

pub use engine::RocksEngine;
pub use open::RocksOptions;

#[cfg(test)]
mod tests;
