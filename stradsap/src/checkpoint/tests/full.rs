//! Disks that are full or fail at one operation, in memory and a real small one.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use super::faulty::{Fault, Faulty};
use super::{Model, assert_holds_only, in_pieces, resume, session, train};
use crate::checkpoint::Checkpoints;
use crate::checkpoint::folder::Folder;
use crate::{DMatrix, DVector, Error, Session};

fn checkpoints(disk: &Faulty) -> Checkpoints {
    Checkpoints::over(disk.folder(), 1).unwrap()
}

/// How a folder is after two steps, and how many operations the third takes.
fn two_steps(session: &Session) -> (Faulty, usize) {
    let disk = Faulty::new(Fault::Never);
    let (mut before, mut model) = (checkpoints(&disk), Model::new(session));
    train(&mut before, &mut model, 1..=2).unwrap();
    let third = disk.with_fault(Fault::Never);
    let mut after = checkpoints(&third);
    let (_, mut model) = resume(session, &mut after).unwrap().unwrap();
    train(&mut after, &mut model, 3..=3).unwrap();
    (disk, third.log().len())
}

#[test]
fn an_operation_that_fails_is_told_of_and_costs_one_checkpoint() {
    let session = session();
    let (two, operations) = two_steps(&session);
    assert!(operations > 10, "{operations}");
    for kind in [ErrorKind::StorageFull, ErrorKind::PermissionDenied] {
        for n in 1..=operations {
            for fault in [Fault::Fail(n, kind), Fault::FailFrom(n, kind)] {
                let disk = two.with_fault(fault);
                let mut checkpoints = checkpoints(&disk);
                let (step, mut model) = resume(&session, &mut checkpoints).unwrap().unwrap();
                assert_eq!(step, 2);
                let error = train(&mut checkpoints, &mut model, 3..=3).unwrap_err();
                assert!(matches!(&error, Error::File { source, .. } if source.kind() == kind), "{error}");
                assert!(error.to_string().starts_with("/nowhere"), "{error}");

                // The one before is there, or the new one, if what failed came after it.
                let later = disk.with_fault(Fault::Never);
                let mut another = self::checkpoints(&later);
                let (step, _) = resume(&session, &mut another).unwrap().unwrap();
                assert!(step == 2 || step == 3, "{step}");
                drop(another);

                // The program goes on, and nothing that failed is left behind.
                if matches!(fault, Fault::Fail(..)) {
                    train(&mut checkpoints, &mut model, 4..=5).unwrap();
                    assert_holds_only(&disk.folder(), &[4, 5]);
                } else {
                    // So does one that begins anew with what was left.
                    let mut another = self::checkpoints(&later);
                    let (step, mut model) = resume(&session, &mut another).unwrap().unwrap();
                    train(&mut another, &mut model, step + 1..=step + 2).unwrap();
                    assert_holds_only(&later.folder(), &[step + 1, step + 2]);
                }
            }
        }
    }
}

#[test]
fn errors_come_out_at_the_next_save_which_is_under_way() {
    let session = session();
    let disk = Faulty::new(Fault::Fail(2, ErrorKind::StorageFull));
    let (mut checkpoints, mut model) = (checkpoints(&disk), Model::new(&session));
    model.step(1);
    model.save(&mut checkpoints, 1).unwrap();
    model.step(2);
    let error = model.save(&mut checkpoints, 2).unwrap_err();
    assert!(error.to_string().contains(".data.unfinished: "), "{error}");
    checkpoints.finish().unwrap();
    assert_eq!(resume(&session, &mut checkpoints).unwrap().unwrap().0, 2);
    assert_holds_only(&disk.folder(), &[2]);
}

#[test]
fn what_has_not_changed_is_not_written_again() {
    let session = session();
    let disk = Faulty::new(Fault::Never);
    let writes = |disk: &Faulty| disk.log().iter().filter(|&&operation| operation == "write").count();
    let (mut checkpoints, mut model) = (checkpoints(&disk), Model::new(&session));
    train(&mut checkpoints, &mut model, 1..=1).unwrap();
    assert_eq!(writes(&disk), 4, "three vectors and a manifest");
    train(&mut checkpoints, &mut model, 2..=2).unwrap();
    assert_eq!(writes(&disk), 6, "a vector and a manifest");
    train(&mut checkpoints, &mut model, 3..=3).unwrap();
    assert_eq!(writes(&disk), 9, "two vectors and a manifest");
    drop(checkpoints);

    // Nor is what was read from a checkpoint.
    let mut checkpoints = self::checkpoints(&disk);
    let (_, mut model) = resume(&session, &mut checkpoints).unwrap().unwrap();
    train(&mut checkpoints, &mut model, 4..=4).unwrap();
    assert_eq!(writes(&disk), 11, "a vector and a manifest");
    assert_holds_only(&disk.folder(), &[3, 4]);

    // What somebody deletes is.
    let unchanged = disk.folder().manifest(4).unwrap().vectors[2].sections[0].pieces[0].file.clone();
    crate::checkpoint::disk::FileLayer::remove(&disk, Path::new(&unchanged)).unwrap();
    train(&mut checkpoints, &mut model, 5..=5).unwrap();
    assert_eq!(writes(&disk), 14, "two vectors and a manifest");
    assert_holds_only(&disk.folder(), &[4, 5]);

    // So is what was found to be damaged, though this process knows it well.
    let mut bytes = disk.bytes(&unchanged);
    bytes[0] ^= 1;
    disk.replace(&unchanged, &bytes);
    let error = checkpoints.resume().unwrap_err().to_string();
    assert!(error.starts_with(&format!("/nowhere/{unchanged}: damaged")), "{error}");
    train(&mut checkpoints, &mut model, 6..=6).unwrap();
    assert_eq!(writes(&disk), 18, "three vectors and a manifest");
    assert_holds_only(&disk.folder(), &[6]);
    model.assert_is(6);
}

/// Of what is in several files, those are written that have others contents than before.
#[test]
fn pieces_that_have_not_changed_are_not_written_again() {
    let session = session();
    let disk = Faulty::new(Fault::Never);
    let writes = |disk: &Faulty| disk.log().iter().filter(|&&operation| operation == "write").count();
    let mut checkpoints = in_pieces(disk.folder(), 80);
    let mut x = DVector::from_fn(&session, 95, |i| i as f64).unwrap();
    let mut words = DVector::from_fn(&session, 95, |i| format!("{i:02}")).unwrap();
    let m = DMatrix::from_fn(&session, 9, 3, |i, k| [i as u32, k as u32]).unwrap();
    let (mut step, mut before) = (0, 0);
    let mut save = |x: &DVector<f64>, words: &DVector<String>| {
        step += 1;
        checkpoints.save(step, &(), &[("x", x), ("words", words), ("m", &m)]).unwrap();
        let checkpoint = checkpoints.resume().unwrap().unwrap();
        assert_eq!(checkpoint.vector::<f64>(&session, "x").unwrap().to_vec().unwrap(), x.to_vec().unwrap());
        assert_eq!(checkpoint.vector::<String>(&session, "words").unwrap().to_vec().unwrap(), words.to_vec().unwrap());
        let rows = checkpoint.matrix::<[u32; 2]>(&session, "m").unwrap();
        assert_eq!((rows.width(), rows.to_vec().unwrap()), (3, m.to_vec().unwrap()));
        let written = writes(&disk) - before;
        before += written;
        written
    };
    // Ten numbers, eight words of ten bytes, or three rows make a file.
    assert_eq!(save(&x, &words), 10 + 12 + 3 + 1);
    assert_eq!(save(&x, &words), 1);
    x.set(10, -1.0).unwrap();
    x.set(94, -1.0).unwrap();
    words.set(0, "x".repeat(30)).unwrap();
    // Behind a longer word the others are cut elsewhere.
    assert_eq!(save(&x, &words), 2 + 13 + 1);
    x.set(10, 10.0).unwrap();
    x.set(94, 94.0).unwrap();
    assert_eq!(save(&x, &words), 1, "the checkpoint before the last has them");
}

/// Set in the process that has the small disk.
const SMALL_DISK: &str = "STRADSAP_TEST_SMALL_DISK";

#[test]
fn a_real_disk_that_is_full() {
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        return on_a_small_disk(Path::new(&disk));
    }
    let folder = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=64k none "$1" || exit 77; shift; exec "$@""#;
    let path = module_path!().split_once("::").unwrap().1;
    let test = format!("{path}::a_real_disk_that_is_full");
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(SMALL_DISK, folder.path())
        .output();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output {
        Ok(output) if output.status.success() => {
            let out = said(&output.stdout);
            assert!(out.contains("a small disk was filled"), "{out}");
        }
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}{}", said(&output.stdout), said(&output.stderr));
        }
        Ok(output) => println!("skipped, no small disk can be mounted here: {}", said(&output.stderr).trim()),
        Err(error) => println!("skipped, there is no `unshare`: {error}"),
    }
}

fn on_a_small_disk(disk: &Path) {
    let session = session();
    let mut checkpoints = Checkpoints::new(disk, 1).unwrap();
    let mut x = DVector::from_fn(&session, 2000, |i| i as f64).unwrap(); // 16 of 64 KiB
    for step in 1..=2 {
        x.set(0, step as f64).unwrap();
        checkpoints.save(step, &(), &[("x", &x)]).unwrap();
        checkpoints.finish().unwrap();
    }
    let large = DVector::from_fn(&session, 3000, |i| i as f64 + 0.5).unwrap();
    checkpoints.save(3, &(), &[("x", &x), ("large", &large)]).unwrap();
    let error = checkpoints.finish().unwrap_err();
    assert!(matches!(&error, Error::File { source, .. } if source.kind() == ErrorKind::StorageFull), "{error}");
    assert!(error.to_string().starts_with(disk.to_str().unwrap()), "{error}");
    let folder = Folder::on_disk(disk.to_path_buf());
    assert_holds_only(&folder, &[1, 2]);
    assert_eq!(Checkpoints::new(disk, 1).unwrap().resume().unwrap().unwrap().step(), 2);

    x.set(0, 4.0).unwrap();
    checkpoints.save(4, &(), &[("x", &x)]).unwrap();
    checkpoints.finish().unwrap();
    assert_holds_only(&folder, &[2, 4]);
    let last = checkpoints.resume().unwrap().unwrap();
    assert_eq!(last.vector::<f64>(&session, "x").unwrap().digest().unwrap(), x.digest().unwrap());
    println!("a small disk was filled");
}
