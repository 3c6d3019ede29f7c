//! A block under construction.

use alloy_consensus::{
    TxEip1559, TxEip2930, TxEip4844, TxEip4844Variant, TxEip7702, TxLegacy, TypedTransaction,
};
use alloy_eips::{eip2930::AccessList, eip7702::SignedAuthorization};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use polytrie_bench::{
    BlockPlan, Planned,
    workload::{CHAIN_ID, GWEI},
};

/// The recipient, value, input and gas of a transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    pub(crate) to: TxKind,
    pub(crate) value: U256,
    pub(crate) input: Bytes,
    pub(crate) gas: u64,
}

impl Call {
    pub(crate) fn to(to: Address, input: Bytes, gas: u64) -> Self {
        Self { to: to.into(), value: U256::ZERO, input, gas }
    }

    pub(crate) fn create(input: Bytes, gas: u64) -> Self {
        Self { to: TxKind::Create, value: U256::ZERO, input, gas }
    }

    pub(crate) fn pay(to: Address, value: u64, gas: u64) -> Self {
        Self { to: to.into(), value: U256::from(value), input: Bytes::new(), gas }
    }

    pub(crate) fn with_value(mut self, value: u64) -> Self {
        self.value = U256::from(value);
        self
    }
}

/// The transaction type of a call.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// A legacy transaction from before EIP-155, valid on every chain.
    Unprotected,
    Legacy,
    /// A transaction of EIP-2930.
    AccessList(AccessList),
    /// A transaction of EIP-1559, with this priority fee in wei.
    DynamicFee(u64),
    /// A transaction of EIP-4844, with the hashes of its blobs.
    Blobs(Vec<B256>),
    /// A transaction of EIP-7702.
    SetCode(Vec<SignedAuthorization>),
}

/// A block that takes transactions while their gas limits fit into its own.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) plan: BlockPlan,
    pub(crate) number: u64,
    pub(crate) gas_left: u64,
    pub(crate) blobs_left: u64,
}

impl Draft {
    pub(crate) fn new(plan: BlockPlan, number: u64, fork: EthereumHardfork) -> Self {
        // The maximum of Cancun, which is below that of all later forks.
        let blobs_left = if fork >= EthereumHardfork::Cancun { 6 } else { 0 };
        Self { number, gas_left: plan.gas_limit, blobs_left, plan }
    }

    /// Whether a transaction of this much gas still fits.
    pub(crate) const fn has_room(&self, gas: u64) -> bool {
        self.gas_left >= gas
    }

    /// Adds a transaction, for which there must be room.
    pub(crate) fn push(&mut self, from: usize, nonce: u64, call: Call, form: Form) {
        self.gas_left = self.gas_left.saturating_sub(call.gas);
        self.plan.transactions.push(Planned { from, tx: transaction(nonce, call, form) });
    }
}

/// Gas price that exceeds every base fee of the chain.
const MAX_FEE: u128 = 100 * GWEI;

fn transaction(nonce: u64, call: Call, form: Form) -> TypedTransaction {
    let Call { to, value, input, gas: gas_limit } = call;
    let chain_id = CHAIN_ID;
    let max_priority_fee_per_gas = GWEI;
    // Blob and set-code transactions cannot create contracts.
    let recipient = to.to().copied().unwrap_or_default();
    match form {
        Form::Unprotected | Form::Legacy => {
            let chain_id = matches!(form, Form::Legacy).then_some(chain_id);
            TxLegacy { chain_id, nonce, gas_price: MAX_FEE / 2, gas_limit, to, value, input }.into()
        }
        Form::AccessList(access_list) => {
            let gas_price = MAX_FEE / 4;
            TxEip2930 { chain_id, nonce, gas_price, gas_limit, to, value, access_list, input }
                .into()
        }
        Form::DynamicFee(priority_fee) => TxEip1559 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas: MAX_FEE,
            max_priority_fee_per_gas: priority_fee.into(),
            to,
            value,
            access_list: AccessList::default(),
            input,
        }
        .into(),
        Form::Blobs(blob_versioned_hashes) => {
            TypedTransaction::Eip4844(TxEip4844Variant::TxEip4844(TxEip4844 {
                chain_id,
                nonce,
                gas_limit,
                max_fee_per_gas: MAX_FEE,
                max_priority_fee_per_gas,
                to: recipient,
                value,
                access_list: AccessList::default(),
                blob_versioned_hashes,
                max_fee_per_blob_gas: MAX_FEE,
                input,
            }))
        }
        Form::SetCode(authorization_list) => TxEip7702 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas: MAX_FEE,
            max_priority_fee_per_gas,
            to: recipient,
            value,
            access_list: AccessList::default(),
            authorization_list,
            input,
        }
        .into(),
    }
}
