//! A shadow under a layer that returns wrong values finds them at the first block. With a slow store, blocks run ahead.

use super::{
    Ahead, ImportOptions, Key, Shadow, ShadowError, Upcoming, What, import, shadow::Difference,
};
use alloy_consensus::{Block, BlockBody, Header, Sealed, TxEnvelope};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_chain::executor::Prefetch;
use polytrie_chain::{Candidate, Chain, ChainError, ChainOptions, Head, Start, TABLES, testing};
use polytrie_chainspec::ChainSpec;
use polytrie_consensus::decode::encode_slim_receipts;
use polytrie_files::{BlockReader, EreWriter};
use polytrie_kv::{Changes, Engine, KvError, MemoryEngine, Store, StoreOptions};
use polytrie_kv_testing::{BeforeReads, KeepsRows, Remote, Wrapped};
use polytrie_mpt::{MptLayer, MptOptions};
use polytrie_state::{Account, BlockRef, LayerSession, StateError, StateLayer, StateReader};
use polytrie_testing::{AlterLayer, AlterSession, AlteredLayer, AlteredSession};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// The wrong value that a layer returns.
#[derive(Debug, Clone, Copy)]
enum Lie {
    /// A slot that is read within a block is one higher.
    SlotRead(Address, U256),
    /// The balance of an account is one wei higher.
    AccountRead(Address),
    /// A slot that was written reads back one higher.
    SlotStored(Address, U256),
}

#[derive(Debug)]
struct Liar(Lie);

#[derive(Debug)]
struct LiarReader(Arc<dyn StateReader>, Lie);

impl AlterLayer for Liar {
    fn name(&self, _: &Arc<dyn StateLayer>) -> &'static str {
        "liar"
    }
    fn reader(&self, inner: &Arc<dyn StateLayer>) -> Result<Arc<dyn StateReader>, StateError> {
        Ok(Arc::new(LiarReader(inner.reader()?, self.0)))
    }
    fn begin(
        &self,
        inner: &Arc<dyn StateLayer>,
        parent: BlockRef,
    ) -> Result<Box<dyn LayerSession>, StateError> {
        Ok(AlteredSession::boxed(inner.begin(parent)?, Self(self.0)))
    }
}

impl StateReader for LiarReader {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        self.0.account(address)
    }
    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        let value = self.0.slot(address, slot)?;
        let lies = matches!(self.1, Lie::SlotStored(a, s) if (a, s) == (*address, *slot));
        Ok(value + U256::from(u8::from(lies)))
    }
    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        self.0.code(code_hash)
    }
    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        self.0.has_storage(address)
    }
}

impl AlterSession for Liar {
    fn account(
        &mut self,
        inner: &mut dyn LayerSession,
        address: &Address,
        hash: &B256,
    ) -> Result<Option<Account>, StateError> {
        let mut account = inner.account(address, hash)?;
        if let (Lie::AccountRead(about), Some(account)) = (self.0, &mut account)
            && about == *address
        {
            account.balance += U256::ONE;
        }
        Ok(account)
    }
    fn slot(
        &mut self,
        inner: &mut dyn LayerSession,
        address: &Address,
        account: &B256,
        slot: &U256,
        hash: &B256,
    ) -> Result<U256, StateError> {
        let value = inner.slot(address, account, slot, hash)?;
        let lies = matches!(self.0, Lie::SlotRead(a, s) if (a, s) == (*address, *slot));
        Ok(value + U256::from(u8::from(lies)))
    }
}

fn sample(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/sample").join(file)
}

fn chain(lie: Option<Lie>) -> Chain {
    let spec = ChainSpec::load(sample("genesis.json").to_str().unwrap()).unwrap();
    let store = Store::memory(&[MptLayer::TABLES, TABLES].concat()).unwrap();
    let layer = MptLayer::open(store.clone(), MptOptions::default()).unwrap();
    let layer: Arc<dyn StateLayer> = match lie {
        Some(lie) => Arc::new(AlteredLayer::new(layer, Liar(lie))),
        None => layer,
    };
    // The roots of such a layer are wrong, too; this test is about the values.
    let options =
        ChainOptions { verify_roots: lie.is_none(), keep_writes: true, ..ChainOptions::default() };
    Chain::open(spec, store, layer, options).unwrap()
}

fn candidates(chain: &Chain, count: usize) -> Vec<Candidate> {
    let blocks = BlockReader::open(sample("chain.rlp.gz")).unwrap();
    let prepare = |rlp| Candidate::prepare(chain.spec(), rlp).unwrap();
    blocks
        .map(|block| prepare(block.unwrap().rlp))
        .filter(|c| c.header.number > 0)
        .take(count)
        .collect()
}

/// Follows the sample chain until the wrong value is found. Returns the error.
fn found_out(lie: Lie) -> ShadowError {
    let mut main = chain(None);
    let mut shadow = Shadow::of(chain(Some(lie)), true);
    for candidate in candidates(&main, 200) {
        main.insert(candidate.clone()).unwrap();
        match shadow.follow(candidate, &mut main) {
            Ok(()) => {}
            Err(super::ImportError::Shadow(error)) => return error,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the lie was believed: {lie:?}");
}

/// Returns the first slot that the sample chain changes from one value to another: block, account, slot, value.
fn first_change() -> (u64, Address, U256, U256) {
    let mut chain = chain(None);
    for candidate in candidates(&chain, 200) {
        chain.insert(candidate).unwrap();
        for block in chain.take_written() {
            for write in block.writes.accounts() {
                let changed = |slot: &&polytrie_state::SlotWrite| {
                    !slot.before.is_zero() && !slot.after.is_zero()
                };
                if let Some(slot) = write.slots.iter().find(changed) {
                    return (block.number, write.address.unwrap(), slot.slot.unwrap(), slot.after);
                }
            }
        }
    }
    panic!("the sample chain changes no slot");
}

fn differs(error: ShadowError) -> Difference {
    match error {
        ShadowError::Differs(difference) => *difference,
        other => panic!("{other}"),
    }
}

#[test]
fn a_slot_that_reads_back_wrongly_is_named() {
    let (_, account, slot, _) = first_change();
    let difference = differs(found_out(Lie::SlotStored(account, slot)));
    assert_eq!(difference.what, What::Stored(account, slot));
    let [right, wrong] = difference.values.clone().map(|v| v.parse::<U256>().unwrap());
    assert_eq!(right + U256::ONE, wrong);
    let told = ShadowError::Differs(Box::new(difference.clone())).to_string();
    for word in [
        format!("block {}", difference.block),
        account.to_string(),
        format!("{slot:#x}"),
        format!("{right:#x} under `mpt`"),
        format!("{wrong:#x} under `liar`"),
    ] {
        assert!(told.contains(&word), "`{word}` is missing in: {told}");
    }
}

#[test]
fn a_slot_that_is_read_wrongly_is_found() {
    let (block, account, slot, _) = first_change();
    // The result depends on the contract: another value is written, or another amount of gas is used.
    match found_out(Lie::SlotRead(account, slot)) {
        ShadowError::Differs(difference) => assert!(difference.block <= block, "{difference}"),
        ShadowError::Refused { block: refused, .. } => assert!(refused.number <= block),
        other => panic!("{other}"),
    }
}

#[test]
fn a_wrong_balance_is_found() {
    let mut main = chain(None);
    let first = candidates(&main, 1).remove(0);
    let sender = first.senders().unwrap()[0];
    main.insert(first).unwrap();
    let difference = differs(found_out(Lie::AccountRead(sender)));
    assert_eq!((difference.block, difference.what), (1, What::Account(Key::Address(sender))));
}

/// Writes made while it catches up are not compared with later ones.
#[test]
fn a_shadow_catches_up_until_it_is_interrupted() {
    let mut main = chain(None);
    let mut blocks = candidates(&main, 21);
    let next = blocks.pop().unwrap();
    for candidate in blocks {
        main.insert(candidate).unwrap();
    }
    main.take_written();
    let mut shadow = Shadow::of(chain(None), true);
    let interrupt = AtomicBool::new(true);
    let stopped = shadow.catch_up(&main, "memory".into(), &interrupt).unwrap_err();
    assert!(matches!(stopped, ShadowError::Interrupted { block: 0 }), "{stopped}");
    interrupt.store(false, Ordering::Relaxed);
    shadow.catch_up(&main, "memory".into(), &interrupt).unwrap();
    main.insert(next.clone()).unwrap();
    shadow.follow(next, &mut main).unwrap();
    assert_eq!(shadow.report().blocks, 1);
}

/// Adds empty blocks, which differ by the salt.
fn extend(chain: &mut Chain, salt: u8, count: usize) {
    (0..count).for_each(|_| testing::extend(chain, salt));
}

/// After a crash one chain may be on the branch that the other has left.
#[test]
fn a_shadow_on_another_branch_goes_back_to_the_fork_and_catches_up() {
    for (ours, theirs) in [(3, 2), (2, 3), (0, 2), (2, 0)] {
        let (mut main, mut other) = (chain(None), chain(None));
        for candidate in candidates(&main, 3) {
            main.insert(candidate.clone()).unwrap();
            other.insert(candidate).unwrap();
        }
        extend(&mut main, 1, ours);
        extend(&mut other, 2, theirs);
        other.take_written();
        let mut shadow = Shadow::of(other, true);
        shadow.catch_up(&main, "memory".into(), &AtomicBool::new(false)).unwrap();
        let mut longer = main.fork().unwrap();
        extend(&mut longer, 3, 1);
        let next = longer.db().block_rlp(longer.head().number()).unwrap().unwrap();
        let next = Candidate::prepare(main.spec(), next).unwrap();
        main.take_written();
        main.insert(next.clone()).unwrap();
        shadow.follow(next, &mut main).unwrap();
        assert_eq!(shadow.report().blocks, 1, "{ours} {theirs}");
    }
}

/// Opens the sample chain without blocks. Each block is one write of the engine, and every read of the state reaches
/// it.
fn on(engine: Arc<dyn Engine>) -> Chain {
    let spec = ChainSpec::load(sample("genesis.json").to_str().unwrap()).unwrap();
    let options = StoreOptions { flush_every: 1, background: false, ..StoreOptions::default() };
    let store = Store::open(engine, &[MptLayer::TABLES, TABLES].concat(), options).unwrap();
    let layer =
        MptLayer::open(store.clone(), MptOptions { cache_bytes: 0, ..MptOptions::default() })
            .unwrap();
    Chain::open(spec, store, layer, ChainOptions::default()).unwrap()
}

/// Imports the sample chain where every read of the state reaches the engine. Returns the number of transactions that
/// were run ahead of their execution, and of all transactions.
fn prefetched(engine: Arc<dyn Engine>, prefetch: Prefetch) -> (u64, u64) {
    let mut chain = on(engine);
    let options = ImportOptions { prefetch, ..ImportOptions::plain(vec![sample("chain.rlp.gz")]) };
    let end = import(&mut chain, options);
    assert!(end.error.is_none(), "{:?}", end.error);
    assert_eq!(end.report.blocks, 1000);
    (end.report.prefetched, end.report.txs)
}

/// Commitments and threads that read ahead read, too.
#[test]
fn reads_that_transactions_wait_for_are_those_of_their_thread() {
    for prefetch in [Prefetch::Off, Prefetch::On] {
        let mut chain = on(Arc::new(MemoryEngine::new()));
        let files = vec![sample("chain.rlp.gz")];
        let options = ImportOptions { prefetch, to: Some(100), ..ImportOptions::plain(files) };
        let report = import(&mut chain, options).report;
        let (waited, counters) = (report.waited, report.counters);
        assert!(waited.rows > 0 && waited.requests > 0, "{waited:?}");
        assert!(waited.rows < counters.engine_gets + counters.scanned, "{waited:?} {counters:?}");
    }
}

/// An engine that sets the interrupt flag at a write.
#[derive(Debug)]
struct Interrupting {
    inner: MemoryEngine,
    writes: AtomicU64,
    at: u64,
    interrupt: Arc<AtomicBool>,
}

polytrie_kv_testing::wrapped!(Interrupting);

impl Wrapped for Interrupting {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }

    fn on_write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        if self.writes.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
            self.interrupt.store(true, Ordering::Relaxed);
        }
        self.inner.write(changes)
    }
}

/// Imports the sample chain, interrupted at a write. Returns the number of writes, and whether it reached the end.
fn interrupted(at: u64) -> (u64, bool) {
    let interrupt = Arc::new(AtomicBool::new(false));
    let (inner, writes) = (MemoryEngine::new(), AtomicU64::new(0));
    let engine = Arc::new(Interrupting { inner, writes, at, interrupt: Arc::clone(&interrupt) });
    let mut chain = on(engine.clone());
    let files = vec![sample("chain.rlp.gz")];
    let end = import(&mut chain, ImportOptions { interrupt, ..ImportOptions::plain(files) });
    assert_eq!(end.error.is_none(), chain.head().number() == 1000, "{:?}", end.error);
    (engine.writes.load(Ordering::Relaxed), end.error.is_none())
}

/// After all blocks are imported, the interruption has no effect.
#[test]
fn an_interruption_after_the_last_block_comes_too_late() {
    let (writes, _) = interrupted(0);
    assert_eq!(interrupted(writes / 2), (writes / 2, false));
    assert_eq!(interrupted(writes), (writes, true));
}

#[test]
fn blocks_run_ahead_where_the_store_is_slow() {
    let slow = || Arc::new(BeforeReads::slow(MemoryEngine::new()));
    assert_eq!(prefetched(slow(), Prefetch::Off).0, 0);
    let (on, all) = prefetched(Arc::new(MemoryEngine::new()), Prefetch::On);
    assert!(on > 0 && on <= all, "{on} of {all}");
    let (auto, all) = prefetched(slow(), Prefetch::Auto);
    assert!(auto > 0 && auto < all, "{auto} of {all}");
    // A thread takes a whole block there.
    let far = KeepsRows(Remote(MemoryEngine::new()), 1 << 20);
    let (far, all) = prefetched(Arc::new(far), Prefetch::On);
    assert!(far > 0 && far <= all, "{far} of {all}");
}

/// Blocks without transactions, ten thousand of them.
struct Empty {
    block: Candidate,
    /// Greatest number of blocks ahead that was asked for.
    farthest: usize,
}

impl Upcoming for Empty {
    fn peek(&mut self, ahead: usize) -> Option<&Candidate> {
        self.farthest = self.farthest.max(ahead);
        (ahead < 10_000).then_some(&self.block)
    }
}

#[test]
fn a_chain_of_blocks_without_transactions_is_not_looked_at_to_its_end() {
    let main = chain(None);
    let mut empty = candidates(&main, 1).remove(0);
    empty.block.body.transactions.clear();
    let blocks = Empty { block: empty.clone(), farthest: 0 };
    let mut ahead = Ahead::new(Prefetch::On, main.spec(), blocks);
    ahead.begin(&mut empty, &main).unwrap();
    assert!(ahead.blocks.farthest < 1000, "{}", ahead.blocks.farthest);
}

/// Imports the sample chain up to a block. Returns it with its ere file.
fn ere_file(to: u64) -> (Chain, Vec<u8>) {
    let mut chain = on(Arc::new(MemoryEngine::new()));
    let files = vec![sample("chain.rlp.gz")];
    let end = import(&mut chain, ImportOptions { to: Some(to), ..ImportOptions::plain(files) });
    assert!(end.error.is_none(), "{:?}", end.error);
    let file = ere_of(&chain);
    (chain, file)
}

/// Returns the ere file of a chain.
fn ere_of(chain: &Chain) -> Vec<u8> {
    let to = chain.head().number();
    let mut out = EreWriter::new("test", Vec::new(), 0, &std::env::temp_dir()).unwrap();
    let exported = chain.db().export::<ChainError>((0, to), |block| {
        let receipts = chain.db().receipts(block.header.number)?.unwrap();
        let receipts = encode_slim_receipts(&receipts);
        out.push(&block.rlp, &receipts, block.total_difficulty).unwrap();
        Ok(())
    });
    exported.unwrap();
    out.finish().unwrap().0
}

/// Of a directory, an import reads the files with blocks that the chain lacks. A file that is passed over may be damaged, or
/// another one than checksums.txt lists.
#[test]
fn archives_whose_blocks_are_stored_are_passed_over() {
    let (mut chain, mut first) = ere_file(20);
    let (_, second) = ere_file(40);
    let middle = first.len() / 2;
    first[middle] ^= 1;
    let directory = tempfile::tempdir().unwrap();
    let names = ["dev-00000-00000000.ere", "dev-00001-00000000.ere"];
    for (name, content) in names.iter().zip([&first, &second]) {
        fs::write(directory.path().join(name), content).unwrap();
    }
    let lines = format!("{} {}", B256::repeat_byte(7), names[0]);
    let all = || ImportOptions::plain(vec![directory.path().to_owned()]);
    let error = import(&mut on(Arc::new(MemoryEngine::new())), all()).error.unwrap();
    assert!(error.to_string().contains(names[0]), "{error}");
    fs::write(directory.path().join("checksums.txt"), lines).unwrap();
    let mut counts = |to: Option<u64>| {
        let end = import(&mut chain, ImportOptions { to, ..all() });
        assert!(end.error.is_none(), "{:?}", end.error);
        (end.report.skipped, end.report.blocks, end.report.head.number)
    };
    assert_eq!(counts(Some(10)), (11, 0, 20));
    assert_eq!(counts(Some(20)), (21, 0, 20));
    assert_eq!(counts(None), (21 + 21, 20, 40));
    assert_eq!(counts(None), (21 + 41, 0, 40));
}

/// Such blocks are unknown. Only the genesis block shows whether a file is of this chain.
#[test]
fn archives_from_before_the_start_of_a_chain_are_passed_over_but_the_first() {
    let spec = ChainSpec::load(sample("genesis.json").to_str().unwrap()).unwrap();
    let store = Store::memory(&[MptLayer::TABLES, TABLES].concat()).unwrap();
    let layer = MptLayer::open(store.clone(), MptOptions::default()).unwrap();
    let header = Sealed::new(Header { number: 9_000, ..Header::default() });
    let head = Head { header, total_difficulty: U256::ZERO };
    let start = Start { head, block: None, ancestors: BTreeMap::new() };
    let options = ChainOptions::default();
    let mut chain = Chain::open_partial(spec, store, layer, options, &start, false).unwrap();

    let mut second = EreWriter::new("test", Vec::new(), 8_192, &std::env::temp_dir()).unwrap();
    let mut parent_hash = B256::ZERO;
    for number in 8_192..8_196 {
        let header = Header { number, parent_hash, ..Header::default() };
        parent_hash = header.hash_slow();
        let block = Block::<TxEnvelope> { header, body: BlockBody::default() };
        second.push(&alloy_rlp::encode(&block), &[0xc0], U256::ZERO).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &[u8]| fs::write(directory.path().join(name), content).unwrap();
    // A file that is read would be refused.
    put("checksums.txt", B256::repeat_byte(7).to_string().as_bytes());
    put("dev-00001-00000000.ere", &second.finish().unwrap().0);
    let all = || ImportOptions::plain(vec![directory.path().to_owned()]);
    let end = import(&mut chain, all());
    assert!(end.error.is_none(), "{:?}", end.error);
    assert_eq!((end.report.skipped, end.report.blocks), (4, 0));
    put("dev-00000-00000000.ere", &ere_file(20).1);
    let error = import(&mut chain, all()).error.unwrap().to_string();
    assert!(error.contains("dev-00000") && error.contains("checksums.txt"), "{error}");
}

#[test]
fn files_without_the_block_that_was_asked_for_are_noticed() {
    let (_, file) = ere_file(20);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dev-00000-00000000.ere");
    fs::write(&path, file).unwrap();
    let mut chain = on(Arc::new(MemoryEngine::new()));
    // The second time the file is passed over.
    for _ in 0..2 {
        for (to, expected) in [(Some(30), true), (Some(20), false), (None, false)] {
            let options = ImportOptions { to, ..ImportOptions::plain(vec![path.clone()]) };
            let end = import(&mut chain, options);
            assert!(end.error.is_none(), "{:?}", end.error);
            assert_eq!((end.report.lacks_last, end.report.head.number), (expected, 20));
        }
    }
    // The blocks may go on after it.
    let mut blocks = BlockReader::open(sample("chain.rlp.gz")).unwrap().map(Result::unwrap);
    let later = blocks.find(|block| block.decode_header().unwrap().number > 30).unwrap();
    let file = directory.path().join("later");
    fs::write(&file, later.rlp).unwrap();
    for files in [vec![path.clone(), file.clone()], vec![file]] {
        let options = ImportOptions { to: Some(30), ..ImportOptions::plain(files) };
        let end = import(&mut chain, options);
        assert!(end.error.is_none(), "{:?}", end.error);
        assert_eq!((end.report.lacks_last, end.report.head.number), (true, 20));
    }
    let (mut longer, _) = ere_file(40);
    let options = ImportOptions { to: Some(30), ..ImportOptions::plain(vec![path]) };
    assert!(!import(&mut longer, options).report.lacks_last);
}

#[test]
fn an_archive_of_another_branch_is_read() {
    let (mut other, _) = ere_file(20);
    extend(&mut other, 1, 5);
    let tip = other.head().hash();
    let (mut chain, _) = ere_file(40);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("dev-00000-00000000.ere"), ere_of(&other)).unwrap();
    let end = import(&mut chain, ImportOptions::plain(vec![directory.path().to_owned()]));
    assert!(end.error.is_none(), "{:?}", end.error);
    assert_eq!(end.report.skipped, 21);
    assert!(chain.is_known(25, &tip).unwrap());
}

/// Any bit of an ere file may be wrong. An import says where, or reaches the right head.
#[test]
fn a_changed_bit_is_refused_or_harmless() {
    const BLOCKS: u64 = 12;
    let (right, bytes) = ere_file(BLOCKS);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("changed.ere");
    let mut random = ChaCha8Rng::seed_from_u64(0x31);
    let mut refused = 0;
    for _ in 0..1000 {
        // The first bytes decide the format.
        let (at, bit) = (random.random_range(8..bytes.len()), random.random_range(0..8));
        let mut changed = bytes.clone();
        changed[at] ^= 1 << bit;
        fs::write(&file, changed).unwrap();
        let mut chain = on(Arc::new(MemoryEngine::new()));
        let end = import(&mut chain, ImportOptions::plain(vec![file.clone()]));
        let context = format!("byte {at}, bit {bit}");
        let head = chain.head().number();
        match end.error {
            Some(error) => {
                let text = error.to_string();
                assert!(
                    text.contains("changed.ere") && text.contains("offset"),
                    "{context}: {text}"
                );
                assert!(!error.is_ours(), "{context}: {text}");
                refused += 1;
            }
            None => assert_eq!(head, BLOCKS, "{context}"),
        }
        // The imported blocks are those of the chain.
        let hash = chain.head().hash();
        assert!(right.is_canonical(head, &hash).unwrap(), "{context}: {head} {hash}");
    }
    assert!(refused > 900, "{refused}");
}
