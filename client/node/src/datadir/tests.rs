use super::*;
use alloy_primitives::{B256, Bytes};
use polytrie_chainspec::GenesisPlan;
use polytrie_kv::create_dir;
use polytrie_kv_testing::{Failure, ForgetfulDisk};
use polytrie_state::StampError;
use std::fs;

/// Writes a genesis with one account and this chain id, which its hash does not depend on.
fn genesis(dir: &Path, chain_id: u64) -> String {
    let path = dir.join("genesis.json");
    let text = format!(
        r#"{{"config":{{"chainId":{chain_id}}},"gasLimit":5000,"difficulty":1,
            "alloc":{{"0000000000000000000000000000000000000001":{{"balance":"7"}}}}}}"#
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn open(dir: &Path, chain: Option<&str>) -> Result<(Chain, DataDir), OpenError> {
    let options = OpenOptions {
        datadir: Some(dir.join("data")),
        chain: chain.map(str::to_owned),
        ..Default::default()
    };
    DataDir::open(&options, true)?.into_chain()
}

#[test]
fn a_known_genesis_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = genesis(dir.path(), 5);
    let (chain, data) = open(dir.path(), Some(&file)).unwrap();
    assert!(chain.spec().has_accounts());
    let hash = chain.spec().genesis_hash();
    drop((chain, data));
    for asked in [Some(&file[..]), None] {
        let (chain, _data) = open(dir.path(), asked).unwrap();
        assert!(!chain.spec().has_accounts(), "{asked:?}");
        assert_eq!((chain.spec().genesis_hash(), chain.spec().chain_id()), (hash, 5));
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(open(dir.path(), None).unwrap().0.spec().genesis_hash(), hash);
}

#[test]
fn a_changed_genesis_is_read_and_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let file = genesis(dir.path(), 5);
    drop(open(dir.path(), Some(&file)).unwrap());
    genesis(dir.path(), 666);
    // The file is not named, so the chain stays the same.
    assert_eq!(open(dir.path(), None).unwrap().0.spec().chain_id(), 5);
    assert_eq!(open(dir.path(), Some(&file)).unwrap().0.spec().chain_id(), 666);
    let chain = open(dir.path(), None).unwrap().0;
    assert_eq!((chain.spec().chain_id(), chain.spec().has_accounts()), (666, false));
    drop(chain);
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("\"7\"", "\"8\"")).unwrap();
    // Both files are of the same size, and may have been written within one tick of the system's clock.
    let changed = fs::File::options().write(true).open(&file).unwrap();
    changed.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let error = open(dir.path(), Some(&file)).unwrap_err();
    assert!(matches!(error, OpenError::Stamp(StampError::Mismatch { .. })), "{error}");
}

#[test]
fn an_outline_that_is_damaged_or_missing_costs_only_time() {
    let dir = tempfile::tempdir().unwrap();
    let file = genesis(dir.path(), 5);
    drop(open(dir.path(), Some(&file)).unwrap());
    let outline = dir.path().join("data").join(OUTLINE_FILE);
    let text = fs::read_to_string(&outline).unwrap();
    for damaged in ["", "{", &text.replace("stateRoot", "nothing"), &text.replace("5000", "5001")] {
        fs::write(&outline, damaged).unwrap();
        assert!(open(dir.path(), None).unwrap().0.spec().has_accounts(), "{damaged}");
    }
    fs::remove_file(&outline).unwrap();
    assert!(open(dir.path(), Some(&file)).unwrap().0.spec().has_accounts());
    // The command before has written it again.
    assert_eq!(fs::read_to_string(&outline).unwrap(), text);
}

#[test]
fn the_genesis_in_a_directory_that_was_moved_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read(genesis(dir.path(), 5)).unwrap();
    let options = OpenOptions { datadir: Some(dir.path().join("made")), ..Default::default() };
    let made = DataDir::create_with(&options, &text).unwrap();
    let hash = made.into_chain().unwrap().0.spec().genesis_hash();
    let data = dir.path().join("data");
    fs::rename(dir.path().join("made"), &data).unwrap();
    fs::remove_file(data.join(OUTLINE_FILE)).unwrap();
    let (chain, opened) = open(dir.path(), None).unwrap();
    assert_eq!(chain.spec().genesis_hash(), hash);
    assert!(opened.genesis().unwrap().has_accounts());
    drop((chain, opened));
    // Another file in its place is not taken for it.
    genesis(&data, 666);
    assert!(matches!(open(dir.path(), None), Err(OpenError::RulesLost { .. })));
}

#[test]
fn without_a_genesis_block_the_accounts_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = genesis(dir.path(), 5);
    let options = OpenOptions {
        datadir: Some(dir.path().join("data")),
        chain: Some(file.clone()),
        ..Default::default()
    };
    // The process ends after the stamp, before the genesis block.
    drop(DataDir::open(&options, true).unwrap());
    for asked in [None, Some(&file[..])] {
        let data = DataDir::open(
            &OpenOptions { chain: asked.map(str::to_owned), ..options.clone() },
            false,
        );
        assert!(data.unwrap().spec().unwrap().has_accounts());
    }
    let (chain, _data) = open(dir.path(), None).unwrap();
    assert_ne!(chain.layer().commitment().digest(), B256::ZERO);
    assert_eq!(chain.layer().commitment().digest(), chain.head().header.state_root);
}

#[test]
fn the_root_of_a_new_disk_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let file = genesis(dir.path(), 5);
    fs::create_dir_all(dir.path().join("data/lost+found")).unwrap();
    drop(open(dir.path(), Some(&file)).unwrap());
}

/// A power failure may leave any content in files that were never synced. If no write was confirmed, the directory is
/// made again.
#[test]
fn what_a_power_failure_left_of_a_new_directory_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let file = genesis(dir.path(), 5);
    drop(open(dir.path(), Some(&file)).unwrap());
    let data = dir.path().join("data");
    let whole = fs::read(data.join("db/mdbx.dat")).unwrap();
    let mut torn = whole.clone();
    torn[3 * 4096..].fill(0);
    let mut no_metas = whole;
    no_metas[..3 * 4096].fill(0);
    for left in [None, Some(&[][..]), Some(&[0; 65_536]), Some(&torn[..5 * 4096]), Some(&no_metas)]
    {
        fs::remove_dir_all(&data).unwrap();
        fs::create_dir_all(data.join("db")).unwrap();
        fs::write(data.join("LOCK"), "1\n").unwrap();
        if let Some(left) = left {
            fs::write(data.join("db/mdbx.dat"), left).unwrap();
        }
        let (chain, _data) = open(dir.path(), Some(&file)).unwrap();
        assert_eq!(chain.head().number(), 0, "{:?}", left.map(<[u8]>::len));
    }
    // A directory with a stamp must have a store.
    fs::remove_dir_all(data.join("db")).unwrap();
    let error = open(dir.path(), Some(&file)).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::NoStore { .. }), "{error}");
    assert!(!data.join("db").exists());
    // A store that has blocks is not replaced because its stamp is missing.
    fs::remove_dir_all(&data).unwrap();
    drop(open(dir.path(), Some(&file)).unwrap());
    fs::remove_file(data.join("chain.json")).unwrap();
    fs::remove_file(data.join("polytrie.json")).unwrap();
    let error = open(dir.path(), Some(&file)).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Unstamped { .. }), "{error}");
}

/// A store without a stamp and with a mark is an attempt's. Without a mark it may be the rest of a chain.
#[test]
fn only_what_an_attempt_has_left_is_filled_anew() {
    let dir = tempfile::tempdir().unwrap();
    let file = genesis(dir.path(), 5);
    let data = dir.path().join("data");
    let options = OpenOptions {
        datadir: Some(data.clone()),
        chain: Some(file.clone()),
        ..OpenOptions::default()
    };
    let source_options =
        OpenOptions { datadir: Some(dir.path().join("source")), ..options.clone() };
    let source = DataDir::open(&source_options, true).unwrap();
    let beside =
        || DataDir::create_beside(&source, source_options.datadir.as_deref().unwrap(), &options);

    let (chain, _) = open(dir.path(), Some(&file)).unwrap();
    let hash = chain.head().hash();
    drop(chain);
    assert!(!is_unfinished(&data));
    // The stamp is lost.
    let stamp = fs::read(data.join("polytrie.json")).unwrap();
    fs::remove_file(data.join("polytrie.json")).unwrap();
    fs::remove_file(data.join(OUTLINE_FILE)).unwrap();
    for error in [NewDir::create(&options).unwrap_err(), beside().unwrap_err()] {
        assert!(matches!(error, OpenError::Unmarked { .. }), "{error}");
    }
    let error = open(dir.path(), Some(&file)).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Unstamped { .. }), "{error}");
    assert!(!is_unfinished(&data));
    fs::write(data.join("polytrie.json"), stamp).unwrap();
    assert_eq!(open(dir.path(), None).unwrap().0.head().hash(), hash);

    // An attempt is cut off at any point, here with a head and no stamp.
    let cut_off = || {
        let new = NewDir::create(&options).unwrap();
        let (dir, options) = (new.dir(), ChainOptions::default());
        let (store, layer) = (dir.store.clone(), Arc::clone(&dir.layer));
        let chain = Chain::open(dir.spec().unwrap(), store.clone(), layer, options).unwrap();
        store.checkpoint().unwrap();
        drop((chain, new));
        assert!(is_unfinished(&data) && !data.join("polytrie.json").exists());
        assert_eq!(begun(&data).unwrap().chain_id, 5);
    };
    fs::remove_dir_all(&data).unwrap();
    cut_off();
    cut_off();
    drop(beside().unwrap());
    NewDir::create(&options).unwrap().discard().unwrap();
    // Only the directory is left, which existed before.
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    cut_off();
    assert_eq!(open(dir.path(), Some(&file)).unwrap().0.head().hash(), hash);
    assert!(!is_unfinished(&data));
}

/// A directory with a stamp is a data directory, even if a power failure has brought the mark back.
#[test]
fn a_mark_beside_a_stamp_goes() {
    let dir = tempfile::tempdir().unwrap();
    let file = genesis(dir.path(), 5);
    let (chain, _) = open(dir.path(), Some(&file)).unwrap();
    let hash = chain.head().hash();
    drop(chain);
    let data = dir.path().join("data");
    fs::copy(data.join("polytrie.json"), data.join(UNFINISHED_FILE)).unwrap();
    let options = OpenOptions { datadir: Some(data.clone()), ..OpenOptions::default() };
    let error = NewDir::create(&options).unwrap_err();
    assert!(matches!(error, OpenError::Taken { .. }), "{error}");
    assert_eq!(open(dir.path(), None).unwrap().0.head().hash(), hash);
    assert!(!is_unfinished(&data));
}

/// Whenever the power fails while a directory is made, the next attempt makes it again, or it is complete.
#[test]
fn a_directory_that_is_made_outlives_a_loss_of_power() {
    let sources = tempfile::tempdir().unwrap();
    let file = genesis(sources.path(), 5);
    for call in 1.. {
        let disk = ForgetfulDisk::new(call);
        disk.fail_at(call, Failure::Power);
        let made = open(disk.dir(), Some(&file)).is_ok();
        let lost = disk.has_failed();
        disk.restart();
        if made {
            let (chain, _) = open(disk.dir(), None).unwrap();
            assert_eq!(chain.spec().chain_id(), 5, "call {call}");
        }
        drop(open(disk.dir(), Some(&file)).unwrap_or_else(|error| panic!("call {call}: {error}")));
        if !lost {
            break;
        }
    }
}

/// The stamp of a data directory names the directory of its flat state, so that must be durable before it.
#[test]
fn the_directory_of_a_flat_state_outlives_a_loss_of_power() {
    for seed in 0..20 {
        let disk = ForgetfulDisk::new(seed);
        let (data, flat) = (disk.dir().join("data"), disk.dir().join("elsewhere").join("flat"));
        create_dir(&data).unwrap();
        flat::claim(&flat, &data).unwrap();
        disk.restart();
        FlatDir::open(&flat, &data, true).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Any call may fail while a directory is filled. Either nothing of it stays and the next attempt succeeds, or it is
/// complete.
#[test]
fn a_directory_that_could_not_be_filled_is_gone() {
    let plan = GenesisPlan {
        chain_id: 5,
        fork_times: vec![0],
        timestamp: 0,
        gas_limit: 5000,
        base_fee: 7,
        extra_data: Bytes::new(),
        deposit_contract: None,
    };
    let mut made = Vec::new();
    for call in 1.. {
        let disk = ForgetfulDisk::new(call);
        let datadir = disk.dir().join("data");
        let options = OpenOptions { datadir: Some(datadir.clone()), ..Default::default() };
        let begin = || NewDir::create_planned(&options, &plan).unwrap();
        let fill = |mut new: NewDir| match new.set_genesis(&plan, B256::ZERO) {
            Ok(_) => new.seal().map(drop),
            Err(error) => new.discard().and(Err(error)),
        };
        let new = begin();
        disk.fail_at(call, Failure::Io);
        let filled = fill(new);
        if !disk.has_failed() {
            filled.unwrap();
            break;
        }
        made.push(filled.is_ok());
        if let Err(error) = filled {
            assert!(!datadir.exists(), "call {call}: {error}");
            fill(begin()).unwrap_or_else(|error| panic!("call {call}: {error}"));
        }
        assert!(Stamp::read(&datadir).unwrap().is_some(), "call {call}");
    }
    // The rules of the chain are stored twice; the second copy only saves time.
    assert!(made.contains(&false) && made.last() == Some(&true), "{made:?}");
}

/// Between the read of the stamp and the lock another process may come: `db drop`, or an import that remembers
/// something.
#[test]
fn a_stamp_that_changed_before_the_lock_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = genesis(dir.path(), 5);
    drop(open(dir.path(), Some(&file)).unwrap());
    let data = dir.path().join("data");
    let options = OpenOptions { datadir: Some(data.clone()), ..Default::default() };
    let now = Stamp::read(&data).unwrap().unwrap();
    let before = Stamp { created_by: "an earlier build".to_owned(), ..now.clone() };
    let opened = DataDir::reopen(&options, &data, before.clone()).unwrap();
    assert_eq!(opened.stamp, now);
    drop(opened);
    fs::remove_file(data.join(polytrie_state::STAMP_FILE)).unwrap();
    let error = DataDir::reopen(&options, &data, before).unwrap_err();
    assert!(matches!(error, OpenError::Empty(_)), "{error}");
}
