//! Reads access lists from a file.

use super::{AccessListFileError, Contents, Place};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{B256, map::B256Map};
use alloy_rlp::Decodable;
use polytrie_kv::{
    disk::{Access, File},
    strip_checksum,
};
use std::{
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// Reader of the lists that a file held when it was opened.
#[derive(Debug)]
pub struct AccessListReader {
    path: PathBuf,
    file: File,
    places: B256Map<Place>,
}

impl AccessListReader {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read, or holds something else.
    pub fn open(path: &Path) -> Result<Self, AccessListFileError> {
        let failed = |source| AccessListFileError::Io { file: path.to_owned(), source };
        let mut file = File::open(path, Access::Read).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => AccessListFileError::Missing { file: path.to_owned() },
            _ => failed(error),
        })?;
        let contents = Contents::find(&mut file, false).map_err(failed)?;
        let contents =
            contents.ok_or_else(|| AccessListFileError::OtherContent { file: path.to_owned() })?;
        Ok(Self { path: path.to_owned(), file, places: contents.places })
    }

    /// Returns the number of lists.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no list.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether the list of a block is there.
    pub fn has(&self, block: &B256) -> bool {
        self.places.contains_key(block)
    }

    /// Reads the list of a block, if it is there.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read, or is damaged.
    pub fn get(
        &mut self,
        block: &B256,
    ) -> Result<Option<Vec<AccountChanges>>, AccessListFileError> {
        let Some(place) = self.places.get(block).copied() else { return Ok(None) };
        let rlp = self
            .read(place)
            .map_err(|source| AccessListFileError::Io { file: self.path.clone(), source })?;
        let list = match strip_checksum(&block[..], &rlp) {
            Some(mut rlp) => Vec::decode(&mut rlp).map_err(|error| error.to_string()),
            None => Err("its checksum is wrong".to_owned()),
        };
        list.map(Some).map_err(|reason| AccessListFileError::Damaged {
            file: self.path.clone(),
            offset: place.offset,
            reason,
        })
    }

    fn read(&mut self, place: Place) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(place.offset))?;
        let mut rlp = Vec::new();
        (&mut self.file).take(u64::from(place.length)).read_to_end(&mut rlp)?;
        Ok(rlp)
    }
}
