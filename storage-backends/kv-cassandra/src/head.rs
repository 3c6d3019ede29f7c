//! The row of a store, which is changed by compare-and-set only.

use crate::{
    cluster::Link,
    error::{corrupt, failed, is_final},
};
use polytrie_kv::Result;
use scylla::{errors::ExecutionError, response::query_result::QueryResult};
use std::sync::Arc;

const FORMAT: i32 = 2;

/// The content of the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// The name of the opening that may write, drawn at random, because two that open at once take the same epoch.
    pub(crate) owner: String,
    /// Number of times that the store was opened for writing.
    pub(crate) epoch: u64,
    /// The version of the last committed batch; 0 if there is none.
    pub(crate) version: u64,
    /// The epoch that committed this version and all versions that are not collected.
    pub(crate) writer: u64,
    /// Number of parts of the last committed batch in the log.
    pub(crate) parts: u32,
    /// The oldest version that a view may read: rows that were replaced up to this version are being removed.
    pub(crate) floor: u64,
    /// The last version whose removal is finished, including its logged batch.
    pub(crate) cleared: u64,
}

/// Returns a number as Cassandra has it. Versions count batches, so no number is ever too large.
pub(crate) fn cql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(cql: i64) -> Result<u64> {
    u64::try_from(cql)
        .map_err(|_| corrupt(format!("a number of a store is {cql}, expected 0 or more")))
}

type Fields = (String, i64, i64, i64, i32, i64, i64, i32);

impl Head {
    /// Returns the head of an empty store.
    fn new(owner: String) -> Self {
        Self { owner, epoch: 1, version: 0, writer: 1, parts: 0, floor: 0, cleared: 0 }
    }

    fn from_fields(fields: Fields) -> Result<Self> {
        let (owner, epoch, version, writer, parts, floor, cleared, format) = fields;
        if format != FORMAT {
            let reason = format!(
                "the store has format {format}, this program reads format {FORMAT}: use the version that wrote it, or import again into another --datadir"
            );
            return Err(failed("opening", reason));
        }
        Ok(Self {
            owner,
            epoch: number(epoch)?,
            version: number(version)?,
            writer: number(writer)?,
            parts: u32::try_from(parts).map_err(corrupt)?,
            floor: number(floor)?,
            cleared: number(cleared)?,
        })
    }

    fn fields(&self) -> Fields {
        (
            self.owner.clone(),
            cql(self.epoch),
            cql(self.version),
            cql(self.writer),
            i32::try_from(self.parts).unwrap_or(i32::MAX),
            cql(self.floor),
            cql(self.cleared),
            FORMAT,
        )
    }
}

/// Reads the row after any compare-and-set that is not finished; `None` if the store does not exist.
pub(crate) async fn read(link: &Link, store: &Arc<str>) -> Result<Option<Head>> {
    let action = "reading the head of the store";
    let request = || link.session.execute_unpaged(&link.statements.head_read, (store,));
    let rows = link.persist(action, request).await?.into_rows_result();
    let rows = rows.map_err(|e| failed(action, e))?;
    let fields = rows.maybe_first_row::<Fields>().map_err(|e| failed(action, e))?;
    fields.map(Head::from_fields).transpose()
}

/// Reads the floor and the owner as of the time of the call, or newer.
pub(crate) async fn floor(link: &Link, store: &Arc<str>) -> Result<(u64, String)> {
    let action = "reading the head of the store";
    let request = || link.session.execute_unpaged(&link.statements.floor_read, (store,));
    let rows = link.persist(action, request).await?.into_rows_result();
    let rows = rows.map_err(|e| failed(action, e))?;
    let (floor, owner) = rows.first_row::<(i64, String)>().map_err(|e| failed(action, e))?;
    Ok((number(floor)?, owner))
}

/// Takes the store over: from then on the owner before cannot commit. One that does not exist is created if `creates` is
/// set; else the result is `None`.
pub(crate) async fn take_over(
    link: &Link,
    store: &Arc<str>,
    creates: bool,
) -> Result<Option<Head>> {
    let owner = format!("{:016x}", rand::random::<u64>());
    loop {
        let found = read(link, store).await?;
        let next = match &found {
            None if !creates => return Ok(None),
            None => Head::new(owner.clone()),
            Some(found) => Head { owner: owner.clone(), epoch: found.epoch + 1, ..found.clone() },
        };
        // Another process may have taken it over first; the last one to do so has it.
        if swap(link, store, found.as_ref(), &next).await?.is_none() {
            return Ok(Some(next));
        }
    }
}

/// Changes the head from `before` to `next`. Returns the head found instead, if that differs.
///
/// A compare-and-set that is not answered may be done, not done, or finished by a later one. So after each attempt
/// without a positive answer the row is read, which finishes it.
pub(crate) async fn swap(
    link: &Link,
    store: &Arc<str>,
    before: Option<&Head>,
    next: &Head,
) -> Result<Option<Head>> {
    let action = "committing";
    let mut patience = link.patience();
    loop {
        let answer = match before {
            None => link.send(insert(link, store, next)).await?,
            Some(before) => link.send(update(link, store, before, next)).await?,
        };
        if answer.as_ref().is_ok_and(|answer| *answer) {
            return Ok(None);
        }
        let found = read(link, store).await?;
        if found.as_ref() == Some(next) {
            return Ok(None);
        }
        if found.as_ref() != before {
            return Ok(found);
        }
        if let Err(error) = answer {
            patience.after(action, &error, is_final(&error)).await?;
        }
    }
}

async fn insert(link: &Link, store: &Arc<str>, next: &Head) -> Result<bool, ExecutionError> {
    let (owner, epoch, version, writer, parts, floor, cleared, format) = next.fields();
    let values = (owner, epoch, version, writer, parts, floor, cleared, format, store);
    let answer = link.session.execute_unpaged(&link.statements.head_insert, values).await?;
    Ok(is_applied(answer))
}

async fn update(
    link: &Link,
    store: &Arc<str>,
    before: &Head,
    next: &Head,
) -> Result<bool, ExecutionError> {
    let (owner, epoch, version, writer, parts, floor, cleared, format) = next.fields();
    let Head { owner: o, epoch: e, version: v, floor: f, .. } = before;
    let (e, v, f) = (cql(*e), cql(*v), cql(*f));
    let values = (owner, epoch, version, writer, parts, floor, cleared, format, store, o, e, v, f);
    let answer = link.session.execute_unpaged(&link.statements.head_update, values).await?;
    Ok(is_applied(answer))
}

/// Whether a compare-and-set was done, by the first column of its answer. An answer that cannot be decoded counts as
/// no: the row is read then.
fn is_applied(answer: QueryResult) -> bool {
    let Ok(rows) = answer.into_rows_result() else { return false };
    let first = rows.first_row::<scylla::value::Row>();
    first.is_ok_and(|row| {
        let applied = row.columns.first().and_then(Option::as_ref);
        applied.is_some_and(|applied| applied.as_boolean() == Some(true))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of format 1 has no marks in its log.
    #[test]
    fn a_store_of_another_format_is_refused() {
        let head = Head { version: 7, floor: 5, cleared: 4, ..Head::new("owner".to_owned()) };
        let mut fields = head.fields();
        assert!(Head::from_fields(fields.clone()).is_ok_and(|read| read == head));
        for format in [1, FORMAT + 1] {
            fields.7 = format;
            let said = Head::from_fields(fields.clone()).map_err(|error| error.to_string());
            let expected = format!("has format {format}, this program reads format {FORMAT}");
            assert!(said.is_err_and(|said| said.contains(&expected)));
        }
    }
}
