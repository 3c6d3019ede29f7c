//! The built-in chains.

use std::sync::Arc;

use alloy_consensus::Sealed;
use alloy_eips::eip6110::MAINNET_DEPOSIT_CONTRACT_ADDRESS;
use alloy_genesis::Genesis;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256, Bytes, U256, address, b256, bytes};

use crate::{ChainSpec, Forks, allocation::Allocation, dev, genesis};

/// Returns the built-in chain of this name.
pub(crate) fn named(name: &str) -> Option<Arc<ChainSpec>> {
    Some(Arc::new(match name {
        "mainnet" => mainnet(),
        "sepolia" => sepolia(),
        "holesky" => holesky(),
        "hoodi" => hoodi(),
        "dev" => dev::default(),
        _ => return None,
    }))
}

fn mainnet() -> ChainSpec {
    public_network(PublicNetwork {
        name: "mainnet",
        chain_id: 1,
        forks: Forks::from_table(&EthereumHardfork::mainnet()),
        deposit_contract: MAINNET_DEPOSIT_CONTRACT_ADDRESS,
        accounts: include_bytes!("../data/mainnet.bin.gz"),
        genesis: Genesis {
            nonce: 0x42,
            extra_data: bytes!("11bbe8db4e347b4e8c937c1c8370e4b5ed33adb3db69cbdb7a38e1e50b1b82fa"),
            gas_limit: 5000,
            difficulty: U256::from(0x4_0000_0000_u64),
            ..Default::default()
        },
        state_root: b256!("d7f8974fb5ac78d9ac099b9ad5018bedc2ce0a72dad1827a1709da30580f0544"),
        hash: b256!("d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3"),
    })
}

fn sepolia() -> ChainSpec {
    public_network(PublicNetwork {
        name: "sepolia",
        chain_id: 11_155_111,
        forks: Forks::from_table(&EthereumHardfork::sepolia()),
        deposit_contract: address!("7f02c3e3c98b133055b8b348b2ac625669ed295d"),
        accounts: include_bytes!("../data/sepolia.bin.gz"),
        genesis: Genesis {
            timestamp: 0x6159_af19,
            extra_data: Bytes::from_static(b"Sepolia, Athens, Attica, Greece!"),
            gas_limit: 30_000_000,
            difficulty: U256::from(0x2_0000),
            ..Default::default()
        },
        state_root: b256!("5eb6e371a698b8d68f665192350ffcecbbbf322916f4b51bd79bb6887da3f494"),
        hash: b256!("25a5cc106eea7138acab33231d7160d69cb777ee0c2c553fcddf5138993e6dd9"),
    })
}

fn holesky() -> ChainSpec {
    public_network(PublicNetwork {
        name: "holesky",
        chain_id: 17_000,
        forks: Forks::from_table(&EthereumHardfork::holesky()),
        deposit_contract: address!("4242424242424242424242424242424242424242"),
        accounts: include_bytes!("../data/holesky.bin.gz"),
        genesis: Genesis {
            nonce: 0x1234,
            timestamp: 0x6515_6994,
            gas_limit: 25_000_000,
            difficulty: U256::from(1),
            ..Default::default()
        },
        state_root: b256!("69d8c9d72f6fa4ad42d4702b433707212f90db395eb54dc20bc85de253788783"),
        hash: b256!("b5f7f912443c940f21fd611f12828d75b534364ed9e95ca4e307729a4661bde4"),
    })
}

fn hoodi() -> ChainSpec {
    public_network(PublicNetwork {
        name: "hoodi",
        chain_id: 560_048,
        forks: Forks::from_table(&EthereumHardfork::hoodi()),
        deposit_contract: MAINNET_DEPOSIT_CONTRACT_ADDRESS,
        accounts: include_bytes!("../data/hoodi.bin.gz"),
        genesis: Genesis {
            nonce: 0x1234,
            timestamp: 0x67d8_0ec0,
            gas_limit: 36_000_000,
            difficulty: U256::from(1),
            ..Default::default()
        },
        state_root: b256!("da87d7f5f91c51508791bbcbd4aa5baf04917830b86985eeb9ad3d5bfb657576"),
        hash: b256!("bbe312868b376a3001692a646dd2d7d1e4406380dfd86b98aa8a34d1557c971b"),
    })
}

/// Description of a public network. State root and hash are stored here, so that the accounts need not be unpacked for
/// them; the tests compute both anew.
struct PublicNetwork {
    name: &'static str,
    chain_id: u64,
    forks: Forks,
    deposit_contract: Address,
    accounts: &'static [u8],
    /// Fields of the genesis header. Forks and accounts are other fields.
    genesis: Genesis,
    state_root: B256,
    hash: B256,
}

fn public_network(network: PublicNetwork) -> ChainSpec {
    let header = genesis::header(&network.genesis, 0, network.state_root, &network.forks);
    let header = header.expect("the built-in genesis blocks are valid");
    ChainSpec {
        name: network.name.to_owned(),
        chain_id: network.chain_id,
        forks: network.forks,
        genesis_header: Sealed::new_unchecked(header, network.hash),
        allocation: Allocation::BuiltIn(network.accounts),
        deposit_contract: Some(network.deposit_contract),
        fixed_difficulty: None,
        clique: None,
        contract_size_limit: None,
        outline: None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use alloy_hardforks::{ForkCondition, ForkHash};
    use alloy_primitives::hex;

    use super::*;
    use crate::DaoFork;

    #[test]
    fn stored_roots_and_hashes_are_right() {
        for name in ["mainnet", "sepolia", "holesky", "hoodi"] {
            let spec = named(name).unwrap();
            let header = spec.genesis_header().inner();
            assert_eq!(spec.allocation.state_root(), header.state_root, "{name}");
            assert_eq!(header.hash_slow(), spec.genesis_hash(), "{name}");
        }
    }

    /// The published hashes are the fork hashes of EIP-2124 that peers exchange: each sums up the genesis hash and
    /// every fork up to one.
    #[test]
    fn forks_are_those_of_the_networks() {
        let published: [(&str, &[&str]); 4] = [
            (
                "mainnet",
                &[
                    "fc64ec04", "97c2c34c", "91d1f948", "7a64da13", "3edd5b10", "a00bc324",
                    "668db0af", "879d6e30", "e029e991", "0eb440f6", "b715077d", "20c327fc",
                    "f0afd0e3", "dce96c2d", "9f3d2254", "c376cf8b", "5167e2a6", "cba2a1c0",
                    "07c9462e",
                ],
            ),
            (
                "sepolia",
                &[
                    "fe3366e7", "b96cbd13", "f7f9bc08", "88cf81d9", "ed88b5fd", "e2ae4999",
                    "56078a1e", "268956b6",
                ],
            ),
            (
                "holesky",
                &[
                    "c61a6098", "fd4f016b", "9b192ad0", "dfbd9bed", "783def52", "a280a45c",
                    "9bc6cb31",
                ],
            ),
            ("hoodi", &["bef71d30", "0929e24e", "e7e0e7ff", "3893353e", "23aa1351"]),
        ];
        for (name, published) in published {
            let spec = named(name).unwrap();
            let (mut blocks, mut times) = (Vec::new(), Vec::new());
            for fork in EthereumHardfork::VARIANTS {
                match spec.forks.activation(*fork) {
                    ForkCondition::Block(block)
                    | ForkCondition::TTD { fork_block: Some(block), .. } => blocks.push(block),
                    ForkCondition::Timestamp(time) => times.push(time),
                    _ => {}
                }
            }
            blocks.retain(|block| *block > 0);
            times.retain(|time| *time > spec.genesis_header().timestamp);
            let mut points = [blocks, times].concat();
            points.dedup();
            let mut hash = ForkHash::from(spec.genesis_hash());
            let mut hashes = vec![hex::encode(hash.0)];
            for point in points {
                hash += point;
                hashes.push(hex::encode(hash.0));
            }
            // A network may have scheduled more forks since.
            assert_eq!(hashes[..published.len()], *published, "{name}");
        }
    }

    #[test]
    fn only_mainnet_had_the_dao_fork() {
        assert_eq!(
            named("mainnet").unwrap().dao_fork(),
            Some(DaoFork { block: 1_920_000, support: true })
        );
        for name in ["sepolia", "holesky", "hoodi", "dev"] {
            assert_eq!(named(name).unwrap().dao_fork(), None, "{name}");
        }
    }

    #[test]
    fn the_merge_of_each_network() {
        let terminal = |name| named(name).unwrap().terminal_total_difficulty().unwrap().to_string();
        assert_eq!(terminal("mainnet"), "58750000000000000000000");
        assert_eq!(terminal("sepolia"), "17000000000000000");
        for name in ["holesky", "hoodi", "dev"] {
            assert_eq!(terminal(name), "0", "{name}");
            assert!(named(name).unwrap().is_merged_after(U256::ZERO));
        }
    }

    #[test]
    fn blob_parameters_of_mainnet() {
        let maximum = |timestamp| {
            named("mainnet").unwrap().blob_params(timestamp).map(|params| params.max_blob_count)
        };
        let history = [
            (1_710_338_134, None),
            (1_710_338_135, Some(6)),
            (1_746_612_311, Some(9)),
            (1_764_798_551, Some(9)),
            (1_765_290_071, Some(15)),
            (1_767_747_671, Some(21)),
        ];
        for (timestamp, expected) in history {
            assert_eq!(maximum(timestamp), expected, "at {timestamp}");
        }
    }
}
