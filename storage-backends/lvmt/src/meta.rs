//! The meta row: the setup, the number of epochs, and which witnesses are kept.

use crate::{META, kept::Share, record::Position};
use alloy_primitives::B256;
use polytrie_kv::{Read, append_checksum, strip_checksum};
use polytrie_state::{Result, corrupt};

/// The content of the meta row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The setup's name.
    pub(crate) setup: B256,
    /// Number of epochs.
    pub(crate) epochs: u64,
    /// The share of the keys with kept witnesses.
    pub(crate) share: Option<Share>,
}

impl Meta {
    /// Encodes the row: the setup's name, the number of epochs, the shard and the number of shards if witnesses are
    /// kept, and a checksum, so that damage is not taken for another setup.
    pub(crate) fn row(&self) -> Vec<u8> {
        let mut row = [self.setup.as_slice(), &self.epochs.to_be_bytes()].concat();
        if let Some(share) = self.share {
            row.extend_from_slice(&share.to_bytes());
        }
        append_checksum(&[], &mut row);
        row
    }

    /// Decodes the bytes of [`Self::row`].
    pub(crate) fn parse(row: &[u8]) -> Option<Self> {
        let (setup, rest) = strip_checksum(&[], row)?.split_first_chunk::<32>()?;
        let (epochs, share) = rest.split_first_chunk::<8>()?;
        let share = match share.is_empty() {
            true => None,
            false => Some(Share::from_bytes(share)?),
        };
        let meta = Self { setup: B256::from(*setup), epochs: u64::from_be_bytes(*epochs), share };
        (meta.epochs <= Position::MAX_EPOCHS).then_some(meta)
    }
}

/// Reads the row; `None` in an empty store.
pub(crate) fn read_meta(store: &dyn Read) -> Result<Option<Meta>> {
    let Some(row) = store.get(META, &[])? else { return Ok(None) };
    let damaged = || corrupt!("the row about the whole state is damaged");
    Meta::parse(&row).map(Some).ok_or_else(damaged)
}
