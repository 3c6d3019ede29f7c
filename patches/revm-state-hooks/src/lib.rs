//! The EVM of polytrie: revm's mainnet EVM with additions that need the state below it.
//!
//! | addition | why | where |
//! |---|---|---|
//! | SLOAD and SSTORE tell the database which slot they are about to touch | a state layer can work ahead of the block's end | [`StateHook::on_sload`], [`StateHook::on_sstore`] |
//! | a creation fails where storage is already present (EIP-7610) | revm looks at nonce and code only | [`StateHook::has_storage`] |
//! | SSTORE charged as in EIP-1283 | revm has no revision for Constantinople without Petersburg | [`HookedEvm::with_eip1283`] |
//! | an instruction can cost another static gas | drafts of a fork differ | [`HookedEvm::with_static_gas`] |
//! | system calls can go to another address | a chain may have its system contracts elsewhere | [`HookedEvm::with_moved_contract`] |
//!
//! [`HookedEvm`] implements [`alloy_evm::Evm`], so [`alloy_evm::eth::EthBlockExecutor`] drives it like any other. It is
//! built directly, not by an [`alloy_evm::EvmFactory`], because the factory is generic over every database and cannot
//! require a [`StateHook`].
//!
//! Results and gas are those of stock revm, with and without the hooks, except in the cases named above and in the gas
//! of a system call before Amsterdam (30,000,000), where stock revm is not enough.

mod collision;
mod eip1283;
mod evm;
mod hook;
mod instructions;

#[cfg(test)]
mod tests;

pub use evm::HookedEvm;
pub use hook::StateHook;
