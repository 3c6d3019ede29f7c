//! `anvil_dumpState` and `anvil_loadState`: the whole state in the form that anvil writes, so that either node reads
//! what the other one wrote. Of the blocks only the head is part of it.

use super::{
    Methods, Rpc,
    args::{Args, Number},
    convert::quantity,
    error::{RpcError, RpcResult},
};
use crate::devnet::{Origin, View, WholeAccount, impersonated};
use alloy_primitives::{Address, B256, Bytes, U256};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use jsonrpsee::core::RegisterMethodError;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt,
    io::{BufReader, Read, Write},
    marker::PhantomData,
};

/// Bytes of JSON that are read at most: a small file may unpack to a very large one.
const MOST_BYTES: u64 = 128 << 20;

/// Accounts and slots that are read at most; each takes several times its JSON in memory.
const MOST_ENTRIES: usize = 1_000_000;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add_heavy("anvil_dumpState", dump)?;
    methods.alias("anvil_dumpState", &["hardhat_dumpState"])?;
    methods.add_heavy("anvil_loadState", load)?;
    methods.alias("anvil_loadState", &["hardhat_loadState"])
}

#[derive(Debug, Serialize)]
struct Written {
    block: Value,
    accounts: BTreeMap<Address, WrittenAccount>,
    best_block_number: u64,
    /// The head alone: anvil wants to know its hash.
    blocks: [Value; 1],
    transactions: [Value; 0],
}

#[derive(Debug, Serialize)]
struct WrittenAccount {
    nonce: u64,
    balance: U256,
    code: Bytes,
    storage: BTreeMap<B256, B256>,
}

/// JSON, packed, as hexadecimal digits.
fn dump(rpc: &Rpc, _: &mut Args) -> RpcResult<Bytes> {
    let dump = rpc.node.dump()?;
    let accounts = dump.accounts.into_iter().map(|(address, account)| {
        let storage = account.slots.into_iter().map(|(slot, value)| (slot.into(), value.into()));
        let written = WrittenAccount {
            nonce: account.nonce,
            balance: account.balance,
            code: account.code,
            storage: storage.collect(),
        };
        (address, written)
    });
    let written = Written {
        block: environment(rpc, &dump.view),
        accounts: accounts.collect(),
        best_block_number: dump.view.head.number(),
        blocks: [block(&dump.view)?],
        transactions: [],
    };
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    serde_json::to_writer(&mut packed, &written).map_err(|error| RpcError::internal(&error))?;
    packed.flush().map_err(|error| RpcError::internal(&error))?;
    Ok(packed.finish().map_err(|error| RpcError::internal(&error))?.into())
}

/// The head as anvil writes blocks.
fn block(view: &View) -> RpcResult<Value> {
    let body = view.db().block(view.head.number())?.unwrap_or_default().body;
    let transactions: Vec<_> = body
        .transactions
        .iter()
        .map(|tx| json!({ "transaction": tx, "impersonated_sender": impersonated(tx) }))
        .collect();
    Ok(json!({
        "header": view.head.header.inner(),
        "transactions": transactions,
        "ommers": body.ommers,
        "withdrawals": body.withdrawals,
    }))
}

/// The environment of the head.
fn environment(rpc: &Rpc, view: &View) -> Value {
    let header = &view.head.header;
    let blobs = rpc.node.spec().blob_fee(header);
    let blobs = blobs
        .map(|price| json!({ "excess_blob_gas": header.excess_blob_gas, "blob_gasprice": price }));
    json!({
        "number": quantity(header.number),
        "beneficiary": header.beneficiary,
        "timestamp": quantity(header.timestamp),
        "gas_limit": header.gas_limit,
        "basefee": header.base_fee_per_gas.unwrap_or(0),
        "difficulty": quantity(header.difficulty),
        "prevrandao": header.mix_hash,
        "blob_excess_gas_and_price": blobs,
    })
}

#[derive(Debug, Deserialize)]
struct Given {
    #[serde(default)]
    block: Option<GivenBlock>,
    #[serde(default)]
    best_block_number: Option<Number>,
    accounts: GivenAccounts,
}

/// No more than [`MOST_ENTRIES`], slots counted.
#[derive(Debug)]
struct GivenAccounts(BTreeMap<Address, GivenAccount>);

#[derive(Debug, Deserialize)]
struct GivenBlock {
    number: Number,
    timestamp: Number,
}

#[derive(Debug, Deserialize)]
struct GivenAccount {
    nonce: Number,
    balance: U256,
    #[serde(default)]
    code: Bytes,
    #[serde(default)]
    storage: GivenSlots,
}

/// No more than [`MOST_ENTRIES`].
#[derive(Debug, Default)]
struct GivenSlots(BTreeMap<U256, U256>);

impl<'de> Deserialize<'de> for GivenAccounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bounded(deserializer, |account: &GivenAccount| 1 + account.storage.0.len()).map(Self)
    }
}

impl<'de> Deserialize<'de> for GivenSlots {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bounded(deserializer, |_| 1).map(Self)
    }
}

/// Reads a map that ends as soon as there are more than [`MOST_ENTRIES`] in it, each counted as `count` says.
fn bounded<'de, D, K, V>(
    deserializer: D,
    count: fn(&V) -> usize,
) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
{
    struct Entries<K, V>(fn(&V) -> usize, PhantomData<K>);

    impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Visitor<'de> for Entries<K, V> {
        type Value = BTreeMap<K, V>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let (mut map, mut room) = (BTreeMap::new(), MOST_ENTRIES);
            while let Some((key, value)) = entries.next_entry()? {
                room = room.checked_sub((self.0)(&value)).ok_or_else(|| {
                    A::Error::custom(format!(
                        "it has more than {MOST_ENTRIES} accounts and slots; write it as a genesis file and start the node with --chain"
                    ))
                })?;
                map.insert(key, value);
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(Entries(count, PhantomData))
}

fn load(rpc: &Rpc, args: &mut Args) -> RpcResult<bool> {
    let given: Bytes = args.next()?;
    let state = parse(&given)?;
    let mut accounts = BTreeMap::new();
    for (address, account) in state.accounts.0 {
        let mut slots = account.storage.0;
        slots.retain(|_, value| !value.is_zero());
        let nonce = account.nonce.as_u64()?;
        let (balance, code) = (account.balance, account.code);
        accounts.insert(address, WholeAccount { nonce, balance, code, slots });
    }
    let number = state.best_block_number.or(state.block.as_ref().map(|block| block.number));
    let origin = match (number, state.block) {
        (None, _) => None,
        (Some(number), block) => Some(Origin {
            number: number.as_u64()?,
            timestamp: block.map_or(Ok(0), |block| block.timestamp.as_u64())?,
        }),
    };
    rpc.node.load(accounts, origin)?;
    Ok(true)
}

/// JSON, packed or not. What is packed is read as it is unpacked.
fn parse(given: &[u8]) -> RpcResult<Given> {
    let wrong = |error: serde_json::Error| {
        RpcError::params(format!(
            "this is no state as anvil_dumpState writes it (JSON, packed with gzip): {error}"
        ))
    };
    if !given.starts_with(&[0x1f, 0x8b]) {
        return serde_json::from_slice(given).map_err(wrong);
    }
    let mut unpacked = BufReader::new(GzDecoder::new(given).take(MOST_BYTES));
    serde_json::from_reader(&mut unpacked).map_err(|error| match unpacked.get_ref().limit() {
        0 => RpcError::params(format!(
            "the state unpacks to more than {} MiB of JSON; write it as a genesis file and start the node with --chain",
            MOST_BYTES >> 20
        )),
        _ => wrong(error),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_state_as_anvil_writes_it() {
        let json = br#"{"block":{"number":"0x3","beneficiary":"0x0000000000000000000000000000000000000000",
            "timestamp":"0x68b0","gas_limit":30000000,"basefee":7,"difficulty":"0x0","prevrandao":null,
            "blob_excess_gas_and_price":null},"accounts":{"0x00000000000000000000000000000000000000aa":
            {"nonce":1,"balance":"0xff","code":"0x6001","storage":{
            "0x0000000000000000000000000000000000000000000000000000000000000001":
            "0x0000000000000000000000000000000000000000000000000000000000000002"}}},
            "best_block_number":3,"blocks":[],"transactions":[],"historical_states":null}"#;
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(json).unwrap();
        for given in [json.to_vec(), packed.finish().unwrap()] {
            let state = parse(&given).unwrap();
            assert_eq!(state.best_block_number, Some(Number(U256::from(3))));
            let account = &state.accounts.0[&Address::with_last_byte(0xaa)];
            assert_eq!(account.nonce, Number(U256::from(1)));
            assert_eq!(account.storage.0[&U256::from(1)], U256::from(2));
        }
        let error = parse(b"\x1f\x8bnothing").unwrap_err();
        assert!(error.message().contains("anvil_dumpState"), "{}", error.message());
    }

    fn packed(write: impl FnOnce(&mut dyn Write)) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        write(&mut packed);
        packed.finish().unwrap()
    }

    /// A file of some kilobytes that unpacks to as much as it likes is read no further than the limits.
    #[test]
    fn a_state_that_unpacks_to_too_much_is_refused() {
        let spaces = packed(|out| {
            out.write_all(br#"{"accounts":{"#).unwrap();
            for _ in 0..130 {
                out.write_all(&[b' '; 1 << 20]).unwrap();
            }
            out.write_all(b"}}").unwrap();
        });
        assert!(spaces.len() < 1 << 20);
        let error = parse(&spaces).unwrap_err();
        assert!(error.message().contains("128 MiB"), "{}", error.message());

        let slots = |accounts: usize, each: usize| {
            packed(|out| {
                write!(out, r#"{{"accounts":{{"#).unwrap();
                for account in 0..accounts {
                    let comma = if account > 0 { "," } else { "" };
                    write!(
                        out,
                        r#"{comma}"0x{account:040x}":{{"nonce":0,"balance":"0x0","storage":{{"#
                    )
                    .unwrap();
                    for slot in 0..each {
                        let comma = if slot > 0 { "," } else { "" };
                        write!(out, r#"{comma}"0x{slot:x}":"0x1""#).unwrap();
                    }
                    write!(out, "}}}}").unwrap();
                }
                write!(out, "}}}}").unwrap();
            })
        };
        for (accounts, each) in [(1, MOST_ENTRIES + 1), (11, MOST_ENTRIES / 11)] {
            let error = parse(&slots(accounts, each)).unwrap_err();
            assert!(error.message().contains("1000000 accounts and slots"), "{}", error.message());
        }
        assert_eq!(parse(&slots(3, 1_000)).unwrap().accounts.0.len(), 3);
    }
}
