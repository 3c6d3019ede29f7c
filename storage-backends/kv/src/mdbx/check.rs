//! The search for damage in every page and every row.
//!
//! MDBX walks its trees itself, and compares their pages with the list of free ones. It does not know what a row
//! should hold, or which rows there should be.

use super::{
    Databases,
    error::Context,
    tally::Tally,
    view::{Entry, steadily},
};
use crate::{Result, Table};
use signet_libmdbx::{Environment, MdbxError, ffi, tx::aliases::RoTxUnsync};
use std::borrow::Cow;

/// Checks that pages are where they should be, and that their content ends within them. After that every row can be
/// read safely.
///
/// # Errors
///
/// [`Corrupt`](crate::KvError::Corrupt) if a page is damaged; another error if the pages could not be checked.
pub(super) fn pages(env: &Environment, context: &Context) -> Result<()> {
    // SAFETY: the struct holds numbers, pointers and optional functions, all of which may be zero; MDBX requires
    // zeros.
    let mut found: ffi::MDBX_chk_context_t = unsafe { std::mem::zeroed() };
    // SAFETY: the struct holds only optional functions, and zeros mean that none is given.
    let callbacks: ffi::MDBX_chk_callbacks_t = unsafe { std::mem::zeroed() };
    let (flags, severity) = (ffi::MDBX_CHK_SKIP_KV_TRAVERSAL, ffi::MDBX_chk_fatal);
    let code = env.with_raw_env_ptr(|env| {
        // SAFETY: the environment is open, and the rest outlives the call. No transaction of this thread is needed.
        unsafe { ffi::mdbx_env_chk(env, &callbacks, &mut found, flags, severity, 0) }
    });
    // MDBX also counts as problems what kept it from checking, such as a lack of memory or of reader slots.
    match (code, found.result.total_problems) {
        (ffi::MDBX_SUCCESS, 0) => Ok(()),
        (ffi::MDBX_SUCCESS | ffi::MDBX_PROBLEM, problems) => Err(context.damaged_pages(problems)),
        (code, _) => Err(context.error("checking its pages", MdbxError::from_err_code(code))),
    }
}

/// Checks that each row is as it was written, that a read finds it, and that no other is there or missing.
///
/// # Errors
///
/// [`Corrupt`](crate::KvError::Corrupt) with the first damage that is found.
pub(super) fn rows(env: &Environment, tables: &Databases) -> Result<()> {
    let failed = |e| tables.context.error("opening a view", e);
    // One transaction for all tables: another process may commit meanwhile.
    let tx = steadily(env, || env.begin_ro_unsync()).map_err(failed)?;
    for table in tables.counted() {
        let found = count(&tx, tables, table)?;
        let expected = Tally::read(&tx, tables, table)?;
        if found != expected {
            return Err(tables.context.lost_rows(table, found.rows, expected.rows));
        }
    }
    Ok(())
}

/// Checks every row of a table and returns the tally of the rows.
fn count(tx: &RoTxUnsync, tables: &Databases, table: Table) -> Result<Tally> {
    let context = &tables.context;
    let mut tally = Tally::default();
    let Some(rows) = tables.rows(table)? else { return Ok(tally) };
    let mut cursor = tx.cursor(rows.database).map_err(|e| context.error("reading", e))?;
    let mut entry: Option<Entry<'_>> = cursor.first().map_err(|e| context.read(e))?;
    while let Some((key, row)) = entry {
        rows.check_key(context, &key)?;
        rows.value(context, &key, &row)?;
        // A read goes through the branches of the tree, which a scan does not use.
        let found: Option<Cow<'_, [u8]>> =
            tx.get(rows.database.dbi(), &key).map_err(|e| context.read(e))?;
        if found.as_ref() != Some(&row) {
            return Err(context.damaged_row(table, &key));
        }
        tally.add(&row);
        entry = cursor.next().map_err(|e| context.read(e))?;
    }
    Ok(tally)
}
