//! Where records end: at newlines that no quotes enclose.
//!
//! A quote opens a field only where the field begins; elsewhere it stands for itself. So says the parser, and the borders
//! must be where it sees them.

use memchr::{memchr, memrchr};

/// What separates fields and records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    pub(crate) delimiter: u8,
    pub(crate) comment: Option<u8>,
}

pub(crate) const QUOTE: u8 = b'"';

/// What a look at some bytes finds.
pub(crate) struct Borders {
    /// Where the last whole record ends; 0 if there is none.
    pub(crate) last: usize,
    /// A quote whose field doesn't end within the bytes.
    pub(crate) open: Option<usize>,
}

/// Looks at bytes that begin with a record.
pub(crate) fn borders(bytes: &[u8], marks: Marks) -> Borders {
    // The end of the quoted field before, the border before that, and where the line begins that the two are on.
    let (mut at, mut last, mut line) = (0, 0, 0);
    loop {
        let quote = memchr(QUOTE, &bytes[at..]).map(|found| at + found);
        if let Some(newline) = memrchr(b'\n', &bytes[at..quote.unwrap_or(bytes.len())]) {
            last = at + newline + 1;
            line = last;
        }
        let Some(quote) = quote else { return Borders { last, open: None } };
        if marks.comment.is_some_and(|comment| bytes[line..].trim_ascii_start_newlines().first() == Some(&comment)) {
            match memchr(b'\n', &bytes[quote..]) {
                Some(newline) => at = quote + newline,
                None => return Borders { last, open: None },
            }
            continue;
        }
        let opens = quote == 0 || matches!(bytes[quote - 1], b'\n' | b'\r') || bytes[quote - 1] == marks.delimiter;
        if !opens {
            at = quote + 1;
            continue;
        }
        let mut inside = quote + 1;
        at = loop {
            let Some(found) = memchr(QUOTE, &bytes[inside..]) else { return Borders { last, open: Some(quote) } };
            let next = inside + found + 1;
            match bytes.get(next) {
                Some(&QUOTE) => inside = next + 1,
                // Perhaps the first of two.
                None => return Borders { last, open: None },
                Some(_) => break next,
            }
        };
    }
}

trait TrimNewlines {
    fn trim_ascii_start_newlines(&self) -> &[u8];
}

impl TrimNewlines for [u8] {
    /// Without the empty lines before: they may end in lone carriage returns.
    fn trim_ascii_start_newlines(&self) -> &[u8] {
        let start = self.iter().position(|byte| !matches!(byte, b'\n' | b'\r')).unwrap_or(self.len());
        &self[start..]
    }
}
