//! The fixed tables that all stores of a keyspace share, and the statements on them.
//!
//! ```text
//! heads    store                                 ──► owner, epoch, version, writer, parts, floor, cleared, format
//! batches  (store, version, writer), part        ──► part of a batch that was written down, see `log.rs`
//! buckets  store, (tbl, bucket)                  ──► nothing: the partitions of `records` that there may be
//! records  (store, tbl, bucket), key, version    ──► value; without one the key was removed
//! ```
//!
//! The columns in parentheses decide which nodes have the row. Versions of a key stand together, the newest first.
//! Every write has its version as write time, so that repeating it, or doing it late, changes nothing. `heads` is
//! written by compare-and-set only.

use scylla::{
    client::session::Session,
    errors::{ExecutionError, PrepareError},
    statement::{Consistency, Statement, prepared::PreparedStatement},
};
use std::time::Duration;

/// Replicas of each row in a keyspace that is created here, if the cluster has as many nodes.
const REPLICAS: usize = 3;
/// Time within which a table must be made. If the statement is sent again while it is under way, it goes to a node that may
/// not know the table yet and makes another one of that name: nodes cannot agree on the two.
const MAKING: Duration = Duration::from_secs(60);

/// Creates the keyspace and the tables if they do not exist and `create` is set.
pub(crate) async fn expect(
    session: &Session,
    keyspace: &str,
    create: bool,
) -> Result<(), ExecutionError> {
    // Creating them again, though they exist, would cost an agreement of all nodes.
    if !create || exists(session, keyspace).await? {
        return Ok(());
    }
    let nodes = session.get_cluster_state().get_nodes_info().len();
    let replicas = REPLICAS.min(nodes.max(1));
    let statements = [
        format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'replication_factor': {replicas}}}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.heads (store text PRIMARY KEY, owner text, epoch bigint, \
             version bigint, writer bigint, parts int, floor bigint, cleared bigint, format int)"
        ),
        // A removed batch that comes back is never read, so its removal need not be remembered for long.
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.batches (store text, version bigint, writer bigint, part int, \
             changes blob, PRIMARY KEY ((store, version, writer), part)) WITH gc_grace_seconds = 10800"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.buckets (store text, tbl text, bucket blob, \
             PRIMARY KEY (store, tbl, bucket))"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.records (store text, tbl text, bucket blob, key blob, \
             version bigint, value blob, PRIMARY KEY ((store, tbl, bucket), key, version)) \
             WITH CLUSTERING ORDER BY (key ASC, version DESC)"
        ),
    ];
    for statement in statements {
        let mut statement = Statement::new(statement);
        statement.set_request_timeout(Some(MAKING));
        session.query_unpaged(statement, ()).await?;
    }
    Ok(())
}

/// Whether the last of the tables exists.
async fn exists(session: &Session, keyspace: &str) -> Result<bool, ExecutionError> {
    let statement = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'records'";
    let found = session.query_unpaged(statement, (keyspace,)).await?;
    Ok(found.into_rows_result().is_ok_and(|rows| rows.rows_num() > 0))
}

/// The prepared statements. All but those of `heads` may be repeated.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) head_insert: PreparedStatement,
    pub(crate) head_update: PreparedStatement,
    /// Reads the head after the last compare-and-set, including one that is not finished.
    pub(crate) head_read: PreparedStatement,
    /// Reads the head after the last compare-and-set that was confirmed, or a newer one.
    pub(crate) floor_read: PreparedStatement,
    pub(crate) batch_put: PreparedStatement,
    pub(crate) batch_read: PreparedStatement,
    pub(crate) batch_drop: PreparedStatement,
    pub(crate) bucket_put: PreparedStatement,
    pub(crate) bucket_read: PreparedStatement,
    pub(crate) get: PreparedStatement,
    pub(crate) scan: PreparedStatement,
    pub(crate) scan_back: PreparedStatement,
    pub(crate) put: PreparedStatement,
    pub(crate) drop_key: PreparedStatement,
    pub(crate) drop_range: PreparedStatement,
}

impl Statements {
    pub(crate) async fn prepare(session: &Session, keyspace: &str) -> Result<Self, PrepareError> {
        const BUCKET: &str = "store = ? AND tbl = ? AND bucket = ?";
        const RANGE: &str = "store = ? AND tbl = ? AND bucket = ? AND key >= ? AND key < ?";
        let prepare = async |text: String| {
            let mut statement = session.prepare(text).await?;
            statement.set_consistency(Consistency::Quorum);
            statement.set_is_idempotent(true);
            Ok::<_, PrepareError>(statement)
        };
        let once = async |text: String| {
            let mut statement = prepare(text).await?;
            statement.set_is_idempotent(false);
            Ok::<_, PrepareError>(statement)
        };
        let fields = "owner, epoch, version, writer, parts, floor, cleared, format";
        let mut head_read =
            prepare(format!("SELECT {fields} FROM {keyspace}.heads WHERE store = ?")).await?;
        head_read.set_consistency(Consistency::Serial);
        Ok(Self {
            head_insert: once(format!(
                "INSERT INTO {keyspace}.heads ({fields}, store) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"
            ))
            .await?,
            head_update: once(format!(
                "UPDATE {keyspace}.heads SET owner = ?, epoch = ?, version = ?, writer = ?, parts = ?, floor = ?, \
                 cleared = ?, format = ? WHERE store = ? IF owner = ? AND epoch = ? AND version = ? AND floor = ?"
            ))
            .await?,
            head_read,
            floor_read: prepare(format!(
                "SELECT floor, owner FROM {keyspace}.heads WHERE store = ?"
            ))
            .await?,
            batch_put: prepare(format!(
                "INSERT INTO {keyspace}.batches (store, version, writer, part, changes) VALUES (?, ?, ?, ?, ?) \
                 USING TIMESTAMP ?"
            ))
            .await?,
            batch_read: prepare(format!(
                "SELECT part, changes FROM {keyspace}.batches WHERE store = ? AND version = ? AND writer = ?"
            ))
            .await?,
            batch_drop: prepare(format!(
                "DELETE FROM {keyspace}.batches USING TIMESTAMP ? WHERE store = ? AND version = ? AND writer = ?"
            ))
            .await?,
            bucket_put: prepare(format!(
                "INSERT INTO {keyspace}.buckets (store, tbl, bucket) VALUES (?, ?, ?) USING TIMESTAMP ?"
            ))
            .await?,
            bucket_read: prepare(format!(
                "SELECT tbl, bucket FROM {keyspace}.buckets WHERE store = ?"
            ))
            .await?,
            get: prepare(format!(
                "SELECT version, value FROM {keyspace}.records WHERE {BUCKET} AND key = ? AND version <= ? LIMIT 1"
            ))
            .await?,
            scan: prepare(format!(
                "SELECT key, version, value FROM {keyspace}.records WHERE {RANGE}"
            ))
            .await?,
            scan_back: prepare(format!(
                "SELECT key, version, value FROM {keyspace}.records WHERE {RANGE} ORDER BY key DESC, version ASC"
            ))
            .await?,
            put: prepare(format!(
                "INSERT INTO {keyspace}.records (store, tbl, bucket, key, version, value) VALUES (?, ?, ?, ?, ?, ?) \
                 USING TIMESTAMP ?"
            ))
            .await?,
            drop_key: prepare(format!(
                "DELETE FROM {keyspace}.records USING TIMESTAMP ? WHERE {BUCKET} AND key = ?"
            ))
            .await?,
            drop_range: prepare(format!("DELETE FROM {keyspace}.records USING TIMESTAMP ? WHERE {RANGE}"))
                .await?,
        })
    }
}
