//! Witness files: a block with everything that its execution needs, so that no state is required (`import --witness`,
//! `witness verify`).
//!
//! A file is JSON: the block and earlier headers as RLP, the trie nodes that the block needs, and the codes that it
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

/// Content of a witness file. Bytes are hex.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessFile {
    /// Name of the chain for `--chain`, if it is a built-in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// Hash of the block.
    pub hash: B256,
    /// RLP of the block.
    pub block: Bytes,
    /// RLP of earlier headers: the parent, and those back to the oldest block whose hash the block asks for.
    pub ancestors: Vec<Bytes>,
    /// Number of levels of the account trie that are left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub levels: u8,
    /// RLP of trie nodes of the state before the block.
    pub state: Vec<Bytes>,
    /// RLP of nodes of the state after the block, which some programs add. They are not needed.
    #[serde(default, rename = "statePost", skip_serializing_if = "Vec::is_empty")]
    pub state_post: Vec<Bytes>,
    /// Codes that the block runs.
    pub codes: Vec<Bytes>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(levels: &u8) -> bool {
    *levels == 0
}

impl WitnessFile {
    /// Returns the file of a block of this chain.
    pub fn new(spec: &ChainSpec, block: BlockWitness) -> Self {
        let BlockWitness { hash, rlp, ancestors, witness, .. } = block;
        let Witness { levels, nodes, codes, .. } = witness;
        let chain = spec.outline().is_none().then(|| spec.name().to_owned());
        let (state, state_post) = (nodes, Vec::new());
        Self { chain, hash, block: rlp, ancestors, levels, state, state_post, codes }
    }
}

/// A directory with a file for each block, named by the block's number.
///
/// A file gets its name when it is [durable](Self::make_durable), so a file with a name is complete.
#[derive(Debug)]
pub struct WitnessDir {
    dir: PathBuf,
    /// Numbers of the blocks with files that have no name yet.
    unnamed: BTreeSet<u64>,
    /// Whether a write has failed.
    failed: bool,
    /// Number of files written.
    pub blocks: u64,
    /// Number of bytes of nodes and codes in them.
    pub bytes: u64,
}

impl WitnessDir {
    /// Creates the directory if it is not there.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be made.
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

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Writes the file of a block, which gets its name in [`Self::make_durable`]. The file of a block with the same
    /// number, which is on an abandoned branch, is overwritten.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
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

    /// Syncs all files and gives them their names. The caller must not make the blocks durable before that: a stored
    /// block is not executed again, so it would never get its file.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be synced, or if an earlier write has failed.
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
