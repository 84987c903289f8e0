//! Elements that take what they take, each behind its length in 4 bytes (little-endian). Ranges of them can be cut out by who doesn't
//! know what they are.

use std::ops::Range;

/// What precedes each element.
const PREFIX: usize = 4;

/// Appends an element, which `encode` appends to the bytes. `None` if it takes 4 GiB or more; nothing was appended then.
pub fn push(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) -> Option<()> {
    let at = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    encode(out);
    match u32::try_from(out.len() - at - PREFIX) {
        Ok(len) => out[at..at + PREFIX].copy_from_slice(&len.to_le_bytes()),
        Err(_) => {
            out.truncate(at);
            return None;
        }
    }
    Some(())
}

/// The first of some elements, about `most` bytes of them, in place of what `out` holds; `encode` appends an element. Gives the first that is
/// left, or `None` if an element takes 4 GiB or more.
pub fn fill(
    out: &mut Vec<u8>,
    elements: Range<usize>,
    most: usize,
    mut encode: impl FnMut(usize, &mut Vec<u8>),
) -> Option<usize> {
    out.clear();
    let mut at = elements.start;
    while at < elements.end && out.len() < most {
        push(out, |out| encode(at, out))?;
        at += 1;
    }
    Some(at)
}

/// The first element, and what is behind it.
fn first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<PREFIX>()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

/// Where elements `range` are, of `n` elements that are all there is.
///
/// ```
/// use stradsap_dds_server::records;
///
/// let mut bytes = Vec::new();
/// for word in ["a", "", "of"] {
///     records::push(&mut bytes, |out| out.extend_from_slice(word.as_bytes()));
/// }
/// let last = records::cut(&bytes, 3, 1..3).unwrap();
/// assert_eq!(records::contents(&bytes[last], 2).unwrap(), b"of");
/// assert!(records::cut(&bytes, 4, 1..3).is_none());
/// ```
pub fn cut(bytes: &[u8], n: u64, range: Range<u64>) -> Option<Range<usize>> {
    let (mut rest, mut cut) = (bytes, 0..0);
    for k in 0..n {
        if k == range.start {
            cut.start = bytes.len() - rest.len();
        }
        if k == range.end {
            cut.end = bytes.len() - rest.len();
        }
        rest = first(rest)?.1;
    }
    if range.end == n {
        cut.end = bytes.len();
    }
    (rest.is_empty() && range.start < range.end && range.end <= n).then_some(cut)
}

/// The bytes of `n` elements, which are all there is, without their lengths.
pub fn contents(bytes: &[u8], n: usize) -> Option<Vec<u8>> {
    let (mut rest, mut contents) = (bytes, Vec::with_capacity(bytes.len()));
    for _ in 0..n {
        let (element, behind) = first(rest)?;
        contents.extend_from_slice(element);
        rest = behind;
    }
    rest.is_empty().then_some(contents)
}
