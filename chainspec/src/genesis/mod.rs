//! Conversion of a genesis in the format of geth into a chain, and back.

mod config;
mod file;
mod header;
mod json;
mod write;

use std::{fs::File, io::Read, path::Path};

use alloy_consensus::Sealable;
use alloy_genesis::Genesis;
use alloy_primitives::{B256, U256};

pub(crate) use header::header;
pub use write::GenesisPlan;

use crate::{ChainSpec, ChainSpecError, Clique, allocation::Allocation};

/// Number of bytes that are read before the file is judged by its beginning.
const START: u64 = 4096;

/// Content of a genesis, its accounts packed and taken out of the list.
#[derive(Debug)]
struct Draft {
    /// Genesis without accounts.
    genesis: Genesis,
    allocation: Allocation,
    /// Gas used by the genesis block. Only tests set it; a real genesis has zero.
    gas_used: u64,
    /// State root that the file claims. geth writes none, others do.
    state_root: Option<B256>,
    clique: Option<Clique>,
    fixed_difficulty: Option<U256>,
    contract_size_limit: Option<usize>,
    /// Text of the file without its accounts and state root, open at the end; `None` if there was no file.
    outline: Option<String>,
    /// Consensus engine other than proof of work, Clique and proof of stake that the configuration asks for.
    engine: Option<String>,
}

/// Error of a genesis, before the name of its file is known.
#[derive(Debug)]
pub(crate) enum Flaw {
    Missing { field: String, expected: &'static str },
    Field { field: String, found: String, expected: String },
    ForkOrder { earlier: &'static str, earlier_at: u64, later: &'static str, later_at: u64 },
}

impl Flaw {
    fn field(field: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Self {
        Self::Field { field: field.into(), found: found.to_string(), expected: expected.into() }
    }

    fn of(self, file: &str) -> ChainSpecError {
        let file = file.to_owned();
        match self {
            Self::Missing { field, expected } => ChainSpecError::Missing { file, field, expected },
            Self::Field { field, found, expected } => {
                ChainSpecError::Field { file, field, found, expected }
            }
            Self::ForkOrder { earlier, earlier_at, later, later_at } => {
                ChainSpecError::ForkOrder { file, earlier, earlier_at, later, later_at }
            }
        }
    }
}

/// Reads the chain that the file at `path` describes.
pub(crate) fn from_file(path: &Path) -> Result<ChainSpec, ChainSpecError> {
    let name = path.display().to_string();
    let failed = |source| ChainSpecError::Read { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    // A user that gives a block file by mistake should not wait until all of it is in memory.
    let mut bytes = Vec::new();
    file.by_ref().take(START).read_to_end(&mut bytes).map_err(failed)?;
    if !bytes.trim_ascii().is_empty() {
        file::check_start(&name, &bytes)?;
    }
    file.read_to_end(&mut bytes).map_err(failed)?;
    parse(&name, &bytes)
}

/// Parses the chain that the content of a file describes.
pub(crate) fn parse(name: &str, bytes: &[u8]) -> Result<ChainSpec, ChainSpecError> {
    build(name, file::parse(name, bytes)?).map_err(|flaw| flaw.of(name))
}

/// Returns the chain that `genesis` describes.
pub(crate) fn from_genesis(name: &str, mut genesis: Genesis) -> Result<ChainSpec, ChainSpecError> {
    let allocation = Allocation::from_accounts(std::mem::take(&mut genesis.alloc));
    let clique = genesis.config.clique.map(|clique| {
        Clique::new(clique.period.unwrap_or_default(), clique.epoch.unwrap_or_default())
    });
    let draft = Draft {
        engine: genesis.config.parlia.map(|_| "parlia".to_owned()),
        clique,
        genesis,
        allocation,
        gas_used: 0,
        state_root: None,
        fixed_difficulty: None,
        contract_size_limit: None,
        outline: None,
    };
    build(name, draft).map_err(|flaw| flaw.of(name))
}

/// Returns the beginning of the outline of a genesis with this state root, to which accounts can be added.
pub(crate) fn open_outline(outline: &str, state_root: B256) -> Option<&str> {
    file::open_outline(outline, state_root)
}

/// Parses the chain that an outline describes. The outline has the state root but no accounts.
pub(crate) fn from_outline(name: &str, bytes: &[u8]) -> Result<ChainSpec, ChainSpecError> {
    let draft = Draft { allocation: Allocation::Absent, ..file::parse(name, bytes)? };
    let missing =
        || Flaw::Missing { field: "stateRoot".to_owned(), expected: "32 bytes as \"0x…\"" };
    draft
        .state_root
        .ok_or_else(missing)
        .and_then(|state_root| assemble(name, draft, state_root))
        .map_err(|flaw| flaw.of(name))
}

fn build(name: &str, draft: Draft) -> Result<ChainSpec, Flaw> {
    let state_root = draft.allocation.state_root();
    if let Some(claimed) = draft.state_root.filter(|claimed| *claimed != state_root) {
        return Err(Flaw::field(
            "stateRoot",
            claimed,
            format!("{state_root}, the root of the accounts in alloc"),
        ));
    }
    assemble(name, draft, state_root)
}

fn assemble(name: &str, draft: Draft, state_root: B256) -> Result<ChainSpec, Flaw> {
    let genesis = &draft.genesis;
    let forks = config::forks(&genesis.config)?;
    let terminal = forks.terminal_total_difficulty();
    let starts_merged = terminal.is_some_and(|terminal| genesis.difficulty >= terminal);
    if let Some(engine) = draft.engine.filter(|_| !starts_merged) {
        return Err(Flaw::field(
            format!("config.{engine}"),
            "set",
            "proof of work (ethash), Clique (clique) or a terminalTotalDifficulty of 0: no other proof of authority is supported",
        ));
    }
    let clique = draft.clique.filter(|_| !starts_merged);
    if clique.is_some() {
        expect_signers(genesis)?;
    }
    let header = header(genesis, draft.gas_used, state_root, &forks)?;
    Ok(ChainSpec {
        name: name.to_owned(),
        chain_id: genesis.config.chain_id,
        forks,
        genesis_header: header.seal_slow(),
        allocation: draft.allocation,
        deposit_contract: genesis.config.deposit_contract_address,
        clique,
        fixed_difficulty: draft.fixed_difficulty,
        contract_size_limit: draft.contract_size_limit,
        outline: draft.outline.map(|text| file::close_outline(&text, state_root)),
    })
}

/// Refuses a genesis block of Clique that does not name the first signers.
fn expect_signers(genesis: &Genesis) -> Result<(), Flaw> {
    match Clique::listed_signers(&genesis.extra_data) {
        Some(signers) if !signers.is_empty() => Ok(()),
        _ => Err(Flaw::field(
            "extraData",
            format!("{} bytes long", genesis.extra_data.len()),
            "32 bytes, the address of each signer, and 65 bytes, because config.clique is set",
        )),
    }
}

#[cfg(test)]
mod tests;
