use super::{scout::Scout, *};
use alloy_consensus::{BlockBody, Header, Signed, TxLegacy};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Bytes, Signature, TxKind, U256, address, bytes, keccak256};
use polytrie_chainspec::Forks;
use polytrie_kv::Store;
use polytrie_state::{Account, GenesisAccount, StateLayer, hash_slot};
use polytrie_testing::OracleLayer;
use revm::Database;
use std::{
    sync::{
        OnceLock, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread::yield_now,
    time::Duration,
};

const SENDER: Address = address!("0x00000000000000000000000000000000000000aa");
const CONTRACT: Address = address!("0x00000000000000000000000000000000000000bb");
const MINER: Address = address!("0x00000000000000000000000000000000000000ee");

fn spec() -> Arc<ChainSpec> {
    let forks = Forks::up_to(EthereumHardfork::Cancun);
    Arc::new(ChainSpec::with_forks("test", 1, forks, Header::default(), []))
}

/// Returns a state with a contract that reads the slot that its input names.
fn state() -> Arc<dyn StateReader> {
    state_with(bytes!("600035805460010155"))
}

/// Returns a state with a contract of this code. Its slot 5 holds 7.
fn state_with(code: Bytes) -> Arc<dyn StateReader> {
    state_of(code, &[(5, 7)])
}

/// Returns a state with a contract of this code and these slots.
fn state_of(code: Bytes, slots: &[(u64, u64)]) -> Arc<dyn StateReader> {
    state_of_all(vec![contract(CONTRACT, code, slots)])
}

fn contract(address: Address, code: Bytes, slots: &[(u64, u64)]) -> GenesisAccount<'static> {
    let account = Account { code_hash: keccak256(&code), nonce: 1, balance: U256::ZERO };
    let hashed = |&(slot, value): &(u64, u64)| (hash_slot(&U256::from(slot)), U256::from(value));
    let mut slots: Vec<_> = slots.iter().map(hashed).collect();
    slots.sort_unstable();
    GenesisAccount { hash: keccak256(address), account, code: Some(code), slots: slots.into() }
}

fn state_of_all(mut accounts: Vec<GenesisAccount<'static>>) -> Arc<dyn StateReader> {
    accounts.sort_unstable_by_key(|account| account.hash);
    let layer = OracleLayer::open(Store::memory(OracleLayer::TABLES).unwrap()).unwrap();
    layer.load(&mut accounts.into_iter().map(Ok)).unwrap();
    layer.reader().unwrap()
}

/// Returns a block that calls the contract with these numbers.
fn block(number: u64, inputs: &[u64]) -> Block<TxEnvelope> {
    let transaction = |(nonce, input): (usize, &u64)| {
        let tx = TxLegacy {
            chain_id: None,
            // The nonce need not be that of the account.
            nonce: nonce as u64,
            gas_price: 1_000,
            gas_limit: 1_000_000,
            to: TxKind::Call(CONTRACT),
            value: U256::from(1),
            input: Bytes::from(U256::from(*input).to_be_bytes_vec()),
        };
        Signed::new_unhashed(tx, Signature::test_signature()).into()
    };
    let transactions = inputs.iter().enumerate().map(transaction).collect();
    let header = Header {
        number,
        beneficiary: MINER,
        gas_limit: 30_000_000,
        base_fee_per_gas: Some(2_000),
        excess_blob_gas: Some(0),
        ..Header::default()
    };
    Block { header, body: BlockBody { transactions, ommers: Vec::new(), withdrawals: None } }
}

fn hash(number: u64) -> B256 {
    B256::from(U256::from(number))
}

fn begin(prefetcher: &mut Prefetcher, number: u64, inputs: &[u64]) {
    let senders = vec![SENDER; inputs.len()];
    prefetcher.begin(hash(number), &block(number, inputs), &senders, || Ok(state())).unwrap();
}

#[test]
fn a_block_that_ran_ahead_tells_what_it_read() {
    let codes = Arc::new(Mutex::new(CodeCache::new(CODE_CACHE)));
    let senders = vec![SENDER; 2];
    let job = Job::new(hash(1), block(1, &[5, 9]), senders, state(), Arc::clone(&codes));
    job.run(&spec());
    let accesses = job.end();
    // Neither nonces, nor balances, nor fees keep a transaction from running.
    for access in [
        Access::Account(SENDER),
        Access::Account(CONTRACT),
        Access::SlotRead(CONTRACT, U256::from(5)),
        Access::SlotRead(CONTRACT, U256::from(9)),
    ] {
        assert_eq!(accesses.iter().filter(|found| **found == access).count(), 1, "{access:?}");
    }
    let scout = Scout::new(state(), codes);
    assert_eq!(scout.database(true).storage(CONTRACT, U256::from(5)).unwrap(), U256::from(7));
}

/// A block that runs ahead was not checked: neither its gas nor the cost of its transactions.
#[test]
fn what_no_block_could_hold_waits_for_its_turn() {
    let codes = Arc::new(Mutex::new(CodeCache::new(CODE_CACHE)));
    let mut wild = block(1, &[]);
    // JUMPDEST PUSH1 0 JUMP: the loop ends only with its gas.
    let endless = TxLegacy {
        gas_limit: 1 << 62,
        input: bytes!("5b600056"),
        to: TxKind::Create,
        ..TxLegacy::default()
    };
    let priceless = TxLegacy {
        gas_limit: 100_000,
        gas_price: 1,
        value: U256::MAX,
        to: TxKind::Call(CONTRACT),
        ..TxLegacy::default()
    };
    for tx in [endless, priceless] {
        let tx = Signed::new_unhashed(tx, Signature::test_signature());
        wild.body.transactions.push(tx.into());
    }
    let job = Job::new(hash(1), wild, vec![SENDER; 2], state(), codes);
    job.run(&spec());
    assert_eq!(job.end(), []);
}

#[test]
fn a_block_whose_turn_has_come_goes_on_no_more() {
    let codes = Arc::new(Mutex::new(CodeCache::new(CODE_CACHE)));
    let job = Job::new(hash(1), block(1, &[5, 9]), vec![SENDER; 2], state(), codes);
    assert_eq!(job.end(), []);
    job.run(&spec());
    assert_eq!(job.end(), []);
}

#[test]
fn threads_take_blocks_in_their_order() {
    let mut prefetcher = Prefetcher::new(Prefetch::On, &spec()).unwrap();
    for number in 1..=3 {
        begin(&mut prefetcher, number, &[number; 20]);
        // These blocks are started already, or have no transaction.
        begin(&mut prefetcher, number, &[number]);
        begin(&mut prefetcher, 100 + number, &[]);
    }
    assert_eq!((prefetcher.blocks_ahead(), prefetcher.transactions()), (3, 60));
    // The loop ends when no thread holds a job any more.
    while prefetcher.begun.iter().any(|job| Arc::strong_count(job) > 1) {
        yield_now();
    }
    assert_eq!(prefetcher.take(&hash(77)), []);
    assert_eq!(prefetcher.blocks_ahead(), 3);
    // The first block will not be executed any more.
    let slot = Access::SlotRead(CONTRACT, U256::from(2));
    assert!(prefetcher.take(&hash(2)).contains(&slot));
    assert_eq!(prefetcher.blocks_ahead(), 1);
    assert_eq!(prefetcher.take(&hash(1)), []);
}

#[test]
fn there_is_room_for_some_transactions_in_some_blocks() {
    let mut prefetcher = Prefetcher::new(Prefetch::On, &spec()).unwrap();
    assert!(prefetcher.has_room());
    begin(&mut prefetcher, 1, &vec![5; TRANSACTIONS_AHEAD - 1]);
    assert!(prefetcher.has_room());
    begin(&mut prefetcher, 2, &[5; 1000]);
    assert!(!prefetcher.has_room());
    prefetcher.take(&hash(2));
    assert!(prefetcher.has_room());
    for number in 3..3 + BLOCKS_AHEAD as u64 {
        assert!(prefetcher.has_room());
        begin(&mut prefetcher, number, &[5]);
    }
    assert!(!prefetcher.has_room());
}

#[test]
fn nothing_is_done_while_the_store_is_fast() {
    assert!(Prefetcher::new(Prefetch::Off, &spec()).is_none());
    let mut prefetcher = Prefetcher::new(Prefetch::Auto, &spec()).unwrap();
    assert!(!prefetcher.has_room());
    prefetcher.executed(10_000, || 0);
    assert!(!prefetcher.has_room());
    assert!(matches!(prefetcher.threads, Threads::NotStarted));
    prefetcher.executed(10_000, || 30_000);
    assert!(prefetcher.has_room());
    for has_others in [true, false] {
        prefetcher.leave_to_others(has_others);
        assert_eq!(prefetcher.has_room(), !has_others);
    }
    begin(&mut prefetcher, 1, &[5]);
    prefetcher.executed(10_000, || 30_000);
    assert!(!prefetcher.has_room());
    // A block that was started is taken nevertheless.
    prefetcher.take(&hash(1));
    assert_eq!(prefetcher.blocks_ahead(), 0);

    let mut always = Prefetcher::new(Prefetch::On, &spec()).unwrap();
    always.leave_to_others(true);
    assert!(always.has_room());
}

#[test]
fn a_state_that_cannot_be_read_harms_nothing() {
    #[derive(Debug)]
    struct Broken;
    impl StateReader for Broken {
        fn account(&self, _: &Address) -> Result<Option<Account>, StateError> {
            Err(StateError::Corrupt("broken".into()))
        }
        fn slot(&self, _: &Address, _: &U256) -> Result<U256, StateError> {
            Err(StateError::Corrupt("broken".into()))
        }
        fn code(&self, _: &B256) -> Result<Option<Bytes>, StateError> {
            Err(StateError::Corrupt("broken".into()))
        }
        fn has_storage(&self, _: &Address) -> Result<bool, StateError> {
            Err(StateError::Corrupt("broken".into()))
        }
    }
    let codes = Arc::new(Mutex::new(CodeCache::new(CODE_CACHE)));
    let job = Job::new(hash(1), block(1, &[5, 9]), vec![SENDER; 2], Arc::new(Broken), codes);
    job.run(&spec());
    assert!(job.is_over());
    assert_eq!(job.end(), []);
}

/// A reader that records its reads.
#[derive(Debug)]
struct Counted(Arc<dyn StateReader>, Mutex<Vec<Access>>);

impl StateReader for Counted {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        self.1.lock().push(Access::Account(*address));
        self.0.account(address)
    }
    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        self.1.lock().push(Access::SlotRead(*address, *slot));
        self.0.slot(address, slot)
    }
    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        self.0.code(code_hash)
    }
    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        self.0.has_storage(address)
    }
}

/// Returns a runner of blocks that run as often as they need.
fn foresight(threads: usize) -> Foresight {
    Foresight::sharing(spec(), Arc::new(Mutex::new(CodeCache::new(CODE_CACHE))), threads)
}

#[test]
fn what_a_block_touches_is_found_out_on_any_number_of_threads() {
    let transactions = [5, 9, 5, 5, 9];
    let touched = |threads| {
        let foresight = foresight(threads);
        let senders = vec![SENDER; transactions.len()];
        let block = block(1, &transactions);
        let mut gather = |_: &[Access]| Ok(());
        let touched = foresight.touched(&block, &senders, state(), &mut gather, &|| false);
        let mut touched = touched.unwrap();
        touched.sort_unstable_by_key(|access| format!("{access:?}"));
        touched
    };
    assert!(touched(1).contains(&Access::Account(SENDER)));
    assert_eq!(touched(1), touched(3));
    assert_eq!(touched(1), touched(50));
}

/// Code that reads a slot, the number of which it finds in the slot that its input names.
const INDIRECT: Bytes = bytes!("600035545400");

fn slot_read(number: u64) -> Access {
    Access::SlotRead(CONTRACT, U256::from(number))
}

/// Runs a block of two calls. Returns what it touches, and what was read together in each step.
fn foreseen(foresight: &Foresight) -> (Vec<Access>, Vec<Vec<Access>>) {
    let mut gathered = Vec::new();
    let mut gather = |accesses: &[Access]| {
        gathered.push(accesses.to_vec());
        Ok(())
    };
    let (block, state) = (block(1, &[5, 9]), state_with(INDIRECT));
    let touched = foresight.touched(&block, &[SENDER; 2], state, &mut gather, &|| false).unwrap();
    assert!(gathered[0].contains(&Access::Account(MINER)));
    assert!([5, 9].map(slot_read).iter().all(|slot| gathered[1].contains(slot)), "{gathered:?}");
    (touched, gathered)
}

#[test]
fn what_a_block_touches_is_gathered_in_as_many_steps_as_it_depends_on() {
    let (touched, gathered) = foreseen(&foresight(1));
    assert!([0, 5, 7, 9].map(slot_read).iter().all(|slot| touched.contains(slot)), "{touched:?}");
    // What the block names, the slots of its input, and that which one of these leads to.
    assert_eq!(gathered.len(), 3, "{gathered:?}");
    assert_eq!(gathered[2], [slot_read(7)]);
}

/// One run of such a block may take a second, and the node may execute the block before the next one ends.
#[test]
fn a_block_that_takes_long_runs_once() {
    let mut foresight = foresight(1);
    foresight.budget = Duration::ZERO;
    let (touched, gathered) = foreseen(&foresight);
    assert!([5, 9].map(slot_read).iter().all(|slot| touched.contains(slot)), "{touched:?}");
    assert!(!touched.contains(&slot_read(7)), "{touched:?}");
    assert_eq!(gathered.len(), 2, "{gathered:?}");
}

/// A state on other machines, which records what is read together, and what is read alone before that.
struct Far {
    state: Arc<dyn StateReader>,
    together: Mutex<Vec<Access>>,
    alone: Mutex<Vec<Access>>,
    /// Numbers of the codes that were read together; 0 stands for a code that was read alone.
    codes: Mutex<Vec<usize>>,
    /// Called before each read, with what is read alone.
    before: Box<dyn Fn(Option<Access>) + Send + Sync>,
}

polytrie_kv::debug_fields!(Far { together, alone });

impl Far {
    /// Makes a state in which the contract has the code [`INDIRECT`].
    fn new() -> Arc<Self> {
        Self::of(state_with(INDIRECT), |_| ())
    }

    fn of(
        state: Arc<dyn StateReader>,
        before: impl Fn(Option<Access>) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (together, alone, codes) = Default::default();
        Arc::new(Self { state, together, alone, codes, before: Box::new(before) })
    }

    fn note(&self, access: Access) {
        (self.before)(Some(access));
        if !self.together.lock().contains(&access) {
            self.alone.lock().push(access);
        }
    }
}

impl StateReader for Far {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        self.note(Access::Account(*address));
        self.state.account(address)
    }
    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        self.note(Access::SlotRead(*address, *slot));
        self.state.slot(address, slot)
    }
    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        self.codes.lock().push(0);
        self.state.code(code_hash)
    }
    fn codes(&self, hashes: &[B256]) -> Result<Vec<Option<Bytes>>, StateError> {
        self.codes.lock().push(hashes.len());
        self.state.codes(hashes)
    }
    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        self.state.has_storage(address)
    }
    fn gathers(&self) -> bool {
        true
    }
    fn gather(&self, accesses: &[Access]) -> Result<(), StateError> {
        (self.before)(None);
        self.together.lock().extend_from_slice(accesses);
        Ok(())
    }
}

#[test]
fn of_a_state_on_other_machines_nothing_is_read_alone() {
    let far = Far::new();
    let mut prefetcher = Prefetcher::new(Prefetch::On, &spec()).unwrap();
    let (reader, block): (Arc<dyn StateReader>, _) = (far.clone(), block(1, &[5, 9]));
    prefetcher.begin(hash(1), &block, &[SENDER; 2], || Ok(reader)).unwrap();
    while prefetcher.begun.iter().any(|job| Arc::strong_count(job) > 1) {
        yield_now();
    }
    let accesses = prefetcher.take(&hash(1));
    let together = far.together.lock().clone();
    for access in [
        slot_read(5),
        slot_read(7),
        slot_read(9),
        Access::Account(SENDER),
        Access::Account(CONTRACT),
    ] {
        assert!(accesses.contains(&access) && together.contains(&access), "{access:?}");
    }
    assert!(together.contains(&Access::Account(MINER)));
    assert_eq!(together.iter().filter(|read| **read == slot_read(5)).count(), 1);
    assert_eq!(*far.alone.lock(), []);
    assert_eq!(*far.codes.lock(), [1]);
}

/// Each call takes long there, and a block may call many contracts for the first time.
#[test]
fn codes_on_other_machines_are_read_together_and_once() {
    let addresses: Vec<_> = (1..=10).map(Address::with_last_byte).collect();
    let code = |address: &Address| Bytes::from(vec![0x5b, address[19]]);
    let contracts = addresses.iter().map(|address| contract(*address, code(address), &[]));
    let far = Far::of(state_of_all(contracts.collect()), |_| ());
    let foresight = Arc::new(foresight(1));
    let accesses: Vec<_> = addresses.into_iter().chain([SENDER]).map(Access::Account).collect();
    for number in 1..=2 {
        let (far, foresight) = (far.clone(), foresight.clone());
        Job::known(hash(number), accesses.clone(), 1, far, foresight).run(&spec());
    }
    assert_eq!(*far.codes.lock(), [10]);
}

/// The block's execution waits for what is being read, and a block may name thousands of contracts.
#[test]
fn the_turn_of_a_block_ends_reading_codes() {
    let addresses: Vec<_> = (1..=200).map(Address::with_last_byte).collect();
    let code = |address: &Address| Bytes::from(vec![0x5b, address[19]]);
    let contracts = addresses.iter().map(|address| contract(*address, code(address), &[]));
    let far = Far::of(state_of_all(contracts.collect()), |_| ());
    let accesses: Vec<_> = addresses.into_iter().map(Access::Account).collect();
    let has_turn = || !far.codes.lock().is_empty();
    foresight(1).read_codes(&*far, &accesses, &has_turn).unwrap();
    assert_eq!(*far.codes.lock(), [128]);
}

#[test]
fn the_turn_of_a_block_ends_reading_together() {
    let far = Far::new();
    let (senders, foresight) = (vec![SENDER], Arc::new(foresight(1)));
    let known = |accesses: &[Access]| {
        let (far, foresight) = (Arc::clone(&far), Arc::clone(&foresight));
        Job::known(hash(1), accesses.to_vec(), 1, far, foresight)
    };
    let accesses = vec![Access::Account(CONTRACT)];
    let of_known = known(&accesses);
    let block = block(1, &[5]);
    let of_unknown = Job::foreseen(hash(1), block, senders, far.clone(), foresight.clone());
    for job in [&of_unknown, &of_known] {
        job.end();
        job.run(&spec());
    }
    assert_eq!((far.together.lock().len(), far.alone.lock().len()), (0, 0));
    known(&accesses).run(&spec());
    assert_eq!((far.together.lock().clone(), far.alone.lock().len()), (accesses, 0));
}

/// The block is executed by then, on the same cores.
#[test]
fn the_turn_of_a_block_ends_its_run_on_what_was_read_together() {
    let (job, slots) = (Arc::new(OnceLock::<Weak<Job>>::new()), Arc::new(AtomicUsize::new(0)));
    let before = {
        let (job, slots) = (Arc::clone(&job), Arc::clone(&slots));
        move |access: Option<Access>| {
            if let Some(Access::SlotRead(..)) = access {
                slots.fetch_add(1, Relaxed);
                job.get().and_then(Weak::upgrade).unwrap().end();
            }
        }
    };
    let inputs: Vec<u64> = (0..50).collect();
    let (block, senders) = (block(1, &inputs), vec![SENDER; inputs.len()]);
    let far = Far::of(state_with(INDIRECT), before);
    let foresight = Arc::new(foresight(1));
    let foreseen = Arc::new(Job::foreseen(hash(1), block, senders, far, foresight));
    job.set(Arc::downgrade(&foreseen)).unwrap();
    foreseen.run(&spec());
    // The transaction at hand goes on.
    assert!((1..=2).contains(&slots.load(Relaxed)), "{slots:?}");
}

/// The reader reads for a block that will not be executed any more.
#[test]
fn a_block_that_is_passed_over_is_not_waited_for() {
    let (asked, is_asked) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let (taken, is_taken) = mpsc::channel();
    let answered = Mutex::new(answered);
    let far: Arc<dyn StateReader> = Far::of(state(), move |access| {
        if access.is_none() {
            asked.send(()).unwrap();
            let answered = answered.lock().recv_timeout(Duration::from_secs(600));
            taken.send(answered.is_ok()).unwrap();
        }
    });
    let mut prefetcher = Prefetcher::new(Prefetch::On, &spec()).unwrap();
    prefetcher.begin(hash(1), &block(1, &[5]), &[SENDER], || Ok(far)).unwrap();
    begin(&mut prefetcher, 2, &[5]);
    is_asked.recv().unwrap();
    prefetcher.take(&hash(2));
    answer.send(()).unwrap();
    assert!(is_taken.recv().unwrap());
}

/// The contract follows a chain of slots that is longer than the number of runs.
#[test]
fn what_the_last_guess_asks_for_is_read_together_too() {
    let code = bytes!("60003554545454545400");
    let chain: Vec<_> = (5..20).map(|slot| (slot, slot + 1)).collect();
    let far = Far::of(state_of(code, &chain), |_| ());
    let mut gather = |accesses: &[Access]| far.gather(accesses);
    let (block, foresight) = (block(1, &[5]), foresight(1));
    let state = Arc::clone(&far) as Arc<dyn StateReader>;
    foresight.touched(&block, &[SENDER], state, &mut gather, &|| false).unwrap();
    let alone = far.alone.lock().clone();
    assert_eq!(alone, [9, 10].map(|slot| Access::SlotRead(CONTRACT, U256::from(slot))));
}

#[test]
fn of_a_block_that_is_known_each_thing_is_read_once_and_nothing_is_run() {
    let accesses =
        vec![Access::Account(CONTRACT), slot_read(1), slot_read(5), Access::Account(SENDER)];
    let reader = Arc::new(Counted(state(), Mutex::default()));
    let foresight = Arc::new(foresight(1));
    let job = Arc::new(Job::known(hash(1), accesses.clone(), 2, reader.clone(), foresight));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let job = Arc::clone(&job);
            std::thread::spawn(move || job.run(&spec()))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut read = reader.1.lock().clone();
    read.sort_by_key(|access| accesses.iter().position(|known| known == access));
    assert_eq!(read, accesses);
    assert!(job.is_over());
    assert_eq!(job.end(), accesses);
}

#[test]
fn the_turn_of_a_block_that_is_known_ends_reading_it() {
    let accesses = vec![Access::Account(CONTRACT), Access::SlotWrite(CONTRACT, U256::ONE)];
    let reader = Arc::new(Counted(state(), Mutex::default()));
    let foresight = Arc::new(foresight(1));
    let job = Job::known(hash(1), accesses.clone(), 1, reader.clone(), foresight);
    assert_eq!(job.end(), accesses);
    job.run(&spec());
    assert_eq!(*reader.1.lock(), []);
}
