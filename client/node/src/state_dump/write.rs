//! Writes a state in the formats of other programs.

use super::{StateDumpError, go_on};
use crate::{datadir::DataDir, state_root::storage_root};
use alloy_primitives::{Address, B256, Bytes, U256, hex};
use polytrie_chain::ChainDb;
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{Scratch, Sortable, Sorter};
use polytrie_state::{Account, StateError, StateLayer, StateReader};
use std::{
    fmt::Arguments,
    io::Write,
    ops::ControlFlow,
    sync::{Arc, atomic::AtomicBool},
};

/// Number of slots of an account that are sorted in memory.
const HELD: usize = 1 << 17;

/// Format of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpForm {
    /// One account per line, by hash: the same bytes for every layer.
    Polytrie,
    /// The lines that reth's `init-state` reads.
    Reth,
    /// The lines that `geth dump --iterative` writes.
    Geth,
    /// A genesis file with the state as its accounts.
    Genesis,
}

impl DumpForm {
    /// Returns the name of the format for messages.
    const fn words(self) -> &'static str {
        match self {
            Self::Polytrie => "a dump",
            Self::Reth => "a dump for reth",
            Self::Geth => "a dump as geth writes it",
            Self::Genesis => "a genesis file",
        }
    }
}

/// Options of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpOptions {
    /// Format of the dump.
    pub form: DumpForm,
    /// Whether codes are written.
    pub code: bool,
    /// Whether storage is written.
    pub storage: bool,
}

/// Writes the state at the head of a directory, in the order of the hashed addresses. Returns the number of accounts.
/// `progress` gets the number of accounts done.
///
/// # Errors
///
/// Fails if there is no block, the store fails or is damaged, `out` cannot be written to, the format needs an address
/// or slot that is known by its hash only, or `interrupt` is set.
pub fn write_dump(
    dir: &DataDir,
    options: DumpOptions,
    out: &mut dyn Write,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, StateDumpError> {
    let db = dir.chain_db();
    db.check_settled()?;
    // Before the genesis block is written, the state may be an unfinished load.
    let root = db.head()?.ok_or(StateDumpError::NoHead)?.header.state_root;
    let mut dump = Dump {
        layer: &*dir.layer,
        reader: dir.layer.reader()?,
        scratch: dir.store.scratch(),
        db,
        options,
        out,
        interrupt,
        accounts: 0,
        failed: None,
    };
    match options.form {
        DumpForm::Polytrie => {}
        DumpForm::Reth | DumpForm::Geth => {
            dump.put(format_args!("{{\"root\":\"{root}\"}}\n"))?;
        }
        DumpForm::Genesis => {
            let fields = genesis_fields(&*dir.spec()?);
            dump.put(format_args!("{fields}\"stateRoot\":\"{root}\",\"alloc\":{{\n"))?;
        }
    }
    let walked = dir.layer.accounts(B256::ZERO, &mut |hash, account| {
        let written = dump.account(hash, &account);
        Ok(match dump.keep(written) {
            Some(()) => {
                dump.accounts += 1;
                progress(dump.accounts);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        })
    });
    // If writing failed, its error is the reason why the walk ended.
    if let Some(failed) = dump.failed.take() {
        return Err(failed);
    }
    walked?;
    if options.form == DumpForm::Genesis {
        dump.put(format_args!("\n}}}}\n"))?;
    }
    Ok(dump.accounts)
}

/// Returns the beginning of a genesis file. For a built-in chain it has the fewest fields of a valid genesis, because
/// only the accounts matter.
fn genesis_fields(spec: &ChainSpec) -> String {
    spec.genesis_fields().map_or_else(
        || {
            format!(
                "{{\"config\":{{\"chainId\":{},\"terminalTotalDifficulty\":0}},\"difficulty\":\"0x0\",\"gasLimit\":\"{:#x}\",",
                spec.chain_id(),
                spec.genesis_header().gas_limit
            )
        },
        str::to_owned,
    )
}

struct Dump<'a> {
    layer: &'a dyn StateLayer,
    reader: Arc<dyn StateReader>,
    scratch: &'a Scratch,
    db: ChainDb,
    options: DumpOptions,
    out: &'a mut dyn Write,
    interrupt: &'a AtomicBool,
    accounts: u64,
    /// Error that ends the dump early.
    failed: Option<StateDumpError>,
}

impl Dump<'_> {
    /// Stores an error that ends a walk.
    fn keep<T>(&mut self, result: Result<T, StateDumpError>) -> Option<T> {
        result.map_err(|error| self.failed.get_or_insert(error)).ok()
    }

    fn put(&mut self, text: Arguments<'_>) -> Result<(), StateDumpError> {
        go_on(self.interrupt)?;
        self.out.write_fmt(text).map_err(StateDumpError::Write)
    }

    fn account(&mut self, hash: B256, account: &Account) -> Result<(), StateDumpError> {
        let code = match self.options.code && account.has_code() {
            true => Some(self.code(hash, &account.code_hash)?),
            false => None,
        };
        let code = code.as_ref();
        match self.options.form {
            DumpForm::Polytrie => self.polytrie(hash, account, code),
            DumpForm::Geth => self.geth(hash, account, code),
            DumpForm::Reth => {
                let address = self.address(&hash)?;
                self.put(format_args!("{{\"address\":\"{address:?}\","))?;
                self.genesis_account(hash, account, code)?;
                self.put(format_args!("\n"))
            }
            DumpForm::Genesis => {
                let address = self.address(&hash)?;
                let separator = if self.accounts == 0 { "" } else { ",\n" };
                self.put(format_args!("{separator}\"{address:?}\":{{"))?;
                self.genesis_account(hash, account, code)
            }
        }
    }

    fn polytrie(
        &mut self,
        hash: B256,
        account: &Account,
        code: Option<&Bytes>,
    ) -> Result<(), StateDumpError> {
        let Account { nonce, balance, code_hash } = account;
        self.put(format_args!(
            r#"{{"hash":"{hash}","nonce":"{nonce:#x}","balance":"{balance:#x}","codeHash":"{code_hash}""#
        ))?;
        if let Some(code) = code {
            self.put(format_args!(r#","code":"{}""#, hex::encode_prefixed(code)))?;
        }
        self.slots(hash, &mut |dump, slot, value, separator| {
            dump.put(format_args!(r#"{separator}"{slot}":"{value:#x}""#))
        })?;
        self.put(format_args!("}}\n"))
    }

    /// Writes the fields of a genesis account, to the end of its object.
    fn genesis_account(
        &mut self,
        hash: B256,
        account: &Account,
        code: Option<&Bytes>,
    ) -> Result<(), StateDumpError> {
        let Account { nonce, balance, .. } = account;
        self.put(format_args!(r#""nonce":"{nonce:#x}","balance":"{balance:#x}""#))?;
        if let Some(code) = code {
            self.put(format_args!(r#","code":"{}""#, hex::encode_prefixed(code)))?;
        }
        self.slots(hash, &mut |dump, slot, value, separator| {
            let (slot, value) = (B256::from(dump.slot(&slot)?), B256::from(value));
            dump.put(format_args!(r#"{separator}"{slot}":"{value}""#))
        })?;
        self.put(format_args!("}}"))
    }

    /// Writes an account as geth's encoder does: without empty fields, slots in the order of their keys.
    fn geth(
        &mut self,
        hash: B256,
        account: &Account,
        code: Option<&Bytes>,
    ) -> Result<(), StateDumpError> {
        let address = self.address(&hash)?;
        let mut sorter = Sorter::new(self.scratch.clone(), HELD);
        let (layer, mut failed) = (self.layer, None);
        let root = storage_root(|slot| {
            layer.slots(hash, B256::ZERO, &mut |key, value| {
                slot(key, &value)?;
                if !self.options.storage {
                    return Ok(ControlFlow::Continue(()));
                }
                let added = self.slot(&key).and_then(|key| Ok(sorter.add(PlainSlot(key, value))?));
                Ok(match added {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                })
            })
        });
        if let Some(failed) = failed {
            return Err(failed);
        }
        let root = root?;
        let Account { nonce, balance, code_hash } = account;
        self.put(format_args!(
            r#"{{"balance":"{balance}","nonce":{nonce},"root":"{root}","codeHash":"{code_hash}""#
        ))?;
        if let Some(code) = code {
            self.put(format_args!(r#","code":"{}""#, hex::encode_prefixed(code)))?;
        }
        let mut separator = r#","storage":{"#;
        for slot in sorter.drain()? {
            let PlainSlot(key, value) = slot?;
            let (key, value) = (B256::from(key), hex::encode(value.to_be_bytes_trimmed_vec()));
            self.put(format_args!(r#"{separator}"{key}":"{value}""#))?;
            separator = ",";
        }
        let end = if separator == "," { "}" } else { "" };
        self.put(format_args!("{end},\"address\":\"{address:?}\",\"key\":\"{hash}\"}}\n"))
    }

    /// Writes the storage of an account, if there is any. `each` writes the separator before a slot, and the slot.
    fn slots(&mut self, account: B256, each: &mut SlotWriter<'_>) -> Result<(), StateDumpError> {
        if !self.options.storage {
            return Ok(());
        }
        let layer = self.layer;
        let mut separator = r#","storage":{"#;
        let mut written = Ok(());
        layer.slots(account, B256::ZERO, &mut |slot, value| {
            written = each(self, slot, value, separator);
            separator = ",";
            Ok(match &written {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
        })?;
        written?;
        if separator == "," {
            self.put(format_args!("}}"))?;
        }
        Ok(())
    }

    fn code(&self, account: B256, code_hash: &B256) -> Result<Bytes, StateDumpError> {
        let code = self.reader.code(code_hash)?;
        Ok(code.ok_or_else(|| {
            StateError::Corrupt(format!("the code {code_hash} of account {account} is missing"))
        })?)
    }

    fn address(&self, hash: &B256) -> Result<Address, StateDumpError> {
        let form = self.options.form.words();
        let unknown = StateDumpError::NoPreimage { what: "account", hash: *hash, form };
        self.db.address_of(hash)?.ok_or(unknown)
    }

    fn slot(&self, hash: &B256) -> Result<U256, StateDumpError> {
        let form = self.options.form.words();
        let unknown = StateDumpError::NoPreimage { what: "slot", hash: *hash, form };
        self.db.slot_of(hash)?.ok_or(unknown)
    }
}

/// Callback that writes a separator, and a slot by its hash.
type SlotWriter<'w> = dyn FnMut(&mut Dump<'_>, B256, U256, &str) -> Result<(), StateDumpError> + 'w;

/// A slot and its value, sorted by slot.
#[derive(Debug, Clone, Copy)]
struct PlainSlot(U256, U256);

impl Sortable for PlainSlot {
    type Key = [u8; 32];

    fn key(&self) -> Self::Key {
        self.0.to_be_bytes()
    }

    fn value(&self) -> Vec<u8> {
        self.1.to_be_bytes_trimmed_vec()
    }

    fn from_row(key: &[u8], value: &[u8]) -> Option<Self> {
        Some(Self(U256::try_from_be_slice(key)?, U256::try_from_be_slice(value)?))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::datadir::OpenOptions;

    #[test]
    fn only_a_whole_state_is_written() {
        let (kv, chain) = (Some("memory".to_owned()), Some("dev".to_owned()));
        let options = OpenOptions { kv, chain, ..OpenOptions::default() };
        for form in [DumpForm::Polytrie, DumpForm::Reth, DumpForm::Geth, DumpForm::Genesis] {
            let write = |dir: &DataDir, interrupted: bool| {
                let options = DumpOptions { form, code: true, storage: true };
                let mut out = Vec::new();
                write_dump(dir, options, &mut out, &AtomicBool::new(interrupted), &mut |_| {})
            };
            let dir = DataDir::open(&options, true).unwrap();
            let error = write(&dir, false).unwrap_err();
            assert!(matches!(error, StateDumpError::NoHead), "{form:?}: {error}");
            let (_chain, dir) = dir.into_chain().unwrap();
            let error = write(&dir, true).unwrap_err();
            assert!(matches!(error, StateDumpError::Interrupted), "{form:?}: {error}");
        }
    }
}
