//! Headers from a file: RLP of headers or blocks, in any format of blocks, or JSON as a node returns it.

use crate::{
    BlockFileError, BlockReader, RawBlock,
    answer::{Answer, read_answers},
    chunk::ChunkReader,
    detect::MARK,
    error::{BlockFileErrorKind, Place},
    reader::{Opened, input_name},
};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::{B256, Bytes, U256};
use polytrie_consensus::decode::{decode_header, decode_lone_header};
use serde_json::Value;
use std::{collections::VecDeque, path::Path, sync::Arc};

/// Greatest length of JSON that is read, in decompressed bytes: far more than all useful headers take.
const MAX_JSON: usize = 256 << 20;

/// A header from a file, and the other parts of the block in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHeader {
    /// Header of the block.
    pub header: Sealed<Header>,
    /// RLP of the block, if the file has the whole block.
    pub block: Option<Bytes>,
    /// Total difficulty up to and including the block, if the file has it.
    pub total_difficulty: Option<U256>,
}

/// Error of a file without usable headers.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// A file that cannot be read, or holds neither blocks nor JSON.
    #[error(transparent)]
    File(#[from] BlockFileError),
    /// JSON that is no header.
    #[error(
        "{file}: {what}; expected is the header of a block, or the block, as RLP or as a node answers to eth_getBlockByNumber"
    )]
    Json {
        /// Name of the file.
        file: Arc<str>,
        /// Description of the problem.
        what: String,
    },
    /// Headers that do not follow each other.
    #[error(
        "{file}: block {number} has the parent {found}, the header before it is that of {expected}; put headers of one chain into it, in their order"
    )]
    Gap {
        /// Name of the file.
        file: Arc<str>,
        /// Number of the block.
        number: u64,
        /// Parent hash of the block.
        found: B256,
        /// Hash of the header before it.
        expected: B256,
    },
}

impl HeaderError {
    /// Whether the machine failed rather than the content being wrong.
    pub fn is_io(&self) -> bool {
        match self {
            Self::File(error) => error.is_io(),
            Self::Json { .. } | Self::Gap { .. } => false,
        }
    }
}

/// Returns the last `most` headers of a file, in their order, each the parent of the next; at least one.
///
/// # Errors
///
/// Fails if the file cannot be read, or holds something else.
pub fn read_headers(path: impl AsRef<Path>, most: usize) -> Result<Vec<KnownHeader>, HeaderError> {
    let path = path.as_ref();
    let file = input_name(path);
    let mut last: VecDeque<KnownHeader> = VecDeque::new();
    let mut add = |known: KnownHeader| {
        if let Some(before) = last.back()
            && before.header.hash() != known.header.parent_hash
        {
            return Err(HeaderError::Gap {
                file: Arc::clone(&file),
                number: known.header.number,
                found: known.header.parent_hash,
                expected: before.header.hash(),
            });
        }
        if last.len() == most {
            last.pop_front();
        }
        last.push_back(known);
        Ok(())
    };
    match BlockReader::open_any(path)? {
        Opened::Blocks(mut blocks) => blocks.try_for_each(|raw| add(of_rlp(raw?)?))?,
        Opened::Json(json) => of_json(json, MAX_JSON, &file)?.into_iter().try_for_each(add)?,
    }
    Ok(last.into())
}

/// Decodes a block or a header: the first item of a block is a list, that of a header is a hash.
fn of_rlp(raw: RawBlock) -> Result<KnownHeader, BlockFileError> {
    let mut rest = &raw.rlp[..];
    let is_block = alloy_rlp::Header::decode(&mut rest).is_ok()
        && rest.first().is_some_and(|first| *first >= 0xc0);
    let decoded = if is_block { decode_header(&raw.rlp) } else { decode_lone_header(&raw.rlp) };
    let header = decoded.map_err(|error| {
        let place = Place { index: raw.index, offset: raw.offset, number: None };
        BlockFileError::new(&raw.file, BlockFileErrorKind::Decode { place, error })
    })?;
    let block = is_block.then_some(raw.rlp);
    Ok(KnownHeader { header, block, total_difficulty: raw.total_difficulty })
}

fn of_json(
    mut text: ChunkReader,
    most: usize,
    file: &Arc<str>,
) -> Result<Vec<KnownHeader>, HeaderError> {
    let failed = |kind| BlockFileError::new(file, kind);
    let wrong = |what: String| HeaderError::Json { file: Arc::clone(file), what };
    while text.fill(text.data().len() + 1).map_err(failed)? {
        if text.data().len() > most {
            return Err(wrong(format!("the JSON goes on after {most} bytes")));
        }
    }
    let text = text.data().strip_prefix(MARK).unwrap_or(text.data());
    let (mut headers, mut refused) = (Vec::new(), None);
    let read = read_answers(text, &mut |answer| match of_answer(answer) {
        Ok(header) => {
            headers.push(header);
            true
        }
        Err(what) => {
            refused = Some(what);
            false
        }
    });
    read.map_err(|error| wrong(format!("the JSON does not read: {error}")))?;
    if let Some(what) = refused {
        return Err(wrong(what));
    }
    if headers.is_empty() {
        return Err(wrong("the JSON holds no header".to_owned()));
    }
    Ok(headers)
}

fn of_answer(Answer(fields): Answer) -> Result<KnownHeader, String> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let (hash, total) = (text("hash"), text("totalDifficulty"));
    let header: Header = serde_json::from_value(Value::Object(fields))
        .map_err(|error| format!("the JSON is no header: {error}"))?;
    let header = Sealed::new(header);
    if let Some(expected) = hash.filter(|hash| hash.parse().ok() != Some(header.hash())) {
        return Err(format!(
            "the header of block {} has the hash {}, but the JSON says {expected}",
            header.number,
            header.hash()
        ));
    }
    let total_difficulty = total.and_then(|total| total.parse().ok());
    Ok(KnownHeader { header, block: None, total_difficulty })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A few bytes of gzip can decompress to as much.
    #[test]
    fn json_without_an_end_is_not_read_to_it() {
        let endless = ChunkReader::new(Box::new(std::io::repeat(b' ')), false);
        let error = of_json(endless, 1 << 20, &"test".into()).unwrap_err();
        assert!(!error.is_io());
        assert!(
            error.to_string().starts_with("test: the JSON goes on after 1048576 bytes;"),
            "{error}"
        );
    }
}
