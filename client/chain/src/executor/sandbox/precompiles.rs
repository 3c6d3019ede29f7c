//! Precompiles, some of which a caller moved or replaced.

use alloy_evm::{Database, eth::EthEvmContext, precompiles::PrecompilesMap};
use alloy_primitives::{Address, map::AddressSet};
use revm::{
    handler::{EthPrecompiles, PrecompileProvider},
    interpreter::{CallInputs, InterpreterResult},
    primitives::hardfork::SpecId,
};

/// The precompiles of a revision as a call finds them.
///
/// What a move changes is where a precompile answers and not what an access costs: the addresses of the revision stay warm
/// (EIP-2929), and an address that a precompile was moved to is as cold as any other.
#[derive(Debug)]
pub(super) struct SandboxPrecompiles {
    map: PrecompilesMap,
    /// The addresses of the revision, where some of its precompiles were moved.
    warm: Option<AddressSet>,
}

impl SandboxPrecompiles {
    /// The precompiles of `spec` after these moves, each from an address to another one, or to none where the account was
    /// overridden.
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
            // Two that were sent to the same place: the last one stands there.
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
