//! Checkpoints: a manifest and a file of elements.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use stradsap::{Checkpoint, Checkpoints, DVector, Element, Session};

use super::place::{of_a_file, place};

const STEP: &str = "step-000000000007.checkpoint";

/// A program's own state.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    names: Vec<String>,
    rates: BTreeMap<u16, Option<f64>>,
    nested: Option<Box<State>>,
}

#[derive(Clone, Debug, PartialEq, Element)]
struct Document {
    words: Vec<(u32, String)>,
    topic: Option<u8>,
}

/// The first byte says how many bytes are elements, the next are these, and the rest is the manifest's text, in which
/// `@file@` stands for the name that the elements' file has, `@digest@` for their digest and `@bytes@` for how many there
/// are. It gets a right checksum, which no mutation finds, or is taken as it is.
pub fn checkpoint(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first() else { return };
    let (data, text) = rest.split_at(rest.len().min(usize::from(*length)));
    let digest = blake3::hash(data).to_hex();
    place(|place| {
        let folder = place.path("checkpoints");
        std::fs::create_dir_all(&folder).expect("a folder in memory");
        let file = folder.join(format!("{digest}.data"));
        std::fs::write(&file, data).expect("a file in memory");
        let filled = filled(
            text,
            &[
                ("@file@", &format!("{digest}.data")),
                ("@digest@", &format!("blake3:{digest}")),
                ("@bytes@", &data.len().to_string()),
            ],
        );
        let sum = blake3::hash(&filled).to_hex();
        let sealed = [&filled[..], format!(",\n  \"checksum\": \"blake3:{sum}\"\n}}\n").as_bytes()].concat();
        let whole = [text, &sealed].into_iter().any(|manifest| {
            let path = folder.join(STEP);
            std::fs::write(&path, manifest).expect("a file in memory");
            opened(&path, &place.session)
        });
        if whole {
            let mut all = Checkpoints::new(&folder, 1).expect("the folder is there");
            match all.resume() {
                Ok(found) => assert_eq!(found.expect("it was opened").step(), 7),
                Err(error) => panic!("it was opened: {error}"),
            }
        }
        std::fs::remove_file(file).expect("it was written");
    });
}

/// Whether it was read. What it holds is then read as all manner of things.
fn opened(path: &Path, session: &Session) -> bool {
    let checkpoint = match Checkpoint::open(path) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            of_a_file(&error);
            return false;
        }
    };
    refused(checkpoint.state::<State>());
    refused(checkpoint.state::<(u64, String)>());
    vector::<u8>(&checkpoint, session);
    vector::<[f32; 3]>(&checkpoint, session);
    vector::<()>(&checkpoint, session);
    vector::<bool>(&checkpoint, session);
    vector::<String>(&checkpoint, session);
    vector::<Document>(&checkpoint, session);
    refused(checkpoint.matrix::<f64>(session, "v"));
    refused(checkpoint.matrix::<u8>(session, "v"));
    refused(checkpoint.map::<u32, String>(session, "m"));
    refused(checkpoint.multi_map::<String, u8>(session, "m"));
    true
}

fn vector<T: Element + std::fmt::Debug>(checkpoint: &Checkpoint, session: &Session) {
    if let Some(vector) = refused(checkpoint.vector::<T>(session, "v")) {
        let vector: DVector<T> = vector;
        drop(vector.to_vec().expect("it is here"));
    }
}

fn refused<T>(result: stradsap::Result<T>) -> Option<T> {
    result.inspect_err(of_a_file).ok()
}

fn filled(text: &[u8], names: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.first() {
        match names.iter().find(|(name, _)| rest.starts_with(name.as_bytes())) {
            Some((name, value)) => {
                out.extend(value.as_bytes());
                rest = &rest[name.len()..];
            }
            None => {
                out.push(*first);
                rest = &rest[1..];
            }
        }
    }
    out
}
