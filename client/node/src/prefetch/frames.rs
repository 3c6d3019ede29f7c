//! The frames of the protocol without a connection, for fuzzing.

use super::wire::{BAG_BYTES, Message, SentBag};
use alloy_primitives::B256;
use polytrie_state::BagNode;

/// A frame that was read.
#[derive(Debug)]
pub struct Frame {
    /// The message of the frame, encoded again.
    pub encoded: Vec<u8>,
    /// The nodes of the message, if it is a bag.
    pub nodes: Option<Vec<BagNode>>,
}

/// Reads a frame from the front of the bytes; `None` if there are no bytes.
///
/// # Errors
///
/// The reason why the bytes do not begin with a frame.
pub fn read_frame(bytes: &mut &[u8]) -> Result<Option<Frame>, String> {
    let message = Message::read(bytes, BAG_BYTES).map_err(|error| error.to_string())?;
    Ok(message.map(|message| {
        let encoded = message.encode();
        let nodes = match message {
            Message::Bag(bag) => Some(bag.nodes),
            _ => None,
        };
        Frame { encoded, nodes }
    }))
}

/// Returns the frame of a bag with these nodes.
pub fn bag_frame(nodes: Vec<BagNode>) -> Vec<u8> {
    Message::Bag(SentBag { block: B256::ZERO, nodes }).encode()
}
