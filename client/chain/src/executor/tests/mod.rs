#![expect(clippy::unwrap_used, reason = "tests")]

mod codes;
mod dao;
mod hints;
mod system;

use super::{
    sandbox::{NoObserver, Replay, Sandbox, TraceError, run_ahead},
    *,
};
use alloy_consensus::{
    Eip658Value, Header, Signed, TxEip1559, TxEip7702, TxEnvelope, TxLegacy, TxReceipt,
};
use alloy_eips::{
    eip4895::Withdrawal,
    eip7702::{Authorization, SignedAuthorization},
    eip8282::{BUILDER_DEPOSIT_CONTRACT_ADDRESS, BUILDER_EXIT_CONTRACT_ADDRESS},
};
use alloy_evm::eth::dao_fork::{DAO_HARDFORK_ACCOUNTS, DAO_HARDFORK_BENEFICIARY};
use alloy_hardforks::{EthereumHardfork as Fork, ForkCondition};
use alloy_primitives::{
    Address, B256, Bytes, KECCAK256_EMPTY, Signature, TxKind, U256, address, bytes, keccak256,
};
use polytrie_chainspec::{ChainSpec, Forks};
use polytrie_kv::Store;
use polytrie_state::{
    Account, BlockRef, GenesisAccount, GenesisSlots, Session, StateError, StateLayer, hash_slot,
};
use polytrie_testing::{Oracle, OracleLayer};
use revm::DatabaseRef;
use std::sync::Arc;

const ETHER: u128 = 1_000_000_000_000_000_000;
const SENDER: Address = address!("0x00000000000000000000000000000000000000aa");
const CONTRACT: Address = address!("0x00000000000000000000000000000000000000bb");
const MINER: Address = address!("0x00000000000000000000000000000000000000ee");
const NOBODY: Address = address!("0x00000000000000000000000000000000000000ff");

/// A chain with one fork schedule, and a state to run a block on.
struct World {
    spec: ChainSpec,
    layer: Arc<OracleLayer>,
    header: Header,
    /// Whether the session computes the state roots between transactions.
    roots: bool,
}

impl World {
    fn new(forks: Forks, accounts: Vec<GenesisAccount<'_>>) -> Self {
        let merged = forks.terminal_total_difficulty().is_some();
        let spec = ChainSpec::with_forks("test", 1, forks, Header::default(), []);
        let layer = OracleLayer::open(Store::memory(OracleLayer::TABLES).unwrap()).unwrap();
        let mut accounts = accounts;
        accounts.sort_by_key(|account| account.hash);
        layer.load(&mut accounts.into_iter().map(Ok)).unwrap();
        let mut header = Header {
            number: 1,
            timestamp: 1,
            beneficiary: MINER,
            gas_limit: 10_000_000,
            base_fee_per_gas: Some(0),
            ..Header::default()
        };
        if merged {
            header.excess_blob_gas = Some(0);
            header.parent_beacon_block_root = Some(B256::ZERO);
        }
        Self { spec, layer, header, roots: false }
    }

    /// Returns a chain with every fork up to this one, and with the contracts that a block of this
    /// fork needs.
    fn at(fork: Fork, mut accounts: Vec<GenesisAccount<'_>>) -> Self {
        let SystemContracts { withdrawals, consolidations, .. } = SystemContracts::default();
        for (since, address) in [
            (Fork::Prague, withdrawals),
            (Fork::Prague, consolidations),
            (Fork::Amsterdam, BUILDER_DEPOSIT_CONTRACT_ADDRESS),
            (Fork::Amsterdam, BUILDER_EXIT_CONTRACT_ADDRESS),
        ] {
            let hash = keccak256(address);
            if fork >= since && accounts.iter().all(|account| account.hash != hash) {
                accounts.push(contract(address, bytes!("00"), &[]));
            }
        }
        Self::new(Forks::up_to(fork), accounts)
    }

    fn session(&self) -> Session {
        let parent = BlockRef { number: 0, hash: B256::ZERO };
        let session = Session::begin(&*self.layer, parent).unwrap();
        if self.roots { session.with_intermediate_roots() } else { session }
    }

    fn rules(&self) -> polytrie_chainspec::Rules<'_> {
        let merged = self.spec.is_merged_after(U256::ZERO);
        self.spec.rules(self.header.number, self.header.timestamp, merged)
    }

    /// Returns a block of these transactions and senders.
    fn block<'a>(
        &'a self,
        transactions: &'a [TxEnvelope],
        senders: &'a [Address],
    ) -> BlockToExecute<'a> {
        BlockToExecute {
            coinbase: None,
            transactions,
            senders: Senders::known(senders),
            ..BlockToExecute::to_fill(&self.header, None)
        }
    }

    fn run(&self, transactions: &[TxEnvelope]) -> Result<(Executed, Oracle), ExecuteError> {
        self.run_with(transactions, &[], None)
    }

    fn run_with(
        &self,
        transactions: &[TxEnvelope],
        ommers: &[Header],
        withdrawals: Option<&[Withdrawal]>,
    ) -> Result<(Executed, Oracle), ExecuteError> {
        let mut session = self.session();
        let senders = vec![SENDER; transactions.len()];
        let block = BlockToExecute { ommers, withdrawals, ..self.block(transactions, &senders) };
        let hashes = |_| None;
        let executed =
            Executor::new(1 << 20).execute_block(&mut session, self.rules(), &hashes, block)?;
        let mut state = (*self.layer.state()).clone();
        let finished = session.finish().unwrap();
        state.apply_set(&finished.writes);
        assert_eq!(finished.outcome.commitment.as_state_root(), Some(state.state_root()));
        Ok((executed, state))
    }

    fn invalid(&self, transactions: &[TxEnvelope]) -> BlockInvalid {
        match self.run(transactions) {
            Err(ExecuteError::Invalid(error)) => error,
            other => panic!("expected an invalid block, found {other:?}"),
        }
    }
}

fn account(address: Address, balance: u128) -> GenesisAccount<'static> {
    GenesisAccount {
        hash: keccak256(address),
        account: Account { balance: U256::from(balance), ..Account::default() },
        code: None,
        slots: GenesisSlots::default(),
    }
}

fn contract(address: Address, code: Bytes, slots: &[(u64, u64)]) -> GenesisAccount<'static> {
    let mut slots: Vec<_> = slots
        .iter()
        .map(|(slot, value)| (hash_slot(&U256::from(*slot)), U256::from(*value)))
        .collect();
    slots.sort_unstable();
    let code_hash = if code.is_empty() { KECCAK256_EMPTY } else { keccak256(&code) };
    let nonce = u64::from(!code.is_empty());
    GenesisAccount {
        hash: keccak256(address),
        account: Account { nonce, balance: U256::ZERO, code_hash },
        code: Some(code),
        slots: slots.into(),
    }
}

fn legacy(nonce: u64, to: TxKind, value: u128, input: Bytes) -> TxEnvelope {
    let tx = TxLegacy {
        chain_id: None,
        nonce,
        gas_price: 1,
        gas_limit: 1_000_000,
        to,
        value: U256::from(value),
        input,
    };
    TxEnvelope::Legacy(Signed::new_unhashed(tx, Signature::test_signature()))
}

fn send(nonce: u64, to: Address, value: u128) -> TxEnvelope {
    legacy(nonce, TxKind::Call(to), value, Bytes::new())
}

fn rich() -> GenesisAccount<'static> {
    account(SENDER, 1000 * ETHER)
}

#[test]
fn a_transfer_pays_everyone_their_due() {
    let world = World::at(Fork::Byzantium, vec![rich()]);
    let (executed, state) = world.run(&[send(0, NOBODY, ETHER)]).unwrap();
    assert_eq!(executed.gas_used, 21_000);
    assert_eq!(executed.receipts.len(), 1);
    assert!(executed.receipts[0].status());
    assert!(executed.receipts_comparable);
    assert_eq!(executed.requests, None);
    let balance = |address| state.account(&address).unwrap().balance;
    assert_eq!(balance(NOBODY), U256::from(ETHER));
    assert_eq!(balance(MINER), U256::from(3 * ETHER + 21_000));
    assert_eq!(balance(SENDER), U256::from(999 * ETHER - 21_000));
}

#[test]
fn rewards_are_those_of_the_fork_and_of_the_ommers_age() {
    let ommer = |number| Header { number, beneficiary: NOBODY, ..Header::default() };
    for (fork, reward) in [
        (Fork::Frontier, 5 * ETHER),
        (Fork::SpuriousDragon, 5 * ETHER),
        (Fork::Byzantium, 3 * ETHER),
        (Fork::Constantinople, 2 * ETHER),
        (Fork::London, 2 * ETHER),
    ] {
        let mut world = World::at(fork, vec![]);
        world.header.number = 9;
        let (_, state) = world.run_with(&[], &[ommer(8), ommer(2)], None).unwrap();
        let balance = |address| state.account(&address).unwrap().balance;
        assert_eq!(balance(MINER), U256::from(reward + reward / 16), "{fork}");
        assert_eq!(balance(NOBODY), U256::from(reward * 7 / 8 + reward / 8), "{fork}");
    }
    let (_, state) = World::at(Fork::Shanghai, vec![]).run(&[]).unwrap();
    assert_eq!(state.account(&MINER), None);
}

#[test]
fn an_ommer_out_of_range_is_refused_before_it_is_rewarded() {
    let mut world = World::at(Fork::Byzantium, vec![]);
    world.header.number = 20;
    for number in [0, 12, 20, 21, u64::MAX] {
        let ommer = Header { number, ..Header::default() };
        let error = world.run_with(&[], &[ommer], None).unwrap_err();
        let expected = BlockInvalid::OmmerNumber { found: number, number: 20 };
        assert!(matches!(error, ExecuteError::Invalid(found) if found == expected));
    }
    assert!(world.run_with(&[], &[Header { number: 13, ..Header::default() }], None).is_ok());
}

#[test]
fn what_runs_ahead_loads_what_its_turn_loads_and_leaves_nothing_behind() {
    // PUSH1 5 SLOAD POP PUSH1 1 PUSH1 6 SSTORE STOP
    let reads_and_writes = contract(CONTRACT, bytes!("60055450600160065500"), &[(5, 7)]);
    let world = World::at(Fork::Cancun, vec![rich(), reads_and_writes]);
    let sandbox = || Sandbox::new(world.layer.reader().unwrap(), Arc::new(|_: u64| None));
    let names = |state: &revm::state::EvmState| {
        let mut names: Vec<_> = state
            .iter()
            .map(|(address, account)| {
                let mut slots: Vec<_> = account.storage.keys().copied().collect();
                slots.sort_unstable();
                (*address, slots)
            })
            .collect();
        names.sort_unstable();
        names
    };
    let (mut ahead, mut turn) = (sandbox(), sandbox());
    // The earlier transactions have not run, so the nonce is not that of the account.
    let guess = run_ahead(&mut ahead, &world.header, world.rules(), &send(9, CONTRACT, 0), SENDER);
    let guess = guess.unwrap().unwrap();
    let slots = [5, 6].map(U256::from).to_vec();
    assert_eq!(names(&guess), [(SENDER, vec![]), (CONTRACT, slots), (MINER, vec![])]);
    assert_eq!(ahead.slot(&CONTRACT, &U256::from(6)).unwrap(), U256::ZERO);
    let mut replay = Replay::begin(&mut turn, &world.header, world.rules()).unwrap();
    assert_eq!(names(&replay.loads(&send(0, CONTRACT, 0), SENDER).unwrap()), names(&guess));
    assert_eq!(turn.slot(&CONTRACT, &U256::from(6)).unwrap(), U256::ONE);
    // No account could pay for this transaction.
    let priceless =
        TxLegacy { gas_price: 1, gas_limit: 21_000, value: U256::MAX, ..TxLegacy::default() };
    let priceless = Signed::new_unhashed(priceless, Signature::test_signature()).into();
    let refused = run_ahead(&mut ahead, &world.header, world.rules(), &priceless, SENDER);
    assert!(refused.unwrap().is_none());
}

#[test]
fn before_byzantium_a_receipt_holds_the_root_if_the_layer_gives_it() {
    let mut world = World::at(Fork::SpuriousDragon, vec![rich()]);
    let transactions = [send(0, NOBODY, 1), send(1, NOBODY, 2)];
    let (executed, _) = world.run(&transactions).unwrap();
    assert!(!executed.receipts_comparable);
    assert!(executed.receipts[0].status());

    world.roots = true;
    let (executed, state) = world.run(&transactions).unwrap();
    assert!(executed.receipts_comparable);
    let roots: Vec<_> = executed
        .receipts
        .iter()
        .map(|receipt| match receipt.status_or_post_state() {
            Eip658Value::PostState(root) => root,
            Eip658Value::Eip658(_) => panic!("no root"),
        })
        .collect();
    // After the second transaction only the reward follows.
    let mut before_reward = state.clone();
    let mut miner = state.account(&MINER).unwrap();
    miner.balance -= U256::from(5 * ETHER);
    before_reward.insert(GenesisAccount { account: miner, ..account(MINER, 0) }).unwrap();
    assert_eq!(roots[1], before_reward.state_root());
    assert_ne!(roots[0], roots[1]);
}

#[test]
fn touching_an_empty_account_removes_it_from_spurious_dragon_on() {
    for (fork, expected) in
        [(Fork::Tangerine, Some(Account::default())), (Fork::SpuriousDragon, None)]
    {
        let world = World::at(fork, vec![rich(), account(NOBODY, 0)]);
        let (_, state) = world.run(&[send(0, NOBODY, 0), send(1, CONTRACT, 0)]).unwrap();
        // One account existed and the other did not: before EIP-161 a touch creates an account.
        assert_eq!(state.account(&NOBODY), expected, "{fork}");
        assert_eq!(state.account(&CONTRACT), expected, "{fork}");
    }
}

#[test]
fn what_is_destroyed_is_gone_with_its_storage() {
    // SELFDESTRUCT to the caller.
    let code = bytes!("33ff");
    let world = World::at(Fork::Byzantium, vec![rich(), contract(CONTRACT, code, &[(1, 1)])]);
    let (_, state) = world.run(&[send(0, CONTRACT, 5)]).unwrap();
    assert_eq!(state.account(&CONTRACT), None);
    assert!(!state.has_storage(&CONTRACT));
    // Ether that is sent to its address later in the block creates a new account.
    let (_, state) = world.run(&[send(0, CONTRACT, 5), send(1, CONTRACT, 6)]).unwrap();
    let expected = Account { balance: U256::from(6), ..Account::default() };
    assert_eq!(state.account(&CONTRACT), Some(expected));
    assert!(!state.has_storage(&CONTRACT));
}

#[test]
fn created_code_and_slots_reach_the_state_and_can_be_called_in_the_same_block() {
    // Stores 1 at slot 0 and deploys code that adds one to it: PUSH9 code, MSTORE, RETURN(23, 9).
    let code = bytes!("600054600101600055");
    let init = [&bytes!("600160005568")[..], &code, &bytes!("60005260096017f3")].concat().into();
    let world = World::at(Fork::Cancun, vec![rich()]);
    let address = SENDER.create(0);
    let create = legacy(0, TxKind::Create, 0, init);
    let (executed, state) = world.run(&[create, send(1, address, 0)]).unwrap();
    assert!(executed.receipts.iter().all(TxReceipt::status));
    let created = state.account(&address).unwrap();
    assert_eq!((created.nonce, created.code_hash), (1, keccak256(&code)));
    assert_eq!(state.codes()[&created.code_hash], code);
    assert_eq!(state.slot(&address, &U256::ZERO), U256::from(2));
}

#[test]
fn a_transaction_that_cannot_be_included_says_which_and_why() {
    let world = World::at(Fork::London, vec![rich()]);
    let bad = send(7, NOBODY, 1);
    let hash = *bad.tx_hash();
    let error = world.invalid(&[send(0, NOBODY, 1), bad]);
    let BlockInvalid::Transaction { index: 1, hash: found, reason } = error else {
        panic!("{error}")
    };
    assert_eq!(found, hash);
    assert!(reason.contains("nonce"), "{reason}");
    // The value is more than the sender has.
    assert!(matches!(
        world.invalid(&[send(0, NOBODY, 2000 * ETHER)]),
        BlockInvalid::Transaction { index: 0, .. }
    ));
    // The fork does not have this type.
    let typed = TxEip1559 { chain_id: 1, gas_limit: 21_000, ..TxEip1559::default() };
    let typed = TxEnvelope::Eip1559(Signed::new_unhashed(typed, Signature::test_signature()));
    let world = World::at(Fork::Berlin, vec![rich()]);
    assert!(matches!(world.invalid(&[typed]), BlockInvalid::Transaction { index: 0, .. }));
}

#[test]
fn a_transaction_must_fit_into_what_is_left_of_the_block() {
    let mut world = World::at(Fork::Byzantium, vec![rich()]);
    world.header.gas_limit = 1_010_000;
    let transactions = [send(0, NOBODY, 1), send(1, NOBODY, 1)];
    let expected = BlockInvalid::TransactionGas {
        index: 1,
        hash: *transactions[1].tx_hash(),
        gas_limit: 1_000_000,
        available: 989_000,
    };
    assert_eq!(world.invalid(&transactions), expected);
}

#[test]
fn a_header_without_what_the_evm_needs_is_invalid() {
    let mut world = World::at(Fork::Cancun, vec![]);
    world.header.excess_blob_gas = None;
    assert!(matches!(
        world.invalid(&[]),
        BlockInvalid::MissingField { field: "excess blob gas", .. }
    ));
    let mut world = World::at(Fork::Cancun, vec![]);
    world.header.parent_beacon_block_root = None;
    assert!(matches!(world.invalid(&[]), BlockInvalid::MissingField { fork: "Cancun", .. }));
    let mut world = World::at(Fork::London, vec![]);
    world.header.base_fee_per_gas = None;
    assert!(matches!(world.invalid(&[]), BlockInvalid::MissingField { field: "base fee", .. }));
}

/// Hashes of which one is not known, and one cannot be read.
struct Hashes;

impl BlockHashes for Hashes {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        match number {
            298 => Err(StateError::Corrupt("on purpose".to_owned())),
            number => Ok((number != 299).then(|| B256::repeat_byte(number as u8))),
        }
    }
}

#[test]
fn blockhash_asks_for_the_last_256_ancestors_only() {
    // The code stores BLOCKHASH of the number in the input at slot 0.
    let code = bytes!("60003540600055");
    let mut world = World::at(Fork::Byzantium, vec![rich(), contract(CONTRACT, code, &[])]);
    world.header.number = 300;
    let ask = |number: u64| {
        let input = U256::from(number).to_be_bytes_vec().into();
        let transactions = [legacy(0, TxKind::Call(CONTRACT), 0, input)];
        let block = world.block(&transactions, &[SENDER]);
        let mut session = world.session();
        let result = Executor::new(0).execute_block(&mut session, world.rules(), &Hashes, block);
        result.map(|_| session.slot(&CONTRACT, &U256::ZERO).unwrap())
    };
    assert_eq!(ask(44).unwrap(), U256::from_be_bytes([44; 32]));
    for number in [43, 300, 301] {
        assert_eq!(ask(number).unwrap(), U256::ZERO);
    }
    let missing = ask(299).unwrap_err();
    assert!(matches!(
        missing,
        ExecuteError::Internal(InternalError::MissingBlockHash { number: 299 })
    ));
    // A hash that cannot be read is not one that is not known, which is zero in a sandbox.
    let is_of_state =
        |error: InternalError| matches!(error, InternalError::State(StateError::Corrupt(_)));
    let ExecuteError::Internal(unreadable) = ask(298).unwrap_err() else { panic!() };
    assert!(is_of_state(unreadable));
    let sandbox = Sandbox::new(world.layer.reader().unwrap(), Arc::new(Hashes));
    assert_eq!(sandbox.block_hash_ref(299).unwrap(), B256::ZERO);
    assert!(is_of_state(sandbox.block_hash_ref(298).unwrap_err()));
}

#[test]
fn senders_must_match_transactions() {
    let world = World::at(Fork::Byzantium, vec![]);
    let block = world.block(&[], &[SENDER]);
    let mut session = world.session();
    let error =
        Executor::new(0).execute_block(&mut session, world.rules(), &|_| None, block).unwrap_err();
    let ExecuteError::Internal(error) = error else { panic!("{error}") };
    assert_eq!(error.to_string(), "found 1 senders for 0 transactions");
}

#[test]
fn a_block_can_be_built_around_a_transaction_that_does_not_fit() {
    let world = World::at(Fork::London, vec![rich()]);
    let mut session = world.session();
    let mut executor = Executor::new(0);
    let hashes = |_| None;
    let block = BlockToExecute::to_fill(&world.header, None);
    let mut run = executor.begin(&mut session, world.rules(), &hashes, block).unwrap();
    let first = run.transact(&send(0, NOBODY, 1), SENDER).unwrap();
    assert_eq!(first, Included { gas_used: 21_000, ..Included::default() });
    let refused = run.transact(&send(9, NOBODY, 1), SENDER).unwrap_err();
    assert!(matches!(refused, ExecuteError::Invalid(BlockInvalid::Transaction { index: 1, .. })));
    run.transact(&send(1, NOBODY, 1), SENDER).unwrap();
    assert_eq!(run.gas_used(), 42_000);
    assert_eq!(run.receipts().len(), 2);
    let executed = run.finish().unwrap();
    assert_eq!(executed.gas_used, 42_000);
    assert_eq!(session.account(&NOBODY).unwrap().unwrap().balance, U256::from(2));
}

/// Before Amsterdam gas has one dimension.
#[test]
fn gas_that_is_left_is_that_of_the_scarcer_kind() {
    for (fork, has_kinds) in [(Fork::Osaka, false), (Fork::Amsterdam, true)] {
        // The code stores 1 at slot 0.
        let accounts = vec![rich(), contract(CONTRACT, bytes!("600160005500"), &[])];
        let world = World::at(fork, accounts);
        let mut session = world.session();
        let mut executor = Executor::new(0);
        let hashes = |_| None;
        let block = BlockToExecute::to_fill(&world.header, None);
        let mut run = executor.begin(&mut session, world.rules(), &hashes, block).unwrap();
        run.transact(&send(0, CONTRACT, 0), SENDER).unwrap();
        let (left, by_sum) = (run.gas_left(), world.header.gas_limit - run.gas_used());
        assert_eq!(left > by_sum, has_kinds, "{fork}: {left} of which {by_sum} by the sum");
    }
}

#[test]
fn creation_fails_on_storage_in_every_fork() {
    for fork in [Fork::Frontier, Fork::SpuriousDragon, Fork::Constantinople, Fork::Cancun] {
        let address = SENDER.create(0);
        let world = World::at(fork, vec![rich(), contract(address, Bytes::new(), &[(3, 4)])]);
        let (executed, state) = world.run(&[legacy(0, TxKind::Create, 0, bytes!("00"))]).unwrap();
        assert_eq!(executed.gas_used, 1_000_000, "{fork}");
        assert_eq!(state.slot(&address, &U256::from(3)), U256::from(4), "{fork}");
    }
}

#[test]
fn constantinople_alone_charges_sstore_net() {
    // SSTORE(0, 1), SSTORE(0, 0)
    let code = bytes!("60016000556000600055");
    for (fork, gas) in [
        (Fork::Byzantium, 25_012 - 15_000),
        (Fork::Constantinople, 20_212 - 19_800),
        (Fork::Petersburg, 25_012 - 15_000),
    ] {
        let world = World::at(fork, vec![rich(), contract(CONTRACT, code.clone(), &[])]);
        let (executed, _) = world.run(&[send(0, CONTRACT, 0)]).unwrap();
        assert_eq!(executed.gas_used, 21_000 + gas, "{fork}");
    }
}
