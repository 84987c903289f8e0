use std::io::Write;

use proptest::prelude::*;

use super::blocks::{BLOCK, Format, Reading};
use super::source::Input;
use super::*;

/// What is read, by all manner of blocks and threads alike.
fn alike<R: PartialEq + std::fmt::Debug>(bytes: &[u8], read: impl Fn(&Reading<'_>) -> Result<R>) -> Result<R, String> {
    let how = |threads, block| {
        let session = Session::builder().threads(threads).build().unwrap();
        let inputs = [Input::memory("f", bytes)];
        let reading = Reading { block, ..Reading::new(&session, &inputs) };
        read(&reading).map_err(|error| error.to_string())
    };
    let whole = how(1, BLOCK);
    for (threads, block) in [(1, 1), (2, 3), (3, 10), (2, 64)] {
        assert_eq!(how(threads, block), whole, "{threads} threads, blocks of {block}");
    }
    whole
}

fn items<F: Format>(format: &F, bytes: &[u8]) -> Result<Vec<F::Item>, String>
where
    F::Item: PartialEq + std::fmt::Debug,
{
    alike(bytes, |reading| Ok(reading.records(format)?.chunks.into_iter().flatten().collect()))
}

#[test]
fn lines_and_their_words() {
    let text = "\u{feff}to be\r\n\n or  not\u{a0}to\nbe".as_bytes();
    assert_eq!(items(&lines::Lines, text).unwrap(), ["to be", "", " or  not\u{a0}to", "be"]);
    let tokens: [&[&str]; 4] = [&["to", "be"], &[], &["or", "not", "to"], &["be"]];
    assert_eq!(items(&lines::Tokens, text).unwrap(), tokens);
    assert_eq!(items(&lines::Lines, b""), Ok(vec![]));
    let bad = items(&lines::Lines, b"a\nb\xffc\n\xfe\n").unwrap_err();
    assert_eq!(bad, "f:2:2: 0xff 0x63 is no character; UTF-8 text was expected");
}

#[test]
fn edges_of_graphs() {
    let edges = |text: &str| items(&edges::Edges, text.as_bytes());
    let want = vec![Edge { from: 1, to: 2 }, Edge { from: 3, to: 4294967295 }];
    assert_eq!(edges("# from to\n1 2\n\n 3\t4294967295 \r\n#"), Ok(want));
    assert_eq!(edges("1 2\n3\n").unwrap_err(), "f:2:2: the edge has no second node; two numbers were expected");
    assert_eq!(edges("1 2 3\n").unwrap_err(), "f:1:5: \"3\" follows the edge; two numbers were expected");
    let bad = edges("1 2\n# x\n1 -2\n").unwrap_err();
    assert_eq!(bad, "f:3:3: the node is \"-2\"; a number from 0 to 4294967295 was expected");
}

#[test]
fn sparse_vectors() {
    let read = |text: &str| items(&libsvm::Libsvm::default(), text.as_bytes());
    let want = vec![
        Labelled { label: 1.0, indices: vec![0, 6], values: vec![0.5, -2e3] },
        Labelled { label: -1.5, indices: vec![], values: vec![] },
    ];
    assert_eq!(read("# head\n+1 1:0.5 7:-2e3 # tail\r\n\n-1.5\n"), Ok(want));
    for (text, error) in [
        ("1 3:2 3:1\n", "f:1:7: index 3 follows index 3; rising indices were expected"),
        ("1 3:2 2:1\n", "f:1:7: index 2 follows index 3; rising indices were expected"),
        ("1 3\n", "f:1:3: \"3\" has no colon; index:value was expected"),
        ("1 3:x\n", "f:1:5: the value is \"x\"; a number was expected"),
        ("1 -3:1\n", "f:1:3: the index is \"-3\"; a number from 0 to 4294967294 was expected"),
        ("1 4294967295:1\n", "f:1:3: the index is \"4294967295\"; a number from 0 to 4294967294 was expected"),
        ("1 0:2 0:1\n", "f:1:7: index 0 follows index 0; rising indices were expected"),
        ("a 3:1\n", "f:1:1: the label is \"a\"; a number was expected"),
    ] {
        assert_eq!(read(text).unwrap_err(), error);
    }
}

#[test]
fn bags_of_words() {
    let read = |text: &str| {
        alike(text.as_bytes(), |reading| {
            let bag = bag::collect(reading)?;
            Ok((bag.documents, bag.words, bag.entries.to_vec()?))
        })
    };
    let entry = |document, word, count| Entry { document, word, count };
    let want = (2, 5, vec![entry(0, 0, 4), entry(1, 4, 1)]);
    assert_eq!(read("2\n5\n2\n1 1 4\n2 5 1\n"), Ok(want.clone()));
    assert_eq!(read("\n 2 \r\n5\r\n2\r\n\r\n1 1 4\r\n2\t5 1"), Ok(want));
    for (text, error) in [
        ("2\n5\n3\n1 1 4\n2 5 1\n", "f:3:1: the header promises 3 entries, but 2 follow"),
        ("2\n5\n1\n1 1 4\n2 5 1\n", "f:3:1: the header promises 1 entries, but 2 follow"),
        (
            "2000000000\n5\n1\n1 1 4\n",
            "f:1:1: the number of documents is 2000000000; of 1 entries at most 4194304 were expected",
        ),
        (
            "2\n\n4294967295\n1\n1 1 4\n",
            "f:3:1: the size of the vocabulary is 4294967295; of 1 entries at most 4194304 were expected",
        ),
        ("2\n5\n1\n3 1 4\n", "f:4:1: the document is 3; a number from 1 to 2 was expected"),
        ("2\n5\n1\n1 6 4\n", "f:4:3: the word is 6; a number from 1 to 5 was expected"),
        ("2\n5\n1\n1 0 4\n", "f:4:3: the word is 0; a number from 1 to 5 was expected"),
        ("2\n5\n1\n1 5 0\n", "f:4:5: the count is 0; a number from 1 to 4294967295 was expected"),
        ("2\n5\n1\n1 5\n", "f:4:4: the count is missing; three numbers were expected"),
        ("2\n5\n1\n1 5 1 1\n", "f:4:7: \"1\" follows the count; three numbers were expected"),
        ("2\n5 1\n1\n", "f:2:3: \"1\" follows the size of the vocabulary; a number a line was expected"),
        ("2\nx\n", "f:2:1: the size of the vocabulary is \"x\"; a number up to 4294967295 was expected"),
        ("2\n5\n", "f:3:1: the file ends here; the number of entries was expected"),
        ("", "f:1:1: the file ends here; the number of documents was expected"),
    ] {
        assert_eq!(read(text).unwrap_err(), error);
    }
}

fn npy(header: &str, numbers: &[u8]) -> Vec<u8> {
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), numbers].concat()
}

#[test]
fn arrays_of_numpy() {
    fn read<T: Numeric + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Result<Vec<T>, String> {
        alike(bytes, |reading| npy::collect::<T>(reading)?.to_vec())
    }
    let numbers: Vec<u8> = [1.5f32, -2.0, 0.0, 7.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let header = |descr: &str, order: &str, shape: &str| {
        npy(&format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}   \n"), &numbers)
    };
    assert_eq!(read(&header("<f4", "False", "(4,)")), Ok(vec![1.5f32, -2.0, 0.0, 7.0]));
    assert_eq!(read(&header("<f4", "False", "(2, 2)")), Ok(vec![[1.5f32, -2.0], [0.0, 7.0]]));
    assert_eq!(read(&header("<f4", "False", "(1, 2, 2)")), Ok(vec![[[1.5f32, -2.0], [0.0, 7.0]]]));
    let swapped = [0x3f, 0xc0, 0, 0];
    assert_eq!(read(&npy("{'descr':'>f4','fortran_order':False,'shape':(1,)}\n", &swapped)), Ok(vec![1.5f32]));
    assert_eq!(read(&npy("{'shape': (3,), 'descr': '|u1', 'fortran_order': False}\n", b"abc")), Ok(b"abc".to_vec()));

    let bad = |bytes: &[u8]| read::<[f32; 2]>(bytes).unwrap_err();
    assert_eq!(bad(&header("<f8", "False", "(2, 2)")), "f:1: the array's numbers are \"<f8\"; \"<f4\" was expected");
    assert_eq!(bad(&header("<f4", "False", "(4,)")), "f:1: the array's shape is (4,); (rows, 2) was expected");
    assert_eq!(bad(&header("<f4", "False", "()")), "f:1: the array's shape is (); (rows, 2) was expected");
    assert!(bad(&header("<f4", "True", "(2, 2)")).contains("Fortran order; C order was expected"));
    assert_eq!(bad(&header("<f4", "False", "(3, 2)")), "f:1: the header promises 3 rows, but 2 follow");
    assert_eq!(bad(&header("<f4", "False", "(1, 2)")), "f:1: the header promises 1 rows, but 2 follow");
    let cut = header("<f4", "False", "(2, 2)");
    assert_eq!(bad(&cut[..cut.len() - 3]), "f:1: the file ends 5 bytes into a row of 8 bytes");
    assert_eq!(bad(&cut[..30]), "f:1: the file ends within its header");
    assert!(bad(b"PK\x03\x04 and so on").starts_with("f:1: this is no array; a file that begins with"));
    let huge = "(18446744073709551615, 18446744073709551615)";
    assert!(bad(&header("<f4", "False", huge)).contains("(rows, 2) was expected"));
    let most = header("<f4", "False", "(18446744073709551615, 2)");
    assert_eq!(bad(&most), "f:1: the header promises 18446744073709551615 rows, but 2 follow");
    let record = npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}\n", &numbers[..4]);
    assert!(read::<f32>(&record).unwrap_err().contains("\"<f4\" was expected"));
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::builder().threads(2).build().unwrap();
    let error = |name: &str| session.read_lines(folder.path().join(name)).unwrap_err().to_string();
    assert!(error("none").ends_with("none: No such file or directory (os error 2)"));
    assert!(error("").ends_with("Is a directory (os error 21)"));
    assert!(error("*").ends_with("no file matches the pattern; at least one was expected"));
    std::fs::write(folder.path().join("a.txt.gz"), "plain").unwrap();
    assert!(error("a.txt.gz").contains("a.txt.gz: "));
    for name in ["a.txt", "b.txt"] {
        std::fs::write(folder.path().join(name), "1\n1\n1\n").unwrap();
    }
    let two = session.read_bag_of_words(folder.path().join("*.txt")).unwrap_err().to_string();
    assert!(two.ends_with("2 files match the pattern; a bag of words is one file"), "{two}");
}

#[test]
fn packed_files_are_read_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part-1.csv.gz");
    let mut out = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
    out.write_all(b"a,b\n1,2\n").unwrap();
    out.finish().unwrap();
    let packed = ruzstd::encoding::compress_to_vec(&b"b,a\n4,3\n"[..], ruzstd::encoding::CompressionLevel::Fastest);
    std::fs::write(folder.path().join("part-2.csv.zst"), packed).unwrap();
    let session = Session::builder().threads(2).build().unwrap();
    let read = session.read_csv::<(u8, u8)>(folder.path().join("part-*.csv.*")).unwrap();
    assert_eq!(read.to_vec().unwrap(), [(1, 2), (4, 3)]);
}

proptest! {
    #[test]
    fn the_first_bad_line_is_the_one_told(
        bad in prop::collection::btree_set(0usize..200, 1..4),
        threads in 1usize..4,
        block in 1usize..300,
    ) {
        let text: String = (0..200).map(|k| if bad.contains(&k) { "1 x\n".into() } else { format!("{k} 1\n") }).collect();
        let session = Session::builder().threads(threads).build().unwrap();
        let inputs = [Input::memory("f", text)];
        let error = Reading { block, ..Reading::new(&session, &inputs) }.vector(&edges::Edges).unwrap_err();
        let first = bad.first().unwrap() + 1;
        let message = format!("f:{first}:3: the node is \"x\"; a number from 0 to 4294967295 was expected");
        prop_assert_eq!(error.to_string(), message);
    }

    #[test]
    fn lines_are_those_of_the_standard_library(text in "[a-cé \n\r]{0,80}", threads in 1usize..4, block in 1usize..90) {
        let session = Session::builder().threads(threads).build().unwrap();
        let inputs = [Input::memory("f", text.as_bytes())];
        let read = Reading { block, ..Reading::new(&session, &inputs) }.vector(&lines::Lines).unwrap();
        prop_assert_eq!(read.to_vec().unwrap(), text.lines().collect::<Vec<_>>());
    }
}
