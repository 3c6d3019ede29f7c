//! Precompiles, some of which a caller has moved or replaced.

use alloy_evm::{Database, eth::EthEvmContext, precompiles::PrecompilesMap};
use alloy_primitives::{Address, map::AddressSet};
use revm::{
    handler::{EthPrecompiles, PrecompileProvider},
    interpreter::{CallInputs, InterpreterResult},
    primitives::hardfork::SpecId,
};

/// Precompiles of a revision for a call, after the caller's moves.
///
/// A move changes the address where a precompile answers, but not the price of an access: the addresses of the revision
/// stay warm (EIP-2929), and the new address is as cold as any other.
#[derive(Debug)]
pub(super) struct SandboxPrecompiles {
    map: PrecompilesMap,
    /// Addresses of the revision, if some of its precompiles were moved.
    warm: Option<AddressSet>,
}

impl SandboxPrecompiles {
    /// Returns the precompiles of `spec` after these moves, each from an address to another one, or to none if the
    /// account was overridden.
    pub(super) fn new(spec: SpecId, moves: &[(Address, Option<Address>)]) -> Self {
        let builtin = EthPrecompiles::new(spec);
        let warm = (!moves.is_empty()).then(|| builtin.precompiles.addresses_set().clone());
        let mut map = PrecompilesMap::from(builtin);
        for (from, to) in moves {
            let mut moved = None;
            map.apply_precompile(from, |found| {
                moved = found;
                None
            });
            // If two are moved to the same address, the last one stays there.
            if let (Some(to), Some(moved)) = (to, moved) {
                map.apply_precompile(to, |_| Some(moved));
            }
        }
        Self { map, warm }
    }
}

impl<DB: Database> PrecompileProvider<EthEvmContext<DB>> for SandboxPrecompiles {
    type Output = InterpreterResult;

    fn set_spec(&mut self, _: SpecId) -> bool {
        false
    }

    fn run(
        &mut self,
        context: &mut EthEvmContext<DB>,
        inputs: &CallInputs,
    ) -> Result<Option<InterpreterResult>, String> {
        self.map.run(context, inputs)
    }

    fn warm_addresses(&self) -> &AddressSet {
        match &self.warm {
            Some(warm) => warm,
            None => PrecompileProvider::<EthEvmContext<DB>>::warm_addresses(&self.map),
        }
    }

    fn contains(&self, address: &Address) -> bool {
        self.map.get(address).is_some()
    }
}
