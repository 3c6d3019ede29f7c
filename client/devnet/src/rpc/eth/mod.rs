//! `eth_`: the chain, its state, and transactions.

mod blobs;
mod blocks;
mod calls;
mod chain;
mod config;
mod fees;
mod log_filter;
mod logs;
mod send;
mod simulate;
mod state;
mod transactions;
mod typed_data;

pub(super) use calls::check_environment;
pub(super) use log_filter::LogFilter;
pub(super) use logs::{LIMIT, check_future, logs_of_block, removed_logs, reversed};
pub(super) use send::{SEND_RAW, WAITING, decode, recovered, register_for_owner, submit_all};
pub(super) use state::slots;
pub(super) use transactions::{raw as raw_transaction, with_hash as transaction};

use super::Methods;
use jsonrpsee::core::RegisterMethodError;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    chain::register(methods)?;
    config::register(methods)?;
    fees::register(methods)?;
    blocks::register(methods)?;
    transactions::register(methods)?;
    state::register(methods)?;
    calls::register(methods)?;
    simulate::register(methods)?;
    send::register(methods)?;
    logs::register(methods)
}
