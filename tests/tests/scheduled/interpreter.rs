//! What a program must come to, by the guide's own words: the updates of round `t` see exactly the changes of rounds up to
//! `t - depth`, and so does its schedule.

use stradsap::prelude::*;

use super::program::{AtRandom, Job, Keeps, Mixing};

/// Everything after some rounds have been applied.
#[derive(Clone)]
struct Moment<L> {
    locals: Vec<L>,
    model: Vec<u64>,
}

pub(crate) struct Outcome<L> {
    pub(crate) locals: Vec<L>,
    pub(crate) model: Vec<u64>,
    pub(crate) schedule: AtRandom,
    pub(crate) rounds: usize,
    pub(crate) jobs: u64,
    pub(crate) updates: u64,
    /// By how many rounds the updates were behind, one by one.
    pub(crate) behind: Vec<usize>,
}

fn numbers(shards: Shards, n: usize) -> Vec<usize> {
    match shards {
        Shards::All => (0..n).collect(),
        Shards::One(shard) => vec![shard],
        Shards::None => Vec::new(),
    }
}

/// Runs rounds one after the other, keeping what there was after each. `stop_after`: the round, counted from 1, after
/// whose aggregation nothing more is begun.
pub(crate) fn interpret<L: Keeps>(
    program: &Mixing<L>,
    mut schedule: AtRandom,
    depth: usize,
    rounds: usize,
    stop_after: Option<usize>,
) -> Outcome<L> {
    let n = program.shards;
    let data: Vec<_> = (0..n).map(super::program::shard).collect();
    // `moments[k]`: after the first `k` rounds.
    let mut moments = vec![Moment { locals: (0..n).map(L::first).collect(), model: vec![5, 6, 7] }];
    let mut begun: Vec<Vec<Job>> = Vec::new();
    let (mut jobs_in_all, mut behind) = (0, Vec::new());
    schedule.begin(depth);
    // What stops after round `k` has begun the `depth - 1` rounds behind it.
    let rounds = stop_after.map_or(rounds, |k| rounds.min(k + depth - 1));
    for t in 0..rounds + depth {
        if let Some(settled) = t.checked_sub(depth).filter(|&settled| settled < rounds) {
            let seen = &moments[(settled + 1).saturating_sub(depth)].locals;
            let Moment { mut locals, mut model } = moments[settled].clone();
            for job in &begun[settled] {
                let mut partials = Vec::new();
                for p in numbers(program.updated_on(job), n) {
                    partials.push(Some(program.update(job, &data[p], &seen[p])));
                    behind.push(settled.min(depth - 1));
                }
                let change = program.aggregate(job, Partials::from(&mut partials[..]), &mut model);
                schedule.observe(job, &change);
                numbers(program.applied_to(job), n).iter().for_each(|&p| {
                    program.apply(job, &change, &data[p], &mut locals[p]);
                });
            }
            moments.push(Moment { locals, model });
        }
        if t < rounds {
            let mut jobs = Vec::new();
            schedule.schedule(t, &moments[(t + 1).saturating_sub(depth)].model, &mut jobs);
            jobs_in_all += jobs.len() as u64;
            begun.push(jobs);
        }
    }
    let Moment { locals, model } = moments.pop().unwrap();
    Outcome { locals, model, schedule, rounds, jobs: jobs_in_all, updates: behind.len() as u64, behind }
}
