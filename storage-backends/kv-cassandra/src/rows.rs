//! Rows that are sent to the cluster, several in each request.

use crate::{
    Cluster, buckets::bucket, cluster::Link, flight::Flight, head::cql, schema::Statements,
};
use polytrie_kv::{Result, Table};
use scylla::{
    serialize::row::SerializeRow,
    statement::{
        batch::{Batch, BatchType},
        prepared::PreparedStatement,
    },
    value::MaybeUnset,
};
use std::{mem, sync::Arc};

/// Most rows of one request, and bytes from which it is sent. By default Cassandra refuses a batch above 50 KiB unless
/// it has one row, and counts more bytes than this code does.
const ROWS: usize = 64;
const BYTES: usize = 16 << 10;
/// Bytes of a row beside its key and value: the names of store and table, and numbers.
const OVERHEAD: usize = 120;

/// A row of `records`: store, table, bucket, key, version, value, write time.
pub(crate) type Put = (Arc<str>, &'static str, Vec<u8>, Vec<u8>, i64, MaybeUnset<Vec<u8>>, i64);

/// Makes the row of a key at a version, and its size in bytes; without a value it says that the version removed the
/// key.
pub(crate) fn put(
    store: &Arc<str>,
    table: Table,
    key: &[u8],
    version: u64,
    value: Option<&[u8]>,
) -> (usize, Put) {
    let bytes = key.len() + value.map_or(0, <[u8]>::len);
    // Null would be stored as the deletion of a value that never existed.
    let value = value.map_or(MaybeUnset::Unset, |value| MaybeUnset::Set(value.to_vec()));
    let bucket = bucket(table, key).to_vec();
    let version = cql(version);
    (bytes, (Arc::clone(store), table.name, bucket, key.to_vec(), version, value, version))
}

/// The values of a `drop_key` statement: write time, store, table, bucket, key.
pub(crate) type DropKey = (i64, Arc<str>, &'static str, Vec<u8>, Vec<u8>);

/// Makes the removal of all rows of a key up to a version, and its size in bytes.
pub(crate) fn drop_key(
    store: &Arc<str>,
    table: Table,
    key: &[u8],
    version: u64,
) -> (usize, DropKey) {
    let bucket = bucket(table, key).to_vec();
    // The size has the key twice, because the removal is a range.
    (2 * key.len(), (cql(version), Arc::clone(store), table.name, bucket, key.to_vec()))
}

/// Rows for one statement, sent in groups.
///
/// A group goes to one node, which forwards the rows that it does not have itself. That is more work a row than sending
/// each to its own node, but the time of a node goes by the number of requests.
pub(crate) struct Groups<'a, R> {
    cluster: &'a Cluster,
    action: &'static str,
    statement: fn(&Statements) -> &PreparedStatement,
    flight: Flight<'a, ()>,
    rows: Vec<R>,
    bytes: usize,
}

impl<'a, R: SerializeRow + Send + Sync + 'static> Groups<'a, R> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        action: &'static str,
        statement: fn(&Statements) -> &PreparedStatement,
    ) -> Self {
        let flight = Flight::new(cluster);
        Self { cluster, action, statement, flight, rows: Vec::new(), bytes: 0 }
    }

    /// Adds a row of about so many bytes. May send a group.
    ///
    /// # Errors
    ///
    /// The error of an earlier row.
    pub(crate) fn add(&mut self, (bytes, row): (usize, R)) -> Result<()> {
        let bytes = bytes + OVERHEAD;
        // A large row is sent alone.
        if !self.rows.is_empty() && self.bytes + bytes > BYTES {
            self.send()?;
        }
        self.rows.push(row);
        self.bytes += bytes;
        if self.rows.len() >= ROWS { self.send() } else { Ok(()) }
    }

    /// Sends the rows that are left, and waits until all are written.
    ///
    /// # Errors
    ///
    /// The error of the first group that fails.
    pub(crate) fn finish(mut self) -> Result<()> {
        if !self.rows.is_empty() {
            self.send()?;
        }
        self.flight.finish(&mut |()| {})
    }

    fn send(&mut self) -> Result<()> {
        let (rows, bytes) = (mem::take(&mut self.rows), mem::take(&mut self.bytes));
        let (link, action, statement) = (self.cluster.link(), self.action, self.statement);
        let request = async move { send(&link, action, statement(&link.statements), rows).await };
        self.flight.push(bytes, request, &mut |()| {})
    }
}

async fn send<R: SerializeRow>(
    link: &Link,
    action: &'static str,
    statement: &PreparedStatement,
    rows: Vec<R>,
) -> Result<()> {
    if let [row] = rows.as_slice() {
        let request = || link.session.execute_unpaged(statement, row);
        return link.persist(action, request).await.map(drop);
    }
    let mut batch = Batch::new(BatchType::Unlogged);
    batch.set_is_idempotent(true);
    rows.iter().for_each(|_| batch.append_statement(statement.clone()));
    link.persist(action, || link.session.batch(&batch, &rows)).await.map(drop)
}
