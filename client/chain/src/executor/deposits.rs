//! The logs of the deposit contract (EIP-6110).

use alloy_consensus::ReceiptEnvelope;
use alloy_primitives::{Address, B256, Log, U256, b256};

use super::BlockInvalid;

/// Topic of `DepositEvent(bytes,bytes,bytes,bytes,bytes)`.
const DEPOSIT_EVENT: B256 =
    b256!("0x649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5");

/// Length of a deposit event's data, in bytes.
const LENGTH: usize = 576;

/// Offset and length of each field of the data: public key, withdrawal credentials, amount,
/// signature, index.
const LAYOUT: [(u64, u64); 5] = [(160, 48), (256, 32), (320, 8), (384, 96), (512, 8)];

/// Checks that every deposit event of `contract` has the layout of mainnet's contract.
///
/// alloy-evm accepts any valid ABI encoding, but by the EIP any other layout makes the block
/// invalid.
pub(super) fn check(receipts: &[ReceiptEnvelope], contract: Address) -> Result<(), BlockInvalid> {
    for log in receipts.iter().flat_map(|receipt| receipt.logs()) {
        if log.address == contract && log.topics().first() == Some(&DEPOSIT_EVENT) {
            check_layout(log)?;
        }
    }
    Ok(())
}

fn check_layout(log: &Log) -> Result<(), BlockInvalid> {
    let data = &log.data.data;
    let invalid = |reason| Err(BlockInvalid::Deposit { reason });
    if data.len() != LENGTH {
        return invalid(format!("it has {} bytes, expected {LENGTH}", data.len()));
    }
    let word = |at: usize| U256::from_be_slice(&data[at..at + 32]);
    for (index, (offset, length)) in LAYOUT.into_iter().enumerate() {
        let found = word(32 * index);
        if found != U256::from(offset) {
            return invalid(format!("field {index} is at byte {found}, expected {offset}"));
        }
        let found = word(offset as usize);
        if found != U256::from(length) {
            return invalid(format!("field {index} has {found} bytes, expected {length}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{LogData, keccak256};

    const CONTRACT: Address = Address::repeat_byte(1);

    fn deposit() -> Vec<u8> {
        let mut data = vec![0; LENGTH];
        for (index, (offset, length)) in LAYOUT.into_iter().enumerate() {
            data[32 * index + 30..][..2].copy_from_slice(&(offset as u16).to_be_bytes());
            data[offset as usize + 31] = length as u8;
        }
        data
    }

    fn found(address: Address, topic: B256, data: Vec<u8>) -> Result<(), BlockInvalid> {
        let data = LogData::new_unchecked(vec![topic], data.into());
        let receipt =
            alloy_consensus::Receipt { logs: vec![Log { address, data }], ..Default::default() };
        check(&[ReceiptEnvelope::Legacy(receipt.with_bloom())], CONTRACT)
    }

    #[test]
    fn the_topic_is_that_of_the_event() {
        assert_eq!(DEPOSIT_EVENT, keccak256("DepositEvent(bytes,bytes,bytes,bytes,bytes)"));
    }

    #[test]
    fn a_deposit_as_the_contract_logs_it_passes() {
        assert_eq!(found(CONTRACT, DEPOSIT_EVENT, deposit()), Ok(()));
    }

    #[test]
    fn any_other_layout_is_refused() {
        let mut longer = deposit();
        longer.push(0);
        assert!(found(CONTRACT, DEPOSIT_EVENT, longer).is_err());
        for at in [0, 31, 159, 160, 191, 287, 351, 415, 543] {
            let mut other = deposit();
            other[at] ^= 1;
            assert!(found(CONTRACT, DEPOSIT_EVENT, other).is_err(), "byte {at}");
        }
        assert!(found(CONTRACT, DEPOSIT_EVENT, Vec::new()).is_err());
    }

    #[test]
    fn other_logs_are_no_deposits() {
        assert_eq!(found(Address::repeat_byte(2), DEPOSIT_EVENT, Vec::new()), Ok(()));
        assert_eq!(found(CONTRACT, B256::ZERO, Vec::new()), Ok(()));
    }
}
