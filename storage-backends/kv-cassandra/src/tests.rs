//! The engine passes the suites, and no batch is lost wherever the connection is cut.
//!
//! The tests need a cluster: `POLYTRIE_CASSANDRA` names some of its nodes (`scripts/cluster test` starts one and runs
//! them).

#![expect(clippy::unwrap_used, reason = "tests")]

pub(crate) mod certificates;
mod login;

use crate::{
    Access, CassandraEngine, CassandraOptions, Cluster, Login, head,
    log::{self, Place},
};
use polytrie_kv::{Batch, Engine, Entry, KeyRange, KvError};
use polytrie_kv_testing::{Random, TABLES, engine_suite, entries, skipped, store_suite};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

/// The variable that names the nodes.
const NODES: &str = "POLYTRIE_CASSANDRA";
/// The variables that name the role, the file of its password and that of the authority, where nodes ask for them.
const ACCESS: [&str; 3] =
    ["POLYTRIE_CASSANDRA_USER", "POLYTRIE_CASSANDRA_PASSWORD_FILE", "POLYTRIE_CASSANDRA_TLS_CA"];
const KEYSPACE: &str = "polytrie_test";

/// The connection to the cluster, which a test may cut after some requests.
#[derive(Debug)]
pub(crate) struct Line(AtomicI64);

impl Default for Line {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MAX))
    }
}

impl Line {
    /// Lets so many more requests through; the answer to the last one is lost.
    fn cut_after(&self, requests: i64) {
        self.0.store(requests, Ordering::SeqCst);
    }

    /// Returns the number of requests that are let through.
    fn left(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn is_cut(&self) -> bool {
        self.left() <= 0
    }

    pub(crate) fn send(&self) -> Result<(), KvError> {
        let left = self.0.fetch_sub(1, Ordering::SeqCst);
        if left > 0 { Ok(()) } else { Err(cut()) }
    }

    pub(crate) fn answer(&self) -> Result<(), KvError> {
        if self.is_cut() { Err(cut()) } else { Ok(()) }
    }
}

fn cut() -> KvError {
    crate::error::failed("sending", "the test has cut the line")
}

/// Returns the credentials and the TLS of the cluster that the tests may use.
fn access() -> Access {
    let [user, password_file, tls_ca] = ACCESS.map(std::env::var_os);
    let login = user.zip(password_file).map(|(user, file)| Login {
        user: user.into_string().unwrap(),
        password_file: file.into(),
    });
    Access { login, tls_ca: tls_ca.map(Into::into) }
}

/// Returns a connection to the cluster that the tests may use, if there is one.
fn cluster() -> Option<Arc<Cluster>> {
    let Ok(nodes) = std::env::var(NODES) else {
        skipped(format_args!("{NODES} names no nodes of a cluster, see `scripts/cluster test`"));
        return None;
    };
    let nodes: Vec<String> = nodes.split(',').map(str::to_owned).collect();
    // One test at a time creates the tables: Cassandra fails when two create the same ones.
    static MAKING: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let _making = MAKING.lock();
    Some(Cluster::connect(&nodes, KEYSPACE, &access(), Duration::from_secs(60), true).unwrap())
}

#[expect(clippy::print_stderr, reason = "shown by the test harness")]
fn say(text: &str) {
    eprintln!("{text}");
}

/// Returns a name that no other store has.
fn new_name() -> String {
    format!("test-{:016x}", rand::random::<u64>())
}

fn options() -> CassandraOptions {
    CassandraOptions::new(std::env::temp_dir(), &TABLES)
}

/// Opens a store that no other process reads any more.
fn open(cluster: &Arc<Cluster>, store: &str) -> Result<CassandraEngine, KvError> {
    open_with(options(), cluster, store)
}

fn open_with(
    options: CassandraOptions,
    cluster: &Arc<Cluster>,
    store: &str,
) -> Result<CassandraEngine, KvError> {
    let engine = CassandraEngine::open_on(Arc::clone(cluster), store, options)?;
    {
        let mut writer = engine.writer.lock();
        writer.grace = Duration::ZERO;
        writer.clears_up = writer.clears_up.map(|_| Instant::now());
    }
    Ok(engine)
}

#[test]
fn passes_the_engine_suite() {
    let Some(cluster) = cluster() else { return };
    let store = new_name();
    engine_suite(|| Arc::new(open(&cluster, &store).unwrap()));
}

#[test]
fn passes_the_store_suite() {
    let Some(cluster) = cluster() else { return };
    // Opening a store removes the scratch data that others have left in the directory.
    let (store, dir) = (new_name(), tempfile::TempDir::new().unwrap());
    store_suite(|| -> Arc<dyn Engine> {
        let options = CassandraOptions { dir: dir.path().to_owned(), ..options() };
        Arc::new(open_with(options, &cluster, &store).unwrap())
    });
}

fn all(engine: &CassandraEngine) -> Vec<Vec<Entry>> {
    let view = engine.view().unwrap();
    TABLES.iter().map(|table| entries(&*view, *table, KeyRange::ALL)).collect()
}

/// Makes a batch of every kind of change, and applies it to `rows`.
fn change(random: &mut Random, rows: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> Batch {
    let mut batch = Batch::new();
    let key = |random: &mut Random| vec![random.below(40) as u8 * 6, random.below(3) as u8];
    if random.one_in(2) {
        let (from, to) = (key(random), key(random));
        batch.delete_range(TABLES[0], &from, Some(&to));
        rows.retain(|key, _| !(KeyRange::between(&from, &to)).contains(key));
    }
    for _ in 0..20 {
        let key = key(random);
        if random.one_in(3) {
            batch.delete(TABLES[0], &key);
            rows.remove(&key);
        } else {
            let len = random.below(60);
            let value = random.bytes(len);
            batch.put(TABLES[0], &key, &value);
            rows.insert(key, value);
        }
    }
    batch
}

/// Writes batches with the connection cut after one request, two, three, …: the next opening finds whole batches, and
/// every batch whose write returned without an error.
#[test]
fn nothing_is_lost_wherever_the_line_is_cut() {
    let Some(cluster) = cluster() else { return };
    let seed = Random::seed();
    say(&format!("POLYTRIE_TEST_SEED={seed}"));
    let mut random = Random::new(seed);
    let store = new_name();
    let mut rows = BTreeMap::new();
    for requests in 1.. {
        let engine = open(&cluster, &store).unwrap();
        cluster.link().line.cut_after(requests);
        let mut next = rows.clone();
        let mut cut = false;
        for _ in 0..3 {
            next = rows.clone();
            let batch = change(&mut random, &mut next);
            cut = engine.write(&batch).is_err();
            if cut {
                assert!(engine.write(&batch).is_err(), "nothing follows a write that failed");
                break;
            }
            rows = next.clone();
        }
        let done = !cluster.link().line.is_cut();
        assert!(!(cut && done), "seed {seed}: a write failed by itself");
        cluster.link().line.cut_after(i64::MAX);
        drop(engine);

        let whole = |read_only: bool| {
            let options = CassandraOptions { read_only, ..options() };
            let engine = CassandraEngine::open_on(Arc::clone(&cluster), &store, options).unwrap();
            let found: BTreeMap<_, _> = all(&engine).remove(0).into_iter().collect();
            assert!(
                found == rows || (cut && found == next),
                "seed {seed}, cut after {requests} requests: whole batches, and none missing"
            );
            found
        };
        // An engine that only reads is opened first in half of the cases.
        let seen = random.one_in(2).then(|| whole(true));
        let found = whole(false);
        assert!(
            seen.is_none_or(|seen| seen == rows || seen == found),
            "seed {seed}, cut after {requests} requests: what a reader saw is not taken back"
        );
        rows = found;
        if done {
            return;
        }
    }
}

/// Opens an engine that writes a batch, commits another one and is cut off before it has applied that.
fn cut_off(cluster: &Arc<Cluster>, store: &str, [before, batch]: [&Batch; 2]) -> CassandraEngine {
    let mut requests = 1;
    loop {
        let engine = open(cluster, store).unwrap();
        engine.write(before).unwrap();
        let version = engine.writer.lock().head.version;
        cluster.link().line.cut_after(requests);
        let failed = engine.write(batch).is_err();
        cluster.link().line.cut_after(i64::MAX);
        assert!(failed, "the line was cut before it had applied");
        let known = engine.writer.lock().head.version;
        if known > version {
            return engine;
        }
        requests += 1;
    }
}

#[test]
fn who_only_reads_looks_past_a_batch_that_is_not_applied() {
    let Some(cluster) = cluster() else { return };
    let store = new_name();
    let put = |value: &[u8]| {
        let mut batch = Batch::new();
        batch.put(TABLES[0], b"key", value);
        batch.delete_range(TABLES[1], &[], None);
        batch.put(TABLES[1], value, value);
        batch
    };
    drop(cut_off(&cluster, &store, [&put(b"1"), &put(b"2")]));
    let seen = |read_only: bool| {
        let options = CassandraOptions { read_only, ..options() };
        all(&CassandraEngine::open_on(Arc::clone(&cluster), &store, options).unwrap())
    };
    let rows = |value: &[u8]| {
        vec![
            vec![(b"key".to_vec(), value.to_vec())],
            vec![(value.to_vec(), value.to_vec())],
            vec![],
        ]
    };
    assert_eq!(seen(true), rows(b"1"));
    assert_eq!(seen(true), rows(b"1"), "the first reader has applied nothing");
    assert_eq!(seen(false), rows(b"2"));
    assert_eq!(seen(true), rows(b"2"));
}

#[test]
fn a_batch_that_was_not_committed_is_removed_also_after_an_opening_that_was_cut_off() {
    let Some(cluster) = cluster() else { return };
    let store = new_name();
    drop(open(&cluster, &store).unwrap());
    let place = Place { store: store.as_str().into(), version: 1, writer: 1 };
    let mut batch = Batch::new();
    batch.put(TABLES[0], b"key", b"value");
    let read =
        || log::read(&cluster, &place, &TABLES, &mut |_| Ok(ControlFlow::Continue(()))).unwrap();
    assert_eq!(log::append(&cluster, &place, &TABLES, &batch).unwrap(), read());
    let (link, name) = (cluster.link(), Arc::clone(&place.store));
    let taken = cluster.wait(async move { head::take_over(&link, &name, false).await });
    assert_eq!(taken.unwrap().unwrap().epoch, 2);
    drop(open(&cluster, &store).unwrap());
    assert_eq!(read(), 0);
}

#[test]
fn an_opening_does_not_write_an_applied_batch_again() {
    let Some(cluster) = cluster() else { return };
    let store = new_name();
    let mut batch = Batch::new();
    for key in 0..5_000_u32 {
        batch.put(TABLES[0], &key.to_be_bytes(), &[7; 500]);
    }
    let engine = open(&cluster, &store).unwrap();
    let requests = |work: &dyn Fn()| {
        let left = cluster.link().line.left();
        work();
        left - cluster.link().line.left()
    };
    let written = requests(&|| engine.write(&batch).unwrap());
    for read_only in [true, false] {
        let options = CassandraOptions { read_only, ..options() };
        let opened = requests(&|| {
            drop(CassandraEngine::open_on(Arc::clone(&cluster), &store, options.clone()).unwrap());
        });
        assert!(opened < 20 && opened < written / 2, "{opened} requests, {written} for the batch");
    }
}

#[test]
fn who_was_cut_off_and_comes_back_is_out() {
    let Some(cluster) = cluster() else { return };
    let Some(other) = self::cluster() else { return };
    let store = new_name();
    let put = |value: &[u8]| {
        let mut batch = Batch::new();
        batch.put(TABLES[0], b"key", value);
        batch.put(TABLES[0], value, value);
        batch
    };
    let stale = open(&cluster, &store).unwrap();
    stale.write(&put(b"1")).unwrap();
    let committed = put(b"2");
    let late = cut_off(&cluster, &store, [&put(b"1"), &committed]);
    let head = late.writer.lock().head.clone();

    let new = open(&other, &store).unwrap();
    new.write(&put(b"3")).unwrap();
    new.write(&put(b"4")).unwrap();
    assert_eq!(new.writer.lock().collected, head.version + 1, "what is late meets removed rows");
    let expected = all(&new);
    // An engine that began to open the store before finds no log of the batch any more.
    let error = late.shared.apply_logged(&head).unwrap_err().to_string();
    assert!(error.contains("another process has opened the store"), "{error}");
    // The late engine goes on with its batch.
    late.shared.apply(head.version, &committed).unwrap();
    assert_eq!(all(&new), expected, "what was late changes nothing");
    for old in [&stale, &late] {
        // The check is made to look old, as if the process had been stopped for long.
        *old.shared.looked.lock() = None;
        let error = old.view().unwrap().get(TABLES[0], b"key").unwrap_err().to_string();
        assert!(error.contains("another process has opened the store"), "{error}");
        assert_eq!(old.lost().map(|lost| lost.to_string()), Some(error));
        assert!(old.write(&put(b"5")).is_err());
    }
    let error = stale.write(&put(b"5")).unwrap_err().to_string();
    assert!(error.contains("another process has opened the store"), "{error}");
    assert_eq!(all(&new), expected, "nor does what is refused");
    drop(new);
    assert_eq!(all(&open(&other, &store).unwrap()), expected);
}

#[test]
fn who_is_out_and_has_not_looked_yet_reads_what_it_sees() {
    let Some(cluster) = cluster() else { return };
    let store = new_name();
    let mut batch = Batch::new();
    batch.put(TABLES[0], b"key", b"1");
    batch.put(TABLES[0], b"deleted", b"1");
    let old = open(&cluster, &store).unwrap();
    old.write(&batch).unwrap();
    // The view is taken before the next write is applied, like the views of blocks that run beside it.
    let view = old.view().unwrap();
    let expected = entries(&*view, TABLES[0], KeyRange::ALL);
    let mut batch = Batch::new();
    batch.delete_range(TABLES[0], b"d", Some(b"e"));
    batch.put(TABLES[0], b"key", b"2");
    old.write(&batch).unwrap();
    assert!(view.get(TABLES[0], b"key").unwrap().is_some());

    let new = CassandraEngine::open_on(Arc::clone(&cluster), &store, options()).unwrap();
    assert!(new.writer.lock().clears_up.is_some_and(|from| from > Instant::now()));
    let now = crate::fence::Look::now();
    *old.shared.looked.lock() = Some(now);
    match view.get(TABLES[0], b"key") {
        Ok(found) => assert_eq!(found.as_deref(), Some(&b"1"[..])),
        // This machine was slow.
        Err(error) => assert!(error.to_string().contains("another process"), "{error}"),
    }
    let mut found = Vec::new();
    let scanned = view.scan(TABLES[0], KeyRange::ALL, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(ControlFlow::Continue(()))
    });
    assert!(scanned.is_err() || found == expected, "{found:?}");
}

#[test]
fn readers_beside_a_writer_are_right_or_fail() {
    let Some(cluster) = cluster() else { return };
    let store = new_name();
    let writer = open(&cluster, &store).unwrap();
    let put = |value: u8| {
        let mut batch = Batch::new();
        (0..50).for_each(|key| batch.put(TABLES[1], &[key], &[value]));
        batch.delete_range(TABLES[2], &[], None);
        writer.write(&batch).unwrap();
    };
    put(1);
    let options = CassandraOptions { read_only: true, ..options() };
    let reader = CassandraEngine::open_on(Arc::clone(&cluster), &store, options).unwrap();
    let view = reader.view().unwrap();
    assert_eq!(view.get(TABLES[1], &[7]).unwrap().as_deref(), Some(&[1][..]));
    assert!(matches!(reader.write(&Batch::new()), Err(KvError::Io { .. })));
    // The check is made to look old each time.
    for value in 2..5 {
        put(value);
        *reader.shared.looked.lock() = None;
        match view.get(TABLES[1], &[7]) {
            Ok(found) => assert_eq!(found.as_deref(), Some(&[1][..])),
            Err(error) => {
                assert!(error.to_string().contains("run the same command again"), "{error}")
            }
        }
    }
    assert!(view.get(TABLES[1], &[7]).is_err(), "what it saw was removed by now");

    // A writer that gives readers their time removes nothing that one of them still reads.
    writer.writer.lock().grace = Duration::from_secs(3_600);
    let options = CassandraOptions { read_only: true, ..self::options() };
    let reader = CassandraEngine::open_on(Arc::clone(&cluster), &store, options).unwrap();
    let now = crate::fence::Look::now();
    for value in 5..8 {
        put(value);
        *reader.shared.looked.lock() = Some(now);
        match reader.view().unwrap().get(TABLES[1], &[7]) {
            Ok(found) => assert_eq!(found.as_deref(), Some(&[4][..])),
            // This machine was slow.
            Err(error) => assert!(error.to_string().contains("was opened for reading"), "{error}"),
        }
    }
    writer.write(&Batch::new()).unwrap();
}

#[test]
fn a_directory_remembers_its_store() {
    let Some(_) = cluster() else { return };
    let nodes: Vec<String> = std::env::var(NODES).unwrap().split(',').map(str::to_owned).collect();
    let dir = tempfile::TempDir::new().unwrap();
    let options = |path: &Path| CassandraOptions::new(path, &TABLES);
    let error = CassandraEngine::open(options(dir.path())).unwrap_err().to_string();
    assert!(error.contains("--kv.nodes"), "{error}");
    let mut new = options(dir.path());
    (new.nodes, new.keyspace) = (nodes, Some(KEYSPACE.to_owned()));
    new.access = access();
    let engine = CassandraEngine::open(new).unwrap();
    let mut batch = Batch::new();
    batch.put(TABLES[0], b"key", b"value");
    engine.write(&batch).unwrap();
    drop(engine);
    let engine = CassandraEngine::open(options(dir.path())).unwrap();
    assert_eq!(all(&engine)[0], [(b"key".to_vec(), b"value".to_vec())]);
    drop(engine);

    // The file is all that another machine needs.
    let elsewhere = tempfile::TempDir::new().unwrap();
    std::fs::copy(dir.path().join(crate::ADDRESS_FILE), elsewhere.path().join(crate::ADDRESS_FILE))
        .unwrap();
    let engine = CassandraEngine::open(options(elsewhere.path())).unwrap();
    assert_eq!(all(&engine)[0].len(), 1);
    let asked = CassandraOptions { store: Some("other".to_owned()), ..options(dir.path()) };
    let error = CassandraEngine::open(asked).unwrap_err().to_string();
    assert!(error.contains("you asked for `other`"), "{error}");
}

/// A directory may meet nodes of another cluster, or a keyspace that was dropped and made again.
#[test]
fn a_store_that_is_gone_is_not_made_anew() {
    let Some(_) = cluster() else { return };
    let nodes: Vec<String> = std::env::var(NODES).unwrap().split(',').map(str::to_owned).collect();
    let dir = tempfile::TempDir::new().unwrap();
    let keyspace = Some(KEYSPACE.to_owned());
    let options = CassandraOptions { keyspace, ..CassandraOptions::new(dir.path(), &TABLES) };
    let options = CassandraOptions { nodes, access: access(), ..options };
    drop(CassandraEngine::open(options.clone()).unwrap());
    let file = dir.path().join(crate::ADDRESS_FILE);
    let text = std::fs::read_to_string(&file).unwrap();
    let known = crate::address::Address::find(dir.path(), &[], None, None, &Access::default());
    let other = text.replace(&known.unwrap().store, &new_name());
    std::fs::write(&file, &other).unwrap();
    for read_only in [false, true] {
        let options = CassandraOptions { read_only, ..options.clone() };
        let error = CassandraEngine::open(options).unwrap_err().to_string();
        assert!(error.contains("has no store `test-") && error.contains("--kv.nodes"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), other);
}

/// Runs statements on a cluster, one after the other.
fn run(cluster: &Cluster, statements: Vec<String>) {
    let link = cluster.link();
    let done = cluster.wait(async move {
        for statement in statements {
            let done = link.session.query_unpaged(statement.as_str(), ()).await;
            done.map_err(|error| crate::error::failed("running a statement", error))?;
        }
        Ok(())
    });
    done.unwrap();
}

/// Opens a store in a keyspace, for which the tables are made.
fn open_in(keyspace: &str, access: &Access) -> Result<(), KvError> {
    let nodes: Vec<String> = std::env::var(NODES).unwrap().split(',').map(str::to_owned).collect();
    let other = Cluster::connect(&nodes, keyspace, access, Duration::from_secs(60), true)?;
    open(&other, &new_name()).map(drop)
}

#[test]
fn the_name_of_a_keyspace_may_begin_with_a_digit() {
    let Some(cluster) = cluster() else { return };
    let name = format!("1_{:016x}", rand::random::<u64>());
    let opened = open_in(&name, &access());
    run(&cluster, vec![format!("DROP KEYSPACE IF EXISTS \"{name}\"")]);
    opened.unwrap();
}

/// A user may make the keyspace, and give the role rights in this one alone.
#[test]
fn a_role_that_may_not_make_keyspaces_makes_the_tables_of_one() {
    let Some(cluster) = cluster() else { return };
    if access().login.is_none() {
        skipped("the nodes ask for no role: POLYTRIE_CLUSTER_SECURE=yes scripts/cluster test");
        return;
    }
    let name = format!("polytrie_{:016x}", rand::random::<u64>());
    let made = vec![
        format!(
            "CREATE KEYSPACE {name} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}}"
        ),
        format!("CREATE ROLE {name} WITH LOGIN = true AND PASSWORD = 'sesame'"),
        format!("GRANT CREATE, SELECT, MODIFY ON KEYSPACE {name} TO {name}"),
    ];
    run(&cluster, made);
    let dir = tempfile::TempDir::new().unwrap();
    let password_file = dir.path().join("password");
    std::fs::write(&password_file, "sesame").unwrap();
    let login = Some(Login { user: name.clone(), password_file });
    let access = Access { login, ..access() };
    let opened = open_in(&name, &access);
    run(&cluster, vec![format!("DROP KEYSPACE {name}"), format!("DROP ROLE {name}")]);
    opened.unwrap();
}

#[test]
fn what_cannot_be_stored_is_refused_before_anything_is_sent() {
    let Some(cluster) = cluster() else { return };
    let engine = open(&cluster, &new_name()).unwrap();
    let mut batch = Batch::new();
    batch.put(TABLES[0], b"fine", b"");
    batch.put(TABLES[0], b"key", &vec![1; 16 << 20]);
    let error = engine.write(&batch).unwrap_err().to_string();
    assert!(error.contains("expected at most"), "{error}");
    assert_eq!(all(&engine), [vec![], vec![], vec![]]);
    let mut batch = Batch::new();
    batch.put(TABLES[0], b"key", &vec![1; 14 << 20]);
    engine.write(&batch).unwrap();
    assert_eq!(all(&engine)[0][0].1.len(), 14 << 20);
}

/// A node takes hardly longer for some rows of a partition than for one.
#[test]
fn keys_of_a_partition_share_requests() {
    let Some(cluster) = cluster() else { return };
    let engine = open(&cluster, &new_name()).unwrap();
    let keys: Vec<Vec<u8>> = (0..100).map(|n| vec![7, 7, 7, n]).collect();
    let mut batch = Batch::new();
    keys.iter().for_each(|key| batch.put(TABLES[2], key, key));
    engine.write(&batch).unwrap();
    let (view, link) = (engine.view().unwrap(), cluster.link());
    let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let before = link.line.left();
    let found = view.get_many(TABLES[2], &asked).unwrap();
    assert!(found.iter().zip(&keys).all(|(row, key)| row.as_ref() == Some(key)));
    assert_eq!(view.read_many(TABLES[2], &asked, true).unwrap().len(), keys.len());
    let requests = before - link.line.left();
    assert!(requests < 50, "{requests}");
}

/// An engine knows all partitions that have rows.
#[test]
fn keys_without_a_partition_are_absent_without_a_request() {
    let Some(cluster) = cluster() else { return };
    let engine = open(&cluster, &new_name()).unwrap();
    let there = [0xff_u8, 1, 2, 3];
    let mut batch = Batch::new();
    batch.put(TABLES[2], &there, b"value");
    engine.write(&batch).unwrap();
    let (view, link) = (engine.view().unwrap(), cluster.link());
    let keys: Vec<Vec<u8>> = (0..100).map(|n| vec![100 + n, 1, 2, 3]).collect();
    let mut asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    asked.push(&there);
    let before = link.line.left();
    for key in &keys {
        assert_eq!(view.get(TABLES[2], key).unwrap(), None);
    }
    let found = view.get_many(TABLES[2], &asked).unwrap();
    assert_eq!(found.iter().flatten().count(), 1);
    assert_eq!(found.last().unwrap().as_deref(), Some(&b"value"[..]));
    let requests = before - link.line.left();
    assert!(requests < 50, "{requests}");
}

#[test]
#[ignore = "figures for the README: cargo test -p polytrie-kv-cassandra --lib figures -- --ignored --nocapture"]
fn figures() {
    const ROWS: usize = 100_000;
    let Some(cluster) = cluster() else { return };
    let engine = open(&cluster, &new_name()).unwrap();
    let mut random = Random::new(Random::seed());
    let keys: Vec<Vec<u8>> = (0..ROWS).map(|_| random.bytes(32)).collect();
    let told = |what: &str, rows: usize, since: Instant| {
        let rate = rows as f64 / since.elapsed().as_secs_f64();
        say(&format!("{what}: {rows} rows, {rate:.0} a second"));
    };
    let since = Instant::now();
    for keys in keys.chunks(ROWS / 4) {
        let mut batch = Batch::new();
        keys.iter().for_each(|key| batch.put(TABLES[2], key, &[7; 32]));
        engine.write(&batch).unwrap();
    }
    told("written, 25,000 a batch", ROWS, since);
    let view = engine.view().unwrap();
    for at_once in [1, 100, 1_000] {
        let mut read = 0;
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(10) {
            let some: Vec<_> = (0..at_once).map(|_| &*keys[random.below(ROWS)]).collect();
            assert!(view.get_many(TABLES[2], &some).unwrap().iter().all(Option::is_some));
            read += at_once;
        }
        told(&format!("read, {at_once} in a call"), read, since);
    }
}
