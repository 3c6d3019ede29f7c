//! The position of the database, and the data of a step in the trail: all that it takes to append the step again.

use alloy_primitives::B256;
use polytrie_state::{
    Mark as IsMark, TrailStep,
    foreign::{Changes, Key},
};
use std::sync::Arc;

/// The first byte of an encoded block.
const BLOCK: u8 = 0;
/// The only byte of an encoded undo.
const BACK: u8 = 1;

/// A log of operations, by its length and root.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Log {
    /// Number of operations; 0 if the database was never filled.
    pub(crate) operations: u64,
    /// The root of the database after these operations.
    pub(crate) root: B256,
}

/// A log with the number of its files.
///
/// ```text
/// number of the files, 8 bytes, big-endian ‖ operations, 8 bytes, big-endian ‖ root
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The number of the files.
    pub(crate) files: u64,
    /// The log in these files.
    pub(crate) log: Log,
}

impl IsMark for Mark {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.files.to_be_bytes());
        out.extend_from_slice(&self.log.operations.to_be_bytes());
        out.extend_from_slice(self.log.root.as_slice());
    }

    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (files, rest) = bytes.split_first_chunk::<8>()?;
        let (operations, rest) = rest.split_first_chunk::<8>()?;
        let (root, rest) = rest.split_first_chunk::<32>()?;
        let [files, operations] = [files, operations].map(|number| u64::from_be_bytes(*number));
        Some((Self { files, log: Log { operations, root: B256::new(*root) } }, rest))
    }

    fn digest(&self) -> B256 {
        self.log.root
    }

    fn is_filled(&self) -> bool {
        self.log.operations > 0
    }

    fn unfilled(&self) -> Self {
        Self { log: Log::default(), ..*self }
    }

    fn in_place_of(self, other: &Self) -> Self {
        Self { files: other.files, ..self }
    }
}

/// The data of a step.
///
/// ```text
/// 0 ‖ (key ‖ length of the value, 1 byte, 0 if it was removed ‖ value)…      or 1
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A block that wrote these changes.
    Block(Arc<Changes>),
    /// An undo to an earlier log.
    Back,
}

impl TrailStep for Step {
    fn encode(&self, out: &mut Vec<u8>) {
        let changes = match self {
            Self::Back => return out.push(BACK),
            Self::Block(changes) => changes,
        };
        out.push(BLOCK);
        for (key, value) in &**changes {
            let value = value.as_deref().unwrap_or_default();
            out.extend_from_slice(key);
            // A flat row has between 1 and 73 bytes.
            out.push(value.len() as u8);
            out.extend_from_slice(value);
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, mut rest) = bytes.split_first()?;
        if *kind == BACK {
            return rest.is_empty().then_some(Self::Back);
        }
        let mut changes = Changes::new();
        while !rest.is_empty() {
            let (key, after) = rest.split_first_chunk::<{ size_of::<Key>() }>()?;
            let (length, after) = after.split_first()?;
            let (value, after) = after.split_at_checked(usize::from(*length))?;
            changes.insert(*key, (!value.is_empty()).then(|| value.to_vec()));
            rest = after;
        }
        (*kind == BLOCK).then(|| Self::Block(Arc::new(changes)))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn marks_and_steps_are_read_as_they_were_written() {
        let log = Log { operations: 2, root: B256::repeat_byte(3) };
        let (mark, mut bytes) = (Mark { files: 1, log }, Vec::new());
        mark.encode(&mut bytes);
        bytes.push(9);
        assert_eq!(Mark::decode(&bytes).unwrap(), (mark, &[9][..]));
        assert_eq!(Mark::decode(&bytes[..47]), None);

        let changes = [([1; 32], Some(vec![5; 73])), ([2; 32], None), ([3; 32], Some(vec![0]))];
        for step in [Step::Back, Step::Block(Arc::new(changes.into())), Step::Block(Arc::default())]
        {
            let mut bytes = Vec::new();
            step.encode(&mut bytes);
            assert_eq!(Step::decode(&bytes), Some(step));
            bytes.push(1);
            assert_eq!(Step::decode(&bytes), None);
        }
        assert_eq!(Step::decode(&[]), None);
        assert_eq!(Step::decode(&[2]), None);
    }
}
