//! Tests of senders without a key.

use super::*;

#[test]
fn anybody_can_be_impersonated() {
    let node = node(LAYERS[0].name);
    set_balance(&node, SOMEBODY, U256::from(ETHER));
    let code = Bytes::from_static(&[0]);
    node.cheat(&[SOMEBODY], |cheats| cheats.set_code(SOMEBODY, code)).unwrap();
    let tx = TxEip1559 {
        chain_id: 1337,
        gas_limit: 21_000,
        max_fee_per_gas: 2_000_000_000,
        to: TxKind::Call(Address::repeat_byte(5)),
        value: U256::from(3),
        ..Default::default()
    };
    let tx = PoolTransaction::local(impersonate(tx.into(), SOMEBODY)).unwrap();
    node.submit(tx).unwrap();
    let header = node.mine(MineOptions::default()).unwrap().unwrap();
    assert_eq!(node.balance(&Address::repeat_byte(5)).unwrap(), U256::from(3));
    let block = node.db().block(header.number).unwrap().unwrap();
    assert_eq!(sender_of(&block.body.transactions[0]).unwrap(), SOMEBODY);
}

/// No block could include such a transaction, so it would block its sender forever.
#[test]
fn who_is_impersonated_keeps_the_rules_of_transactions() {
    let node = node(LAYERS[0].name);
    let tx = TxEip1559 {
        chain_id: 1337,
        gas_limit: MAX_TX_GAS_LIMIT_OSAKA + 1,
        max_fee_per_gas: 2_000_000_000,
        to: TxKind::Call(SOMEBODY),
        ..Default::default()
    };
    let sender = node.accounts().addresses()[0];
    let tx = PoolTransaction::local(impersonate(tx.into(), sender)).unwrap();
    let error = node.submit(tx).unwrap_err();
    assert!(matches!(error, NodeError::Pool(PoolError::Invalid(_))), "{error}");
    assert!(node.pool().is_empty());
}

/// A nonce may rise by more than one for each transaction of a sender.
#[test]
fn what_follows_nonces_that_others_have_raised_is_mined() {
    let node = node(LAYERS[0].name);
    let [alice, bob] = [0, 1].map(|index| node.accounts().addresses()[index]);
    let authorize = |authority: &Address, nonce: u64| {
        let authorization = Authorization { chain_id: U256::from(1337), address: SOMEBODY, nonce };
        let hash = authorization.signature_hash();
        authorization.into_signed(node.accounts().sign(authority, &hash).unwrap())
    };
    // The transaction has an authorization of its own sender and one of another account.
    let tx: TypedTransaction = TxEip7702 {
        chain_id: 1337,
        gas_limit: 200_000,
        max_fee_per_gas: 2_000_000_000,
        max_priority_fee_per_gas: 1,
        to: SOMEBODY,
        authorization_list: vec![authorize(&alice, 1), authorize(&bob, 0)],
        ..Default::default()
    }
    .into();
    let signature = node.accounts().sign(&alice, &tx.signature_hash()).unwrap();
    let tx = PoolTransaction::signed(tx.into_envelope(signature)).unwrap();
    assert!(node.submit(tx).unwrap().pending);
    assert!(!node.submit(transfer(&node, 0, 2, 5)).unwrap().pending);
    assert!(!node.submit(transfer(&node, 1, 1, 6)).unwrap().pending);
    node.mine(MineOptions::default()).unwrap().unwrap();
    assert_eq!([alice, bob].map(|address| node.account(&address).unwrap().nonce), [2, 1]);
    assert_eq!(node.pool().status(), (2, 0));
    node.mine(MineOptions::default()).unwrap().unwrap();
    assert_eq!(node.balance(&SOMEBODY).unwrap(), U256::from(11));
}

#[test]
fn what_follows_the_creations_of_an_impersonated_contract_is_mined() {
    let node = node(LAYERS[0].name);
    set_balance(&node, SOMEBODY, U256::from(ETHER));
    // The code runs CREATE with three zeros, which creates an empty contract.
    let code = Bytes::from_static(&[0x5f, 0x5f, 0x5f, 0xf0]);
    node.cheat(&[SOMEBODY], |cheats| cheats.set_code(SOMEBODY, code)).unwrap();
    let call = |nonce: u64, to: Address| {
        let tx = TxEip1559 {
            chain_id: 1337,
            nonce,
            gas_limit: 200_000,
            max_fee_per_gas: 2_000_000_000,
            to: TxKind::Call(to),
            value: U256::from(nonce),
            ..Default::default()
        };
        PoolTransaction::local(impersonate(tx.into(), SOMEBODY)).unwrap()
    };
    node.submit(call(0, SOMEBODY)).unwrap();
    assert!(!node.submit(call(2, Address::repeat_byte(5))).unwrap().pending);
    node.mine(MineOptions::default()).unwrap().unwrap();
    assert_eq!(node.account(&SOMEBODY).unwrap().nonce, 2);
    node.mine(MineOptions::default()).unwrap().unwrap();
    assert_eq!(node.balance(&Address::repeat_byte(5)).unwrap(), U256::from(2));
    assert!(node.pool().is_empty());
}
