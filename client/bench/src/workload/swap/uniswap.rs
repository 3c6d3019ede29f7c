//! The contracts of UniswapV2, as `scripts/setup-uniswap` fetches them.

use crate::CacheError;
use alloy_primitives::{Address, B256, Bytes, U256, b256, keccak256};
use polytrie_layers::user_cache;
use serde::Deserialize;
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// Name of the file.
const FILE: &str = "uniswap.json";
/// Environment variable with the directory of the file.
const VARIABLE: &str = "POLYTRIE_UNISWAP";
/// keccak256 of the codes of factory, pair, pair before its constructor ran, router and WETH.
const HASH: B256 = b256!("4a1a601e8014024ba2fd380c2b9234900855f0f0794024749ac4444dd2420569");

/// Codes of the contracts.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Uniswap {
    pub(super) factory: Bytes,
    pub(super) pair: Bytes,
    pair_creation: Bytes,
    router: Bytes,
    /// Offsets of the factory's address in the router's code.
    router_factory: Vec<usize>,
    /// Offsets of WETH's address in the router's code.
    router_weth: Vec<usize>,
    pub(super) weth: Bytes,
}

impl Uniswap {
    /// Reads the contracts.
    ///
    /// # Errors
    ///
    /// Fails if they are missing or wrong; the sentence says how to get them.
    pub(super) fn open() -> Result<Self, CacheError> {
        let path = directory()?.join(FILE);
        let bytes = fs::read(&path).map_err(|error| missing(&path, &error))?;
        let found: Self =
            serde_json::from_slice(&bytes).map_err(|e| damaged(&path, &e.to_string()))?;
        let hash = found.hash();
        if hash != HASH {
            return Err(damaged(&path, &format!("its code has the hash {hash}, expected {HASH}")));
        }
        Ok(found)
    }

    fn hash(&self) -> B256 {
        let parts = [&self.factory, &self.pair, &self.pair_creation, &self.router, &self.weth];
        keccak256(parts.map(|code| code.to_vec()).concat())
    }

    /// Returns the router's code for a factory and WETH at these addresses.
    pub(super) fn router(&self, factory: Address, weth: Address) -> Bytes {
        let mut code = self.router.to_vec();
        for (places, address) in [(&self.router_factory, factory), (&self.router_weth, weth)] {
            for place in places {
                if let Some(word) = code.get_mut(*place..*place + 32) {
                    word.copy_from_slice(address.into_word().as_slice());
                }
            }
        }
        code.into()
    }

    /// Returns the address of a pair of two tokens, in ascending order, that the factory at this
    /// address creates.
    pub(super) fn pair_address(
        &self,
        factory: Address,
        token0: Address,
        token1: Address,
    ) -> Address {
        let salt = keccak256([token0.as_slice(), token1.as_slice()].concat());
        factory.create2(salt, keccak256(&self.pair_creation))
    }
}

/// Encodes a string of less than 32 bytes as Solidity stores it in a slot.
pub(super) fn short_string(text: &str) -> U256 {
    let mut bytes = [0; 32];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes[31] = 2 * text.len() as u8;
    U256::from_be_bytes(bytes)
}

fn directory() -> Result<PathBuf, CacheError> {
    let named = env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(user_cache()?.join("uniswap"))).ok_or_else(|| {
        CacheError::Needs(format!(
            "the workload calls the contracts of UniswapV2, and neither {VARIABLE} nor HOME says where they are; run `scripts/setup-uniswap DIR` and set {VARIABLE}=DIR"
        ))
    })
}

fn missing(path: &Path, error: &io::Error) -> CacheError {
    CacheError::Needs(format!(
        "the workload calls the contracts of UniswapV2, which are not part of this program and cannot be read from {}: {error}; fetch them with `scripts/setup-uniswap` of this program's repository (it takes Node and npm)",
        path.display()
    ))
}

fn damaged(path: &Path, reason: &str) -> CacheError {
    CacheError::Needs(format!(
        "{} does not hold the contracts of UniswapV2: {reason}; fetch them anew with `scripts/setup-uniswap`",
        path.display()
    ))
}
