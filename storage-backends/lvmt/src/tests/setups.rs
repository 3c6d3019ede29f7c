//! Tests of setups that do not fit, and of options.

use super::{Chain, account, address, setup};
use crate::{LvmtLayer, LvmtOptions, Proofs, verify};
use polytrie_amt::{PowersOfTau, Setup};
use polytrie_state::{Prove, StateError, StateLayer};
use std::sync::Arc;

#[test]
fn a_state_belongs_to_its_setup() {
    let mut chain = Chain::new(setup(4, "one"));
    chain.block(vec![account(1, 1, &[])]);
    let other = setup(4, "two");
    let options = LvmtOptions::default();
    let found = LvmtLayer::open(chain.store.clone(), other.clone(), options).unwrap_err();
    let text = found.to_string();
    assert!(text.contains(&other.id().to_string()), "{text}");
    assert!(text.contains(&chain.setup.id().to_string()), "{text}");
    assert_eq!(crate::stored_setup(&chain.store).unwrap(), Some(chain.setup.id()));

    let proof = chain.prove(1, &[]);
    let found = verify(other.key(), &chain.layer.commitment(), &proof).unwrap_err();
    assert!(found.to_string().contains("all three must be the same"), "{found}");
    assert!(chain.verify(&proof).unwrap().insecure);
}

#[test]
fn proofs_take_tables() {
    let powers = PowersOfTau::insecure_dev(4, "one").unwrap();
    let bare = Arc::new(Setup::derive(&powers, false, &mut |_| {}));
    let mut chain = Chain::new(setup(4, "one"));
    chain.block(vec![account(1, 1, &[])]);
    let open = |setup: &Arc<Setup>, proofs| {
        LvmtLayer::open(
            chain.store.clone(),
            setup.clone(),
            LvmtOptions { proofs, ..LvmtOptions::default() },
        )
    };
    for proofs in [Proofs::OnRequest, Proofs::Full, Proofs::Shard { shard: 1, of: 2 }] {
        assert!(matches!(open(&bare, proofs), Err(StateError::Unsupported { .. })));
    }
    let layer = open(&bare, Proofs::None).unwrap();
    assert_eq!(layer.commitment(), chain.layer.commitment());
    assert!(matches!(layer.prove(&address(1), &[]), Err(StateError::Unsupported { .. })));
}

#[test]
fn options_are_read_as_they_are_written() {
    for text in ["none", "on-request", "full", "3/16", "65536/65536"] {
        assert_eq!(text.parse::<Proofs>().unwrap().to_string(), text);
    }
    assert_eq!("1/1".parse(), Ok(Proofs::Full));
    for wrong in ["", "all", "0/4", "5/4", "1/3", "1/131072", "1/", "-1/4"] {
        assert!(wrong.parse::<Proofs>().unwrap_err().contains("none"), "{wrong}");
    }
}
