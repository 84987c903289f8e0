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

use super::{DocumentRow, WordRow};

/// Topics that share a sum.
const GROUP: usize = 32;
/// What is computed side by side.
const LANES: usize = 16;
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
    count: Vec<f32>,
    /// Where the word's row has a topic.
    place: Box<[u32; PLACES]>,
    /// Topics whose `phi` isn't that of a word without tokens.
    touched: Vec<u16>,
    /// Sums of `phi` over groups of topics, up to a whole number of lanes.
    groups: Vec<f32>,
    /// n_dk phi_k for the entries of the document's row.
    products: Vec<f32>,
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
            count: vec![0.0; prior.topics],
            place: places(NOWHERE),
            touched: Vec::new(),
            groups: vec![0.0; groups],
            products: Vec::new(),
        };
        for k in 0..prior.topics {
            buckets.phi[k] = prior.beta * buckets.inverse[k];
        }
        buckets.sum_groups();
        buckets
    }

    fn sum_groups(&mut self) {
        for (group, phi) in self.groups.iter_mut().zip(self.phi[..].chunks_exact(GROUP)) {
            *group = sum(phi);
        }
    }

    /// Turns to another word.
    fn turn_to(&mut self, word: u32, row: &WordRow) {
        let beta = self.prior.beta;
        for &topic in &self.touched {
            let k = usize::from(topic);
            self.count[k] = 0.0;
            self.place[k] = NOWHERE;
            self.phi[k] = beta * self.inverse[k];
        }
        // Sums are made anew where that is as little work as correcting them.
        let anew = (self.touched.len() + row.len()) * 4 > self.prior.topics;
        if !anew {
            for &topic in &self.touched {
                let group = usize::from(topic) / GROUP;
                self.groups[group] = sum(&self.phi[group * GROUP..(group + 1) * GROUP]);
            }
        }
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
        if anew {
            self.sum_groups();
        } else {
            for &topic in &self.touched {
                let group = usize::from(topic) / GROUP;
                self.groups[group] = sum(&self.phi[group * GROUP..(group + 1) * GROUP]);
            }
        }
        self.word = Some(word);
    }

    /// Sets `phi` of a topic, and keeps its group's sum.
    #[inline(always)]
    fn set(&mut self, k: usize, phi: f32) {
        let by = phi - self.phi[k];
        self.phi[k] = phi;
        self.groups[k / GROUP] += by;
    }

    /// Draws a token's topic anew, given its old one and a number in [0, 1), and moves the token in both rows and in the
    /// totals.
    #[inline]
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
        // Rows that don't have the token (as in a virtual iteration, which may see another document's) stay as they are.
        if k >= self.prior.topics {
            return old;
        }
        let Some(from) = document.take(old) else { return old };
        let Prior { beta, alpha, .. } = self.prior;
        let (old_phi, old_group) = (self.phi[k], self.groups[k / GROUP]);
        let old_inverse = 1.0 / ((totals.of(k) - 1) as f32 + self.beta_sum);
        self.set(k, (self.count[k] - 1.0 + beta) * old_inverse);

        let of_document = self.weigh(document.entries());
        let of_all = alpha * sum(&self.groups);
        let drawn = random * (of_document + of_all);
        let (new, place) = if drawn < of_document {
            let place = self.pick(drawn, document.entries().len());
            (document.entries()[place] as u16, Some(place))
        } else {
            (self.pick_of_all((drawn - of_document) / alpha), None)
        };

        if new == old {
            document.give_back(from);
            (self.phi[k], self.groups[k / GROUP]) = (old_phi, old_group);
            return old;
        }
        match place {
            Some(place) => document.move_to(place, from),
            None => document.move_to_topic(new, from),
        }
        totals.add(k, -1);
        self.inverse[k] = old_inverse;
        self.take_from_word(row, old);
        let k = usize::from(new);
        totals.add(k, 1);
        self.inverse[k] = 1.0 / (totals.of(k) as f32 + self.beta_sum);
        self.give_to_word(row, new);
        self.set(k, (self.count[k] + beta) * self.inverse[k]);
        new
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

    /// n_dk phi_k for each entry of a document's row, and their sum.
    #[inline(always)]
    fn weigh(&mut self, entries: &[u32]) -> f32 {
        let padded = entries.len().next_multiple_of(LANES);
        if self.products.len() < padded {
            self.products.resize(padded, 0.0);
        }
        let mut sums = [0.0f32; LANES];
        let chunks = entries.chunks_exact(LANES);
        let rest = chunks.remainder();
        let (whole, last) = self.products[..padded].split_at_mut(entries.len() - rest.len());
        for (chunk, products) in chunks.zip(whole.chunks_exact_mut(LANES)) {
            for lane in 0..LANES {
                let product = (chunk[lane] >> 16) as f32 * self.phi[usize::from(chunk[lane] as u16)];
                products[lane] = product;
                sums[lane] += product;
            }
        }
        for (lane, product) in last.iter_mut().enumerate() {
            *product = match rest.get(lane) {
                Some(&entry) => (entry >> 16) as f32 * self.phi[usize::from(entry as u16)],
                None => 0.0,
            };
            sums[lane] += *product;
        }
        fold(sums)
    }

    /// Which of the document's `n` entries a number below their sum falls on.
    #[inline(always)]
    fn pick(&self, mut left: f32, n: usize) -> usize {
        let mut chosen = 0;
        for (c, chunk) in self.products[..n.next_multiple_of(LANES)].chunks_exact(LANES).enumerate() {
            let of_chunk = sum(chunk);
            if left >= of_chunk {
                left -= of_chunk;
                continue;
            }
            for (lane, &product) in chunk.iter().enumerate() {
                if product > 0.0 {
                    chosen = 16 * c + lane;
                    if left < product {
                        return chosen;
                    }
                    left -= product;
                }
            }
            return chosen;
        }
        // Rounding can leave a little more than all there is: the last that has any.
        (0..n).rev().find(|&k| self.products[k] > 0.0).unwrap_or(0)
    }

    /// Which topic a number below the sum of `phi` falls on.
    #[inline(always)]
    fn pick_of_all(&self, mut left: f32) -> u16 {
        let last = self.prior.topics - 1;
        for (g, &group) in self.groups[..=last / GROUP].iter().enumerate() {
            if left >= group && g < last / GROUP {
                left -= group;
                continue;
            }
            for k in g * GROUP..((g + 1) * GROUP).min(last) {
                if left < self.phi[k] {
                    return k as u16;
                }
                left -= self.phi[k];
            }
            return ((g + 1) * GROUP - 1).min(last) as u16;
        }
        last as u16
    }
}

/// The sum of a whole number of lanes.
#[inline(always)]
fn sum(values: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    for chunk in values.chunks_exact(LANES) {
        for lane in 0..LANES {
            sums[lane] += chunk[lane];
        }
    }
    fold(sums)
}

#[inline(always)]
fn fold(lanes: [f32; LANES]) -> f32 {
    let eight: [f32; 8] = std::array::from_fn(|k| lanes[k] + lanes[k + 8]);
    let four: [f32; 4] = std::array::from_fn(|k| eight[k] + eight[k + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}
