//! `anvil_dumpState` and `anvil_loadState`, and the state files of the node: the whole state in anvil's format, so that
//! either node can load what the other one wrote. Of the blocks a dump has only the head.

use super::{
    Methods, Rpc,
    args::{Args, Number},
    convert::quantity,
    error::{RpcError, RpcResult},
};
use crate::{Node, Origin, View, WholeAccount, impersonated};
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
    io::{BufRead, BufReader, Read, Write},
    marker::PhantomData,
};

/// First bytes of a gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Maximum number of bytes of JSON in a request after unpacking, because a small file may unpack to a very large one.
const MOST_BYTES: u64 = 128 << 20;

/// Maximum number of accounts and slots in a request. Each takes several times its JSON in memory.
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
    /// The head only: anvil looks up its hash there.
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

/// `anvil_dumpState`: returns JSON, packed with gzip, as hex text.
fn dump(rpc: &Rpc, _: &mut Args) -> RpcResult<Bytes> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    write_state(&rpc.node, &mut packed)?;
    Ok(packed.finish().map_err(|error| RpcError::internal(&error))?.into())
}

/// Writes the whole state as JSON in the format of anvil's state files.
///
/// # Errors
///
/// If an account is known by its hash only, or the state cannot be read or written.
pub fn write_state(node: &Node, out: &mut impl Write) -> RpcResult<()> {
    let dump = node.dump()?;
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
        block: environment(node, &dump.view),
        accounts: accounts.collect(),
        best_block_number: dump.view.head.number(),
        blocks: [block(&dump.view)?],
        transactions: [],
    };
    serde_json::to_writer(&mut *out, &written).map_err(|error| RpcError::internal(&error))?;
    out.flush().map_err(|error| RpcError::internal(&error))
}

/// Returns the head in anvil's format of blocks.
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

/// Returns the block environment of the head.
fn environment(node: &Node, view: &View) -> Value {
    let header = &view.head.header;
    let blobs = node.spec().blob_fee(header);
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

/// A state to load, with at most `MOST` accounts and slots.
#[derive(Debug, Deserialize)]
struct Given<const MOST: usize> {
    #[serde(default)]
    block: Option<GivenBlock>,
    #[serde(default)]
    best_block_number: Option<Number>,
    accounts: GivenAccounts<MOST>,
}

/// The accounts of a state; at most `MOST`, with their slots.
#[derive(Debug)]
struct GivenAccounts<const MOST: usize>(BTreeMap<Address, GivenAccount<MOST>>);

#[derive(Debug, Deserialize)]
struct GivenBlock {
    number: Number,
    timestamp: Number,
}

#[derive(Debug, Deserialize)]
struct GivenAccount<const MOST: usize> {
    nonce: Number,
    balance: U256,
    #[serde(default)]
    code: Bytes,
    #[serde(default)]
    storage: GivenSlots<MOST>,
}

/// The slots of an account, at most `MOST`.
#[derive(Debug, Default)]
struct GivenSlots<const MOST: usize>(BTreeMap<U256, U256>);

impl<'de, const MOST: usize> Deserialize<'de> for GivenAccounts<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let count = |account: &GivenAccount<MOST>| 1 + account.storage.0.len();
        bounded(deserializer, MOST, count).map(Self)
    }
}

impl<'de, const MOST: usize> Deserialize<'de> for GivenSlots<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bounded(deserializer, MOST, |_| 1).map(Self)
    }
}

/// Deserializes a map, and stops with an error as soon as the sum of `count` over its values exceeds `most`.
fn bounded<'de, D, K, V>(
    deserializer: D,
    most: usize,
    count: fn(&V) -> usize,
) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
{
    struct Entries<K, V>(usize, fn(&V) -> usize, PhantomData<K>);

    impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Visitor<'de> for Entries<K, V> {
        type Value = BTreeMap<K, V>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let Self(most, count, _) = self;
            let (mut map, mut room) = (BTreeMap::new(), most);
            while let Some((key, value)) = entries.next_entry()? {
                room = room.checked_sub(count(&value)).ok_or_else(|| {
                    A::Error::custom(format!(
                        "it has more than {most} accounts and slots; write it to a file and start the node with --load-state"
                    ))
                })?;
                map.insert(key, value);
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(Entries(most, count, PhantomData))
}

fn load(rpc: &Rpc, args: &mut Args) -> RpcResult<bool> {
    let given: Bytes = args.next()?;
    put(&rpc.node, parse::<MOST_ENTRIES>(&given)?)?;
    Ok(true)
}

/// Reads a state in the format of anvil's state files, packed with gzip or not, and loads it with [`Node::load`].
///
/// # Errors
///
/// If the input is not a state, or [`Node::load`] fails.
pub fn read_state(node: &Node, mut given: impl BufRead) -> RpcResult<()> {
    let is_packed = given.fill_buf().map(|start| start.starts_with(GZIP));
    let state = match is_packed.map_err(|error| RpcError::internal(&error))? {
        true => serde_json::from_reader(BufReader::new(GzDecoder::new(given))),
        false => serde_json::from_reader(given),
    };
    put::<{ usize::MAX }>(node, state.map_err(|error| no_state(&error))?)
}

fn put<const MOST: usize>(node: &Node, state: Given<MOST>) -> RpcResult<()> {
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
    Ok(node.load(accounts, origin)?)
}

/// Returns the error of an input that is not a state.
fn no_state(error: &serde_json::Error) -> RpcError {
    RpcError::params(format!(
        "this is no state as anvil_dumpState writes it (JSON, packed with gzip): {error}"
    ))
}

/// Parses JSON, packed or not. Packed input is parsed while it is unpacked, so that it never lies in memory as a whole.
fn parse<const MOST: usize>(given: &[u8]) -> RpcResult<Given<MOST>> {
    let wrong = |error: serde_json::Error| no_state(&error);
    if !given.starts_with(GZIP) {
        return serde_json::from_slice(given).map_err(wrong);
    }
    let mut unpacked = BufReader::new(GzDecoder::new(given).take(MOST_BYTES));
    serde_json::from_reader(&mut unpacked).map_err(|error| match unpacked.get_ref().limit() {
        0 => RpcError::params(format!(
            "the state unpacks to more than {} MiB of JSON; write it to a file and start the node with --load-state",
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
            let state = parse::<MOST_ENTRIES>(&given).unwrap();
            assert_eq!(state.best_block_number, Some(Number(U256::from(3))));
            let account = &state.accounts.0[&Address::with_last_byte(0xaa)];
            assert_eq!(account.nonce, Number(U256::from(1)));
            assert_eq!(account.storage.0[&U256::from(1)], U256::from(2));
        }
        let error = parse::<MOST_ENTRIES>(b"\x1f\x8bnothing").unwrap_err();
        assert!(error.message().contains("anvil_dumpState"), "{}", error.message());
    }

    fn packed(write: impl FnOnce(&mut dyn Write)) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        write(&mut packed);
        packed.finish().unwrap()
    }

    /// A file of some kilobytes that unpacks to a huge size is read up to the limits only.
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
        let error = parse::<MOST_ENTRIES>(&spaces).unwrap_err();
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
            let error = parse::<MOST_ENTRIES>(&slots(accounts, each)).unwrap_err();
            assert!(error.message().contains("1000000 accounts and slots"), "{}", error.message());
        }
        assert_eq!(parse::<MOST_ENTRIES>(&slots(3, 1_000)).unwrap().accounts.0.len(), 3);
    }
}
