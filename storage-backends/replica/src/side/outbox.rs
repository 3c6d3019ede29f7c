//! The outbox: writes that wait to be sent to the workers.

use super::{
    TrieSide,
    message::{LeafWrite, StorageWrite, Writes},
};
use polytrie_state::{AccountWrite, Result};

/// Writes that wait until there are enough of them to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    parts: Vec<Writes>,
    count: usize,
}

impl Outbox {
    /// Returns the number of waiting accounts' writes.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn push(&mut self, write: AccountWrite, side: &TrieSide) {
        if self.parts.is_empty() {
            self.parts.resize_with(side.parts(), Writes::default);
        }
        let leaf = LeafWrite::of(&write);
        if leaf.storage {
            let (account, wipe) = (write.hash, write.clears_slots());
            let write = StorageWrite { account, wipe, slots: write.slots };
            self.parts[side.part_of(&account)].storage.push(write);
        }
        self.parts[0].leaves.push(leaf);
        self.count += 1;
    }

    /// Sends all writes; with `share`, to the workers' threads if there are any.
    pub(crate) fn send(&mut self, side: &TrieSide, share: bool) -> Result<()> {
        self.count = 0;
        let parts = self.parts.iter_mut().enumerate().filter(|(_, writes)| writes.len() > 0);
        side.write(parts.map(|(part, writes)| (part, std::mem::take(writes))), share)
    }
}
