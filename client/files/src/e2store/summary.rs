//! The formats of archives, and what is said of a file that was written.

use alloy_primitives::{B256, hex};

use super::BLOCKS_PER_ERA;

/// The formats that archives of blocks have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// Up to the merge.
    Era1,
    /// Before and after the merge.
    Ere,
}

impl ArchiveFormat {
    /// What the names of its files end in, without the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Era1 => "era1",
            Self::Ere => "ere",
        }
    }
}

/// What a file holds that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveSummary {
    /// Its format.
    pub format: ArchiveFormat,
    /// The number of its first block, a multiple of [`BLOCKS_PER_ERA`].
    pub start: u64,
    /// How many blocks it has.
    pub blocks: u64,
    /// What its name ends in: for era1 the accumulator, for ere the hash of its last block.
    pub id: B256,
}

impl ArchiveSummary {
    /// The name such a file has everywhere: network, epoch in five digits, and the first four bytes of [`Self::id`]. That of
    /// an ere file says that it holds no proofs.
    pub fn file_name(&self, network: &str) -> String {
        let epoch = self.start / BLOCKS_PER_ERA;
        let profile = match self.format {
            ArchiveFormat::Era1 => "",
            ArchiveFormat::Ere => "-noproofs",
        };
        let extension = self.format.extension();
        format!("{network}-{epoch:05}-{}{profile}.{extension}", hex::encode(&self.id[..4]))
    }
}
