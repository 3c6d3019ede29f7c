//! A layer that listens to hints and insists on them.

use alloy_primitives::{Address, B256, U256};
use polytrie_state::{Access, BlockRef, LayerSession, StateError, StateLayer, Wants};
use polytrie_testing::{AlterLayer, AlterSession, AlteredLayer, AlteredSession};
use std::{collections::HashSet, sync::Arc};

/// Another layer that is told what is coming, and panics if it is asked for a slot that nobody
/// announced.
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
