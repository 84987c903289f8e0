//! The ratings reader: what it accepts, and what it says about what it doesn't.

use std::io::Write;
use std::path::Path;

use stradsap_examples::ratings::{Rating, Ratings};

/// A user's id, an item's id, a rating.
type Line = (&'static str, &'static str, f32);

fn parse(text: &[u8]) -> Result<Ratings, String> {
    Ratings::parse(Path::new("r.txt"), text).map_err(|e| e.to_string())
}

/// The ratings as (user's id, item's id, rating).
fn rows(ratings: &Ratings) -> Vec<(String, String, f32)> {
    let row = |r: &Rating| {
        let (user, item) = (&ratings.users[r.user as usize], &ratings.items[r.item as usize]);
        (user.to_string(), item.to_string(), r.stars)
    };
    ratings.rows.iter().map(row).collect()
}

#[test]
fn formats_are_told_apart() {
    let cases: &[(&str, &str)] = &[
        ("comma", "a,x,5\nb,x,3.5\n"),
        ("tab", "a\tx\t5\nb\tx\t3.5\n"),
        ("colons", "a::x::5\nb::x::3.5\n"),
        ("time stamps", "a,x,5,978300760\nb,x,3.5,978302109\n"),
        ("colons with time stamps", "a::x::5::978300760\nb::x::3.5::978302109\n"),
        ("header", "userId,movieId,rating,timestamp\na,x,5,1\nb,x,3.5,2\n"),
        ("header after a byte order mark", "\u{feff}user,item,rating\na,x,5\nb,x,3.5\n"),
        ("header with fewer columns than rows", "user\titem\trating\na\tx\t5\t1\nb\tx\t3.5\t2\n"),
        ("no line feed at the end", "a,x,5\nb,x,3.5"),
        ("carriage returns", "a,x,5\r\nb,x,3.5\r\n"),
        ("blank lines", "\n\na,x,5\n   \n\nb,x,3.5\n\n"),
        ("blanks around fields", " a , x , 5 \nb,x, 3.5\n"),
        ("another order", "timestamp,movie,user,score\n1,x,a,5\n2,x,b,3.5\n"),
        ("another order, quoted", "\"movie, title\",\"User ID\",Rating,isbn\n\"a, b\",a,5,x\n\"c\",b,3.5,x\n"),
        ("another order between tabs", "Stars\tcomment\tproduct_id\tCUSTOMER\n5\tgood\tx\ta\n3.5\t\tx\tb\n"),
        ("other names", "wer,was,wieviel\na,x,5\nb,x,3.5\n"),
        ("quotes", "\"a\",\"x\",\"5\"\n\"b\",x,3.5\n"),
        ("exponents", "a,x,0.5e1\nb,x,35e-1\n"),
    ];
    for (name, text) in cases {
        let ratings = parse(text.as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let expected = [("a", "x", 5.0), ("b", "x", 3.5)].map(|(u, i, s)| (u.to_owned(), i.to_owned(), s));
        assert_eq!(rows(&ratings), expected, "{name}");
    }
}

#[test]
fn ids_are_any_text() {
    let cases: &[(&str, &[Line])] = &[
        ("10,20,1\n9,20,2\n10,7,3\n", &[("10", "20", 1.0), ("9", "20", 2.0), ("10", "7", 3.0)]),
        ("\"Doe, J.\",\"a \"\"b\"\"\",1\n", &[("Doe, J.", "a \"b\"", 1.0)]),
        ("a:b::c,d::1\n", &[("a:b", "c,d", 1.0)]),
        ("a,b\tc::d\t1\n", &[("a,b", "c::d", 1.0)]),
        ("01,1,1\n1,01,1\n", &[("01", "1", 1.0), ("1", "01", 1.0)]),
        ("é,東京,1\n", &[("é", "東京", 1.0)]),
    ];
    for (text, expected) in cases {
        let ratings = parse(text.as_bytes()).unwrap();
        let expected: Vec<_> = expected.iter().map(|&(u, i, s)| (u.to_owned(), i.to_owned(), s)).collect();
        assert_eq!(rows(&ratings), expected, "{text}");
    }
}

#[test]
fn ids_are_numbered_as_they_appear() {
    let ratings = parse(b"z,5,1\na,5,2\nz,3,3\n").unwrap();
    let numbers: Vec<_> = ratings.rows.iter().map(|r| (r.user, r.item)).collect();
    assert_eq!(numbers, [(0, 0), (1, 0), (0, 1)]);
    assert_eq!(ratings.users.get_index_of("a"), Some(1));
}

#[test]
fn mistakes_are_named_with_their_line() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "r.txt:1: no ratings; expected lines of user, item, rating"),
        (b"\n \n", "r.txt:2: no ratings; expected lines of user, item, rating"),
        (b"user,item,rating\n", "r.txt:1: no ratings; expected lines of user, item, rating"),
        (b"a,x,5\nb,x\n", "r.txt:2: 2 fields; expected at least 3 (user, item, rating) between commas, tabs or ::"),
        (b"a x 5\n", "r.txt:1: 1 field; expected at least 3 (user, item, rating) between commas, tabs or ::"),
        (b"a,x,5\n\"b,x,3\n", "r.txt:2: 1 field; expected at least 3 (user, item, rating) between commas, tabs or ::"),
        (b"a,x,5\n\n\nb,x,good\n", "r.txt:4: field 3 (rating) is \"good\"; expected a finite number"),
        (b"a,x,5\r\n\r\nb,x,good\r\n", "r.txt:3: field 3 (rating) is \"good\"; expected a finite number"),
        (b"1,2,good\n", "r.txt:1: field 3 (rating) is \"good\"; expected a finite number"),
        (b"a,x,\n1,2,3\n4,5,\n", "r.txt:3: field 3 (rating) is \"\"; expected a finite number"),
        (b"a,x,NaN\n", "r.txt:1: field 3 (rating) is \"NaN\"; expected a finite number"),
        (b"a,x,5\nb,x,inf\n", "r.txt:2: field 3 (rating) is \"inf\"; expected a finite number"),
        (b"a,x,5\nb,x,1e39\n", "r.txt:2: field 3 (rating) is \"1e39\"; expected a finite number"),
        (
            b"user,item,rating\na,x,5\nuser,item,rating\n",
            "r.txt:3: field 3 (rating) is \"rating\"; expected a finite number",
        ),
        (
            b"when,user,score\n1,a,5\n",
            "r.txt:1: the header names when, user, score, and no item; expected a column called item, movie, film, book, ... or a \
             file without a header: user, item, rating",
        ),
        (
            b"score,item,user\n5,x\n",
            "r.txt:2: 2 fields; expected at least 3 (user, item, rating) between commas, tabs or ::",
        ),
        (
            b"a,b,score,item,user\n,,5,x\n",
            "r.txt:2: 4 fields; expected at least 5 (user, item, rating) between commas, tabs or ::",
        ),
        (b"score,item,user\ngood,x,a\n", "r.txt:2: field 1 (rating) is \"good\"; expected a finite number"),
        (b"score,item,user\n5,x,\n", "r.txt:2: field 3 (user) is empty; expected the user's id"),
        (b",x,5\n", "r.txt:1: field 1 (user) is empty; expected the user's id"),
        (b"a,x,5\na,\"\",5\n", "r.txt:2: field 2 (item) is empty; expected the item's id"),
        (b"a,x,5\nb,\xff,5\n", "r.txt:2: field 2 (item) isn't UTF-8 text"),
    ];
    for (text, expected) in cases {
        let message = parse(text).expect_err(expected);
        assert_eq!(&message, expected);
    }
}

#[test]
fn a_long_field_is_cut_in_its_message() {
    let message = parse(format!("1,2,{}\n", "é".repeat(5000)).as_bytes()).unwrap_err();
    assert!(message.len() < 200 && message.contains("..."), "{message}");
}

#[test]
fn packed_files_are_read_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let pack = |text: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    };
    let path = folder.path().join("r.csv.gz");
    // Two members in one file, as `cat` makes them.
    std::fs::write(&path, [pack(b"a,x,5\n"), pack(b"b,x,3\n")].concat()).unwrap();
    assert_eq!(Ratings::read(&path).unwrap().rows.len(), 2);

    let whole = pack("a,x,5\n".repeat(10_000).as_bytes());
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let message = Ratings::read(&path).unwrap_err().to_string();
    assert!(message.starts_with(&format!("can't read {}: ", path.display())), "{message}");
}

#[test]
fn a_missing_file_is_named() {
    let message = Ratings::read(Path::new("/no/such/ratings.csv")).unwrap_err().to_string();
    assert!(message.starts_with("can't read /no/such/ratings.csv: No such file"), "{message}");
}

#[test]
fn the_split_depends_on_seed_and_row_alone() {
    let text: String = (0..20_000).map(|n| format!("{},{},{}\n", n % 97, n % 89, n % 5)).collect();
    let ratings = parse(text.as_bytes()).unwrap();
    let split = |seed, fraction| ratings.split(Path::new("r.txt"), seed, fraction).unwrap();

    let one = split(1, 0.1);
    assert!((1_800..2_200).contains(&one.test.len()), "{}", one.test.len());
    assert_eq!(one.train.len() + one.test.len(), ratings.rows.len());
    assert_eq!(one.test, split(1, 0.1).test);
    assert_ne!(one.test, split(2, 0.1).test);
    assert!(split(1, 0.0).test.is_empty());

    // A row's side doesn't depend on the rows after it.
    let shorter = Ratings { rows: ratings.rows[..500].to_vec(), ..Ratings::default() };
    let shorter = shorter.split(Path::new("r.txt"), 1, 0.1).unwrap();
    assert_eq!(shorter.test, one.test[..shorter.test.len()]);
}

#[test]
fn new_numbers_keep_ids_and_ratings() {
    let text: String = (0..500).map(|n| format!("u{},i{},{}\n", n % 97, n % 89, n % 5)).collect();
    let (old, mut new) = (parse(text.as_bytes()).unwrap(), parse(text.as_bytes()).unwrap());
    new.renumber(3);
    assert_eq!(rows(&old), rows(&new));
    assert_ne!(old.rows, new.rows);
    assert_eq!(new.users.len(), 97);
    assert_ne!(old.users.get_index(0), new.users.get_index(0));
}

#[test]
fn a_shuffle_keeps_the_training_ratings() {
    let text: String = (0..500).map(|n| format!("{n},0,1\n")).collect();
    let ratings = parse(text.as_bytes()).unwrap();
    let mut split = ratings.split(Path::new("r.txt"), 1, 0.1).unwrap();
    let before = split.train.clone();
    split.shuffle(1);
    assert_ne!(split.train, before);
    split.train.sort_unstable_by_key(|r| r.user);
    assert_eq!(split.train, before);
}

#[test]
fn a_split_without_training_ratings_is_refused() {
    let ratings = parse(b"a,x,5\n").unwrap();
    let refused = (0..100).find_map(|seed| ratings.split(Path::new("r.txt"), seed, 0.9).err());
    assert_eq!(refused.unwrap().to_string(), "r.txt: no training ratings: all 1 are for the test");
}
