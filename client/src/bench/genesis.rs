//! Writing a `genesis.json` that geth, reth and this program read alike.

use alloy_eips::{
    eip2935::{HISTORY_STORAGE_ADDRESS, HISTORY_STORAGE_CODE},
    eip4788::{BEACON_ROOTS_ADDRESS, BEACON_ROOTS_CODE},
    eip7002::{WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, WITHDRAWAL_REQUEST_PREDEPLOY_CODE},
    eip7251::{CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, CONSOLIDATION_REQUEST_PREDEPLOY_CODE},
    eip7840::BlobParams,
};
use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, Bytes};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Forks by block number; a generated chain has all of them from genesis on.
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

/// The genesis of a chain that is past the merge from its first block, without accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenesisPlan {
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Time of Shanghai, Cancun, Prague, Osaka, BPO1, BPO2, in this order; those beyond the end never happen.
    pub fork_times: Vec<u64>,
    /// Seconds.
    pub timestamp: u64,
    /// Gas limit.
    pub gas_limit: u64,
    /// Base fee in wei.
    pub base_fee: u64,
    /// Extra data, at most 32 bytes.
    pub extra_data: Bytes,
    /// The contract whose logs are deposits (EIP-6110); it is one of the workload's accounts.
    pub deposit_contract: Option<Address>,
}

/// The forks by time, and the blob parameters of those that have some of their own.
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
    /// not gathered: any number of them takes no memory.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written to.
    pub fn write(
        &self,
        accounts: impl IntoIterator<Item = (Address, GenesisAccount)>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        writeln!(out, "{{")?;
        for (name, value) in self.fields() {
            writeln!(out, "\"{name}\":{value},")?;
        }
        write!(out, "\"alloc\":{{")?;
        let mut separator = "\n";
        for (address, account) in system_contracts().into_iter().chain(accounts) {
            write!(out, "{separator}\"{address:x}\":")?;
            write_account(&account, out)?;
            separator = ",\n";
        }
        writeln!(out, "\n}}\n}}")
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
            ("mixHash", json!(alloy_primitives::B256::ZERO)),
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

/// The contracts that blocks call by themselves (EIP-2935, 4788, 7002, 7251). Without them no client runs Prague.
fn system_contracts() -> [(Address, GenesisAccount); 4] {
    [
        (BEACON_ROOTS_ADDRESS, &BEACON_ROOTS_CODE),
        (HISTORY_STORAGE_ADDRESS, &HISTORY_STORAGE_CODE),
        (WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, &WITHDRAWAL_REQUEST_PREDEPLOY_CODE),
        (CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, &CONSOLIDATION_REQUEST_PREDEPLOY_CODE),
    ]
    .map(|(address, code)| (address, contract(code.clone())))
}

/// A contract as deployment leaves it: with the nonce 1 (EIP-161).
pub(super) fn contract(code: Bytes) -> GenesisAccount {
    GenesisAccount { nonce: Some(1), code: Some(code), ..Default::default() }
}

fn write_account(account: &GenesisAccount, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\"balance\":\"{:#x}\"", account.balance)?;
    if let Some(nonce) = account.nonce {
        write!(out, ",\"nonce\":\"{nonce:#x}\"")?;
    }
    if let Some(code) = &account.code {
        write!(out, ",\"code\":\"{code}\"")?;
    }
    if let Some(storage) = &account.storage {
        write!(out, ",\"storage\":{}", json!(storage))?;
    }
    write!(out, "}}")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_hardforks::{EthereumHardfork, ForkCondition};
    use alloy_primitives::{B256, U256};
    use polytrie_chainspec::ChainSpec;
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
        let plain = GenesisAccount { balance: U256::from(5), ..Default::default() };
        let storage = BTreeMap::from([(B256::with_last_byte(1), B256::with_last_byte(2))]);
        let full =
            GenesisAccount { storage: Some(storage), ..contract(Bytes::from_static(&[0xfe])) };
        let accounts = [(Address::repeat_byte(2), plain), (Address::repeat_byte(1), full)];
        let mut json = Vec::new();
        plan.write(accounts.clone(), &mut json).unwrap();
        let spec = ChainSpec::parse("test", &json).unwrap();
        assert_eq!((spec.chain_id(), spec.genesis_accounts().len()), (77, 6));
        for account in accounts {
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
        // The types that reth reads it with come to the same block.
        let genesis: alloy_genesis::Genesis = serde_json::from_slice(&json).unwrap();
        assert!(genesis.config.terminal_total_difficulty_passed);
        assert_eq!(genesis.config.blob_schedule.len(), 2);
        let other = ChainSpec::from_genesis("test", genesis).unwrap();
        assert_eq!((other.genesis_header(), other.forks()), (header, spec.forks()));
    }
}
