//! Files of which bytes have changed, or are missing.

use super::faulty::{Fault, Faulty};
use super::{Model, assert_holds_only, in_pieces, resume, session, train};
use crate::Session;
use crate::checkpoint::Checkpoints;
use crate::checkpoint::manifest::{FORMAT, Manifest, Refusal, VERSION, manifest_name};

fn checkpoints(disk: &Faulty) -> Checkpoints {
    in_pieces(disk.folder(), 8)
}

/// A folder of two checkpoints.
fn saved(session: &Session) -> Faulty {
    let disk = Faulty::new(Fault::Never);
    let (mut checkpoints, mut model) = (checkpoints(&disk), Model::new(session));
    train(&mut checkpoints, &mut model, 3..=4).unwrap();
    disk
}

fn files(disk: &Faulty) -> Vec<String> {
    disk.folder().list().unwrap().into_keys().collect()
}

/// Whether a step's checkpoint needs a file.
fn needs(disk: &Faulty, step: u64, name: &str) -> bool {
    name == manifest_name(step) || disk.folder().manifest(step).unwrap().files().any(|data| data.file == name)
}

/// Damages each file in each way, and gives how many ways there are. A checkpoint that needs the file is found to be bad
/// because of it; the newest that doesn't is taken, and if there is none, the error names the file.
fn each_file(damages: impl Fn(&[u8]) -> Vec<(String, Vec<u8>)>) -> usize {
    let session = session();
    let disk = saved(&session);
    let names = files(&disk);
    let (mut tried, mut shared) = (0, 0);
    for name in &names {
        let needing: Vec<u64> = [3, 4].into_iter().filter(|&step| needs(&disk, step, name)).collect();
        let others = [4, 3].into_iter().find(|step| !needing.contains(step));
        shared += usize::from(others.is_none());
        for (what, damaged) in damages(&disk.bytes(name)) {
            let disk = disk.with_fault(Fault::Never);
            disk.replace(name, &damaged);
            let folder = disk.folder();
            for &step in &needing {
                let manifest = folder.manifest(step).map_err(|trouble| trouble.error);
                let error = manifest.and_then(|manifest| folder.check(&manifest)).unwrap_err().to_string();
                assert!(error.starts_with(&format!("/nowhere/{name}: damaged")), "{name}, {what}: {error}");
            }
            let resumed = resume(&session, &mut checkpoints(&disk));
            match (others, resumed) {
                (Some(step), Ok(Some((found, _)))) => assert_eq!(found, step, "{name}, {what}"),
                (None, Err(error)) => {
                    assert!(error.to_string().starts_with(&format!("/nowhere/{name}: ")), "{name}, {what}: {error}");
                }
                (_, other) => panic!("{name}, {what}: {:?}", other.map(|found| found.map(|(step, _)| step))),
            }
            tried += 1;
        }
        // What is damaged doesn't last: the run goes on, and it is deleted or written again.
        if let Some(step) = others {
            let disk = disk.with_fault(Fault::Never);
            disk.replace(name, b"");
            let mut after = checkpoints(&disk);
            let (_, mut model) = resume(&session, &mut after).unwrap().unwrap();
            train(&mut after, &mut model, step + 1..=6).unwrap();
            assert_holds_only(&disk.folder(), &[5, 6]);
        }
    }
    // In both are `never`, the two files of `seldom`, and two of three of `often`; there are two manifests.
    assert_eq!((shared, names.len()), (5, 9));
    tried
}

#[test]
fn every_flipped_byte_is_found() {
    let tried = each_file(|bytes| {
        let flips = (0..bytes.len()).flat_map(|i| [1, 0x80, 0xff].map(|flip| (i, flip)));
        let damage = |(i, flip): (usize, u8)| {
            let mut flipped = bytes.to_vec();
            flipped[i] ^= flip;
            (format!("byte {i} with {flip:#x}"), flipped)
        };
        flips.map(damage).collect()
    });
    println!("{tried} flips");
    assert!(tried > 3000, "{tried}");
}

#[test]
fn every_cut_is_found() {
    let tried = each_file(|bytes| {
        let cuts = (0..bytes.len()).map(|n| (format!("cut to {n}"), bytes[..n].to_vec()));
        cuts.chain([("a byte too many".to_owned(), [bytes, b" "].concat())]).collect()
    });
    println!("{tried} cuts");
    assert!(tried > 1000, "{tried}");
}

/// A manifest as the version before has it, whose sections have one file each.
fn of_version_2(bytes: &[u8]) -> Vec<u8> {
    let mut manifest: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    manifest.as_object_mut().unwrap().remove("checksum");
    manifest["version"] = 2.into();
    for entry in manifest["vectors"].as_array_mut().unwrap() {
        for section in entry["sections"].as_array_mut().unwrap() {
            let section = section.as_object_mut().unwrap();
            let pieces = section.remove("pieces").unwrap();
            assert_eq!(pieces.as_array().unwrap().len(), 1);
            section.extend(pieces[0].as_object().unwrap().clone());
        }
    }
    let text = serde_json::to_string_pretty(&manifest).unwrap();
    let head = text.strip_suffix("\n}").unwrap();
    let hash = blake3::hash(head.as_bytes()).to_hex();
    format!("{head},\n  \"checksum\": \"blake3:{hash}\"\n}}\n").into_bytes()
}

#[test]
fn a_run_goes_on_from_a_manifest_of_the_version_before() {
    let session = session();
    let disk = Faulty::new(Fault::Never);
    let (mut before, mut model) = (Checkpoints::over(disk.folder(), 1).unwrap(), Model::new(&session));
    train(&mut before, &mut model, 3..=4).unwrap();
    drop(before);
    for step in [3, 4] {
        disk.replace(&manifest_name(step), &of_version_2(&disk.bytes(&manifest_name(step))));
    }
    let mut after = Checkpoints::over(disk.folder(), 1).unwrap();
    let (step, mut model) = resume(&session, &mut after).unwrap().unwrap();
    let writes = |disk: &Faulty| disk.log().iter().filter(|&&operation| operation == "write").count();
    let written = writes(&disk);
    train(&mut after, &mut model, step + 1..=5).unwrap();
    assert_eq!((step, writes(&disk) - written), (4, 2), "the vector that changed, and a manifest");
    assert_holds_only(&disk.folder(), &[4, 5]);

    // One that names no file at all.
    let text = String::from_utf8(of_version_2(&disk.bytes(&manifest_name(5)))).unwrap();
    let lost = rewritten(text.as_bytes(), "\"file\": ", "\"fill\": ");
    let says = "not a manifest of a checkpoint: `elements` has no file";
    assert!(matches!(Manifest::parse(&lost), Err(Refusal::Damaged(problem)) if problem == says));
}

/// Gives a manifest other contents and the checksum that belongs to them.
fn rewritten(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = std::str::from_utf8(bytes).unwrap();
    let (head, _) = text.split_once(",\n  \"checksum\": ").unwrap();
    assert!(head.contains(from), "no {from} in {head}");
    let head = head.replacen(from, to, 1);
    let hash = blake3::hash(head.as_bytes()).to_hex();
    format!("{head},\n  \"checksum\": \"blake3:{hash}\"\n}}\n").into_bytes()
}

#[test]
fn other_versions_and_machines_are_refused_and_nothing_of_theirs_is_deleted() {
    let session = session();
    let disk = saved(&session);
    let name = manifest_name(4);
    let bytes = disk.bytes(&name);
    assert_eq!(rewritten(&bytes, FORMAT, FORMAT), bytes);
    let version = format!("\"version\": {VERSION}");
    let other_end = if cfg!(target_endian = "little") { "big" } else { "little" };
    let this_end = if cfg!(target_endian = "little") { "little" } else { "big" };
    let newer = rewritten(&bytes, &version, "\"version\": 4, \"what\": \"is new\"");
    let cases = [
        (newer, "a checkpoint of a newer stradsap: version 4 of the format, and version 2 or 3 was expected: "),
        (rewritten(&bytes, &version, "\"version\": 1"), "a checkpoint of an older stradsap: version 1 of the format"),
        (
            b"stradsap saved\r\n\x01\0\0\0and so on".to_vec(),
            "a checkpoint of an older stradsap: version 1 of the format",
        ),
        (
            rewritten(&bytes, &format!("\"byte_order\": \"{this_end}\""), &format!("\"byte_order\": \"{other_end}\"")),
            "written on a machine of ",
        ),
    ];
    for (bytes, says) in cases {
        let disk = disk.with_fault(Fault::Never);
        disk.replace(&name, &bytes);
        let before = files(&disk);
        let mut later = checkpoints(&disk);
        let error = later.resume().unwrap_err().to_string();
        assert!(error.starts_with(&format!("/nowhere/{name}: {says}")), "{error}");
        let error = Model::new(&session).save(&mut later, 9).unwrap_err().to_string();
        assert!(error.starts_with(&format!("/nowhere/{name}: {says}")), "{error}");
        assert_eq!(files(&disk), before);
    }
}

#[test]
fn manifests_that_say_what_can_t_be_are_refused() {
    let disk = saved(&session());
    let bytes = disk.bytes(&manifest_name(4));
    let file = Manifest::parse(&bytes).unwrap().vectors[0].sections[0].pieces[0].file.clone();
    let damaged = |from: &str, to: &str| match Manifest::parse(&rewritten(&bytes, from, to)) {
        Err(Refusal::Damaged(problem)) => problem,
        other => panic!("{to}: {other:?}"),
    };
    // A manifest that was made to harm can't name files elsewhere.
    for name in ["/etc/passwd", "../secret.data", &file.to_uppercase(), &format!("./{file}")] {
        assert!(damaged(&file, name).ends_with("is no name of a data file"));
    }
    assert!(damaged(FORMAT, "something else").contains("its format is `something else`"));
    assert!(damaged("\"step\": 4", "\"step\": -4").starts_with("not a manifest of a checkpoint: invalid value"));
    assert!(damaged("\"step\"", "\"stop\"").contains("missing field `step`"));
    assert!(damaged("\"vectors\": [", "\"vectors\": {").starts_with("not a manifest"));

    // One under another's name.
    disk.replace(&manifest_name(7), &bytes);
    let error = disk.folder().manifest(7).unwrap_err().error.to_string();
    assert!(error.ends_with("not the checkpoint of its name: it is of step 4"), "{error}");
}
