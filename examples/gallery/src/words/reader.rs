//! Words from a stream of bytes of any length, in bounded memory.
//!
//! Spaces, tabs and line feeds end a word, a line feed ends a sentence as well, carriage returns are dropped, and a word
//! is cut after 98 bytes: all as the original reads. Unlike there, the last word of a file needs nothing behind it.

use std::io::{self, Read};

/// The longest word, in bytes; what a longer one has beyond is dropped.
pub(super) const MAX_WORD: usize = 98;
/// Bytes of a word that are looked at: a character that the cut would split is seen whole.
const LOOKED_AT: usize = MAX_WORD + 3;
/// Bytes read at a time.
const CHUNK: usize = 1 << 16;

/// What a text consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// A word: of 1 to 98 bytes.
    Word(&'a str),
    /// The end of a line, and so of a sentence.
    LineEnd,
}

/// What couldn't be read as text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Bytes that aren't UTF-8.
    pub bytes: u64,
    /// Words that had some, which are left out.
    pub words: u64,
    /// The line of the first, from 1.
    pub line: u64,
}

/// Reads a text to its end, and passes each word and each end of a line to `each`.
///
/// # Errors
/// What reading gives.
pub fn read_words(mut input: impl Read, mut each: impl FnMut(Token<'_>)) -> io::Result<Skipped> {
    let mut chunk = vec![0; CHUNK];
    // The beginning of a word that the last chunk ended in.
    let mut begun: Vec<u8> = Vec::with_capacity(LOOKED_AT);
    let mut skipped = Skipped::default();
    let mut line = 1;
    loop {
        let filled = match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(filled) => filled,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        let mut rest = &chunk[..filled];
        while let Some(end) = rest.iter().position(|&b| matches!(b, b' ' | b'\t' | b'\n')) {
            if begun.is_empty() && !rest[..end].contains(&b'\r') {
                word(&rest[..end], line, &mut skipped, &mut each);
            } else {
                begin(&mut begun, &rest[..end]);
                word(&begun, line, &mut skipped, &mut each);
                begun.clear();
            }
            if rest[end] == b'\n' {
                each(Token::LineEnd);
                line += 1;
            }
            rest = &rest[end + 1..];
        }
        begin(&mut begun, rest);
    }
    word(&begun, line, &mut skipped, &mut each);
    Ok(skipped)
}

/// Adds to a word's beginning what will be looked at of these bytes.
fn begin(begun: &mut Vec<u8>, bytes: &[u8]) {
    let room = LOOKED_AT - begun.len();
    begun.extend(bytes.iter().filter(|&&b| b != b'\r').take(room));
}

/// Where a word ends that may be too long: at a character's end.
fn cut(text: &str) -> usize {
    (0..=text.len().min(MAX_WORD)).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

fn word(bytes: &[u8], line: u64, skipped: &mut Skipped, each: &mut impl FnMut(Token<'_>)) {
    let bytes = &bytes[..bytes.len().min(LOOKED_AT)];
    match std::str::from_utf8(bytes) {
        Ok("") => {}
        Ok(text) => each(Token::Word(&text[..cut(text)])),
        // The cut went through a character.
        Err(e) if e.error_len().is_none() && bytes.len() == LOOKED_AT => {
            if let Ok(text) = std::str::from_utf8(&bytes[..e.valid_up_to()]) {
                each(Token::Word(&text[..cut(text)]));
            }
        }
        Err(_) => {
            skipped.bytes += bytes.utf8_chunks().map(|part| part.invalid().len() as u64).sum::<u64>();
            skipped.words += 1;
            if skipped.line == 0 {
                skipped.line = line;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes a few at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(out.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn read(bytes: &[u8], step: usize) -> (Vec<String>, Skipped) {
        let mut tokens = Vec::new();
        let skipped = read_words(Drops(bytes, step), |token| match token {
            Token::Word(word) => tokens.push(word.to_owned()),
            Token::LineEnd => tokens.push("\n".to_owned()),
        });
        (tokens, skipped.unwrap())
    }

    /// The same however the bytes come.
    fn check(bytes: &[u8], expected: &[&str], skipped: Skipped) {
        for step in [1, 2, 3, 7, 1000] {
            assert_eq!(read(bytes, step), (expected.iter().map(ToString::to_string).collect(), skipped), "{step}");
        }
    }

    #[test]
    fn words_and_lines() {
        check(b"", &[], Skipped::default());
        check(b"the cat\n\nsat \t on", &["the", "cat", "\n", "\n", "sat", "on"], Skipped::default());
        check("dos\r\nli\rne\r\n\u{e9}t\u{e9} ".as_bytes(), &["dos", "\n", "line", "\n", "été"], Skipped::default());
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        let (a, b, c) = ("a".repeat(98), "b".repeat(97), "c".repeat(99));
        let text = format!("{a} {b}é {c} {a}zzzz{a}{a}{a} {b}€uro");
        check(text.as_bytes(), &[&a, &b, &"c".repeat(98), &a, &b], Skipped::default());
        // Characters of three bytes: 32 of them end at byte 96, and byte 101 is in the middle of one.
        let wide = "€".repeat(200);
        check(wide.as_bytes(), &[&"€".repeat(32)], Skipped::default());
    }

    #[test]
    fn what_is_no_text_is_counted_and_left_out() {
        check(
            b"one tw\xffo\nth\xc3 \xe2\x82 four \xfe\xff\xfe",
            &["one", "\n", "four"],
            Skipped { bytes: 7, words: 4, line: 1 },
        );
    }
}
