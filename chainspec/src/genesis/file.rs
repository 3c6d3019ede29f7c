//! Reading of a `genesis.json`.

use alloy_eips::eip7840::BlobParams;
use alloy_genesis::{ChainConfig, Genesis, GenesisAccount};
use alloy_primitives::{Address, B256, U256};
use serde::de::IgnoredAny;

use super::{
    Draft, Flaw,
    config::{BLOCK_FORKS, TIME_FORKS},
    json::{Object, Value, word},
};
use crate::{ChainSpecError, Clique, allocation::Builder};

/// Consensus engines that are not supported, by the name of their section in `config`.
const OTHER_ENGINES: [&str; 8] =
    ["ibft", "ibft2", "qbft", "aura", "authorityRound", "bor", "parlia", "istanbul"];

/// Settings of besu that change the rules of a chain and are not supported, with the value that changes nothing.
const OTHER_RULES: [(&str, &str); 4] = [
    ("zeroBaseFee", "false"),
    ("fixedBaseFee", "false"),
    ("ecCurve", "\"secp256k1\""),
    ("evmStackSize", "1024"),
];

/// Refuses a file that begins like something else than a JSON object.
pub(super) fn check_start(file: &str, start: &[u8]) -> Result<(), ChainSpecError> {
    other_kind(start).map_or(Ok(()), |found| Err(not_genesis(file, found)))
}

fn not_genesis(file: &str, found: &str) -> ChainSpecError {
    ChainSpecError::NotGenesis { file: file.to_owned(), found: found.to_owned() }
}

/// Parses the bytes of the genesis file `file`.
pub(super) fn parse(file: &str, bytes: &[u8]) -> Result<Draft, ChainSpecError> {
    check_start(file, bytes)?;
    let text = std::str::from_utf8(bytes)
        .map_err(|_| not_genesis(file, "bytes that are not UTF-8 text"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
    // The syntax is right from here on, so every other error is about one field.
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|source| ChainSpecError::Syntax { file: file.to_owned(), source })?;
    let object = Value::root(text).object().map_err(|flaw| flaw.of(file))?;
    if object.get("alloc").is_none() && object.get("config").is_none() {
        return Err(not_genesis(file, other_object(&object)));
    }
    draft(&object).map_err(|flaw| flaw.of(file))
}

/// Returns the fields of the file as they are written there, without accounts and state root: the beginning of a
/// JSON object.
fn outline(object: &Object<'_, '_>) -> String {
    let mut text = String::from("{");
    for (key, value) in object.members() {
        if !["alloc", "stateRoot"].iter().any(|name| key.eq_ignore_ascii_case(name)) {
            text.push_str(&Value::key(key));
            text.push(':');
            text.push_str(value.text());
            text.push(',');
        }
    }
    text
}

/// Returns the outline of a genesis with this state root.
pub(super) fn close_outline(outline: &str, state_root: B256) -> String {
    format!("{outline}\"stateRoot\":\"{state_root}\",\"alloc\":{{}}}}")
}

/// Returns the `outline` that [`close_outline`] was called with, or `None` if the text was not made by it.
pub(super) fn open_outline(outline: &str, state_root: B256) -> Option<&str> {
    outline.strip_suffix(&close_outline("", state_root))
}

/// Returns what a file that cannot be a JSON object seems to be, in words.
fn other_kind(bytes: &[u8]) -> Option<&'static str> {
    let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace());
    let Some(start) = start.map(|start| &bytes[start..]) else {
        return Some(if bytes.is_empty() { "an empty file" } else { "nothing but white space" });
    };
    match start {
        [b'{', ..] | [0xef, 0xbb, 0xbf, ..] => None,
        [0x1f, 0x8b, ..] => Some("gzip data (unpack it first if it is a genesis)"),
        [0x65, 0x32, 0, 0, 0, 0, 0, 0, ..] => Some("an era1 file of blocks"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16 text (save it as UTF-8)"),
        [0xf8..=0xff, ..] => Some("binary data that looks like RLP blocks"),
        [b'[', ..] => Some("a JSON array"),
        [b'0', b'x' | b'X', b'f', ..] | [b'f', b'8' | b'9' | b'a', ..] => {
            Some("hexadecimal text that looks like RLP blocks")
        }
        [b' '..=b'~', ..] => Some("text that is not a JSON object"),
        _ => Some("binary data"),
    }
}

/// Returns what a JSON object without accounts and configuration seems to be, in words.
fn other_object(object: &Object<'_, '_>) -> &'static str {
    let has = |name| object.get(name).is_some();
    if has("engine") && has("params") {
        "a chain specification of Nethermind or OpenEthereum, which is another format"
    } else if has("chainId") {
        "a chain configuration without a genesis block"
    } else if has("jsonrpc") {
        "a JSON-RPC message"
    } else if has("parentHash") || has("stateRoot") {
        "a JSON block"
    } else {
        let mut members = object.members().filter_map(|(_, value)| value.object().ok());
        let is_test =
            members.any(|test| test.get("blocks").or_else(|| test.get("network")).is_some());
        if is_test { "a blockchain test" } else { "a JSON object with other fields" }
    }
}

fn draft(object: &Object<'_, '_>) -> Result<Draft, Flaw> {
    let config = object.require("config", "an object with chainId and the forks")?.object()?;
    let ethash = config.get("ethash").map(|ethash| ethash.object()).transpose()?;
    let fixed_difficulty = ethash.as_ref().and_then(|ethash| ethash.get("fixeddifficulty"));
    let contract_size_limit =
        config.get("contractSizeLimit").map(|limit| limit.u64()).transpose()?;

    let mut builder = Builder::default();
    object.require("alloc", "an object from addresses to accounts")?.for_each(|key, value| {
        let address = address_key(key)
            .ok_or_else(|| value.key_flaw("an address, 20 bytes as hexadecimal digits"))?;
        builder.push(address, &account(&value)?);
        Ok(())
    })?;
    let (allocation, repeated) = builder.finish();
    if let Some(address) = repeated.first() {
        return Err(Flaw::field(format!("alloc.{address}"), "there twice", "one account"));
    }

    Ok(Draft {
        genesis: genesis(object, chain_config(&config)?)?,
        allocation,
        gas_used: object.get("gasUsed").map_or(Ok(0), |value| value.u64())?,
        state_root: object.get("stateRoot").map(|value| value.hash()).transpose()?,
        clique: config.get("clique").map(|section| clique(&section.object()?)).transpose()?,
        fixed_difficulty: fixed_difficulty.map(|value| value.number()).transpose()?,
        contract_size_limit: contract_size_limit
            .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        outline: Some(outline(object)),
        engine: OTHER_ENGINES
            .into_iter()
            .find(|name| config.get(name).is_some())
            .map(str::to_owned),
    })
}

/// Reads the section of Clique, with geth's names of its fields or besu's.
fn clique(section: &Object<'_, '_>) -> Result<Clique, Flaw> {
    let either = |geth, besu| {
        let value = section.get(geth).or_else(|| section.get(besu));
        value.map_or(Ok(0), |value| value.u64())
    };
    Ok(Clique::new(either("period", "blockperiodseconds")?, either("epoch", "epochlength")?))
}

/// Reads every field but the accounts.
fn genesis(object: &Object<'_, '_>, config: ChainConfig) -> Result<Genesis, Flaw> {
    let u64 = |name| object.get(name).map(|value| value.u64()).transpose();
    let base_fee = object.get("baseFeePerGas").map(|value| value.u64()).transpose()?;
    Ok(Genesis {
        config,
        nonce: u64("nonce")?.unwrap_or_default(),
        timestamp: u64("timestamp")?.unwrap_or_default(),
        extra_data: object
            .get("extraData")
            .map(|value| value.bytes())
            .transpose()?
            .unwrap_or_default(),
        gas_limit: object.require("gasLimit", "a number")?.u64()?,
        difficulty: object.require("difficulty", "a number")?.number()?,
        mix_hash: object.get("mixHash").map(|value| value.hash()).transpose()?.unwrap_or_default(),
        coinbase: object
            .get("coinbase")
            .map(|value| value.address())
            .transpose()?
            .unwrap_or_default(),
        base_fee_per_gas: base_fee.map(u128::from),
        excess_blob_gas: u64("excessBlobGas")?,
        blob_gas_used: u64("blobGasUsed")?,
        slot_number: u64("slotNumber")?,
        number: u64("number")?,
        parent_hash: object.get("parentHash").map(|value| value.hash()).transpose()?,
        ..Default::default()
    })
}

fn chain_config(object: &Object<'_, '_>) -> Result<ChainConfig, Flaw> {
    let mut config = ChainConfig {
        chain_id: object.require("chainId", "a number")?.u64()?,
        ..Default::default()
    };
    for field in BLOCK_FORKS.iter().chain(&TIME_FORKS) {
        if let Some(value) = object.get(field.name) {
            *(field.slot)(&mut config) = Some(value.u64()?);
        }
    }
    // The name that besu's older files have for Petersburg.
    if let Some(value) = object.get("constantinopleFixBlock")
        && config.petersburg_block.replace(value.u64()?).is_some()
    {
        return Err(value.flaw("no second name of a fork: petersburgBlock is there as well"));
    }
    // A fork that this program does not know must not be missed in silence: the chain would split where it
    // activates.
    let known = |key: &str| TIME_FORKS.iter().any(|field| field.name.eq_ignore_ascii_case(key));
    for (key, value) in object.members() {
        let is_fork = key.to_ascii_lowercase().ends_with("time");
        if is_fork && !known(key) && object.get(key).is_some() {
            return Err(
                value.flaw("no fork of this name: the newest one that is known is Amsterdam")
            );
        }
    }
    // With such a setting this program would judge and make blocks by rules that are not those of the chain.
    for (name, usual) in OTHER_RULES {
        if let Some(value) = object.get(name).filter(|value| value.text() != usual) {
            return Err(value.flaw(format!("{usual}: a chain with other rules is not supported")));
        }
    }
    config.dao_fork_support =
        object.get("daoForkSupport").map_or(Ok(false), |value| value.bool())?;
    config.terminal_total_difficulty =
        object.get("terminalTotalDifficulty").map(|value| value.number()).transpose()?;
    config.terminal_total_difficulty_passed =
        object.get("terminalTotalDifficultyPassed").map_or(Ok(false), |value| value.bool())?;
    config.deposit_contract_address =
        object.get("depositContractAddress").map(|value| value.address()).transpose()?;
    if let Some(schedule) = object.get("blobSchedule") {
        for (fork, value) in schedule.object()?.members() {
            config.blob_schedule.insert(fork.to_owned(), blob_params(&value.object()?)?);
        }
    }
    Ok(config)
}

fn blob_params(entry: &Object<'_, '_>) -> Result<BlobParams, Flaw> {
    Ok(BlobParams {
        target_blob_count: entry.require("target", "a number")?.u64()?,
        max_blob_count: entry.require("max", "a number")?.u64()?,
        update_fraction: u128::from(entry.require("baseFeeUpdateFraction", "a number")?.u64()?),
        ..BlobParams::cancun()
    })
}

fn account(value: &Value<'_, '_>) -> Result<GenesisAccount, Flaw> {
    let account = value.object()?;
    let storage = account.get("storage").map(|storage| {
        let mut slots = std::collections::BTreeMap::new();
        storage.for_each(|key, value| {
            let slot = word(key)
                .ok_or_else(|| value.key_flaw("a slot, at most 32 bytes as hexadecimal digits"))?;
            match slots.insert(slot, value.word()?) {
                None => Ok(()),
                Some(_) => Err(value.flaw("each slot once")),
            }
        })?;
        Ok(slots)
    });
    // Old files say `wei`, and besu leaves out the balance of a contract.
    let balance = account.get("balance").or_else(|| account.get("wei"));
    let is_contract = account.get("code").is_some();
    Ok(GenesisAccount {
        nonce: account.get("nonce").map(|nonce| nonce.u64()).transpose()?,
        balance: match balance {
            Some(balance) => balance.number()?,
            None if is_contract => U256::ZERO,
            None => account.require("balance", "a number of wei")?.number()?,
        },
        code: account.get("code").map(|code| code.bytes()).transpose()?,
        storage: storage.transpose()?,
        private_key: None,
    })
}

/// Parses an address of 20 bytes as hexadecimal digits; `0x` may be left out.
fn address_key(key: &str) -> Option<Address> {
    let digits = key.strip_prefix("0x").or_else(|| key.strip_prefix("0X")).unwrap_or(key);
    digits.parse().ok()
}
