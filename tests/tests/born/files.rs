//! Files of every form, and what is wrong with some.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use stradsap::prelude::*;

use crate::common::mix;
use crate::seen::Seen;

/// Enough that every worker has several ranges of bytes.
pub(crate) const MANY: usize = 200_000;

#[derive(Clone, Copy, Debug, PartialEq, Element, Deserialize)]
pub(crate) struct Rating {
    pub(crate) user: u32,
    pub(crate) item: u32,
    pub(crate) stars: f32,
}

/// A folder that is gone with this.
pub(crate) struct Folder(tempfile::TempDir, std::cell::Cell<usize>);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap(), std::cell::Cell::default())
    }

    /// A file that stays as it is: it may have to be read again.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let own = self.path().join(self.1.replace(self.1.get() + 1).to_string());
        std::fs::create_dir(&own).unwrap();
        let path = own.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A file beside others.
    fn beside(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// An error without what is another one each time.
    pub(crate) fn told<T>(&self, result: stradsap::Result<T>) -> String {
        let text = result.map(|_| "no error").map_or_else(|error| error.to_string(), str::to_string);
        text.replace(self.0.path().to_str().unwrap(), "")
    }
}

/// Lines of a table of ratings, with columns that aren't read.
pub(crate) fn ratings(n: usize, end: &str) -> String {
    with_notes(n, end, ["n", ""])
}

/// The same with line ends within records.
pub(crate) fn quoted_ratings(n: usize, end: &str) -> String {
    with_notes(n, end, ["\"n,\n\"\"", "\""])
}

fn with_notes(n: usize, end: &str, [open, close]: [&str; 2]) -> String {
    let mut text = format!("item,note,user,stars{end}");
    for k in 0..n as u64 {
        let r = mix(k);
        let (item, dashes, user) = (r % 613, "-".repeat((r >> 40) as usize % 9), r / 613 % 997);
        write!(text, "{item},{open}{dashes}{close},{user},{}.{}{end}", r % 5, r % 10).unwrap();
    }
    text
}

pub(crate) fn tables(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    for (name, n, end) in [("a.csv", MANY, "\n"), ("b.csv", MANY / 3, "\r\n"), ("c.csv", 1, "\n"), ("d.csv", 0, "\n")] {
        let text = ratings(n, end);
        let whole = session.read_csv::<Rating>(folder.file(name, &text))?;
        seen.record(name, whole.len());
        seen.digest(name, &whole)?;
        let open = session.read_csv::<Rating>(folder.file(name, text.trim_end()))?;
        seen.digest("without its last line end", &open)?;
        let marked = session.read_csv::<Rating>(folder.file(name, format!("\u{feff}{text}")))?;
        seen.digest("with a byte order mark", &marked)?;
        let rows = session.read_csv::<(u32, String, u32)>(folder.file(name, &text))?;
        seen.digest("with texts", &rows)?;
    }
    let path = folder.file("e.dat", "% nothing\n".repeat(50_000) + &"1|2\n% 3|4\n5|6\n\n".repeat(90_000));
    let table = Csv::new().header(false).delimiter(b'|').comment(b'%');
    seen.digest("comments", &session.read_csv_with::<(u8, u8)>(&path, &table)?)?;
    seen.digest("the first", &session.read_csv_with::<(u8, u8)>(&path, &table.limit(70_000))?)?;
    Ok(())
}

/// Line ends within records.
pub(crate) fn quoted(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let mut text = "\"name\",n\n".to_string();
    for k in 0..MANY as u64 {
        let r = mix(k);
        let quoted = if r.is_multiple_of(50_000) { "\"a,\n\"\"b\"" } else { "plain" };
        writeln!(text, "{quoted},{}", r % 1000).unwrap();
    }
    let rows = session.read_csv::<(String, u32)>(folder.file("q.csv", &text))?;
    seen.digest("quoted", &rows)?;
    for (end, n) in [("\n", MANY), ("\r\n", MANY / 3)] {
        let text = quoted_ratings(n, end);
        let all = session.read_csv::<Rating>(folder.file("all.csv", &text))?;
        assert_eq!(all.digest()?, session.read_csv::<Rating>(folder.file("plain.csv", ratings(n, end)))?.digest()?);
        seen.digest("texts", &session.read_csv::<(u32, String, u32)>(folder.file("texts.csv", &text))?)?;
        // Lines are those of the file, however many a record has.
        let wrong = session.read_csv::<Rating>(folder.file("wrong.csv", format!("{text}1,\"\n\n\",x,2{end}")));
        let told = folder.told(wrong);
        assert!(told.contains(&format!("wrong.csv:{}:", 2 * n + 4)), "{told}");
        seen.record("wrong", told);
        let open = session.read_csv::<Rating>(folder.file("open.csv", format!("{text}1,\"n,7,2{end}")));
        seen.record("open", folder.told(open));
        // Quotes that are none.
        let stray = text.replace('"', "'") + &format!("5,n\"n,7,4.0{end}");
        seen.record("stray", folder.told(session.read_csv::<Rating>(folder.file("stray.csv", stray))));
    }
    // Quotes in the header alone hide nothing.
    let rows =
        session.read_csv::<(String, u32)>(folder.file("h.csv", "\"a\nb\",n\n".to_string() + &"x,1\n".repeat(MANY)))?;
    seen.digest("a quoted header", &rows)?;
    // One record that is longer than many blocks.
    let long = format!("name,n\nx,1\n{},2\ny,3\n", "z".repeat(5 << 20));
    seen.digest("long", &session.read_csv::<(String, u32)>(folder.file("l.csv", long))?)
}

/// Fewer lines than workers.
pub(crate) fn short(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    for (k, text) in ["", "\n", "1 2", "1 2\n", "1 2\n3 4\n", "# none", "\r\n\r\n7 8\r\n"].into_iter().enumerate() {
        let edges = session.read_edges(folder.file(&format!("{k}.txt"), text))?;
        seen.record(text, edges.to_vec()?);
    }
    seen.record("lines", session.read_lines(folder.file("l.txt", "a\n\nb"))?.to_vec()?);
    seen.record("no table", folder.told(session.read_csv::<Rating>(folder.file("e.csv", ""))));
    Ok(())
}

pub(crate) fn several(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    for (k, n) in [MANY / 2, 0, 3, MANY / 5, 1].into_iter().enumerate() {
        folder.beside(&format!("part-{k}.csv"), ratings(n, ["\n", "\r\n"][k % 2]));
        folder.beside(&format!("part-{k}.txt"), "1 2\n".repeat(n));
    }
    let whole = session.read_csv::<Rating>(folder.path().join("part-*.csv"))?;
    seen.digest("tables", &whole)?;
    seen.digest("graphs", &session.read_edges(folder.path().join("part-*.txt"))?)?;
    // In another order of columns.
    folder.beside("part-7.csv", "stars,user,item\n1.5,2,3\n");
    seen.digest("tables", &session.read_csv::<Rating>(folder.path().join("part-*.csv"))?)?;
    let told = folder.told(session.read_edges(folder.path().join("none-*")));
    seen.record("none", told);
    Ok(())
}

pub(crate) fn graphs(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let mut text = "# a graph\n".to_string();
    for k in 0..MANY as u64 {
        writeln!(text, "{}\t{}", mix(k) % 100_000, mix(k ^ 1) % 100_000).unwrap();
        if k % 999 == 0 {
            text += "# more\n\n";
        }
    }
    seen.digest("edges", &session.read_edges(folder.file("g.txt", &text))?)?;
    // What the program has dropped isn't read again.
    let gone = folder.file("gone.txt", &text);
    drop(session.read_edges(&gone)?);
    std::fs::remove_file(gone).unwrap();
    seen.record("a packed one", folder.told(session.read_edges(folder.file("g.txt.gz", "1 2\n"))).len() > 20);
    Ok(())
}

pub(crate) fn texts(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let text: String =
        (0..MANY as u64).map(|k| format!("{}\u{e9} w{}\n", "ab ".repeat(mix(k) as usize % 4), k % 77)).collect();
    seen.digest("lines", &session.read_lines(folder.file("t.txt", &text))?)?;
    seen.digest("tokens", &session.read_tokens(folder.file("t.txt", text.replace('\n', "\r\n")))?)?;
    let mut bytes = text.into_bytes();
    let at = bytes.len() - 5;
    bytes[at] = 0xff;
    seen.record("no text", folder.told(session.read_lines(folder.file("t.txt", bytes))));
    Ok(())
}

pub(crate) fn bags(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let entries: String = (0..MANY).map(|k| format!("{} {} {}\n", k / 100 + 1, k % 100 + 1, k % 7 + 1)).collect();
    let bag = session.read_bag_of_words(folder.file("bag.txt", format!("{}\n100\n{MANY}\n{entries}", MANY / 100)))?;
    seen.record("sizes", (bag.documents, bag.words));
    seen.digest("entries", &bag.entries)?;
    for head in ["2000\n100\n7\n", "2000\n99\n200000\n", "2000\n4000000000\n200000\n", "2000\n100\n", "x\n"] {
        let path = folder.file("bag.txt", format!("{head}{entries}"));
        seen.record(head, folder.told(session.read_bag_of_words(path)));
    }
    Ok(())
}

/// Sparse vectors, whose indices may begin at 0.
pub(crate) fn examples(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let lines = |first: u64| -> String {
        let line = |k: u64| format!("{} {}:0.5 {}:{}\n", k % 2, first + mix(k) % 50, 60 + k % 9, k % 100);
        (0..MANY as u64).map(line).collect()
    };
    for (name, text) in [("from one", lines(1)), ("from zero", lines(0)), ("one zero", lines(1) + "1 0:3")] {
        let read = session.read_libsvm(folder.file("e.txt", text))?;
        seen.digest(name, &read)?;
        seen.record("last", read.get(read.len() - 1)?);
    }
    let path = folder.file("bad.txt", lines(1) + "1 5:1 3:1\n");
    seen.record("falling indices", folder.told(session.read_libsvm(path)));
    Ok(())
}

/// Arrays that are longer than blocks, and what may be wrong with them.
pub(crate) fn arrays(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let rows = DVector::from_fn(session, MANY, |i| [i as f32, 0.5, -1.0, (i % 7) as f32, 3.0])?;
    let path = folder.path().join("rows.npy");
    rows.write_npy(&path)?;
    seen.digest("rows", &session.read_npy::<[f32; 5]>(&path)?)?;
    let bytes = std::fs::read(&path).unwrap();
    for (name, bytes) in [
        ("cut within a row", &bytes[..bytes.len() - 7]),
        ("a row less", &bytes[..bytes.len() - 20]),
        ("no header", &bytes[3..]),
    ] {
        seen.record(name, folder.told(session.read_npy::<[f32; 5]>(folder.file("bad.npy", bytes))));
    }
    seen.record("others", folder.told(session.read_npy::<[f64; 5]>(&path)));
    let numbers = DVector::from_fn(session, 5, |i| i as u64)?;
    numbers.write_npy(folder.path().join("few.npy"))?;
    seen.record("few", session.read_npy::<u64>(folder.path().join("few.npy"))?.to_vec()?);
    // Rows as wide as the file says, also where a row is longer than a block of bytes.
    let wide = DMatrix::from_fn(session, 7, 200_000, |i, k| (i * k) as f64)?;
    wide.write_npy(folder.path().join("wide.npy"))?;
    for (path, width) in [(&path, 5), (&folder.path().join("wide.npy"), 200_000)] {
        let bytes = std::fs::read(path).unwrap();
        let text = [&bytes[..bytes.len() - 8], &bytes[..bytes.len() - 4 * width], &bytes[..40]];
        let read = |path: &Path| match width {
            5 => session.read_npy_rows::<f32>(path).map(|m| (m.len(), m.width(), m.digest().unwrap())),
            _ => session.read_npy_rows::<f64>(path).map(|m| (m.len(), m.width(), m.digest().unwrap())),
        };
        seen.record("matrix", read(path)?);
        for bytes in text {
            seen.record("bad", folder.told(read(&folder.file("bad.npy", bytes))));
        }
    }
    let two = folder.path().join("two");
    std::fs::create_dir(&two).unwrap();
    for (name, width) in [("a.npy", 4), ("b.npy", 4), ("other.npy", 2)] {
        DMatrix::from_fn(session, 50_000, width, |i, k| (i + k) as f32)?.write_npy(two.join(name))?;
    }
    seen.record("two files", session.read_npy_rows::<f32>(two.join("?.npy"))?.digest()?);
    seen.record("two widths", folder.told(session.read_npy_rows::<f32>(two.join("*.npy"))));
    // Packed ones.
    let none = DMatrix::<f32>::from_fn(session, 0, 4, |_, _| 0.0)?;
    none.write_npy(two.join("d.npy"))?;
    for name in ["a.npy", "b.npy", "d.npy", "other.npy"] {
        std::fs::write(two.join(format!("{name}.gz")), gzip(std::fs::read(two.join(name)).unwrap())).unwrap();
    }
    let packed = session.read_npy_rows::<f32>(two.join("[abd].npy.gz"))?;
    assert_eq!(packed.digest()?, session.read_npy_rows::<f32>(two.join("[ab].npy"))?.digest()?);
    seen.record("packed", (packed.len(), packed.width()));
    seen.record("packed", session.read_npy::<[f32; 4]>(two.join("?.npy.gz"))?.digest()?);
    seen.record("nothing packed", session.read_npy_rows::<f32>(two.join("d.npy.gz"))?.len());
    seen.record("two widths packed", folder.told(session.read_npy_rows::<f32>(two.join("*.npy.gz"))));
    for bytes in
        [&bytes[..bytes.len() - 20], &bytes[..bytes.len() - 7], &bytes[..200], &[&bytes[..], &[0; 20]].concat()]
    {
        let bad = folder.file("bad.npy.gz", gzip(bytes));
        seen.record("packed and bad", folder.told(session.read_npy::<[f32; 5]>(&bad)));
        seen.record("packed and bad", folder.told(session.read_npy_rows::<f32>(&bad)));
    }
    Ok(())
}

/// A text in gzip's format, as it is.
pub(crate) fn gzip(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut chunks = text.chunks(60_000).peekable();
    if chunks.peek().is_none() {
        packed.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(chunk) = chunks.next() {
        let len = chunk.len() as u16;
        packed.push(u8::from(chunks.peek().is_none()));
        packed.extend(len.to_le_bytes().into_iter().chain((!len).to_le_bytes()));
        packed.extend(chunk);
    }
    packed.extend(crc32fast::hash(text).to_le_bytes());
    packed.extend((text.len() as u32).to_le_bytes());
    packed
}

/// Packed files, of which each worker reads whole ones, and what may be wrong with them.
pub(crate) fn packed(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    for (k, n) in [MANY / 2, 3, MANY / 5, 1, 0].into_iter().enumerate() {
        folder.beside(&format!("part-{k}.csv.gz"), gzip(ratings(n, ["\n", "\r\n"][k % 2])));
        folder.beside(&format!("text-{k}.gz"), gzip("a line of text\n".repeat(n)));
        folder.beside(&format!("svm-{k}.gz"), gzip("1 0:2 7:0.5\n-1 3:1\n".repeat(n)));
    }
    folder.beside("part-5.csv", "stars,user,item\n1.5,2,3\n");
    let all = folder.path().join("part-*");
    let mut whole = session.read_csv::<Rating>(&all)?;
    seen.record("ratings", (whole.len(), whole.get(whole.len() - 1)?.stars));
    seen.digest("ratings", &whole)?;
    async_parallel_for!(0..whole.len(), [&mut whole], |i| whole[i].stars += 1.0)?;
    seen.digest("more stars", &whole)?;
    seen.digest("texts", &session.read_lines(folder.path().join("text-*"))?)?;
    seen.digest("vectors", &session.read_libsvm(folder.path().join("svm-*"))?)?;
    let bag = session.read_bag_of_words(folder.file("bag.gz", gzip("3\n4\n2\n1 2 1\n3 4 9\n")))?;
    seen.record("bag", (bag.documents, bag.words, bag.entries.to_vec()?));
    seen.record("promises", folder.told(session.read_bag_of_words(folder.file("bag.gz", gzip("3\n4\n3\n1 2 1\n")))));
    // The first of two that are wrong, and one that is no packed file.
    folder.beside("part-1.csv.gz", gzip(ratings(9, "\n") + "1,n,2,many\n"));
    folder.beside("part-2.csv.gz", gzip("user,item\n1,2\n"));
    seen.record("a bad line", folder.told(session.read_csv::<Rating>(&all)));
    folder.beside("part-1.csv.gz", &gzip(ratings(MANY / 9, "\n"))[..9_000]);
    seen.record("half a file", folder.told(session.read_csv::<Rating>(&all)));
    folder.beside("part-1.csv.gz", "not packed");
    seen.record("no packed file", folder.told(session.read_csv::<Rating>(&all)));
    Ok(())
}

/// The first bad line is reported, whichever worker finds one.
pub(crate) fn bad_lines(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    for end in ["\n", "\r\n"] {
        let good: Vec<String> = ratings(MANY, end).lines().map(str::to_string).collect();
        let wrong: [&[(usize, &str)]; 7] = [
            &[(1, "1,n,2,many")],
            &[(2, "1,n,2")],
            &[(MANY / 2, "1,n,2,3,4")],
            &[(MANY, "1,n,-2,3")],
            &[(MANY - 1, "1,n,2,x"), (MANY / 4, ",n,2,3")],
            &[(5, "y,n,2,3"), (MANY, "z,n,2,3"), (MANY / 3, "w,n,2,3")],
            &[(MANY / 2, "1,\"n,2,3")],
        ];
        for (k, lines) in wrong.into_iter().enumerate() {
            let mut bad = good.clone();
            lines.iter().for_each(|&(line, text)| bad[line] = text.to_string());
            let path = folder.file("bad.csv", bad.join(end));
            seen.record(&format!("{k}"), folder.told(session.read_csv::<Rating>(&path)));
        }
    }
    let path = folder.file("bad.txt", "1 2\n".repeat(MANY) + "3");
    seen.record("half an edge", folder.told(session.read_edges(path)));
    // Nothing is left of it.
    seen.digest("good", &session.read_csv::<Rating>(folder.file("good.csv", ratings(10, "\n")))?)
}

pub(crate) fn bad_files(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let folder = Folder::new();
    let good = ratings(MANY, "\n");
    seen.record("missing", folder.told(session.read_csv::<Rating>(folder.path().join("missing.csv"))));
    seen.record("a folder", folder.told(session.read_csv::<Rating>(folder.path())));
    folder.beside("0.csv", &good);
    folder.beside("1.csv", good.replace("stars", "starts"));
    folder.beside("2.csv", "");
    let all = folder.path().join("?.csv");
    seen.record("a column", folder.told(session.read_csv::<Rating>(&all)));
    folder.beside("0.csv", good.replacen("\n", "\nx,,,\n", 1));
    seen.record("a record before", folder.told(session.read_csv::<Rating>(&all)));
    folder.beside("0.csv", good.clone() + "x,,,");
    seen.record("the last record before", folder.told(session.read_csv::<Rating>(&all)));
    Ok(())
}
