//! Dumps of a state: all accounts at a block in the format of some client, read account by account.
//!
//! | written by | what it is | accounts and slots stand under |
//! |---|---|---|
//! | `geth dump --iterative` | `{"root"}`, then an account a line, numbers in decimal, values of slots in hex without `0x` | addresses and slots |
//! | `geth dump` | one object, `{"root","accounts":{…}}` | the same |
//! | `geth snapshot dump` | `{"root"}`, then an account a line, values of slots as RLP | hashes |
//! | reth, for its `init-state` | `{"root"}`, then an account a line, numbers in hex | addresses and slots |
//! | `polytrie db dump` | an account a line | hashes |
//!
//! Any of them may be gzipped. The fields of each account show the format. Accounts may come in any order. JSON is read
//! as a stream, so that neither a state nor the storage of an account has to fit into memory. A text of more than 16 MiB is
//! refused.

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

/// Receiver of a dump's content. Its functions may return an error to stop the reading.
pub trait DumpSink {
    /// Error that stops the reading.
    type Error;

    /// Receives the state root that the dump contains.
    ///
    /// # Errors
    ///
    /// Fails if the receiver stops the reading.
    fn root(&mut self, root: B256) -> Result<(), Self::Error>;

    /// Receives a slot of the next account.
    ///
    /// # Errors
    ///
    /// Fails if the receiver stops the reading.
    fn slot(&mut self, slot: DumpSlot) -> Result<(), Self::Error>;

    /// Receives an account; the slots since the previous account are its slots.
    ///
    /// # Errors
    ///
    /// Fails if the receiver stops the reading.
    fn account(&mut self, account: DumpAccount) -> Result<(), Self::Error>;
}

/// A slot as the text of a dump has it. Which of the fields holds the value is known only from the account
/// ([`DumpAccount::slots`]), whose fields may come after its storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpSlot {
    /// Slot, or its hash.
    pub key: B256,
    /// Value, if the text is a number.
    pub number: Option<U256>,
    /// Value, if the text is a number in RLP.
    pub rlp: Option<U256>,
}

/// Form of an account's slots in a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKeys {
    /// The keys are the slots.
    Plain,
    /// The keys are hashes of slots.
    Hashed,
    /// The keys are hashes of slots, and the values are RLP.
    HashedRlp,
}

/// An account as a dump has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpAccount {
    /// Address of the account; `None` if the dump has only its hash.
    pub address: Option<Address>,
    /// Keccak-256 of the address.
    pub hash: B256,
    /// Form of the account's slots.
    pub slots: SlotKeys,
    /// Nonce of the account.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Code of the account; `None` or empty if the dump has none.
    pub code: Option<Bytes>,
    /// Hash of the code, if the dump has it.
    pub code_hash: Option<B256>,
    /// Root of the account's storage, if the dump has it.
    pub storage_root: Option<B256>,
}

/// Reason why the reading of a dump stopped early.
#[derive(Debug)]
pub enum DumpEnd<E> {
    /// An error of the file.
    File(DumpError),
    /// An error of the sink.
    Sink(E),
}

/// Reader of a dump of a state.
#[derive(Debug)]
pub struct DumpReader {
    input: Input,
    progress: ReadProgress,
}

impl DumpReader {
    /// Opens a file, gzipped or not, or standard input (`-`), and examines its first bytes.
    ///
    /// # Errors
    ///
    /// Fails if the file is not there, cannot be read, or does not begin like a dump.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DumpError> {
        let (input, progress) = Input::open(path.as_ref())?;
        Ok(Self { input, progress })
    }

    /// Returns a handle to the progress of the reading.
    pub fn progress(&self) -> ReadProgress {
        self.progress.clone()
    }

    /// Passes the content of the dump to `sink`, and returns the number of accounts.
    ///
    /// # Errors
    ///
    /// Fails if the file is no dump, or is cut off, or if `sink` fails.
    pub fn read<S: DumpSink>(mut self, sink: &mut S) -> Result<u64, DumpEnd<S::Error>> {
        let mut reading = Reading::new(sink);
        while self.input.skip_white().map_err(|error| self.input.failed::<S::Error>(error))? {
            reading.next(&mut self.input)?;
        }
        Ok(reading.accounts())
    }
}
