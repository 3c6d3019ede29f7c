//! Tests of older releases that expect what the current EIPs forbid.

use alloy_primitives::{B256, b256};

/// Tests up to Prague that accept a block of Prague without the contract of EIP-7251. The EIP makes it invalid,
/// and so do the tests with the same names in release 5.4.0, which differ in the hash of the last block.
const NO_CONSOLIDATION_CONTRACT: [(&str, B256); 3] = [
    (
        "tests/prague/eip7251_consolidations/test_contract_deployment.py::test_system_contract_deployment[fork_CancunToPragueAtTime15k-blockchain_test-deploy_after_fork]",
        b256!("0xbbd2cf1d0e36f21fb528926a3152eedf7a4eebea89f5c375acdc656d46a41846"),
    ),
    (
        "tests/prague/eip7251_consolidations/test_contract_deployment.py::test_system_contract_deployment[fork_CancunToPragueAtTime15k-blockchain_test-deploy_after_fork-nonzero_balance]",
        b256!("0x5e9d46315dfd332c52e3f9bd105cd5395577740cfa7a6fe29b108e8b924ea801"),
    ),
    (
        "tests/prague/eip7251_consolidations/test_contract_deployment.py::test_system_contract_deployment[fork_CancunToPragueAtTime15k-blockchain_test-deploy_after_fork-zero_balance]",
        b256!("0x55e5db46bef5b37b02da79811e7be76be0efdfed0a197721c024be56f212824b"),
    ),
];

/// Returns the reason why the test with this name and last block is not run; `None` for a test that is run.
pub(super) fn reason(name: &str, last_block: B256) -> Option<&'static str> {
    NO_CONSOLIDATION_CONTRACT.contains(&(name, last_block)).then_some(
        "superseded: it takes a block of Prague without the contract of EIP-7251, which the EIP and release 5.4.0 of the \
         execution-spec tests make invalid",
    )
}
