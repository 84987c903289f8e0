//! Formats of one record a line, and what they have in common.

use std::fmt::Display;
use std::str::FromStr;

use super::blocks::{Parsed, misplaced};

/// Enough of a text to recognise it by, in quotes.
pub(crate) fn excerpt(text: &[u8]) -> String {
    const LENGTH: usize = 40;
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// What is wrong as one line of bearable length, whatever of a file stands in it.
pub(crate) fn one_line(problem: &str) -> String {
    const LENGTH: usize = 500;
    let mut line = String::new();
    for (k, letter) in problem.chars().enumerate() {
        if k == LENGTH {
            line.push_str("...");
            break;
        }
        if letter.is_control() { line.extend(letter.escape_default()) } else { line.push(letter) }
    }
    line
}

/// Where the last line ends.
pub(crate) fn last_line(bytes: &[u8]) -> usize {
    memchr::memrchr(b'\n', bytes).map_or(0, |newline| newline + 1)
}

/// Calls `f` with each line, without its end, and where it begins.
pub(crate) fn each_line<'b>(bytes: &'b [u8], mut f: impl FnMut(usize, &'b [u8]) -> Parsed<()>) -> Parsed<()> {
    let mut start = 0;
    while start < bytes.len() {
        let newline = memchr::memchr(b'\n', &bytes[start..]);
        let line = &bytes[start..newline.map_or(bytes.len(), |newline| start + newline)];
        let end = start + line.len() + 1;
        f(start, if newline.is_some() { line.strip_suffix(b"\r").unwrap_or(line) } else { line })?;
        start = end;
    }
    Ok(())
}

/// The words of a line, each with where it begins.
pub(crate) fn words(start: usize, line: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += line[at..].iter().position(|byte| !byte.is_ascii_whitespace())?;
        let begin = at;
        at += line[at..].iter().position(u8::is_ascii_whitespace).unwrap_or(line.len() - at);
        Some((start + begin, &line[begin..at]))
    })
}

/// A number, or what stands there instead.
pub(crate) fn number<N: FromStr>(offset: usize, word: &[u8], what: &str, expected: impl Display) -> Parsed<N> {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    match number {
        Some(number) => Ok(number),
        None => misplaced(offset, format!("{what} is {}; {expected} was expected", excerpt(word))),
    }
}

/// The text of a line.
pub(crate) fn utf8(start: usize, line: &[u8]) -> Parsed<&str> {
    std::str::from_utf8(line).or_else(|error| {
        let at = error.valid_up_to();
        let found = line[at..].iter().take(4).map(|byte| format!("{byte:#04x}")).collect::<Vec<_>>().join(" ");
        misplaced(start + at, format!("{found} is no character; UTF-8 text was expected"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_without_their_ends() {
        let mut all = Vec::new();
        let seen = each_line(b"a b\r\n\n  c \nd", |start, line| {
            all.push((start, line.to_vec()));
            Ok(())
        });
        assert_eq!(seen, Ok(()));
        assert_eq!(all, [(0, b"a b".to_vec()), (5, b"".to_vec()), (6, b"  c ".to_vec()), (11, b"d".to_vec())]);
    }

    #[test]
    fn problems_are_one_line() {
        assert_eq!(one_line("`a\nb\u{1b}` is é"), "`a\\nb\\u{1b}` is é");
        assert_eq!(one_line(&"é".repeat(501)), "é".repeat(500) + "...");
    }

    #[test]
    fn words_know_where_they_begin() {
        let found: Vec<_> = words(10, b"  ab\tc  d").collect();
        assert_eq!(found, [(12, &b"ab"[..]), (15, b"c"), (18, b"d")]);
        assert_eq!(words(0, b" \t").count(), 0);
    }
}
