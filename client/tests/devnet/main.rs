//! `polytrie devnet` as its users see it: a program that answers JSON-RPC.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../common/fixtures.rs"]
mod fixtures;
#[path = "../common/mount.rs"]
mod mount;
#[path = "../common/run.rs"]
mod run;
#[path = "../../src/testsetup.rs"]
mod testsetup;

mod blobs;
mod calls;
mod chain;
mod cheats;
mod compat;
mod dump;
mod filters;
mod limits;
mod methods;
mod monitoring;
mod node;
mod otterscan;
mod restart;
mod sending;
mod subscriptions;
mod support;
mod traces;
mod transactions;
mod witness;
