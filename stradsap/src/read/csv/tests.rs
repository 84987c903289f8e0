use std::collections::BTreeMap;
use std::io::Read;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::read::blocks::BLOCK;

#[derive(Clone, Debug, PartialEq, Element, Deserialize)]
struct Rating {
    user: String,
    stars: f32,
}

const COMMAS: Marks = Marks { delimiter: b',', comment: None };

/// What is read on this many threads, with blocks of this many bytes.
fn blocks<T: Element + DeserializeOwned>(
    texts: &[&str],
    table: &Table<T>,
    (threads, block, limit): (usize, usize, Option<usize>),
) -> Result<Vec<T>, String> {
    let session = Session::builder().threads(threads).build().unwrap();
    let name = |k| if k == 0 { "r.csv".to_string() } else { format!("r{k}.csv") };
    let inputs: Vec<Input> = texts.iter().enumerate().map(|(k, text)| Input::memory(&name(k), *text)).collect();
    let reading = Reading { session: &session, inputs: &inputs, block, limit };
    reading.vector(table).and_then(|vector| vector.to_vec()).map_err(|error| error.to_string())
}

/// What is read, by all manner of blocks and threads alike.
fn read<T: Element + DeserializeOwned + PartialEq + std::fmt::Debug>(
    text: &str,
    marks: Marks,
    header: bool,
) -> Result<Vec<T>, String> {
    let table = Table::new(marks, header);
    let whole = blocks(&[text], &table, (1, BLOCK, None));
    for how in [(1, 1), (1, 7), (3, 2), (2, 16)] {
        assert_eq!(blocks(&[text], &table, (how.0, how.1, None)), whole, "{how:?}: {text:?}");
    }
    whole
}

fn ratings(text: &str) -> Result<Vec<Rating>, String> {
    read(text, COMMAS, true)
}

fn rating(user: &str, stars: f32) -> Rating {
    Rating { user: user.to_string(), stars }
}

#[test]
fn fields_are_matched_by_name() {
    let want = Ok(vec![rating("a", 4.5)]);
    assert_eq!(ratings("stars,user\n4.5, a\n"), want);
    assert_eq!(ratings("user,year,stars\na,1999,4.5\n"), want);
    assert_eq!(read("user\tstars\na\t4.5\n", Marks { delimiter: b'\t', comment: None }, true), want);
}

#[test]
fn text_may_be_written_in_many_ways() {
    let want = Ok(vec![rating("a", 1.0), rating("b", 2.0)]);
    for text in [
        "user,stars\na,1\nb,2\n",
        "user,stars\r\na,1\r\nb,2\r\n",
        "user,stars\na,1\nb,2",
        "\u{feff}user,stars\na,1\nb,2\n",
        "\n\r\nuser,stars\n\n\na,1\n\n\r\nb,2\n\n",
        "\"user\",\"stars\"\n\"a\",\"1\"\n\"b\",2",
        "user , stars\n a, 1 \n b ,\t2\n",
    ] {
        assert_eq!(ratings(text), want, "{text:?}");
    }
    assert_eq!(ratings("user,stars\n"), Ok(vec![]));
    assert_eq!(ratings("user,stars"), Ok(vec![]));
}

#[test]
fn quoted_fields_hold_anything() {
    let text = "user,stars\n\"a, b\nc\",1\n\"say \"\"hi\"\"\",2\nin\"side,3\n\"\",4\n\"x\"y\"\n,5\n";
    let want = ["a, b\nc", "say \"hi\"", "in\"side", "", "xy\""];
    let got = ratings(text);
    // The last one is a record of its own line and one of the next: what stands behind a closing quote is plain text.
    assert_eq!(got, Err("r.csv:7:6: 1 field; the header has 2, so 2 were expected".to_string()));
    let users: Vec<String> =
        ratings(&text.replace("\"\n,5", "\",5")).unwrap().into_iter().map(|rating| rating.user).collect();
    assert_eq!(users, want);
}

#[test]
fn blanks_between_quotes_are_kept_in_texts_alone() {
    let text = "user,stars\n\" a \",\" 1 \"\n b ,\"2\"\n\"c\"\" \"x,\" 3\"\n\" \"y ,4\n\n\"\n\", 5\n";
    let got: Vec<_> = ratings(text).unwrap().into_iter().map(|rating| (rating.user, rating.stars)).collect();
    let want = [(" a ", 1.0), ("b", 2.0), ("c\" x", 3.0), (" y ", 4.0), ("\n", 5.0)];
    assert_eq!(got, want.map(|(user, stars)| (user.to_string(), stars)));

    #[derive(Clone, Copy, Debug, PartialEq, Element, Deserialize)]
    enum Colour {
        Red,
    }
    let table = Table::<(Colour, char, bool, Option<u8>)>::new(COMMAS, false);
    let got = blocks(&["\" Red \",\" \",\" true \",\" \"\n"], &table, (1, 4, None));
    assert_eq!(got, Ok(vec![(Colour::Red, ' ', true, None)]));
}

#[test]
fn errors_name_line_and_column() {
    let bad = |text: &str| ratings(text).unwrap_err();
    assert_eq!(bad("user,stars\na,4\nbc, x\n"), "r.csv:3:4: `stars` is \"x\"; a number was expected");
    assert_eq!(bad("user,stars\r\na,4\r\nbc,x\r\n"), "r.csv:3:4: `stars` is \"x\"; a number was expected");
    assert_eq!(bad("user,stars\n\"a\n\nb\",1\nc,x"), "r.csv:5:3: `stars` is \"x\"; a number was expected");
    assert_eq!(bad("user,stars\n\"a\n\",x\n"), "r.csv:3:3: `stars` is \"x\"; a number was expected");
    assert_eq!(bad("user,stars\na\n"), "r.csv:2:2: 1 field; the header has 2, so 2 were expected");
    assert_eq!(bad("user,stars\na,1,7\n"), "r.csv:2:5: 3 fields; the header has 2, so 2 were expected");
    assert_eq!(
        bad("user,stars\na,1\n\"b,2\nc,3\n"),
        "r.csv:3:1: the quoted field that begins here never ends; a closing quote was expected"
    );
    assert_eq!(bad(""), "r.csv:1:1: the file is empty; a header line with the names of the fields was expected");
    assert_eq!(bad("\nuser\na\n"), "r.csv:2:1: there is no column `stars`; the header has `user`");
    assert_eq!(
        bad("\"us\ner\",stars\na,1\n"),
        r"r.csv:1:1: there is no column `user`; the header has `us\ner`, `stars`"
    );
    assert_eq!(bad("user,user,stars\na,b,1\n"), "r.csv:2:3: duplicate field `user`");
    let invalid = blocks_of(b"user,stars\na,1\n\xffb,2\n");
    assert_eq!(invalid, "r.csv:3:1: `user` is \"\u{fffd}b\"; UTF-8 text was expected");
    assert_eq!(
        blocks_of(b"us\xffer,stars\n"),
        "r.csv:1:1: the column's name is \"us\u{fffd}er\"; UTF-8 text was expected"
    );
}

fn blocks_of(bytes: &[u8]) -> String {
    let session = Session::builder().threads(2).build().unwrap();
    let inputs = [Input::memory("r.csv", bytes)];
    let reading = Reading { block: 4, ..Reading::new(&session, &inputs) };
    reading.vector(&Table::<Rating>::new(COMMAS, true)).unwrap_err().to_string()
}

#[test]
fn files_follow_each_other_each_with_its_own_header() {
    let table = Table::<Rating>::new(COMMAS, true);
    let texts = ["user,stars\na,1\nb,2", "stars,user\n3,c\n", "user,stars\n"];
    for threads in [1, 3] {
        let all = blocks(&texts, &table, (threads, 5, None)).unwrap();
        assert_eq!(all, [rating("a", 1.0), rating("b", 2.0), rating("c", 3.0)]);
        let bad = blocks(&[texts[0], "stars,user\n3,c\n\nx,d\n", "z"], &table, (threads, 5, None)).unwrap_err();
        assert_eq!(bad, "r1.csv:4:1: `stars` is \"x\"; a number was expected");
        let bad = blocks(&[texts[0], "stars\n3\n"], &table, (threads, 5, None)).unwrap_err();
        assert_eq!(bad, "r1.csv:1:1: there is no column `user`; the header has `stars`");
    }
}

#[test]
fn types_take_columns_in_many_ways() {
    let text = "a,b,c\n1,2,x\n3,,y\n";
    assert_eq!(read(text, COMMAS, true), Ok(vec![(1u8, Some(2.5f32 - 0.5), 'x'), (3, None, 'y')]));
    assert_eq!(read("1,2\n3,4\n", COMMAS, false), Ok(vec![[1.0f32, 2.0], [3.0, 4.0]]));
    assert_eq!(read("1,2\n3,4\n", COMMAS, false), Ok(vec![(1u32, 2u8), (3, 4)]));
    assert_eq!(read("x\n5\n-6\n", COMMAS, true), Ok(vec![5i64, -6]));
    let narrow = read::<u8>("x\n5\n256\n", COMMAS, true).unwrap_err();
    assert_eq!(narrow, "r.csv:3:1: `x` is \"256\"; a whole number from 0 to 255 was expected");
    let few = read::<(u8, u8, u8)>("1,2\n", COMMAS, false).unwrap_err();
    assert!(few.contains("invalid length 2"), "{few}");
    let unequal = read::<(u8, u8)>("1,2\n1\n", COMMAS, false).unwrap_err();
    assert_eq!(unequal, "r.csv:2:2: 1 field; the first record has 2, so 2 were expected");
}

#[derive(Clone, Debug, PartialEq, Element, Deserialize)]
enum Colour {
    Red,
    Green,
}

#[derive(Clone, Debug, PartialEq, Element, Deserialize)]
struct Wayward {
    #[serde(alias = "nom", rename = "name")]
    title: String,
    #[serde(default)]
    count: u32,
    colour: Option<Colour>,
    #[serde(skip)]
    skipped: u8,
    good: bool,
}

#[test]
fn serde_attributes_mean_what_they_mean() {
    let want = |title: &str, count, colour, good| Wayward { title: title.into(), count, colour, skipped: 0, good };
    let all = "name,count,colour,good\na,1,Red,true\nb,2,,0\n";
    let rows = vec![want("a", 1, Some(Colour::Red), true), want("b", 2, None, false)];
    assert_eq!(read(all, COMMAS, true), Ok(rows.clone()));
    assert_eq!(read(&all.replace("name", "nom"), COMMAS, true), Ok(rows));
    assert_eq!(read("good,nom\n1,a\n", COMMAS, true), Ok(vec![want("a", 0, None, true)]));
    let bad = read::<Wayward>("good,nom,colour\n1,a,Blue\n", COMMAS, true).unwrap_err();
    assert_eq!(bad, "r.csv:2:5: `colour` is \"Blue\"; one of Red, Green was expected");
}

#[derive(Clone, Debug, PartialEq, Deserialize, serde::Serialize, Element)]
#[element(serde)]
struct Flat {
    id: u32,
    rest: Nested,
}

#[derive(Clone, Debug, PartialEq, Deserialize, serde::Serialize)]
struct Nested(u32);

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Gathered {
    id: u32,
    #[serde(flatten)]
    others: BTreeMap<String, f64>,
}

// SAFETY: not plain, so nothing is claimed.
#[allow(unsafe_code)]
unsafe impl Element for Gathered {
    const PLAIN: bool = false;
    fn encode(&self, out: &mut Vec<u8>) {
        self.id.encode(out);
    }
    fn decode(bytes: &mut &[u8]) -> std::result::Result<Self, crate::DecodeError> {
        Ok(Gathered { id: u32::decode(bytes)?, others: BTreeMap::new() })
    }
}

#[test]
fn newtypes_and_flattened_maps() {
    assert_eq!(read("rest,id\n7,1\n", COMMAS, true), Ok(vec![Flat { id: 1, rest: Nested(7) }]));
    let others = BTreeMap::from([("a".to_string(), 1.0), ("b".to_string(), 2.5)]);
    assert_eq!(read("a,id,b\n1,9,2.5\n", COMMAS, true), Ok(vec![Gathered { id: 9, others }]));
}

#[test]
fn comments_are_left_out() {
    let marks = Marks { delimiter: b',', comment: Some(b'#') };
    let text = "# a \"quote\nuser,stars\n#,\"\na,1\n#b,\"x\nc,2\n\"#d\n#e\",3\n#\"";
    assert_eq!(read(text, marks, true), Ok(vec![rating("a", 1.0), rating("c", 2.0), rating("#d\n#e", 3.0)]));
    let bad = read::<Rating>("#\nuser,stars\n#\"\na,x\n", marks, true).unwrap_err();
    assert_eq!(bad, "r.csv:4:3: `stars` is \"x\"; a number was expected");
}

#[test]
fn a_limit_counts_records_of_all_files() {
    let table = Table::<Rating>::new(COMMAS, true);
    let texts = ["user,stars\na,1\nb,2\n", "user,stars\nc,3\nd,x\n", "bad"];
    for (threads, block) in [(1, BLOCK), (2, 1), (3, 9)] {
        let read = |limit| blocks(&texts, &table, (threads, block, Some(limit)));
        assert_eq!(read(0), Ok(vec![]));
        assert_eq!(read(2).unwrap().len(), 2);
        assert_eq!(read(3), Ok(vec![rating("a", 1.0), rating("b", 2.0), rating("c", 3.0)]));
        assert_eq!(read(4), Err("r1.csv:3:3: `stars` is \"x\"; a number was expected".to_string()));
    }
}

#[test]
fn marks_that_cannot_be_are_refused() {
    let path = Path::new("t.csv");
    for csv in [
        Csv::new().delimiter(b'"'),
        Csv::new().delimiter(b'\n'),
        Csv::new().comment(0xe9),
        Csv::new().delimiter(b'#').comment(b'#'),
    ] {
        assert_eq!(csv.marks(path).unwrap_err().exit_code(), 2, "{csv:?}");
    }
    assert_eq!(Csv::new().marks(Path::new("t.tsv.gz")).unwrap().delimiter, b'\t');
}

/// The records as the `csv` library reads them in one pass. It takes a comment that no newline ends for an empty record, so
/// here one always does.
fn by_the_library(text: &[u8], comment: Option<u8>) -> Vec<Vec<Vec<u8>>> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(comment)
        .from_reader(text.chain(&b"\n"[..]));
    let records = reader.byte_records().map(|record| record.unwrap());
    records.map(|record| record.iter().map(|field| field.trim_ascii().to_vec()).collect()).collect()
}

/// All records of a block, as text, and whether a quote stayed open.
fn by_blocks(text: &[u8], marks: Marks, size: usize) -> Option<Vec<Vec<Vec<u8>>>> {
    let (mut all, mut start) = (Vec::new(), 0);
    let mut records = Records::new(marks);
    while start < text.len() {
        let mut end = start;
        let mut border = 0;
        while border == 0 && end < text.len() {
            end = text.len().min(end + size);
            border = borders(&text[start..end], marks).last;
        }
        let block = if end == text.len() { &text[start..] } else { &text[start..start + border] };
        start += block.len();
        records.restart();
        let mut at = 0;
        while records.advance(block, &mut at).ok()?.is_some() {
            let fields = (0..records.record.len()).map(|k| records.record.field(k).unwrap().to_vec());
            all.push(fields.collect());
        }
    }
    Some(all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn blocks_of_any_size_hold_the_same_records(
        text in prop::collection::vec(prop::sample::select(b"ab ,,\"\"\"\n\n\r#".as_slice()), 0..60),
        comment in any::<bool>(),
    ) {
        let marks = Marks { delimiter: b',', comment: comment.then_some(b'#') };
        let whole = by_blocks(&text, marks, BLOCK);
        if let Some(whole) = &whole {
            prop_assert_eq!(whole, &by_the_library(&text, marks.comment));
        }
        for size in [1, 2, 5, 17] {
            prop_assert_eq!(&by_blocks(&text, marks, size), &whole, "blocks of {}", size);
        }
    }

    #[test]
    fn written_records_are_read_again(
        rows in prop::collection::vec(("[ -~\n\r\"é]{0,8}", any::<f32>()), 0..40),
        threads in 1usize..4,
        block in 1usize..200,
    ) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["user", "stars"]).unwrap();
        for (user, stars) in &rows {
            writer.write_record([user.as_str(), &stars.to_string()]).unwrap();
        }
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        let read = blocks(&[&text], &Table::<Rating>::new(COMMAS, true), (threads, block, None)).unwrap();
        let bits = |rating: &Rating| (rating.user.clone(), rating.stars.to_bits());
        let want: Vec<_> = rows
            .iter()
            .map(|(user, stars)| {
                let quoted = user.contains([',', '"', '\n', '\r']);
                (if quoted { user } else { user.trim_ascii() }.to_string(), stars.to_bits())
            })
            .collect();
        let got: Vec<_> = read.iter().map(bits).collect();
        for (got, want) in got.iter().zip(&want) {
            prop_assert!(got == want || f32::from_bits(want.1).is_nan() && got.0 == want.0);
        }
        prop_assert_eq!(got.len(), want.len());
    }
}
