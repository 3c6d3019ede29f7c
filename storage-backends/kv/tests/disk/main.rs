//! Tests of what is on a disk.
//!
//! - `mdbx.rs`: MDBX passes the suites, and fails as specified,
//! - `damage.rs`: files of an environment that are damaged, cut or missing,
//! - `rows.rs`: rows that are not as they were written,
//! - `power.rs`: losses of power under a store with a journal.

mod damage;
mod mdbx;
mod power;
mod rows;
