//! The power goes at each operation, and the disk holds each of what it may hold then.

use super::faulty::{Fault, Faulty, Lies, Torn};
use super::{Model, assert_holds_only, resume, session, train};
use crate::Session;
use crate::checkpoint::Checkpoints;
use crate::checkpoint::folder::Folder;

pub(super) const STEPS: u64 = 4;

fn checkpoints(folder: &Folder) -> Checkpoints {
    Checkpoints::over(folder.clone(), 1).unwrap()
}

/// Runs until the disk fails. Gives the last step that was said to be saved.
pub(super) fn run_until_crash(session: &Session, folder: &Folder) -> u64 {
    let (mut checkpoints, mut model) = (checkpoints(folder), Model::new(session));
    (1..=STEPS).take_while(|&step| train(&mut checkpoints, &mut model, step..=step).is_ok()).last().unwrap_or(0)
}

/// A folder after a crash: the last step that was said to be saved is there, or the one that was under way; and saving goes on.
pub(super) fn check(session: &Session, folder: &Folder, saved: u64) -> Result<(), String> {
    let mut checkpoints = checkpoints(folder);
    let found = resume(session, &mut checkpoints).map_err(|error| error.to_string())?;
    let (step, mut model) = found.unwrap_or_else(|| (0, Model::new(session)));
    if !(saved..=saved + 1).contains(&step) {
        return Err(format!("step {saved} was saved, and step {step} is found"));
    }
    train(&mut checkpoints, &mut model, step + 1..=step + 2).map_err(|error| error.to_string())?;
    assert_holds_only(folder, &[step + 1, step + 2]);
    Ok(())
}

/// Every disk that a crash at the `crash`-th operation may leave. Gives how many there are, or what is wrong with one.
fn crash_at(session: &Session, crash: usize, lies: Lies) -> Result<usize, String> {
    let disk = Faulty::lying(Fault::Crash(crash), lies);
    let saved = run_until_crash(session, &disk.folder());
    let torn = (0..=disk.unsynced()).map(Torn::At).chain([Torn::Zeros]);
    let pending = disk.pending();
    // All sets of names; on a disk that lies there are too many, so those that lack or have one.
    assert!(pending <= 8 || lies != Lies::default(), "{pending} operations on names");
    let sets: Vec<u64> = if pending <= 8 {
        (0..1 << pending).collect()
    } else {
        let all = (1 << pending.min(63)) - 1;
        (0..pending.min(63)).flat_map(|i| [1 << i, all & !(1 << i)]).chain([0, all]).collect()
    };
    let mut tried = 0;
    for torn in torn {
        // With one set of names it is seen that the tear does no harm, with all of them the rest.
        let whole = matches!(torn, Torn::At(0)) || matches!(torn, Torn::At(n) if n == disk.unsynced());
        let sets = if whole { &sets[..] } else { &sets[sets.len() - 1..] };
        for &names in sets {
            let after = disk.after_crash(names, torn);
            check(session, &after.folder(), saved)
                .map_err(|error| format!("crash at {crash}, names {names:b} of {pending}, {torn:?}: {error}"))?;
            tried += 1;
        }
    }
    Ok(tried)
}

/// How many operations a run makes without a crash.
fn operations(session: &Session) -> usize {
    let disk = Faulty::new(Fault::Never);
    assert_eq!(run_until_crash(session, &disk.folder()), STEPS);
    let log = disk.log();
    for operation in ["create", "write", "sync", "rename", "sync folder", "remove"] {
        assert!(log.contains(&operation), "no {operation} in {log:?}");
    }
    log.len()
}

#[test]
fn after_a_crash_at_any_operation_the_last_checkpoint_is_there() {
    let session = session();
    let operations = operations(&session);
    let tried: usize = (1..=operations + 1).map(|crash| crash_at(&session, crash, Lies::default()).unwrap()).sum();
    println!("{operations} operations, {tried} disks after a crash");
    assert!(operations > 40 && tried > 1000, "{operations} operations, {tried} disks");
}

/// The test above sees something: on a disk that does not keep what it promises, checkpoints are lost.
#[test]
fn disks_that_lie_are_seen_through() {
    let session = session();
    let operations = operations(&session);
    for lies in [Lies { about_contents: true, about_names: false }, Lies { about_contents: false, about_names: true }] {
        let lost = (1..=operations + 1).any(|crash| crash_at(&session, crash, lies).is_err());
        assert!(lost, "{lies:?}: nothing was lost");
    }
}

/// A crash while an earlier crash is being recovered from.
#[test]
fn crashes_follow_each_other() {
    let session = session();
    let operations = operations(&session);
    for first in (1..=operations).step_by(3) {
        let disk = Faulty::new(Fault::Crash(first));
        let saved = run_until_crash(&session, &disk.folder());
        let all = (1 << disk.pending()) - 1;
        for names in [0, all] {
            for second in 1..20 {
                let disk = disk.after_crash(names, Torn::At(usize::MAX)).with_fault(Fault::Crash(second));
                let mut between = checkpoints(&disk.folder());
                let found = resume(&session, &mut between).unwrap();
                let (step, mut model) = found.unwrap_or_else(|| (0, Model::new(&session)));
                assert!((saved..=saved + 1).contains(&step));
                let more = (step + 1..=STEPS).take_while(|&s| train(&mut between, &mut model, s..=s).is_ok());
                let saved = more.last().unwrap_or(step);
                for names in [0, (1 << disk.pending()) - 1] {
                    for torn in [Torn::At(0), Torn::At(9), Torn::At(usize::MAX)] {
                        check(&session, &disk.after_crash(names, torn).folder(), saved).unwrap();
                    }
                }
            }
        }
    }
}
