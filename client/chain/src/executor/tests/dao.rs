//! The state change of the DAO fork.

use super::*;

#[test]
fn the_dao_is_drained_before_the_first_transaction() {
    // The first transaction spends ether that the beneficiary has only after the drain.
    let [first, second, ..] = DAO_HARDFORK_ACCOUNTS;
    // The code sends the contract's whole balance to the caller.
    let giver = bytes!("6000600060006000303133620186a0f100");
    let mut heir = contract(DAO_HARDFORK_BENEFICIARY, giver, &[]);
    heir.account.balance = U256::from(7);
    let forks = Forks::up_to(Fork::Homestead).with(Fork::Dao, ForkCondition::Block(1));
    let accounts = vec![rich(), heir, account(first, 3 * ETHER), account(second, 4 * ETHER)];
    let world = World::new(forks, accounts);
    let (executed, state) = world.run(&[send(0, DAO_HARDFORK_BENEFICIARY, 0)]).unwrap();
    let paid = U256::from(1000 * ETHER + 7 * ETHER + 7 - u128::from(executed.gas_used));
    assert_eq!(state.account(&SENDER).unwrap().balance, paid);
    assert_eq!(state.account(&DAO_HARDFORK_BENEFICIARY).unwrap().balance, U256::ZERO);
    // Before EIP-161 the drained accounts stay, and those that did not exist are created.
    for address in DAO_HARDFORK_ACCOUNTS {
        assert_eq!(state.account(&address), Some(Account::default()), "{address}");
    }
}

#[test]
fn a_replay_drains_the_dao_and_pays_for_ommers_as_the_block_did() {
    let [first, second, ..] = DAO_HARDFORK_ACCOUNTS;
    let forks = Forks::up_to(Fork::Homestead).with(Fork::Dao, ForkCondition::Block(1));
    let world = World::new(forks, vec![rich(), account(first, 3 * ETHER)]);
    let ommers = [Header { beneficiary: NOBODY, ..Header::default() }];
    let transactions = [send(0, DAO_HARDFORK_BENEFICIARY, 7)];
    let reader = world.layer.reader().unwrap();
    let mut sandbox = Sandbox::new(reader, Arc::new(|_: u64| None));
    let mut replay = Replay::begin(&mut sandbox, &world.header, world.rules()).unwrap();
    replay.next(&transactions[0], SENDER, NoObserver {}).unwrap();
    let (executed, state) = world.run_with(&transactions, &ommers, None).unwrap();
    replay.finish(executed.receipts, &ommers, None).unwrap();
    for address in [first, second, DAO_HARDFORK_BENEFICIARY, SENDER, MINER, NOBODY] {
        assert_eq!(sandbox.account(&address).unwrap(), state.account(&address), "{address}");
    }
    let heir = state.account(&DAO_HARDFORK_BENEFICIARY).unwrap();
    assert_eq!(heir.balance, U256::from(3 * ETHER + 7));
    assert!(state.account(&NOBODY).is_some());
}

#[test]
fn what_the_dao_leaves_empty_goes_where_empty_accounts_do() {
    let [first, second, ..] = DAO_HARDFORK_ACCOUNTS;
    let forks = Forks::up_to(Fork::SpuriousDragon).with(Fork::Dao, ForkCondition::Block(1));
    let world = World::new(forks, vec![account(first, 3 * ETHER)]);
    let (_, state) = world.run(&[]).unwrap();
    assert_eq!([first, second].map(|address| state.account(&address)), [None, None]);
    let heir = state.account(&DAO_HARDFORK_BENEFICIARY).unwrap();
    assert_eq!(heir.balance, U256::from(3 * ETHER));
}

#[test]
fn the_dao_stays_whole_in_other_blocks_and_where_the_fork_is_opposed() {
    let [first, ..] = DAO_HARDFORK_ACCOUNTS;
    let at_two = Forks::up_to(Fork::Homestead).with(Fork::Dao, ForkCondition::Block(2));
    let opposed = Forks::up_to(Fork::Homestead)
        .with_dao(Some(polytrie_chainspec::DaoFork { block: 1, support: false }));
    for forks in [at_two, opposed] {
        let (_, state) = World::new(forks, vec![account(first, ETHER)]).run(&[]).unwrap();
        assert_eq!(state.account(&first).unwrap().balance, U256::from(ETHER));
    }
}
