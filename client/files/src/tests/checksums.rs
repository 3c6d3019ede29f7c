//! Tests of the list `checksums.txt` that lies beside the files of an archive.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path};

use alloy_primitives::{U256, hex};
use sha2::{Digest, Sha256};

use super::{
    super::{ArchiveExporter, ArchiveFormat, BlockFileErrorKind, BlockReader, e2store},
    all, encode, made_up_chain,
};

const FORMATS: [ArchiveFormat; 2] = [ArchiveFormat::Era1, ArchiveFormat::Ere];

/// Writes a range of an invented chain to archive files and returns their names.
fn export(directory: &Path, format: ArchiveFormat, from: usize, to: usize) -> Vec<String> {
    let chain = made_up_chain(to as u64);
    let mut out = ArchiveExporter::new(format, directory, "dev", from as u64).unwrap();
    let mut sum = U256::ZERO;
    for (number, (block, rlp)) in chain.iter().zip(encode(&chain)).enumerate() {
        sum += block.header.difficulty;
        if number >= from {
            out.push(&rlp, &[], sum).unwrap();
        }
    }
    let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    out.finish().unwrap().iter().map(name).collect()
}

fn sha256(path: &Path) -> String {
    hex::encode_prefixed(Sha256::digest(fs::read(path).unwrap()))
}

fn refused(path: &Path) -> String {
    let error = all(BlockReader::open(path)).unwrap_err();
    assert!(!error.is_io(), "{error}");
    error.to_string()
}

#[test]
fn an_export_writes_a_list_of_all_files_that_are_there() {
    let era = e2store::BLOCKS_PER_ERA as usize;
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let mut names = export(path, format, 0, era);
        let list = || fs::read_to_string(path.join("checksums.txt")).unwrap();
        assert_eq!(list(), format!("{}\n", sha256(&path.join(&names[0]))));
        // The hash of a file that existed before is taken from the list, even if the file was
        // damaged since.
        let before = list();
        let mut bytes = fs::read(path.join(&names[0])).unwrap();
        bytes[1000] ^= 1;
        fs::write(path.join(&names[0]), bytes).unwrap();
        names.extend(export(path, format, era, era + 5));
        assert_eq!(list(), format!("{before}{}\n", sha256(&path.join(&names[1]))));
        assert!(refused(path).contains("which checksums.txt beside it does not list"));
        // The hashes are computed if there is no list, or if the list does not fit the files.
        for text in ["", "hello\n"] {
            fs::write(path.join("checksums.txt"), text).unwrap();
            export(path, format, era, era + 5);
            let [first, second] = [0, 1].map(|file| sha256(&path.join(&names[file])));
            assert_eq!(list(), format!("{first}\n{second}\n"));
        }
    }
}

#[test]
fn an_export_that_breaks_off_leaves_a_list_of_the_files_it_has_made() {
    let era = e2store::BLOCKS_PER_ERA as usize;
    let chain = made_up_chain(2 * era as u64 + 5);
    let blocks = encode(&chain);
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        // An earlier export left a list of the first file alone.
        let names = export(path, format, 0, era);
        let before = fs::read_to_string(path.join("checksums.txt")).unwrap();
        let mut out = ArchiveExporter::new(format, path, "dev", era as u64).unwrap();
        let mut sum: U256 = chain[..era].iter().map(|block| block.header.difficulty).sum();
        for (block, rlp) in chain.iter().zip(&blocks).skip(era) {
            sum += block.header.difficulty;
            out.push(rlp, &[], sum).unwrap();
        }
        drop(out);
        // The export has written the second file and nothing of the third.
        assert_eq!(path.read_dir().unwrap().count(), 3);
        let list = fs::read_to_string(path.join("checksums.txt")).unwrap();
        assert!(list.starts_with(&before) && list.lines().count() == 2, "{list}, {names:?}");
        assert_eq!(all(BlockReader::open(path)).unwrap().len(), 2 * era);
    }
}

/// The list would have had no line for the files that were there, so that they would have been refused.
#[test]
fn an_export_does_not_join_another_network() {
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        export(path, format, 0, 5);
        let list = || fs::read_to_string(path.join("checksums.txt")).unwrap();
        let before = list();
        let mut out = ArchiveExporter::new(format, path, "other", 0).unwrap();
        let chain = made_up_chain(1);
        let pushed = out.push(&encode(&chain)[0], &[], chain[0].header.difficulty);
        let error = pushed.unwrap_err();
        assert!(!error.is_io(), "{error}");
        assert!(error.to_string().contains("a file of another network than other"), "{error}");
        drop(out);
        assert_eq!(list(), before);
        assert_eq!(all(BlockReader::open(path)).unwrap().len(), 5);
    }
}

#[test]
fn a_file_that_is_not_as_listed_is_refused() {
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let name = &export(path, format, 0, 5)[0];
        let file = path.join(name);
        let hash = sha256(&file);
        let list = path.join("checksums.txt");
        let other = "0x".to_owned() + &"17".repeat(32);
        for good in [
            format!("{hash}\n"),
            format!("{other}\n\n{hash}"),
            format!("{}  {name}\n", &hash[2..]),
            format!("{other} *other.era1\n{hash} *dir/{name}\n"),
            // A list of other files.
            format!("{other}  other.era1\n"),
            String::new(),
        ] {
            fs::write(&list, &good).unwrap();
            for path in [path, file.as_path()] {
                assert_eq!(all(BlockReader::open(path)).unwrap().len(), 5, "{good}");
            }
        }
        fs::write(&list, format!("{other}\n")).unwrap();
        for path in [path, file.as_path()] {
            let text = refused(path);
            let words = format!(
                "{name}: its SHA-256 is {hash}, which checksums.txt beside it does not list"
            );
            assert!(text.contains(&words), "{text}");
        }
        fs::write(&list, format!("{hash}  other.era1\n{other}  {name}\n")).unwrap();
        let text = refused(&file);
        let words =
            format!("is {hash}, but checksums.txt beside it says {other}; copy or download");
        assert!(text.contains(&words), "{text}");
        fs::write(&list, format!("{hash}\nsome words\n")).unwrap();
        let text = refused(&file);
        assert!(text.contains("checksums.txt: line 2 is no SHA-256"), "{text}");
        let kind = all(BlockReader::open(&file)).unwrap_err().kind;
        assert!(matches!(*kind, BlockFileErrorKind::ChecksumLine { line: 2 }));
        // A list of checksums does not apply to a stream of RLP.
        let rlp = path.join("blocks.rlp");
        fs::write(&rlp, encode(&made_up_chain(2)).concat()).unwrap();
        assert_eq!(all(BlockReader::open(&rlp)).unwrap().len(), 2);
    }
}
