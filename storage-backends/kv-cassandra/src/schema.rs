//! The fixed tables that all stores of a keyspace share, and the statements on them.
//!
//! ```text
//! heads    store                                 ──► owner, epoch, version, writer, parts, floor, cleared, format
//! batches  (store, version, writer), part        ──► part of a batch that was written down, and the mark of one that is
//!                                                    applied, see `log.rs`
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
/// Finds the keyspace.
const KEYSPACE: &str = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?";
/// Finds the last of the tables that are made.
const LAST_TABLE: &str = "SELECT table_name FROM system_schema.tables \
                          WHERE keyspace_name = ? AND table_name = 'records'";

/// Creates the keyspace and the tables if they do not exist and `create` is set.
pub(crate) async fn expect(
    session: &Session,
    keyspace: &str,
    create: bool,
) -> Result<(), ExecutionError> {
    // Creating them again, though they exist, would cost an agreement of all nodes.
    if !create || is_there(session, LAST_TABLE, keyspace).await? {
        return Ok(());
    }
    let name = quoted(keyspace);
    // Who may not make keyspaces is refused, also where the keyspace exists.
    if !is_there(session, KEYSPACE, keyspace).await? {
        let nodes = session.get_cluster_state().get_nodes_info().len();
        let replicas = REPLICAS.min(nodes.max(1));
        let statement = format!(
            "CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'replication_factor': {replicas}}}"
        );
        make(session, statement).await?;
    }
    let statements = [
        format!(
            "CREATE TABLE IF NOT EXISTS {name}.heads (store text PRIMARY KEY, owner text, epoch bigint, \
             version bigint, writer bigint, parts int, floor bigint, cleared bigint, format int)"
        ),
        // A removed batch that comes back is never read, so its removal need not be remembered for long.
        format!(
            "CREATE TABLE IF NOT EXISTS {name}.batches (store text, version bigint, writer bigint, part int, \
             changes blob, PRIMARY KEY ((store, version, writer), part)) WITH gc_grace_seconds = 10800"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {name}.buckets (store text, tbl text, bucket blob, \
             PRIMARY KEY (store, tbl, bucket))"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {name}.records (store text, tbl text, bucket blob, key blob, \
             version bigint, value blob, PRIMARY KEY ((store, tbl, bucket), key, version)) \
             WITH CLUSTERING ORDER BY (key ASC, version DESC)"
        ),
    ];
    for statement in statements {
        make(session, statement).await?;
    }
    Ok(())
}

async fn make(session: &Session, statement: String) -> Result<(), ExecutionError> {
    let mut statement = Statement::new(statement);
    statement.set_request_timeout(Some(MAKING));
    session.query_unpaged(statement, ()).await.map(drop)
}

/// Returns the name of a keyspace as statements have it. Without the quotes it may not begin with a digit, nor be a word of the
/// language.
fn quoted(keyspace: &str) -> String {
    format!("\"{keyspace}\"")
}

/// Whether a statement finds something of the keyspace.
async fn is_there(
    session: &Session,
    statement: &str,
    keyspace: &str,
) -> Result<bool, ExecutionError> {
    let found = session.query_unpaged(statement, (keyspace,)).await?;
    Ok(found.into_rows_result().is_ok_and(|rows| rows.rows_num() > 0))
}

/// Generates, from one list of texts, the prepared statements. `KS` stands for the keyspace.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: $text:literal,)*) => {
        /// The prepared statements. All but those of `heads` may be repeated.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $($(#[$doc])* pub(crate) $name: PreparedStatement,)*
        }

        impl Statements {
            pub(crate) async fn prepare(session: &Session, keyspace: &str) -> Result<Self, PrepareError> {
                let name = quoted(keyspace);
                let prepare = async |text: &'static str| {
                    let mut statement = session.prepare(text.replace("KS", &name)).await?;
                    statement.set_consistency(Consistency::Quorum);
                    statement.set_is_idempotent(true);
                    Ok::<_, PrepareError>(statement)
                };
                let mut all = Self { $($name: prepare($text).await?,)* };
                all.head_insert.set_is_idempotent(false);
                all.head_update.set_is_idempotent(false);
                all.head_read.set_consistency(Consistency::Serial);
                Ok(all)
            }
        }
    };
}

statements! {
    head_insert: "INSERT INTO KS.heads (owner, epoch, version, writer, parts, floor, cleared, format, store) \
                  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS",
    head_update: "UPDATE KS.heads SET owner = ?, epoch = ?, version = ?, writer = ?, parts = ?, floor = ?, \
                  cleared = ?, format = ? WHERE store = ? IF owner = ? AND epoch = ? AND version = ? AND floor = ?",
    /// Reads the head after the last compare-and-set, including one that is not finished.
    head_read: "SELECT owner, epoch, version, writer, parts, floor, cleared, format FROM KS.heads WHERE store = ?",
    /// Reads the head after the last compare-and-set that was confirmed, or a newer one.
    floor_read: "SELECT floor, owner FROM KS.heads WHERE store = ?",
    batch_put: "INSERT INTO KS.batches (store, version, writer, part, changes) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?",
    batch_read: "SELECT part, changes FROM KS.batches WHERE store = ? AND version = ? AND writer = ? AND part >= 0",
    batch_mark: "SELECT part FROM KS.batches WHERE store = ? AND version = ? AND writer = ? AND part = -1",
    batch_drop: "DELETE FROM KS.batches USING TIMESTAMP ? WHERE store = ? AND version = ? AND writer = ?",
    bucket_put: "INSERT INTO KS.buckets (store, tbl, bucket) VALUES (?, ?, ?) USING TIMESTAMP ?",
    bucket_read: "SELECT tbl, bucket FROM KS.buckets WHERE store = ?",
    get: "SELECT version, value FROM KS.records WHERE store = ? AND tbl = ? AND bucket = ? AND key = ? \
          AND version <= ? LIMIT 1",
    /// Reads all versions of some keys up to a version: a node removes all but the newest few.
    get_some: "SELECT key, version, value FROM KS.records WHERE store = ? AND tbl = ? AND bucket = ? AND key IN ? \
               AND version <= ?",
    scan: "SELECT key, version, value FROM KS.records WHERE store = ? AND tbl = ? AND bucket = ? AND key >= ? \
           AND key < ?",
    scan_back: "SELECT key, version, value FROM KS.records WHERE store = ? AND tbl = ? AND bucket = ? AND key >= ? \
                AND key < ? ORDER BY key DESC, version ASC",
    put: "INSERT INTO KS.records (store, tbl, bucket, key, version, value) VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
    drop_key: "DELETE FROM KS.records USING TIMESTAMP ? WHERE store = ? AND tbl = ? AND bucket = ? AND key = ?",
    drop_range: "DELETE FROM KS.records USING TIMESTAMP ? WHERE store = ? AND tbl = ? AND bucket = ? AND key >= ? \
                 AND key < ?",
}
