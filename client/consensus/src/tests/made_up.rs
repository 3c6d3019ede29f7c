//! Invented blocks to encode and decode. The tests of block files include this file with `#[path]`.

use alloy_consensus::{
    Block, BlockBody, Header, SignableTransaction, TxEip1559, TxEip4844, TxEnvelope, TxLegacy,
};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256, Signature, TxKind, U256};

/// Returns a chain of blocks with all kinds of transactions, which is valid only as an encoding.
pub(crate) fn made_up_chain(length: u64) -> Vec<Block<TxEnvelope>> {
    let signature = Signature::new(U256::from(7), U256::from(9), true);
    let legacy =
        TxLegacy { chain_id: Some(1), nonce: 300, gas_limit: 21_000, ..Default::default() };
    let pre_eip155 = TxLegacy { input: vec![5; 70].into(), ..Default::default() };
    let dynamic = TxEip1559 {
        chain_id: 1,
        to: TxKind::Call(Address::repeat_byte(3)),
        value: U256::from(1) << 200,
        ..Default::default()
    };
    let blob = TxEip4844 {
        chain_id: 1,
        blob_versioned_hashes: vec![B256::with_last_byte(1)],
        ..Default::default()
    };
    let mut parent_hash = B256::ZERO;
    let block = |number: u64| {
        let mut header = Header {
            parent_hash,
            number,
            difficulty: U256::from(131_072 + number),
            timestamp: 1_700_000_000 + 12 * number,
            extra_data: vec![0; (number % 33) as usize].into(),
            ..Default::default()
        };
        let mut body = BlockBody::default();
        if number > 0 {
            body.transactions = vec![
                legacy.clone().into_signed(signature).into(),
                pre_eip155.clone().into_signed(signature).into(),
                dynamic.clone().into_signed(signature).into(),
                TxEnvelope::Eip4844(blob.clone().into_signed(signature).convert()),
            ];
            body.ommers = vec![header.clone()];
            header.base_fee_per_gas = Some(7);
            header.withdrawals_root = Some(B256::ZERO);
            body.withdrawals =
                Some(vec![Withdrawal { amount: number, ..Default::default() }].into());
        }
        parent_hash = header.hash_slow();
        Block { header, body }
    };
    (0..length).map(block).collect()
}
