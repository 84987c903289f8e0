//! Files that worker processes read, each some ranges of their bytes: elements are born where they will live.
//!
//! This process cuts the files by bytes. The workers look where records begin in each block, and how many lines it has; then they parse the
//! pieces between. Each piece has a checksum, so that one that is read again after a loss is known to be the same.
//!
//! Where a block has a quote, a line end may be within a record. Then the workers say of each block in which state it ends, for each in which
//! it may begin, and look again when it is known in which it begins. Where a worker doesn't see a file as this process does, this process
//! reads it after all.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stradsap_runtime::private::{Source, born, born_rows, given, is_apart};

use super::blocks::{BlockTrouble, Format, MARK, Parsed, Reading};
use super::source::Input;
use super::whole;
use crate::{BatchProblem, DMatrix, DVector, Element, Error, Result, files};

/// About as many blocks are enough: what this process knows of them must not grow with the files.
const MOST_BLOCKS: u64 = 512;

/// A format that other processes can parse.
pub(super) trait Travelling: Format<Head: Serialize + DeserializeOwned> + Travels {
    /// Whether the bytes may have line ends within records.
    fn hides_borders(&self, _bytes: &[u8]) -> bool {
        false
    }

    /// Whether a file with this head and this number of items may stand beside a first file with that head. If not, the ordinary reader
    /// says what is wrong.
    fn holds(&self, _first: &Self::Head, _head: &Self::Head, _items: usize) -> bool {
        true
    }

    /// For each state in which bytes may begin, that in which they end then. A file begins in state 0.
    fn passage(&self, _bytes: &[u8]) -> Passage {
        Passage::default()
    }

    /// Where the first record begins in bytes that begin in this state, behind a line end of theirs.
    fn border_in(&self, _state: u8, bytes: &[u8]) -> Option<usize> {
        memchr::memchr(b'\n', bytes).map(|newline| newline + 1)
    }

    /// The bytes of each record, if all have as many. Otherwise they end with lines.
    fn stride(&self, _head: &Self::Head) -> Option<usize> {
        None
    }

    /// Whether as many bytes can follow a file's head. If not, the ordinary reader says what is wrong.
    fn fits(&self, _head: &Self::Head, _bytes: u64) -> bool {
        true
    }
}

/// See [`Travelling::passage`].
pub(super) type Passage = [u8; 6];

/// What can be sent to other processes.
pub(super) trait Travels: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {}
impl<F: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> Travels for F {}

/// What workers have read, and what the first file said at its beginning.
pub(super) type Born<F> = (DVector<<F as Format>::Item>, <F as Format>::Head);

/// Has workers read the files. None where this process has to, because there are no workers, or to find out what is wrong.
pub(super) fn read<F: Travelling>(reading: &Reading<'_>, format: &F) -> Result<Option<Born<F>>> {
    match read_as(reading, format, |site, pieces, parse, _| born(reading.session, site, pieces, parse))? {
        Some(born) => Ok(Some(born)),
        None => whole::read(reading, format),
    }
}

/// The same of numbers that become rows, as wide as the first file's head says.
pub(super) fn read_rows<F: Travelling>(
    reading: &Reading<'_>,
    format: &F,
    width: impl Fn(&F::Head) -> usize,
) -> Result<Option<DMatrix<F::Item>>> {
    let make = |site: &str, pieces, parse: &Parse<F>, head: &F::Head| {
        born_rows(reading.session, site, (pieces, width(head)), parse)
    };
    match read_as(reading, format, make)? {
        Some((rows, _)) => Ok(Some(rows)),
        None => whole::read_rows(reading, format, width),
    }
}

fn read_as<F: Travelling, D>(
    reading: &Reading<'_>,
    format: &F,
    make: impl FnOnce(&str, usize, &Parse<F>, &F::Head) -> Result<D>,
) -> Result<Option<(D, F::Head)>> {
    let session = reading.session;
    if !is_apart(session) || reading.limit.is_some() {
        return Ok(None);
    }
    let begun = reading.inputs.iter().map(|input| begin(input, format, reading.block));
    let Some(begun) = begun.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let (files, heads): (Vec<Place>, Vec<_>) = begun.into_iter().unzip();
    let Some(stride) = heads.first().map(|head| format.stride(head)) else { return Ok(None) };
    let alike = |(head, file): (&F::Head, &Place)| {
        format.stride(head) == stride && format.fits(head, file.size.saturating_sub(file.begin))
    };
    if !heads.iter().zip(&files).all(alike) {
        return Ok(None);
    }
    let lines = stride.is_none();
    let stride = stride.unwrap_or(1).max(1);
    let all: u64 = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
    let block = (reading.block as u64).max(all / MOST_BLOCKS).max(stride as u64) / stride as u64 * stride as u64;
    let mut scan = Scan { format: format.clone(), files, block, lines, states: Vec::new() };
    let site = format!("reading {}", files::shown(&reading.inputs[0].path));
    let Some(mut scanned) = look(reading, &site, &scan)? else { return Ok(None) };
    if scanned.iter().any(|block| block.hidden) {
        scan.states = scan.states_of(&scanned);
        let Some(again) = look(reading, &site, &scan)? else { return Ok(None) };
        scanned = again;
    }
    let (pieces, lines) = cut(&scan, &scanned);
    let mut parse = Parse { format: format.clone(), heads, files: scan.files, pieces };
    let made = match parse.heads.first() {
        Some(head) => make(&site, parse.pieces.len(), &parse, head),
        None => return Ok(None),
    };
    match made {
        Ok(made) => Ok(Some((made, parse.heads.swap_remove(0)))),
        Err(Error::Operator { element: Some(piece), problem: BatchProblem::Body(why), .. }) => {
            Err(parse.explained(reading, piece, lines[piece], &why.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// What workers find in all blocks. None if there are none, or if a worker doesn't see them.
fn look<F: Travelling>(reading: &Reading<'_>, site: &str, scan: &Scan<F>) -> Result<Option<Vec<Scanned>>> {
    let blocks = scan.blocks();
    if blocks == 0 {
        return Ok(None);
    }
    match given(reading.session, site, blocks, scan) {
        Err(Error::Operator { element: Some(block), problem: BatchProblem::Body(why), .. }) => {
            let path = &reading.inputs[scan.place(block).0].path;
            tracing::warn!("{}: {why}; the program's own process reads it", files::shown(path));
            Ok(None)
        }
        scanned => Ok(Some(scanned?).filter(|scanned| scanned.len() == blocks)),
    }
}

/// A file as all processes should see it.
#[derive(Clone, Serialize, Deserialize)]
struct Place {
    path: PathBuf,
    size: u64,
    /// Where its records begin.
    begin: u64,
    /// How many lines come before.
    lines: u64,
}

/// Reads a file's head. None if that is for the ordinary reader, because it isn't a regular file as it is, or something is wrong.
fn begin<F: Format>(input: &Input, format: &F, block: usize) -> Option<(Place, F::Head)> {
    if !input.is_local() || input.is_packed() {
        return None;
    }
    let path = std::path::absolute(&input.path).ok().filter(|path| path.to_str().is_some())?;
    let mut file = files::open_regular(&path).ok()?;
    let size = file.metadata().ok()?.len();
    let (mut bytes, mut wanted) = (Vec::new(), block.max(MARK.len()));
    loop {
        let missing = wanted.saturating_sub(bytes.len());
        let last = file.by_ref().take(missing as u64).read_to_end(&mut bytes).ok()? < missing;
        let mark = if F::TEXT && bytes.starts_with(MARK) { MARK.len() } else { 0 };
        if let Some((head, length)) = format.head(&bytes[mark..], last).ok()? {
            let begin = mark + length;
            let lines = if F::TEXT { line_ends(&bytes[..begin]) as u64 } else { 0 };
            return Some((Place { path, size, begin: begin as u64, lines }, head));
        }
        if last {
            return None;
        }
        wanted = bytes.len().saturating_mul(2);
    }
}

/// Bytes of a file, which must be as long as it was.
fn bytes_of(file: &Place, start: u64, end: u64) -> std::result::Result<Vec<u8>, String> {
    let read = || -> std::io::Result<(u64, Vec<u8>)> {
        let mut open: File = files::open_regular(&file.path)?;
        let size = open.metadata()?.len();
        open.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::with_capacity(usize::try_from(end - start).unwrap_or(0));
        open.take(end - start).read_to_end(&mut bytes)?;
        Ok((size, bytes))
    };
    let (size, bytes) = read().map_err(|error| format!("a worker can't read it: {error}"))?;
    if size != file.size || bytes.len() as u64 != end - start {
        return Err(format!(
            "it has {size} bytes for a worker, and had {} when the program began to read it",
            file.size
        ));
    }
    Ok(bytes)
}

/// Looks at blocks of equally many bytes.
#[derive(Clone, Serialize, Deserialize)]
struct Scan<F> {
    format: F,
    files: Vec<Place>,
    block: u64,
    /// Whether records end with lines.
    lines: bool,
    /// In which state each block begins, where that matters.
    states: Vec<u8>,
}

/// What there is to know of a block.
#[derive(Clone, Copy, Element)]
struct Scanned {
    /// Where in the file the first record of the block begins, if one does.
    start: u64,
    begins: bool,
    /// Whether line ends may be within records.
    hidden: bool,
    passage: Passage,
    /// Checksums of the bytes before that and from there on,
    before: u32,
    behind: u32,
    /// and the line ends of each.
    lines_before: u32,
    lines_behind: u32,
}

impl<F> Scan<F> {
    fn blocks_of(&self, file: &Place) -> usize {
        usize::try_from(file.size.saturating_sub(file.begin).div_ceil(self.block)).unwrap_or(usize::MAX)
    }

    fn blocks(&self) -> usize {
        self.files.iter().map(|file| self.blocks_of(file)).fold(0, usize::saturating_add)
    }

    /// The file of a block, and the block's bytes.
    fn place(&self, mut block: usize) -> (usize, u64, u64) {
        for (f, file) in self.files.iter().enumerate() {
            let own = self.blocks_of(file);
            if block < own {
                let start = file.begin + block as u64 * self.block;
                return (f, start, file.size.min(start + self.block));
            }
            block -= own;
        }
        (0, 0, 0)
    }

    /// In which state each block begins.
    fn states_of(&self, scanned: &[Scanned]) -> Vec<u8> {
        let mut state = 0;
        let begins = |(k, block): (usize, &Scanned)| {
            let (file, start, _) = self.place(k);
            let begins = if start == self.files[file].begin { 0 } else { state };
            state = block.passage.get(usize::from(begins)).copied().unwrap_or(0);
            begins
        };
        scanned.iter().enumerate().map(begins).collect()
    }
}

impl<F: Travelling> Source for Scan<F> {
    type Item = Scanned;

    fn make(&self, piece: usize, items: &mut Vec<Scanned>) -> std::result::Result<(), String> {
        let (f, start, end) = self.place(piece);
        let file = &self.files[f];
        // A record begins behind each line end that isn't quoted.
        let first = start == file.begin || !self.lines;
        let bytes = bytes_of(file, start - u64::from(!first), end)?;
        let own = &bytes[usize::from(!first)..];
        let begins = match self.states.get(piece) {
            _ if first => Some(0),
            Some(&state) if state > 0 || bytes[0] != b'\n' => self.format.border_in(state, &own[..own.len() - 1]),
            Some(_) => Some(0),
            None => memchr::memchr(b'\n', &bytes[..bytes.len() - 1]),
        };
        let (before, behind) = own.split_at(begins.unwrap_or(own.len()));
        items.push(Scanned {
            start: start + before.len() as u64,
            begins: begins.is_some(),
            hidden: self.format.hides_borders(own),
            passage: self.format.passage(own),
            before: checksum(before).sum(),
            behind: checksum(behind).sum(),
            lines_before: if F::TEXT { line_ends(before) as u32 } else { 0 },
            lines_behind: if F::TEXT { line_ends(behind) as u32 } else { 0 },
        });
        Ok(())
    }
}

fn line_ends(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

fn checksum(bytes: &[u8]) -> flate2::Crc {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc
}

/// Whole records of one file.
#[derive(Clone, Serialize, Deserialize)]
struct Piece {
    file: usize,
    start: u64,
    end: u64,
    /// The checksums of consecutive stretches, each with its length.
    checksums: Vec<(u64, u32)>,
}

/// The pieces between the places where the first records of blocks begin, and how many lines of its file come before each.
fn cut<F>(scan: &Scan<F>, scanned: &[Scanned]) -> (Vec<Piece>, Vec<u64>) {
    let (mut pieces, mut lines): (Vec<Piece>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut line = 0;
    for (k, block) in scanned.iter().enumerate() {
        let (file, start, end) = scan.place(k);
        let place = &scan.files[file];
        if start == place.begin {
            line = place.lines;
        }
        if let Some(last) = pieces.last_mut().filter(|last| last.file == file) {
            let more = block.start - start;
            last.checksums.push((more, block.before));
            last.end += more;
        }
        if block.begins && block.start < end {
            pieces.push(Piece { file, start: block.start, end, checksums: vec![(end - block.start, block.behind)] });
            lines.push(line + u64::from(block.lines_before));
        }
        line += u64::from(block.lines_before) + u64::from(block.lines_behind);
    }
    (pieces, lines)
}

/// Parses pieces.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
struct Parse<F: Travelling> {
    format: F,
    heads: Vec<F::Head>,
    files: Vec<Place>,
    pieces: Vec<Piece>,
}

impl<F: Travelling> Parse<F> {
    fn bytes(&self, piece: usize) -> std::result::Result<Vec<u8>, String> {
        let piece = &self.pieces[piece];
        let bytes = bytes_of(&self.files[piece.file], piece.start, piece.end)?;
        let mut rest = bytes.as_slice();
        for &(length, sum) in &piece.checksums {
            let stretch = rest.split_off(..usize::try_from(length).unwrap_or(usize::MAX)).unwrap_or_default();
            if checksum(stretch).sum() != sum {
                let (start, end) = (piece.start, piece.end);
                return Err(format!("bytes {start} to {end} are others than when the program began to read it"));
            }
        }
        Ok(bytes)
    }

    fn shown(&self, piece: usize) -> String {
        files::shown(&self.files[self.pieces[piece].file].path).to_string()
    }

    fn parse(&self, piece: usize, bytes: &[u8], items: &mut Vec<F::Item>) -> Parsed<()> {
        self.format.parse(&self.heads[self.pieces[piece].file], bytes, &mut self.format.scratch(), items)
    }

    /// The error of a piece that a worker couldn't read, with its line, as this process finds it.
    fn explained(&self, reading: &Reading<'_>, piece: usize, lines: u64, why: &str) -> Error {
        let input = &reading.inputs[self.pieces[piece].file];
        let found = self.bytes(piece).ok().and_then(|bytes| {
            let trouble = self.parse(piece, &bytes, &mut Vec::new()).err().map(BlockTrouble::Record)?;
            Some(trouble.located::<F>(&bytes).error(input, lines))
        });
        found.unwrap_or_else(|| input.error(std::io::Error::other(why.to_string())))
    }
}

impl<F: Travelling> Source for Parse<F> {
    type Item = F::Item;

    fn make(&self, piece: usize, items: &mut Vec<F::Item>) -> std::result::Result<(), String> {
        let bytes = self.bytes(piece).map_err(|why| format!("{}: {why}", self.shown(piece)))?;
        self.parse(piece, &bytes, items).map_err(|misplaced| format!("{}: {}", self.shown(piece), misplaced.problem))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::csv::Csv;
    use super::super::edges::Edges;
    use super::super::lines::Lines;
    use super::*;
    use crate::Session;

    /// A file, where a piece of it begins, and how many lines come before.
    type Begin = (usize, u64, u64);

    /// All items, piece by piece, with the line of the first of each piece.
    fn pieces<F: Travelling>(format: &F, paths: &[PathBuf], block: usize) -> (Vec<F::Item>, Vec<Begin>) {
        let inputs: Vec<Input> = paths.iter().map(|path| Input::local(path.clone())).collect();
        let begun = inputs.iter().map(|input| begin(input, format, block).unwrap());
        let (files, heads) = begun.unzip();
        let mut scan = Scan { format: format.clone(), files, block: block as u64, lines: true, states: Vec::new() };
        let (mut scanned, mut items) = (Vec::new(), Vec::new());
        (0..scan.blocks()).for_each(|block| scan.make(block, &mut scanned).unwrap());
        if scanned.iter().any(|block: &Scanned| block.hidden) {
            scan.states = scan.states_of(&scanned);
            scanned.clear();
            (0..scan.blocks()).for_each(|block| scan.make(block, &mut scanned).unwrap());
        }
        let (pieces, lines) = cut(&scan, &scanned);
        let parse = Parse { format: format.clone(), heads, files: scan.files, pieces };
        (0..parse.pieces.len()).for_each(|piece| parse.make(piece, &mut items).unwrap());
        (items, parse.pieces.iter().zip(lines).map(|(piece, line)| (piece.file, piece.start, line)).collect())
    }

    proptest! {
        #[test]
        fn pieces_have_what_the_files_have(
            texts in prop::collection::vec(prop::collection::vec("(|[0-9]{1,9}|# x) [0-9]{1,3}\r?", 0..30), 1..4),
            open in any::<bool>(),
            block in 3usize..40,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let paths: Vec<PathBuf> = texts.iter().enumerate().map(|(k, lines)| {
                let path = folder.path().join(k.to_string());
                let end = if open || lines.is_empty() { "" } else { "\n" };
                std::fs::write(&path, lines.join("\n") + end).unwrap();
                path
            }).collect();
            let session = Session::builder().threads(1).build().unwrap();
            let inputs: Vec<Input> = paths.iter().map(|path| Input::local(path.clone())).collect();
            let reading = Reading { block, ..Reading::new(&session, &inputs) };
            let (lines, places) = pieces(&Lines, &paths, block);
            prop_assert_eq!(lines, reading.records(&Lines).unwrap().chunks.concat());
            for (file, start, line) in places {
                let text = std::fs::read(&paths[file]).unwrap();
                let before = &text[..start as usize];
                prop_assert!(before.is_empty() || before.ends_with(b"\n"));
                prop_assert_eq!(line, before.iter().filter(|&&byte| byte == b'\n').count() as u64);
            }
        }

        #[test]
        fn pieces_of_tables_begin_behind_the_header(rows in prop::collection::vec((0u32..99, 0u32..9999), 0..40), block in 3usize..60) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.csv");
            let text: String = rows.iter().map(|(a, b)| format!("{a},{b}\n")).collect();
            std::fs::write(&path, format!("\u{feff}\na,b\n{text}")).unwrap();
            let table = super::super::csv::Table::<(u32, u32)>::of(&Csv::new(), &path).unwrap();
            let (items, places) = pieces(&table, &[path], block);
            prop_assert_eq!(items, rows.clone());
            prop_assert!(places.first().is_none_or(|&(_, _, line)| line == 2));
        }
    }

    /// A field as a file has it, and what it says.
    fn field() -> impl Strategy<Value = (String, String)> {
        let plain = "[ab#][ab\"#]{0,4}".prop_map(|text| (text.clone(), text));
        let quoted = "[ab,#\"\r\n]{0,6}".prop_map(|text| (format!("\"{}\"", text.replace('"', "\"\"")), text));
        prop_oneof![plain, quoted]
    }

    proptest! {
        #[test]
        fn pieces_of_quoted_tables_have_whole_records(
            rows in prop::collection::vec((field(), field(), "\r?\n", "(|# \"a, \"?b\n|\n)"), 0..30),
            comments in any::<bool>(),
            block in 3usize..40,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.csv");
            let (mut text, mut expected) = ("x,y\n".to_string(), Vec::new());
            for ((first, a), (second, b), end, between) in rows {
                // A record that begins like a comment is none.
                let first = if comments && first.starts_with('#') { "a".to_string() } else { first };
                let a = if first == "a" { "a".to_string() } else { a };
                text += &format!("{first},{second}{end}");
                if comments || !between.starts_with('#') {
                    text += &between;
                }
                expected.push((a, b));
            }
            std::fs::write(&path, &text).unwrap();
            let csv = if comments { Csv::new().comment(b'#') } else { Csv::new() };
            let table = super::super::csv::Table::<(String, String)>::of(&csv, &path).unwrap();
            let (items, places) = pieces(&table, &[path], block);
            prop_assert_eq!(items, expected);
            for (_, start, line) in places {
                let before = &text.as_bytes()[..start as usize];
                prop_assert!(before.ends_with(b"\n"));
                prop_assert_eq!(line, before.iter().filter(|&&byte| byte == b'\n').count() as u64);
            }
        }
    }

    #[test]
    fn bytes_that_changed_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edges.txt");
        std::fs::write(&path, "1 2\n3 4\n5 6\n").unwrap();
        let (file, head) = begin(&Input::local(path.clone()), &Edges, 4).unwrap();
        let scan = Scan { format: Edges, files: vec![file], block: 4, lines: true, states: Vec::new() };
        let (mut scanned, mut items) = (Vec::new(), Vec::new());
        (0..scan.blocks()).for_each(|block| scan.make(block, &mut scanned).unwrap());
        let (pieces, _) = cut(&scan, &scanned);
        let parse = Parse { format: Edges, heads: vec![head], files: scan.files.clone(), pieces };
        std::fs::write(&path, "1 2\n3 4\n5 7\n").unwrap();
        parse.make(0, &mut items).unwrap();
        let error = parse.make(2, &mut items).unwrap_err();
        assert!(error.ends_with("bytes 8 to 12 are others than when the program began to read it"), "{error}");
        std::fs::write(&path, "1 2\n").unwrap();
        let error = parse.make(0, &mut items).unwrap_err();
        assert!(
            error.ends_with("it has 4 bytes for a worker, and had 12 when the program began to read it"),
            "{error}"
        );
        assert!(scan.make(0, &mut scanned).is_err());
    }
}
