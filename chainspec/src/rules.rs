//! The rules that one block runs under.

use alloy_eips::eip7840::BlobParams;
use alloy_evm::{
    eth::spec::EthExecutorSpec, revm::primitives::hardfork::SpecId,
    spec_by_timestamp_and_block_number,
};
use alloy_hardforks::{EthereumHardfork, EthereumHardforks, ForkCondition};
use alloy_primitives::Address;

use crate::{ChainSpec, Clique};

/// The rules of one block: a chain seen from one number, one timestamp and one side of the merge.
///
/// The methods of [`EthereumHardforks`] answer for this block only. Paris is active from block 0 if the block is merged
/// and never otherwise, forks by timestamp are never active before the merge, and the DAO fork exists only on a chain
/// that supports it.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Chain of the block.
    pub spec: &'a ChainSpec,
    /// Number of the block.
    pub number: u64,
    /// Timestamp of the block, in seconds.
    pub timestamp: u64,
    /// Whether the block is past the merge: the total difficulty of its parent has reached the terminal one.
    pub merged: bool,
}

impl Rules<'_> {
    /// Whether `fork` is active for this block. The DAO fork counts as active from its block on where it is supported.
    pub fn is(&self, fork: EthereumHardfork) -> bool {
        match self.ethereum_fork_activation(fork) {
            ForkCondition::Block(number) => self.number >= number,
            ForkCondition::Timestamp(time) => self.timestamp >= time,
            ForkCondition::TTD { .. } | ForkCondition::Never => false,
        }
    }

    /// Returns Clique if a signer seals this block (EIP-225), which is never so after the merge.
    pub const fn clique(&self) -> Option<Clique> {
        if self.merged { None } else { self.spec.clique() }
    }

    /// Returns the EVM revision of this block.
    ///
    /// The EVM has no revision for Constantinople alone. Where Constantinople is active without Petersburg the answer
    /// is [`SpecId::PETERSBURG`], which has the same instructions but not EIP-1283: see [`Self::is_eip1283`].
    pub fn spec_id(&self) -> SpecId {
        let id = spec_by_timestamp_and_block_number(self, self.timestamp, self.number);
        if self.is_eip1283() { SpecId::PETERSBURG } else { id }
    }

    /// Whether SSTORE is charged net of the original value (EIP-1283): only under Constantinople without Petersburg.
    pub fn is_eip1283(&self) -> bool {
        self.is(EthereumHardfork::Constantinople) && !self.is(EthereumHardfork::Petersburg)
    }

    /// Returns the blob parameters of this block; `None` before Cancun.
    pub fn blob_params(&self) -> Option<BlobParams> {
        if self.merged { self.spec.blob_params(self.timestamp) } else { None }
    }

    /// Returns the usual name of the newest active fork: `Byzantium`, `Cancun`, `BPO 1`.
    pub fn fork_name(&self) -> &'static str {
        let newest = EthereumHardfork::VARIANTS.iter().rev().find(|fork| self.is(**fork));
        display_name(newest.copied().unwrap_or(EthereumHardfork::Frontier))
    }
}

impl EthereumHardforks for Rules<'_> {
    fn ethereum_fork_activation(&self, fork: EthereumHardfork) -> ForkCondition {
        match self.spec.forks().activation(fork) {
            ForkCondition::TTD { .. } if self.merged => ForkCondition::Block(0),
            ForkCondition::TTD { .. } => ForkCondition::Never,
            ForkCondition::Timestamp(_) if !self.merged => ForkCondition::Never,
            condition => condition,
        }
    }
}

impl EthExecutorSpec for Rules<'_> {
    /// Returns the chain's deposit contract. A chain without one gets the zero address, which never logs a deposit: the
    /// executor would replace `None` by mainnet's contract.
    fn deposit_contract_address(&self) -> Option<Address> {
        Some(self.spec.deposit_contract().unwrap_or(Address::ZERO))
    }
}

const fn display_name(fork: EthereumHardfork) -> &'static str {
    match fork {
        EthereumHardfork::Dao => "DAO Fork",
        EthereumHardfork::Tangerine => "Tangerine Whistle",
        EthereumHardfork::SpuriousDragon => "Spurious Dragon",
        EthereumHardfork::MuirGlacier => "Muir Glacier",
        EthereumHardfork::ArrowGlacier => "Arrow Glacier",
        EthereumHardfork::GrayGlacier => "Gray Glacier",
        EthereumHardfork::Bpo1 => "BPO 1",
        EthereumHardfork::Bpo2 => "BPO 2",
        EthereumHardfork::Bpo3 => "BPO 3",
        EthereumHardfork::Bpo4 => "BPO 4",
        EthereumHardfork::Bpo5 => "BPO 5",
        other => other.name(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use alloy_consensus::Header;
    use alloy_evm::block::calc::base_block_reward;

    use super::*;
    use crate::Forks;

    fn chain(forks: Forks) -> ChainSpec {
        ChainSpec::with_forks("test", 1, forks, Header::default(), [])
    }

    #[test]
    fn mainnet_fork_by_fork() {
        let spec: Arc<ChainSpec> = ChainSpec::load("mainnet").unwrap();
        let history = [
            (0, 0, "Frontier", SpecId::FRONTIER),
            (1_149_999, 0, "Frontier", SpecId::FRONTIER),
            (1_150_000, 0, "Homestead", SpecId::HOMESTEAD),
            (1_920_000, 0, "DAO Fork", SpecId::HOMESTEAD),
            (2_463_000, 0, "Tangerine Whistle", SpecId::TANGERINE),
            (2_675_000, 0, "Spurious Dragon", SpecId::SPURIOUS_DRAGON),
            (4_370_000, 0, "Byzantium", SpecId::BYZANTIUM),
            (7_280_000, 0, "Petersburg", SpecId::PETERSBURG),
            (9_069_000, 0, "Istanbul", SpecId::ISTANBUL),
            (9_200_000, 0, "Muir Glacier", SpecId::ISTANBUL),
            (12_244_000, 0, "Berlin", SpecId::BERLIN),
            (12_965_000, 0, "London", SpecId::LONDON),
            (13_773_000, 0, "Arrow Glacier", SpecId::LONDON),
            (15_050_000, 0, "Gray Glacier", SpecId::LONDON),
            (15_537_393, 1_663_224_161, "Gray Glacier", SpecId::LONDON),
            (15_537_394, 1_663_224_179, "Paris", SpecId::MERGE),
            (17_034_870, 1_681_338_455, "Shanghai", SpecId::SHANGHAI),
            (19_426_587, 1_710_338_135, "Cancun", SpecId::CANCUN),
            (22_431_084, 1_746_612_311, "Prague", SpecId::PRAGUE),
            (23_935_694, 1_764_798_551, "Osaka", SpecId::OSAKA),
            (30_000_000, 1_765_290_071, "BPO 1", SpecId::OSAKA),
            (30_000_000, 1_767_747_671, "BPO 2", SpecId::OSAKA),
        ];
        for (number, timestamp, name, id) in history {
            let rules = spec.rules(number, timestamp, number >= 15_537_394);
            assert_eq!((rules.fork_name(), rules.spec_id()), (name, id), "block {number}");
        }
    }

    #[test]
    fn the_caller_decides_about_the_merge() {
        let spec = chain(Forks::up_to(EthereumHardfork::Prague));
        let before = spec.rules(5, 5, false);
        assert_eq!((before.spec_id(), before.blob_params()), (SpecId::LONDON, None));
        assert_eq!(base_block_reward(before, 5), Some(2_000_000_000_000_000_000));
        assert!(!before.is(EthereumHardfork::Shanghai));
        let after = spec.rules(5, 5, true);
        assert_eq!(
            (after.spec_id(), after.blob_params()),
            (SpecId::PRAGUE, Some(BlobParams::prague()))
        );
        assert_eq!(base_block_reward(after, 5), None);
    }

    #[test]
    fn constantinople_alone_charges_net() {
        let spec = chain(Forks::test_network("Constantinople").unwrap());
        let rules = spec.rules(1, 0, false);
        assert_eq!((rules.spec_id(), rules.is_eip1283()), (SpecId::PETERSBURG, true));
        let spec = chain(Forks::test_network("ConstantinopleFix").unwrap());
        let rules = spec.rules(1, 0, false);
        assert_eq!((rules.spec_id(), rules.is_eip1283()), (SpecId::PETERSBURG, false));
    }

    #[test]
    fn no_deposit_contract_means_no_deposits() {
        let spec = chain(Forks::up_to(EthereumHardfork::Prague));
        assert_eq!(spec.rules(0, 0, true).deposit_contract_address(), Some(Address::ZERO));
        let spec = spec.with_deposit_contract(Some(Address::repeat_byte(1)));
        assert_eq!(
            spec.rules(0, 0, true).deposit_contract_address(),
            Some(Address::repeat_byte(1))
        );
    }
}
