//! Checks of a header against its parent.

use super::{
    clique,
    difficulty::next_difficulty,
    error::ConsensusError,
    gas::{check_blob_gas, check_gas_limit, next_base_fee},
};
use alloy_consensus::{Header, Sealed, constants::MAXIMUM_EXTRA_DATA_SIZE};
use alloy_hardforks::EthereumHardfork;
use polytrie_chainspec::Rules;

/// Extra data of the first blocks of the DAO fork.
const DAO_EXTRA_DATA: &[u8] = b"dao-hard-fork";

/// Number of blocks from the DAO fork on with prescribed extra data.
const DAO_EXTRA_DATA_RANGE: u64 = 10;

/// Checks a header against its parent, by every rule that needs only these two.
///
/// `rules` are those of `header`: its number, its timestamp, and whether its parent's total difficulty reached the
/// terminal one. So the function finds both a header with proof of work after the merge and one without before it. The
/// parent must be valid, or the genesis block, which is not checked.
///
/// Not checked: the proof-of-work seal (nonce and mix hash), the signer of a block of Clique, and whether the timestamp
/// lies in the future.
///
/// # Errors
///
/// Fails with the first rule that the header breaks.
pub fn check_header(
    rules: &Rules<'_>,
    parent: &Sealed<Header>,
    header: &Header,
) -> Result<(), ConsensusError> {
    if header.parent_hash != parent.hash() {
        return Err(ConsensusError::ParentHash {
            found: header.parent_hash,
            expected: parent.hash(),
        });
    }
    // A parent at 2^64 - 1 has no child; `expected` in the error is then 0, the wrapped number.
    let expected = parent.number.wrapping_add(1);
    if header.number != expected || expected == 0 {
        return Err(ConsensusError::Number { found: header.number, expected });
    }
    if let Some(clique) = rules.clique() {
        clique::check_header(clique, parent, header)?;
        check_gas_limit(rules, parent, header)?;
    } else {
        check_timestamp(parent, header)?;
        // A block from before the merge has longer extra data under Clique. The error about it should be that it comes
        // after the merge, so the seal fields are checked first.
        check_seal_fields(rules, parent, header)?;
        check_extra_data(rules, header)?;
        check_gas_limit(rules, parent, header)?;
    }
    check_base_fee(rules, parent, header)?;
    check_blob_gas(rules, parent, header)?;
    check_presence(rules, header)
}

fn check_timestamp(parent: &Header, header: &Header) -> Result<(), ConsensusError> {
    let (found, parent) = (header.timestamp, parent.timestamp);
    if found > parent { Ok(()) } else { Err(ConsensusError::Timestamp { found, parent }) }
}

fn check_extra_data(rules: &Rules<'_>, header: &Header) -> Result<(), ConsensusError> {
    let extra = &header.extra_data;
    if extra.len() > MAXIMUM_EXTRA_DATA_SIZE {
        return Err(ConsensusError::ExtraDataTooLong {
            found: extra.len(),
            max: MAXIMUM_EXTRA_DATA_SIZE,
        });
    }
    // The mark separates two chains of proof of work. A chain that starts merged may have the fork at block 0, as the
    // genesis files of test tools do, and no client asks for the mark there.
    let Some(dao) = rules.spec.dao_fork().filter(|_| !rules.merged) else {
        return Ok(());
    };
    if header.number.checked_sub(dao.block).is_none_or(|since| since >= DAO_EXTRA_DATA_RANGE) {
        return Ok(());
    }
    match (dao.support, extra.as_ref() == DAO_EXTRA_DATA) {
        (true, false) => Err(ConsensusError::DaoExtraDataMissing { found: extra.clone() }),
        (false, true) => Err(ConsensusError::DaoExtraDataForbidden),
        _ => Ok(()),
    }
}

/// Checks the difficulty, and the fields that the merge fixed (EIP-3675).
fn check_seal_fields(
    rules: &Rules<'_>,
    parent: &Header,
    header: &Header,
) -> Result<(), ConsensusError> {
    let found = header.difficulty;
    if rules.merged {
        if !found.is_zero() {
            return Err(ConsensusError::ProofOfWorkAfterMerge { found });
        }
        if !header.nonce.is_zero() {
            return Err(ConsensusError::NonceAfterMerge { found: header.nonce });
        }
        if !header.ommers_hash_is_empty() {
            return Err(ConsensusError::OmmersHashAfterMerge { found: header.ommers_hash });
        }
        return Ok(());
    }
    let expected = next_difficulty(rules, parent, header.timestamp);
    if found == expected {
        Ok(())
    } else if found.is_zero() {
        Err(ConsensusError::ProofOfStakeBeforeMerge { expected })
    } else {
        Err(ConsensusError::Difficulty { found, expected })
    }
}

fn check_base_fee(
    rules: &Rules<'_>,
    parent: &Header,
    header: &Header,
) -> Result<(), ConsensusError> {
    const FIELD: &str = "base fee";
    let fork = EthereumHardfork::London;
    match (next_base_fee(rules, parent), header.base_fee_per_gas) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(ConsensusError::UnexpectedField { field: FIELD, fork }),
        (Some(_), None) => Err(ConsensusError::MissingField { field: FIELD, fork }),
        (Some(expected), Some(found)) if u128::from(found) != expected => {
            Err(ConsensusError::BaseFee { found, expected })
        }
        (Some(_), Some(_)) => Ok(()),
    }
}

/// Checks that the fields are there that the fork brings and whose value depends on the body or the execution.
fn check_presence(rules: &Rules<'_>, header: &Header) -> Result<(), ConsensusError> {
    let fields = [
        ("withdrawals root", EthereumHardfork::Shanghai, header.withdrawals_root.is_some()),
        (
            "parent beacon block root",
            EthereumHardfork::Cancun,
            header.parent_beacon_block_root.is_some(),
        ),
        ("requests hash", EthereumHardfork::Prague, header.requests_hash.is_some()),
        (
            "block access list hash",
            EthereumHardfork::Amsterdam,
            header.block_access_list_hash.is_some(),
        ),
        ("slot number", EthereumHardfork::Amsterdam, header.slot_number.is_some()),
    ];
    for (field, fork, present) in fields {
        match (rules.is(fork), present) {
            (true, false) => return Err(ConsensusError::MissingField { field, fork }),
            (false, true) => return Err(ConsensusError::UnexpectedField { field, fork }),
            _ => {}
        }
    }
    Ok(())
}
