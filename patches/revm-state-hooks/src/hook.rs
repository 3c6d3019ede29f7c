//! What the EVM tells and asks the state below it.

use alloy_evm::Database;
use revm::primitives::{Address, U256};

/// A database that wants to know what the EVM is about to touch.
///
/// The methods are called while a transaction runs, in the order of execution and also inside calls
/// that revert later. What they are told is a hint: the access may still fail for want of gas or
/// because the call is static.
pub trait StateHook: Database {
    /// Whether [`Self::on_sload`] and [`Self::on_sstore`] do anything.
    ///
    /// Asked once, when the EVM is built: if not, the stock instructions stay in place and the
    /// hooks cost nothing.
    fn hooks_enabled(&self) -> bool;

    /// SLOAD is about to read `slot` of `address`.
    fn on_sload(&mut self, address: Address, slot: U256);

    /// SSTORE is about to write `slot` of `address`.
    fn on_sstore(&mut self, address: Address, slot: U256);

    /// Whether the account has a slot that is not zero, as of the end of the last committed
    /// transaction.
    ///
    /// Asked before a contract is created at `address`; the creation fails if it does (EIP-7610).
    /// Not asked often enough to matter for speed.
    ///
    /// # Errors
    ///
    /// If the state could not be read; the transaction then fails with this error.
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
