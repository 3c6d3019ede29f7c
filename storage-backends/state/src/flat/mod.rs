//! Flat state: one row an account and one a slot, the same for every layer that keeps such rows.

mod codec;
mod tables;

pub use codec::{decode_account, decode_value, encode_account, encode_value};
pub use tables::FlatTables;
