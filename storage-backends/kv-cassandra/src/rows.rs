//! Rows on their way to the cluster, several in each request.

use crate::{
    Cluster, buckets::bucket, cluster::Link, flight::Flight, head::cql, schema::Statements,
};
use polytrie_kv::{KvError, Table};
use scylla::{
    serialize::row::SerializeRow,
    statement::{
        batch::{Batch, BatchType},
        prepared::PreparedStatement,
    },
    value::MaybeUnset,
};
use std::{mem, sync::Arc};

/// Rows of one request at most, and bytes after which it is sent. As it comes, Cassandra refuses a batch above 50 KiB unless it is
/// of one row, and counts more than we do.
const ROWS: usize = 64;
const BYTES: usize = 16 << 10;
/// Bytes of a row beside its key and value: the names of store and table, and numbers.
const OVERHEAD: usize = 120;

/// A row of `records`: store, table, bucket, key, version, value, write time.
pub(crate) type Put = (Arc<str>, &'static str, Vec<u8>, Vec<u8>, i64, MaybeUnset<Vec<u8>>, i64);

/// What a version made of a key; without a value, that it removed it.
pub(crate) fn put(
    store: &Arc<str>,
    table: Table,
    key: &[u8],
    version: u64,
    value: Option<&[u8]>,
) -> (usize, Put) {
    let bytes = key.len() + value.map_or(0, <[u8]>::len);
    // Null would be a deletion of what never was.
    let value = value.map_or(MaybeUnset::Unset, |value| MaybeUnset::Set(value.to_vec()));
    let bucket = bucket(table, key).to_vec();
    let version = cql(version);
    (bytes, (Arc::clone(store), table.name, bucket, key.to_vec(), version, value, version))
}

/// What `drop_key` takes: write time, store, table, bucket, key.
pub(crate) type DropKey = (i64, Arc<str>, &'static str, Vec<u8>, Vec<u8>);

/// Everything of a key that was written up to a version.
pub(crate) fn drop_key(
    store: &Arc<str>,
    table: Table,
    key: &[u8],
    version: u64,
) -> (usize, DropKey) {
    let bucket = bucket(table, key).to_vec();
    // It is a range, from the key to the key.
    (2 * key.len(), (cql(version), Arc::clone(store), table.name, bucket, key.to_vec()))
}

/// Rows for one statement, sent in groups.
///
/// A group goes to one node, which hands on what it does not have itself: for each row that is more than sending it where it
/// belongs, but what takes the time of a node is the number of requests.
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

    /// Takes a row with about so many bytes.
    ///
    /// # Errors
    ///
    /// Those of rows before it.
    pub(crate) fn add(&mut self, (bytes, row): (usize, R)) -> Result<(), KvError> {
        let bytes = bytes + OVERHEAD;
        // A large row goes alone.
        if !self.rows.is_empty() && self.bytes + bytes > BYTES {
            self.send()?;
        }
        self.rows.push(row);
        self.bytes += bytes;
        if self.rows.len() >= ROWS { self.send() } else { Ok(()) }
    }

    /// Returns when all rows are there.
    ///
    /// # Errors
    ///
    /// The first one.
    pub(crate) fn finish(mut self) -> Result<(), KvError> {
        if !self.rows.is_empty() {
            self.send()?;
        }
        self.flight.finish(&mut |()| {})
    }

    fn send(&mut self) -> Result<(), KvError> {
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
) -> Result<(), KvError> {
    if let [row] = rows.as_slice() {
        let request = || link.session.execute_unpaged(statement, row);
        return link.persist(action, request).await.map(drop);
    }
    let mut batch = Batch::new(BatchType::Unlogged);
    batch.set_is_idempotent(true);
    rows.iter().for_each(|_| batch.append_statement(statement.clone()));
    link.persist(action, || link.session.batch(&batch, &rows)).await.map(drop)
}
