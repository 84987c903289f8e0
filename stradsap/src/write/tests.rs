use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::{Csv, ReadFiles, Session};

#[derive(Clone, Debug, PartialEq, Element, Serialize, Deserialize)]
struct Rating {
    user: String,
    item: Option<u32>,
    stars: f64,
}

fn session() -> Session {
    Session::builder().threads(2).build().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_replaced_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    fs::write(&path, "before").unwrap();
    let maps = DVector::from_vec(&session(), vec![vec![(1u8, 2u8)]]).unwrap();
    let nested = maps.write_csv(&path);
    let wrong = atomic::write(&path, |out| {
        out.write_all(b"half")?;
        Err(std::io::Error::other("full").into())
    });
    assert!(wrong.unwrap_err().to_string().ends_with("out.csv: full"));
    if nested.is_err() {
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
    }
    DVector::from_vec(&session(), vec![1u8, 2]).unwrap().write_csv(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "1\n2\n");
    assert_eq!(names(folder.path()), ["out.csv"]);

    let one = DVector::from_vec(&session(), vec![1u8]).unwrap();
    assert!(one.write_npy(folder.path().join("none/x.npy")).unwrap_err().to_string().contains("No such file"));
    assert!(one.write_npy(folder.path()).is_err());
    assert_eq!(one.write_npy(folder.path().join("x.npy.zst")).unwrap_err().exit_code(), 2);
    assert_eq!(names(folder.path()), ["out.csv"]);
}

/// A text that begins like a byte order mark is no mark.
#[test]
fn marks_in_texts_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let texts = vec![("\u{feff}a".to_string(), 1u8), ("\u{feff}b".to_string(), 2)];
    DVector::from_vec(&session(), texts.clone()).unwrap().write_csv(&path).unwrap();
    let again = session().read_csv_with::<(String, u8)>(&path, &Csv::new().header(false)).unwrap();
    assert_eq!(again.to_vec().unwrap(), texts);
}

#[test]
fn texts_keep_their_blanks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let long = format!(" {}\" ", "long ".repeat(20_000));
    let texts = [" a", "b ", "c d", "\te\n", "\u{feff} ", "", " ", "\"\" ", "f, ", "g", &long].map(str::to_string);
    let texts: Vec<_> = texts.into_iter().cycle().take(3_000).zip(0u32..).collect();
    DVector::from_vec(&session(), texts.clone()).unwrap().write_csv(&path).unwrap();
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.starts_with("\" a\",0\n\"b \",1\nc d,2\n\"\te\n\",3\n"), "{:?}", &written[..40]);
    let again = session().read_csv_with::<(String, u32)>(&path, &Csv::new().header(false)).unwrap();
    assert_eq!(again.to_vec().unwrap(), texts);
    // One column, where an empty field would be no record.
    let texts: Vec<String> = texts.into_iter().map(|(text, _)| text).take(20).collect();
    DVector::from_vec(&session(), texts.clone()).unwrap().write_csv(&path).unwrap();
    let again = session().read_csv_with::<String>(&path, &Csv::new().header(false)).unwrap();
    assert_eq!(again.to_vec().unwrap(), texts);
}

#[test]
fn names_choose_the_format() {
    let folder = tempfile::tempdir().unwrap();
    let session = session();
    let rows = DVector::from_fn(&session, 3, |i| [i as f32, 0.1]).unwrap();
    let at = |name: &str| folder.path().join(name);
    rows.store(at("r.tsv")).unwrap();
    assert_eq!(fs::read_to_string(at("r.tsv")).unwrap(), "0\t0.1\n1\t0.1\n2\t0.1\n");
    rows.store(at("r.npy")).unwrap();
    rows.store(at("r.csv.gz")).unwrap();
    rows.store(at("r.safetensors")).unwrap();
    let packed = session.read_csv_with::<[f32; 2]>(at("r.csv.gz"), &Csv::new().header(false)).unwrap();
    assert_eq!(packed.to_vec().unwrap(), rows.to_vec().unwrap());
    assert_eq!(session.read_npy::<[f32; 2]>(at("r.npy")).unwrap().to_vec().unwrap(), rows.to_vec().unwrap());
    for (name, hint) in [
        ("r.txt", "`write_word2vec_text`"),
        ("r.bin", "`write_word2vec_binary`"),
        ("r.h5", ".npy, .safetensors, .csv or .tsv was expected"),
        ("r", ".npy, .safetensors, .csv or .tsv was expected"),
    ] {
        let error = rows.store(at(name)).unwrap_err();
        assert!(error.to_string().contains(hint) && error.exit_code() == 2, "{error}");
    }
}

#[test]
fn arrays_begin_as_numpy_begins_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    DVector::from_vec(&session(), vec![1u16, 515]).unwrap().write_npy(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
    let header = std::str::from_utf8(&bytes[10..128]).unwrap();
    assert!(
        header.starts_with("{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }  ") && header.ends_with(" \n")
    );
    assert_eq!(bytes[128..], [1, 0, 3, 2]);
}

#[test]
fn named_arrays_are_read_by_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let session = session();
    let p = DVector::from_fn(&session, 3, |i| [i as f32; 4]).unwrap();
    let q = DVector::from_fn(&session, 2, |i| i as i64 - 1).unwrap();
    let none = DVector::from_vec(&session, Vec::<u8>::new()).unwrap();
    write_safetensors(&path, &[("p", &p), ("q", &q), ("none", &none)]).unwrap();
    let bytes = fs::read(&path).unwrap();
    let file = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tensor = file.tensor("p").unwrap();
    assert_eq!((tensor.dtype(), tensor.shape()), (::safetensors::Dtype::F32, &[3, 4][..]));
    let numbers: Vec<f32> = tensor.data().chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(numbers, p.to_vec().unwrap().concat());
    assert_eq!(file.tensor("q").unwrap().data(), [[0xff; 8], [0; 8]].concat());
    assert_eq!(file.tensor("none").unwrap().shape(), [0]);

    let twice = write_safetensors(&path, &[("p", &p), ("p", &q)]).unwrap_err().to_string();
    assert!(twice.ends_with("the name \"p\" is taken; one of its own was expected"), "{twice}");
    assert!(p.write_safetensors(&path, "__metadata__").is_err());
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn vectors_of_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let rows = DVector::from_vec(&session(), vec![[1.5f32, -0.25], [0.0, 1e-9]]).unwrap();
    rows.write_word2vec_text(path("v.txt"), &["to", "bé"]).unwrap();
    assert_eq!(fs::read_to_string(path("v.txt")).unwrap(), "2 2\nto 1.5 -0.25\nbé 0 0.000000001\n");
    rows.write_word2vec_binary(path("v.bin"), &["to", "bé"]).unwrap();
    let mut want = b"2 2\nto ".to_vec();
    want.extend([1.5f32, -0.25].iter().flat_map(|x| x.to_le_bytes()));
    want.extend("\nbé ".bytes());
    want.extend([0.0f32, 1e-9].iter().flat_map(|x| x.to_le_bytes()));
    want.push(b'\n');
    assert_eq!(fs::read(path("v.bin")).unwrap(), want);
    for words in [&["to"][..], &["to", "be", "or"], &["to", ""], &["to", "b e"]] {
        assert_eq!(rows.write_word2vec_text(path("w.txt"), words).unwrap_err().exit_code(), 2, "{words:?}");
    }
    assert!(!path("w.txt").exists());
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        rows in prop::collection::vec(("[!-~\n\"]{0,6}", any::<Option<u32>>(), prop::num::f64::NORMAL), 1..30),
        numbers in prop::collection::vec(any::<[u32; 3]>(), 0..30),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let session = Session::builder().threads(1).build().unwrap();
        let trimmed = |user: &str| user.trim_ascii().to_string();
        let rows: Vec<Rating> =
            rows.into_iter().map(|(user, item, stars)| Rating { user: trimmed(&user), item, stars }).collect();
        for name in ["r.csv", "r.tsv", "r.csv.gz"] {
            let path = folder.path().join(name);
            DVector::from_vec(&session, rows.clone()).unwrap().write_csv(&path).unwrap();
            let read = session.read_csv::<Rating>(&path).unwrap();
            prop_assert_eq!(read.to_vec().unwrap(), rows.clone());
        }
        let path = folder.path().join("n.npy");
        DVector::from_vec(&session, numbers.clone()).unwrap().write_npy(&path).unwrap();
        prop_assert_eq!(session.read_npy::<[u32; 3]>(&path).unwrap().to_vec().unwrap(), numbers);
    }
}
