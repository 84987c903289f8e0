//! The sampler: one token's topic, given all others, by SparseLDA's buckets (Yao, Mimno, McCallum, 2009).
//!
//! A token of word w in document d has topic k with a probability in proportion to
//!
//! ```text
//! (n_dk + alpha) phi_k    with  phi_k = (n_wk + beta) / (n_k + beta V)
//! ```
//!
//! where the counts are without the token itself. SparseLDA cuts this into buckets, most of which are small: a sum over
//! the topics that the document has, `n_dk phi_k`, and one over all topics, `alpha phi_k`, which changes in two places
//! from token to token. Here tokens come word by word, so that what the buckets need of the word, `phi`, is set up once
//! for all its tokens in a block, and what is summed up anew for a token is as short as its document's row; SparseLDA's
//! own order, document by document, walks the word's row, which for common words has every topic. The bucket of all
//! topics is kept as sums over groups of topics, so that neither keeping nor drawing from it takes a pass over them.

use serde::{Deserialize, Serialize};
use stradsap::RelaxedView;

use super::lanes::{LANES, Sums};
use super::rows::SparseRow;
use super::{DocumentRow, WordRow};

/// Topics that share a sum.
const GROUP: usize = 2 * LANES;
/// Every topic that a `u16` can name has a place, so that none has to be checked.
const PLACES: usize = 1 << 16;
/// A topic that the word doesn't have.
const NOWHERE: u32 = u32::MAX;

/// The model's priors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    /// How many topics.
    pub topics: usize,
    /// Of a document's topics.
    pub alpha: f32,
    /// Of a topic's words.
    pub beta: f32,
    /// How many words the vocabulary has.
    pub words: usize,
}

/// How many tokens each topic has.
pub trait Totals {
    /// Of one topic.
    fn of(&self, topic: usize) -> i64;
    /// Counts one more or one less.
    fn add(&mut self, topic: usize, by: i64);
}

impl Totals for Vec<i64> {
    #[inline(always)]
    fn of(&self, topic: usize) -> i64 {
        self[topic]
    }

    #[inline(always)]
    fn add(&mut self, topic: usize, by: i64) {
        self[topic] += by;
    }
}

impl<const C: usize> Totals for RelaxedView<'_, i64, C> {
    #[inline(always)]
    fn of(&self, topic: usize) -> i64 {
        self[topic]
    }

    #[inline(always)]
    fn add(&mut self, topic: usize, by: i64) {
        RelaxedView::add(self, topic, by);
    }
}

/// What a sampler keeps from token to token, for one stretch of tokens that come word by word.
#[derive(Debug)]
pub struct Buckets {
    prior: Prior,
    /// beta times the number of words.
    beta_sum: f32,
    /// The word whose `phi` this is.
    word: Option<u32>,
    /// By topic; places behind the last topic are 0.
    phi: Box<[f32; PLACES]>,
    /// 1 / (n_k + beta V), by topic.
    inverse: Vec<f32>,
    /// n_wk by topic.
    count: Box<[f32; PLACES]>,
    /// Where the word's row has a topic.
    place: Box<[u32; PLACES]>,
    /// Topics whose `phi` isn't that of a word without tokens.
    touched: Vec<u16>,
    /// Sums of `phi` over groups of topics, in a whole number of lanes. Only rows that don't have a count for each topic need them.
    groups: Vec<f32>,
    /// Whether these sums are up to date.
    summed: bool,
}

fn places<T: Copy + std::fmt::Debug>(value: T) -> Box<[T; PLACES]> {
    let places: Box<[T]> = vec![value; PLACES].into_boxed_slice();
    match places.try_into() {
        Ok(places) => places,
        Err(_) => unreachable!("as many as there are"),
    }
}

impl Buckets {
    /// Buckets for tokens that come next, given how many tokens each topic has.
    pub fn new(prior: Prior, totals: &impl Totals) -> Buckets {
        let groups = prior.topics.div_ceil(GROUP).next_multiple_of(LANES);
        let beta_sum = prior.beta * prior.words as f32;
        let mut buckets = Buckets {
            prior,
            beta_sum,
            word: None,
            phi: places(0.0),
            inverse: (0..prior.topics).map(|k| 1.0 / (totals.of(k) as f32 + beta_sum)).collect(),
            count: places(0.0),
            place: places(0),
            touched: Vec::new(),
            groups: vec![0.0; groups],
            summed: false,
        };
        buckets.place[..prior.topics].fill(NOWHERE);
        for k in 0..prior.topics {
            buckets.phi[k] = prior.beta * buckets.inverse[k];
        }
        buckets
    }

    fn sum_groups(&mut self) {
        self.summed = true;
        for (group, phi) in self.groups.iter_mut().zip(self.phi.chunks_exact(GROUP)) {
            *group = Sums::of(phi).total();
        }
    }

    fn sum_group_of(&mut self, topic: u16) {
        let group = usize::from(topic) / GROUP;
        self.groups[group] = Sums::of(&self.phi[group * GROUP..(group + 1) * GROUP]).total();
    }

    /// Turns to another word.
    #[inline(never)]
    fn turn_to(&mut self, word: u32, row: &WordRow) {
        // Where that is as little work as correcting what both words have.
        if !self.summed || (self.touched.len() + row.len()) * 8 > self.prior.topics {
            self.set_all(row);
        } else {
            self.set_touched(row);
        }
        self.word = Some(word);
    }

    /// Sets up a word's `phi` in passes over all topics, many at once.
    fn set_all(&mut self, row: &WordRow) {
        let (beta, topics) = (self.prior.beta, self.prior.topics);
        let (counts, places) = (&mut self.count[..topics], &mut self.place[..topics]);
        counts.fill(0.0);
        places.fill(NOWHERE);
        self.touched.clear();
        for (at, (topic, count)) in row.iter().enumerate() {
            if let (Some(of_topic), Some(place)) =
                (counts.get_mut(usize::from(topic)), places.get_mut(usize::from(topic)))
            {
                (*of_topic, *place) = (count as f32, at as u32);
                self.touched.push(topic);
            }
        }
        for ((phi, &count), &inverse) in self.phi.iter_mut().zip(&*counts).zip(&self.inverse) {
            *phi = (count + beta) * inverse;
        }
        self.summed = false;
    }

    /// Takes out the topics of the word before, and puts in those of this one.
    fn set_touched(&mut self, row: &WordRow) {
        let beta = self.prior.beta;
        let touched = std::mem::take(&mut self.touched);
        for &topic in &touched {
            let k = usize::from(topic);
            self.count[k] = 0.0;
            self.place[k] = NOWHERE;
            self.phi[k] = beta * self.inverse[k];
        }
        touched.iter().for_each(|&topic| self.sum_group_of(topic));
        self.touched = touched;
        self.touched.clear();
        for (place, (topic, count)) in row.iter().enumerate() {
            let k = usize::from(topic);
            if k >= self.prior.topics {
                continue;
            }
            self.count[k] = count as f32;
            self.place[k] = place as u32;
            self.phi[k] = (count as f32 + beta) * self.inverse[k];
            self.touched.push(topic);
        }
        for at in 0..self.touched.len() {
            self.sum_group_of(self.touched[at]);
        }
    }

    /// Draws a token's topic anew, given its old one and a number in [0, 1), and moves the token in both rows and in the
    /// totals. Rows that don't have the token stay as they are. (In a virtual iteration they may be others'.)
    #[inline(always)]
    pub fn draw(
        &mut self,
        word: u32,
        (row, document): (&mut WordRow, &mut DocumentRow),
        totals: &mut impl Totals,
        old: u16,
        random: f32,
    ) -> u16 {
        if self.word != Some(word) {
            self.turn_to(word, row);
        }
        let k = usize::from(old);
        if k >= self.prior.topics {
            return old;
        }
        // Without the token.
        let inverse = 1.0 / ((totals.of(k) - 1) as f32 + self.beta_sum);
        let phi = (self.count[k] - 1.0 + self.prior.beta) * inverse;
        let new = match document {
            DocumentRow::Dense(counts) => {
                let new = self.draw_dense(counts, old, phi, random);
                if new == old {
                    return old;
                }
                match counts.get_mut(k) {
                    Some(count @ 1..) => *count -= 1,
                    _ => return old,
                }
                counts[usize::from(new)] = counts[usize::from(new)].wrapping_add(1);
                new
            }
            DocumentRow::Sparse(row) => {
                let (new, place) = self.draw_sparse(row, old, phi, random);
                if new == old || !row.move_one(old, new, place) {
                    return old;
                }
                new
            }
        };
        totals.add(k, -1);
        self.inverse[k] = inverse;
        self.set(k, phi);
        self.take_from_word(row, old);
        let k = usize::from(new);
        totals.add(k, 1);
        self.inverse[k] = 1.0 / (totals.of(k) as f32 + self.beta_sum);
        self.give_to_word(row, new);
        self.set(k, (self.count[k] + self.prior.beta) * self.inverse[k]);
        new
    }

    /// Both buckets in one, over all topics. `old_phi` is that of the old topic without the token.
    #[inline(always)]
    fn draw_dense(&self, counts: &[u16], old: u16, old_phi: f32, random: f32) -> u16 {
        let (alpha, old) = (self.prior.alpha, usize::from(old));
        let (counts, _) = counts.as_chunks::<LANES>();
        let (phi, _) = self.phi.as_chunks::<LANES>();
        let count = f32::from(counts.get(old / LANES).map_or(0, |counts| counts[old % LANES]));
        let of_old = (count - 1.0 + alpha) * old_phi;
        let sums = Sums::of_dense(counts, alpha, phi).plus(old % LANES, of_old - (count + alpha) * self.phi[old]);
        let (lane, left) = sums.find(|total| random * total);
        // Without a way out in the middle, which would be guessed wrong as often as not.
        let (mut passed, mut sum) = (0, 0.0);
        for (c, (counts, phi)) in counts.iter().zip(phi).enumerate() {
            let k = c * LANES + lane;
            sum += if k == old { of_old } else { (f32::from(counts[lane]) + alpha) * phi[lane] };
            passed += usize::from(sum <= left);
        }
        let (k, topics) = (passed * LANES + lane, self.prior.topics);
        if k < topics {
            return k as u16;
        }
        // Rounding can leave a little more than all there is: the lane's last topic, or the last of all.
        (if lane < topics { (topics - 1 - lane) / LANES * LANES + lane } else { topics - 1 }) as u16
    }

    /// The document's bucket, and that of all topics. A topic that the document has comes with its place there.
    #[inline(always)]
    fn draw_sparse(&mut self, row: &SparseRow, old: u16, old_phi: f32, random: f32) -> (u16, Option<usize>) {
        if !self.summed {
            self.sum_groups();
        }
        let k = usize::from(old);
        let phi_with = std::mem::replace(&mut self.phi[k], old_phi);
        let alpha = self.prior.alpha;
        // The token itself isn't counted.
        let weight = |entry: u32| {
            let others = (entry >> 16) - u32::from(entry as u16 == old);
            others as f32 * self.phi[usize::from(entry as u16)]
        };
        let sums = Sums::of_sparse(row.chunks(), old, &self.phi);
        let of_document = sums.total();
        let of_all = alpha * (Sums::of(&self.groups).total() - phi_with + old_phi);
        let drawn = random * (of_document + of_all);
        let (mut new, mut place) = (old, None);
        if drawn < of_document {
            let (lane, mut left) = sums.find(|_| drawn);
            for (c, chunk) in row.chunks().iter().enumerate() {
                let weight = weight(chunk[lane]);
                if weight > 0.0 {
                    (new, place) = (chunk[lane] as u16, Some(c * LANES + lane));
                    if left < weight {
                        break;
                    }
                    left -= weight;
                }
            }
        } else {
            self.groups[k / GROUP] += old_phi - phi_with;
            new = self.pick_of_all((drawn - of_document) / alpha);
            self.groups[k / GROUP] -= old_phi - phi_with;
        }
        self.phi[k] = phi_with;
        (new, place)
    }

    /// Which topic a number below the sum of `phi` falls on.
    #[inline(always)]
    fn pick_of_all(&self, drawn: f32) -> u16 {
        let (group, left) = walk(&self.groups, drawn);
        let first = group * GROUP;
        let (k, _) = walk(&self.phi[first..first + GROUP], left);
        (first + k).min(self.prior.topics - 1) as u16
    }

    /// Sets `phi` of a topic, and keeps its group's sum.
    #[inline(always)]
    fn set(&mut self, k: usize, phi: f32) {
        let by = phi - self.phi[k];
        self.phi[k] = phi;
        if self.summed {
            self.groups[k / GROUP] += by;
        }
    }

    #[inline(always)]
    fn take_from_word(&mut self, row: &mut WordRow, topic: u16) {
        let k = usize::from(topic);
        self.count[k] -= 1.0;
        let place = self.place[k];
        if let Some(moved) = row.take_at(place as usize) {
            self.place[usize::from(moved)] = place;
            self.place[k] = NOWHERE;
        }
    }

    #[inline(always)]
    fn give_to_word(&mut self, row: &mut WordRow, topic: u16) {
        let k = usize::from(topic);
        self.count[k] += 1.0;
        if self.place[k] == NOWHERE {
            self.place[k] = row.len() as u32;
            self.touched.push(topic);
        }
        row.add_at(self.place[k] as usize, topic);
    }
}

/// Where a number below the sum of some values falls, and what is left of it there.
#[inline(always)]
fn walk(values: &[f32], drawn: f32) -> (usize, f32) {
    let (lane, mut left) = Sums::of(values).find(|_| drawn);
    let mut last = lane;
    for (c, chunk) in values.as_chunks::<LANES>().0.iter().enumerate() {
        let value = chunk[lane];
        if value > 0.0 {
            last = c * LANES + lane;
            if left < value {
                return (last, left);
            }
            left -= value;
        }
    }
    (last, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stradsap::random::Stream;

    /// A document, a word and totals with some counts, and a token of topic `old` in all of them.
    fn tables(topics: usize, longest: u64, seed: u64) -> (WordRow, DocumentRow, Vec<i64>, u16) {
        let random = Stream::new(seed, 1);
        let mut dice = random.sequence(0);
        let mut pick = |below: usize| (dice.unit() * below as f32) as usize;
        let old = pick(topics) as u16;
        let (mut word, mut document) = (WordRow::default(), DocumentRow::empty(topics, longest));
        let mut totals: Vec<i64> = (0..topics).map(|_| 50 + pick(200) as i64).collect();
        for _ in 0..40 {
            let topic = pick(topics) as u16;
            document.add(topic);
            totals[usize::from(topic)] += 1;
            let topic = pick(topics.min(30)) as u16;
            word.add(topic);
            totals[usize::from(topic)] += 1;
        }
        word.add(old);
        document.add(old);
        totals[usize::from(old)] += 1;
        (word, document, totals, old)
    }

    fn count(counts: &[(u16, u32)], topic: usize) -> f64 {
        counts.iter().find(|(k, _)| usize::from(*k) == topic).map_or(0.0, |&(_, count)| f64::from(count))
    }

    /// Evenly spread numbers must fall on each topic as often as its probability says.
    #[test]
    fn topics_are_drawn_by_their_probability() {
        const DRAWS: usize = 40_000;
        for (topics, longest) in
            [(1, 100), (5, 100), (16, 100), (100, 100), (256, 100), (100, 1 << 20), (257, 100), (1000, 100)]
        {
            for seed in 0..3 {
                let (word, document, totals, old) = tables(topics, longest, seed);
                let prior = Prior { topics, alpha: 0.3, beta: 0.05, words: 70 };
                let (of_word, of_document) = (word.counts(), document.counts());
                let weight = |k: usize| {
                    let own = f64::from(u8::from(k == usize::from(old)));
                    (count(&of_document, k) - own + 0.3) * (count(&of_word, k) - own + 0.05)
                        / (totals[k] as f64 - own + 0.05 * 70.0)
                };
                let all: f64 = (0..topics).map(weight).sum();
                let mut drawn = vec![0u32; topics];
                let mut buckets = Buckets::new(prior, &totals);
                for n in 0..DRAWS {
                    let (mut word, mut document, mut totals) = (word.clone(), document.clone(), totals.clone());
                    // Another word each time, so that everything is set up anew.
                    let random = (n as f32 + 0.5) / DRAWS as f32;
                    let new = buckets.draw(n as u32, (&mut word, &mut document), &mut totals, old, random);
                    drawn[usize::from(new)] += 1;
                    // The buckets take totals for their own: they get them back.
                    if new != old {
                        let back = buckets.draw_back(&mut word, &mut document, &mut totals, new, old);
                        assert!(back && word.counts() == of_word && document.counts() == of_document);
                    }
                }
                for (k, &drawn) in drawn.iter().enumerate() {
                    let (found, wanted) = (f64::from(drawn) / DRAWS as f64, weight(k) / all);
                    assert!(
                        (found - wanted).abs() < 2e-4 + 1e-3 * wanted,
                        "{topics}, {seed}: {k} {found}, not {wanted}"
                    );
                }
            }
        }
    }

    impl Buckets {
        /// Moves the token back.
        fn draw_back(
            &mut self,
            row: &mut WordRow,
            document: &mut DocumentRow,
            totals: &mut [i64],
            from: u16,
            to: u16,
        ) -> bool {
            let found = match document {
                DocumentRow::Dense(counts) => {
                    counts[usize::from(from)] -= 1;
                    counts[usize::from(to)] += 1;
                    true
                }
                DocumentRow::Sparse(row) => row.move_one(from, to, None),
            };
            totals[usize::from(from)] -= 1;
            totals[usize::from(to)] += 1;
            self.take_from_word(row, from);
            self.give_to_word(row, to);
            for topic in [from, to] {
                let k = usize::from(topic);
                self.inverse[k] = 1.0 / (totals[k] as f32 + self.beta_sum);
                self.set(k, (self.count[k] + self.prior.beta) * self.inverse[k]);
            }
            found
        }
    }

    #[test]
    fn rows_without_the_token_stay_as_they_are() {
        for topics in [20, 400] {
            let (mut word, _, mut totals, _) = tables(topics, 100, 1);
            let mut document = DocumentRow::empty(topics, 100);
            let (old_word, old_document, old_totals) = (word.clone(), document.clone(), totals.clone());
            let prior = Prior { topics, alpha: 0.1, beta: 0.01, words: 70 };
            let mut buckets = Buckets::new(prior, &totals);
            for old in [0, topics as u16 - 1, topics as u16, u16::MAX] {
                let new = buckets.draw(3, (&mut word, &mut document), &mut totals, old, 0.7);
                assert_eq!((new, &word, &document, &totals), (old, &old_word, &old_document, &old_totals));
            }
        }
    }
}
