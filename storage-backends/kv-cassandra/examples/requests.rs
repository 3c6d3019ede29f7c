//! Rows that the engine reads and writes a second on a cluster: `cargo run --release -p polytrie-kv-cassandra --example requests
//! -- HOST:PORT,… [ROWS]`.

#![expect(clippy::print_stdout, reason = "prints what it measured")]

use polytrie_kv::{Batch, Engine as _, KvError, Table};
use polytrie_kv_cassandra::{Access, CassandraEngine, CassandraOptions, Cluster};
use std::{
    env, iter,
    time::{Duration, Instant},
};

const TABLE: Table = Table::new(0, "measured", 32);
/// Number of keys of one `get_many`, as a layer that reads a block ahead asks for them.
const MANY: usize = 1_000;

fn main() -> Result<(), KvError> {
    let mut args = env::args().skip(1);
    let nodes = args.next().unwrap_or_else(|| "127.0.0.1:9042".to_owned());
    let rows: usize = args.next().and_then(|rows| rows.parse().ok()).unwrap_or(20_000);
    let nodes: Vec<String> = nodes.split(',').map(str::to_owned).collect();
    let (access, patience) = (Access::default(), Duration::from_secs(60));
    let cluster = Cluster::connect(&nodes, "polytrie_measure", &access, patience, true)?;
    let options = CassandraOptions::new(env::temp_dir(), &[TABLE]);
    let engine =
        CassandraEngine::open_on(cluster, &format!("{:x}", rand::random::<u64>()), options)?;
    let keys: Vec<[u8; 32]> = iter::repeat_with(rand::random).take(rows).collect();
    let timed = |what: &str, rows: usize, work: &dyn Fn() -> Result<(), KvError>| {
        let started = Instant::now();
        work()?;
        let seconds = started.elapsed().as_secs_f64();
        let (rate, each) = (rows as f64 / seconds, seconds * 1e6 / rows as f64);
        println!("{what:<32} {rows:>8} rows {rate:>10.0} a second {each:>10.1} µs each");
        Ok::<(), KvError>(())
    };
    for what in ["new rows of 100 bytes", "the same rows again"] {
        let mut batch = Batch::new();
        keys.iter().for_each(|key| batch.put(TABLE, key, &rand::random::<[u8; 100]>()));
        timed(what, rows, &|| engine.write(&batch))?;
    }
    let view = engine.view()?;
    timed("read, 1,000 at once", rows, &|| {
        keys.chunks(MANY).try_for_each(|keys| {
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 32]>::as_slice).collect();
            view.get_many(TABLE, &keys).map(drop)
        })
    })?;
    let some = &keys[..MANY.min(rows)];
    timed("read, one after the other", some.len(), &|| {
        some.iter().try_for_each(|key| view.get_into(TABLE, key, &mut Vec::new()).map(drop))
    })?;
    timed("written, one a write", 50, &|| {
        keys.iter().cycle().take(50).try_for_each(|key| {
            let mut batch = Batch::new();
            batch.put(TABLE, key, b"value");
            engine.write(&batch)
        })
    })
}
