//! Flat state: one row an account and one a slot, the same for every layer that keeps such rows.

mod check;
mod codec;
mod load;
mod reader;
mod session;
mod tables;

pub use codec::{
    account_row, decode_account, decode_value, encode_account, encode_value, parse_number, trim,
    value_row,
};
pub use reader::FlatReader;
pub use session::{FlatChange, FlatEnd, FlatSession};
pub use tables::FlatTables;
