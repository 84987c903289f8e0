//! The reader of LIBSVM's format: what it accepts, and what it says about what it doesn't.

use std::path::Path;

use stradsap_gallery::libsvm::{Classes, Examples, Feature};

fn parse(text: &[u8]) -> Result<Examples, String> {
    Examples::parse(Path::new("x.svm"), text, None).map_err(|e| e.to_string())
}

/// The examples as (label, [(index, value)]).
fn rows(examples: &Examples) -> Vec<(f32, Vec<(u32, f32)>)> {
    let row = |(label, values): (f32, &[Feature])| (label, values.iter().map(|f| (f.index, f.value)).collect());
    examples.iter().map(row).collect()
}

#[test]
fn lines_are_examples() {
    let expected = [(1.0, vec![(0, 0.5), (6, -2.0)]), (-1.0, vec![]), (-1.0, vec![(2, 1e-3)])];
    for text in [
        "+1 1:0.5 7:-2\n-1\n-1 3:1e-3\n",
        "1 1:.5 7:-2.0 \r\n-1 \r\n-1\t3:0.001",
        "# two classes\n+1 1:0.5 7:-2 # the first\n\n  -1\n-1 3:1e-3\n \n#\n",
        "\u{feff}4 1:0.5 7:-2\n2\n2 3:1e-3\n",
        "1 1:0.5 7:-2\n0\n0 3:1e-3\n",
        "-0.5 1:0.5 7:-2\n-0.75\n-0.75 3:1e-3\n",
    ] {
        let examples = parse(text.as_bytes()).unwrap_or_else(|e| panic!("{text:?}: {e}"));
        assert_eq!(rows(&examples), expected, "{text:?}");
        assert_eq!((examples.len(), examples.features(), examples.values()), (3, 7, 3));
    }
    assert_eq!(parse(b"4\n2\n").unwrap().classes(), Classes { negative: 2.0, positive: 4.0, from_zero: false });
}

#[test]
fn a_file_that_has_an_index_0_counts_from_0() {
    // As scikit-learn's dump_svmlight_file writes them, and as ranking data have them.
    let examples = parse(b"1 qid:1 1:0.5 7:-2\n-1 qid:1\n-1 qid:2 0:1e-3\n").unwrap();
    assert_eq!(rows(&examples), [(1.0, vec![(1, 0.5), (7, -2.0)]), (-1.0, vec![]), (-1.0, vec![(0, 1e-3)])]);
    assert_eq!((examples.features(), examples.classes().from_zero), (8, true));
}

#[test]
fn mistakes_are_named_with_line_and_column() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "x.svm:1: no examples; expected lines of a label and index:value pairs"),
        (b"# nothing\n\n", "x.svm:2: no examples; expected lines of a label and index:value pairs"),
        (b"1 1:1\n1 2:1\n", "x.svm: all examples have the label 1; expected two classes"),
        (b"1 1:1\n\n2 1:1\n 3 1:1\n", "x.svm:4:2: the label is 3, a third beside 1 and 2; expected two classes"),
        (b"1:1 2:1\n", "x.svm:1:1: the label is \"1:1\"; expected a finite number"),
        (b"1 1:1\nno 1:1\n", "x.svm:2:1: the label is \"no\"; expected a finite number"),
        (b"nan 1:1\n", "x.svm:1:1: the label is \"nan\"; expected a finite number"),
        (b"\xff 1:1\n", "x.svm:1:1: the label is \"\u{fffd}\"; expected a finite number"),
        (b"1 0:1 0:1\n", "x.svm:1:7: index 0 after 0; expected ascending indices"),
        (b"1 1:1 5:1 4:1\n", "x.svm:1:11: index 4 after 5; expected ascending indices"),
        (b"1 3:1  3:1\n", "x.svm:1:8: index 3 after 3; expected ascending indices"),
        (b"1 -3:1\n", "x.svm:1:3: the index is \"-3\"; expected a number from 0 to 4294967294"),
        (b"1 4294967296:1\n", "x.svm:1:3: the index is \"4294967296\"; expected a number from 0 to 4294967294"),
        (b"1 id:3 1:1\n", "x.svm:1:3: the index is \"id\"; expected a number from 0 to 4294967294"),
        (b"1 :1\n", "x.svm:1:3: the index is \"\"; expected a number from 0 to 4294967294"),
        (b"1 1:1\n-1 1:1 7\n", "x.svm:2:8: \"7\" has no colon; expected index:value"),
        (b"1 1:\n", "x.svm:1:5: the value is \"\"; expected a finite number"),
        (b"1 1:1 12:x\n", "x.svm:1:10: the value is \"x\"; expected a finite number"),
        (b"1 1:1:1\n", "x.svm:1:5: the value is \"1:1\"; expected a finite number"),
        (b"1 1:inf\n", "x.svm:1:5: the value is \"inf\"; expected a finite number"),
        (b"1 1:1e39\n", "x.svm:1:5: the value is \"1e39\"; expected a finite number"),
        (b"1 1:\xe9\n", "x.svm:1:5: the value is \"\u{fffd}\"; expected a finite number"),
    ];
    for (text, expected) in cases {
        assert_eq!(&parse(text).expect_err(expected), expected);
    }
    let long = parse(format!("1 {}\n", "é".repeat(5000)).as_bytes()).unwrap_err();
    assert!(long.len() < 200 && long.contains("..."), "{long}");
}

#[test]
fn a_test_set_has_the_classes_of_its_training_set() {
    let classes = Some(Classes { negative: 1.0, positive: 2.0, from_zero: false });
    let read = |text: &[u8]| Examples::parse(Path::new("t"), text, classes).map_err(|e| e.to_string());
    assert_eq!(rows(&read(b"1 1:1\n1 2:1\n").unwrap()), [(-1.0, vec![(0, 1.0)]), (-1.0, vec![(1, 1.0)])]);
    assert_eq!(
        read(b"1 1:1\n2 0:1\n").unwrap_err(),
        "t:2:1: there is a feature 0; those of the training set are counted from 1"
    );
    let from_zero = classes.map(|classes| Classes { from_zero: true, ..classes });
    let test = Examples::parse(Path::new("t"), &b"1 1:1\n"[..], from_zero).unwrap();
    assert_eq!(rows(&test), [(-1.0, vec![(1, 1.0)])]);
    assert_eq!(read(b"2\n-1\n").unwrap_err(), "t:2:1: the label is -1; the training set's are 1 and 2");
}

#[test]
fn files_may_be_packed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gz");
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packer, &b"1 1:1\n-1 2:1\n".repeat(1000)).unwrap();
    let packed = packer.finish().unwrap();
    std::fs::write(&path, &packed).unwrap();
    assert_eq!(Examples::read(&path, None).unwrap().len(), 2000);
    std::fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    let message = Examples::read(&path, None).unwrap_err().to_string();
    assert!(message.starts_with(&format!("can't read {}: ", path.display())), "{message}");
}

#[test]
fn a_shuffle_keeps_examples_whole() {
    let text: String = (1..500).map(|n| format!("{} {n}:{n} {}:0.5\n", n % 2, n + 1)).collect();
    let whole = parse(text.as_bytes()).unwrap();
    let mut shuffled = whole.clone();
    shuffled.shuffle(7);
    assert_ne!(rows(&shuffled), rows(&whole));
    let mut again = whole.clone();
    again.shuffle(7);
    assert_eq!(shuffled, again);
    let sorted = |examples: &Examples| {
        let mut rows = rows(examples);
        rows.sort_by_key(|(_, values)| values[0].0);
        rows
    };
    assert_eq!(sorted(&shuffled), sorted(&whole));
    assert_eq!(rows(&whole.first(3)), rows(&whole)[..3]);
}
