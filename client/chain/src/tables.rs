//! Tables of the chain and the layout of their rows. Numbers are eight bytes, big-endian.

use polytrie_kv::Table;
use polytrie_state::PREIMAGE_TABLE;

/// Block number → the block's RLP, byte for byte as it was imported.
pub(super) const BLOCKS: Table = Table::new(40, "Blocks", 8);
/// Block number → hash ‖ total difficulty (32 bytes each) ‖ the header's RLP. The header is here too, so that a search
/// through headers need not read whole blocks.
pub(super) const CANONICAL: Table = Table::new(41, "CanonicalHeaders", 8);
/// Block hash → number, for blocks of the chain.
pub(super) const NUMBERS: Table = Table::new(42, "HeaderNumbers", 32);
/// Block number → receipts without blooms (see `receipts.rs`).
pub(super) const RECEIPTS: Table = Table::new(43, "Receipts", 8);
/// Block number → the state layer's undo record.
pub(super) const UNDO: Table = Table::new(44, "UndoRecords", 8);
/// Block hash → total difficulty (32 bytes) ‖ the block's RLP, for blocks of other branches.
pub(super) const SIDE_BLOCKS: Table = Table::new(45, "SideBlocks", 32);
/// `head` → number ‖ hash of the head; the other keys are below.
pub(super) const META: Table = Table::new(46, "ChainMeta", 16);

/// Transaction hash → block number ‖ index in the block (four bytes, big-endian), if an index is kept.
pub(super) const TRANSACTIONS: Table = Table::new(47, "TransactionPlaces", 32);

/// Block hash → changes that a user made by hand before the block (see `by_hand.rs`).
pub(super) const BY_HAND: Table = Table::new(49, "StateByHand", 32);

/// Block number → the signers of Clique after the block, for some blocks of the chain (see `signers.rs`).
pub(super) const SIGNERS: Table = Table::new(90, "CliqueSigners", 8);

/// Key in [`META`] of the hash of the last block with indexed transactions.
pub(super) const INDEXED_KEY: &[u8] = b"indexed";
/// Key of the head's row.
pub(super) const HEAD_KEY: &[u8] = b"head";
/// Key of the row of a change of branch: hash of the former head ‖ its number ‖ hash of the new head. The row exists
/// only while such a change is in progress (see `switch.rs`).
pub(super) const SWITCH_KEY: &[u8] = b"switch";

/// Key of the row with the number of the block that the chain begins with. There is no row if that is the genesis block
/// (see `start.rs`).
pub(super) const START_KEY: &[u8] = b"start";

/// Key of the row of a block that is being taken back: its number ‖ number of steps done ‖ whether it is kept (one
/// byte). The row exists only while that is in progress (see `back.rs`).
pub(super) const WAY_BACK_KEY: &[u8] = b"back";

/// Tables of the chain.
pub const TABLES: &[Table] = &[
    BLOCKS,
    CANONICAL,
    NUMBERS,
    RECEIPTS,
    UNDO,
    SIDE_BLOCKS,
    META,
    TRANSACTIONS,
    PREIMAGE_TABLE,
    BY_HAND,
    SIGNERS,
];

/// Returns the tables that are cleared when a chain begins anew. Preimages stay, because they are true on any chain.
pub(super) fn of_blocks() -> impl Iterator<Item = Table> {
    TABLES.iter().copied().filter(|table| *table != PREIMAGE_TABLE)
}

/// Default number of blocks for which undo records are kept.
pub const UNDO_BLOCKS: u64 = 1_024;
