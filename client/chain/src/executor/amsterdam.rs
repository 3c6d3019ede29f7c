//! The drafts of the fork Amsterdam.

use alloy_evm::{Database, EvmEnv};
use revm::{
    bytecode::opcode::{EXTCODECOPY, EXTCODESIZE},
    context::CfgEnv,
    context_interface::cfg::gas_params::{GasId, GasParams},
    primitives::hardfork::SpecId,
};
use revm_state_hooks::HookedEvm;

/// A draft of Amsterdam.
///
/// The fork is not final, and its test networks start anew with each draft. The genesis of a chain does not say which
/// draft the chain follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Amsterdam {
    /// The draft that the EVM crates implement.
    #[default]
    Newest,
    /// The draft of the official tests `tests-bal@v5.7.0`, as far as the EVM crates can be configured for it: without
    /// EIP-2780, EIP-8038 and EIP-8282, and with the first prices of EIP-8037. The crates cannot charge authorizations
    /// (EIP-7702) by that draft, nor leave out EIP-8246.
    Bal57,
}

/// State gas of a byte in that draft.
const BAL57_BYTE: u64 = 1_174;

impl Amsterdam {
    /// Whether blocks call the contracts of EIP-8282.
    pub(super) const fn has_builder_requests(self) -> bool {
        matches!(self, Self::Newest)
    }

    /// Returns the environment of a block with the prices of this draft, if the block is one of Amsterdam.
    pub(super) fn adapt(self, mut env: EvmEnv) -> EvmEnv {
        let cfg = &mut env.cfg_env;
        if self == Self::Newest || cfg.spec != SpecId::AMSTERDAM {
            return env;
        }
        cfg.enable_amsterdam_eip2780 = false;
        let mut prices = GasParams::new_spec(SpecId::OSAKA);
        let write = prices.sstore_reset_without_cold_load_cost();
        prices.override_gas([
            // EIP-8037: 112 bytes per account, 32 per slot, and each byte of code.
            (GasId::new_account_state_gas(), 112 * BAL57_BYTE),
            (GasId::create_state_gas(), 112 * BAL57_BYTE),
            (GasId::sstore_set_state_gas(), 32 * BAL57_BYTE),
            (GasId::code_deposit_state_gas(), BAL57_BYTE),
            (GasId::new_account_cost(), 0),
            (GasId::new_account_cost_for_selfdestruct(), 0),
            (GasId::create(), 9_000),
            // See `prepare`: the 12,000 of EIP-2780 are charged already.
            (GasId::tx_create_access_cost(), 21_000 + 9_000 - 12_000),
            (GasId::code_deposit_cost(), 0),
            (GasId::sstore_set_without_load_cost(), write),
            (GasId::sstore_set_refund(), write),
            // EIP-7976: at least 64 gas per byte of calldata.
            (GasId::tx_floor_cost_per_token(), 16),
            (GasId::tx_floor_token_zero_byte_multiplier(), 4),
            // EIP-7981: the same price per byte of an access list.
            (GasId::tx_access_list_floor_byte_multiplier(), 4),
            (GasId::tx_access_list_address_cost(), 2_400 + 20 * 64),
            (GasId::tx_access_list_storage_key_cost(), 1_900 + 32 * 64),
        ]);
        cfg.gas_params = prices;
        env
    }

    /// Returns the EVM of a block with the prices of this draft.
    pub(super) fn set_static_gas<DB: Database, I>(
        self,
        mut evm: HookedEvm<DB, I>,
    ) -> HookedEvm<DB, I> {
        if self == Self::Bal57 && evm.context().cfg.spec == SpecId::AMSTERDAM {
            // EIP-8038 charges these instructions a second read.
            for opcode in [EXTCODESIZE, EXTCODECOPY] {
                evm = evm.with_static_gas(opcode, 100);
            }
        }
        evm
    }

    /// Configures the EVM for the next transaction under this draft. The creation of a contract is charged where
    /// EIP-2780 charges it, so the EIP is on for creations only.
    pub(super) fn prepare(self, cfg: &mut CfgEnv, is_create: bool) {
        if self == Self::Bal57 && cfg.spec == SpecId::AMSTERDAM {
            cfg.enable_amsterdam_eip2780 = is_create;
        }
    }
}
