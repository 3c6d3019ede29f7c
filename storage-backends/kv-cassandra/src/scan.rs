//! Going through a range: its partitions one after the other, page by page.

use crate::{
    cluster::{Link, received},
    engine::Shared,
    error::failed,
    log::following,
    view::CassandraView,
};
use polytrie_kv::{KeyRange, KvError, Table, Visit};
use scylla::response::PagingState;
use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{Arc, mpsc::Receiver},
};

/// Rows of the first page of a scan, many of which want one row only; and of all pages but the first few.
const PAGE: (i32, i32) = (8, 256);
/// Partitions whose first pages are asked for ahead, at most. It begins with none and grows as the scan goes on.
const AHEAD: usize = 32;

/// Some rows of a partition (key, version, value), and where the next ones begin.
type Page = (Vec<(Vec<u8>, i64, Option<Vec<u8>>)>, Option<PagingState>);

/// What is asked of each partition.
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
) -> Result<(), KvError> {
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
            rows = (rows * 4).min(PAGE.1);
            // Asked for before the visitor takes its time.
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

impl Query {
    fn ask(
        &self,
        shared: &Shared,
        bucket: &[u8],
        rows: i32,
        from: PagingState,
    ) -> Receiver<Result<Page, KvError>> {
        let (link, query, bucket) = (shared.cluster.link(), self.clone(), bucket.to_vec());
        shared.cluster.spawn(async move { query.page(&link, &bucket, rows, from).await })
    }

    async fn page(
        &self,
        link: &Link,
        bucket: &[u8],
        rows: i32,
        from: PagingState,
    ) -> Result<Page, KvError> {
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

/// Versions of one key come one after the other; of those that the view reads the newest counts.
struct Newest<'a> {
    view: &'a CassandraView,
    table: Table,
    row: Option<(Vec<u8>, i64, Option<Vec<u8>>)>,
}

impl Newest<'_> {
    /// Takes a row, and visits what came before if it is of another key.
    fn take(
        &mut self,
        key: Vec<u8>,
        version: i64,
        value: Option<Vec<u8>>,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, KvError> {
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

    fn end(&mut self, visit: &mut Visit<'_>) -> Result<ControlFlow<()>, KvError> {
        let Some((key, version, value)) = self.row.take() else {
            return Ok(ControlFlow::Continue(()));
        };
        match self.view.value(self.table, &key, (version, value)) {
            Some(value) => visit(&key, &value),
            None => Ok(ControlFlow::Continue(())),
        }
    }
}
