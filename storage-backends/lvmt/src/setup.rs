//! The setup of a state. Reading needs only its name and its height; its tables are opened when the layer must
//! commit, prove or check.

use alloy_primitives::B256;
use polytrie_amt::Setup;
use polytrie_state::{Result, StateError};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

type Open = dyn Fn() -> Result<Arc<Setup>> + Send + Sync;

/// The setup of a state, with or without its tables.
#[derive(Clone)]
pub struct KnownSetup(Arc<Known>);

struct Known {
    id: B256,
    height: u8,
    tables: OnceLock<Arc<Setup>>,
    open: Option<Box<Open>>,
}

impl KnownSetup {
    /// Creates a setup whose name and height are known. `open` finds its tables, and is called whenever they are
    /// needed until it succeeds.
    pub fn named(
        id: B256,
        height: u8,
        open: impl Fn() -> Result<Arc<Setup>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Known { id, height, tables: OnceLock::new(), open: Some(Box::new(open)) }))
    }

    pub(crate) fn id(&self) -> B256 {
        self.0.id
    }

    pub(crate) fn height(&self) -> u8 {
        self.0.height
    }

    /// Returns the tables, if they were opened already.
    pub(crate) fn opened(&self) -> Option<&Setup> {
        self.0.tables.get().map(|tables| &**tables)
    }

    /// Returns the tables, and opens them if necessary.
    pub(crate) fn tables(&self) -> Result<&Setup> {
        if let Some(tables) = self.0.tables.get() {
            return Ok(tables);
        }
        let open = self.0.open.as_ref();
        let tables = open.ok_or(StateError::Protocol("a setup has no tables"))?()?;
        expect_same(tables.id(), self.0.id)?;
        Ok(self.0.tables.get_or_init(|| tables))
    }
}

impl From<Arc<Setup>> for KnownSetup {
    fn from(setup: Arc<Setup>) -> Self {
        let (id, height) = (setup.id(), setup.height());
        Self(Arc::new(Known { id, height, tables: OnceLock::from(setup), open: None }))
    }
}

impl fmt::Debug for KnownSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KnownSetup").field(&self.0.id).finish()
    }
}

/// Checks that a state is continued with the setup that it was made with.
pub(crate) fn expect_same(given: B256, of_state: B256) -> Result<()> {
    if given == of_state {
        return Ok(());
    }
    Err(crate::unsupported(format!(
        "was given the setup {given}, but the state was made with {of_state}; name the directory of that one with --lvmt.setup, or import again into another --datadir"
    )))
}
