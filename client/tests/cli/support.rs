//! Macros, chains and helper functions of the tests of the command line.

use crate::{
    branches::{Branch, branch},
    fixtures::{fixture, read},
    run::{Run, polytrie, run},
};
use alloy_primitives::Bytes;
use parking_lot::Mutex;
use polytrie::blocks::BlockReader;
use polytrie_chainspec::ChainSpec;
use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

pub(crate) use crate::{
    each_layer::for_each_layer,
    sample::{sample, sample_blocks},
};

/// Whether the keys of a layer are made of addresses and slots, so that a state with only their hashes is not
/// enough.
pub(crate) fn needs_names(layer: &str) -> bool {
    layer == "binary"
}

/// Imports a file into a data directory with this chain, layer and further options.
macro_rules! import {
    ($data:expr, $file:expr, $chain:expr, $layer:expr $(, $arg:expr)* $(,)?) => {
        $crate::run::polytrie![
            "import", $file, "--datadir", $data, "--chain", $chain, "--state", $layer $(, $arg)*
        ]
    };
}
pub(crate) use import;

/// Begins a data directory with a dump, the header of its block, this chain and further options.
macro_rules! init_from_dump {
    ($data:expr, $dump:expr, $header:expr, $chain:expr $(, $arg:expr)* $(,)?) => {
        $crate::run::polytrie![
            "init", "--state-dump", $dump, "--header", $header, "--chain", $chain, "--datadir", $data
            $(, $arg)*
        ]
    };
}
pub(crate) use init_from_dump;

/// Imports a file into a data directory with this chain and options that are made while the test runs.
pub(crate) fn import_with(data: &Data, file: &Path, chain: &Path, more: &[&str]) -> Run {
    let dir = data.path();
    let mut args = vec!["import".as_ref(), file.as_os_str(), "--datadir".as_ref(), dir.as_os_str()];
    args.extend(["--chain".as_ref(), chain.as_os_str()]);
    args.extend(more.iter().map(OsStr::new));
    run(&args, &[])
}

/// A chain of the fixtures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainFixture {
    /// The path of the file with its blocks, among the fixtures.
    pub(crate) file: &'static str,
    /// The built-in name of the chain, or the path of its genesis file.
    pub(crate) chain: &'static str,
    pub(crate) head: u64,
    pub(crate) hash: &'static str,
}

/// A chain of 54 blocks with every fork from Frontier to Osaka.
pub(crate) const RPC_COMPAT: ChainFixture = ChainFixture {
    file: "chains/rpc-compat/chain.rlp",
    chain: "chains/rpc-compat/genesis.json",
    head: 54,
    hash: "0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7",
};

/// A chain of 1310 blocks with every fork of proof of work and 22,258 transactions. Its file has block 0.
pub(crate) const CONDENSE: ChainFixture = ChainFixture {
    file: "chains/condense/export.rlp.gz",
    chain: "chains/condense/foundation.conf.json",
    head: 1310,
    hash: "0x8e8dfbabab379f2459d97ac3ec2c0ccfbbe920edc5c19043b89dc94f9ec2f707",
};

/// The first 1000 blocks of mainnet. The file has block 0.
pub(crate) const FRONTIER: ChainFixture = ChainFixture {
    file: "chains/frontier-1000/1000.blocks",
    chain: "mainnet",
    head: 999,
    hash: "0xc31b362e591aa07faa977dbc492ae43cd47eef291920435153bbbf3acaf2fc2f",
};

impl ChainFixture {
    /// Returns the paths of the files, or `None` if one is missing.
    pub(crate) fn open(self) -> Option<Chain> {
        let chain = match self.chain.contains('/') {
            true => fixture(self.chain)?,
            false => PathBuf::from(self.chain),
        };
        Some(Chain { file: fixture(self.file)?, chain, head: self.head, hash: self.hash })
    }
}

/// A chain whose files are present.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) file: PathBuf,
    pub(crate) chain: PathBuf,
    pub(crate) head: u64,
    pub(crate) hash: &'static str,
}

impl Chain {
    /// Returns the blocks as RLP.
    pub(crate) fn blocks(&self) -> Vec<Bytes> {
        BlockReader::open(&self.file).unwrap().map(|block| block.unwrap().rlp).collect()
    }

    /// Returns the specification of the chain.
    pub(crate) fn spec(&self) -> Arc<ChainSpec> {
        ChainSpec::load(self.chain.to_str().unwrap()).unwrap()
    }

    /// Returns the blocks of a branch of this chain, as [`branch`] makes them. Each branch is made once, because the
    /// tests of all layers need it, and the chain up to the fork is executed for it.
    pub(crate) fn branch(&self, of: Branch) -> Option<Vec<Bytes>> {
        static MADE: Mutex<Vec<(PathBuf, Branch, Vec<Bytes>)>> = Mutex::new(Vec::new());
        let mut made = MADE.lock();
        let known = made.iter().find(|(file, branch, _)| *file == self.file && *branch == of);
        if let Some((_, _, blocks)) = known {
            return Some(blocks.clone());
        }
        let blocks = branch(&self.spec(), &self.blocks(), of)?;
        made.push((self.file.clone(), of, blocks.clone()));
        Some(blocks)
    }

    /// Returns the bytes of the file of blocks, decompressed.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        read(&self.file)
    }

    /// Returns a data directory with the blocks up to `to`.
    pub(crate) fn imported(&self, layer: &str, to: u64) -> Data {
        let data = Data::new();
        import![data.path(), self.file, self.chain, layer, "--to", to.to_string()].ok();
        assert_eq!(data.head().0, to);
        data
    }
}

/// The data directory of a test, and a directory for other files beside it.
#[derive(Debug)]
pub(crate) struct Data {
    temp: TempDir,
}

impl Data {
    /// Returns a path at which no data directory exists yet.
    pub(crate) fn new() -> Self {
        Self { temp: tempfile::tempdir().unwrap() }
    }

    /// Returns the path of the data directory.
    pub(crate) fn path(&self) -> PathBuf {
        self.temp.path().join("data")
    }

    /// Returns the path of a file beside the data directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// Writes a file beside the data directory and returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Returns the number and hash of the head.
    #[track_caller]
    pub(crate) fn head(&self) -> (u64, String) {
        head(&self.path())
    }

    /// Returns the dump of the state, one account a line.
    pub(crate) fn dump(&self) -> String {
        polytrie!["db", "dump", "--datadir", self.path()].ok().text().to_owned()
    }

    /// Checks that `db check` finds no error.
    #[track_caller]
    pub(crate) fn check(&self) {
        check(&self.path());
    }
}

/// Returns the number and hash of the head of a data directory.
#[track_caller]
pub(crate) fn head(datadir: &Path) -> (u64, String) {
    let stats = polytrie!["db", "stats", "--datadir", datadir, "--json", "-"].ok().json();
    (stats["head"]["number"].as_u64().unwrap(), stats["head"]["hash"].as_str().unwrap().to_owned())
}

/// Checks that `db check` finds no error.
#[track_caller]
pub(crate) fn check(datadir: &Path) {
    let run = polytrie!["db", "check", "--datadir", datadir];
    assert_eq!(run.code, Some(0), "{}\n{}", run.text(), run.stderr);
    assert!(run.text().starts_with("clean: "), "{}", run.text());
}

/// Joins blocks into the content of a file.
pub(crate) fn stream<'a>(blocks: impl IntoIterator<Item = &'a Bytes>) -> Vec<u8> {
    blocks.into_iter().flat_map(|block| block.iter().copied()).collect()
}

/// Returns the message as it is where the files of the tests lie in a directory with a short name.
fn with_short_paths(message: &str) -> String {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
    let fixtures = env::var_os("POLYTRIE_FIXTURES").map(PathBuf::from);
    let dirs = [env::temp_dir(), workspace].into_iter().chain(fixtures);
    let named = dirs.filter(|dir| !dir.as_os_str().is_empty());
    named.fold(message.to_owned(), |text, dir| text.replace(&*dir.to_string_lossy(), "/tmp"))
}

/// Checks that the command failed with this code, and that the last line of standard error is one sentence that
/// contains each of `words`.
#[track_caller]
pub(crate) fn assert_fails(run: &Run, code: i32, words: &[&str]) {
    let message = run.message();
    assert_eq!(run.code, Some(code), "{}", run.stderr);
    assert!(message.starts_with("error: "), "{}", run.stderr);
    assert_eq!(run.stderr.matches("error: ").count(), 1, "said more than once: {}", run.stderr);
    let length = with_short_paths(message).len();
    assert!(length < 700, "no sentence of {length} characters is read: {message}");
    for word in words {
        assert!(message.contains(word), "`{word}` is missing in: {message}");
    }
}
