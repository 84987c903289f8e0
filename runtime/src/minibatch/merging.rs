//! Uniting what copies changed: rows in order, of each row the copies in order.
//!
//! # Why this is sound
//! Lists of changed rows are sorted, below the DDS's length, and name rows of tables or of packed bytes that hold one
//! row for each of them, as the maker of a list promises. Nobody writes any of them while they are merged: the threads of
//! a process meet before and after.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::kernels::fetch_bytes;

/// A page of small rows takes a cache line: to bring, compare and unite a row costs as much as that for all that share its line.
pub(crate) const PAGE: usize = 64;

/// This many rows before a list's value is needed, it is fetched.
const AHEAD: usize = 8;

/// The rows of one DDS that one thread of one copy changed, and where their values lie.
#[derive(Clone, Copy)]
pub(crate) struct List<'a> {
    pub(crate) rows: &'a [u32],
    pub(crate) at: At,
}

#[derive(Clone, Copy)]
pub(crate) enum At {
    /// By index, from the DDS's first row on.
    Table(*const u8),
    /// One after the other, in the order of the list.
    Packed(*const u8),
}

impl List<'_> {
    pub(crate) fn value(&self, k: usize, size: usize) -> *const u8 {
        match self.at {
            At::Table(base) => base.wrapping_add(self.rows[k] as usize * size),
            At::Packed(base) => base.wrapping_add(k * size),
        }
    }
}

/// Calls `f` for each row of a range that a list names, in order, with where its values lie: those of the lists in
/// their order, and which lists these are.
pub(crate) fn each_row(
    lists: &[List<'_>],
    range: Range<u32>,
    size: usize,
    mut f: impl FnMut(u32, &[*const u8], &[usize]),
) {
    let mut at: Vec<usize> = lists.iter().map(|list| list.rows.partition_point(|&row| row < range.start)).collect();
    let ends: Vec<usize> = lists.iter().map(|list| list.rows.partition_point(|&row| row < range.end)).collect();
    let (mut values, mut who) = (Vec::with_capacity(lists.len()), Vec::with_capacity(lists.len()));
    loop {
        let heads = lists.iter().enumerate().filter(|&(l, _)| at[l] < ends[l]);
        let Some(row) = heads.map(|(l, list)| list.rows[at[l]]).min() else { return };
        values.clear();
        who.clear();
        for (l, list) in lists.iter().enumerate() {
            if at[l] < ends[l] && list.rows[at[l]] == row {
                values.push(list.value(at[l], size));
                who.push(l);
                at[l] += 1;
                // Another thread has written it last.
                if at[l] + AHEAD < ends[l] {
                    fetch_bytes(list.value(at[l] + AHEAD, size), size);
                }
            }
        }
        f(row, &values, &who);
    }
}

/// Cuts rows into ranges that hold about as many of a list's entries each.
pub(crate) fn cut(lists: &[List<'_>], rows: Range<u32>, shares: usize, share: usize) -> Range<u32> {
    let longest = lists.iter().map(|list| list.rows).max_by_key(|rows| rows.len()).unwrap_or_default();
    let inside = {
        let lo = longest.partition_point(|&row| row < rows.start);
        let hi = longest.partition_point(|&row| row < rows.end);
        &longest[lo..hi]
    };
    let bound = |k: usize| match k {
        0 => rows.start,
        k if k == shares => rows.end,
        k => inside.get(inside.len() * k / shares).copied().unwrap_or(rows.end),
    };
    bound(share)..bound(share + 1)
}

/// Whether two rows hold other bytes.
///
/// # Safety
/// Both addresses are those of `size` bytes that nobody writes meanwhile.
pub(crate) unsafe fn differ(a: *const u8, b: *const u8, size: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            PAGE => *a.cast::<[u8; PAGE]>() != *b.cast::<[u8; PAGE]>(),
            _ => std::slice::from_raw_parts(a, size) != std::slice::from_raw_parts(b, size),
        }
    }
}

/// Copies a row, or a page of them.
///
/// # Safety
/// `from` and `to` are addresses of `size` bytes each that don't overlap; nobody writes the first or uses the second meanwhile.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, size: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            PAGE => to.cast::<[u8; PAGE]>().write(*from.cast()),
            _ => std::ptr::copy_nonoverlapping(from, to, size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_order_with_their_copies_in_order() {
        let (a, b) = ([10u8, 11, 12, 13, 14, 15, 16, 17], [21u8, 25]);
        let lists = [
            List { rows: &[1, 3, 7], at: At::Table(a.as_ptr()) },
            List { rows: &[1, 5], at: At::Packed(b.as_ptr()) },
            List { rows: &[], at: At::Packed(b.as_ptr()) },
        ];
        let mut seen = Vec::new();
        for share in 0..3 {
            each_row(&lists, cut(&lists, 0..8, 3, share), 1, |row, values, who| {
                // SAFETY: they point into the arrays above.
                let values: Vec<u8> = values.iter().map(|&value| unsafe { *value }).collect();
                seen.push((row, values, who.to_vec()));
            });
        }
        let row = |row, values: &[u8], who: &[usize]| (row, values.to_vec(), who.to_vec());
        assert_eq!(seen, [row(1, &[11, 21], &[0, 1]), row(3, &[13], &[0]), row(5, &[25], &[1]), row(7, &[17], &[0])]);
    }
}
