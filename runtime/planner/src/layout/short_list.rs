//! Lists of one number or none, mostly: there are many, and the driver keeps them as long as their plan.

use std::ops::Deref;

/// Numbers. None or one take no memory of their own.
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

#[cfg(test)]
mod tests {
    use super::*;

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
