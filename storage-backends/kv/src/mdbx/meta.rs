//! The meta pages of a data file: which commit is the newest, and whether it is whole.
//!
//! MDBX writes the three pages in rotation, and opens the newest that looks right: its so-called checksum is a
//! constant. A damaged page may therefore be accepted as it is, or be passed over for an older state, without a
//! message. And where the end of the file is missing, opening fills it up with zeros. So the pages are checked before
//! MDBX opens the file.
//!
//! MDBX never writes the header of such a page again. A damaged header would make a later commit in that page
//! unreadable, so this code rewrites it.
//!
//! ```text
//! page   header (20): .. flags (2) at 10, .. number (4) at 16     then the meta, integers as the processor has them
//! meta   magic and version (8), txnid (8), .., geometry, trees, canary, sign (8), txnid again (8), ..
//! ```

use super::{DATA_FILE, NAME, PAGE_BYTES};
use crate::{AtPath, KvError, Result, checksum::Checksum, confirmed::Durable, disk::if_there};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    ops::Range,
    path::{Path, PathBuf},
};

/// Number of meta pages.
const PAGES: usize = 3;
/// Bytes of header and meta.
const BYTES: usize = 244;
/// The flags of a meta page.
const FLAGS: u16 = 8;
/// The magic number of MDBX; the byte below it is the version.
const MAGIC: u64 = 0x59_65_9D_BD_EF_4C_11;
/// Number of attempts to read pages that another process writes meanwhile.
const ATTEMPTS: usize = 16;

const PAGE_FLAGS: usize = 10;
const PAGE_NUMBER: Range<usize> = 16..20;
const META_MAGIC: usize = 20;
const TXNID: Range<usize> = 28..36;
const USED_PAGES: usize = 56;
const PAGE_SIZE: usize = 64;
const TXNID_AGAIN: Range<usize> = 196..204;
/// The bytes of a meta page that a commit depends on. The canary, the count of retired pages and the numbers of boot
/// and file do not matter.
const ESSENTIAL: [Range<usize>; 2] = [0..156, 188..204];

type Page = [u8; BYTES];

/// The commit that a meta page describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Meta {
    commit: Durable,
    /// Bytes of the file that the commit uses.
    used_bytes: u64,
    /// Number of the page.
    page: usize,
}

impl Meta {
    #[expect(
        clippy::host_endian_bytes,
        reason = "MDBX writes its file as the processor has numbers"
    )]
    fn parse(bytes: &Page, page: usize) -> Option<Self> {
        let word = |at: usize| bytes[at..].first_chunk::<4>().map(|b| u32::from_ne_bytes(*b));
        let long = |at: usize| bytes[at..].first_chunk::<8>().map(|b| u64::from_ne_bytes(*b));
        let flags = bytes[PAGE_FLAGS..].first_chunk::<2>().map(|b| u16::from_ne_bytes(*b))?;
        let txnid = long(TXNID.start)?;
        let is_meta = flags == FLAGS
            && word(PAGE_NUMBER.start)? as usize == page
            && long(META_MAGIC)? >> 8 == MAGIC
            && long(TXNID_AGAIN.start)? == txnid;
        is_meta.then_some(())?;
        let essential = ESSENTIAL.into_iter();
        let checksum =
            essential.fold(Checksum::default(), |checksum, range| checksum.and(&bytes[range]));
        Some(Self {
            commit: Durable { number: txnid, checksum: checksum.number() },
            used_bytes: u64::from(word(USED_PAGES)?) * u64::from(word(PAGE_SIZE)?),
            page,
        })
    }
}

/// The meta pages of a data file.
#[derive(Debug)]
pub(super) struct MetaPages {
    dir: PathBuf,
    path: PathBuf,
    pages: [Page; PAGES],
    /// Length of the file in bytes.
    length: u64,
}

impl MetaPages {
    /// Reads the meta pages of the environment in `dir`; `None` if there is no data file.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(DATA_FILE);
        let found = if_there(File::open(&path)).at("read", &path)?;
        let Some(mut file) = found else { return Ok(None) };
        let mut pages = read_pages(&mut file).at("read", &path)?;
        for _ in 0..ATTEMPTS {
            let again = read_pages(&mut file).at("read", &path)?;
            if std::mem::replace(&mut pages, again) == again {
                break;
            }
        }
        // The length is read after the pages: a file grows before one of its pages says so.
        let length = file.metadata().at("read", &path)?.len();
        Ok(Some(Self { dir: dir.to_owned(), path, pages, length }))
    }

    /// Returns the last commit; `None` if no page holds one.
    pub(super) fn last_commit(&self) -> Option<Durable> {
        self.newest().map(|meta| meta.commit)
    }

    fn newest(&self) -> Option<Meta> {
        let metas = self.pages.iter().enumerate().filter_map(|(n, page)| Meta::parse(page, n));
        metas.max_by_key(|meta| meta.commit.number)
    }

    /// Checks that the last commit is the confirmed one or a later one and is whole, if one was confirmed, and that
    /// all pages in use are there.
    ///
    /// # Errors
    ///
    /// [`KvError::Lost`] if the commit is missing or damaged, [`KvError::Corrupt`] if pages are missing.
    pub(super) fn expect(&self, confirmed: Option<Durable>) -> Result<()> {
        let path = self.path.display();
        let lost = |what: String| {
            Err(KvError::Lost { path: self.dir.clone(), what: format!("{path} {what}") })
        };
        let newest = self.newest();
        if let Some(confirmed) = confirmed {
            let Some(newest) = newest else {
                return Err(KvError::Corrupt(format!("{path} holds no commit of {NAME}")));
            };
            let found = newest.commit.number;
            if found < confirmed.number {
                return lost(format!(
                    "ends with commit {found} of {NAME}, and commit {} was confirmed: a page of it is damaged, or the file is an older copy",
                    confirmed.number
                ));
            }
            if is_damaged(&newest, confirmed) {
                return lost(format!("has a damaged page: that of commit {found} of {NAME}"));
            }
        }
        match newest {
            Some(meta) if self.length < meta.used_bytes => Err(KvError::Corrupt(format!(
                "{path} has {} bytes, and {} are in use: it was cut off",
                self.length, meta.used_bytes
            ))),
            _ => Ok(()),
        }
    }

    /// Discards a damaged commit, so that MDBX opens the one before.
    pub(super) fn give_up(&mut self, confirmed: Durable) {
        if let Some(meta) = self.newest().filter(|meta| is_damaged(meta, confirmed)) {
            // `mend` rewrites a page that is no valid meta page.
            self.pages[meta.page].fill(0);
        }
    }

    /// Rewrites invalid pages as pages without a commit.
    pub(super) fn mend(&self) -> Result<()> {
        let Some(whole) = self.newest().map(|meta| &self.pages[meta.page]) else { return Ok(()) };
        for (number, page) in self.pages.iter().enumerate() {
            if Meta::parse(page, number).is_none() {
                tracing::warn!(
                    "{} had a damaged page {number}, which no commit needs",
                    self.path.display()
                );
                self.clear(number, whole).at("write to", &self.path)?;
            }
        }
        Ok(())
    }

    #[expect(
        clippy::host_endian_bytes,
        reason = "MDBX writes its file as the processor has numbers"
    )]
    fn clear(&self, number: usize, whole: &Page) -> io::Result<()> {
        let mut page = *whole;
        page[PAGE_NUMBER].copy_from_slice(&(number as u32).to_ne_bytes());
        page[TXNID].fill(0);
        page[TXNID_AGAIN].fill(0);
        let mut file = OpenOptions::new().write(true).open(&self.path)?;
        file.seek(SeekFrom::Start((number * PAGE_BYTES) as u64))?;
        file.write_all(&page)?;
        file.sync_all()
    }
}

fn is_damaged(meta: &Meta, confirmed: Durable) -> bool {
    meta.commit.number == confirmed.number && meta.commit != confirmed
}

fn read_pages(file: &mut File) -> io::Result<[Page; PAGES]> {
    let mut pages = [[0; BYTES]; PAGES];
    for (number, page) in pages.iter_mut().enumerate() {
        file.seek(SeekFrom::Start((number * PAGE_BYTES) as u64))?;
        let mut bytes = Vec::with_capacity(BYTES);
        (&mut *file).take(BYTES as u64).read_to_end(&mut bytes)?;
        page[..bytes.len()].copy_from_slice(&bytes);
    }
    Ok(pages)
}
