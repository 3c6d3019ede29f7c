//! Witness files: a block with what it takes to execute it without any state (`import --witness`, `witness verify`).
//!
//! A file is JSON: the block and the headers before it as RLP, the trie nodes that the block needs, and the code it
//! runs. Everything is found by its hash, from the hash of the block's parent on.

mod verify;

pub use verify::{Verified, WitnessError, verify};

use alloy_primitives::{B256, Bytes};
use polytrie_chain::BlockWitness;
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{
    create_dir,
    disk::{Access, File, rename, sync_dir},
};
use polytrie_state::Witness;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// The content of a witness file. Bytes are hex.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessFile {
    /// The chain's name for `--chain`, if it is a built-in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// Hash of the block.
    pub hash: B256,
    /// RLP of the block.
    pub block: Bytes,
    /// RLP of headers before the block: the parent, and those back to the oldest whose hash it asks for.
    pub ancestors: Vec<Bytes>,
    /// Levels of the account trie that are left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub levels: u8,
    /// RLP of trie nodes of the state before the block.
    pub state: Vec<Bytes>,
    /// Nodes that only the state after it has, as some programs add them; nothing needs them.
    #[serde(default, rename = "statePost", skip_serializing_if = "Vec::is_empty")]
    pub state_post: Vec<Bytes>,
    /// Code.
    pub codes: Vec<Bytes>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(levels: &u8) -> bool {
    *levels == 0
}

impl WitnessFile {
    /// The file of a block of this chain.
    pub fn new(spec: &ChainSpec, block: BlockWitness) -> Self {
        let BlockWitness { hash, rlp, ancestors, witness, .. } = block;
        let Witness { levels, nodes, codes, .. } = witness;
        let chain = spec.outline().is_none().then(|| spec.name().to_owned());
        let (state, state_post) = (nodes, Vec::new());
        Self { chain, hash, block: rlp, ancestors, levels, state, state_post, codes }
    }
}

/// A directory that gets a file for each block, named by its number.
///
/// A file gets its name when it is [durable](Self::make_durable): what stands there is whole.
#[derive(Debug)]
pub struct WitnessDir {
    dir: PathBuf,
    /// The blocks of files without their name.
    unnamed: BTreeSet<u64>,
    /// Whether a file could not be written.
    failed: bool,
    /// Files written.
    pub blocks: u64,
    /// Bytes of nodes and code in them.
    pub bytes: u64,
}

impl WitnessDir {
    /// Makes the directory if it is not there.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn create(dir: &Path) -> io::Result<Self> {
        create_dir(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
            unnamed: BTreeSet::new(),
            failed: false,
            blocks: 0,
            bytes: 0,
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Writes the file of a block, which [`Self::make_durable`] names. A block of the same number on a branch that was
    /// left is overwritten.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&mut self, spec: &ChainSpec, block: BlockWitness) -> io::Result<()> {
        let number = block.number;
        self.blocks += 1;
        self.bytes += block.witness.byte_len() as u64;
        self.unnamed.insert(number);
        let text = serde_json::to_vec(&WitnessFile::new(spec, block))?;
        let file = File::open(&self.temporary(number), Access::Create);
        let written = file.and_then(|mut file| file.write_all(&text));
        self.failed |= written.is_err();
        written
    }

    /// Has the disk take all files, and names them. The blocks may be durable after that and not before: one that is stored
    /// is not executed again, so it would never get its file.
    ///
    /// # Errors
    ///
    /// If the disk does not take them, or one could not be written before.
    pub fn make_durable(&mut self) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("the witness of a block is missing"));
        }
        if self.unnamed.is_empty() {
            return Ok(());
        }
        for number in &self.unnamed {
            let temporary = self.temporary(*number);
            File::open(&temporary, Access::Edit)?.sync("witness: content")?;
            rename(&temporary, &self.dir.join(format!("{number}.json")))?;
        }
        sync_dir(&self.dir, "witness: name")?;
        self.unnamed.clear();
        Ok(())
    }

    fn temporary(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number}.json.tmp"))
    }
}
