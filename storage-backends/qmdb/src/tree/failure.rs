//! The conversion of the crate's errors: its files are damaged, or another failure happened.

use super::database::DbError;
use crate::NAME;
use commonware_runtime::Error as RuntimeError;
use commonware_storage::{
    journal::Error as JournalError, merkle::Error as MerkleError, metadata::Error as MetadataError,
};
use polytrie_kv::KvError;
use polytrie_state::{StateError, corrupt};
use std::{io::ErrorKind, path::Path};

/// Returns the error of an action on the files in a directory, which may be a copy of those in another one.
pub(super) fn failed(
    dir: &Path,
    origin: &Path,
    action: &'static str,
    error: &DbError,
) -> StateError {
    let said = error.to_string();
    if is_damage(error) {
        return damaged(origin, &said);
    }
    StateError::Store(KvError::of_text(action, dir, &said).unwrap_or_else(|| {
        let reason = format!("{said}, in {}", dir.display());
        KvError::Engine { engine: NAME, action, reason }
    }))
}

/// Returns the error for files that are not as they were written.
pub(super) fn damaged(dir: &Path, said: &str) -> StateError {
    let dir = dir.display();
    corrupt!(
        "the files of qmdb in {dir} do not fit together ({said}); put back a copy of them and of the chain's store of the same moment"
    )
}

fn is_damage(error: &DbError) -> bool {
    match error {
        DbError::DataCorrupted(_)
        | DbError::UnexpectedData(_)
        | DbError::HistoricalFloorPruned(_)
        | DbError::OperationPruned(_) => true,
        DbError::Runtime(error) => is_damaged_file(error),
        DbError::Journal(error) | DbError::Merkle(MerkleError::Journal(error)) => {
            is_damaged_journal(error)
        }
        DbError::Metadata(error) | DbError::Merkle(MerkleError::Metadata(error)) => {
            is_damaged_metadata(error)
        }
        DbError::Merkle(_) => true,
        _ => false,
    }
}

fn is_damaged_journal(error: &JournalError) -> bool {
    match error {
        JournalError::Runtime(error) => is_damaged_file(error),
        JournalError::Metadata(error) => is_damaged_metadata(error),
        _ => true,
    }
}

fn is_damaged_metadata(error: &MetadataError) -> bool {
    match error {
        MetadataError::Runtime(error) => is_damaged_file(error),
        MetadataError::Corruption(_) => true,
    }
}

fn is_damaged_file(error: &RuntimeError) -> bool {
    match error {
        RuntimeError::PartitionMissing(_)
        | RuntimeError::PartitionCorrupt(_)
        | RuntimeError::BlobMissing(..)
        | RuntimeError::BlobInsufficientLength
        | RuntimeError::BlobCorrupt(..)
        | RuntimeError::BlobLayoutMismatch { .. }
        | RuntimeError::BlobVersionMismatch { .. }
        | RuntimeError::InvalidChecksum => true,
        // A file is shorter than it was.
        RuntimeError::Io(error) => error.kind() == ErrorKind::UnexpectedEof,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;

    #[test]
    fn a_file_that_is_too_short_is_damaged_and_a_full_disk_is_not() {
        let dir = Path::new("a");
        let failed = |error: Error| {
            failed(dir, dir, "open", &DbError::Journal(RuntimeError::from(error).into()))
        };
        let short = failed(ErrorKind::UnexpectedEof.into());
        assert!(matches!(short, StateError::Corrupt(_)), "{short}");
        // ENOSPC
        let full = failed(Error::from_raw_os_error(28));
        assert!(matches!(full, StateError::Store(KvError::DiskFull { .. })), "{full}");
    }
}
