//! Which worker keeps which rows of a DDS that a synchronous loop writes (IterStore, section 4.4).
//!
//! Until it is known who touches what, rows are cut by number. Afterwards each row is with the worker whose copies touch it in the most
//! rounds. Rows of long DDSs are dealt in groups of consecutive rows, so that tables stay small. No bits depend on who keeps a row.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The most groups that are distinguished, roughly.
const MOST_GROUPS: usize = 1 << 18;
/// The place of a row that others keep.
const ELSEWHERE: u32 = u32::MAX;

/// The worker of each row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Keepers {
    /// Where each worker's rows begin, and the end.
    ByNumber(Vec<u32>),
    /// Of groups of 2^`shift` rows, one after the other.
    Dealt { len: usize, shift: u32, of: Vec<u16> },
}

/// How many rounds touch rows of a group: group and number, in the order of the groups.
pub(crate) type Touches = Vec<(u32, u32)>;

/// The groups of a DDS have 2^n rows each.
pub(crate) fn group_shift(len: usize) -> u32 {
    len.div_ceil(MOST_GROUPS).max(1).next_power_of_two().trailing_zeros()
}

impl Keepers {
    /// The keepers of rows that workers touch this often. Of two workers that touch a group equally often, the one with fewer rows so far
    /// gets it. Groups that nobody touches stay where their numbers place them.
    pub(crate) fn by_touches(cuts: &[u32], touches: &[Touches]) -> Keepers {
        let len = cuts.last().map_or(0, |&len| len as usize);
        let (shift, by_number) = (group_shift(len), Keepers::ByNumber(cuts.to_vec()));
        let mut next: Vec<_> = touches.iter().map(|touches| touches.iter().copied().peekable()).collect();
        let mut kept = vec![0usize; touches.len()];
        let mut of = Vec::with_capacity(len.div_ceil(1 << shift));
        for group in 0..len.div_ceil(1 << shift) as u32 {
            let often = |touches: &mut std::iter::Peekable<std::iter::Copied<std::slice::Iter<'_, (u32, u32)>>>| {
                while touches.next_if(|&(at, _)| at < group).is_some() {}
                touches.next_if(|&(at, _)| at == group).map_or(0, |(_, n)| n)
            };
            let often: Vec<u32> = next.iter_mut().map(often).collect();
            let most = often.iter().copied().max().unwrap_or(0);
            let equal = (0..often.len()).filter(|&w| often[w] == most);
            let by_fewest = equal.min_by_key(|&w| kept[w]).filter(|_| most > 0);
            let keeper = by_fewest.unwrap_or_else(|| by_number.owner(group << shift));
            kept[keeper] += 1;
            of.push(keeper as u16);
        }
        Keepers::Dealt { len, shift, of }
    }

    /// Whether it is about all rows of a DDS, and about these workers alone.
    pub(crate) fn covers(&self, rows: usize, workers: usize) -> bool {
        match self {
            Keepers::ByNumber(cuts) => {
                let ends = (cuts.first().copied(), cuts.last().map(|&end| end as usize));
                cuts.is_sorted() && cuts.len() == workers + 1 && ends == (Some(0), Some(rows))
            }
            Keepers::Dealt { len, shift, of } => {
                let all = *shift < 32 && of.len() == rows.div_ceil(1 << shift);
                *len == rows && all && of.iter().all(|&keeper| usize::from(keeper) < workers)
            }
        }
    }

    /// The worker that keeps a row.
    pub(crate) fn owner(&self, row: u32) -> usize {
        match self {
            Keepers::ByNumber(cuts) => {
                cuts.partition_point(|&cut| cut <= row).saturating_sub(1).min(cuts.len().saturating_sub(2))
            }
            Keepers::Dealt { shift, of, .. } => of.get((row >> shift) as usize).map_or(0, |&keeper| keeper.into()),
        }
    }

    /// The rows that a worker keeps, as ranges in order.
    pub(crate) fn runs(&self, worker: usize) -> Vec<Range<u32>> {
        match self {
            Keepers::ByNumber(cuts) => cuts.get(worker..worker + 2).map(|cut| cut[0]..cut[1]).into_iter().collect(),
            Keepers::Dealt { len, shift, of } => {
                let mut runs: Vec<Range<u32>> = Vec::new();
                for (group, _) in of.iter().enumerate().filter(|&(_, &keeper)| usize::from(keeper) == worker) {
                    let start = (group << shift) as u32;
                    let end = (((group + 1) << shift).min(*len)) as u32;
                    match runs.last_mut() {
                        Some(last) if last.end == start => last.end = end,
                        _ => runs.push(start..end),
                    }
                }
                runs
            }
        }
    }
}

/// Where the rows that a worker keeps stand among these.
pub(crate) enum Places {
    Range(Range<u32>),
    /// Of each group the place of its first row.
    Groups {
        shift: u32,
        of: Vec<u32>,
        rows: usize,
    },
}

impl Places {
    pub(crate) fn of(keepers: &Keepers, me: usize) -> Places {
        match keepers {
            Keepers::ByNumber(cuts) => Places::Range(cuts.get(me..me + 2).map_or(0..0, |cut| cut[0]..cut[1])),
            Keepers::Dealt { len, shift, of } => {
                let mut rows = 0;
                let place = |(group, &keeper): (usize, &u16)| {
                    if usize::from(keeper) != me {
                        return ELSEWHERE;
                    }
                    let place = rows as u32;
                    rows += ((group + 1) << shift).min(*len) - (group << shift);
                    place
                };
                let of = of.iter().enumerate().map(place).collect();
                Places::Groups { shift: *shift, of, rows }
            }
        }
    }

    /// How many rows the worker keeps.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Places::Range(range) => range.len(),
            Places::Groups { rows, .. } => *rows,
        }
    }

    /// The place of a row; none if others keep it.
    pub(crate) fn place(&self, row: u32) -> Option<usize> {
        match self {
            Places::Range(range) => range.contains(&row).then(|| (row - range.start) as usize),
            Places::Groups { shift, of, .. } => {
                let first = *of.get((row >> shift) as usize)?;
                (first != ELSEWHERE).then(|| first as usize + (row as usize & ((1 << shift) - 1)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(keepers: &Keepers, len: usize, workers: usize) {
        assert!(keepers.covers(len, workers) && !keepers.covers(len + 1, workers), "{keepers:?}");
        let mut seen = vec![0; len];
        for worker in 0..workers {
            let (runs, places) = (keepers.runs(worker), Places::of(keepers, worker));
            assert!(runs.windows(2).all(|two| two[0].end < two[1].start));
            let rows: Vec<u32> = runs.iter().cloned().flatten().collect();
            assert_eq!(rows.len(), places.rows());
            for (place, &row) in rows.iter().enumerate() {
                assert_eq!((keepers.owner(row), places.place(row)), (worker, Some(place)));
                seen[row as usize] += 1;
            }
            let others = (0..len as u32).filter(|&row| keepers.owner(row) != worker);
            assert!(others.into_iter().all(|row| places.place(row).is_none()));
        }
        assert!(seen.iter().all(|&n| n == 1));
    }

    #[test]
    fn rows_are_with_who_touches_them_most() {
        let cuts = [0, 3, 6, 10];
        checked(&Keepers::ByNumber(cuts.to_vec()), 10, 3);
        let touches = [vec![(0, 1), (5, 2), (7, 1)], vec![(0, 4), (7, 1), (8, 3)], vec![(7, 1), (9, 1)]];
        let keepers = Keepers::by_touches(&cuts, &touches);
        checked(&keepers, 10, 3);
        // 7 is touched by all as often: the third keeps nothing but 6 yet.
        let of: Vec<usize> = (0..10).map(|row| keepers.owner(row)).collect();
        assert_eq!(of, [1, 0, 0, 1, 1, 0, 2, 2, 1, 2]);
    }

    #[test]
    fn long_ones_are_dealt_in_groups() {
        let len = 3 * MOST_GROUPS + 5;
        assert_eq!((group_shift(0), group_shift(MOST_GROUPS), group_shift(len)), (0, 0, 2));
        let touches = [vec![], vec![(0, 1), (2, 1), ((len >> 2) as u32, 1)]];
        let keepers = Keepers::by_touches(&[0, len as u32, len as u32], &touches);
        let (places, runs) = (Places::of(&keepers, 1), keepers.runs(1));
        assert_eq!(runs, [0..4, 8..12, (len >> 2 << 2) as u32..len as u32]);
        assert_eq!((places.rows(), places.place(9), places.place(5)), (8 + len % 4, Some(5), None));
        assert!(keepers.covers(len, 2) && !keepers.covers(len, 1));
    }

    #[test]
    fn nothing_is_kept_too() {
        checked(&Keepers::by_touches(&[0, 0, 0], &[vec![], vec![]]), 0, 2);
    }
}
