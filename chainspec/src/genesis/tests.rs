//! Genesis files that are right in unusual ways, and wrong ones.

#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_hardforks::{EthereumHardfork as Fork, ForkCondition};
use alloy_primitives::{Address, address};
use serde_json::{Value, json};

use super::*;
use crate::{DaoFork, Forks};

fn parse(text: &[u8]) -> Result<ChainSpec, ChainSpecError> {
    super::parse("g.json", text)
}

/// Parses a small genesis with `changes` on top; `null` takes a field away.
fn genesis(changes: &Value) -> Result<ChainSpec, ChainSpecError> {
    let mut genesis =
        json!({ "config": { "chainId": 7 }, "gasLimit": "0x1388", "difficulty": 5, "alloc": {} });
    merge(&mut genesis, changes);
    parse(genesis.to_string().as_bytes())
}

fn merge(into: &mut Value, changes: &Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(into.entry(key).or_insert(Value::Null), change);
            }
        }
        (into, changes) => *into = changes.clone(),
    }
}

fn config(config: Value) -> Result<Forks, String> {
    match genesis(&json!({ "config": config })) {
        Ok(spec) => Ok(spec.forks),
        Err(err) => Err(err.to_string()),
    }
}

fn message(result: Result<ChainSpec, ChainSpecError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn the_smallest_genesis() {
    let spec = genesis(&json!({})).unwrap();
    assert_eq!((spec.chain_id(), spec.name()), (7, "g.json"));
    assert_eq!(spec.forks, Forks::frontier());
    let header = spec.genesis_header().inner();
    assert_eq!(
        (header.gas_limit, header.difficulty, header.base_fee_per_gas),
        (5000, U256::from(5), None)
    );
    assert_eq!(header.state_root, alloy_consensus::EMPTY_ROOT_HASH);
}

#[test]
fn numbers_of_every_form() {
    let spec = parse(
        br#"{ "CONFIG": { "chainID": "0x10", "homesteadBlock": "3", "terminalTotalDifficulty": 58750000000000000000001 },
              "gasLimit": "0X1388", "difficulty": "17", "nonce": "0x0000000000000042", "timestamp": "", "extraData": "0x",
              "alloc": {
                "0x0000000000000000000000000000000000000001": { "balance": "90000000000000000000000", "nonce": "0x2" },
                "000000000000000000000000000000000000000A": { "balance": "0xad78ebc5ac6200000", "comment": "ignored" },
                "000000000000000000000000000000000000000b": { "balance": 12, "code": "0x6001", "storage": { "0x3": "7", "4": "0x00" } }
              } }"#,
    )
    .unwrap();
    assert_eq!(spec.chain_id(), 16);
    assert_eq!(spec.forks.activation(Fork::Homestead), ForkCondition::Block(3));
    assert_eq!(spec.terminal_total_difficulty().unwrap().to_string(), "58750000000000000000001");
    assert_eq!(spec.genesis_header().nonce, alloy_primitives::B64::with_last_byte(0x42));
    let accounts: Vec<_> = spec.genesis_accounts().collect();
    assert_eq!(accounts.len(), 3);
    assert_eq!(accounts[0].1.balance.to_string(), "90000000000000000000000");
    assert_eq!(accounts[0].1.nonce, Some(2));
    assert_eq!(accounts[1].0, address!("000000000000000000000000000000000000000a"));
    let storage = accounts[2].1.storage.clone().unwrap();
    assert_eq!(Vec::from_iter(storage), [(B256::with_last_byte(3), B256::with_last_byte(7))]);
    assert_eq!(accounts[2].1.code, Some(alloy_primitives::bytes!("6001")));
}

#[test]
fn forks_add_their_header_fields() {
    let merged = |more: Value| {
        let mut changes = json!({ "config": { "londonBlock": 0, "terminalTotalDifficulty": 0 }, "timestamp": 100 });
        merge(&mut changes, &more);
        genesis(&changes).unwrap().genesis_header().inner().clone()
    };
    let london = merged(json!({}));
    assert_eq!((london.base_fee_per_gas, london.withdrawals_root), (Some(1_000_000_000), None));
    assert_eq!(merged(json!({ "baseFeePerGas": "0x7" })).base_fee_per_gas, Some(7));
    let shanghai = merged(json!({ "config": { "shanghaiTime": 100 } }));
    assert_eq!(shanghai.withdrawals_root, Some(alloy_consensus::EMPTY_ROOT_HASH));
    assert_eq!(shanghai.blob_gas_used, None);
    assert_eq!(merged(json!({ "config": { "shanghaiTime": 101 } })).withdrawals_root, None);
    let cancun =
        merged(json!({ "config": { "cancunTime": 0 }, "excessBlobGas": 9, "blobGasUsed": null }));
    assert_eq!((cancun.excess_blob_gas, cancun.blob_gas_used), (Some(9), Some(0)));
    assert_eq!((cancun.parent_beacon_block_root, cancun.requests_hash), (Some(B256::ZERO), None));
    let prague = merged(json!({ "config": { "pragueTime": 0 } }));
    assert_eq!(prague.requests_hash, Some(alloy_eips::eip7685::EMPTY_REQUESTS_HASH));
    let amsterdam = merged(json!({ "config": { "amsterdamTime": 0 }, "slotNumber": 3 }));
    assert_eq!(amsterdam.slot_number, Some(3));
    assert!(amsterdam.block_access_list_hash.is_some());
}

#[test]
fn a_later_fork_contains_the_earlier_ones() {
    let forks = config(json!({ "byzantiumBlock": 2, "londonBlock": 9 })).unwrap();
    for (fork, block) in
        [(Fork::Homestead, 2), (Fork::SpuriousDragon, 2), (Fork::Petersburg, 9), (Fork::Berlin, 9)]
    {
        assert_eq!(forks.activation(fork), ForkCondition::Block(block), "{fork}");
    }
    for fork in [Fork::Dao, Fork::MuirGlacier, Fork::ArrowGlacier, Fork::Paris, Fork::Shanghai] {
        assert_eq!(forks.activation(fork), ForkCondition::Never, "{fork}");
    }
    let forks = config(json!({ "constantinopleBlock": 5, "mergeNetsplitBlock": 9 })).unwrap();
    assert_eq!(forks.activation(Fork::Petersburg), ForkCondition::Never);
    let forks = config(json!({ "eip155Block": 3 })).unwrap();
    assert_eq!(forks.activation(Fork::SpuriousDragon), ForkCondition::Block(3));

    let forks = config(json!({ "pragueTime": 4, "terminalTotalDifficultyPassed": true })).unwrap();
    assert_eq!(forks.terminal_total_difficulty(), Some(U256::ZERO));
    assert_eq!(forks.activation(Fork::London), ForkCondition::Block(0));
    assert_eq!(forks.activation(Fork::Shanghai), ForkCondition::Timestamp(4));
    assert_eq!(forks.activation(Fork::Osaka), ForkCondition::Never);
}

#[test]
fn petersburg_has_a_second_name_in_files_of_besu() {
    // As besu's documentation has it for private networks.
    let forks = config(json!({ "constantinoplefixblock": 0 })).unwrap();
    for fork in [Fork::Homestead, Fork::Byzantium, Fork::Constantinople, Fork::Petersburg] {
        assert_eq!(forks.activation(fork), ForkCondition::Block(0), "{fork}");
    }
    assert_eq!(forks.activation(Fork::Istanbul), ForkCondition::Never);
    let forks = config(json!({ "constantinopleBlock": 3, "constantinopleFixBlock": 7 })).unwrap();
    assert_eq!(forks.activation(Fork::Constantinople), ForkCondition::Block(3));
    assert_eq!(forks.activation(Fork::Petersburg), ForkCondition::Block(7));
    let both = json!({ "petersburgBlock": 0, "constantinopleFixBlock": 0 });
    assert_eq!(
        config(both).unwrap_err(),
        "genesis g.json: the field config.constantinopleFixBlock is 0, expected no second name of a fork: petersburgBlock is there as well"
    );
}

#[test]
fn the_dao_fork_is_supported_or_opposed() {
    let forks = config(json!({ "daoForkBlock": 4, "daoForkSupport": true })).unwrap();
    assert_eq!(forks.dao(), Some(DaoFork { block: 4, support: true }));
    assert_eq!(forks.activation(Fork::Dao), ForkCondition::Block(4));
    let forks = config(json!({ "daoForkBlock": 4 })).unwrap();
    assert_eq!(forks.dao(), Some(DaoFork { block: 4, support: false }));
    assert_eq!(forks.activation(Fork::Dao), ForkCondition::Never);
}

#[test]
fn blob_schedule() {
    let entry = json!({ "target": 1, "max": 2, "baseFeeUpdateFraction": 3 });
    let base = |more: Value| {
        let mut all = json!({ "londonBlock": 0, "terminalTotalDifficulty": 0, "cancunTime": 0 });
        merge(&mut all, &more);
        config(all)
    };
    let forks = base(json!({ "osakaTime": 5, "bpo1Time": 6, "bpo3Time": 7, "amsterdamTime": 8,
                             "blobSchedule": { "cancun": entry, "bpo3": entry, "Amsterdam": entry, "verkle": entry } }));
    let forks = forks.unwrap();
    let numbers = |time| {
        forks
            .blob_params(time)
            .map(|blobs| (blobs.target_blob_count, blobs.max_blob_count, blobs.max_blobs_per_tx))
    };
    assert_eq!(numbers(4), Some((1, 2, 2)));
    assert_eq!(numbers(5), Some((6, 9, 6)));
    assert_eq!(numbers(6), Some((10, 15, 6)));
    assert_eq!(numbers(8), Some((1, 2, 6)));
    let message = base(json!({ "bpo4Time": 9 })).unwrap_err();
    assert!(message.contains("config.blobSchedule.bpo4 is missing"), "{message}");
    let message = base(
        json!({ "blobSchedule": { "cancun": { "target": 3, "max": 2, "baseFeeUpdateFraction": 3 } } }),
    );
    assert_eq!(
        message.unwrap_err(),
        "genesis g.json: the field config.blobSchedule.cancun.target is 3, expected at most the maximum, 2"
    );
    let message =
        base(json!({ "blobSchedule": { "cancun": { "target": 3, "max": 6 } } })).unwrap_err();
    assert!(
        message.contains("config.blobSchedule.cancun.baseFeeUpdateFraction is missing"),
        "{message}"
    );
}

#[test]
fn extensions_of_besu() {
    let spec = genesis(
        &json!({ "config": { "ethash": { "fixeddifficulty": 100 }, "contractSizeLimit": 2147483647 } }),
    );
    let spec = spec.unwrap();
    assert_eq!(spec.fixed_difficulty(), Some(U256::from(100)));
    assert_eq!(spec.contract_size_limit(), Some(0x7fff_ffff));
    let usual = json!({ "zeroBaseFee": false, "ecCurve": "secp256k1", "evmStackSize": 1024 });
    assert_eq!(config(usual), Ok(Forks::frontier()));
}

#[test]
fn wrong_fields_are_named() {
    let wrong = [
        (
            json!({ "config": null }),
            "the field config is missing, expected an object with chainId and the forks",
        ),
        (json!({ "config": 5 }), "the field config is 5, expected a JSON object"),
        (
            json!({ "config": { "chainId": null } }),
            "the field config.chainId is missing, expected a number",
        ),
        (
            json!({ "config": { "londonBlock": "soon" } }),
            "the field config.londonBlock is \"soon\", expected a number",
        ),
        (
            json!({ "config": { "londonBlock": -1 } }),
            "the field config.londonBlock is -1, expected a number",
        ),
        (
            json!({ "config": { "londonBlock": 1.5 } }),
            "the field config.londonBlock is 1.5, expected a number",
        ),
        (
            json!({ "config": { "daoForkSupport": 1 } }),
            "the field config.daoForkSupport is 1, expected true or false",
        ),
        (
            json!({ "config": { "verkleTime": 0 } }),
            "the field config.verkleTime is 0, expected no fork of this name",
        ),
        (
            json!({ "config": { "experimentaleipstime": 7 } }),
            "the field config.experimentaleipstime is 7, expected no fork of this name",
        ),
        (
            json!({ "config": { "londonBlock": 0, "zeroBaseFee": true } }),
            "the field config.zeroBaseFee is true, expected false: a chain with other rules is not supported",
        ),
        (
            json!({ "config": { "ecCurve": "secp256r1" } }),
            "the field config.ecCurve is \"secp256r1\", expected \"secp256k1\"",
        ),
        (
            json!({ "config": { "qbft": { "blockperiodseconds": 5 } } }),
            "the field config.qbft is set, expected proof of work (ethash), Clique (clique) or",
        ),
        (
            json!({ "config": { "aura": {} , "terminalTotalDifficulty": 9 } }),
            "the field config.aura is set, expected proof of work",
        ),
        (
            json!({ "config": { "clique": { "period": "soon" } } }),
            "the field config.clique.period is \"soon\", expected a number",
        ),
        (
            json!({ "config": { "clique": { "period": 5 } }, "extraData": "0x01" }),
            "the field extraData is 1 bytes long, expected 32 bytes, the address of each signer, and 65 bytes",
        ),
        (
            json!({ "config": { "clique": { "period": 5 } }, "extraData": "0x".to_owned() + &"00".repeat(97) }),
            "the field extraData is 97 bytes long, expected 32 bytes, the address of each signer",
        ),
        (
            json!({ "config": { "eip155Block": 1, "eip158Block": 2 } }),
            "the field config.eip155Block is 1, expected 2",
        ),
        (
            json!({ "config": { "cancunTime": 1 } }),
            "the field config.terminalTotalDifficulty is missing",
        ),
        (
            json!({ "config": { "cancunTime": 1, "terminalTotalDifficulty": 1 } }),
            "the field config.londonBlock is missing",
        ),
        (
            json!({ "config": { "cancunTime": 1, "terminalTotalDifficulty": 0, "berlinBlock": 4 } }),
            "the field config.londonBlock is missing, expected a block number, because cancunTime is 1",
        ),
        (
            json!({ "config": { "berlinBlock": 5, "londonBlock": 4 } }),
            "config.londonBlock is 4, expected no less than config.berlinBlock, which is 5",
        ),
        (json!({ "gasLimit": null }), "the field gasLimit is missing, expected a number"),
        (
            json!({ "gasLimit": "0x1_0" }),
            "the field gasLimit is \"0x1_0\", expected a number of at most 64 bits",
        ),
        (json!({ "gasLimit": "0x10000000000000000" }), "expected a number of at most 64 bits"),
        (
            json!({ "difficulty": "0x" .to_owned() + &"f".repeat(65) }),
            "the field difficulty is \"0xffff",
        ),
        (json!({ "number": 5 }), "the field number is 5, expected 0"),
        (json!({ "mixHash": "0x00" }), "the field mixHash is \"0x00\", expected 32 bytes"),
        (json!({ "coinbase": "0x00" }), "the field coinbase is \"0x00\", expected an address"),
        (json!({ "extraData": "0x123" }), "the field extraData is \"0x123\", expected bytes"),
        (
            json!({ "stateRoot": B256::ZERO }),
            "expected 0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421, the root",
        ),
        (json!({ "alloc": [] }), "the field alloc is [], expected a JSON object"),
        (
            json!({ "alloc": { "0x12": {} } }),
            "the field alloc.0x12 is not one that is understood, expected an address",
        ),
        (
            json!({ "alloc": { Address::ZERO.to_string(): { "balance": "ten" } } }),
            "the field alloc.0x0000000000000000000000000000000000000000.balance is \"ten\", expected a number of at most 256",
        ),
        (
            json!({ "alloc": { Address::ZERO.to_string(): { "balanse": 1 } } }),
            "the field alloc.0x0000000000000000000000000000000000000000.balance is missing, expected a number of wei",
        ),
        (
            json!({ "alloc": { Address::ZERO.to_string(): { "code": "0x", "storage": { "0x1": "x" } } } }),
            "storage.0x1 is \"x\", expected at most 32 bytes",
        ),
        (
            json!({ "alloc": { "00".repeat(20): { "code": "0x" }, "0x".to_owned() + &"00".repeat(20): { "wei": 1 } } }),
            "the field alloc.0x0000000000000000000000000000000000000000 is there twice, expected one account",
        ),
    ];
    for (changes, expected) in wrong {
        let message = message(genesis(&changes));
        assert!(
            message.starts_with("genesis g.json: ") && message.contains(expected),
            "{changes}\n  {message}"
        );
    }
}

#[test]
fn what_is_no_genesis_is_recognised() {
    let found: [(&[u8], &str); 17] = [
        (b"", "g.json is not a genesis file: found an empty file, expected a JSON object with"),
        (b" \n", "found nothing but white space"),
        (b"\x1f\x8b\x08\0", "found gzip data"),
        (b"\x65\x32\0\0\0\0\0\0\x03\0", "found an era1 file"),
        (b"\xf9\x02\x14\xf9", "found binary data that looks like RLP blocks"),
        (b"\x7fELF", "found binary data"),
        (b"\xff\xfe{\0", "found UTF-16 text (save it as UTF-8)"),
        (b"0xf90214f9", "found hexadecimal text that looks like RLP blocks"),
        (b"chainId: 5", "found text that is not a JSON object"),
        (b"[]", "found a JSON array"),
        (
            br#"{"chainId":1,"londonBlock":0}"#,
            "found a chain configuration without a genesis block",
        ),
        (br#"{"jsonrpc":"2.0","id":1}"#, "found a JSON-RPC message"),
        (
            br#"{"name":"x","engine":{},"params":{"chainID":"0x1"},"genesis":{},"accounts":{}}"#,
            "found a chain specification of Nethermind or OpenEthereum",
        ),
        (br#"{"parentHash":"0x"}"#, "found a JSON block"),
        (br#"{"a_test":{"network":"London","blocks":[]}}"#, "found a blockchain test"),
        (br#"{"a":1}"#, "found a JSON object with other fields"),
        (b"{\"gasLimit\": 1,\n  \"x\": \xff}", "found bytes that are not UTF-8 text"),
    ];
    for (bytes, expected) in found {
        let message = message(parse(bytes));
        assert!(message.contains(expected), "{message}");
    }
    let message = message(parse(b"{\n  \"gasLimit\": 1,\n  \"alloc\" {}\n}"));
    assert!(
        message.starts_with("g.json is not valid JSON: expected `:` at line 3 column 11;"),
        "{message}"
    );
    assert!(parse("\u{feff}{\"gasLimit\":1".as_bytes()).is_err());
    assert!(parse("{\"a\":".repeat(100_000).as_bytes()).is_err());
}

#[test]
fn a_field_twice_is_refused() {
    let message = message(parse(br#"{"gasLimit":1,"gaslimit":2,"alloc":{}}"#));
    assert_eq!(message, "genesis g.json: the field gaslimit is there twice, expected one value");
}

#[test]
fn a_genesis_value_gives_the_same_chain() {
    let text = json!({
        "config": { "chainId": 7, "londonBlock": 0, "terminalTotalDifficulty": 0, "cancunTime": 0, "daoForkBlock": 0 },
        "nonce": "0x1", "timestamp": "0x2", "extraData": "0x03", "gasLimit": "0x4", "difficulty": "0x5",
        "mixHash": B256::repeat_byte(6), "coinbase": Address::repeat_byte(7), "excessBlobGas": "0x8",
        "alloc": { "0x0000000000000000000000000000000000000009": { "balance": "0xa", "code": "0x0b", "storage": { "0x00": "0x0c" } } },
    });
    let from_file = parse(text.to_string().as_bytes()).unwrap();
    let value = from_genesis("g.json", serde_json::from_value(text).unwrap()).unwrap();
    assert_eq!(value.genesis_header(), from_file.genesis_header());
    assert_eq!(value.forks, from_file.forks);
    assert!(value.genesis_accounts().eq(from_file.genesis_accounts()));
}

/// A damaged file is refused or read; nothing else may happen.
#[test]
fn damaged_files_are_refused_or_read() {
    let text = json!({
        "config": { "chainId": 7, "londonBlock": 0, "terminalTotalDifficulty": 0, "osakaTime": 0, "bpo1Time": 3,
                    "blobSchedule": { "bpo1": { "target": 1, "max": 2, "baseFeeUpdateFraction": 3 } } },
        "gasLimit": "0x4", "difficulty": "0x5", "baseFeePerGas": 6, "excessBlobGas": "0x8",
        "alloc": { "0x0000000000000000000000000000000000000009": { "balance": "0xa", "code": "0x0b", "storage": { "0x0": "0xc" } } },
    });
    let text = text.to_string().into_bytes();
    let mut refused = 0;
    for at in 0..text.len() {
        refused += usize::from(parse(&text[..at]).is_err());
        for byte in *b"\"\\0f-{}[],:\xff" {
            let mut damaged = text.clone();
            damaged[at] = byte;
            refused += usize::from(parse(&damaged).is_err());
        }
    }
    assert!(refused > text.len() * 5);
}

#[test]
fn an_outline_is_the_chain_without_its_accounts() {
    let full = genesis(&json!({
        "config": { "londonBlock": 3, "ethash": { "fixeddifficulty": 100 }, "contractSizeLimit": 9 },
        "alloc": { "0000000000000000000000000000000000000001": { "balance": "7" } },
        "extraData": "0x0102",
        "a \"strange\" name": "ignored",
    }));
    let full = full.unwrap();
    let outline = full.outline().unwrap();
    let slim = ChainSpec::from_outline("g.json", outline.as_bytes()).unwrap();
    assert_eq!(slim.genesis_header(), full.genesis_header());
    assert_eq!((&slim.forks, slim.chain_id), (&full.forks, full.chain_id));
    assert_eq!(slim.fixed_difficulty(), Some(U256::from(100)));
    assert_eq!(slim.contract_size_limit(), Some(9));
    assert_eq!(slim.outline(), Some(outline));
    assert!(full.has_accounts() && !slim.has_accounts());
    assert_eq!((full.genesis_accounts().len(), slim.genesis_accounts().len()), (1, 0));
    // A genesis without its accounts is no outline.
    let missing = message(ChainSpec::from_outline(
        "g.json",
        br#"{"config":{"chainId":1},"gasLimit":1,"difficulty":1,"alloc":{}}"#,
    ));
    assert!(missing.contains("stateRoot"), "{missing}");
}

#[test]
fn clique_by_the_names_of_geth_and_of_besu() {
    let extra = format!("0x{}", "11".repeat(Clique::VANITY + 20 + Clique::SEAL));
    let clique = |section: serde_json::Value, terminal: Option<u64>| {
        let config = json!({ "clique": section, "terminalTotalDifficulty": terminal });
        genesis(&json!({ "config": config, "extraData": extra, "difficulty": 1 })).unwrap()
    };
    let geth = clique(json!({ "period": 15, "epoch": 100 }), None);
    assert_eq!(geth.clique(), Some(Clique::new(15, 100)));
    let besu = clique(json!({ "blockperiodseconds": 5, "epochlength": 40 }), Some(9));
    assert_eq!(besu.clique(), Some(Clique::new(5, 40)));
    assert_eq!(besu.rules(1, 1, false).clique(), besu.clique());
    assert_eq!(besu.rules(1, 1, true).clique(), None);
    assert_eq!(clique(json!({}), None).clique(), Some(Clique::new(0, 30_000)));
    // A setting that applies to no block is no setting of the chain.
    for terminal in [0, 1] {
        assert_eq!(clique(json!({ "period": 15 }), Some(terminal)).clique(), None);
    }
    let slim = ChainSpec::from_outline("g.json", geth.outline().unwrap().as_bytes()).unwrap();
    assert_eq!(slim.clique(), geth.clique());
    let difference = geth.difference(&clique(json!({ "period": 15 }), None), 1, 1, U256::ZERO);
    let values = ["period 15, epoch 100", "period 15, epoch 30000"].map(str::to_owned);
    assert_eq!(difference, Some(crate::Difference { rule: "Clique".into(), values }));
}

#[test]
fn numbers_beyond_64_bits_survive_in_an_outline() {
    let text = r#"{"config":{"chainId":1,"terminalTotalDifficulty":58750000000000000000000},
        "gasLimit":5000,"difficulty":1,"alloc":{},"stateRoot":null}"#;
    let full = parse(text.as_bytes()).unwrap();
    let slim = ChainSpec::from_outline("g.json", full.outline().unwrap().as_bytes()).unwrap();
    assert_eq!(slim.terminal_total_difficulty(), full.terminal_total_difficulty());
    assert_eq!(slim.terminal_total_difficulty().unwrap().to_string(), "58750000000000000000000");
}
