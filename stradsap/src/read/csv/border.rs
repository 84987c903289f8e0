//! Where records end: at newlines that no quotes enclose.
//!
//! A quote opens a field only where the field begins; elsewhere it stands for itself. So says the parser, and the borders
//! must be where it sees them.

use serde::{Deserialize, Serialize};

use memchr::{memchr, memchr2, memrchr};

use crate::read::apart::Passage;

/// What separates fields and records.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Marks {
    pub(crate) delimiter: u8,
    pub(crate) comment: Option<u8>,
}

pub(crate) const QUOTE: u8 = b'"';

/// Where in a record bytes begin or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before its first byte.
    Record,
    /// Before the first byte of another of its fields.
    Field,
    /// In a field without quotes, or behind them.
    Text,
    /// Between quotes.
    Quoted,
    /// Behind a quote that ends the field, or is the first of two.
    Quote,
    /// In a comment instead.
    Comment,
}

const STATES: [State; 6] = [State::Record, State::Field, State::Text, State::Quoted, State::Quote, State::Comment];

impl State {
    fn behind(self, byte: u8, marks: Marks) -> State {
        match (self, byte) {
            (State::Quoted, QUOTE) => State::Quote,
            (State::Quoted, _) | (State::Quote, QUOTE) => State::Quoted,
            (State::Comment, b'\n') => State::Record,
            (State::Comment, _) => State::Comment,
            (_, b'\n' | b'\r') => State::Record,
            (State::Record | State::Field, QUOTE) => State::Quoted,
            (State::Record, byte) if Some(byte) == marks.comment => State::Comment,
            (_, byte) if byte == marks.delimiter => State::Field,
            _ => State::Text,
        }
    }
}

/// For each state in which bytes may begin, that in which they end then.
pub(crate) fn passage(mut bytes: &[u8], marks: Marks) -> Passage {
    let (mut now, mut of, mut apart) = (STATES, [0, 1, 2, 3, 4, 5], STATES.len());
    if memchr(QUOTE, bytes).is_none()
        && let Some(newline) = memrchr(b'\n', bytes)
    {
        // What isn't quoted is known from here on.
        (now[0], now[1], apart) = (State::Record, State::Quoted, 2);
        of = STATES.map(|state| usize::from(state == State::Quoted));
        bytes = &bytes[newline + 1..];
    }
    for &byte in bytes {
        now[..apart].iter_mut().for_each(|state| *state = state.behind(byte, marks));
        // Most soon become the same.
        while let Some(twin) = (1..apart).find(|&k| now[..k].contains(&now[k])) {
            let same = now.iter().position(|state| *state == now[twin]).unwrap_or(twin);
            apart -= 1;
            now[twin] = now[apart];
            for group in &mut of {
                *group = if *group == twin { same } else { *group };
                *group = if *group == apart { twin } else { *group };
            }
        }
    }
    of.map(|group| now[group] as u8)
}

/// Where the first record begins in bytes that begin in this state, behind a line end of theirs.
pub(crate) fn border_in(state: u8, bytes: &[u8], marks: Marks) -> Option<usize> {
    let mut state = STATES.get(usize::from(state)).copied().unwrap_or(State::Record);
    let ends = bytes.iter().position(|&byte| {
        state = state.behind(byte, marks);
        byte == b'\n' && state == State::Record
    });
    ends.map(|newline| newline + 1)
}

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn states_tell_borders(text in "[a,#\"\r\n]{0,40}", comments in any::<bool>(), cuts in prop::collection::vec(0usize..40, 0..4)) {
            let marks = Marks { delimiter: b',', comment: comments.then_some(b'#') };
            let bytes = text.as_bytes();
            let found = borders(bytes, marks);
            // Block by block, each passed through at once.
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let (mut state, mut single) = (0, State::Record);
            let mut last = 0;
            for cut in cuts.windows(2) {
                let block = &bytes[cut[0]..cut[1]];
                let mut at = 0;
                while let Some(border) = border_in(if at == 0 { state } else { 0 }, &block[at..], marks) {
                    at += border;
                    last = cut[0] + at;
                }
                state = passage(block, marks)[usize::from(state)];
                single = block.iter().fold(single, |single, &byte| single.behind(byte, marks));
                prop_assert_eq!(STATES[usize::from(state)], single);
            }
            // A quote at the very end may be the first of two, and then nothing is known of what is before.
            prop_assert_eq!(last, found.last);
            prop_assert_eq!(found.open.is_some(), single == State::Quoted);
        }
    }
}
