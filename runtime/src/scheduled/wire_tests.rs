use serde::{Deserialize, Serialize};

use super::*;
use crate::Partials;
use crate::body::panics;
use crate::session::pool::Pool;

/// Jobs with strings, so that lengths travel; the first letter says for whom they are.
#[derive(Serialize, Deserialize)]
struct Letters;

impl Program for Letters {
    type Shard = u8;
    type Local = Vec<String>;
    type Model = ();
    type Job = String;
    type Partial = Vec<u16>;
    type Change = (String, u64);

    fn update(&self, job: &String, shard: &u8, local: &Vec<String>) -> Vec<u16> {
        vec![u16::from(*shard) + local.len() as u16; job.len()]
    }
    fn aggregate(&self, _: &String, _: Partials<'_, Vec<u16>>, (): &mut ()) -> (String, u64) {
        (String::new(), 0)
    }
    fn apply(&self, job: &String, change: &(String, u64), _: &u8, local: &mut Vec<String>) {
        local.push(format!("{job}{}{}", change.0, change.1));
    }
    fn updated_on(&self, job: &String) -> Shards {
        match job.bytes().next() {
            Some(digit @ b'0'..=b'9') => Shards::One(usize::from(digit - b'0')),
            Some(b'-') => Shards::None,
            _ => Shards::All,
        }
    }
    fn applied_to(&self, job: &String) -> Shards {
        self.updated_on(&job.chars().skip(1).collect())
    }
}

const SHARDS: usize = 5;

fn round(number: usize, jobs: &[&str]) -> Round<Letters> {
    let mut round = Round::new();
    round.number = number;
    round.jobs = jobs.iter().map(ToString::to_string).collect();
    round.changes = jobs.iter().enumerate().map(|(k, job)| (job.to_uppercase(), k as u64)).collect();
    round
}

/// A worker that has some of the shards.
struct Desk {
    own: Range<usize>,
    shards: Vec<u8>,
    locals: Vec<Vec<String>>,
    pool: Pool,
}

impl Desk {
    fn new(own: Range<usize>) -> Desk {
        let shards = own.clone().map(|shard| shard as u8).collect();
        Desk { locals: vec![Vec::new(); own.len()], shards, own, pool: Pool::one() }
    }

    /// What messages come to, up to the first that is refused.
    fn take(&mut self, messages: &[Vec<u8>], replay: bool) -> Result<Vec<Option<RoundAnswer>>, String> {
        let scope = if replay { 0..SHARDS } else { self.own.clone() };
        let mut here = LocalShards::new(&Letters, &self.shards, &mut self.locals, self.own.start, SHARDS, &self.pool);
        let mut reader = Reader::new(scope, self.own.clone(), SHARDS);
        panics::quietly(|| messages.iter().map(|message| reader.take(&Letters, &mut here, message, !replay)).collect())
    }
}

fn jobs() -> [Round<Letters>; 3] {
    [round(0, &["x", "3y", "-2", "44", "-"]), round(1, &[]), round(2, &["zz", "0", "1-"])]
}

/// The messages of a pipeline of depth 2 to the process that has a range.
fn messages(range: &Range<usize>) -> Vec<Vec<u8>> {
    let rounds = jobs();
    let mut writer = Writer::default();
    let steps = [(None, Some(0)), (None, Some(1)), (Some(0), Some(2)), (Some(1), None), (Some(2), None)];
    let message = |(settled, fresh): (Option<usize>, Option<usize>)| {
        let of = |k: usize| &rounds[k];
        writer.begin(&Letters, settled.map(of), fresh.map(of)).unwrap();
        writer.message(range)
    };
    steps.into_iter().map(message).collect()
}

/// What each shard must have received.
fn expected(range: Range<usize>) -> Vec<Vec<String>> {
    let told = |shard: usize| {
        let mut told = Vec::new();
        for round in jobs() {
            for (job, change) in round.jobs.iter().zip(&round.changes) {
                if Letters.applied_to(job).range(SHARDS).unwrap().contains(&shard) {
                    told.push(format!("{job}{}{}", change.0, change.1));
                }
            }
        }
        told
    };
    range.map(told).collect()
}

#[test]
fn each_is_told_what_concerns_it() {
    for own in [0..5, 0..2, 2..3, 3..5] {
        let mut desk = Desk::new(own.clone());
        let gave = desk.take(&messages(&own), false).unwrap();
        assert_eq!(gave.iter().flatten().map(|(round, _)| *round).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(desk.locals, expected(own.clone()));
        // A shard that receives everything again comes to the same.
        let mut again = Desk::new(own.clone());
        assert!(again.take(&messages(&(0..SHARDS)), true).unwrap().iter().all(Option::is_none));
        assert_eq!(again.locals, desk.locals);
    }
    assert!(messages(&(2..3))[0].len() < messages(&(0..5))[0].len());
}

#[test]
fn what_workers_give_comes_in_the_order_of_jobs_and_shards() {
    let ranges = [0..2, 2..3, 3..5];
    let given: Vec<Vec<u8>> = ranges
        .iter()
        .map(|own| match Desk::new(own.clone()).take(&messages(own)[..1], false).unwrap().remove(0) {
            Some((0, Ok(bytes))) => bytes,
            other => panic!("{other:?}"),
        })
        .collect();
    let unite_all = |given: &[Vec<u8>]| {
        let [mut round, ..] = jobs();
        let mut answers: Vec<(&[u8], Range<usize>)> =
            given.iter().map(Vec::as_slice).zip(ranges.iter().cloned()).collect();
        unite(&Letters, &mut round, SHARDS, &mut answers).map(|()| round.slots)
    };
    let slots: Vec<Vec<u16>> = unite_all(&given).unwrap().into_iter().flatten().collect();
    let mut expected: Vec<Vec<u16>> = (0..5).map(|shard| vec![shard]).collect();
    expected.extend([vec![3; 2], vec![4; 2]]);
    assert_eq!(slots, expected);
    // Too few bytes, too many, and others.
    for w in 0..3 {
        let mut short = given.clone();
        short[w].pop();
        assert_eq!(unite_all(&short).unwrap_err().0, w);
        let mut long = given.clone();
        long[w].push(0);
        assert_eq!(unite_all(&long).unwrap_err().0, w);
        let mut huge = given.clone();
        huge[w][..8].fill(0xff);
        assert_eq!(unite_all(&huge).unwrap_err().0, w);
    }
}

#[test]
fn nothing_is_believed_that_is_no_message() {
    let all = messages(&(0..5));
    let refused = |messages: &[Vec<u8>]| Desk::new(0..5).take(messages, false).unwrap_err();
    for (k, message) in all.iter().enumerate() {
        for end in 0..message.len() {
            let mut cut = all[..=k].to_vec();
            cut[k].truncate(end);
            refused(&cut);
        }
        let mut longer = all[..=k].to_vec();
        longer[k].push(7);
        assert!(refused(&longer).contains("1 bytes are left"));
    }
    assert!(refused(&[vec![CHANGES]]).contains("never begun"));
    assert!(refused(&[vec![9]]).contains("kind 9"));
    // A job for a shard that isn't there.
    let mut writer = Writer::default();
    writer.begin(&Letters, None, Some(&round(0, &["7"]))).unwrap();
    assert!(refused(&[writer.message(&(0..9))]).contains("shard 7 of 5"));
    // As many jobs as can be said, and a string as long: refused by what there is.
    let mut hostile = vec![JOBS];
    hostile.extend([0xff; 12]);
    refused(&[hostile.clone()]);
    hostile.extend([0xff; 12]);
    refused(&[hostile]);
    let mut state = 7u64;
    for _ in 0..20_000 {
        let mut hostile = all.clone();
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let k = (state >> 33) as usize % hostile.len();
            let at = (state >> 40) as usize % hostile[k].len();
            hostile[k][at] ^= (state >> 20) as u8;
        }
        let _whatever = Desk::new(0..5).take(&hostile, false);
    }
}
