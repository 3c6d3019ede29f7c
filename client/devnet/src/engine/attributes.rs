//! The payload attributes of a consensus layer, checked by version of the method and by fork.

use super::{Branch, Engine, EngineError};
use crate::{Marks, Node, View, settings::gas_limit_towards};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::B256;
use alloy_rpc_types_engine::{ForkchoiceState, PayloadAttributes};
use polytrie_chain::NextBlock;
use polytrie_chainspec::Rules;

/// Returns the parameters of the next block on the head of `view`, from the attributes of `engine_forkchoiceUpdated` in
/// version 1 to 4.
pub(super) fn next_block(
    node: &Node,
    view: &View,
    version: u8,
    attributes: PayloadAttributes,
) -> Result<NextBlock, EngineError> {
    let head = &view.head.header;
    let rules = view.next_rules(node.spec(), attributes.timestamp);
    check(&rules, version, &attributes)?;
    if attributes.timestamp <= head.timestamp {
        return Err(EngineError::Attributes(format!(
            "timestamp {} is not later than that of the head, {}",
            attributes.timestamp, head.timestamp
        )));
    }
    Ok(NextBlock {
        timestamp: attributes.timestamp,
        beneficiary: attributes.suggested_fee_recipient,
        prev_randao: attributes.prev_randao,
        withdrawals: attributes.withdrawals.unwrap_or_default(),
        parent_beacon_block_root: attributes.parent_beacon_block_root.unwrap_or_default(),
        // A gas limit that was set by hand is not used: the protocol may not allow it.
        gas_limit: gas_limit_towards(
            attributes.target_gas_limit.unwrap_or_else(|| node.settings().gas_target),
            head.gas_limit,
        ),
        slot_number: attributes.slot_number,
        ..NextBlock::default()
    })
}

/// Checks that the attributes have the fields of the version, and that the version fits the fork of their timestamp.
fn check(
    rules: &Rules<'_>,
    version: u8,
    attributes: &PayloadAttributes,
) -> Result<(), EngineError> {
    let wrong = |what: &str| Err(EngineError::Attributes(what.to_owned()));
    let has_withdrawals = attributes.withdrawals.is_some();
    let has_root = attributes.parent_beacon_block_root.is_some();
    // The fields are checked before the fork: from version 3 on each version has one set of them for all forks.
    if version >= 3 && !has_withdrawals {
        return wrong("withdrawals are missing");
    }
    if has_root != (version >= 3) {
        return wrong(if has_root {
            "parentBeaconBlockRoot comes with version 3"
        } else {
            "parentBeaconBlockRoot is missing"
        });
    }
    for (is_there, what) in [
        (attributes.slot_number.is_some(), "slotNumber"),
        (attributes.target_gas_limit.is_some(), "targetGasLimit"),
    ] {
        match (is_there, version >= 4) {
            (true, false) => return wrong(&format!("{what} comes with version 4")),
            (false, true) => return wrong(&format!("{what} is missing")),
            _ => {}
        }
    }
    let (since, before) = match version {
        1 => (EthereumHardfork::Paris, Some(EthereumHardfork::Shanghai)),
        2 => (EthereumHardfork::Paris, Some(EthereumHardfork::Cancun)),
        3 => (EthereumHardfork::Cancun, Some(EthereumHardfork::Amsterdam)),
        _ => (EthereumHardfork::Amsterdam, None),
    };
    if !rules.is(since) || before.is_some_and(|fork| rules.is(fork)) {
        let (time, fork) = (attributes.timestamp, rules.fork_name());
        return Err(EngineError::Fork(format!(
            "engine_forkchoiceUpdatedV{version} is not for {fork}, which the timestamp {time} is in"
        )));
    }
    match (has_withdrawals, rules.is(EthereumHardfork::Shanghai)) {
        (true, false) => wrong("withdrawals come with Shanghai"),
        (false, true) => wrong("withdrawals are missing"),
        _ => Ok(()),
    }
}

impl Engine {
    /// Resolves the safe and finalized blocks of a forkchoice state. Both must be in the chain that ends in its head.
    pub(super) fn marks(
        &self,
        choice: &ForkchoiceState,
        branch: &Branch,
    ) -> Result<Marks, EngineError> {
        let number = |name: &str, hash: B256| {
            if hash.is_zero() {
                return Ok(None);
            }
            if let Some(above) = branch.hashes.iter().position(|known| *known == hash) {
                return Ok(Some(branch.fork + 1 + above as u64));
            }
            let number = self.node().db().number_of(&hash).map_err(crate::NodeError::from)?;
            match number.filter(|number| *number <= branch.fork) {
                Some(number) => Ok(Some(number)),
                None => Err(EngineError::Forkchoice(format!(
                    "{name} {hash} is not in the chain that ends in headBlockHash {}",
                    choice.head_block_hash
                ))),
            }
        };
        Ok(Marks {
            safe: number("safeBlockHash", choice.safe_block_hash)?,
            finalized: number("finalizedBlockHash", choice.finalized_block_hash)?,
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_consensus::Header;
    use alloy_hardforks::ForkCondition;
    use polytrie_chainspec::{ChainSpec, Forks};

    /// Returns a chain whose forks from Shanghai on are 1,000 seconds apart.
    fn chain() -> ChainSpec {
        let forks = [
            EthereumHardfork::Shanghai,
            EthereumHardfork::Cancun,
            EthereumHardfork::Prague,
            EthereumHardfork::Osaka,
            EthereumHardfork::Amsterdam,
        ];
        let all = forks
            .into_iter()
            .zip(1..)
            .fold(Forks::up_to(EthereumHardfork::Paris), |forks, (fork, n)| {
                forks.with(fork, ForkCondition::Timestamp(n * 1000))
            });
        ChainSpec::with_forks("test", 1, all, Header::default(), [])
    }

    #[test]
    fn each_version_has_its_forks_and_fields() {
        let chain = chain();
        let code = |version, timestamp, withdrawals: bool, root: bool| {
            let attributes = PayloadAttributes {
                timestamp,
                withdrawals: withdrawals.then(Vec::new),
                parent_beacon_block_root: root.then_some(B256::ZERO),
                slot_number: (version == 4).then_some(7),
                target_gas_limit: (version == 4).then_some(60_000_000),
                ..PayloadAttributes::default()
            };
            let rules = chain.rules(1, timestamp, true);
            check(&rules, version, &attributes).err().map(|error| error.code().unwrap())
        };
        let [paris, shanghai, cancun, prague, osaka, amsterdam] =
            [0, 1, 2, 3, 4, 5].map(|n| n * 1000);
        for (version, time, withdrawals, root, expected) in [
            (1, paris, false, false, None),
            (1, paris, true, false, Some(-38003)),
            (1, shanghai, false, false, Some(-38005)),
            (2, paris, false, false, None),
            (2, paris, true, false, Some(-38003)),
            (2, shanghai, true, false, None),
            (2, shanghai, false, false, Some(-38003)),
            (2, shanghai, true, true, Some(-38003)),
            (2, cancun, true, false, Some(-38005)),
            (3, shanghai, true, true, Some(-38005)),
            (3, shanghai, false, true, Some(-38003)),
            (3, paris, false, true, Some(-38003)),
            (3, cancun, true, true, None),
            (3, cancun, true, false, Some(-38003)),
            (3, cancun, false, true, Some(-38003)),
            (3, prague, true, true, None),
            (3, osaka, true, true, None),
            (3, amsterdam, true, true, Some(-38005)),
            (4, osaka, true, true, Some(-38005)),
            (4, osaka, false, true, Some(-38003)),
            (4, amsterdam, true, true, None),
            (4, amsterdam, true, false, Some(-38003)),
            (4, amsterdam, false, true, Some(-38003)),
        ] {
            assert_eq!(code(version, time, withdrawals, root), expected, "V{version} at {time}");
        }
        // The slot number and the gas limit belong to version 4 only.
        let attributes = PayloadAttributes {
            timestamp: amsterdam,
            withdrawals: Some(Vec::new()),
            parent_beacon_block_root: Some(B256::ZERO),
            slot_number: Some(7),
            ..PayloadAttributes::default()
        };
        for (version, time) in [(3, osaka), (4, amsterdam)] {
            let error = check(&chain.rules(1, time, true), version, &attributes).unwrap_err();
            assert_eq!(error.code(), Some(-38003), "V{version}");
        }
    }
}
