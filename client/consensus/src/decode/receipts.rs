//! Receipts as files hold them: with blooms in era1; in ere without them and with the type as a field, as eth/69 sends
//! receipts.

use std::borrow::Cow;

use alloy_consensus::{Eip658Value, ReceiptEnvelope, TxReceipt, TxType};
use alloy_primitives::{Bytes, Log};
use alloy_rlp::{BufMut, Decodable, Encodable, Header as RlpHeader};

use super::{BlockPart, DecodeError, DecodeProblem, Item, canonical, each, enveloped};

/// Receipts of a block as a file holds them, not decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EncodedReceipts {
    /// RLP of receipts with blooms; see [`decode_receipts`].
    Full(Bytes),
    /// RLP of receipts without blooms; see [`decode_slim_receipts`].
    Slim(Bytes),
}

/// Encodes the receipts of a block as era1 files hold them.
pub fn encode_receipts(receipts: &[ReceiptEnvelope]) -> Vec<u8> {
    let mut rlp = Vec::new();
    alloy_rlp::encode_list::<ReceiptEnvelope, ReceiptEnvelope>(receipts, &mut rlp);
    rlp
}

/// Decodes the receipts of a block as era1 files hold them: a list of receipts with their blooms, in which a typed
/// receipt is a string around its EIP-2718 form.
///
/// # Errors
///
/// Fails with the malformed receipt and its problem.
pub fn decode_receipts(rlp: &[u8]) -> Result<Vec<ReceiptEnvelope>, DecodeError> {
    let list = Item::whole_list(rlp, BlockPart::Receipts)?;
    let mut scratch = Vec::new();
    each(list.payload, BlockPart::Receipts, BlockPart::Receipt, |item, part| {
        enveloped(item, part, &mut scratch, |rlp| {
            Ok(ReceiptEnvelope::Legacy(Decodable::decode(rlp)?))
        })
    })
}

/// A receipt `[type, post-state or status, cumulative gas, logs]`. It has no bloom, because the bloom follows from the
/// logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlimReceipt<'a> {
    /// Type of the receipt's transaction.
    pub tx_type: TxType,
    /// Whether the transaction succeeded; before Byzantium the state root after it.
    pub status: Eip658Value,
    /// Gas that the block used up to and with this transaction.
    pub cumulative_gas_used: u64,
    /// Logs of the transaction.
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
/// Fails with the malformed receipt and its problem.
pub fn decode_slim_receipts(rlp: &[u8]) -> Result<Vec<SlimReceipt<'static>>, DecodeError> {
    let list = Item::whole_list(rlp, BlockPart::Receipts)?;
    let mut scratch = Vec::new();
    each(list.payload, BlockPart::Receipts, BlockPart::Receipt, |item, part| {
        if !item.list {
            return Err(DecodeError::new(part, DecodeProblem::NotAList));
        }
        // The type comes first, and an unknown type has an error of its own.
        if let Ok(kind) = u8::decode(&mut &*item.payload)
            && TxType::try_from(kind).is_err()
        {
            return Err(DecodeError::new(part, DecodeProblem::UnknownType(kind)));
        }
        canonical(item.raw, item.raw, part, &mut scratch, SlimReceipt::decode)
    })
}
