//! Scanning a range: its partitions one after the other, page by page.

use crate::{
    cluster::{Link, received},
    engine::Shared,
    error::failed,
    log::following,
    view::CassandraView,
};
use polytrie_kv::{KeyRange, Result, Table, Visit};
use scylla::response::PagingState;
use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{Arc, mpsc::Receiver},
};

/// Rows of the first page of a scan, because many scans need one row only; and of all but the first few pages.
const PAGE: (i32, i32) = (8, 256);
/// Bytes of a page above which later ones have fewer rows: a scan holds up to [`AHEAD`] pages, and 256 blocks of mainnet
/// are tens of megabytes.
const PAGE_BYTES: usize = 1 << 20;
/// Most partitions whose first pages are read ahead. A scan starts with none and doubles the number as it goes on.
const AHEAD: usize = 32;

/// A row: key, version, value.
type Row = (Vec<u8>, i64, Option<Vec<u8>>);
/// Some rows of a partition, and the state with which the next page is read.
type Page = (Vec<Row>, Option<PagingState>);

/// The request for each partition.
#[derive(Debug, Clone)]
struct Query {
    store: Arc<str>,
    table: Table,
    bounds: Arc<(Vec<u8>, Vec<u8>)>,
    reverse: bool,
}

pub(crate) fn scan(
    view: &CassandraView,
    table: Table,
    range: KeyRange<'_>,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let shared = view.shared();
    let bounds = (range.from.to_vec(), range.to.unwrap_or(&Table::END).to_vec());
    let query = Query {
        store: Arc::clone(&shared.store),
        table,
        bounds: Arc::new(bounds),
        reverse: range.reverse,
    };
    let mut buckets = shared.buckets.within(table, range).into_iter();
    let mut waiting = VecDeque::new();
    let (mut rows, mut ahead) = (PAGE.0, 1);
    loop {
        for bucket in buckets.by_ref().take(ahead - waiting.len()) {
            let page = query.ask(shared, &bucket, rows, PagingState::start());
            waiting.push_back((bucket, page));
        }
        let Some((bucket, page)) = waiting.pop_front() else { return Ok(()) };
        let mut newest = Newest { view, table, row: None };
        let mut page = received(&page)??;
        loop {
            view.expect_whole()?;
            let (found, next) = page;
            let size = |(key, _, value): &Row| key.len() + value.as_ref().map_or(0, Vec::len);
            rows = rows_after(rows, found.iter().map(size).sum());
            // The next page is requested before the visitor runs.
            let following = next.map(|next| query.ask(shared, &bucket, rows, next));
            for (key, version, value) in found {
                if newest.take(key, version, value, visit)?.is_break() {
                    return Ok(());
                }
            }
            let Some(following) = following else { break };
            page = received(&following)??;
        }
        if newest.end(visit)?.is_break() {
            return Ok(());
        }
        ahead = (ahead * 2).min(AHEAD);
    }
}

/// Returns the number of rows of the next page, after one of at most `rows` rows and this many bytes.
fn rows_after(rows: i32, bytes: usize) -> i32 {
    if bytes > PAGE_BYTES { (rows / 4).max(1) } else { (rows * 4).min(PAGE.1) }
}

impl Query {
    fn ask(
        &self,
        shared: &Shared,
        bucket: &[u8],
        rows: i32,
        from: PagingState,
    ) -> Receiver<Result<Page>> {
        let (link, query, bucket) = (shared.cluster.link(), self.clone(), bucket.to_vec());
        shared.cluster.spawn(async move { query.page(&link, &bucket, rows, from).await })
    }

    async fn page(&self, link: &Link, bucket: &[u8], rows: i32, from: PagingState) -> Result<Page> {
        let action = "reading a range";
        let statements = &link.statements;
        let statement = if self.reverse { &statements.scan_back } else { &statements.scan };
        let mut statement = statement.clone();
        statement.set_page_size(rows);
        let (low, high) = &*self.bounds;
        let values = (&self.store, self.table.name, bucket, low, high);
        let request = || link.session.execute_single_page(&statement, values, from.clone());
        let (answer, next) = link.persist(action, request).await?;
        let rows = answer.into_rows_result().map_err(|e| failed(action, e))?;
        let rows = rows.rows().map_err(|e| failed(action, e))?;
        let rows = rows.collect::<Result<_, _>>().map_err(|e| failed(action, e))?;
        Ok((rows, following(next)))
    }
}

/// Finds the newest row that the view sees of each key; the rows of a key come one after the other.
struct Newest<'a> {
    view: &'a CassandraView,
    table: Table,
    row: Option<Row>,
}

impl Newest<'_> {
    /// Takes a row. Visits the row before it, if that has another key.
    fn take(
        &mut self,
        key: Vec<u8>,
        version: i64,
        value: Option<Vec<u8>>,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        if u64::try_from(version).is_ok_and(|version| version > self.view.version()) {
            return Ok(ControlFlow::Continue(()));
        }
        match &mut self.row {
            Some((known, newest, of)) if *known == key => {
                if version > *newest {
                    (*newest, *of) = (version, value);
                }
                Ok(ControlFlow::Continue(()))
            }
            _ => {
                let end = self.end(visit);
                self.row = Some((key, version, value));
                end
            }
        }
    }

    fn end(&mut self, visit: &mut Visit<'_>) -> Result<ControlFlow<()>> {
        let Some((key, version, value)) = self.row.take() else {
            return Ok(ControlFlow::Continue(()));
        };
        match self.view.value(self.table, &key, (version, value)) {
            Some(value) => visit(&key, &value),
            None => Ok(ControlFlow::Continue(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_large_rows_are_short() {
        let after_many = |row: usize| {
            (0..20).fold((PAGE.0, 0), |(rows, _), _| {
                let bytes = rows as usize * row;
                (rows_after(rows, bytes), bytes)
            })
        };
        assert_eq!(after_many(100).0, PAGE.1);
        for row in [10 << 10, 100 << 10, 1 << 20, 15 << 20] {
            let (_, bytes) = after_many(row);
            assert!(bytes == row || bytes <= 4 * PAGE_BYTES, "{row} {bytes}");
        }
    }
}
