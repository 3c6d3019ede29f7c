//! The formats of archives, and the summary of a written file.

use alloy_primitives::{B256, hex};

use super::BLOCKS_PER_ERA;

/// Formats of an archive of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// The format for blocks up to the merge.
    Era1,
    /// The format for blocks before and after the merge.
    Ere,
}

impl ArchiveFormat {
    /// Returns the extension of the files' names, without the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Era1 => "era1",
            Self::Ere => "ere",
        }
    }
}

/// Summary of a written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveSummary {
    /// Format of the file.
    pub format: ArchiveFormat,
    /// Number of the first block, a multiple of [`BLOCKS_PER_ERA`].
    pub start: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Hash whose first bytes are in the file's name: the accumulator for era1, the hash of the last block for ere.
    pub id: B256,
}

impl ArchiveSummary {
    /// Returns the usual name of such a file: network, epoch in five digits, and the first four bytes of [`Self::id`].
    /// The name of an ere file ends in `-noproofs`, because the file has no proofs.
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
