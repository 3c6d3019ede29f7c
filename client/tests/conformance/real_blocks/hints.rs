//! A layer that requires a hint before each read of a slot.

use alloy_primitives::{Address, B256, U256};
use polytrie_state::{Access, BlockRef, LayerSession, StateError, StateLayer, Wants};
use polytrie_testing::{AlterLayer, AlterSession, AlteredLayer, AlteredSession};
use std::{collections::HashSet, sync::Arc};

/// Wraps a layer so that it asks for hints, and panics if a slot is read without a hint before.
pub(crate) fn hinted(layer: Arc<dyn StateLayer>) -> AlteredLayer<impl AlterLayer> {
    AlteredLayer::new(layer, Hinted)
}

#[derive(Debug)]
struct Hinted;

#[derive(Debug, Default)]
struct Announced(HashSet<(Address, U256)>);

impl AlterLayer for Hinted {
    fn name(&self, _: &Arc<dyn StateLayer>) -> &'static str {
        "hinted"
    }
    fn begin(
        &self,
        inner: &Arc<dyn StateLayer>,
        parent: BlockRef,
    ) -> Result<Box<dyn LayerSession>, StateError> {
        Ok(AlteredSession::boxed(inner.begin(parent)?, Announced::default()))
    }
}

impl AlterSession for Announced {
    fn slot(
        &mut self,
        inner: &mut dyn LayerSession,
        address: &Address,
        account: &B256,
        slot: &U256,
        hash: &B256,
    ) -> Result<U256, StateError> {
        assert!(self.0.contains(&(*address, *slot)), "{address} {slot} came unannounced");
        inner.slot(address, account, slot, hash)
    }
    fn wants(&self, inner: &dyn LayerSession) -> Wants {
        Wants { hints: true, ..inner.wants() }
    }
    fn hint(&mut self, _: &mut dyn LayerSession, access: Access) {
        if let Access::SlotRead(address, slot) | Access::SlotWrite(address, slot) = access {
            self.0.insert((address, slot));
        }
    }
}
