//! Apache Cassandra behind the key-value seam of polytrie: the rows of a store on a replicated, sharded cluster.
//!
//! Cassandra has no snapshots and no transactions over several partitions, so this crate makes both. Each row carries
//! the number of the batch that wrote it, and a view reads the newest row up to its own number. A batch is first logged
//! whole in the cluster, then committed by one compare-and-set on the row of the store, and only then applied; the next
//! opening for writing applies a batch that was committed and not applied. `README.md` has the protocol with each
//! failure and its outcome.

mod access;
mod address;
mod buckets;
mod cluster;
mod deleted;
mod engine;
mod error;
mod fence;
mod flight;
mod head;
mod log;
mod open;
mod refusal;
mod rows;
mod scan;
mod schema;
mod view;
mod write;

pub use access::{Access, Login};
pub use address::{ADDRESS_FILE, DEFAULT_KEYSPACE};
pub use cluster::Cluster;
pub use engine::CassandraEngine;
pub use open::CassandraOptions;

#[cfg(test)]
mod tests;
