//! Arrays in numpy's `.npy` format.
//!
//! The header is read here, since a reader of it must bear with any file: libraries multiply the lengths that it claims.

use std::marker::PhantomData;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::apart::{self, Travelling};
use super::blocks::{Format, Misplaced, Parsed, Reading, misplaced};
use super::source::resolve;
use crate::numeric::shape_text;
use crate::{DMatrix, DVector, Error, Numeric, Result, Session};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Longer headers are refused: numpy's own are shorter than this by far.
const LONGEST: usize = 1 << 20;

pub(super) fn read<T: Numeric>(session: &Session, path: &Path) -> Result<DVector<T>> {
    let inputs = resolve(path)?;
    collect(&Reading::new(session, &inputs))
}

pub(super) fn collect<T: Numeric>(reading: &Reading<'_>) -> Result<DVector<T>> {
    let format = Npy::<T> { rows: false, number: PhantomData };
    if let Some((elements, _)) = apart::read(reading, &format)? {
        return Ok(elements);
    }
    let records = reading.records(&format)?;
    for (file, input) in records.files.iter().zip(reading.inputs) {
        let (rows, found) = (file.head.rows, file.records as u64);
        if rows != found {
            let problem = format!("the header promises {rows} rows, but {found} follow");
            return Err(Error::Input { path: input.path.clone(), line: 1, column: None, problem });
        }
    }
    DVector::from_chunks(reading.session, records.chunks)
}

pub(super) fn read_rows<T: Numeric>(session: &Session, path: &Path) -> Result<DMatrix<T>> {
    let inputs = resolve(path)?;
    let reading = Reading::new(session, &inputs);
    let format = Npy::<T> { rows: true, number: PhantomData };
    // (What doesn't fit a process's memory isn't as wide as that.)
    if let Some(rows) = apart::read_rows(&reading, &format, |head| head.width as usize)? {
        return Ok(rows);
    }
    let records = reading.records(&format)?;
    let mut width = None;
    for (file, input) in records.files.iter().zip(reading.inputs) {
        let Array { rows, width: own, .. } = *file.head;
        let refuse = |problem| Err(Error::Input { path: input.path.clone(), line: 1, column: None, problem });
        let first = *width.get_or_insert(own);
        if own != first {
            return refuse(format!("the array's rows have {own} numbers, and those of the first file {first}"));
        }
        if rows.checked_mul(own) != Some(file.records as u64) {
            return refuse(format!(
                "the header promises {rows} rows of {own} numbers, but {} numbers follow",
                file.records
            ));
        }
    }
    // (There is a file, or it would have been an error.)
    let width = width.and_then(|width| usize::try_from(width).ok()).unwrap_or(0);
    DMatrix::from_vec(session, width, records.chunks.concat())
}

#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
struct Npy<T> {
    /// Whether rows may be of any width: their numbers are `T`.
    rows: bool,
    number: PhantomData<fn() -> T>,
}

/// What a file's header says beyond what the type of its elements says.
#[derive(Serialize, Deserialize)]
struct Array {
    rows: u64,
    /// How many numbers a row has, where that is for the file to say; otherwise 1.
    width: u64,
    /// Whether the most significant byte comes first.
    big: bool,
}

impl<T> Clone for Npy<T> {
    fn clone(&self) -> Self {
        Npy { rows: self.rows, number: PhantomData }
    }
}

impl<T: Numeric> Travelling for Npy<T> {
    fn stride(&self, head: &Array) -> Option<usize> {
        size_of::<T>().checked_mul(usize::try_from(head.width).ok()?)
    }

    fn holds(&self, first: &Array, head: &Array, items: usize) -> bool {
        head.width == first.width && head.rows.checked_mul(head.width) == Some(items as u64)
    }

    fn fits(&self, head: &Array, bytes: u64) -> bool {
        let size = size_of::<T>() as u64;
        head.rows.checked_mul(head.width).and_then(|numbers| numbers.checked_mul(size)) == Some(bytes)
    }
}

impl<T: Numeric> Format for Npy<T> {
    type Head = Array;
    type Scratch = Vec<u8>;
    type Item = T;

    const TEXT: bool = false;

    fn head(&self, bytes: &[u8], last: bool) -> Parsed<Option<(Array, usize)>> {
        if bytes.len() < 12 && !last {
            return Ok(None);
        }
        let wrong = |problem: String| Misplaced { offset: 0, problem };
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return misplaced(0, "this is no array; a file that begins with \"\\x93NUMPY\" was expected");
        };
        let (start, length) = match *rest {
            [1, _, a, b, ..] => (10, usize::from(u16::from_le_bytes([a, b]))),
            [2 | 3, _, a, b, c, d, ..] => (12, u32::from_le_bytes([a, b, c, d]) as usize),
            [version, ..] if version > 3 => {
                return Err(wrong(format!("the format's version is {version}; 1, 2 or 3 was expected")));
            }
            _ => return Err(wrong("the file ends within its header".to_string())),
        };
        if length > LONGEST {
            return Err(wrong(format!("the header claims {length} bytes; at most {LONGEST} were expected")));
        }
        let Some(header) = bytes.get(start..start + length) else {
            return if last { Err(wrong("the file ends within its header".to_string())) } else { Ok(None) };
        };
        let text = std::str::from_utf8(header).map_err(|_| wrong("the header is no text".to_string()))?;
        let array = array::<T>(text, self.rows).map_err(wrong)?;
        Ok(Some((array, start + length)))
    }

    fn scratch(&self) -> Vec<u8> {
        Vec::new()
    }

    fn border(&self, _: &Array, bytes: &[u8]) -> usize {
        bytes.len() - bytes.len() % size_of::<T>()
    }

    fn parse(&self, array: &Array, bytes: &[u8], swapped: &mut Vec<u8>, items: &mut Vec<T>) -> Parsed<()> {
        let size = size_of::<T>();
        let odd = bytes.len() % size;
        if odd > 0 {
            return misplaced(0, format!("the file ends {odd} bytes into a row of {size} bytes"));
        }
        let mut native = bytes;
        if array.big != cfg!(target_endian = "big") {
            swapped.clear();
            swapped.extend_from_slice(bytes);
            T::scalar().swap(swapped, array.big);
            native = swapped;
        }
        let mut numbers = crate::__private::decode_vec(bytes.len() / size, &mut native)
            .map_err(|error| Misplaced { offset: 0, problem: error.to_string() })?;
        if items.is_empty() {
            *items = numbers;
        } else {
            items.append(&mut numbers);
        }
        Ok(())
    }
}

/// What a header says, if it is about rows of `T`.
fn array<T: Numeric>(header: &str, of_rows: bool) -> Result<Array, String> {
    let descr = value(header, "descr")?;
    let scalar = T::scalar();
    let quoted = |text: &str| matches!(text.as_bytes(), [b'\'', .., b'\''] | [b'"', .., b'"']);
    let found = if quoted(descr) { &descr[1..descr.len() - 1] } else { descr };
    let big = found.starts_with('>') && scalar.bytes > 1;
    if found.trim_start_matches(['<', '>', '|', '=']) != scalar.npy || !quoted(descr) {
        return Err(format!("the array's numbers are {found:?}; {:?} was expected", scalar.descr()));
    }
    match value(header, "fortran_order")? {
        "False" => {}
        "True" => {
            return Err("the array is in Fortran order; C order was expected (numpy.ascontiguousarray makes it)".into());
        }
        other => return Err(format!("`fortran_order` is {other}; True or False was expected")),
    }
    let text = value(header, "shape")?;
    let row = T::shape();
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let lengths = inner.map(|inner| inner.split(',').map(str::trim).filter(|length| !length.is_empty()));
    let shape: Option<Vec<u64>> = lengths.and_then(|lengths| lengths.map(|length| length.parse().ok()).collect());
    let (rows, width, columns) = match shape.as_deref() {
        Some([rows, width, columns @ ..]) if of_rows => (*rows, *width, columns),
        Some([rows, columns @ ..]) if !of_rows => (*rows, 1, columns),
        _ => (0, 1, [u64::MAX].as_slice()),
    };
    match columns.iter().copied().eq(row.iter().map(|n| *n as u64)) {
        true => {
            if size_of::<T>() == 0 || width == 0 {
                return Err(format!("the array's shape is {text}; rows that have numbers were expected"));
            }
            Ok(Array { rows, width, big })
        }
        false => {
            let mut expected = vec!["rows".to_string()];
            expected.extend(of_rows.then(|| "width".to_string()));
            expected.extend(row.iter().map(ToString::to_string));
            Err(format!("the array's shape is {text}; {} was expected", shape_text(&expected)))
        }
    }
}

/// The value of a key of the header's dictionary.
fn value<'h>(header: &'h str, key: &str) -> Result<&'h str, String> {
    let missing = || format!("the header is {header:?}; a dictionary with `{key}` was expected");
    let after = [format!("'{key}'"), format!("\"{key}\"")]
        .iter()
        .find_map(|quoted| header.split_once(quoted.as_str()))
        .and_then(|(_, after)| after.trim_start().strip_prefix(':'))
        .ok_or_else(missing)?
        .trim_start();
    // Up to the next comma that stands in no brackets and no quotes.
    let (mut depth, mut quote) = (0u32, None);
    for (k, letter) in after.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ',' | '}') if depth == 0 => return Ok(after[..k].trim_end()),
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Err(missing())
}
