//! Checkpoints in an object store: crashes, failing requests, and jobs that meet.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path as Key;

use super::crashes::{STEPS, check, run_until_crash};
use super::faulty_store::{FaultyStore, StoreFault};
use super::{Model, assert_holds_only, resume, session, train};
use crate::checkpoint::Checkpoints;
use crate::checkpoint::folder::Folder;
use crate::checkpoint::lock;
use crate::checkpoint::store::{Leases, Objects, Timing};
use crate::{Checkpoint, DVector, Error, Session};

const ADDRESS: &str = "test://bucket/runs/7";
/// Data files are smaller, so that they are sent at once; the manifest is larger.
const PART: usize = 100;
/// Locks of these give no sign of life during a test.
const NEVER: Timing = Timing(Duration::from_secs(3600));

/// A place as a process with leases of its own sees it.
fn place(store: &FaultyStore, timing: Timing) -> Folder {
    let store = Arc::new(store.clone());
    let objects = Objects::new(store, Key::from("runs/7"), ADDRESS.into(), Leases::new(timing)).unwrap();
    Folder::over(objects.with_parts_of(PART), ADDRESS.into())
}

fn checkpoints(store: &FaultyStore, timing: Timing) -> Checkpoints {
    Checkpoints::over(place(store, timing), 1).unwrap()
}

fn run<T>(task: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(task)
}

fn lock_key() -> Key {
    Key::from(format!("runs/7/{}", lock::NAME))
}

/// The objects without the lock: as after its holder was seen to be dead.
fn unlocked(store: &FaultyStore, fault: StoreFault) -> FaultyStore {
    let objects = store.store.fork();
    run(async { objects.delete(&lock_key()).await }).unwrap();
    FaultyStore::new(objects, fault)
}

/// The requests of a run without a fault.
fn requests(session: &Session) -> usize {
    let store = FaultyStore::new(InMemory::new(), StoreFault::Never);
    assert_eq!(run_until_crash(session, &place(&store, NEVER)), STEPS);
    let log = store.log();
    for request in ["put", "begin", "part", "complete", "delete"] {
        assert!(log.contains(&request), "no {request} in {log:?}");
    }
    log.len()
}

#[test]
fn after_a_crash_at_any_request_the_last_checkpoint_is_there() {
    let session = session();
    let requests = requests(&session);
    for at in 1..=requests + 1 {
        for done in [false, true] {
            let store = FaultyStore::new(InMemory::new(), StoreFault::Crash { at, done });
            let saved = run_until_crash(&session, &place(&store, NEVER));
            let after = unlocked(&store, StoreFault::Never);
            check(&session, &place(&after, NEVER), saved)
                .unwrap_or_else(|error| panic!("crash at {at}, carried out: {done}: {error}"));
        }
    }
    assert!(requests > 40, "{requests} requests");
}

#[test]
fn crashes_follow_each_other() {
    let session = session();
    for first in (1..=requests(&session)).step_by(7) {
        let store = FaultyStore::new(InMemory::new(), StoreFault::Crash { at: first, done: true });
        let saved = run_until_crash(&session, &place(&store, NEVER));
        for second in 1..30 {
            let store = unlocked(&store, StoreFault::Crash { at: second, done: second % 2 == 0 });
            let mut between = checkpoints(&store, NEVER);
            let Ok(found) = resume(&session, &mut between) else {
                assert!(second <= 2, "only the lock is written before");
                continue;
            };
            let (step, mut model) = found.unwrap_or_else(|| (0, Model::new(&session)));
            assert!((saved..=saved + 1).contains(&step));
            let more = (step + 1..=STEPS).take_while(|&s| train(&mut between, &mut model, s..=s).is_ok());
            let saved = more.last().unwrap_or(step);
            drop(between);
            check(&session, &place(&unlocked(&store, StoreFault::Never), NEVER), saved).unwrap();
        }
    }
}

#[test]
fn a_request_that_fails_costs_one_checkpoint() {
    let session = session();
    let two = FaultyStore::new(InMemory::new(), StoreFault::Never);
    train(&mut checkpoints(&two, NEVER), &mut Model::new(&session), 1..=2).unwrap();
    let (mut failures, mut all) = (0, 0);
    for at in 1.. {
        for done in [false, true] {
            let store = FaultyStore::new(two.store.fork(), StoreFault::Never);
            let mut checkpoints = checkpoints(&store, NEVER);
            let (step, mut model) = resume(&session, &mut checkpoints).unwrap().unwrap();
            assert_eq!(step, 2);
            store.set(StoreFault::Fail { at, done });
            let outcome = train(&mut checkpoints, &mut model, 3..=3);
            all = store.log().len();
            failures += usize::from(outcome.is_err());
            if let Err(error) = outcome {
                assert!(matches!(&error, Error::File { .. }) && error.to_string().starts_with(ADDRESS), "{error}");
                assert!(error.to_string().contains("the connection broke"), "{error}");
            }
            let left = store.open();
            assert!(left == 0 || store.log().contains(&"abort"), "an upload was not given up");
            store.set(StoreFault::Never);
            train(&mut checkpoints, &mut model, 4..=5).unwrap();
            assert_holds_only(&place(&store, NEVER), &[4, 5]);
        }
        if at > all {
            break;
        }
    }
    // Only giving up an upload may fail unseen.
    assert!(failures > 20 && failures >= 2 * (all - 1), "{failures} of {all}");
}

#[test]
fn large_objects_are_sent_in_a_few_parts_at_once() {
    let session = session();
    let store = FaultyStore::new(InMemory::new(), StoreFault::Never);
    let x = DVector::from_fn(&session, 1000, |i| i as f64).unwrap();
    let mut checkpoints = checkpoints(&store, NEVER);
    checkpoints.save(1, &(), &[("x", &x)]).unwrap();
    checkpoints.finish().unwrap();
    let parts = store.log().iter().filter(|request| **request == "part").count();
    assert!(parts >= 80, "{parts}");
    let (under_way, largest) = store.most();
    assert!((2..=4).contains(&under_way), "{under_way}");
    // The lock alone is larger than a part.
    assert!(largest < 400, "{largest}");
    assert_eq!(store.open(), 0);

    // What has not changed is not sent again, and comes back.
    store.set(StoreFault::Never);
    checkpoints.save(2, &(), &[("x", &x)]).unwrap();
    checkpoints.finish().unwrap();
    let parts = store.log().iter().filter(|request| **request == "part").count();
    assert!(parts < 40, "{parts}");
    let found = checkpoints.resume().unwrap().unwrap();
    assert_eq!(found.step(), 2);
    assert_eq!(found.vector::<f64>(&session, "x").unwrap().to_vec().unwrap(), x.to_vec().unwrap());
    assert_eq!(found.path().to_str(), Some("test://bucket/runs/7/step-000000000002.checkpoint"));
}

/// The files are those of a folder, byte by byte.
#[test]
fn objects_are_the_files_of_a_folder() {
    let (session, folder) = (session(), tempfile::tempdir().unwrap());
    let store = FaultyStore::new(InMemory::new(), StoreFault::Never);
    let (mut here, mut there) = (Checkpoints::new(folder.path(), 1).unwrap(), checkpoints(&store, NEVER));
    train(&mut here, &mut Model::new(&session), 1..=3).unwrap();
    train(&mut there, &mut Model::new(&session), 1..=3).unwrap();
    let (local, remote) = (Folder::on_disk(folder.path().into()), place(&store, NEVER));
    let names = local.list().unwrap();
    assert_eq!(names.keys().collect::<Vec<_>>(), remote.list().unwrap().keys().collect::<Vec<_>>());
    for name in names.keys().filter(|name| *name != lock::NAME) {
        let object = run(async { store.store.get(&Key::from(format!("runs/7/{name}"))).await?.bytes().await }).unwrap();
        let file = std::fs::read(folder.path().join(name)).unwrap();
        if name.ends_with(".data") {
            assert_eq!(object, file, "{name}");
        }
        // Manifests differ in the second in which they were written. Copied into a folder they are checkpoints there.
        std::fs::write(folder.path().join(name), object).unwrap();
    }
    let copied = Checkpoint::open(folder.path().join("step-000000000003.checkpoint")).unwrap();
    Model::load(&session, &copied).unwrap().assert_is(3);
}

#[test]
fn two_jobs_do_not_meet() {
    let session = session();
    let store = FaultyStore::new(InMemory::new(), StoreFault::Never);
    let timing = Timing(Duration::from_secs(6));
    let mut first = checkpoints(&store, timing);
    train(&mut first, &mut Model::new(&session), 1..=1).unwrap();
    let other = store.seen_by_another(StoreFault::Never);
    let error = checkpoints(&other, timing).resume().unwrap_err();
    let text = error.to_string();
    assert_eq!(error.exit_code(), 2, "{text}");
    assert!(text.starts_with(&format!("{ADDRESS} is in use by process {} on ", std::process::id())), "{text}");
    // The first one is not harmed, and its end is seen at once.
    let mut model = Model::new(&session);
    train(&mut first, &mut model, 2..=2).unwrap();
    drop(first);
    let since = Instant::now();
    let mut second = checkpoints(&other, timing);
    assert_eq!(second.resume().unwrap().unwrap().step(), 2);
    assert!(since.elapsed() < timing.0 / 2);
    // Within a process it is one lease.
    assert_eq!(checkpoints(&store, timing).resume().unwrap_err().exit_code(), 2);
}

/// A job that hung finds its place taken, and leaves alone what is there.
#[test]
fn a_dead_jobs_place_is_taken_over_and_it_does_no_harm_when_it_wakes() {
    let session = session();
    let store = FaultyStore::new(InMemory::new(), StoreFault::Never);
    let timing = Timing(Duration::from_millis(900));
    let (mut first, mut model) = (checkpoints(&store, timing), Model::new(&session));
    train(&mut first, &mut model, 1..=2).unwrap();
    store.set(StoreFault::Crash { at: 1, done: false });

    let since = Instant::now();
    let mut second = checkpoints(&store.seen_by_another(StoreFault::Never), NEVER);
    let (step, mut other) = resume(&session, &mut second).unwrap().unwrap();
    assert!(step == 2 && since.elapsed() >= timing.0, "{:?}", since.elapsed());
    train(&mut second, &mut other, 3..=3).unwrap();

    store.set(StoreFault::Never);
    let error = train(&mut first, &mut model, 4..=4).unwrap_err();
    let Error::File { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), ErrorKind::ResourceBusy);
    assert!(error.to_string().contains("taken over by process "), "{error}");
    drop(first);
    assert_holds_only(&place(&store, NEVER), &[2, 3]);
    train(&mut second, &mut other, 4..=4).unwrap();
    assert_holds_only(&place(&store, NEVER), &[3, 4]);
}

#[test]
fn stores_without_conditions_have_no_locks() {
    let session = session();
    let mut store = FaultyStore::new(InMemory::new(), StoreFault::Never);
    store.ignores_conditions = true;
    let mut checkpoints = checkpoints(&store, NEVER);
    checkpoints.begin().unwrap();
    train(&mut checkpoints, &mut Model::new(&session), 1..=2).unwrap();
    assert_holds_only(&place(&store, NEVER), &[1, 2]);
    let lock = place(&store, NEVER).place.lock().unwrap();
    assert!(lock.is_none());
    store.ignores_conditions = false;
    assert!(place(&unlocked(&store, StoreFault::Never), NEVER).place.lock().unwrap().is_some());
}

#[test]
fn who_may_only_read_goes_on_from_what_is_there() {
    let session = session();
    let store = FaultyStore::new(InMemory::new(), StoreFault::Never);
    train(&mut checkpoints(&store, NEVER), &mut Model::new(&session), 1..=2).unwrap();
    let mut reader = checkpoints(&store.seen_by_another(StoreFault::ReadOnly), NEVER);
    let (step, mut model) = resume(&session, &mut reader).unwrap().unwrap();
    assert_eq!(step, 2);
    let error = train(&mut reader, &mut model, 3..=3).unwrap_err();
    assert!(matches!(&error, Error::File { source, .. } if source.kind() == ErrorKind::PermissionDenied), "{error}");
}

#[test]
fn a_lock_that_is_none_is_named() {
    let store = FaultyStore::new(InMemory::new(), StoreFault::Never);
    run(async { store.store.put(&lock_key(), "what?".into()).await }).unwrap();
    let error = checkpoints(&store, NEVER).begin().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{ADDRESS}/{}: not a lock", lock::NAME)), "{error}");
}

#[test]
fn addresses_are_checked_before_anything_else() {
    let says = |address: &str| Checkpoints::new(address, 1).unwrap_err().to_string();
    let secret = says("s3://me:secret@bucket/prefix");
    assert!(secret.starts_with("s3://bucket/prefix: ") && !secret.contains("secret@"), "{secret}");
    assert!(says("az://c/p?sig=abc").starts_with("az://c/p: "));
    assert!(says("memory:///p").contains("keeps nothing"));
    assert!(says("what://is/this").ends_with("expected: s3, gs, az, abfs, http, https or file"));
    assert!(says("file://elsewhere/p").contains("a file of this machine was expected"));

    let (session, folder) = (session(), tempfile::tempdir().unwrap());
    let address = format!("file://{}/a%20b", folder.path().display());
    let mut checkpoints = Checkpoints::new(&address, 1).unwrap();
    train(&mut checkpoints, &mut Model::new(&session), 1..=1).unwrap();
    let path = format!("{address}/step-000000000001.checkpoint");
    assert_eq!(Checkpoint::open(path).unwrap().step(), 1);
    assert!(folder.path().join("a b/step-000000000001.checkpoint").exists());
}
