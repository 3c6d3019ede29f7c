//! Receipts as files hold them: with blooms (era1), or without and with the type as a field (ere, as eth/69 sends them).

use std::borrow::Cow;

use alloy_consensus::{Eip658Value, ReceiptEnvelope, TxReceipt, TxType};
use alloy_primitives::{Bytes, Log};
use alloy_rlp::{BufMut, Decodable, Encodable, Header as RlpHeader};

use super::{BlockPart, DecodeError, DecodeProblem, Item, canonical, each, enveloped};

/// The receipts of a block as a file holds them, not decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EncodedReceipts {
    /// With blooms; see [`decode_receipts`].
    Full(Bytes),
    /// Without; see [`decode_slim_receipts`].
    Slim(Bytes),
}

/// Encodes the receipts of a block as era1 files hold them.
pub fn encode_receipts(receipts: &[ReceiptEnvelope]) -> Vec<u8> {
    let mut rlp = Vec::new();
    alloy_rlp::encode_list::<ReceiptEnvelope, ReceiptEnvelope>(receipts, &mut rlp);
    rlp
}

/// Decodes the receipts of a block: a list in which a typed receipt is a string around its EIP-2718 form,
/// each with its bloom, as era1 files hold them.
///
/// # Errors
///
/// Names the receipt that is malformed and what is wrong with it.
pub fn decode_receipts(rlp: &[u8]) -> Result<Vec<ReceiptEnvelope>, DecodeError> {
    let list = Item::whole_list(rlp, BlockPart::Receipts)?;
    let mut scratch = Vec::new();
    each(list.payload, BlockPart::Receipts, BlockPart::Receipt, |item, part| {
        enveloped(item, part, &mut scratch, |rlp| {
            Ok(ReceiptEnvelope::Legacy(Decodable::decode(rlp)?))
        })
    })
}

/// A receipt without its bloom, which follows from the logs: `[type, post-state or status, cumulative gas, logs]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlimReceipt<'a> {
    /// The type of its transaction.
    pub tx_type: TxType,
    /// Whether it succeeded; before Byzantium the state root after it.
    pub status: Eip658Value,
    /// Gas used in the block up to and with it.
    pub cumulative_gas_used: u64,
    /// Its logs.
    pub logs: Cow<'a, [Log]>,
}

impl<'a> From<&'a ReceiptEnvelope> for SlimReceipt<'a> {
    fn from(receipt: &'a ReceiptEnvelope) -> Self {
        Self {
            tx_type: receipt.tx_type(),
            status: receipt.status_or_post_state(),
            cumulative_gas_used: receipt.cumulative_gas_used(),
            logs: Cow::Borrowed(receipt.logs()),
        }
    }
}

impl SlimReceipt<'_> {
    fn fields_length(&self) -> usize {
        u8::from(self.tx_type).length()
            + self.status.length()
            + self.cumulative_gas_used.length()
            + alloy_rlp::list_length::<Log, Log>(&self.logs)
    }
}

impl Encodable for SlimReceipt<'_> {
    fn encode(&self, out: &mut dyn BufMut) {
        RlpHeader { list: true, payload_length: self.fields_length() }.encode(out);
        u8::from(self.tx_type).encode(out);
        self.status.encode(out);
        self.cumulative_gas_used.encode(out);
        alloy_rlp::encode_list::<Log, Log>(&self.logs, out);
    }

    fn length(&self) -> usize {
        RlpHeader { list: true, payload_length: self.fields_length() }.length_with_payload()
    }
}

impl Decodable for SlimReceipt<'static> {
    fn decode(rlp: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let mut fields = RlpHeader::decode_bytes(rlp, true)?;
        let tx_type = u8::decode(&mut fields)?;
        let receipt = Self {
            tx_type: tx_type.try_into().map_err(|_| alloy_rlp::Error::Custom("unknown type"))?,
            status: Eip658Value::decode(&mut fields)?,
            cumulative_gas_used: u64::decode(&mut fields)?,
            logs: Cow::Owned(Vec::decode(&mut fields)?),
        };
        match fields.is_empty() {
            true => Ok(receipt),
            false => Err(alloy_rlp::Error::UnexpectedLength),
        }
    }
}

/// Encodes the receipts of a block as ere files hold them.
pub fn encode_slim_receipts(receipts: &[ReceiptEnvelope]) -> Vec<u8> {
    let slim: Vec<SlimReceipt<'_>> = receipts.iter().map(SlimReceipt::from).collect();
    alloy_rlp::encode(&slim)
}

/// Decodes the receipts of a block as ere files hold them.
///
/// # Errors
///
/// Names the receipt that is malformed and what is wrong with it.
pub fn decode_slim_receipts(rlp: &[u8]) -> Result<Vec<SlimReceipt<'static>>, DecodeError> {
    let list = Item::whole_list(rlp, BlockPart::Receipts)?;
    let mut scratch = Vec::new();
    each(list.payload, BlockPart::Receipts, BlockPart::Receipt, |item, part| {
        if !item.list {
            return Err(DecodeError::new(part, DecodeProblem::NotAList));
        }
        // The type stands first; one that no fork knows has a sentence of its own.
        if let Ok(kind) = u8::decode(&mut &*item.payload)
            && TxType::try_from(kind).is_err()
        {
            return Err(DecodeError::new(part, DecodeProblem::UnknownType(kind)));
        }
        canonical(item.raw, item.raw, part, &mut scratch, SlimReceipt::decode)
    })
}
