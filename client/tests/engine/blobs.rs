//! Blobs of transactions that wait, for blocks whose other parts a consensus layer has.

use crate::{
    amsterdam,
    support::{ALICE, Node, args, attributes, signed},
};
use alloy_consensus::{
    BlobTransactionSidecar, BlobTransactionSidecarVariant, EnvKzgSettings, SidecarBuilder,
    SimpleCoder, TxEip4844, TxEip4844Variant, TxEip4844WithSidecar, TypedTransaction,
};
use alloy_eips::Encodable2718;
use alloy_primitives::{Address, B256, Bytes};
use serde_json::{Value, json};
use std::path::Path;

/// No blob has this hash.
const MISSING: B256 = B256::repeat_byte(1);

/// Sends a transaction with a blob, which comes with one proof; returns both.
fn send_blob(node: &Node) -> BlobTransactionSidecar {
    let sidecar = SidecarBuilder::<SimpleCoder>::from_slice(b"a blob").build_4844().unwrap();
    let tx = TxEip4844 {
        chain_id: 1337,
        gas_limit: 21_000,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        max_fee_per_blob_gas: 1_000_000_000,
        to: Address::repeat_byte(0xb0),
        blob_versioned_hashes: sidecar.versioned_hashes().collect(),
        ..TxEip4844::default()
    };
    let with_it = BlobTransactionSidecarVariant::Eip4844(sidecar.clone());
    let tx = TxEip4844WithSidecar { tx, sidecar: with_it };
    let tx = TypedTransaction::Eip4844(TxEip4844Variant::TxEip4844WithSidecar(tx));
    let raw: Bytes = signed(tx).encoded_2718().into();
    node.public("eth_sendRawTransaction", json!([raw]));
    sidecar
}

fn hash_of(sidecar: &BlobTransactionSidecar) -> B256 {
    sidecar.versioned_hashes().next().unwrap()
}

/// More than one answer has.
#[track_caller]
fn assert_too_many(node: &Node, version: u8) {
    let method = format!("engine_getBlobsV{version}");
    let (code, message) = node.error(&method, json!([vec![MISSING; 129]]));
    assert!(code == -38004 && message.contains("at most 128"), "{method}: {code} {message}");
}

#[test]
fn from_osaka_on_blobs_have_a_proof_for_each_cell() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::new(&dir.path().join("data"), "mpt", Path::new("dev"), args![]);
    let genesis = node.head();
    let sidecar = send_blob(&node);
    let hash = hash_of(&sidecar);
    let of_cells = sidecar.try_into_7594(EnvKzgSettings::Default.get()).unwrap();
    let blob = json!({ "blob": of_cells.blobs[0], "proofs": of_cells.cell_proofs });

    // All of them or nothing, and as many as there are.
    let version_2 = |hashes: &[B256]| node.call("engine_getBlobsV2", json!([hashes]));
    let version_3 = |hashes: &[B256]| node.call("engine_getBlobsV3", json!([hashes]));
    assert_eq!(version_2(&[hash, hash]), json!([blob, blob]));
    assert_eq!(version_2(&[hash, MISSING]), Value::Null);
    assert_eq!(version_3(&[MISSING, hash]), json!([null, blob]));
    assert_eq!((version_2(&[]), version_3(&[])), (json!([]), json!([])));
    assert_eq!(version_3(&[MISSING; 128]), json!(vec![Value::Null; 128]));
    assert_too_many(&node, 2);
    assert_too_many(&node, 3);
    let (code, message) = node.error("engine_getBlobsV1", json!([[hash]]));
    assert!(code == -38005 && message.contains("Osaka"), "{code} {message}");
    assert_eq!(node.error("engine_getBlobsV2", json!([])).0, -32602);
    let known = node.call("engine_exchangeCapabilities", json!([[]])).to_string();
    for version in 1..=3 {
        assert!(known.contains(&format!("\"engine_getBlobsV{version}\"")), "{known}");
    }

    // They are here until a block with them is the head.
    let id = &node.choose_as(genesis, B256::ZERO, &attributes(10, 1))["payloadId"];
    let made = node.call("engine_getPayloadV5", json!([id]));
    assert_eq!(made["blobsBundle"]["blobs"], json!([blob["blob"]]));
    let payload = &made["executionPayload"];
    let params = json!([payload, [hash], B256::repeat_byte(0xbe), made["executionRequests"]]);
    assert_eq!(node.call("engine_newPayloadV4", params)["status"], "VALID");
    assert_eq!(version_2(&[hash]), json!([blob]));
    node.choose(serde_json::from_value(payload["blockHash"].clone()).unwrap());
    assert_eq!(version_2(&[hash]), Value::Null);
    assert_eq!(version_3(&[hash]), json!([null]));
}

#[test]
fn before_osaka_blobs_have_one_proof() {
    let dir = tempfile::tempdir().unwrap();
    let genesis = amsterdam::genesis_up_to(dir.path(), "prague", &ALICE.to_string());
    let node = Node::new(&dir.path().join("data"), "mpt", &genesis, args![]);
    let sidecar = send_blob(&node);
    let hash = hash_of(&sidecar);
    let blob = json!({ "blob": sidecar.blobs[0], "proof": sidecar.proofs[0] });
    let found = node.call("engine_getBlobsV1", json!([[hash, MISSING, hash]]));
    assert_eq!(found, json!([blob, null, blob]));
    assert_too_many(&node, 1);
    // The proofs of cells are not there, and none are made.
    assert_eq!(node.call("engine_getBlobsV2", json!([[hash]])), Value::Null);
    assert_eq!(node.call("engine_getBlobsV3", json!([[hash]])), json!([null]));
}
