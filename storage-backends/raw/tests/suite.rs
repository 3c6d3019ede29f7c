//! The suite that every layer passes.

use polytrie_kv::{Store, Table};
use polytrie_raw::RawLayer;
use polytrie_state::{CommitmentKind, StateError, StateLayer, ahead::Readers};
use polytrie_testing::{
    layer_suite,
    suite::{self, LayerFactory, Scrub},
};
use std::sync::Arc;

#[derive(Debug)]
struct Raw {
    read_ahead: bool,
}

impl LayerFactory for Raw {
    fn tables(&self) -> Vec<Table> {
        RawLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        match self.read_ahead {
            true => Ok(RawLayer::with_readers(store, Readers::new(4, true))?),
            false => Ok(RawLayer::open(store)?),
        }
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::None
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        vec![Box::new(WITH_ALL_READ_AHEAD)]
    }

    fn scrub(&self) -> Scrub {
        Scrub::Undecodable
    }
}

const RAW: Raw = Raw { read_ahead: false };
const WITH_ALL_READ_AHEAD: Raw = Raw { read_ahead: true };

layer_suite!(RAW);

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&RAW);
}

#[test]
fn gathered_rows_are_read_once() {
    suite::gathered_state_is_read_once(&RAW);
}

#[test]
fn announced_rows_are_read_ahead() {
    suite::announced_state_is_read_ahead(&WITH_ALL_READ_AHEAD);
}
