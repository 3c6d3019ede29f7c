//! The sample chain in the repository.

use alloy_primitives::Bytes;
use polytrie::blocks::BlockReader;
use std::path::{Path, PathBuf};

/// Returns the path of a file of the sample.
pub(crate) fn sample(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sample").join(file)
}

/// Returns the first blocks of the sample as RLP. Genesis is not among them.
pub(crate) fn sample_blocks(count: usize) -> Vec<Bytes> {
    let blocks = BlockReader::open(sample("chain.rlp.gz")).unwrap();
    blocks.take(count).map(|block| block.unwrap().rlp).collect()
}
