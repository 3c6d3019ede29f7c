//! The era1 files of a directory, in the order of their blocks.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    error::{BlockFileError, BlockFileErrorKind},
    reader::{display_name, open_error},
};

/// One era1 file of a directory.
#[derive(Debug)]
pub(crate) struct DirectoryEntry {
    pub(crate) path: PathBuf,
    /// Its length.
    pub(crate) bytes: u64,
    epoch: u64,
    network: String,
    name: String,
}

/// Lists the `*.era1` files of a directory by their epoch, which is in their name:
/// `NETWORK-EPOCH-ROOT.era1`. Files of other names are not looked at.
pub(crate) fn list_directory(
    directory: &Path,
    file: &Arc<str>,
) -> Result<Vec<DirectoryEntry>, BlockFileError> {
    let fail = |kind| BlockFileError::new(file, kind);
    let mut entries = Vec::new();
    for entry in directory.read_dir().map_err(|error| open_error(file, error))? {
        let path = entry.map_err(|error| open_error(file, error))?.path();
        if path.extension().is_none_or(|extension| extension != "era1") {
            continue;
        }
        let meta = path.metadata().map_err(|error| open_error(&display_name(&path), error))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Some((network, epoch)) = parse(&name) else {
            return Err(fail(BlockFileErrorKind::Era1Name { name: format!("{name}.era1") }));
        };
        entries.push(DirectoryEntry {
            bytes: meta.len(),
            epoch,
            network: network.to_owned(),
            name: format!("{name}.era1"),
            path,
        });
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

/// The network and the epoch in `NETWORK-EPOCH-ROOT`.
fn parse(stem: &str) -> Option<(&str, u64)> {
    let (rest, _root) = stem.rsplit_once('-')?;
    let (network, epoch) = rest.rsplit_once('-')?;
    let digits = !epoch.is_empty() && epoch.bytes().all(|digit| digit.is_ascii_digit());
    Some((network, digits.then(|| epoch.parse().ok())??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_network_and_epoch() {
        assert_eq!(parse("mainnet-00123-5ec1ffb8"), Some(("mainnet", 123)));
        assert_eq!(parse("my-net-00000-5ec1ffb8"), Some(("my-net", 0)));
        for other in ["mainnet", "mainnet-00001", "mainnet-x-5ec1ffb8", "mainnet-+1-5ec1ffb8"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
