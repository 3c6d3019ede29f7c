//! The conversion of RocksDB's errors to [`KvError`].

use polytrie_kv::KvError;
use rocksdb::ErrorKind;
use std::{io, path::Path};

/// Name of the engine on the command line and in errors.
pub(crate) const NAME: &str = "rocksdb";

/// Converts an error. RocksDB reports errors of the operating system only as text.
pub(crate) fn convert(action: &'static str, path: &Path, error: rocksdb::Error) -> KvError {
    let kind = error.kind();
    let reason = error.into_string();
    let says = |words: &str| reason.contains(words);
    let system = |kind| KvError::io("write to", path, io::Error::new(kind, reason.clone()));
    match kind {
        ErrorKind::Corruption => {
            KvError::Corrupt(format!("{NAME} in {}: {reason}", path.display()))
        }
        _ if says("No space left on device") => system(io::ErrorKind::StorageFull),
        _ if says("Disk quota exceeded") => system(io::ErrorKind::QuotaExceeded),
        _ if says("File too large") => system(io::ErrorKind::FileTooLarge),
        _ if says("While lock file") || says("lock hold by current process") => {
            KvError::InUse { path: path.to_path_buf(), holder: String::new() }
        }
        _ if says("Permission denied") => system(io::ErrorKind::PermissionDenied),
        _ if says("Read-only file system") => system(io::ErrorKind::ReadOnlyFilesystem),
        _ => KvError::Engine { engine: NAME, action, reason },
    }
}
