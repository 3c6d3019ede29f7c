//! The values that transactions wrote to the state, a line for each, as `bench store --trace` replays them.
//!
//! The access list of a block (EIP-7928) has the values after each index of the block: 0 before the transactions, then
//! each transaction, then the end of the block. The values before the block come from its write set; a value that is
//! not in the write set ended as it was before the block.

use super::{
    error::ImportError,
    lines::{BlockLines, Layout},
};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{Address, U256, map::HashMap};
use polytrie_chain::{BlockAccessList, BlockWrites};
use polytrie_state::{AccountWrite, WriteSet};
use std::{
    collections::VecDeque,
    fmt,
    io::{self, Write},
    path::Path,
};

const LAYOUT: Layout = Layout {
    heading: "#kind,block,txindex,ordinal,address,key,old,new\n",
    number: 1,
    syncs: ["trace: content", "trace: name"],
};

/// A file of lines `kind,block,txindex,ordinal,address,key,old,new`, in the order of the chain.
///
/// The kind is `B` (balance, hexadecimal), `N` (nonce, decimal) or `S` (slot, hexadecimal as its key). `txindex` counts
/// as EIP-7928 does, so the first transaction has 1; a value has one line for each transaction that changed it. The
/// file has no code, and no slots of contracts that destroyed themselves before Cancun.
#[derive(Debug)]
pub struct TraceLog {
    lines: BlockLines,
    /// The access lists of blocks that may not be written yet, in the order in which they were executed.
    lists: VecDeque<BlockAccessList>,
    /// Number of the last block that has lines.
    last: u64,
}

/// The value of an account that a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Balance,
    Nonce,
    Slot(U256),
}

/// A line without its ordinal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    index: u64,
    address: Address,
    field: Field,
    old: U256,
    new: U256,
}

impl TraceLog {
    /// Opens the file, or standard output if the path is `-`. The file is not changed before the import begins.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or has other content.
    pub fn create(path: &Path) -> Result<Self, ImportError> {
        let lines = BlockLines::create(path, &LAYOUT)?;
        Ok(Self { lines, lists: VecDeque::new(), last: 0 })
    }

    pub(super) fn begin(&mut self, head: u64) -> Result<(), ImportError> {
        self.last = head;
        self.lines.begin(head)
    }

    /// Takes the access list of a block that was executed.
    pub(super) fn executed(&mut self, list: BlockAccessList) {
        self.lists.push_back(list);
    }

    /// Writes the lines of a block with a verified root. Lines of blocks of another branch are removed first.
    pub(super) fn written(&mut self, block: &BlockWrites) -> Result<(), ImportError> {
        // A block that was found to be invalid has a list and no writes.
        let list = loop {
            match self.lists.pop_front() {
                Some(list) if list.hash == block.hash => break list.list,
                Some(_) => {}
                None => return Ok(()),
            }
        };
        if block.number <= self.last {
            self.lines.go_back(block.number.saturating_sub(1))?;
        }
        self.last = block.number;
        let lines = lines(&list, &block.writes);
        self.lines.write(|out| {
            let mut numbered = (1..).zip(&lines);
            numbered.try_for_each(|(ordinal, line)| line.write(out, block.number, ordinal))
        })
    }

    pub(super) fn make_durable(&mut self) -> Result<(), ImportError> {
        self.lines.make_durable()
    }
}

/// Returns the lines of a block, in the order of its transactions.
fn lines(list: &[AccountChanges], writes: &WriteSet) -> Vec<Line> {
    let written: HashMap<Address, &AccountWrite> =
        writes.accounts().iter().filter_map(|write| Some((write.address?, write))).collect();
    let mut lines = Vec::new();
    for account in list {
        let write = written.get(&account.address).copied();
        let before = write.and_then(|write| write.before);
        let mut add = |field, before: Option<U256>, left: Vec<(u64, U256)>| {
            // A value that is not in the write set ended as it was before the block.
            let Some((_, end)) = left.last() else { return };
            let mut old = before.unwrap_or(*end);
            for (index, new) in left {
                lines.push(Line { index, address: account.address, field, old, new });
                old = new;
            }
        };
        let balances = account.balance_changes.iter();
        let balances = balances.map(|c| (c.block_access_index.get(), c.post_balance)).collect();
        add(Field::Balance, write.map(|_| before.unwrap_or_default().balance), balances);
        let nonces = account.nonce_changes.iter();
        let nonces =
            nonces.map(|c| (c.block_access_index.get(), U256::from(c.new_nonce))).collect();
        add(Field::Nonce, write.map(|_| U256::from(before.unwrap_or_default().nonce)), nonces);
        let slots = write.into_iter().flat_map(|write| &write.slots);
        let slots: HashMap<U256, U256> =
            slots.filter_map(|write| Some((write.slot?, write.before))).collect();
        for slot in &account.storage_changes {
            let left = slot.changes.iter().map(|c| (c.block_access_index.get(), c.new_value));
            add(Field::Slot(slot.slot), slots.get(&slot.slot).copied(), left.collect());
        }
    }
    // At the same index, accounts and their values stay in the order of the list.
    lines.sort_by_key(|line| line.index);
    lines
}

impl Line {
    fn write(&self, out: &mut dyn Write, block: u64, ordinal: u64) -> io::Result<()> {
        let Self { index, address, field, old, new } = self;
        let (kind, key) = match field {
            Field::Balance => ("B", None),
            Field::Nonce => ("N", None),
            Field::Slot(slot) => ("S", Some(slot)),
        };
        write!(out, "{kind},{block},{index},{ordinal},{address:x},")?;
        key.map_or(Ok(()), |key| write!(out, "{key:x}"))?;
        match field {
            Field::Nonce => writeln!(out, ",{old},{new}"),
            Field::Balance | Field::Slot(_) => writeln!(out, ",{},{}", Hex(*old), Hex(*new)),
        }
    }
}

/// A value in hexadecimal; an empty string for zero.
struct Hex(U256);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() { Ok(()) } else { write!(f, "{:x}", self.0) }
    }
}
