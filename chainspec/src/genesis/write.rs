//! Writing of a `genesis.json` that geth, reth and this program read alike.

use crate::{ChainSpec, ChainSpecError, InitialAccount, initial::system_contracts};
use alloy_eips::eip7840::BlobParams;
use alloy_primitives::{Address, B256, Bytes};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Forks by block number. A generated chain has all of them from genesis on.
const BLOCK_FORKS: [&str; 14] = [
    "homesteadBlock",
    "eip150Block",
    "eip155Block",
    "eip158Block",
    "byzantiumBlock",
    "constantinopleBlock",
    "petersburgBlock",
    "istanbulBlock",
    "muirGlacierBlock",
    "berlinBlock",
    "londonBlock",
    "arrowGlacierBlock",
    "grayGlacierBlock",
    "mergeNetsplitBlock",
];

/// Genesis of a chain that is past the merge from its first block, without accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenesisPlan {
    /// Chain id that transactions carry (EIP-155).
    pub chain_id: u64,
    /// Times of Shanghai, Cancun, Prague, Osaka, BPO1 and BPO2, in this order. Forks beyond the end of the list never
    /// activate.
    pub fork_times: Vec<u64>,
    /// Timestamp of the genesis block, in seconds.
    pub timestamp: u64,
    /// Gas limit of the genesis block.
    pub gas_limit: u64,
    /// Base fee of the genesis block, in wei.
    pub base_fee: u64,
    /// Extra data of the genesis block, at most 32 bytes.
    pub extra_data: Bytes,
    /// Address of the contract that logs deposits (EIP-6110); it must be one of the accounts.
    pub deposit_contract: Option<Address>,
}

/// Returns the forks by time, each with its blob parameters if it has some.
fn time_forks() -> [(&'static str, Option<(&'static str, BlobParams)>); 6] {
    [
        ("shanghaiTime", None),
        ("cancunTime", Some(("cancun", BlobParams::cancun()))),
        ("pragueTime", Some(("prague", BlobParams::prague()))),
        ("osakaTime", Some(("osaka", BlobParams::osaka()))),
        ("bpo1Time", Some(("bpo1", BlobParams::bpo1()))),
        ("bpo2Time", Some(("bpo2", BlobParams::bpo2()))),
    ]
}

impl GenesisPlan {
    /// Writes the genesis with these accounts, each of which must come once, and the system contracts. The accounts are
    /// written as they come, so any number of them takes no memory.
    ///
    /// # Errors
    ///
    /// Fails if `out` cannot be written to.
    pub fn write<'a>(
        &self,
        accounts: impl IntoIterator<Item = InitialAccount<'a>>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        writeln!(out, "{{")?;
        for (name, value) in self.fields() {
            writeln!(out, "\"{name}\":{value},")?;
        }
        write!(out, "\"alloc\":{{")?;
        let mut separator = "\n";
        for account in system_contracts().into_iter().chain(accounts) {
            write!(out, "{separator}\"{:x}\":", account.address)?;
            write_account(account, out)?;
            separator = ",\n";
        }
        writeln!(out, "\n}}\n}}")
    }

    /// Returns the genesis without its accounts, but with their state root, as [`ChainSpec::from_outline`] reads it.
    pub fn outline(&self, state_root: B256) -> String {
        let mut fields: Map<String, Value> =
            self.fields().map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        fields.insert("stateRoot".into(), json!(state_root));
        fields.insert("alloc".into(), Map::new().into());
        Value::from(fields).to_string()
    }

    /// Returns the chain that starts with this genesis and accounts of this state root.
    ///
    /// # Errors
    ///
    /// Fails if no chain can start with this genesis.
    pub fn chain_spec(&self, state_root: B256) -> Result<ChainSpec, ChainSpecError> {
        ChainSpec::from_outline("the generated chain", self.outline(state_root).as_bytes())
    }

    fn fields(&self) -> [(&'static str, Value); 9] {
        let hex = |number: u64| json!(format!("{number:#x}"));
        [
            ("config", self.config()),
            ("nonce", hex(0)),
            ("timestamp", hex(self.timestamp)),
            ("extraData", json!(self.extra_data)),
            ("gasLimit", hex(self.gas_limit)),
            ("difficulty", hex(0)),
            ("mixHash", json!(B256::ZERO)),
            ("coinbase", json!(Address::ZERO)),
            ("baseFeePerGas", hex(self.base_fee)),
        ]
    }

    fn config(&self) -> Value {
        let mut config = Map::new();
        config.insert("chainId".into(), self.chain_id.into());
        config.extend(BLOCK_FORKS.map(|name| (name.to_owned(), json!(0))));
        config.insert("terminalTotalDifficulty".into(), 0.into());
        config.insert("terminalTotalDifficultyPassed".into(), true.into());
        let mut blobs = Map::new();
        for ((name, params), time) in time_forks().into_iter().zip(&self.fork_times) {
            config.insert(name.into(), (*time).into());
            if let Some((fork, params)) = params {
                let params = json!({
                    "target": params.target_blob_count,
                    "max": params.max_blob_count,
                    "baseFeeUpdateFraction": params.update_fraction as u64,
                });
                blobs.insert(fork.into(), params);
            }
        }
        config.insert("blobSchedule".into(), blobs.into());
        if let Some(address) = self.deposit_contract {
            config.insert("depositContractAddress".into(), json!(address));
        }
        config.into()
    }
}

fn write_account(account: InitialAccount<'_>, out: &mut dyn Write) -> io::Result<()> {
    let InitialAccount { nonce, balance, code, slots, .. } = account;
    write!(out, "{{\"balance\":\"{balance:#x}\"")?;
    if nonce != 0 {
        write!(out, ",\"nonce\":\"{nonce:#x}\"")?;
    }
    if !code.is_empty() {
        write!(out, ",\"code\":\"{code}\"")?;
    }
    let mut separator = ",\"storage\":{";
    for (slot, value) in slots {
        let (slot, value) = (B256::from(slot), B256::from(value));
        write!(out, "{separator}\"{slot}\":\"{value}\"")?;
        separator = ",";
    }
    // The separator shows whether there was any slot.
    write!(out, "{}", if separator == "," { "}}" } else { "}" })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_genesis::GenesisAccount;
    use alloy_hardforks::{EthereumHardfork, ForkCondition};
    use alloy_primitives::U256;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_written_is_what_is_read() {
        let plan = GenesisPlan {
            chain_id: 77,
            fork_times: vec![10, 20, 30],
            timestamp: 9,
            gas_limit: 1_000_000,
            base_fee: 8,
            extra_data: Bytes::from_static(b"generated"),
            deposit_contract: Some(Address::repeat_byte(7)),
        };
        let accounts = || {
            let slots = Box::new(std::iter::once((U256::from(1), U256::from(2))));
            let code = Bytes::from_static(&[0xfe]);
            let full =
                InitialAccount { slots, ..InitialAccount::contract(Address::repeat_byte(1), code) };
            [InitialAccount::funded(Address::repeat_byte(2), U256::from(5)), full]
        };
        let plain = GenesisAccount { balance: U256::from(5), ..Default::default() };
        let full = GenesisAccount {
            nonce: Some(1),
            code: Some(Bytes::from_static(&[0xfe])),
            storage: Some(BTreeMap::from([(B256::with_last_byte(1), B256::with_last_byte(2))])),
            ..Default::default()
        };
        let mut json = Vec::new();
        plan.write(accounts(), &mut json).unwrap();
        let spec = ChainSpec::parse("test", &json).unwrap();
        assert_eq!((spec.chain_id(), spec.genesis_accounts().len()), (77, 6));
        for account in [(Address::repeat_byte(2), plain), (Address::repeat_byte(1), full)] {
            assert!(spec.genesis_accounts().any(|found| found == account), "{account:?}");
        }
        assert_eq!(spec.deposit_contract(), plan.deposit_contract);
        assert_eq!(spec.terminal_total_difficulty(), Some(U256::ZERO));
        let at = |fork| spec.forks().activation(fork);
        assert_eq!(at(EthereumHardfork::Prague), ForkCondition::Timestamp(30));
        assert_eq!(at(EthereumHardfork::Osaka), ForkCondition::Never);
        let header = spec.genesis_header();
        assert_eq!((header.gas_limit, header.base_fee_per_gas), (1_000_000, Some(8)));
        assert_eq!((header.timestamp, &header.extra_data[..]), (9, &b"generated"[..]));
        // The types that reth reads a genesis with give the same block.
        let genesis: alloy_genesis::Genesis = serde_json::from_slice(&json).unwrap();
        assert!(genesis.config.terminal_total_difficulty_passed);
        assert_eq!(genesis.config.blob_schedule.len(), 2);
        let other = ChainSpec::from_genesis("test", genesis).unwrap();
        assert_eq!((other.genesis_header(), other.forks()), (header, spec.forks()));
        // The outline gives the same block too.
        let outline = plan.chain_spec(header.state_root).unwrap();
        assert_eq!((outline.genesis_header(), outline.forks()), (header, spec.forks()));
        assert_eq!(outline.deposit_contract(), spec.deposit_contract());
    }
}
