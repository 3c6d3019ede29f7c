//! The parts of a block beside its transactions: withdrawals, system contracts and requests.

use super::*;

#[test]
fn withdrawals_add_up_and_those_of_nothing_leave_nothing() {
    let world = World::at(Fork::Shanghai, vec![]);
    let withdrawal = |address, amount| Withdrawal { address, amount, ..Withdrawal::default() };
    let withdrawals = [withdrawal(NOBODY, 1), withdrawal(NOBODY, 2), withdrawal(CONTRACT, 0)];
    let (_, state) = world.run_with(&[], &[], Some(&withdrawals)).unwrap();
    assert_eq!(state.account(&NOBODY).unwrap().balance, U256::from(3_000_000_000_u64));
    assert_eq!(state.account(&CONTRACT), None);
}

#[test]
fn prague_gives_requests() {
    let (executed, _) = World::at(Fork::Prague, vec![rich()]).run(&[]).unwrap();
    assert!(executed.requests.is_some_and(|requests| requests.is_empty()));
}

#[test]
fn a_system_contract_that_fails_makes_the_block_invalid() {
    let contracts = SystemContracts::default();
    let world = World::at(Fork::Prague, vec![contract(contracts.withdrawals, bytes!("fe"), &[])]);
    assert!(matches!(world.invalid(&[]), BlockInvalid::SystemCall { .. }));
}

#[test]
fn a_block_of_prague_without_the_contracts_of_requests_is_invalid() {
    let contracts = SystemContracts::default();
    let there = |address| contract(address, bytes!("00"), &[]);
    let forks = || Forks::up_to(Fork::Prague);
    for (accounts, missing, words) in [
        (vec![], contracts.withdrawals, "withdrawal requests (EIP-7002)"),
        // An account with ether and a nonce has no code.
        (
            vec![account(contracts.withdrawals, 1), there(contracts.consolidations)],
            contracts.withdrawals,
            "withdrawal requests (EIP-7002)",
        ),
        (
            vec![there(contracts.withdrawals)],
            contracts.consolidations,
            "consolidation requests (EIP-7251)",
        ),
    ] {
        let error = World::new(forks(), accounts).invalid(&[]);
        assert!(
            matches!(error, BlockInvalid::NoSystemContract { address, .. } if address == missing)
        );
        let text = error.to_string();
        assert!(text.contains(&missing.to_string()) && text.contains(words), "{text}");
    }
    World::new(Forks::up_to(Fork::Cancun), vec![]).run(&[]).unwrap();
}

#[test]
fn a_block_of_amsterdam_without_the_contracts_of_builders_is_invalid() {
    World::at(Fork::Amsterdam, vec![]).run(&[]).unwrap();
    for (missing, words) in [
        (BUILDER_DEPOSIT_CONTRACT_ADDRESS, "from Amsterdam on must call for builder deposits"),
        (BUILDER_EXIT_CONTRACT_ADDRESS, "from Amsterdam on must call for builder exits"),
    ] {
        // An account with ether has no code.
        let without = |fork| World::at(fork, vec![account(missing, 1)]);
        let world = without(Fork::Amsterdam);
        let text = world.invalid(&[]).to_string();
        assert!(text.contains(&missing.to_string()) && text.contains(words), "{text}");
        without(Fork::Osaka).run(&[]).unwrap();
        // The earlier draft has no such contracts.
        let mut session = world.session();
        let mut executor = Executor::new(0).with_amsterdam(Amsterdam::Bal57);
        let block = BlockToExecute::to_fill(&world.header, None);
        executor.execute_block(&mut session, world.rules(), &|_| None, block).unwrap();
    }
}

#[test]
fn the_contracts_of_requests_may_be_deployed_in_the_first_block_of_prague() {
    let mut moved = SystemContracts { withdrawals: CONTRACT, ..SystemContracts::default() };
    moved.consolidations = SENDER.create(0);
    let there = contract(CONTRACT, bytes!("00"), &[]);
    let world = World::new(Forks::up_to(Fork::Prague), vec![rich(), there]);
    // The transaction deploys one byte, STOP.
    let deploy = legacy(0, TxKind::Create, 0, bytes!("60015ff3"));
    let run = |transactions: &[TxEnvelope]| {
        let mut session = world.session();
        let mut executor = Executor::new(0).with_system_contracts(moved);
        let senders = vec![SENDER; transactions.len()];
        let block = world.block(transactions, &senders);
        executor.execute_block(&mut session, world.rules(), &|_| None, block)
    };
    assert!(matches!(
        run(&[]),
        Err(ExecuteError::Invalid(BlockInvalid::NoSystemContract { eip: 7251, .. }))
    ));
    run(&[deploy]).unwrap();
}

#[test]
fn system_contracts_are_called_where_they_stand() {
    // The code stores its input at slot 0.
    let code = bytes!("60003560005500");
    let moved = SystemContracts { history: CONTRACT, ..SystemContracts::default() };
    let mut world = World::at(Fork::Prague, vec![contract(CONTRACT, code, &[])]);
    world.header.parent_hash = B256::repeat_byte(7);
    let block = world.block(&[], &[]);
    let mut session = world.session();
    let mut executor = Executor::new(0).with_system_contracts(moved);
    executor.execute_block(&mut session, world.rules(), &|_| None, block).unwrap();
    let stored = session.slot(&CONTRACT, &U256::ZERO).unwrap();
    assert_eq!(stored, U256::from_be_bytes(world.header.parent_hash.0));
}
