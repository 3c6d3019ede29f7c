//! The places of the records of an ere file.

use crate::{
    e2store::{BLOCKS_PER_ERA, E2StoreProblem, Kind, RecordHead},
    error::BlockFileErrorKind,
};

/// Heads of an ere file, by their kinds, in the order of the blocks.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) headers: Vec<RecordHead>,
    pub(super) bodies: Vec<RecordHead>,
    pub(super) receipts: Vec<RecordHead>,
    pub(super) proofs: Vec<RecordHead>,
    pub(super) difficulties: Vec<RecordHead>,
    pub(super) accumulator: Option<RecordHead>,
    pub(super) index: Option<RecordHead>,
    version: Option<RecordHead>,
}

impl Layout {
    /// Returns the kinds that the next record may have.
    pub(super) fn expected(&self) -> Vec<Kind> {
        if self.version.is_none() {
            return vec![Kind::Version];
        }
        let blocks = self.headers.len();
        match self.bodies.len() {
            0 if blocks == 0 => return vec![Kind::Header],
            0 => return vec![Kind::Header, Kind::Body],
            bodies if bodies < blocks => return vec![Kind::Body],
            _ => {}
        }
        let optional = [
            (Kind::SlimReceipts, self.receipts.len()),
            (Kind::Proof, self.proofs.len()),
            (Kind::TotalDifficulty, self.difficulties.len()),
        ];
        // Either every block has a record of such a kind, or none has.
        if let Some((kind, _)) = optional.iter().find(|(_, count)| (1..blocks).contains(count)) {
            return vec![*kind];
        }
        if self.accumulator.is_some() {
            return vec![Kind::DynamicBlockIndex];
        }
        let left = optional.iter().filter(|(_, count)| *count == 0).map(|(kind, _)| *kind);
        left.chain([Kind::Other(0), Kind::Accumulator, Kind::DynamicBlockIndex]).collect()
    }

    /// Adds the next record, which is of an [expected](Self::expected) kind.
    pub(super) fn push(&mut self, head: RecordHead) -> Result<(), BlockFileErrorKind> {
        match head.kind {
            Kind::Version => self.version = Some(head),
            Kind::Header if self.headers.len() as u64 == BLOCKS_PER_ERA => {
                return Err(head.error(None, E2StoreProblem::TooManyBlocks));
            }
            Kind::Header => self.headers.push(head),
            Kind::Body => self.bodies.push(head),
            Kind::SlimReceipts => self.receipts.push(head),
            Kind::Proof => self.proofs.push(head),
            Kind::TotalDifficulty => self.difficulties.push(head),
            Kind::Accumulator => self.accumulator = Some(head),
            Kind::DynamicBlockIndex => self.index = Some(head),
            Kind::Receipts | Kind::BlockIndex | Kind::Other(_) => {}
        }
        Ok(())
    }

    /// Returns the number of bytes of all records of the block at index `at` in the file.
    pub(super) fn bytes_of(&self, at: usize) -> u64 {
        let columns =
            [&self.headers, &self.bodies, &self.receipts, &self.proofs, &self.difficulties];
        columns.iter().filter_map(|heads| heads.get(at)).map(|head| head.end() - head.offset).sum()
    }

    /// Returns the number of bytes of the file.
    pub(super) fn bytes(&self) -> u64 {
        let start = self.version.map_or(0, |head| head.offset);
        self.index.map_or(0, |head| head.end() - start)
    }

    /// Returns the places that the index must have: for each kind of record that blocks have, in the order of the
    /// specification.
    pub(super) fn columns(&self) -> Vec<(Kind, Vec<u64>)> {
        [
            (Kind::Header, &self.headers),
            (Kind::Body, &self.bodies),
            (Kind::SlimReceipts, &self.receipts),
            (Kind::TotalDifficulty, &self.difficulties),
            (Kind::Proof, &self.proofs),
        ]
        .into_iter()
        .filter(|(_, heads)| !heads.is_empty())
        .map(|(kind, heads)| (kind, heads.iter().map(|head| head.offset).collect()))
        .collect()
    }
}
