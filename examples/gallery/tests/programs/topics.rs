//! Bags of words and their vocabularies: read by the library and by the plain reader, and what both say of bad input.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use clap::Parser;
use stradsap::Session;
use stradsap_examples::cli::CommonArgs;
use stradsap_gallery::topics::{Corpus, CorpusArgs, CorpusSize};

#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    corpus: CorpusArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// What both readers make of a file: the same, or errors of the same text.
fn read(arguments: &[&str]) -> Result<Corpus, String> {
    let Args { corpus, common } = Args::try_parse_from([&["x"], arguments].concat()).unwrap();
    let session = Session::builder().threads(2).build().unwrap();
    let plain = corpus.read(&common).map_err(|e| e.to_string());
    let parallel = corpus.read_with(&session, &common).map_err(|e| e.to_string());
    assert_eq!(plain, parallel);
    plain
}

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_repository_s_corpus_is_what_its_notice_says() {
    let corpus = read(&[]).unwrap();
    let size = CorpusSize::of(&corpus).to_string();
    assert_eq!(size, "1300 documents, 36207 words, 831880 entries, 1733672 tokens");
    assert_eq!(corpus.warning(), None);
    let names: Vec<_> = [0, 1, 36_206].map(|word| corpus.vocabulary.name(word)).to_vec();
    assert_eq!(names, ["aaa", "aac", "zygote"]);
}

#[test]
fn a_bag_that_is_not_as_it_should_be_is_told_by_line() {
    let folder = tempfile::tempdir().unwrap();
    for (text, told) in [
        ("2\n5\n3\n1 1 4\n2 5 1\n", ":3:1: the header promises 3 entries, but 2 follow"),
        ("2\n5\n1\n1 1 4\n2 5 1\n", ":3:1: the header promises 1 entries, but 2 follow"),
        ("2\n5\n2\n1 1 4\n3 1 4\n", ":5:1: the document is 3; a number from 1 to 2 was expected"),
        ("2\n5\n1\n0 1 4\n", ":4:1: the document is 0; a number from 1 to 2 was expected"),
        ("2\n5\n1\n1 6 4\n", ":4:3: the word is 6; a number from 1 to 5 was expected"),
        ("2\n5\n1\n1 0 4\n", ":4:3: the word is 0; a number from 1 to 5 was expected"),
        ("2\n5\n1\n1 5 0\n", ":4:5: the count is 0; a number from 1 to 4294967295 was expected"),
        ("2\n5\n1\n1 5 99999999999\n", ":4:5: the count is 99999999999; a number from 1 to 4294967295 was expected"),
        ("2\n5\n1\n1 5 -1\n", ":4:5: the count is \"-1\"; a number from 1 to 4294967295 was expected"),
        ("2\n5\n1\n1 five 1\n", ":4:3: the word is \"five\"; a number from 1 to 5 was expected"),
        ("2\n5\n1\n1 5\n", ":4:4: the count is missing; three numbers were expected"),
        ("2\n5\n1\n1 5 1 1\n", ":4:7: \"1\" follows the count; three numbers were expected"),
        ("2\n5 1\n1\n", ":2:3: \"1\" follows the size of the vocabulary; a number a line was expected"),
        ("2\nx\n", ":2:1: the size of the vocabulary is \"x\"; a number up to 4294967295 was expected"),
        ("9999999999\n", ":1:1: the number of documents is 9999999999; a number up to 4294967295 was expected"),
        ("2\n5\n", ":3:1: the file ends here; the number of entries was expected"),
        ("", ":1:1: the file ends here; the number of documents was expected"),
        ("2\n5\n0\n", ": no document has a word; expected a line of document, word and count at least"),
    ] {
        let path = file(folder.path(), "docword.bad.txt", text);
        let data = path.to_str().unwrap();
        assert_eq!(read(&["--data", data]).unwrap_err(), format!("{data}{told}"), "{text:?}");
    }
}

#[test]
fn a_vocabulary_is_found_beside_its_bag() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "docword.small.txt", "2\n3\n1\n2 1 4\n");
    let data = path.to_str().unwrap();
    let unnamed = read(&["--data", data]).unwrap();
    assert_eq!((unnamed.vocabulary.is_known(), &*unnamed.vocabulary.name(2)), (false, "word-3"));
    assert_eq!(unnamed.warning().unwrap(), "warning: 1 of the 2 documents have no words");
    file(folder.path(), "vocab.small.txt", "one\r\ntwo\nthrée\n\n");
    let named = read(&["--data", data]).unwrap();
    assert_eq!((0..3).map(|word| named.vocabulary.name(word)).collect::<Vec<_>>(), ["one", "two", "thrée"]);
    let other = file(folder.path(), "other", "a\nb\nc");
    let named = read(&["--data", data, "--vocabulary", other.to_str().unwrap()]).unwrap();
    assert_eq!(named.vocabulary.name(1), "b");
}

#[test]
fn a_vocabulary_that_is_not_as_it_should_be_is_told_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "docword.small.txt", "2\n3\n1\n2 1 4\n");
    let data = path.to_str().unwrap();
    let names = folder.path().join("vocab.small.txt");
    let says = |n| format!("{n} were expected, as the header of {data} says");
    for (text, told) in [
        (&b"one\ntwo\n"[..], format!(":3: the words end here, after 2; {}", says(3))),
        (b"", format!(":1: the words end here, after 0; {}", says(3))),
        (b"one\ntwo\nthree\nfour\n", format!(":4:1: \"four\" is one word too many; {}", says(3))),
        (b"one\n\ntwo\nthree\n", ":2:1: the line is blank; a word was expected".to_owned()),
        (b"one\nt\xffo\nthree\n", ":2:2: \"t\u{fffd}o\" isn't UTF-8; a word was expected".to_owned()),
    ] {
        std::fs::write(&names, text).unwrap();
        assert_eq!(read(&["--data", data]).unwrap_err(), format!("{}{told}", names.display()));
    }
    let missing = folder.path().join("none.txt");
    let missing = missing.to_str().unwrap();
    let told = format!("can't read {missing}: No such file or directory (os error 2)");
    assert_eq!(read(&["--data", data, "--vocabulary", missing]).unwrap_err(), told);
}
