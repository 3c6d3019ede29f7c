//! The objects of a dump, read as a stream.

use super::{
    DumpAccount, DumpEnd, DumpError, DumpErrorKind, DumpSink, SlotKeys,
    input::Input,
    text::{
        ADDRESS, BYTES, HASH, NUMBER, SMALL, VALUE, WORD, address_in_name, hash_in_name, shortened,
    },
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use serde::{
    Deserialize,
    de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor},
};
use std::{fmt, sync::Arc};

/// State of the reading of a dump.
pub(super) struct Reading<'s, S: DumpSink> {
    sink: &'s mut S,
    /// Error of the sink, kept here because serde cannot carry it.
    refused: Option<S::Error>,
    accounts: u64,
    /// Whether an account came with its address: then the dump is not one that has only hashes.
    has_addresses: bool,
}

impl<'s, S: DumpSink> Reading<'s, S> {
    pub(super) const fn new(sink: &'s mut S) -> Self {
        Self { sink, refused: None, accounts: 0, has_addresses: false }
    }

    /// Returns the number of accounts so far.
    pub(super) const fn accounts(&self) -> u64 {
        self.accounts
    }

    /// Reads the next object.
    pub(super) fn next(&mut self, input: &mut Input) -> Result<(), DumpEnd<S::Error>> {
        let mut json = serde_json::Deserializer::from_reader(&mut *input);
        let read = Object { reading: &mut *self, name: Name::None }.deserialize(&mut json);
        drop(json);
        let Err(error) = read else { return Ok(()) };
        if let Some(refused) = self.refused.take() {
            return Err(DumpEnd::Sink(refused));
        }
        let (line, accounts) = (input.line, self.accounts);
        let kind = match error.classify() {
            serde_json::error::Category::Io => return Err(input.failed(error.into())),
            serde_json::error::Category::Eof => DumpErrorKind::CutOff { line, accounts },
            _ => {
                let what = error.to_string();
                // The text ends with the line within the object, which starts on another line of the
                // file.
                let what = what.rfind(" at line ").map_or(&*what, |end| &what[..end]).to_owned();
                DumpErrorKind::Content { line, what }
            }
        };
        Err(DumpEnd::File(DumpError { file: Arc::clone(&input.file), kind }))
    }

    fn pass<E: de::Error>(&mut self, result: Result<(), S::Error>) -> Result<(), E> {
        result.map_err(|refused| {
            self.refused = Some(refused);
            E::custom("the sink takes no more")
        })
    }

    fn account<E: de::Error>(&mut self, found: Found, name: &Name) -> Result<(), E> {
        let account = found.account(name, self.has_addresses).map_err(E::custom)?;
        self.has_addresses |= account.address.is_some();
        self.accounts += 1;
        let result = self.sink.account(account);
        self.pass(result)
    }

    fn root<E: de::Error>(&mut self, root: Option<B256>) -> Result<(), E> {
        let Some(root) = root else { return Ok(()) };
        let result = self.sink.root(root);
        self.pass(result)
    }
}

/// Name under which an account is listed.
#[derive(Debug, Clone, Copy)]
enum Name {
    /// No name: the account's fields identify it.
    None,
    Address(Address),
    /// The hash of an address that geth does not know.
    Hash(B256),
}

/// Fields of an object.
#[derive(Debug, Default)]
struct Found {
    address: Option<Address>,
    /// Hash of the address, in geth's field `key`.
    key: Option<B256>,
    /// Hash of the address, in this program's field `hash`.
    hash: Option<B256>,
    nonce: Option<u64>,
    balance: Option<U256>,
    code: Option<Bytes>,
    code_hash: Option<B256>,
    root: Option<B256>,
    has_storage: bool,
}

impl Found {
    /// Whether the object has only a root, as the first line does.
    const fn is_root_alone(&self) -> bool {
        matches!(
            self,
            Self {
                address: None,
                key: None,
                hash: None,
                nonce: None,
                balance: None,
                code: None,
                code_hash: None,
                root: Some(_),
                has_storage: false,
            }
        )
    }

    fn account(self, name: &Name, has_addresses: bool) -> Result<DumpAccount, String> {
        let named = match name {
            Name::Address(address) => Some(*address),
            _ => None,
        };
        let address = self.address.or(named);
        let (hash, slots) = match (address, name, self.hash, self.key) {
            (Some(address), ..) => (keccak256(address), SlotKeys::Plain),
            (None, Name::Hash(hash), ..) => (*hash, SlotKeys::Plain),
            (None, _, Some(hash), _) => (hash, SlotKeys::Hashed),
            (None, _, None, Some(key)) if has_addresses => (key, SlotKeys::Plain),
            (None, _, None, Some(key)) => (key, SlotKeys::HashedRlp),
            (None, _, None, None) => {
                return Err(
                    "an account has neither \"address\" nor \"key\" nor \"hash\"".to_owned()
                );
            }
        };
        if let Some(other) = self.key.or(self.hash).filter(|other| *other != hash) {
            let address = address.unwrap_or_default();
            return Err(format!(
                "the account {address} has the hash {hash}, but the line says {other}"
            ));
        }
        let balance = self.balance.ok_or_else(|| {
            let who = address.map_or(hash.to_string(), |address| address.to_string());
            format!("the account {who} has no \"balance\"")
        })?;
        Ok(DumpAccount {
            address,
            hash,
            slots,
            nonce: self.nonce.unwrap_or_default(),
            balance,
            code: self.code,
            code_hash: self.code_hash,
            storage_root: self.root,
        })
    }
}

/// Names of the fields.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Address,
    Key,
    Hash,
    Nonce,
    Balance,
    Code,
    CodeHash,
    Root,
    Storage,
    /// `alloc` is the name in a genesis file.
    #[serde(alias = "alloc")]
    Accounts,
    #[serde(other)]
    Other,
}

/// Visitor of an object: the first line, an account, or a whole dump.
struct Object<'r, 's, S: DumpSink> {
    reading: &'r mut Reading<'s, S>,
    name: Name,
}

impl<'de, S: DumpSink> DeserializeSeed<'de> for Object<'_, '_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DumpSink> Visitor<'de> for Object<'_, '_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an account as a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { reading, name } = self;
        let mut found = Found::default();
        let mut has_accounts = false;
        while let Some(field) = map.next_key()? {
            match field {
                Field::Address => found.address = map.next_value_seed(ADDRESS)?,
                Field::Key => found.key = map.next_value_seed(HASH)?,
                Field::Hash => found.hash = map.next_value_seed(HASH)?,
                Field::Nonce => found.nonce = map.next_value_seed(SMALL)?,
                Field::Balance => found.balance = map.next_value_seed(NUMBER)?,
                Field::Code => found.code = map.next_value_seed(BYTES)?,
                Field::CodeHash => found.code_hash = map.next_value_seed(HASH)?,
                Field::Root => found.root = map.next_value_seed(HASH)?,
                Field::Storage => {
                    found.has_storage = true;
                    map.next_value_seed(Storage { reading: &mut *reading })?;
                }
                Field::Accounts => {
                    has_accounts = true;
                    reading.root::<A::Error>(found.root.take())?;
                    map.next_value_seed(Accounts { reading: &mut *reading })?;
                }
                Field::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        match has_accounts || found.is_root_alone() {
            true => reading.root(found.root),
            false => reading.account(found, &name),
        }
    }
}

/// Visitor of the accounts of a dump in one object.
struct Accounts<'r, 's, S: DumpSink> {
    reading: &'r mut Reading<'s, S>,
}

impl<'de, S: DumpSink> DeserializeSeed<'de> for Accounts<'_, '_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DumpSink> Visitor<'de> for Accounts<'_, '_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("accounts by address")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let known = hash_in_name(&name).map(Name::Hash);
            let known = known.or_else(|| address_in_name(&name).map(Name::Address));
            let name = known.ok_or_else(|| {
                let name = shortened(&name);
                de::Error::custom(format_args!(
                    "an account stands under \"{name}\", expected an address"
                ))
            })?;
            map.next_value_seed(Object { reading: &mut *self.reading, name })?;
        }
        Ok(())
    }
}

/// Visitor of the slots of an account.
struct Storage<'r, 's, S: DumpSink> {
    reading: &'r mut Reading<'s, S>,
}

impl<'de, S: DumpSink> DeserializeSeed<'de> for Storage<'_, '_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: DumpSink> Visitor<'de> for Storage<'_, '_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("slots and their values as a JSON object")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(WORD)? {
            let value = map.next_value_seed(VALUE)?;
            let (Some(key), Some(slot)) = (key, value) else {
                return Err(de::Error::custom("the value of a slot is null"));
            };
            let result = self.reading.sink.slot(super::DumpSlot { key, ..slot });
            self.reading.pass::<A::Error>(result)?;
        }
        Ok(())
    }
}
