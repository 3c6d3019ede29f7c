//! Reading ahead: other threads read what a block announces before the block needs it.
//!
//! ```text
//!  the thread of the block                      threads of `Readers`, if the store is slow
//!  ───────────────────────                      ──────────────────────────────────────────
//!  Announced::want(access) ─► Reading: queue ─► some items at a time: ReadAhead::read
//!  Announced::read ◄────────────────────────── rows in a cache of the layer, the store, the engine or the system
//! ```
//!
//! - `readers.rs`: the threads, and the measurement of whether the store is slow enough for them to help,
//! - `reading.rs`: the queue of items of any kind to read ahead for one block,
//! - `announced.rs`: what a session does with the hints of its block.
//!
//! No result depends on reading ahead, and an error there is not reported: the block meets it when it needs the row.
//! A panic is reported ([`Readers::check`]).

mod announced;
mod readers;
mod reading;
#[cfg(test)]
mod tests;

pub use announced::{AccessReader, Announced};
pub use readers::Readers;
pub use reading::{ReadAhead, Reading};
