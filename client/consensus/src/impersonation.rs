//! Transactions of impersonated accounts. Their keys are not known.
//!
//! A user of a development node may act as any account. Such a transaction has a signature that no key makes: `r` is
//! the sender, `s` is zero. So the sender follows from the block alone, also after a restart. Any other client
//! refuses the block, while libraries that only want a low `s` show the transaction.

use super::{TransactionError, recover_sender};
use alloy_consensus::{TxEnvelope, TypedTransaction};
use alloy_primitives::{Address, Signature, U256};

/// The `s` of an impersonated transaction. No valid signature has it.
const MARK: U256 = U256::ZERO;

/// Returns the transaction with the mark of impersonation and `sender` in place of a signature.
pub fn impersonate(tx: TypedTransaction, sender: Address) -> TxEnvelope {
    tx.into_envelope(Signature::new(U256::from_be_bytes(sender.into_word().0), MARK, false))
}

/// Returns the sender of an impersonated transaction; `None` for a signed one.
pub fn impersonated(tx: &TxEnvelope) -> Option<Address> {
    let signature = tx.signature();
    (signature.s() == MARK).then(|| Address::from_word(signature.r().into()))
}

/// Returns the sender of a transaction of this chain, impersonated or signed.
///
/// # Errors
///
/// Fails if the signature belongs to no public key.
pub fn sender_of(tx: &TxEnvelope) -> Result<Address, TransactionError> {
    impersonated(tx).map_or_else(|| recover_sender(tx), Ok)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_consensus::TxEip1559;
    use alloy_eips::eip2718::{Decodable2718, Encodable2718};

    #[test]
    fn the_sender_survives_encoding() {
        let sender = Address::repeat_byte(0xab);
        let tx = impersonate(
            TxEip1559 { chain_id: 1337, nonce: 3, ..Default::default() }.into(),
            sender,
        );
        let again = TxEnvelope::decode_2718(&mut tx.encoded_2718().as_slice()).unwrap();
        assert_eq!(sender_of(&again).unwrap(), sender);
        assert_eq!(impersonated(&again), Some(sender));
    }

    #[test]
    fn nobody_else_takes_it_for_signed() {
        let sender = Address::repeat_byte(1);
        let tx = impersonate(TxEip1559::default().into(), sender);
        assert_eq!(impersonated(&tx), Some(sender));
        assert!(recover_sender(&tx).is_err());
    }
}
