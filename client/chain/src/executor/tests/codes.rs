//! Code: delegations to it, and codes that the store has lost.

use super::*;

#[test]
fn a_delegation_is_new_code() {
    let world = World::at(Fork::Prague, vec![rich()]);
    let authorization = Authorization { chain_id: U256::ZERO, address: CONTRACT, nonce: 0 };
    let signature = Signature::test_signature();
    let (parity, r, s) = (u8::from(signature.v()), signature.r(), signature.s());
    let signed = SignedAuthorization::new_unchecked(authorization, parity, r, s);
    let authority = signed.recover_authority().unwrap();
    let tx = TxEip7702 {
        chain_id: 1,
        gas_limit: 1_000_000,
        max_fee_per_gas: 1,
        to: NOBODY,
        authorization_list: vec![signed],
        ..TxEip7702::default()
    };
    let tx = TxEnvelope::Eip7702(Signed::new_unhashed(tx, signature));
    let (_, state) = world.run(&[tx]).unwrap();
    let account = state.account(&authority).unwrap();
    let code = [&[0xef, 0x01, 0x00], CONTRACT.as_slice()].concat();
    assert_eq!((account.nonce, account.code_hash), (1, keccak256(&code)));
    assert_eq!(state.codes()[&account.code_hash], Bytes::from(code));
}

/// A trace would show the account without code.
#[test]
fn an_account_whose_code_is_lost_is_not_traced() {
    // PUSH20 NOBODY BALANCE
    let asks = [&[0x73][..], NOBODY.as_slice(), &[0x31]].concat().into();
    let lost = GenesisAccount { code: None, ..contract(NOBODY, bytes!("00"), &[]) };
    let world = World::at(Fork::Cancun, vec![rich(), contract(CONTRACT, asks, &[]), lost]);
    let mut sandbox = Sandbox::new(world.layer.reader().unwrap(), Arc::new(|_: u64| None));
    let mut replay = Replay::begin(&mut sandbox, &world.header, world.rules()).unwrap();
    let mut trace = |options: serde_json::Value| {
        let options = serde_json::from_value(options).unwrap();
        let (tx, place) = (send(0, CONTRACT, 0), (B256::ZERO, 0));
        replay.trace(&tx, SENDER, place, options, &mut 100_000)
    };
    let tracer = "prestateTracer";
    let error = trace(serde_json::json!({ "tracer": tracer })).unwrap_err();
    let is_of_state = matches!(error, TraceError::Internal(InternalError::State(_)));
    assert!(is_of_state && error.to_string().contains("there is no code"), "{error}");
    let without = serde_json::json!({ "tracer": tracer, "tracerConfig": { "disableCode": true } });
    trace(without).unwrap();
}

#[test]
fn code_that_is_missing_is_our_failure() {
    let mut broken = contract(CONTRACT, bytes!("00"), &[]);
    broken.code = None;
    let world = World::at(Fork::Byzantium, vec![rich(), broken]);
    let error = world.run(&[send(0, CONTRACT, 0)]).unwrap_err();
    assert!(matches!(error, ExecuteError::Internal(InternalError::State(StateError::Corrupt(_)))));
    // alloy-evm takes a failed read for a failed system call, but this error is still about the
    // machine.
    let mut broken = contract(SystemContracts::default().withdrawals, bytes!("0000"), &[]);
    broken.code = None;
    let error = World::at(Fork::Prague, vec![broken]).run(&[]).unwrap_err();
    assert!(matches!(error, ExecuteError::Internal(InternalError::State(_))));
}

#[test]
fn code_that_looks_like_a_delegation_is_one_from_prague_on() {
    // The first code is a delegation to a contract that stores 1 at slot 0; the second is one byte
    // too long.
    let code = bytes!("600160005500");
    let delegation = [&[0xef, 0x01, 0x00][..], CONTRACT.as_slice()].concat();
    let longer = [&delegation[..], &[0]].concat();
    for (fork, code_of_nobody, expected) in [
        (Fork::Prague, &delegation, 1),
        (Fork::Prague, &longer, 0),
        (Fork::Cancun, &delegation, 0),
        (Fork::Byzantium, &longer, 0),
    ] {
        let delegating = contract(NOBODY, Bytes::from(code_of_nobody.clone()), &[]);
        let accounts = vec![rich(), delegating, contract(CONTRACT, code.clone(), &[])];
        let (executed, state) = World::at(fork, accounts).run(&[send(0, NOBODY, 0)]).unwrap();
        assert_eq!(executed.receipts[0].status(), expected == 1, "{fork}");
        assert_eq!(state.slot(&NOBODY, &U256::ZERO), U256::from(expected), "{fork}");
    }
}

/// A change of branch may lead to a block before Prague, and the executor keeps what it knows of codes.
#[test]
fn a_delegation_that_is_kept_is_plain_code_in_a_block_before_prague() {
    // The contract to which the code delegates stores 1 at slot 0.
    let delegation = Bytes::from([&[0xef_u8, 0x01, 0x00][..], CONTRACT.as_slice()].concat());
    let mut executor = Executor::new(1 << 20);
    for (fork, expected) in [(Fork::Prague, U256::ONE), (Fork::Cancun, U256::ZERO)] {
        let delegating = contract(NOBODY, delegation.clone(), &[]);
        let accounts = vec![rich(), delegating, contract(CONTRACT, bytes!("600160005500"), &[])];
        let world = World::at(fork, accounts);
        let mut session = world.session();
        let transactions = [send(0, NOBODY, 0)];
        let block = BlockToExecute {
            transactions: &transactions,
            senders: Senders::known(&[SENDER]),
            ..BlockToExecute::to_fill(&world.header, None)
        };
        executor.execute_block(&mut session, world.rules(), &|_| None, block).unwrap();
        assert_eq!(session.slot(&NOBODY, &U256::ZERO).unwrap(), expected, "{fork}");
    }
}
