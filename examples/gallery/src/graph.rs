//! Directed graphs from edge lists, laid out by target.
//!
//! One link a line: the page that it is on, then the page that it leads to, with blanks or tabs between, as the graphs of
//! SNAP have them. Ids are whole numbers below 2^64 in any order, with any gaps. Lines that begin with `#` or `%` are
//! comments; blank lines are skipped; a name that ends in `.gz` is unpacked. Links of a page to itself and links that come
//! more than once are kept and counted.
//!
//! Pages are numbered by how many links are on them, most first: what is read most often then lies together.

use std::collections::HashMap;
use std::io::BufRead;
use std::ops::Range;
use std::path::Path;

use stradsap_examples::{Error, Result};

use crate::lines::{Lines, excerpt, words};

/// A graph: for each page the pages that link to it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graph {
    /// Each page's id, by its number.
    ids: Vec<u64>,
    /// How many links are on each page.
    links_out: Vec<u32>,
    /// Where the links to each page end in `sources`.
    ends: Vec<usize>,
    /// The pages that link to each page, ascending.
    sources: Vec<u32>,
}

impl Graph {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::File`] when it can't be read, [`Error::Line`] with the line and column that isn't as it should be.
    pub fn read(path: &Path) -> Result<Graph> {
        parse(path, Lines::open(path)?)
    }

    /// Reads from memory or a stream; `path` is what errors name.
    ///
    /// # Errors
    /// As [`Graph::read`].
    pub fn parse(path: &Path, input: impl BufRead) -> Result<Graph> {
        parse(path, Lines::of(path, input))
    }

    /// From links between places in `ids`: (from, to). Takes 4 bytes a link more while it works.
    pub fn new(ids: &[u64], mut links: Vec<(u32, u32)>) -> Graph {
        let mut out = vec![0u32; ids.len()];
        links.iter().for_each(|&(from, _)| out[from as usize] += 1);
        let mut order: Vec<u32> = (0..ids.len() as u32).collect();
        order.sort_by_key(|&page| std::cmp::Reverse(out[page as usize]));
        let mut numbers = vec![0u32; ids.len()];
        (0u32..).zip(&order).for_each(|(number, &page)| numbers[page as usize] = number);
        for (from, to) in &mut links {
            (*from, *to) = (numbers[*from as usize], numbers[*to as usize]);
        }

        let mut ends = vec![0usize; ids.len()];
        links.iter().for_each(|&(_, to)| ends[to as usize] += 1);
        let mut before = 0;
        for end in &mut ends {
            before += std::mem::replace(end, before);
        }
        // Each end is where the next link to its page goes; when all have gone there, it is the end.
        let mut sources = vec![0u32; links.len()];
        for (from, to) in links {
            let end = &mut ends[to as usize];
            sources[*end] = from;
            *end += 1;
        }
        let mut start = 0;
        for &end in &ends {
            sources[start..end].sort_unstable();
            start = end;
        }
        let of = |page: &u32| *page as usize;
        Graph {
            ids: order.iter().map(|page| ids[of(page)]).collect(),
            links_out: order.iter().map(|page| out[of(page)]).collect(),
            ends,
            sources,
        }
    }

    /// Each page's id, by its number.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// How many links are on each page, by its number.
    pub fn links_out(&self) -> &[u32] {
        &self.links_out
    }

    /// For each page the numbers of the pages that link to it, ascending, and as often as they do.
    pub fn links_in(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.sources[std::mem::replace(&mut start, end)..end])
    }

    /// The numbers of the pages that link to one, ascending, and as often as they do.
    pub fn links_to(&self, page: usize) -> &[u32] {
        let start = if page == 0 { 0 } else { self.ends[page - 1] };
        &self.sources[start..self.ends[page]]
    }

    /// Cuts the pages into ranges with about `weight` pages and links to them each.
    pub fn strips(&self, weight: usize) -> Vec<Range<usize>> {
        let mut strips = Vec::new();
        let (mut start, mut before) = (0, 0);
        for (page, &end) in self.ends.iter().enumerate() {
            if end - before + page + 1 - start >= weight || page + 1 == self.ends.len() {
                strips.push(start..page + 1);
                (start, before) = (page + 1, end);
            }
        }
        strips
    }

    /// How many pages.
    pub fn pages(&self) -> usize {
        self.ids.len()
    }

    /// How many links.
    pub fn links(&self) -> usize {
        self.sources.len()
    }

    /// How many links lead to the page that they are on.
    pub fn self_links(&self) -> usize {
        let own = |(page, links): (u32, &[u32])| links.iter().filter(|&&from| from == page).count();
        (0u32..).zip(self.links_in()).map(own).sum()
    }

    /// How many links are like one before them.
    pub fn repeated_links(&self) -> usize {
        self.links_in().map(|links| links.windows(2).filter(|pair| pair[0] == pair[1]).count()).sum()
    }
}

fn parse(path: &Path, mut lines: Lines<'_>) -> Result<Graph> {
    let mut ids = Ids::default();
    let mut links = Vec::new();
    while let Some(line) = lines.advance()? {
        let link = match two_ids(line) {
            Ok(None) => continue,
            Ok(Some(link)) => link,
            Err((column, problem)) => return Err(lines.error(column, problem)),
        };
        let [Some(from), Some(to)] = link.map(|id| ids.place(id)) else {
            let problem = format!("more than {} pages", u32::MAX);
            return Err(Error::Data { path: path.to_path_buf(), problem });
        };
        links.push((from, to));
    }
    if links.is_empty() {
        return Err(lines.error(None, "no links; expected lines of two page ids".to_owned()));
    }
    Ok(Graph::new(&ids.seen, links))
}

/// The ids of a line; none in a comment. An error has the column, where one place is wrong.
fn two_ids(line: &[u8]) -> std::result::Result<Option<[u64; 2]>, (Option<usize>, String)> {
    let mut ids = [0; 2];
    let mut found = 0;
    for (column, word) in words(line) {
        if found == 0 && matches!(word[0], b'#' | b'%') {
            return Ok(None);
        }
        if let Some(place) = ids.get_mut(found) {
            *place = id(word).ok_or_else(|| {
                let problem = format!("the id is {}; expected a whole number below 2^64", excerpt(word));
                (Some(column), problem)
            })?;
        }
        found += 1;
    }
    match found {
        0 => Ok(None),
        2 => Ok(Some(ids)),
        1 => Err((None, "1 field; expected two page ids".to_owned())),
        _ => Err((None, format!("{found} fields; expected two page ids"))),
    }
}

fn id(word: &[u8]) -> Option<u64> {
    word.iter().try_fold(0u64, |id, byte| {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit < 10)?;
        id.checked_mul(10)?.checked_add(digit.into())
    })
}

/// Ids in the order in which they first appear.
#[derive(Default)]
struct Ids {
    seen: Vec<u64>,
    /// The places of small ids; `NONE`: not seen.
    small: Vec<u32>,
    large: HashMap<u64, u32>,
}

/// Below this ids are looked up in an array: 16 MiB at the most.
const SMALL: u64 = 1 << 22;
const NONE: u32 = u32::MAX;

impl Ids {
    /// The place of an id, which is added if it is new; none if there are too many.
    fn place(&mut self, id: u64) -> Option<u32> {
        let next = u32::try_from(self.seen.len()).ok().filter(|&next| next != NONE)?;
        let place = if id < SMALL {
            let id = id as usize;
            if id >= self.small.len() {
                self.small.resize(id + 1, NONE);
            }
            let place = &mut self.small[id];
            if *place == NONE {
                *place = next;
            }
            *place
        } else {
            *self.large.entry(id).or_insert(next)
        };
        if place == next {
            self.seen.push(id);
        }
        Some(place)
    }
}
