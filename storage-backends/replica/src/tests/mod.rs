//! The suite that every layer passes, under every setting that must not matter, and with injected failures.

mod pipeline;
mod reads;
mod stores;
mod suites;
mod trouble;

pub(crate) use trouble::Trouble;
