//! Dumps of a state: what clients write of all accounts at a block, read one after the other.
//!
//! | written by | what it is | accounts and slots stand under |
//! |---|---|---|
//! | `geth dump --iterative` | `{"root"}`, then an account a line, numbers in decimal, values of slots in hex without `0x` | addresses and slots |
//! | `geth dump` | one object, `{"root","accounts":{…}}` | the same |
//! | `geth snapshot dump` | `{"root"}`, then an account a line, values of slots as RLP | hashes |
//! | reth, for its `init-state` | `{"root"}`, then an account a line, numbers in hex | addresses and slots |
//! | `polytrie db dump` | an account a line | hashes |
//!
//! Any of them may be gzipped; which of them it is, each account tells by its fields. Accounts may come in any order. JSON is
//! read as a stream, so that neither a state nor the storage of an account has to fit into memory.

mod error;
mod input;
mod object;
mod text;

pub use error::{DumpError, DumpErrorKind};

use crate::ReadProgress;
use alloy_primitives::{Address, B256, Bytes, U256};
use input::Input;
use object::Reading;
use std::path::Path;

/// Receives what a dump says.
pub trait DumpSink {
    /// Why it takes no more.
    type Error;

    /// The state root that the dump says it has.
    ///
    /// # Errors
    ///
    /// If it takes no more.
    fn root(&mut self, root: B256) -> Result<(), Self::Error>;

    /// A slot of the account that comes next.
    ///
    /// # Errors
    ///
    /// If it takes no more.
    fn slot(&mut self, slot: DumpSlot) -> Result<(), Self::Error>;

    /// An account; the slots since the one before are its own.
    ///
    /// # Errors
    ///
    /// If it takes no more.
    fn account(&mut self, account: DumpAccount) -> Result<(), Self::Error>;
}

/// A slot as it stands in a dump. What it means is known with the account ([`DumpAccount::slots`]), whose fields may come
/// behind its storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpSlot {
    /// The slot, or its hash.
    pub key: B256,
    /// The value, if the text is a number.
    pub number: Option<U256>,
    /// The value, if the text is a number as RLP.
    pub rlp: Option<U256>,
}

/// What the slots of an account stand under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKeys {
    /// The slots themselves.
    Plain,
    /// Their hashes.
    Hashed,
    /// Their hashes, and the values are RLP.
    HashedRlp,
}

/// An account as it stands in a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpAccount {
    /// Its address, unless only the hash is known.
    pub address: Option<Address>,
    /// Keccak-256 of the address.
    pub hash: B256,
    /// How its slots are meant.
    pub slots: SlotKeys,
    /// Nonce.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Its code; `None` or empty where the dump has none.
    pub code: Option<Bytes>,
    /// The hash of its code, where the dump says it.
    pub code_hash: Option<B256>,
    /// The root of its storage, where the dump says it.
    pub storage_root: Option<B256>,
}

/// Reading a dump did not come to its end.
#[derive(Debug)]
pub enum DumpEnd<E> {
    /// Because of the file.
    File(DumpError),
    /// Because of the sink.
    Sink(E),
}

/// A dump of a state.
#[derive(Debug)]
pub struct DumpReader {
    input: Input,
    progress: ReadProgress,
}

impl DumpReader {
    /// Opens a file, gzipped or not, or standard input (`-`), and looks at its first bytes.
    ///
    /// # Errors
    ///
    /// If it is not there, cannot be read, or does not begin like a dump.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DumpError> {
        let (input, progress) = Input::open(path.as_ref())?;
        Ok(Self { input, progress })
    }

    /// A handle that tells how far reading has come.
    pub fn progress(&self) -> ReadProgress {
        self.progress.clone()
    }

    /// Hands all of it to `sink`, and returns how many accounts there were.
    ///
    /// # Errors
    ///
    /// If it is not a dump, or breaks off; or as `sink`.
    pub fn read<S: DumpSink>(mut self, sink: &mut S) -> Result<u64, DumpEnd<S::Error>> {
        let mut reading = Reading::new(sink);
        while self.input.skip_white().map_err(|error| self.input.failed::<S::Error>(error))? {
            reading.next(&mut self.input)?;
        }
        Ok(reading.accounts())
    }
}
