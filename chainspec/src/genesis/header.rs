//! The header of block 0.

use alloy_consensus::{
    EMPTY_OMMER_ROOT_HASH, EMPTY_ROOT_HASH, Header, constants::EMPTY_WITHDRAWALS,
};
use alloy_eips::{
    eip1559::INITIAL_BASE_FEE, eip7685::EMPTY_REQUESTS_HASH, eip7928::EMPTY_BLOCK_ACCESS_LIST_HASH,
};
use alloy_genesis::Genesis;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B64, B256, Bloom};

use super::Flaw;
use crate::Forks;

/// Gas limit of a genesis with the limit zero, as in geth.
const DEFAULT_GAS_LIMIT: u64 = 4_712_388;

/// Returns the header of block 0 as geth derives it: a fork that is active at genesis adds its fields, with the value
/// of an empty block unless the genesis gives another.
pub(crate) fn header(
    genesis: &Genesis,
    gas_used: u64,
    state_root: B256,
    forks: &Forks,
) -> Result<Header, Flaw> {
    let london = forks.activation(EthereumHardfork::London).active_at_block(0);
    let active = |fork| london && forks.activation(fork).active_at_timestamp(genesis.timestamp);
    let (shanghai, cancun) = (active(EthereumHardfork::Shanghai), active(EthereumHardfork::Cancun));
    let (prague, amsterdam) =
        (active(EthereumHardfork::Prague), active(EthereumHardfork::Amsterdam));

    if let Some(number) = genesis.number.filter(|number| *number != 0) {
        return Err(Flaw::field("number", number, "0: the genesis block is the first one"));
    }
    // A base fee that is given counts even before London: geth puts it into the header nevertheless.
    let base_fee_per_gas =
        match genesis.base_fee_per_gas {
            Some(fee) => Some(u64::try_from(fee).map_err(|_| {
                Flaw::field("baseFeePerGas", fee, format!("at most {} wei", u64::MAX))
            })?),
            None => london.then_some(INITIAL_BASE_FEE),
        };
    Ok(Header {
        parent_hash: genesis.parent_hash.unwrap_or_default(),
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        beneficiary: genesis.coinbase,
        state_root,
        transactions_root: EMPTY_ROOT_HASH,
        receipts_root: EMPTY_ROOT_HASH,
        logs_bloom: Bloom::ZERO,
        difficulty: genesis.difficulty,
        number: 0,
        gas_limit: if genesis.gas_limit == 0 { DEFAULT_GAS_LIMIT } else { genesis.gas_limit },
        gas_used,
        timestamp: genesis.timestamp,
        extra_data: genesis.extra_data.clone(),
        mix_hash: genesis.mix_hash,
        nonce: B64::from(genesis.nonce),
        base_fee_per_gas,
        withdrawals_root: shanghai.then_some(EMPTY_WITHDRAWALS),
        blob_gas_used: cancun.then(|| genesis.blob_gas_used.unwrap_or_default()),
        excess_blob_gas: cancun.then(|| genesis.excess_blob_gas.unwrap_or_default()),
        parent_beacon_block_root: cancun.then_some(B256::ZERO),
        requests_hash: prague.then_some(EMPTY_REQUESTS_HASH),
        block_access_list_hash: amsterdam.then_some(EMPTY_BLOCK_ACCESS_LIST_HASH),
        slot_number: amsterdam.then(|| genesis.slot_number.unwrap_or_default()),
    })
}
