//! Property tests: reading arbitrary bytes ends without a panic, and accepted bytes give the blocks
//! that were written.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{io::Cursor, sync::LazyLock};

use alloy_primitives::{U256, hex};
use polytrie_consensus::decode::{
    EncodedReceipts, decode_block, decode_receipts, decode_slim_receipts,
};
use proptest::prelude::*;

use super::{
    super::{BlockReader, Era1Writer, EreWriter, Format},
    encode, made_up_chain,
};

static BLOCKS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| encode(&made_up_chain(4)));

/// One valid file of each format.
static FILES: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| {
    let hex: Vec<_> = BLOCKS.iter().map(hex::encode).collect();
    let mut era1 = Era1Writer::new("test", Vec::new(), 0).unwrap();
    let mut ere = EreWriter::new("test", Vec::new(), 0, &std::env::temp_dir()).unwrap();
    let mut total_difficulty = U256::ZERO;
    for (block, rlp) in made_up_chain(4).iter().zip(BLOCKS.iter()) {
        total_difficulty += block.header.difficulty;
        era1.push(rlp, &[0xc0], total_difficulty).unwrap();
        ere.push(rlp, &[0xc0], total_difficulty).unwrap();
    }
    let [era1, ere] = [era1.finish().unwrap().0, ere.finish().unwrap().0];
    [BLOCKS.concat(), hex.join("\n").into_bytes(), era1, ere]
});

const FORMATS: [Format; 4] = [Format::Rlp, Format::Hex, Format::Era1, Format::Ere];

/// Reads to the end or to the first error, decodes each block, and returns the blocks.
fn exercise(bytes: Vec<u8>, format: Option<Format>) -> Vec<Vec<u8>> {
    let input = Cursor::new(bytes);
    let reader = match format {
        Some(format) => Ok(BlockReader::with_format("test", input, format)),
        None => BlockReader::from_reader("test", input),
    };
    let mut blocks = Vec::new();
    for block in reader.into_iter().flatten() {
        match block {
            Ok(block) => {
                canonical(&block.rlp);
                match &block.receipts {
                    Some(EncodedReceipts::Full(rlp)) => drop(decode_receipts(rlp)),
                    Some(EncodedReceipts::Slim(rlp)) => drop(decode_slim_receipts(rlp)),
                    None => {}
                }
                if let Err(error) = block.decode() {
                    assert!(!error.to_string().is_empty());
                }
                blocks.push(block.rlp.to_vec());
            }
            Err(error) => {
                assert!(!error.is_io(), "{error}");
                assert!(error.to_string().starts_with("test: "), "{error}");
            }
        }
    }
    blocks
}

/// Checks that a block that decodes encodes to the same bytes. An access list is left out, so the
/// result may be shorter.
fn canonical(rlp: &[u8]) {
    if let Ok(block) = decode_block(rlp) {
        let again = alloy_rlp::encode(&block);
        assert!(again == rlp || again.len() < rlp.len());
        assert_eq!(decode_block(&again).unwrap(), block);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        exercise(bytes.clone(), None);
        for format in FORMATS {
            exercise(bytes.clone(), Some(format));
        }
        canonical(&bytes);
    }

    #[test]
    fn truncation_leaves_the_blocks_before(which in 0usize..4, part in 0.0..1.0f64) {
        let file = &FILES[which];
        let length = (file.len() as f64 * part) as usize;
        let blocks = exercise(file[..length].to_vec(), Some(FORMATS[which]));
        prop_assert!(BLOCKS.starts_with(&blocks));
    }

    #[test]
    fn changed_bytes_never_panic(
        which in 0usize..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        detected in any::<bool>(),
    ) {
        let mut file = FILES[which].clone();
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        exercise(file, (!detected).then_some(FORMATS[which]));
    }

    #[test]
    fn a_changed_block_is_refused_or_still_canonical(
        index in 0usize..4,
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut rlp = BLOCKS[index].clone();
        let at = at.index(rlp.len());
        rlp[at] = value;
        canonical(&rlp);
    }

    #[test]
    fn pieces_moved_around_never_panic(
        which in 0usize..4,
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        length in 0usize..400,
    ) {
        let mut file = FILES[which].clone();
        let from = from.index(file.len());
        let piece = file[from..(from + length).min(file.len())].to_vec();
        let to = to.index(file.len());
        file.splice(to..to, piece);
        exercise(file, Some(FORMATS[which]));
    }
}
