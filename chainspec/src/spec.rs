//! The description of a chain.

use std::{path::Path, sync::Arc};

use alloy_consensus::{Header, Sealable, Sealed};
use alloy_eips::eip7840::BlobParams;
use alloy_evm::eth::spec::EthExecutorSpec;
use alloy_genesis::{Genesis, GenesisAccount};
use alloy_hardforks::{EthereumHardfork, EthereumHardforks, ForkCondition};
use alloy_primitives::{Address, B256, U256};

use crate::{
    ChainSpecError, Clique, DaoFork, Forks, GenesisAccounts, Rules, allocation::Allocation, dev,
    genesis, presets,
};

/// Properties that distinguish one chain from another.
#[derive(Clone, Debug)]
pub struct ChainSpec {
    pub(crate) name: String,
    pub(crate) chain_id: u64,
    pub(crate) forks: Forks,
    pub(crate) genesis_header: Sealed<Header>,
    pub(crate) allocation: Allocation,
    pub(crate) deposit_contract: Option<Address>,
    pub(crate) clique: Option<Clique>,
    pub(crate) fixed_difficulty: Option<U256>,
    pub(crate) contract_size_limit: Option<usize>,
    pub(crate) outline: Option<String>,
}

impl ChainSpec {
    /// Returns the built-in chain of this name (`mainnet`, `sepolia`, `holesky`, `hoodi`, `dev`), or reads the chain
    /// that a `genesis.json` describes.
    ///
    /// The argument is a path if it contains a `/`, ends in `.json` or names an existing file that is not also a
    /// built-in chain.
    ///
    /// # Errors
    ///
    /// [`ChainSpecError::UnknownChain`] if the argument is neither, [`ChainSpecError::Read`] if the file cannot be
    /// read, and any of the others if the file is not the genesis of a chain that can be run.
    pub fn load(name_or_path: &str) -> Result<Arc<Self>, ChainSpecError> {
        if let Some(spec) = Self::built_in(name_or_path) {
            return Ok(spec);
        }
        let path = Path::new(name_or_path);
        if name_or_path.contains('/') || name_or_path.ends_with(".json") || path.is_file() {
            return genesis::from_file(path).map(Arc::new);
        }
        Err(ChainSpecError::UnknownChain { name: name_or_path.to_owned() })
    }

    /// Returns the built-in chain of this name; `None` if there is none. For a name that others gave, which must not open
    /// a file.
    pub fn built_in(name: &str) -> Option<Arc<Self>> {
        presets::named(name)
    }

    /// Parses the chain that the content of a `genesis.json` describes. `name` becomes the chain's name, also in
    /// errors.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::load`] does if these bytes are not the genesis of a chain that can be run.
    pub fn parse(name: &str, genesis: &[u8]) -> Result<Self, ChainSpecError> {
        genesis::parse(name, genesis)
    }

    /// Parses the chain of an [outline](Self::outline), without its accounts ([`Self::has_accounts`]). The time does
    /// not depend on the number of accounts. The state root is not verified: compare [`Self::genesis_hash`] with the
    /// known hash.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::load`] does if these bytes are not an outline.
    pub fn from_outline(name: &str, outline: &[u8]) -> Result<Self, ChainSpecError> {
        genesis::from_outline(name, outline)
    }

    /// Returns the chain that `genesis` describes. `name` becomes the chain's name, also in errors.
    ///
    /// Extensions that [`Genesis`] has no field for (a fixed difficulty, a contract size limit) are read only by
    /// [`Self::load`] and [`Self::parse`].
    ///
    /// # Errors
    ///
    /// Fails if a field holds a value that cannot be run; the error names the field.
    pub fn from_genesis(name: &str, genesis: Genesis) -> Result<Self, ChainSpecError> {
        genesis::from_genesis(name, genesis)
    }

    /// Returns a chain of these parts, for tests and generated chains. The header is taken as it is, its state root
    /// included. There is no deposit contract: see [`Self::with_deposit_contract`].
    pub fn with_forks(
        name: &str,
        chain_id: u64,
        forks: Forks,
        genesis_header: Header,
        accounts: impl IntoIterator<Item = (Address, GenesisAccount)>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            chain_id,
            forks,
            genesis_header: genesis_header.seal_slow(),
            allocation: Allocation::from_accounts(accounts),
            deposit_contract: None,
            clique: None,
            fixed_difficulty: None,
            contract_size_limit: None,
            outline: None,
        }
    }

    /// Returns the `dev` chain with another chain id and other accounts (address and balance in wei).
    pub fn dev(chain_id: u64, accounts: impl IntoIterator<Item = (Address, U256)>) -> Self {
        dev::with_accounts(chain_id, accounts)
    }

    /// Returns this chain with another deposit contract (EIP-6110).
    pub fn with_deposit_contract(mut self, address: Option<Address>) -> Self {
        self.deposit_contract = address;
        self
    }

    /// Returns this chain with its blocks sealed by signers until it merges. The genesis header must list the signers
    /// ([`Clique::listed_signers`]).
    pub fn with_clique(mut self, clique: Clique) -> Self {
        self.clique = Some(clique);
        self
    }

    /// Returns the name of a built-in chain, or the path that the chain was read from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the chain id that transactions carry (EIP-155).
    pub const fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// Returns the fork schedule of the chain.
    pub const fn forks(&self) -> &Forks {
        &self.forks
    }

    /// Returns the header of block 0, with the fields of the forks that are active in it, and its hash.
    pub const fn genesis_header(&self) -> &Sealed<Header> {
        &self.genesis_header
    }

    /// Returns the hash of block 0.
    pub const fn genesis_hash(&self) -> B256 {
        self.genesis_header.hash()
    }

    /// Returns the accounts of the genesis state in ascending order of address, each with balance, nonce, code and
    /// storage. Slots with the value zero are left out; an empty account is not, because the trie has it.
    pub fn genesis_accounts(&self) -> GenesisAccounts<'_> {
        self.allocation.accounts()
    }

    /// Whether the chain has the accounts that [`Self::genesis_accounts`] returns: false for a chain made [from an
    /// outline](Self::from_outline).
    pub const fn has_accounts(&self) -> bool {
        !matches!(self.allocation, Allocation::Absent)
    }

    /// Returns the outline of a chain that was read from a `genesis.json`, for [`Self::from_outline`]: the same file
    /// with an empty `alloc` and with the `stateRoot` of the accounts. `None` for any other chain.
    pub fn outline(&self) -> Option<&str> {
        self.outline.as_deref()
    }

    /// Returns the fields of the `genesis.json` that the chain was read from, without accounts and state root: the
    /// beginning of a JSON object, to which both can be added. `None` for a chain that was not read from a file.
    pub fn genesis_fields(&self) -> Option<&str> {
        genesis::open_outline(self.outline()?, self.genesis_header.state_root)
    }

    /// Returns the total difficulty that ends proof of work or authority: a block is merged if the total difficulty of
    /// its parent has reached it. Zero if the chain is merged from genesis, `None` if it never merges.
    pub fn terminal_total_difficulty(&self) -> Option<U256> {
        self.forks.terminal_total_difficulty()
    }

    /// Whether a block is past the merge if its parent has this total difficulty.
    pub fn is_merged_after(&self, parent_total_difficulty: U256) -> bool {
        self.terminal_total_difficulty().is_some_and(|terminal| parent_total_difficulty >= terminal)
    }

    /// Returns the DAO fork, supported or opposed; `None` if the chain has none.
    pub const fn dao_fork(&self) -> Option<DaoFork> {
        self.forks.dao()
    }

    /// Returns the blob parameters at `timestamp` (seconds); `None` before Cancun.
    pub fn blob_params(&self, timestamp: u64) -> Option<BlobParams> {
        self.forks.blob_params(timestamp)
    }

    /// Returns the price of a unit of blob gas in the block with this header, in wei; `None` before Cancun.
    pub fn blob_fee(&self, header: &Header) -> Option<u128> {
        Some(self.blob_params(header.timestamp)?.calc_blob_fee(header.excess_blob_gas?))
    }

    /// Returns the contract that logs deposits to the beacon chain (EIP-6110); `None` if the chain has none.
    pub const fn deposit_contract(&self) -> Option<Address> {
        self.deposit_contract
    }

    /// Returns Clique if its signers seal the blocks before the merge; `None` for proof of work, and for a chain that
    /// starts merged.
    pub const fn clique(&self) -> Option<Clique> {
        self.clique
    }

    /// Returns the difficulty of every block if the genesis fixes it (besu's `ethash.fixeddifficulty`); `None` if each
    /// block's difficulty is calculated from the parent.
    pub const fn fixed_difficulty(&self) -> Option<U256> {
        self.fixed_difficulty
    }

    /// Returns the limit of a contract's size in bytes if the genesis sets another than EIP-170 (besu's
    /// `contractSizeLimit`).
    pub const fn contract_size_limit(&self) -> Option<usize> {
        self.contract_size_limit
    }

    /// Returns the rules of the block with this number and timestamp (seconds). Whether it is merged depends on total
    /// difficulty, so the caller decides that: see [`Self::is_merged_after`].
    pub const fn rules(&self, number: u64, timestamp: u64, merged: bool) -> Rules<'_> {
        Rules { spec: self, number, timestamp, merged }
    }
}

/// The fork schedule of the chain as a whole. The rules of one block are [`Rules`], because only they take the merge
/// into account.
impl EthereumHardforks for ChainSpec {
    fn ethereum_fork_activation(&self, fork: EthereumHardfork) -> ForkCondition {
        self.forks.activation(fork)
    }
}

impl EthExecutorSpec for ChainSpec {
    /// Returns the zero address if there is no deposit contract, as [`Rules`] does.
    fn deposit_contract_address(&self) -> Option<Address> {
        Some(self.deposit_contract.unwrap_or(Address::ZERO))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_loaded() {
        let message = |name: &str| ChainSpec::load(name).unwrap_err().to_string();
        assert_eq!(
            message("mainet"),
            "unknown chain \"mainet\": expected mainnet, sepolia, holesky, hoodi, dev, or the path of a genesis.json"
        );
        assert!(matches!(ChainSpec::load(""), Err(ChainSpecError::UnknownChain { .. })));
        let missing = message("no/such/genesis.json");
        assert!(
            missing.starts_with("cannot read the genesis file no/such/genesis.json: "),
            "{missing}"
        );
        assert!(matches!(ChainSpec::load("nowhere.json"), Err(ChainSpecError::Read { .. })));
        let dir = tempfile::tempdir().unwrap();
        let a_directory = format!("{}/", dir.path().display());
        assert!(matches!(ChainSpec::load(&a_directory), Err(ChainSpecError::Read { .. })));
    }

    #[test]
    fn a_chain_by_hand() {
        let account = GenesisAccount { balance: U256::from(3), ..Default::default() };
        let header = Header { gas_limit: 9, ..Default::default() };
        let spec = ChainSpec::with_forks(
            "mine",
            4,
            Forks::frontier(),
            header.clone(),
            [(Address::ZERO, account.clone())],
        );
        assert_eq!(spec.genesis_hash(), header.hash_slow());
        assert_eq!(spec.genesis_accounts().collect::<Vec<_>>(), [(Address::ZERO, account)]);
        assert!(!spec.is_merged_after(U256::MAX));
    }
}
