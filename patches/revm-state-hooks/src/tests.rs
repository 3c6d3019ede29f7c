//! Compares the EVM with hooks with the stock one.

#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_evm::{Evm, EvmEnv, eth::EthEvmBuilder};
use revm::{
    Database, DatabaseCommit, Inspector,
    bytecode::Bytecode,
    context::{BlockEnv, CfgEnv, TxEnv},
    context_interface::{
        DBErrorMarker,
        block::BlobExcessGasAndPrice,
        result::{ExecutionResult, HaltReason, ResultAndState},
    },
    database::{CacheDB, EmptyDB},
    interpreter::{CreateInputs, CreateOutcome, InstructionResult},
    primitives::{
        Address, AddressMap, B256, Bytes, TxKind, U256, address, bytes, hardfork::SpecId, keccak256,
    },
    state::{Account, AccountInfo},
};

use crate::{HookedEvm, StateHook};

const SENDER: Address = address!("0x00000000000000000000000000000000000000aa");
const CONTRACT: Address = address!("0x00000000000000000000000000000000000000bb");
const OTHER: Address = address!("0x00000000000000000000000000000000000000cc");

const SPECS: [SpecId; 15] = [
    SpecId::FRONTIER,
    SpecId::HOMESTEAD,
    SpecId::TANGERINE,
    SpecId::SPURIOUS_DRAGON,
    SpecId::BYZANTIUM,
    SpecId::PETERSBURG,
    SpecId::ISTANBUL,
    SpecId::BERLIN,
    SpecId::LONDON,
    SpecId::MERGE,
    SpecId::SHANGHAI,
    SpecId::CANCUN,
    SpecId::PRAGUE,
    SpecId::OSAKA,
    SpecId::AMSTERDAM,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Load(Address, u64),
    Store(Address, u64),
}

#[derive(Debug, thiserror::Error)]
#[error("the disk is on fire")]
struct Broken;

impl DBErrorMarker for Broken {}

/// A database in memory that records the calls of its hooks.
#[derive(Debug, Default, Clone)]
struct Map {
    inner: CacheDB<EmptyDB>,
    enabled: bool,
    broken: bool,
    seen: Vec<Seen>,
}

impl Map {
    fn with(accounts: &[(Address, Bytes, u64)]) -> Self {
        let mut map = Self { enabled: true, ..Self::default() };
        let rich = U256::from(10).pow(U256::from(24));
        map.inner.insert_account_info(SENDER, AccountInfo::from_balance(rich));
        for (address, code, nonce) in accounts {
            let info = AccountInfo::from_bytecode(Bytecode::new_raw(code.clone()));
            map.inner.insert_account_info(*address, info.with_nonce(*nonce));
        }
        map
    }

    fn set(mut self, address: Address, slot: u64, value: u64) -> Self {
        self.inner.insert_account_storage(address, U256::from(slot), U256::from(value)).unwrap();
        self
    }
}

impl Database for Map {
    type Error = Broken;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Broken> {
        Ok(self.inner.basic(address).unwrap())
    }

    fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, Broken> {
        Ok(self.inner.code_by_hash(hash).unwrap())
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, Broken> {
        Ok(self.inner.storage(address, slot).unwrap())
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Broken> {
        Ok(self.inner.block_hash(number).unwrap())
    }
}

impl DatabaseCommit for Map {
    fn commit(&mut self, changes: AddressMap<Account>) {
        self.inner.commit(changes);
    }
}

impl StateHook for Map {
    fn hooks_enabled(&self) -> bool {
        self.enabled
    }

    fn on_sload(&mut self, address: Address, slot: U256) {
        self.seen.push(Seen::Load(address, slot.to()));
    }

    fn on_sstore(&mut self, address: Address, slot: U256) {
        self.seen.push(Seen::Store(address, slot.to()));
    }

    fn has_storage(&mut self, address: Address) -> Result<bool, Broken> {
        if self.broken {
            return Err(Broken);
        }
        let account = self.inner.cache.accounts.get(&address);
        Ok(account.is_some_and(|account| account.storage.values().any(|value| !value.is_zero())))
    }
}

fn env(spec: SpecId) -> EvmEnv {
    let block = BlockEnv {
        number: U256::from(1),
        gas_limit: 30_000_000,
        prevrandao: Some(B256::ZERO),
        blob_excess_gas_and_price: Some(BlobExcessGasAndPrice {
            excess_blob_gas: 0,
            blob_gasprice: 1,
        }),
        ..BlockEnv::default()
    };
    EvmEnv::new(CfgEnv::new_with_spec(spec), block)
}

fn call(to: Address) -> TxEnv {
    TxEnv { caller: SENDER, kind: TxKind::Call(to), gas_limit: 1_000_000, ..TxEnv::default() }
}

fn run(map: &Map, spec: SpecId, tx: TxEnv) -> (ResultAndState, Vec<Seen>) {
    let mut evm = HookedEvm::new(map.clone(), env(spec));
    let result = evm.transact_raw(tx).unwrap();
    (result, evm.into_db().seen)
}

/// SSTORE(0, SLOAD(0) + 1), SLOAD(1), SSTORE(1, 0), SSTORE(2, 7), SSTORE(2, 7)
const BUSY: Bytes = bytes!("60005460010160005560015450600060015560076002556007600255" "00");
/// SLOAD(5), SSTORE(5, 1), then an invalid instruction
const FAILING: Bytes = bytes!("600554506001600555fe");
/// SSTORE on an empty stack
const UNDERFLOW: Bytes = bytes!("60015055");
/// SLOAD on an empty stack
const EMPTY_LOAD: Bytes = bytes!("54");

/// SSTORE(9, 1), call `to` with all gas, SLOAD(9)
fn calling(to: Address) -> Bytes {
    let mut code = bytes!("6001600955" "60006000600060006000").to_vec();
    code.push(0x73);
    code.extend_from_slice(to.as_slice());
    code.extend_from_slice(&bytes!("62030d40f150" "60095450" "00"));
    code.into()
}

#[test]
fn gas_and_results_are_those_of_the_stock_evm() {
    let programs = [BUSY, FAILING, UNDERFLOW, EMPTY_LOAD, calling(OTHER), calling(CONTRACT)];
    for spec in SPECS {
        for code in &programs {
            for gas_limit in [60_000, 100_000, 1_000_000] {
                let map = Map::with(&[(CONTRACT, code.clone(), 1), (OTHER, FAILING, 1)])
                    .set(CONTRACT, 0, 41)
                    .set(CONTRACT, 1, 5);
                let tx = TxEnv { gas_limit, ..call(CONTRACT) };
                let stock =
                    EthEvmBuilder::new(map.clone(), env(spec)).build().transact_raw(tx.clone());
                let stock = stock.map_err(|error| error.to_string());
                for enabled in [true, false] {
                    let map = Map { enabled, ..map.clone() };
                    let mut evm = HookedEvm::new(map, env(spec));
                    let hooked = evm.transact_raw(tx.clone()).map_err(|error| error.to_string());
                    assert_eq!(hooked, stock, "{spec:?}, {code}, hooks {enabled}");
                }
            }
        }
    }
}

#[test]
fn accesses_are_seen_in_order_and_those_of_a_failed_call_too() {
    let map = Map::with(&[(CONTRACT, calling(OTHER), 1), (OTHER, FAILING, 1)]);
    let (result, seen) = run(&map, SpecId::CANCUN, call(CONTRACT));
    assert!(result.result.is_success());
    let expected = [
        Seen::Store(CONTRACT, 9),
        Seen::Load(OTHER, 5),
        Seen::Store(OTHER, 5),
        Seen::Load(CONTRACT, 9),
    ];
    assert_eq!(seen, expected);
    assert!(!result.state[&OTHER].storage[&U256::from(5)].is_changed());
}

#[test]
fn nothing_is_seen_where_nobody_looks() {
    let map = Map { enabled: false, ..Map::with(&[(CONTRACT, BUSY, 1)]) };
    assert_eq!(run(&map, SpecId::CANCUN, call(CONTRACT)).1, []);
}

#[test]
fn an_empty_stack_has_nothing_to_tell() {
    for code in [EMPTY_LOAD, bytes!("55")] {
        let map = Map::with(&[(CONTRACT, code, 1)]);
        let (result, seen) = run(&map, SpecId::CANCUN, call(CONTRACT));
        assert!(result.result.is_halt());
        assert_eq!(seen, []);
    }
}

/// The examples of EIP-1283: code, value before, gas, refund.
const EIP_1283: [(Bytes, u64, u64, u64); 17] = [
    (bytes!("60006000556000600055"), 0, 412, 0),
    (bytes!("60006000556001600055"), 0, 20212, 0),
    (bytes!("60016000556000600055"), 0, 20212, 19800),
    (bytes!("60016000556002600055"), 0, 20212, 0),
    (bytes!("60016000556001600055"), 0, 20212, 0),
    (bytes!("60006000556000600055"), 1, 5212, 15000),
    (bytes!("60006000556001600055"), 1, 5212, 4800),
    (bytes!("60006000556002600055"), 1, 5212, 0),
    (bytes!("60026000556000600055"), 1, 5212, 15000),
    (bytes!("60026000556003600055"), 1, 5212, 0),
    (bytes!("60026000556001600055"), 1, 5212, 4800),
    (bytes!("60026000556002600055"), 1, 5212, 0),
    (bytes!("60016000556000600055"), 1, 5212, 15000),
    (bytes!("60016000556002600055"), 1, 5212, 0),
    (bytes!("60016000556001600055"), 1, 412, 0),
    (bytes!("600160005560006000556001600055"), 0, 40218, 19800),
    (bytes!("600060005560016000556000600055"), 1, 10218, 19800),
];

#[test]
fn eip_1283_charges_as_its_examples_say() {
    for (code, before, gas, refund) in EIP_1283 {
        for enabled in [true, false] {
            let map = Map::with(&[(CONTRACT, code.clone(), 1)]).set(CONTRACT, 0, before);
            let map = Map { enabled, ..map };
            let mut evm = HookedEvm::new(map, env(SpecId::PETERSBURG)).with_eip1283();
            let result = evm.transact_raw(call(CONTRACT)).unwrap().result;
            assert!(result.is_success());
            let spent = result.gas().total_gas_spent();
            assert_eq!(spent, 21_000 + gas, "{code} from {before}");
            assert_eq!(
                result.gas().inner_refunded(),
                refund.min(spent / 2),
                "{code} from {before}"
            );
            let stores = code.iter().filter(|byte| **byte == 0x55).count();
            assert_eq!(evm.into_db().seen.len(), if enabled { stores } else { 0 });
        }
    }
}

#[test]
fn eip_1283_has_no_gas_sentry() {
    // 6 gas for the pushes and 200 for a write that changes nothing: EIP-2200 would ask for more
    // than 2300 to be left.
    let map = Map::with(&[(CONTRACT, bytes!("6000600055"), 1)]).set(CONTRACT, 0, 0);
    let tx = TxEnv { gas_limit: 21_000 + 206, ..call(CONTRACT) };
    let mut evm = HookedEvm::new(map.clone(), env(SpecId::PETERSBURG)).with_eip1283();
    assert!(evm.transact_raw(tx.clone()).unwrap().result.is_success());
    let mut evm = HookedEvm::new(map, env(SpecId::PETERSBURG)).with_eip1283();
    let tx = TxEnv { gas_limit: tx.gas_limit - 1, ..tx };
    assert!(evm.transact_raw(tx).unwrap().result.is_halt());
}

/// CREATE with no value and no init code, the address to slot 0
const CREATE: Bytes = bytes!("600060006000f060005500");
/// CREATE2 with no value, no init code and salt 0, the address to slot 0
const CREATE2: Bytes = bytes!("6000600060006000f560005500");

/// Returns the addresses at which `creator` with nonce 1 creates by [`CREATE`] and by [`CREATE2`].
fn created(creator: Address) -> [(Bytes, Address); 2] {
    [(CREATE, creator.create(1)), (CREATE2, creator.create2(B256::ZERO, keccak256([])))]
}

#[test]
fn creation_fails_on_storage() {
    for spec in [SpecId::PETERSBURG, SpecId::SHANGHAI, SpecId::OSAKA] {
        for (code, address) in created(CONTRACT) {
            let map = Map::with(&[(CONTRACT, code.clone(), 1)]);
            let (free, _) = run(&map, spec, call(CONTRACT));
            let at = U256::from_be_bytes(address.into_word().0);
            assert_eq!(free.state[&CONTRACT].storage[&U256::ZERO].present_value, at);

            let map = map.set(address, 3, 1);
            let (taken, _) = run(&map, spec, call(CONTRACT));
            assert_eq!(taken.state[&CONTRACT].storage[&U256::ZERO].present_value, U256::ZERO);
            assert!(taken.result.is_success());
            // A collision uses up the creator's nonce and the gas that the creation was given.
            assert_eq!(taken.state[&CONTRACT].info.nonce, 2);
            assert!(taken.result.gas().total_gas_spent() > 900_000);
            assert!(!taken.state[&address].is_touched());

            // The stock EVM looks at code and nonce only.
            let stock =
                EthEvmBuilder::new(map, env(spec)).build().transact_raw(call(CONTRACT)).unwrap();
            assert!(stock.state[&address].is_created());
        }
    }
}

#[test]
fn a_creating_transaction_fails_on_storage() {
    let tx = TxEnv { kind: TxKind::Create, ..call(CONTRACT) };
    for spec in SPECS {
        let map = Map::with(&[]).set(SENDER.create(0), 0, 1);
        let (result, _) = run(&map, spec, tx.clone());
        assert_eq!(result.result.gas().total_gas_spent(), tx.gas_limit, "{spec:?}");
        let ExecutionResult::Halt { reason, .. } = result.result else {
            panic!("{spec:?}: no halt")
        };
        assert_eq!(reason, HaltReason::CreateCollision);
        assert_eq!(result.state[&SENDER].info.nonce, 1);
    }
}

#[test]
fn a_creation_that_fails_before_it_looks_fails_as_ever() {
    // The creation sends more value than there is: the nonce stays, the gas comes back.
    let code = bytes!("600060006001f060005500");
    let map = Map::with(&[(CONTRACT, code, 1)]).set(CONTRACT.create(1), 0, 1);
    let (result, _) = run(&map, SpecId::CANCUN, call(CONTRACT));
    assert_eq!(result.state[&CONTRACT].info.nonce, 1);
    assert!(result.result.gas().total_gas_spent() < 100_000);
    // The nonce cannot grow.
    let map = Map::with(&[(CONTRACT, CREATE, u64::MAX)]).set(CONTRACT.create(u64::MAX), 0, 1);
    let (result, _) = run(&map, SpecId::CANCUN, call(CONTRACT));
    assert_eq!(result.state[&CONTRACT].info.nonce, u64::MAX);
    assert!(result.result.gas().total_gas_spent() < 100_000);
}

#[test]
fn a_creation_on_code_or_a_nonce_looks_for_no_storage() {
    for (code, address) in created(CONTRACT) {
        for (there, nonce) in [(bytes!("00"), 0), (Bytes::new(), 1)] {
            let map = Map::with(&[(CONTRACT, code.clone(), 1), (address, there, nonce)]);
            // The look for storage would fail.
            let map = Map { broken: true, ..map };
            let (taken, _) = run(&map, SpecId::CANCUN, call(CONTRACT));
            assert_eq!(taken.state[&CONTRACT].info.nonce, 2);
            assert!(!taken.state[&address].is_touched());
            let mut stock = EthEvmBuilder::new(map, env(SpecId::CANCUN)).build();
            assert_eq!(taken, stock.transact_raw(call(CONTRACT)).unwrap());
        }
    }
}

#[test]
fn a_database_that_fails_fails_the_transaction() {
    let map = Map { broken: true, ..Map::with(&[(CONTRACT, CREATE, 1)]) };
    let mut evm = HookedEvm::new(map, env(SpecId::CANCUN));
    let error = evm.transact_raw(call(CONTRACT)).unwrap_err();
    assert!(error.to_string().contains("on fire"), "{error}");
    // The failed transaction has left no change.
    evm.db_mut().broken = false;
    let result = evm.transact_raw(call(CONTRACT)).unwrap();
    assert!(result.result.is_success());
    assert_eq!(result.state[&SENDER].info.nonce, 1);
}

#[test]
fn an_invalid_transaction_leaves_nothing_behind() {
    let mut evm = HookedEvm::new(Map::with(&[(CONTRACT, BUSY, 1)]), env(SpecId::CANCUN));
    assert!(evm.transact_raw(TxEnv { nonce: 7, ..call(CONTRACT) }).is_err());
    assert!(evm.context().journaled_state.state.is_empty());
    assert!(evm.transact_raw(call(CONTRACT)).is_ok());
}

#[test]
fn a_system_call_has_the_gas_that_the_eips_give_it() {
    // The contract stores the gas left in slot 0; GAS itself costs 2.
    let map = Map::with(&[(CONTRACT, bytes!("5a60005500"), 1)]);
    for spec in [SpecId::CANCUN, SpecId::PRAGUE, SpecId::OSAKA] {
        let mut evm = HookedEvm::new(map.clone(), env(spec));
        let result = evm.transact_system_call(SENDER, CONTRACT, Bytes::new()).unwrap();
        let left = result.state[&CONTRACT].storage[&U256::ZERO].present_value;
        assert_eq!(left, U256::from(29_999_998), "{spec:?}");
    }
}

#[test]
fn a_system_call_goes_where_the_contract_has_moved() {
    let map = Map::with(&[(OTHER, bytes!("600160005500"), 1)]);
    let mut evm = HookedEvm::new(map, env(SpecId::PRAGUE)).with_moved_contract(CONTRACT, OTHER);
    let result = evm.transact_system_call(SENDER, CONTRACT, Bytes::new()).unwrap();
    assert!(result.state[&OTHER].storage[&U256::ZERO].is_changed());
    assert!(!result.state.contains_key(&CONTRACT));
}

#[derive(Debug, Default)]
struct Creations(Vec<InstructionResult>);

impl<CTX> Inspector<CTX> for Creations {
    fn create_end(&mut self, _: &mut CTX, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.0.push(outcome.result.result);
    }
}

#[test]
fn an_inspector_sees_the_collision() {
    let map = Map::with(&[(CONTRACT, CREATE, 1)]).set(CONTRACT.create(1), 0, 1);
    let plain = run(&map, SpecId::CANCUN, call(CONTRACT)).0;
    let mut evm = HookedEvm::with_inspector(map, env(SpecId::CANCUN), Creations::default());
    assert_eq!(evm.transact_raw(call(CONTRACT)).unwrap(), plain);
    assert_eq!(evm.inspector().0, [InstructionResult::CreateCollision]);
    evm.set_inspector_enabled(false);
    assert_eq!(evm.transact_raw(call(CONTRACT)).unwrap(), plain);
    assert_eq!(evm.inspector().0.len(), 1);
}
