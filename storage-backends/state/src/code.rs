//! The table of contract code: addressed by its hash, shared, never deleted; the same for every layer.

use crate::{Account, Result};
use alloy_primitives::{B256, Bytes};
use polytrie_kv::{Batch, Read, Table};

/// The table of code: `keccak256(code)` → code.
pub const CODE_TABLE: Table = Table::new(1, "Code", 32);

/// Reads code by its hash; `None` if it is not in the store.
///
/// # Errors
///
/// If the store fails.
pub fn read_code(store: &dyn Read, code_hash: &B256) -> Result<Option<Bytes>> {
    Ok(store.get(CODE_TABLE, code_hash.as_slice())?.map(Bytes::from))
}

/// Reads many codes by their hashes, in the order of these; `None` for one that is not in the store.
///
/// # Errors
///
/// If the store fails.
pub fn read_codes(store: &dyn Read, hashes: &[B256]) -> Result<Vec<Option<Bytes>>> {
    let keys: Vec<&[u8]> = hashes.iter().map(B256::as_slice).collect();
    let codes = store.get_many(CODE_TABLE, &keys)?;
    Ok(codes.into_iter().map(|code| code.map(Bytes::from)).collect())
}

/// Implements those methods of [`StateReader`](crate::StateReader) that read code, from the rows in a field of the reader:
/// `code_from!(rows)` from `self.rows`, `code_from!(0)` from the first field of a tuple.
#[macro_export]
macro_rules! code_from {
    ($($rows:tt)+) => {
        fn code(
            &self,
            code_hash: &::alloy_primitives::B256,
        ) -> $crate::Result<::std::option::Option<::alloy_primitives::Bytes>> {
            $crate::read_code(&self.$($rows)+, code_hash)
        }

        fn codes(
            &self,
            hashes: &[::alloy_primitives::B256],
        ) -> $crate::Result<::std::vec::Vec<::std::option::Option<::alloy_primitives::Bytes>>> {
            $crate::read_codes(&self.$($rows)+, hashes)
        }
    };
}

/// Adds new code to a batch.
pub fn write_codes(batch: &mut Batch, codes: &[(B256, Bytes)]) {
    for (hash, code) in codes {
        batch.put(CODE_TABLE, hash.as_slice(), code);
    }
}

/// Adds the code that came with an account, if any did, to a batch.
pub fn write_code(batch: &mut Batch, account: &Account, code: Option<&Bytes>) {
    if let Some(code) = code {
        batch.put(CODE_TABLE, account.code_hash.as_slice(), code);
    }
}
