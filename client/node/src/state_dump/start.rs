//! The block that a chain begins with, and what is known of earlier blocks.

use super::{Beginning, StateDumpError};
use alloy_eips::eip2935::{HISTORY_SERVE_WINDOW, HISTORY_STORAGE_ADDRESS};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, U256};
use polytrie_chain::{Head, Start, StartAncestor};
use polytrie_chainspec::ChainSpec;
use polytrie_consensus::{check_body_roots, decode::decode_sealed_block};
use polytrie_files::{KnownHeader, input_name};
use polytrie_state::StateLayer;
use std::collections::BTreeMap;

/// Returns the start that follows from the headers alone, and whether the total difficulty is known.
///
/// # Errors
///
/// Fails if no chain can begin there.
pub(super) fn start(
    spec: &ChainSpec,
    beginning: &Beginning,
) -> Result<(Start, bool), StateDumpError> {
    let file = input_name(&beginning.header_file).to_string();
    let wrong = |what: String| StateDumpError::Header { file: file.clone(), what };
    let Some((head, before)) = beginning.headers.split_last() else {
        return Err(wrong("there is no header in it".to_owned()));
    };
    for known in &beginning.headers {
        check_content(known).map_err(|reason| {
            let number = known.header.number;
            wrong(format!(
                "block {number} is not what its header says: {reason}; get the file again"
            ))
        })?;
    }
    let number = head.header.number;
    let mut ancestors = BTreeMap::new();
    if let Some(parent) = number.checked_sub(1) {
        let hash = head.header.parent_hash;
        ancestors.insert(parent, StartAncestor { hash, header: None, block: None });
    }
    for known in before {
        let KnownHeader { header, block, .. } = known.clone();
        let hash = header.hash();
        ancestors.insert(header.number, StartAncestor { hash, header: Some(header), block });
    }
    let genesis = spec.genesis_header();
    let found = match number == genesis.number {
        true => Some(head.header.hash()),
        false => ancestors.get(&genesis.number).map(|known| known.hash),
    };
    if let Some(found) = found.filter(|found| *found != genesis.hash()) {
        return Err(wrong(format!(
            "the headers are those of a chain with the genesis {found}, {} has {}; name the right one with --chain",
            spec.name(),
            genesis.hash()
        )));
    }
    let difficulty = head.header.difficulty;
    let terminal = spec.terminal_total_difficulty();
    // A node that does not know the total difficulty may answer 0.
    let least = terminal.filter(|_| difficulty.is_zero()).unwrap_or(difficulty);
    let in_file = head.total_difficulty.filter(|total| *total >= least);
    let given = beginning.total_difficulty.or(in_file);
    let (total_difficulty, is_known) = match (given, terminal) {
        _ if number == genesis.number => (difficulty, true),
        (Some(given), _) => (given, true),
        // After the merge it matters only that the terminal total difficulty is reached.
        (None, Some(terminal)) if difficulty.is_zero() => (terminal, true),
        (None, Some(_)) => return Err(StateDumpError::NoDifficulty { file, number }),
        (None, None) => (difficulty, false),
    };
    if let Some(terminal) = terminal.filter(|_| number > genesis.number) {
        let before = total_difficulty.saturating_sub(difficulty);
        if difficulty.is_zero() && before < terminal {
            return Err(wrong(format!(
                "block {number} is from after the merge, but the total difficulty {before} is below that of the merge, {terminal}; correct --total-difficulty, or leave it out"
            )));
        }
        if !difficulty.is_zero() && before >= terminal {
            return Err(wrong(format!(
                "block {number} is from before the merge, but the total difficulty before it, {before}, is not below that of the merge, {terminal}; give the right one with --total-difficulty"
            )));
        }
    }
    if spec.clique().is_some() && !difficulty.is_zero() && number > genesis.number {
        return Err(wrong(format!(
            "block {number} is sealed by a signer (Clique), and who may sign next follows from the blocks before it; import the chain from its beginning, or begin after its merge"
        )));
    }
    let header = head.header.clone();
    let start =
        Start { head: Head { header, total_difficulty }, block: head.block.clone(), ancestors };
    Ok((start, is_known))
}

/// Checks that the rest of a block belongs to its header, if the file has it: it is stored, and no execution checks it.
fn check_content(known: &KnownHeader) -> Result<(), String> {
    let Some(rlp) = &known.block else { return Ok(()) };
    let block = decode_sealed_block(rlp).map_err(|error| error.to_string())?;
    check_body_roots(&block).map_err(|error| error.to_string())
}

/// Adds the hashes of earlier blocks that the state itself holds, from Prague on (EIP-2935).
///
/// # Errors
///
/// Fails if the layer fails.
pub(super) fn add_stored_hashes(
    start: &mut Start,
    spec: &ChainSpec,
    layer: &dyn StateLayer,
) -> Result<(), StateDumpError> {
    let (number, time) = (start.head.number(), start.head.header.timestamp);
    let merged = spec.is_merged_after(start.head.total_difficulty);
    if !spec.rules(number, time, merged).is(EthereumHardfork::Prague) {
        return Ok(());
    }
    let reader = layer.reader()?;
    let (_, wanted) = start.known_hashes();
    for before in number - wanted..number {
        let slot = U256::from(before % HISTORY_SERVE_WINDOW as u64);
        let hash = reader.slot(&HISTORY_STORAGE_ADDRESS, &slot)?;
        if !hash.is_zero() {
            let hash = B256::from(hash);
            let known = StartAncestor { hash, header: None, block: None };
            start.ancestors.entry(before).or_insert(known);
        }
    }
    Ok(())
}
