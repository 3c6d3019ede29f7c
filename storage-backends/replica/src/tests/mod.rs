//! The suite that every layer passes, under every setting that must not matter, and trouble on purpose.

mod pipeline;
mod reads;
mod stores;
mod suites;
mod trouble;

pub(crate) use trouble::Trouble;
