//! The era1 and ere files of a directory, in the order of their blocks.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    error::{BlockFileError, BlockFileErrorKind},
    reader::{display_name, open_error},
};

/// A file of a directory.
#[derive(Debug)]
pub(crate) struct DirectoryEntry {
    pub(crate) path: PathBuf,
    /// Length of the file, in bytes.
    pub(crate) bytes: u64,
    epoch: u64,
    network: String,
    name: String,
}

/// Returns the era1 and ere files of a directory in the order of their blocks, and any other path alone.
///
/// # Errors
///
/// Fails if the directory cannot be read, or the order of its files is unknown.
pub fn files_at(path: &Path) -> Result<Vec<PathBuf>, BlockFileError> {
    let alone = vec![path.to_owned()];
    if path.as_os_str() == "-" || !path.is_dir() {
        return Ok(alone);
    }
    let files: Vec<_> =
        list_directory(path, &display_name(path))?.into_iter().map(|entry| entry.path).collect();
    // The reader has an error for a directory without such files.
    Ok(if files.is_empty() { alone } else { files })
}

/// Lists the `*.era1` and `*.ere` files of a directory by their epoch, which is in their name:
/// `NETWORK-EPOCH-ROOT.era1`, `NETWORK-EPOCH-HASH.ere`, or `NETWORK-EPOCH-HASH-PROFILE.ere`. Files with other endings
/// are ignored. Each epoch must have one file, of either format.
pub(crate) fn list_directory(
    directory: &Path,
    file: &Arc<str>,
) -> Result<Vec<DirectoryEntry>, BlockFileError> {
    let fail = |kind| BlockFileError::new(file, kind);
    let mut entries = Vec::new();
    for entry in directory.read_dir().map_err(|error| open_error(file, error))? {
        let path = entry.map_err(|error| open_error(file, error))?.path();
        if !is_archive(&path) {
            continue;
        }
        let meta = path.metadata().map_err(|error| open_error(&display_name(&path), error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((network, epoch)) = parse(&name) else {
            return Err(fail(BlockFileErrorKind::ArchiveName { name }));
        };
        let network = network.to_owned();
        entries.push(DirectoryEntry { bytes: meta.len(), epoch, network, name, path });
    }
    entries.sort_by(|a, b| (a.epoch, &a.name).cmp(&(b.epoch, &b.name)));
    for pair in entries.windows(2) {
        let [a, b] = pair else { continue };
        if a.network != b.network {
            let (first, second) = (a.network.clone(), b.network.clone());
            return Err(fail(BlockFileErrorKind::MixedNetworks { first, second }));
        }
        if a.epoch == b.epoch {
            let (first, second) = (a.name.clone(), b.name.clone());
            return Err(fail(BlockFileErrorKind::DuplicateEpoch { epoch: a.epoch, first, second }));
        }
    }
    Ok(entries)
}

/// Returns the names of the era1 and ere files of one network, and their epochs, in the order of the names.
pub(crate) fn names_of(directory: &Path, network: &str) -> io::Result<Vec<(String, u64)>> {
    let mut names = Vec::new();
    for entry in directory.read_dir()? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let (true, Some((found, epoch))) = (is_archive(Path::new(&name)), parse(&name))
            && found == network
        {
            names.push((name, epoch));
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the name of an era1 or ere file of another network than this one, if the directory has any.
pub(crate) fn other_network(directory: &Path, network: &str) -> io::Result<Option<String>> {
    for entry in directory.read_dir()? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_other = || parse(&name).is_some_and(|(found, _)| found != network);
        if is_archive(Path::new(&name)) && is_other() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn is_archive(path: &Path) -> bool {
    // On a disk of another system a Mac puts what it knows about the file NAME into a file ._NAME.
    let is_note = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"._"));
    !is_note && path.extension().is_some_and(|extension| extension == "era1" || extension == "ere")
}

/// Returns the network and the epoch in the name of a file.
fn parse(name: &str) -> Option<(&str, u64)> {
    let (stem, extension) = name.rsplit_once('.')?;
    let is_profile = |part: &&str| {
        extension == "ere" && !part.is_empty() && part.bytes().all(|c| c.is_ascii_lowercase())
    };
    // The search goes from the end, because the name of a network may contain numbers, and a hash may look like a
    // profile.
    stem.rmatch_indices('-').find_map(|(at, _)| {
        let (network, rest) = (stem.get(..at)?, stem.get(at + 1..)?);
        let mut parts = rest.split('-');
        let (epoch, hash) = (parts.next()?, parts.next()?);
        let is_number = !epoch.is_empty() && epoch.bytes().all(|digit| digit.is_ascii_digit());
        let is_hash = !hash.is_empty() && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_one = is_number && is_hash && parts.all(|part| is_profile(&part));
        is_one.then(|| epoch.parse().ok().map(|epoch| (network, epoch)))?
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_a_mac_leaves_beside_a_file_is_no_archive() {
        let directory = tempfile::tempdir().unwrap();
        let name = "mainnet-00000-5ec1ffb8.era1";
        for name in [name, &format!("._{name}")] {
            std::fs::write(directory.path().join(name), b"").unwrap();
        }
        let entries = list_directory(directory.path(), &"directory".into()).unwrap();
        assert_eq!(entries.iter().map(|entry| &*entry.name).collect::<Vec<_>>(), [name]);
        assert_eq!(other_network(directory.path(), "mainnet").unwrap(), None);
    }

    #[test]
    fn names_tell_network_and_epoch() {
        for (name, expected) in [
            ("mainnet-00123-5ec1ffb8.era1", ("mainnet", 123)),
            ("my-net-00000-5ec1ffb8.era1", ("my-net", 0)),
            ("mainnet-00123-5ec1ffb8.ere", ("mainnet", 123)),
            ("mainnet-00123-12345678-noproofs.ere", ("mainnet", 123)),
            ("my-00002-net-00001-5ec1ffb8-noproofs-noreceipts.ere", ("my-00002-net", 1)),
            ("devnet-5-00003-abcdefab-noproofs.ere", ("devnet-5", 3)),
            ("devnet-5-00003-12345678-noproofs.ere", ("devnet-5", 3)),
        ] {
            assert_eq!(parse(name), Some(expected), "{name}");
        }
        for other in [
            "mainnet.era1",
            "mainnet-00001.era1",
            "mainnet-x-5ec1ffb8.era1",
            "mainnet-+1-5ec1ffb8.era1",
            "mainnet-00001-5ec1ffb8-noproofs.era1",
            "mainnet-00001-noproofs.ere",
            "mainnet-00001-5ec1ffb8-No.ere",
            "mainnet-00001-5ec1ffb8-.ere",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
