//! A view: the rows up to one version.

use crate::{
    buckets::{bucket, is_numbered},
    cluster::Link,
    deleted::Deleted,
    engine::Shared,
    error::failed,
    fence::{Look, lost},
    flight::Flight,
    head::cql,
    scan,
};
use polytrie_kv::{KeyRange, Read, Result, Table, Ticket, Values, Visit};
use scylla::statement::Consistency;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Most keys of one partition in a request. A node reads them in one pass, and its time goes by the number of requests.
const TOGETHER: usize = 64;

/// The rows as they were after one version, whatever is written later.
pub(crate) struct CassandraView {
    shared: Arc<Shared>,
    ticket: Ticket,
    deleted: Arc<Deleted>,
}

polytrie_kv::debug_fields!(CassandraView { ticket });

/// A row of the cluster: the version that wrote it, and its value unless it removed the key.
type Versioned = (i64, Option<Vec<u8>>);

impl CassandraView {
    pub(crate) const fn new(shared: Arc<Shared>, ticket: Ticket, deleted: Arc<Deleted>) -> Self {
        Self { shared, ticket, deleted }
    }

    pub(crate) fn version(&self) -> u64 {
        self.ticket.seq()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the value of a row; `None` if the row removed the key or a later deletion hides it.
    pub(crate) fn value(
        &self,
        table: Table,
        key: &[u8],
        (version, value): Versioned,
    ) -> Option<Vec<u8>> {
        let version = u64::try_from(version).unwrap_or_default();
        value.filter(|_| !self.deleted.hides(table, key, version))
    }

    /// Makes the request for some keys of one partition; the results are their newest rows up to the view's version, as far as
    /// the replicas know that have to agree.
    fn request(
        &self,
        table: Table,
        keys: Vec<Vec<u8>>,
        agree: Consistency,
    ) -> impl Future<Output = Result<Vec<Option<Versioned>>>> + Send + 'static {
        let (link, store) = (self.shared.cluster.link(), Arc::clone(&self.shared.store));
        let version = cql(self.version());
        async move {
            match keys.as_slice() {
                [key] => Ok(vec![ask(&link, &store, table, key, version, agree).await?]),
                keys => ask_some(&link, &store, table, keys, version, agree).await,
            }
        }
    }

    /// Fails if another process may have removed rows that were just read, so that a removed row is not taken for a
    /// missing one.
    ///
    /// A writer knows the views of its own process only. So a process that only reads checks the floor in the head,
    /// which a writer raises long enough before it removes rows; a process that may write checks that it still owns the
    /// store (`fence.rs`).
    pub(crate) fn expect_whole(&self) -> Result<()> {
        let shared = &*self.shared;
        let now = Look::now();
        if shared.looked.lock().is_some_and(|last| last.holds_at(now)) {
            return Ok(());
        }
        let (floor, owner) = shared.floor()?;
        let (store, version) = (&shared.store, self.version());
        if !shared.options.read_only && owner != shared.owner {
            return Err(shared.end(lost("reading", store)));
        }
        // All views of an engine that only reads have one version.
        if shared.options.read_only && floor > version {
            let reason = format!(
                "the store `{store}` was opened for reading at version {version}, and its writer removes what was replaced up to {floor}; run the same command again, best while nothing writes"
            );
            return Err(shared.end(failed("reading", reason)));
        }
        *shared.looked.lock() = Some(now);
        Ok(())
    }
}

async fn ask(
    link: &Link,
    store: &Arc<str>,
    table: Table,
    key: &[u8],
    version: i64,
    agree: Consistency,
) -> Result<Option<Versioned>> {
    let action = "reading";
    let values = (store, table.name, bucket(table, key), key, version);
    let mut statement = link.statements.get.clone();
    statement.set_consistency(agree);
    let request = || link.session.execute_unpaged(&statement, values);
    let rows = link.persist(action, request).await?.into_rows_result();
    let rows = rows.map_err(|e| failed(action, e))?;
    rows.maybe_first_row::<Versioned>().map_err(|e| failed(action, e))
}

/// Asks for keys of one partition, of which there is one at least.
async fn ask_some(
    link: &Link,
    store: &Arc<str>,
    table: Table,
    keys: &[Vec<u8>],
    version: i64,
    agree: Consistency,
) -> Result<Vec<Option<Versioned>>> {
    let action = "reading";
    let Some(first) = keys.first() else { return Ok(Vec::new()) };
    let values = (store, table.name, bucket(table, first), keys, version);
    let mut statement = link.statements.get_some.clone();
    statement.set_consistency(agree);
    let request = || link.session.execute_unpaged(&statement, values);
    let rows = link.persist(action, request).await?.into_rows_result();
    let rows = rows.map_err(|e| failed(action, e))?;
    let rows = rows.rows::<(Vec<u8>, i64, Option<Vec<u8>>)>().map_err(|e| failed(action, e))?;
    let mut newest: HashMap<Vec<u8>, Versioned> = HashMap::new();
    for row in rows {
        let (key, version, value) = row.map_err(|e| failed(action, e))?;
        let known = newest.entry(key).or_insert((version, None));
        if version >= known.0 {
            *known = (version, value);
        }
    }
    // A key may be there twice.
    Ok(keys.iter().map(|key| newest.get(key).cloned()).collect())
}

impl Read for CassandraView {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        table.check_key(key)?;
        self.shared.expect_table(table)?;
        let mut row = Vec::new();
        // All partitions are known that have a row of this version.
        if self.shared.buckets.contains(table, bucket(table, key)) {
            let request = self.request(table, vec![key.to_vec()], Consistency::Quorum);
            row = self.shared.cluster.wait(request)?;
        }
        self.expect_whole()?;
        let value = row.pop().flatten().and_then(|row| self.value(table, key, row));
        value.iter().for_each(|value| out.extend_from_slice(value));
        Ok(value.is_some())
    }

    /// Sends all requests at once, within the limits of [`Flight`]. Keys of a partition share a request. An answer that may
    /// be wrong is asked of one replica, which is half the work for the nodes.
    fn read_many(&self, table: Table, keys: &[&[u8]], is_doubted: bool) -> Result<Values> {
        self.shared.expect_table(table)?;
        keys.iter().try_for_each(|key| table.check_key(key))?;
        let agree = if is_doubted { Consistency::One } else { Consistency::Quorum };
        let mut partitions: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            partitions.entry(bucket(table, key)).or_default().push(place);
        }
        let mut rows: Vec<Option<Versioned>> = vec![None; keys.len()];
        let mut take = |(places, found): (Vec<usize>, Vec<Option<Versioned>>)| {
            places.into_iter().zip(found).for_each(|(place, row)| rows[place] = row);
        };
        partitions.retain(|bucket, _| self.shared.buckets.contains(table, bucket));
        // Rows under numbers may be blocks, of which many would be too much for one answer.
        let together = if is_numbered(table) { 1 } else { TOGETHER };
        let mut flight = Flight::new(&self.shared.cluster);
        for places in partitions.values().flat_map(|places| places.chunks(together)) {
            let some: Vec<Vec<u8>> = places.iter().map(|place| keys[*place].to_vec()).collect();
            let (bytes, places) = (some.iter().map(Vec::len).sum(), places.to_vec());
            let request = self.request(table, some, agree);
            flight.push(bytes, async move { Ok((places, request.await?)) }, &mut take)?;
        }
        flight.finish(&mut take)?;
        self.expect_whole()?;
        let value = |(row, key): (Option<Versioned>, &&[u8])| {
            row.and_then(|row| self.value(table, key, row))
        };
        Ok(rows.into_iter().zip(keys).map(value).collect())
    }

    fn scan(&self, table: Table, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        table.check_range(range.from, range.to)?;
        self.shared.expect_table(table)?;
        scan::scan(self, table, range, visit)
    }
}
