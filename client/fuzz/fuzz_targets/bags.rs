//! Target for what prefetchers send: any bytes as frames, or the bag of a block with changes by the fuzzer's bytes.
//!
//! A frame that is read encodes to its bytes again. Whatever nodes a layer is offered, a block on it reads the values of
//! the state and leads to the right state root.

#![no_main]

use alloy_primitives::{Address, B256, Bytes, U256};
use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use polytrie::{
    layers::{self, LayerOptions},
    prefetch::{bag_frame, read_frame},
};
use polytrie_kv::Store;
use polytrie_state::{
    Access, Account, AccountChange, BagNode, BlockRef, Commitment, GenesisAccount, GenesisSlots,
    Session, StateLayer, TxWrites, hash_address, hash_slot,
};
use std::{
    ops::ControlFlow,
    sync::{Arc, LazyLock},
};

/// Kind of the frame with a text. Control characters in it are replaced.
const TEXT: u8 = 2;
/// Number of addresses that the block reads.
const ADDRESSES: u64 = 1_000;
/// Second nibbles of the hashes of those addresses that have accounts. So the first branch of each shard has children at
/// these nibbles only, which are hardly ever leaves.
const NIBBLES: [u8; 3] = [1, 5, 9];
/// Number of slots that the block reads of each account with storage. Every second slot has a value.
const SLOTS: u64 = 40;
/// Most changes of one run.
const MOST: u8 = 4;

/// The addresses, each with whether it has an account.
static KEYS: LazyLock<Vec<(Address, bool)>> = LazyLock::new(|| {
    let key = |n: u64| {
        let address = Address::left_padding_from(&n.to_be_bytes());
        (address, NIBBLES.contains(&(hash_address(&address)[0] & 0x0f)))
    };
    (0..ADDRESSES).map(key).collect()
});

struct World {
    /// The state before the block.
    store: Store,
    /// The nodes that a prefetcher sends for the block.
    nodes: Vec<BagNode>,
    /// What the block leads to.
    commitment: Commitment,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let kind = layers::layer("rain").expect("the layer is in the build");
    let store = Store::memory(kind.tables).expect("memory does not fail");
    let there = (0..).zip(KEYS.iter()).filter(|(_, (_, is_there))| *is_there);
    let mut accounts: Vec<(B256, u64)> =
        there.map(|(n, (address, _))| (hash_address(address), n)).collect();
    accounts.sort_unstable();
    let mut accounts = accounts.into_iter().map(|(hash, n)| {
        Ok(GenesisAccount { hash, account: account(n), code: None, slots: slots(n) })
    });
    open(&store).load(&mut accounts).expect("memory does not fail");
    let mut accesses = Vec::new();
    for (n, (address, _)) in (0..).zip(KEYS.iter()) {
        accesses.push(Access::Account(*address));
        if has_storage(n) {
            let slots = (0..SLOTS).map(|slot| Access::SlotRead(*address, U256::from(slot)));
            accesses.extend(slots);
        }
    }
    let mut nodes = Vec::new();
    let mut take = |node| {
        nodes.push(node);
        ControlFlow::Continue(())
    };
    let layer = open(&store);
    let bags = layers::bags(&*layer).expect("the layer takes bags");
    bags.pack(&accesses, 0, &mut take).expect("memory does not fail");
    let commitment = run_block(&*layer);
    World { store, nodes, commitment }
});

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind % 4 {
        0 => frames(rest),
        _ => _ = changed(&mut Unstructured::new(rest)),
    }
});

/// Opens the layer with nothing in memory.
fn open(store: &Store) -> Arc<dyn StateLayer> {
    let kind = layers::layer("rain").expect("the layer is in the build");
    let opened = (kind.open)(store.clone().into(), &LayerOptions::default());
    opened.expect("the state is whole")
}

fn account(n: u64) -> Account {
    Account { nonce: n + 1, ..Account::default() }
}

fn has_storage(n: u64) -> bool {
    n.is_multiple_of(10)
}

/// The value of a slot; zero if it has none.
fn value(n: u64, slot: u64) -> u64 {
    if has_storage(n) && slot.is_multiple_of(2) { n + slot + 1 } else { 0 }
}

fn slots(n: u64) -> GenesisSlots<'static> {
    let all = (0..SLOTS).map(|slot| (hash_slot(&U256::from(slot)), U256::from(value(n, slot))));
    let mut slots: Vec<(B256, U256)> = all.filter(|(_, value)| !value.is_zero()).collect();
    slots.sort_unstable();
    slots.into()
}

/// Runs a block that reads all keys, and makes, changes and removes some. Returns what it leads to.
fn run_block(layer: &dyn StateLayer) -> Commitment {
    const NEVER: &str = "no node that is offered makes the layer fail";
    let parent = BlockRef { number: 0, hash: B256::ZERO };
    let mut session = Session::begin(layer, parent).expect(NEVER);
    let mut accounts = Vec::new();
    for (n, (address, is_there)) in (0..).zip(KEYS.iter()) {
        let found = session.account(address).expect(NEVER);
        assert_eq!(found, is_there.then(|| account(n)));
        let (mut slots, address) = (Vec::new(), *address);
        if *is_there && has_storage(n) {
            for slot in 0..SLOTS {
                let found = session.slot(&address, &U256::from(slot)).expect(NEVER);
                assert_eq!(found, U256::from(value(n, slot)));
                let after = if slot.is_multiple_of(4) { 0 } else { n + slot + 2 };
                slots.push((U256::from(slot), U256::from(after)));
            }
        }
        let (account, wiped) = match n % 3 {
            0 => (Some(account(n + 1)), false),
            1 if *is_there => (None, true),
            _ => continue,
        };
        if account.is_none() {
            slots.clear();
        }
        accounts.push(AccountChange { address, account, wiped, code: None, slots });
    }
    session.apply(&TxWrites { accounts }).expect(NEVER);
    let outcome = session.finish().expect(NEVER).outcome;
    let commitment = outcome.commitment.clone();
    outcome.discard().expect(NEVER);
    commitment
}

/// Runs the block on a layer that was offered these nodes for it.
fn offer(nodes: Vec<BagNode>) {
    let layer = open(&WORLD.store);
    layers::bags(&*layer).expect("the layer takes bags").offer(1, nodes);
    assert_eq!(run_block(&*layer), WORLD.commitment);
}

/// Reads frames up to the first that is none.
fn frames(mut bytes: &[u8]) {
    loop {
        let before = bytes;
        let frame = match read_frame(&mut bytes) {
            Ok(Some(frame)) => frame,
            Ok(None) => return,
            Err(error) => return assert!(!error.is_empty()),
        };
        let read = &before[..before.len() - bytes.len()];
        if read[4] == TEXT {
            let again = read_frame(&mut &frame.encoded[..]).expect("a frame was encoded");
            assert_eq!(again.map(|again| again.encoded), Some(frame.encoded));
        } else {
            assert_eq!(frame.encoded, read);
        }
        if let Some(nodes) = frame.nodes {
            offer(nodes);
        }
    }
}

/// Changes some nodes of the bag.
fn changed(bytes: &mut Unstructured<'_>) -> Result<()> {
    let mut nodes = WORLD.nodes.clone();
    for _ in 0..bytes.int_in_range(0..=MOST)? {
        let at = bytes.choose_index(nodes.len())?;
        change(&mut nodes[at], bytes)?;
    }
    let frame = bag_frame(nodes.clone());
    let read = read_frame(&mut &frame[..]).expect("a frame was encoded");
    assert_eq!(read.and_then(|frame| frame.nodes).as_ref(), Some(&nodes));
    offer(nodes);
    Ok(())
}

fn change(node: &mut BagNode, bytes: &mut Unstructured<'_>) -> Result<()> {
    let mut row = node.row.to_vec();
    let at = bytes.choose_index(row.len().max(1))?;
    match bytes.int_in_range(0..=7u8)? {
        0 => row.truncate(at),
        1 => row.insert(at, bytes.arbitrary()?),
        2 => {
            let nibble: u8 = bytes.int_in_range(0..=16)?;
            node.path = [&node.path[..], &[nibble]].concat().into();
        }
        3 => node.owner = Bytes::new(),
        4 => {
            if let Some(byte) = row.get_mut(at) {
                *byte = bytes.arbitrary()?;
            }
        }
        _ => row = cut(&row, bytes)?.unwrap_or(row),
    }
    node.row = row.into();
    Ok(())
}

/// Cuts the RLP of a branch without leaves into other children, so that the hash of the row stays as it is. `None` if the
/// row is no such branch.
fn cut(row: &[u8], bytes: &mut Unstructured<'_>) -> Result<Option<Vec<u8>>> {
    let [0, high, low, 0, 0, refs @ ..] = row else { return Ok(None) };
    let inner = u16::from_be_bytes([*high, *low]);
    let (mut rlp, mut refs) = (Vec::new(), refs);
    for n in 0..16 {
        if inner & (1 << n) == 0 {
            rlp.push(0x80);
            continue;
        }
        let Some((length, rest)) = refs.split_first() else { return Ok(None) };
        let Some((reference, rest)) = rest.split_at_checked(usize::from(*length)) else {
            return Ok(None);
        };
        if reference.len() == 32 {
            rlp.push(0xa0);
        }
        rlp.extend_from_slice(reference);
        refs = rest;
    }
    let (mut inner, mut children, mut rest) = (0u16, Vec::<u8>::new(), &rlp[..]);
    for n in 0..16 {
        let is_whole = bytes.ratio(3, 4)?;
        let length = match rest.first() {
            _ if n == 15 => rest.len(),
            Some(0xa0) if is_whole => 33,
            _ if is_whole => 1,
            _ => bytes.int_in_range(1..=31)?,
        };
        let (piece, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        let reference = match piece {
            [] => continue,
            [0x80] if is_whole => continue,
            [0xa0, hash @ ..] if hash.len() == 32 => hash,
            other => other,
        };
        inner |= 1 << n;
        children.push(reference.len() as u8);
        children.extend_from_slice(reference);
    }
    let mut row = vec![0];
    row.extend_from_slice(&inner.to_be_bytes());
    row.extend_from_slice(&[0, 0]);
    row.extend_from_slice(&children);
    Ok(Some(row))
}
