//! Texts of one record a line, and what is packed.

use std::io::Read;
use std::path::Path;

use stradsap::{DVector, Edge, Element, Labelled, ReadFiles, open_unpacked};

use super::place::{Place, located, of_a_file, place};

/// A file of records is refused with the place, or it is the same when it is written plainly and read again.
fn plain<T: Element + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    read: impl Fn(&Place, &Path) -> stradsap::Result<DVector<T>>,
    lines: impl Fn(&[T]) -> String,
) {
    place(|place| {
        let path = place.file("records.txt", bytes);
        match read(place, &path).and_then(|records| records.to_vec()) {
            Ok(records) => {
                let path = place.file("again.txt", lines(&records).as_bytes());
                let again = read(place, &path).and_then(|records| records.to_vec()).expect("they were read");
                assert_eq!(format!("{again:?}"), format!("{records:?}"));
            }
            Err(error) => located(&error, &path, Some(bytes)),
        }
    });
}

/// Labelled sparse vectors.
pub fn libsvm(bytes: &[u8]) {
    plain(
        bytes,
        |place, path| place.session.read_libsvm(path),
        |examples| {
            // A file with a feature 0 counts from 0, another from 1.
            let first = u32::from(!examples.iter().any(|example| example.indices.contains(&0)));
            let line = |Labelled { label, indices, values }: &Labelled| {
                assert_eq!(indices.len(), values.len());
                assert!(indices.is_sorted_by(|a, b| a < b));
                let features = indices.iter().zip(values).map(|(index, value)| format!(" {}:{value}", index + first));
                format!("{label}{}\n", features.collect::<String>())
            };
            examples.iter().map(line).collect()
        },
    );
}

/// Graphs.
pub fn edges(bytes: &[u8]) {
    plain(
        bytes,
        |place, path| place.session.read_edges(path),
        |edges| edges.iter().map(|Edge { from, to }| format!("{from} {to}\n")).collect(),
    );
}

/// Bags of words keep to their own numbers.
pub fn bag(bytes: &[u8]) {
    place(|place| {
        let path = place.file("bag.txt", bytes);
        match place.session.read_bag_of_words(&path) {
            Ok(bag) => {
                let entries = bag.entries.to_vec().expect("they are here");
                // Programs make room for each.
                assert!(bag.documents.max(bag.words) <= 1 << 22);
                for entry in &entries {
                    assert!(entry.document < bag.documents && entry.word < bag.words && entry.count > 0);
                }
                let lines = entries.iter().map(|e| format!("{} {} {}\n", e.document + 1, e.word + 1, e.count));
                let head = format!("{}\n{}\n{}\n", bag.documents, bag.words, entries.len());
                let path = place.file("again.txt", (head + &lines.collect::<String>()).as_bytes());
                let again = place.session.read_bag_of_words(path).expect("it was read");
                assert_eq!((again.documents, again.words), (bag.documents, bag.words));
                assert_eq!(again.entries.to_vec().expect("they are here"), entries);
            }
            Err(error) => located(&error, &path, Some(bytes)),
        }
    });
}

/// Lines and their words are what the standard library says that they are.
pub fn lines(bytes: &[u8]) {
    place(|place| {
        let path = place.file("lines.txt", bytes);
        let lines = place.session.read_lines(&path).and_then(|lines| lines.to_vec());
        let tokens = place.session.read_tokens(&path).and_then(|tokens| tokens.to_vec());
        let text = std::str::from_utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
        match (text, lines, tokens) {
            (Ok(text), Ok(lines), Ok(tokens)) => {
                assert_eq!(lines, text.lines().collect::<Vec<_>>());
                assert_eq!(tokens, lines.iter().map(|line| words(line)).collect::<Vec<_>>());
            }
            (Err(_), Err(of_lines), Err(of_tokens)) => {
                located(&of_lines, &path, Some(bytes));
                assert_eq!(of_lines.to_string(), of_tokens.to_string());
            }
            other => panic!("{other:?}"),
        }
    });
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// How much is unpacked: enough to see that memory doesn't follow what the bytes claim.
const MOST: u64 = 1 << 20;

/// What is packed unpacks to the same, however much is asked for at once.
pub fn packed(bytes: &[u8]) {
    place(|place| {
        for name in ["packed.gz", "packed.zst"] {
            let path = place.file(name, bytes);
            let whole = unpacked(&path, 1 << 16);
            // Byte by byte nothing is lost that comes before a fault.
            let steps = unpacked(&path, 1);
            assert_eq!(whole.1.is_some(), steps.1.is_some(), "{name}");
            // (What comes with the bytes that an error is found in is lost.)
            let n = if whole.1.is_some() { whole.0.len().min(steps.0.len()) } else { usize::MAX };
            assert_eq!(whole.0.get(..n).unwrap_or(&whole.0), steps.0.get(..n).unwrap_or(&steps.0), "{name}");
            if whole.0.len() as u64 == MOST {
                continue;
            }
            match (place.session.read_lines(&path), whole.1) {
                (Ok(_), None) => assert!(std::str::from_utf8(&whole.0).is_ok()),
                (Err(error @ stradsap::Error::File { .. }), Some(_)) => of_a_file(&error),
                (Err(error), _) => located(&error, &path, Some(&steps.0)),
                (Ok(lines), Some(error)) => panic!("{} lines of a file that ends with {error}", lines.len()),
            }
        }
    });
}

fn unpacked(path: &Path, step: usize) -> (Vec<u8>, Option<std::io::Error>) {
    let mut from = open_unpacked(path).expect("it is opened before it is unpacked").take(MOST);
    let (mut all, mut some) = (Vec::new(), vec![0; step]);
    loop {
        match from.read(&mut some) {
            Ok(0) => return (all, None),
            Ok(n) => all.extend(&some[..n]),
            Err(error) => return (all, Some(error)),
        }
    }
}
