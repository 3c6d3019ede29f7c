//! The rules of Clique about a header, except for those about its signer.

use super::{CliqueError, DIFF_INTURN, DIFF_NOTURN, NONCE_AUTH, NONCE_DROP};
use alloy_consensus::Header;
use polytrie_chainspec::Clique;

/// Checks the fields that have another meaning under Clique, by every rule that needs no other block than the parent.
pub(crate) fn check_header(
    clique: Clique,
    parent: &Header,
    header: &Header,
) -> Result<(), CliqueError> {
    // A period of 0 allows two blocks in one second.
    let min = parent.timestamp.saturating_add(clique.period);
    if header.timestamp < min {
        let (found, period) = (header.timestamp, clique.period);
        return Err(CliqueError::Timestamp { found, min, period });
    }
    let checkpoint = clique.is_checkpoint(header.number);
    check_extra_data(clique, header.extra_data.len(), checkpoint)?;
    let (nonce, beneficiary) = (header.nonce, header.beneficiary);
    if nonce != NONCE_AUTH && nonce != NONCE_DROP {
        return Err(CliqueError::Vote { found: nonce });
    }
    if checkpoint && nonce != NONCE_DROP {
        return Err(CliqueError::CheckpointVote { found: nonce });
    }
    if checkpoint && !beneficiary.is_zero() {
        return Err(CliqueError::CheckpointBeneficiary { found: beneficiary });
    }
    if !header.mix_hash.is_zero() {
        return Err(CliqueError::MixHash { found: header.mix_hash });
    }
    if !header.ommers_hash_is_empty() {
        return Err(CliqueError::OmmersHash { found: header.ommers_hash });
    }
    if ![DIFF_INTURN, DIFF_NOTURN].contains(&header.difficulty) {
        return Err(CliqueError::Difficulty { found: header.difficulty });
    }
    Ok(())
}

fn check_extra_data(clique: Clique, found: usize, checkpoint: bool) -> Result<(), CliqueError> {
    let without_list = Clique::VANITY + Clique::SEAL;
    let Some(list) = found.checked_sub(without_list) else {
        return Err(CliqueError::ExtraDataTooShort { found, min: without_list });
    };
    match (checkpoint, list) {
        (false, 1..) => {
            let (expected, epoch) = (without_list, clique.epoch());
            Err(CliqueError::UnexpectedSigners { found, expected, epoch })
        }
        (true, list) if !list.is_multiple_of(20) => {
            Err(CliqueError::SignerListLength { found: list })
        }
        _ => Ok(()),
    }
}
