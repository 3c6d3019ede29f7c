//! The log of a batch in the cluster, written before the batch is committed.
//!
//! ```text
//! 0, 1, …  a part: number of tables (1), for each the length of its name (1) and its name; changes as `Batch::encode`
//!          has them, tables by their place in that list
//! -1       the mark: the batch is applied; empty
//! ```

use crate::{
    Cluster,
    cluster::Link,
    error::{corrupt, failed},
    flight::Flight,
    head::cql,
};
use polytrie_kv::{Batch, Changes, Op, Result, Table};
use scylla::response::{PagingState, PagingStateResponse};
use std::{ops::ControlFlow, sync::Arc};

/// Bytes of changes beyond which nothing is added to a part.
const PART: usize = 512 << 10;
/// Number of the row that marks a batch as applied. The statement that reads it has the number, too.
const MARK: i32 = -1;
/// Number of parts of the first page of a log: many readers need the first part only, and after a page that is not full
/// there is no other one to ask for. And of the other pages.
const PAGE: (i32, i32) = (2, 8);

/// The key of a logged batch.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) store: Arc<str>,
    pub(crate) version: u64,
    /// The epoch of the writer: a writer that was fenced may log another batch of the same version.
    pub(crate) writer: u64,
}

/// Logs a batch. Returns its number of parts.
pub(crate) fn append(
    cluster: &Cluster,
    place: &Place,
    tables: &[Table],
    changes: &dyn Changes,
) -> Result<u32> {
    let head = encode_tables(tables);
    let mut flight = Flight::new(cluster);
    let mut parts = 0_i32;
    let mut part = Batch::new();
    let mut send = |part: &mut Batch, parts: &mut i32| {
        let mut bytes = head.clone();
        part.encode(tables, &mut bytes);
        part.clear();
        let (link, place, number) = (cluster.link(), place.clone(), *parts);
        *parts += 1;
        let len = bytes.len();
        let request = async move { put(&link, &place, number, &bytes).await };
        flight.push(len, request, &mut |()| {})
    };
    for (table, op) in changes.ops() {
        if !has_room(&part, &op) {
            send(&mut part, &mut parts)?;
        }
        part.push_op(table, op);
    }
    if !part.is_empty() {
        send(&mut part, &mut parts)?;
    }
    flight.finish(&mut |()| {})?;
    Ok(parts.unsigned_abs())
}

/// Marks a batch as applied. The mark goes with the log.
pub(crate) fn mark(cluster: &Cluster, place: &Place) -> Result<()> {
    let (link, place) = (cluster.link(), place.clone());
    cluster.wait(async move { put(&link, &place, MARK, &[]).await })
}

/// Whether a batch is marked as applied.
pub(crate) fn is_marked(cluster: &Cluster, place: &Place) -> Result<bool> {
    let action = "reading whether a batch is applied";
    let (link, place) = (cluster.link(), place.clone());
    cluster.wait(async move {
        let Place { store, version, writer } = &place;
        let values = (store, cql(*version), cql(*writer));
        let request = || link.session.execute_unpaged(&link.statements.batch_mark, values);
        let rows = link.persist(action, request).await?.into_rows_result();
        Ok(rows.map_err(|e| failed(action, e))?.rows_num() > 0)
    })
}

/// Whether a change fits into a part. The longest value nearly fills a write of Cassandra, so it has a part for itself.
fn has_room(part: &Batch, op: &Op<'_>) -> bool {
    part.is_empty() || part.encoded_len() + op.byte_len() < PART
}

async fn put(link: &Link, place: &Place, part: i32, bytes: &[u8]) -> Result<()> {
    let Place { store, version, writer } = place;
    let values = (store, cql(*version), cql(*writer), part, bytes, cql(*version));
    let request = || link.session.execute_unpaged(&link.statements.batch_put, values);
    link.persist("writing a batch down", request).await.map(drop)
}

/// Reads a batch part by part, until `visit` breaks. Returns the number of parts that were visited.
pub(crate) fn read(
    cluster: &Cluster,
    place: &Place,
    tables: &[Table],
    visit: &mut dyn FnMut(Batch) -> Result<ControlFlow<()>>,
) -> Result<u32> {
    let (mut parts, mut rows) = (0, PAGE.0);
    let mut state = Some(PagingState::start());
    while let Some(from) = state {
        let (link, place) = (cluster.link(), place.clone());
        let (page, next) = cluster.wait(async move { page(&link, &place, rows, from).await })?;
        for bytes in page {
            parts += 1;
            if visit(decode(&bytes, tables)?)?.is_break() {
                return Ok(parts);
            }
        }
        (state, rows) = (next, PAGE.1);
    }
    Ok(parts)
}

async fn page(
    link: &Link,
    place: &Place,
    rows: i32,
    from: PagingState,
) -> Result<(Vec<Vec<u8>>, Option<PagingState>)> {
    let action = "reading a batch that was written down";
    let Place { store, version, writer } = place;
    let mut statement = link.statements.batch_read.clone();
    statement.set_page_size(rows);
    let values = (store, cql(*version), cql(*writer));
    let request = || link.session.execute_single_page(&statement, values, from.clone());
    let (answer, next) = link.persist(action, request).await?;
    let rows = answer.into_rows_result().map_err(|e| failed(action, e))?;
    let rows = rows.rows::<(i32, Vec<u8>)>().map_err(|e| failed(action, e))?;
    let parts = rows.map(|row| row.map(|(_, bytes)| bytes)).collect::<Result<_, _>>();
    Ok((parts.map_err(|e| failed(action, e))?, following(next)))
}

/// Returns the state with which the next page is read; `None` after the last page.
pub(crate) fn following(response: PagingStateResponse) -> Option<PagingState> {
    match response.into_paging_control_flow() {
        ControlFlow::Continue(next) => Some(next),
        ControlFlow::Break(()) => None,
    }
}

/// Removes a logged batch, if there is one.
pub(crate) fn remove(cluster: &Cluster, place: &Place) -> Result<()> {
    let (link, place) = (cluster.link(), place.clone());
    cluster.wait(async move {
        let Place { store, version, writer } = &place;
        let values = (cql(*version), store, cql(*version), cql(*writer));
        let request = || link.session.execute_unpaged(&link.statements.batch_drop, values);
        link.persist("removing a batch that was written down", request).await.map(drop)
    })
}

fn encode_tables(tables: &[Table]) -> Vec<u8> {
    let mut bytes = vec![tables.len() as u8];
    for table in tables {
        bytes.push(table.name.len() as u8);
        bytes.extend_from_slice(table.name.as_bytes());
    }
    bytes
}

fn decode(bytes: &[u8], tables: &[Table]) -> Result<Batch> {
    let damaged = || corrupt("a part of a batch that was written down does not read");
    let (count, mut bytes) = bytes.split_first().ok_or_else(damaged)?;
    let mut listed = Vec::new();
    for _ in 0..*count {
        let (len, rest) = bytes.split_first().ok_or_else(damaged)?;
        let (name, rest) = rest.split_at_checked(usize::from(*len)).ok_or_else(damaged)?;
        let known = tables.iter().find(|table| table.name.as_bytes() == name);
        listed.push(*known.ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            corrupt(format!("a batch that was written down has the table `{name}`, which is not one of those that the store is opened with"))
        })?);
        bytes = rest;
    }
    Batch::decode(bytes, &listed).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes without values count, too: their lengths are as long as their keys.
    #[test]
    fn a_part_is_bounded_in_what_is_sent_and_a_long_value_stands_alone() {
        let table = Table::new(1, "t", 8);
        let long = vec![0; 15 << 20];
        let long = Op::Put { key: b"long", value: &long };
        let mut part = Batch::new();
        assert!(has_room(&part, &long), "somewhere it must be");
        for number in 0u64.. {
            let key = number.to_be_bytes();
            let op = Op::Delete { key: &key };
            if !has_room(&part, &op) {
                break;
            }
            part.push_op(table, op);
            assert!(!has_room(&part, &long));
        }
        assert!((PART - 100..=PART + 100).contains(&part.encoded_len()), "{}", part.encoded_len());
    }

    #[test]
    fn parts_are_read_whatever_the_order_of_tables() {
        let [one, two] = [Table::new(3, "one", 9), Table::new(1, "two", 9)];
        let mut batch = Batch::new();
        batch.put(one, b"key", b"value");
        batch.delete(two, b"gone");
        let mut bytes = encode_tables(&[one, two]);
        batch.encode(&[one, two], &mut bytes);
        let found = decode(&bytes, &[two, one]);
        assert!(found.is_ok_and(|found| found.ops().eq(batch.ops())));
        assert!(decode(&bytes, &[two]).is_err(), "a table that is not known");
        assert!(decode(&bytes[..5], &[two, one]).is_err());
    }
}
