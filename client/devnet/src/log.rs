//! Log lines of blocks and their transactions.

use super::{Node, console};
use alloy_consensus::{Header, Sealed, Transaction, TxEnvelope};
use alloy_primitives::{Address, Bytes, TxKind};
use polytrie_chain::executor::Included;
use polytrie_node::words::counted;
use std::{fmt::Write, sync::atomic::Ordering};
use tracing::Level;

/// Maximum number of transactions of one block that get a line each.
const MOST_TRANSACTIONS: usize = 20;

/// Maximum number of `console.log` lines of one transaction.
const MOST_LINES: usize = 200;

/// The log lines of a block while it is built.
#[derive(Debug, Default)]
pub(super) struct BlockLog {
    lines: Vec<String>,
    transactions: usize,
}

impl BlockLog {
    /// Adds the lines of an included transaction.
    pub(super) fn transaction(&mut self, tx: &TxEnvelope, sender: Address, ran: &Included) {
        self.transactions += 1;
        if self.transactions > MOST_TRANSACTIONS {
            return;
        }
        let mut line = format!("  transaction {} from {sender}", tx.tx_hash());
        // Writing to a `String` cannot fail.
        let _ = match tx.kind() {
            TxKind::Call(to) => write!(line, " to {to}"),
            TxKind::Create => write!(line, " creates {}", sender.create(tx.nonce())),
        };
        let _ = match &ran.failed {
            None => write!(line, ": {} gas", ran.gas_used),
            Some(failed) => {
                let why = console::printable(&failed.to_string());
                write!(line, ": {} gas, failed: {why}", ran.gas_used)
            }
        };
        self.lines.push(line);
        self.lines.extend(printed(&ran.console));
    }

    /// Writes the lines once the block is in the chain.
    pub(super) fn write(&self, header: &Sealed<Header>) {
        let transactions = counted(self.transactions, "transaction");
        let (number, hash, gas) = (header.number, header.hash(), header.gas_used);
        tracing::info!("block {number} {hash}: {transactions}, {gas} gas");
        for line in &self.lines {
            tracing::info!("{line}");
        }
        if let Some(more) = self.transactions.checked_sub(MOST_TRANSACTIONS + 1) {
            tracing::info!("  and {} more", more + 1);
        }
    }
}

/// Returns the lines that contracts printed, at most [`MOST_LINES`] and a note about more.
fn printed(messages: &[Bytes]) -> Vec<String> {
    let lines = messages.iter().flat_map(|message| console::lines(message));
    let mut lines: Vec<_> =
        lines.take(MOST_LINES + 1).map(|line| format!("  console.log: {line}")).collect();
    if lines.len() > MOST_LINES {
        lines.truncate(MOST_LINES);
        lines.push("  console.log: … and more".to_owned());
    }
    lines
}

impl Node {
    /// Whether the node logs its blocks and calls.
    pub fn tells(&self) -> bool {
        self.telling.load(Ordering::Relaxed) && tracing::enabled!(Level::INFO)
    }

    /// Enables or disables the log of blocks and calls.
    pub fn set_telling(&self, telling: bool) {
        self.telling.store(telling, Ordering::Relaxed);
    }

    /// Logs the messages that the contracts of a call printed.
    pub fn tell_printed(&self, method: &str, messages: &[Bytes]) {
        if !messages.is_empty() && self.tells() {
            tracing::info!("{method}");
            for line in printed(messages) {
                tracing::info!("{line}");
            }
        }
    }

    /// Returns an empty log for the next block; `None` if logging is disabled.
    pub(super) fn block_log(&self) -> Option<BlockLog> {
        self.tells().then(BlockLog::default)
    }
}
