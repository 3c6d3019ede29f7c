//! Rewards of a block before the merge.

use super::schedule::Schedule;
use alloy_consensus::Header;
use alloy_evm::block::calc;
use alloy_primitives::{Address, U256};
use polytrie_chainspec::Rules;

/// Returns the rewards of proof of work for a block: first that of its beneficiary, with its share for the ommers, then
/// those of the ommers. There are none after the merge, nor under Clique.
pub fn block_rewards(rules: Rules<'_>, header: &Header, ommers: &[Header]) -> Vec<(Address, U256)> {
    let Some(base) = calc::base_block_reward(Schedule::new(rules), header.number) else {
        return Vec::new();
    };
    let mut rewards = Vec::with_capacity(1 + ommers.len());
    rewards.push((header.beneficiary, U256::from(calc::block_reward(base, ommers.len()))));
    rewards.extend(ommers.iter().map(|ommer| {
        let reward = calc::ommer_reward(base, header.number, ommer.number);
        (ommer.beneficiary, U256::from(reward))
    }));
    rewards
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_chainspec::ChainSpec;

    #[test]
    fn ommers_are_paid_by_their_age_and_nobody_after_the_merge() {
        let spec = ChainSpec::load("mainnet").unwrap();
        let [miner, uncle] = [1, 2].map(Address::repeat_byte);
        let header = Header { number: 10, beneficiary: miner, ..Header::default() };
        let ommers = [Header { number: 8, beneficiary: uncle, ..Header::default() }];
        let ether = U256::from(10).pow(U256::from(18));
        let paid = |merged| block_rewards(spec.rules(10, 0, merged), &header, &ommers);
        let (five, share) = (ether * U256::from(5), ether * U256::from(5) / U256::from(32));
        assert_eq!(
            paid(false),
            [(miner, five + share), (uncle, five * U256::from(6) / U256::from(8))]
        );
        assert_eq!(paid(true), []);
    }
}
