//! The calls of the EVM to the state below it.

use alloy_evm::Database;
use revm::primitives::{Address, U256};

/// A database with hooks for the slots that the EVM is about to read and write.
///
/// The methods are called while a transaction runs, in the order of execution and also inside calls that revert later.
/// An access is a hint: it may still fail for want of gas or because the call is static.
pub trait StateHook: Database {
    /// Whether [`Self::on_sload`] and [`Self::on_sstore`] do anything.
    ///
    /// Called once, when the EVM is built: if `false`, the stock instructions stay in place and the hooks cost nothing.
    fn hooks_enabled(&self) -> bool {
        false
    }

    /// Called when SLOAD is about to read `slot` of `address`.
    fn on_sload(&mut self, address: Address, slot: U256) {
        let _ = (address, slot);
    }

    /// Called when SSTORE is about to write `slot` of `address`.
    fn on_sstore(&mut self, address: Address, slot: U256) {
        let _ = (address, slot);
    }

    /// Whether the account has a slot that is not zero, as of the end of the last committed
    /// transaction.
    ///
    /// Called before a contract is created at `address`, which has neither code nor a nonce; the creation fails if this
    /// returns `true` (EIP-7610). Calls are too rare to matter for speed.
    ///
    /// # Errors
    ///
    /// If the state cannot be read; the transaction then fails with this error.
    fn has_storage(&mut self, address: Address) -> Result<bool, Self::Error>;
}

impl<T: StateHook + ?Sized> StateHook for &mut T
where
    Self: Database<Error = T::Error>,
{
    fn hooks_enabled(&self) -> bool {
        (**self).hooks_enabled()
    }

    fn on_sload(&mut self, address: Address, slot: U256) {
        (**self).on_sload(address, slot);
    }

    fn on_sstore(&mut self, address: Address, slot: U256) {
        (**self).on_sstore(address, slot);
    }

    fn has_storage(&mut self, address: Address) -> Result<bool, T::Error> {
        (**self).has_storage(address)
    }
}
