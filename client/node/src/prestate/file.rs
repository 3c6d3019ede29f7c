//! The files of a directory of blocks with the state that they touch.

use alloy_consensus::{Block, Header, TxEnvelope};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use polytrie_consensus::decode::{decode_block, decode_lone_header};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Error of a directory of blocks with the state that they touch.
#[derive(Debug, Error)]
pub enum PrestateError {
    /// A file or directory that cannot be read.
    #[error("cannot read {}: {source}; check the path and its permissions", path.display())]
    Read {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A directory without a block.
    #[error("{} holds no file of a block; expected is a directory with a JSON file for each, as scripts/fetch-prestate writes them", .0.display())]
    Nothing(PathBuf),
    /// A file in an unknown form.
    #[error(
        "{}: {what}; expected is the JSON of a block with \"prestate\" (of prestateTracer), \"pre\" or \"state\" (of a witness), as scripts/fetch-prestate writes it",
        file.display()
    )]
    Form {
        /// Path of the file.
        file: PathBuf,
        /// Description of the problem.
        what: String,
    },
    /// A block that does not follow the one before.
    #[error(
        "{}: found block {found} on top of {parent}, expected block {expected} on top of {hash}; a directory holds blocks that follow each other, a file each",
        file.display()
    )]
    Gap {
        /// Path of the file.
        file: PathBuf,
        /// Number of the block.
        found: u64,
        /// Hash of its parent.
        parent: B256,
        /// Number after the block before.
        expected: u64,
        /// Hash of the block before.
        hash: B256,
    },
}

/// A decoded block.
#[derive(Debug)]
pub(super) struct DecodedBlock(pub(super) Block<TxEnvelope>);

impl DecodedBlock {
    pub(super) const fn header(&self) -> &Header {
        &self.0.header
    }
}

/// The file of a block.
#[derive(Debug)]
pub(super) struct PrestateFile {
    pub(super) path: PathBuf,
    pub(super) rlp: Bytes,
    pub(super) block: DecodedBlock,
    /// RLP of the parent's header.
    pub(super) parent: Option<Bytes>,
    /// Hashes of earlier blocks, by number.
    pub(super) ancestors: Vec<(u64, B256)>,
    pub(super) touched: Vec<Accounts>,
    /// Trie nodes of a witness; the next field has the codes.
    pub(super) nodes: Vec<Bytes>,
    pub(super) codes: Vec<Bytes>,
}

impl PrestateFile {
    /// Returns the state root before the block, if the parent's header is known.
    pub(super) fn parent_root(&self) -> Option<B256> {
        let parent = decode_lone_header(self.parent.as_ref()?).ok()?;
        (parent.hash() == self.block.header().parent_hash).then_some(parent.state_root)
    }
}

/// Accounts by address.
pub(super) type Accounts = BTreeMap<Address, TouchedAccount>;

/// An account in a file.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct TouchedAccount {
    #[serde(default)]
    pub(super) balance: U256,
    #[serde(default)]
    pub(super) nonce: U256,
    #[serde(default)]
    pub(super) code: Option<Bytes>,
    #[serde(default, alias = "codeHash")]
    pub(super) code_hash: Option<B256>,
    #[serde(default)]
    pub(super) storage: BTreeMap<U256, U256>,
}

/// Content of a directory, in the order of the blocks.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) files: Vec<PrestateFile>,
    pub(super) codes: HashMap<B256, Bytes>,
    pub(super) hashes: Vec<(u64, B256)>,
}

#[derive(Debug, Deserialize)]
struct RawFile {
    block: Bytes,
    #[serde(default)]
    parent: Option<Bytes>,
    #[serde(default)]
    ancestors: Vec<Bytes>,
    #[serde(default)]
    prestate: Option<Value>,
    #[serde(default)]
    pre: Option<Accounts>,
    #[serde(default)]
    state: Option<Vec<Bytes>>,
    #[serde(default)]
    codes: Vec<Bytes>,
}

/// Returns the paths of the files that are read in a directory of blocks.
///
/// # Errors
///
/// Fails if the directory cannot be read.
pub fn block_files(dir: &Path) -> Result<Vec<PathBuf>, PrestateError> {
    let failed = |source| PrestateError::Read { path: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    Ok(files)
}

pub(super) fn read(dir: &Path) -> Result<Directory, PrestateError> {
    let mut directory = Directory { files: Vec::new(), codes: HashMap::new(), hashes: Vec::new() };
    for path in block_files(dir)? {
        let bytes =
            fs::read(&path).map_err(|source| PrestateError::Read { path: path.clone(), source })?;
        let form = |what: String| PrestateError::Form { file: path.clone(), what };
        let no_json = |error: serde_json::Error| form(format!("the JSON does not read ({error})"));
        match path.file_stem().and_then(|stem| stem.to_str()) {
            Some("codes") => {
                directory.codes = serde_json::from_slice(&bytes).map_err(no_json)?;
                let mut hashes = directory.codes.iter().map(|(hash, code)| (hash, keccak256(code)));
                if let Some((hash, found)) = hashes.find(|(hash, found)| *hash != found) {
                    return Err(form(format!("the code under {hash} has the hash {found}")));
                }
            }
            Some("blockhashes") => {
                let hashes: BTreeMap<u64, B256> =
                    serde_json::from_slice(&bytes).map_err(no_json)?;
                directory.hashes = hashes.into_iter().collect();
            }
            _ => {
                let raw: RawFile = serde_json::from_slice(&bytes).map_err(no_json)?;
                directory.files.push(raw.into_file(path.clone())?);
            }
        }
    }
    directory.files.sort_by_key(|file| file.block.header().number);
    for pair in directory.files.windows(2) {
        let (before, header) = (pair[0].block.header(), pair[1].block.header());
        let (expected, hash) = (before.number.saturating_add(1), before.hash_slow());
        if header.number != expected || header.parent_hash != hash {
            let (file, found, parent) = (pair[1].path.clone(), header.number, header.parent_hash);
            return Err(PrestateError::Gap { file, found, parent, expected, hash });
        }
    }
    Ok(directory)
}

impl RawFile {
    fn into_file(self, path: PathBuf) -> Result<PrestateFile, PrestateError> {
        let form = |what: String| PrestateError::Form { file: path.clone(), what };
        let block = decode_block(&self.block).map_err(|e| form(e.to_string()))?;
        let mut touched = Vec::new();
        if self.prestate.is_none() && self.pre.is_none() && self.state.is_none() {
            return Err(form("it does not say what the block touches".to_owned()));
        }
        if let Some(answer) = self.prestate {
            touched = of_tracer(answer).map_err(form)?;
        }
        // The accounts of the transactions come first, because the other fields complete them.
        touched.extend(self.pre);
        let mut ancestors = Vec::new();
        let mut parent = self.parent;
        for rlp in self.ancestors {
            let header = decode_lone_header(&rlp).map_err(|e| form(format!("an ancestor {e}")))?;
            ancestors.push((header.number, header.hash()));
            if header.hash() == block.header.parent_hash {
                parent = Some(rlp);
            }
        }
        Ok(PrestateFile {
            rlp: self.block,
            block: DecodedBlock(block),
            parent,
            ancestors,
            touched,
            nodes: self.state.unwrap_or_default(),
            codes: self.codes,
            path,
        })
    }
}

/// Parses the answer of the tracer for the transactions of a block: a whole answer of JSON-RPC or its result, one
/// object per transaction, with its hash or without.
fn of_tracer(answer: Value) -> Result<Vec<Accounts>, String> {
    let inner = |mut value: Value| match value.get_mut("result") {
        Some(result) => result.take(),
        None => value,
    };
    let Value::Array(transactions) = inner(answer) else {
        return Err("\"prestate\" is no list with an object for each transaction".to_owned());
    };
    let accounts = |value: Value| {
        serde_json::from_value::<Accounts>(inner(value))
            .map_err(|error| format!("\"prestate\" is not what prestateTracer answers ({error})"))
    };
    transactions.into_iter().map(accounts).collect()
}
