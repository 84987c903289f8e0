//! A program in which every bit depends on everything that came before, in its order.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::thread::ThreadId;

use serde::{Deserialize, Serialize};
use stradsap::prelude::*;

use crate::common::{below, mix};

/// The threads of this process that ran updates.
pub(crate) static THREADS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn record_thread(id: ThreadId) {
    THREADS.lock().unwrap().insert(format!("{id:?}"));
}

/// What a shard keeps: plain elements, and others that have no size.
pub(crate) trait Keeps: Element + std::fmt::Debug + PartialEq {
    fn first(shard: usize) -> Self;
    fn look(&self) -> u64;
    fn take(&mut self, word: u64);
}

impl Keeps for [u64; 3] {
    fn first(shard: usize) -> Self {
        [shard as u64, 1, 2]
    }
    fn look(&self) -> u64 {
        self.iter().fold(1, |hash, &word| mix(hash ^ word))
    }
    fn take(&mut self, word: u64) {
        self[(word % 3) as usize] = mix(self.look() ^ word);
    }
}

impl Keeps for Vec<u64> {
    fn first(shard: usize) -> Self {
        vec![7; shard % 3]
    }
    fn look(&self) -> u64 {
        self.iter().fold(2, |hash, &word| mix(hash ^ word))
    }
    fn take(&mut self, word: u64) {
        match word % 4 {
            0 if self.len() > 5 => drop(self.remove((word / 4) as usize % self.len())),
            _ if self.len() < 12 => self.push(word),
            _ => self[(word % 12) as usize] = mix(word),
        }
    }
}

/// Which function of a program is to panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fails {
    pub(crate) function: Function,
    pub(crate) round: usize,
    pub(crate) job: usize,
    pub(crate) shard: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Function {
    Schedule,
    Update,
    Aggregate,
    Apply,
    Observe,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct Mixing<L> {
    pub(crate) salt: u64,
    pub(crate) shards: usize,
    /// Steps that an update takes at most: from thousands on, rounds are shared by threads.
    pub(crate) work: u64,
    /// Whether jobs are for some shards only.
    pub(crate) parts: bool,
    pub(crate) fails: Vec<Fails>,
    pub(crate) local: PhantomData<fn() -> L>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) round: usize,
    pub(crate) number: usize,
    pub(crate) word: u64,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Partial {
    word: u64,
    seen: Vec<u64>,
}

impl<L> Mixing<L> {
    fn fail(&self, function: Function, job: &Job, shard: Option<usize>) {
        let here = |fails: &&Fails| {
            fails.function == function
                && (fails.round, fails.job) == (job.round, job.number)
                && shard.is_none_or(|shard| shard == fails.shard)
        };
        if let Some(fails) = self.fails.iter().find(here) {
            panic!("{fails:?} was to panic");
        }
    }

    pub(crate) fn some(&self, word: u64) -> Shards {
        match below(word, 4) {
            0 | 1 if self.parts => Shards::One(below(word ^ 1, self.shards)),
            2 if self.parts => Shards::None,
            _ => Shards::All,
        }
    }
}

impl<L: Keeps> Program for Mixing<L> {
    type Shard = (usize, Vec<u64>);
    type Local = L;
    type Model = Vec<u64>;
    type Job = Job;
    type Partial = Partial;
    type Change = Vec<u64>;

    fn update(&self, job: &Job, (shard, words): &Self::Shard, local: &L) -> Partial {
        self.fail(Function::Update, job, Some(*shard));
        record_thread(std::thread::current().id());
        let mut word = local.look() ^ job.word ^ self.salt;
        for step in 0..self.work * (1 + job.word % 3) {
            word = mix(word ^ words[step as usize % words.len()]);
        }
        Partial { word, seen: vec![local.look(); (word % 3) as usize] }
    }

    fn aggregate(&self, job: &Job, partials: Partials<'_, Partial>, model: &mut Vec<u64>) -> Vec<u64> {
        self.fail(Function::Aggregate, job, None);
        let n = partials.len();
        assert_eq!(
            n,
            match self.some(job.word) {
                Shards::All => self.shards,
                Shards::One(_) => 1,
                Shards::None => 0,
            }
        );
        let mut hash = mix(job.word ^ model.iter().fold(0, |hash, &word| mix(hash ^ word)));
        for Partial { word, seen } in partials {
            hash = seen.into_iter().fold(mix(hash ^ word), |hash, word| mix(hash ^ word));
        }
        let at = below(hash, model.len());
        model[at] = hash;
        (0..1 + hash % 3).map(|k| hash ^ k).collect()
    }

    fn apply(&self, job: &Job, change: &Vec<u64>, (shard, words): &Self::Shard, local: &mut L) {
        self.fail(Function::Apply, job, Some(*shard));
        for step in 0..self.work {
            std::hint::black_box(mix(step));
        }
        change.iter().for_each(|word| local.take(mix(word ^ job.word ^ words[0])));
    }

    fn updated_on(&self, job: &Job) -> Shards {
        self.some(job.word)
    }

    fn applied_to(&self, job: &Job) -> Shards {
        self.some(job.word ^ 0x5555)
    }

    fn weight(&self, job: &Job, (shard, _): &Self::Shard) -> u64 {
        below(job.word ^ *shard as u64, 1000) as u64
    }
}

/// Jobs that depend on the model and on all that was observed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AtRandom {
    pub(crate) state: u64,
    pub(crate) most: usize,
    pub(crate) fails: Vec<Fails>,
    /// How often each kind of thing happened.
    pub(crate) calls: [usize; 3],
}

impl Schedule<Vec<u64>, Job, Vec<u64>> for AtRandom {
    fn begin(&mut self, pipeline: usize) {
        self.calls[0] += 1;
        self.state = mix(self.state ^ pipeline as u64);
    }

    fn schedule(&mut self, round: usize, model: &Vec<u64>, jobs: &mut Vec<Job>) {
        assert!(jobs.is_empty());
        self.calls[1] += 1;
        self.state = mix(self.state ^ model[round % model.len()]);
        if let Some(fails) = self.fails.iter().find(|f| f.function == Function::Schedule && f.round == round) {
            panic!("{fails:?} was to panic");
        }
        for number in 0..below(self.state, self.most + 1) {
            self.state = mix(self.state);
            let word = self.state;
            jobs.push(Job { round, number, word, bytes: vec![word as u8; below(word, 40)] });
        }
    }

    fn observe(&mut self, job: &Job, change: &Vec<u64>) {
        self.calls[2] += 1;
        let fails = |f: &&Fails| f.function == Function::Observe && (f.round, f.job) == (job.round, job.number);
        if let Some(fails) = self.fails.iter().find(fails) {
            panic!("{fails:?} was to panic");
        }
        self.state = change.iter().fold(mix(self.state ^ job.word), |hash, word| mix(hash ^ word));
    }
}

pub(crate) fn shard(shard: usize) -> (usize, Vec<u64>) {
    (shard, (0..1 + shard as u64 % 4).map(|k| mix(shard as u64 * 10 + k)).collect())
}
