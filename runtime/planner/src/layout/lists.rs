//! Many short lists of numbers, in little memory: those of a plan of thousands of blocks are most of what a driver has.

use std::ops::{Deref, Range};

/// Numbers, mostly one or none: these take no memory of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShortList(Numbers);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Numbers {
    #[default]
    None,
    One(u32),
    #[expect(clippy::box_collection, reason = "a third smaller, and it grows")]
    More(Box<Vec<u32>>),
}

impl ShortList {
    /// Appends a number.
    pub fn push(&mut self, number: u32) {
        match &mut self.0 {
            Numbers::None => self.0 = Numbers::One(number),
            Numbers::One(first) => self.0 = Numbers::More(Box::new(vec![*first, number])),
            Numbers::More(all) => all.push(number),
        }
    }
}

impl Deref for ShortList {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match &self.0 {
            Numbers::None => &[],
            Numbers::One(number) => std::slice::from_ref(number),
            Numbers::More(all) => all,
        }
    }
}

impl FromIterator<u32> for ShortList {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> ShortList {
        let mut list = ShortList::default();
        numbers.into_iter().for_each(|number| list.push(number));
        list
    }
}

impl<'l> IntoIterator for &'l ShortList {
    type Item = &'l u32;
    type IntoIter = std::slice::Iter<'l, u32>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Lists by number, one behind the other.
pub(crate) struct Lists {
    ends: Vec<u32>,
    all: Vec<u32>,
}

impl Lists {
    /// Of this many lists: each pair is a list's number and what is in it, in the order in which they come.
    pub(crate) fn new(lists: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Lists {
        let mut ends = vec![0u32; lists + 1];
        pairs.clone().for_each(|(list, _)| ends[list as usize + 1] += 1);
        for list in 0..lists {
            ends[list + 1] += ends[list];
        }
        let mut all = vec![0; ends[lists] as usize];
        // Each list's beginning moves to its end, which is where the next one begins.
        for (list, number) in pairs {
            let next = &mut ends[list as usize];
            all[*next as usize] = number;
            *next += 1;
        }
        Lists { ends, all }
    }

    pub(crate) fn range(&self, list: u32) -> Range<usize> {
        let start = list.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        start as usize..self.ends[list as usize] as usize
    }

    /// A number by its place in all lists.
    pub(crate) fn at(&self, place: usize) -> u32 {
        self.all[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_what_was_put_in_in_its_order() {
        let pairs = [(2, 7), (0, 1), (2, 3), (4, 9), (0, 0)];
        let lists = Lists::new(5, pairs.iter().copied());
        let of = |list: u32| lists.range(list).map(|place| lists.at(place)).collect::<Vec<_>>();
        assert_eq!((0..5).map(of).collect::<Vec<_>>(), [vec![1, 0], vec![], vec![7, 3], vec![], vec![9]]);
        assert!(Lists::new(1, std::iter::empty()).range(0).is_empty());
    }

    #[test]
    fn numbers_stand_as_they_were_put_in() {
        assert_eq!(size_of::<ShortList>(), 16);
        for n in [0, 1, 2, 3, 100] {
            let list: ShortList = (0..n).map(|k| 7 * k % 5).collect();
            assert!(list.iter().copied().eq((0..n).map(|k| 7 * k % 5)));
            assert_eq!(list, list.iter().copied().collect());
        }
    }
}
