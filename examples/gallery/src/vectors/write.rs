//! Vectors into a file, whole or not at all.

use std::io::{self, Write};
use std::path::Path;

use stradsap_examples::{Result, files};

use super::Format;

/// Stores words and their vectors; the file has its old content, or all of the new. Numbers in text are the shortest
/// that are read back as the same `f32`.
///
/// # Errors
/// [`Error::File`](stradsap_examples::Error::File).
pub fn store<'w, R: AsRef<[f32]>>(
    path: &Path,
    format: Format,
    words: impl ExactSizeIterator<Item = &'w str>,
    size: usize,
    rows: impl Iterator<Item = R>,
) -> Result<()> {
    files::write(path, |out| {
        writeln!(out, "{} {size}", words.len())?;
        words.zip(rows).try_for_each(|(word, row)| match format {
            Format::Text => write_text(out, word, row.as_ref()),
            Format::Binary => write_binary(out, word, row.as_ref()),
        })
    })
}

/// A space after each value, as the original has it: its own tools look for one behind the last, too.
fn write_text(out: &mut dyn Write, word: &str, row: &[f32]) -> io::Result<()> {
    write!(out, "{word} ")?;
    row.iter().try_for_each(|x| write!(out, "{x} "))?;
    writeln!(out)
}

fn write_binary(out: &mut dyn Write, word: &str, row: &[f32]) -> io::Result<()> {
    write!(out, "{word} ")?;
    row.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(format: Format) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors");
        let rows = [[0.5f32, -1.0e-7], [16_777_216.0, f32::MIN_POSITIVE]];
        store(&path, format, ["</s>", "été"].into_iter(), 2, rows.into_iter()).unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn text() {
        let text = String::from_utf8(stored(Format::Text)).unwrap();
        let tiny = format!("0.{}11754944", "0".repeat(37));
        assert_eq!(text, format!("2 2\n</s> 0.5 -0.0000001 \nété 16777216 {tiny} \n"));
    }

    #[test]
    fn binary() {
        let mut expected = b"2 2\n</s> ".to_vec();
        expected.extend([0.5f32, -1.0e-7].iter().flat_map(|x| x.to_le_bytes()));
        expected.extend("\nété ".as_bytes());
        expected.extend([16_777_216.0, f32::MIN_POSITIVE].iter().flat_map(|x| x.to_le_bytes()));
        expected.push(b'\n');
        assert_eq!(stored(Format::Binary), expected);
    }
}
