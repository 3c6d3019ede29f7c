//! Tests with real chains: the genesis state of each file has the hash that the blocks beside it build on, and the
//! built-in genesis states equal those of other clients. A test without its fixtures prints so and ends.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, io::Read};

use alloy_consensus::Header;
use alloy_hardforks::EthereumHardfork as Fork;
use alloy_primitives::{B256, U256, b256};
use alloy_rlp::Decodable;
use flate2::read::GzDecoder;
use polytrie_chainspec::{ChainSpec, DaoFork};
use polytrie_testing::fixture;

/// Returns the first two headers of a file of RLP blocks.
fn first_headers(bytes: &[u8]) -> [Header; 2] {
    let mut rest = bytes;
    std::array::from_fn(|_| {
        let mut block = alloy_rlp::Header::decode_bytes(&mut rest, true).unwrap();
        Header::decode(&mut block).unwrap()
    })
}

/// Loads `genesis` and checks that the chain in `blocks` continues it. Where `blocks` holds block 0, all of its fields
/// are compared. Returns `None` if a fixture is absent.
fn check_chain(genesis: &str, blocks: &str) -> Option<ChainSpec> {
    let (genesis, blocks) = (fixture(genesis)?, fixture(blocks)?);
    let spec = ChainSpec::load(genesis.to_str().unwrap()).unwrap();
    let mut bytes = fs::read(&blocks).unwrap();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        GzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked).unwrap();
        bytes = unpacked;
    }
    let [first, second] = first_headers(&bytes);
    let child = if first.number == 0 {
        assert_eq!(&first, spec.genesis_header().inner(), "{}", blocks.display());
        second
    } else {
        first
    };
    assert_eq!((child.number, child.parent_hash), (1, spec.genesis_hash()), "{}", blocks.display());
    Some(spec.as_ref().clone())
}

#[test]
fn condense() {
    let Some(spec) =
        check_chain("chains/condense/foundation.conf.json", "chains/condense/export.rlp.gz")
    else {
        return;
    };
    assert_eq!(spec.chain_id(), 1);
    assert_eq!(spec.dao_fork(), Some(DaoFork { block: 69, support: true }));
    assert_eq!(spec.rules(906, 0, false).fork_name(), "Istanbul");
    assert_eq!(spec.terminal_total_difficulty(), None);
}

#[test]
fn london() {
    let files =
        ("chains/london/testLondonGenesis.json", "chains/london/testLondonBlockchain.blocks");
    let Some(spec) = check_chain(files.0, files.1) else { return };
    assert_eq!(spec.chain_id(), 1982);
    assert_eq!(spec.fixed_difficulty(), Some(U256::from(15)));
    assert_eq!(spec.rules(2, 0, false).fork_name(), "Frontier");
    assert_eq!(spec.rules(3, 0, false).fork_name(), "London");
}

#[test]
fn fork() {
    let Some(old) =
        check_chain("chains/fork/genesis-outdated.json", "chains/fork/fork-outdated.blocks")
    else {
        return;
    };
    let Some(new) =
        check_chain("chains/fork/genesis-upgraded.json", "chains/fork/fork-upgraded.blocks")
    else {
        return;
    };
    check_chain("chains/fork/genesis-upgraded.json", "chains/fork/common.blocks");
    assert_eq!(old.fixed_difficulty(), Some(U256::from(100)));
    assert_eq!(old.contract_size_limit(), Some(0x7fff_ffff));
    assert!(old.rules(7, 0, false).is_eip1283());
    assert!(!new.rules(7, 0, false).is_eip1283());
    assert!(new.rules(6, 0, false).is_eip1283());
}

#[test]
fn ethtest() {
    let Some(spec) = check_chain("chains/ethtest/genesis.json", "chains/ethtest/chain.rlp") else {
        return;
    };
    assert!(spec.is_merged_after(spec.genesis_header().difficulty));
    assert_eq!(spec.rules(13, 130, true).fork_name(), "Prague");
}

#[test]
fn rpc_compat() {
    let Some(spec) = check_chain("chains/rpc-compat/genesis.json", "chains/rpc-compat/chain.rlp")
    else {
        return;
    };
    assert_eq!(spec.chain_id(), 3_503_995_874_084_926);
    assert_eq!(spec.rules(54, 540, true).fork_name(), "BPO 2");
    assert_eq!(spec.blob_params(540).unwrap().max_blob_count, 21);
    assert!(!spec.rules(41, 410, true).is(Fork::Cancun));
}

#[test]
fn blocks_of_mainnet() {
    let Some(blocks) = fixture("chains/frontier-1000/1000.blocks") else { return };
    let [genesis, first] = first_headers(&fs::read(blocks).unwrap());
    let spec = ChainSpec::load("mainnet").unwrap();
    assert_eq!(&genesis, spec.genesis_header().inner());
    assert_eq!(first.parent_hash, spec.genesis_hash());
}

/// The built-in genesis states equal the files of another client, account by account.
#[test]
fn genesis_states() {
    for name in ["mainnet", "sepolia"] {
        let Some(path) = fixture(&format!("genesis/{name}.json")) else { return };
        let mut genesis: serde_json::Value =
            serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let built_in = ChainSpec::load(name).unwrap();
        // The files of the other client have no `config`, so the test adds one.
        let london = if name == "sepolia" { Some(0) } else { None };
        genesis["config"] =
            serde_json::json!({ "chainId": built_in.chain_id(), "londonBlock": london });
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("genesis.json");
        fs::write(&file, genesis.to_string()).unwrap();
        let read = ChainSpec::load(file.to_str().unwrap()).unwrap();
        assert!(built_in.genesis_accounts().eq(read.genesis_accounts()), "{name}");
        assert_eq!(built_in.genesis_header(), read.genesis_header(), "{name}");
    }
}

#[test]
fn built_in_genesis_hashes() {
    let hashes = [
        (
            "mainnet",
            b256!("d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3"),
            8893,
        ),
        ("sepolia", b256!("25a5cc106eea7138acab33231d7160d69cb777ee0c2c553fcddf5138993e6dd9"), 15),
        ("holesky", b256!("b5f7f912443c940f21fd611f12828d75b534364ed9e95ca4e307729a4661bde4"), 317),
        ("hoodi", b256!("bbe312868b376a3001692a646dd2d7d1e4406380dfd86b98aa8a34d1557c971b"), 335),
    ];
    for (name, hash, accounts) in hashes {
        let spec = ChainSpec::load(name).unwrap();
        assert_eq!((spec.name(), spec.genesis_hash()), (name, hash));
        assert_eq!(spec.genesis_header().inner().hash_slow(), hash, "{name}");
        assert_eq!(spec.genesis_accounts().len(), accounts, "{name}");
        assert_ne!(spec.genesis_header().state_root, B256::ZERO);
    }
}

/// Files that users confuse with a genesis file are refused with an error that says what they are.
#[test]
fn other_files_are_recognised() {
    let files = [
        ("chains/frontier-1000/1000.blocks", "found binary data that looks like RLP blocks"),
        ("chains/condense/export.rlp.gz", "found gzip data"),
        ("era1/mainnet-00000-5ec1ffb8.era1", "found an era1 file of blocks"),
        ("chains/condense/geth_version.txt", "found text that is not a JSON object"),
        ("chains/ethtest/headblock.json", "found a JSON block"),
        ("genesis/mainnet.json", "the field config is missing"),
    ];
    for (file, expected) in files {
        let Some(path) = fixture(file) else { continue };
        let path = path.to_str().unwrap();
        // The error depends on the content, not on the name of the file.
        let message = ChainSpec::load(path).unwrap_err().to_string();
        assert!(message.contains(path) && message.contains(expected), "{message}");
    }
}
