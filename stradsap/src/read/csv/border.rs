//! Where records end: at newlines that no quotes enclose.
//!
//! A quote opens a field only where the field begins; elsewhere it stands for itself. So says the parser, and the borders
//! must be where it sees them.

use serde::{Deserialize, Serialize};

use memchr::{memchr, memchr2, memrchr};

/// What separates fields and records.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
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
    // Up to where it is known what is what, the border before that, and the beginning of the record that goes on there.
    let (mut at, mut last, mut record) = (0, 0, 0);
    loop {
        let quote = memchr(QUOTE, &bytes[at..]).map(|found| at + found);
        if let Some(newline) = memrchr(b'\n', &bytes[at..quote.unwrap_or(bytes.len())]) {
            last = at + newline + 1;
        }
        let Some(quote) = quote else { return Borders { last, open: None } };
        if let Some(comment) = marks.comment
            && let Some(end) = commented(bytes, comment, &mut record, at, quote)
        {
            if end == bytes.len() {
                return Borders { last, open: None };
            }
            at = end;
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

/// If the quote stands in a comment, where that ends: at its newline. Otherwise brings `record` to the beginning of the
/// record that has the quote; no quoted field begins between `at` and there.
fn commented(bytes: &[u8], comment: u8, record: &mut usize, at: usize, quote: usize) -> Option<usize> {
    loop {
        while *record < quote && matches!(bytes[*record], b'\n' | b'\r') {
            *record += 1;
        }
        if bytes[*record] == comment {
            let end = memchr(b'\n', &bytes[*record..]).map_or(bytes.len(), |newline| *record + newline);
            if end > quote {
                return Some(end);
            }
            *record = end;
            continue;
        }
        let from = at.max(*record);
        *record = from + memchr2(b'\n', b'\r', &bytes[from..quote])? + 1;
    }
}
