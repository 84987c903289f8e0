//! Matrix factorisation by cyclic coordinate descent, in parallel: a program with a schedule of its own. What is scheduled,
//! how it is updated and how updates are united are three functions (`ccdmf_sequential` is the program without the
//! library).

use std::num::NonZeroUsize;
use std::time::Instant;

use clap::Parser;
use serde::{Deserialize, Serialize};
use stradsap::prelude::*;
use stradsap::{Partials, Program, Schedule, Shards, scheduled};
use stradsap_examples::ids;
use stradsap_examples::model::DataSize;
use stradsap_examples::numbers::nonzero;
use stradsap_examples::ratings::{Ratings, Split};
use stradsap_examples::{AnyError, CommonArgs, Training, cli};
use stradsap_gallery::ccd::{ByUser, CcdArgs, Factors, Order, Pull, SquaredError, best};

/// Factorises a matrix of ratings by cyclic coordinate descent, in parallel.
///
/// A rating of item i by user u is predicted as the inner product of row u of W and row i of H. The objective in the report is
/// taken after each epoch: the sum of the squared errors over the training ratings, plus L times the sum of all values' squared
/// distances from the centre. Its time and that of the errors aren't part of the epoch's seconds. W starts from the centre, H near
/// it.
///
/// The ratings are lines of user, item and rating, separated by commas, tabs or `::`. A header may name these columns (userId,
/// movie, score and others). They may then be in any order, and other columns aren't read. Ids are any text.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    factors: CcdArgs,

    /// Parts of the users, with their ratings [default: one for every 50,000 ratings, up to 64]
    #[arg(long, value_name = "U", value_parser = nonzero::<NonZeroUsize>)]
    shards: Option<NonZeroUsize>,

    #[command(flatten)]
    common: CommonArgs,
}

/// Ratings of a shard, and shards at the most, where the command line doesn't say how many there are.
const RATINGS: usize = 50_000;
const MOST_SHARDS: usize = 64;

/// Some users and their ratings.
#[derive(Debug, Clone, Element)]
struct Ranked {
    /// Where each user's ratings end.
    ends: Vec<u32>,
    /// The item of each rating.
    items: Vec<u32>,
}

/// What a shard keeps.
#[derive(Debug, Clone, Element)]
struct State {
    /// What the factors leave of each rating.
    left: Vec<f32>,
    /// The users' part of W, by feature.
    w: Vec<f32>,
}

/// The constants.
#[derive(Debug, Serialize, Deserialize)]
struct Ccd {
    items: usize,
    pull: Pull,
    /// The first user of each shard.
    firsts: Vec<usize>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Job {
    /// Feature `k` of a shard's users, and of all items.
    Users { shard: usize, k: usize, h: Vec<f32> },
    /// Feature `k` of all items.
    Items { k: usize },
}

#[derive(Debug, Serialize, Deserialize)]
enum Partial {
    /// The users' new values.
    Users(Vec<f32>),
    /// For each item the sums of what is left of its ratings times the users' values, and of the squares of those.
    Items(Vec<[f64; 2]>),
}

impl Partial {
    fn users(self) -> Option<Vec<f32>> {
        if let Partial::Users(new) = self { Some(new) } else { None }
    }

    fn items(self) -> Option<Vec<[f64; 2]>> {
        if let Partial::Items(sums) = self { Some(sums) } else { None }
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Change {
    /// The users' new values.
    Users(Vec<f32>),
    /// By how much the items' values have changed.
    Items(Vec<f32>),
}

impl Ranked {
    /// The items of each user, and where their ratings stand.
    fn users(&self) -> impl Iterator<Item = (&[u32], std::ops::Range<usize>)> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let range = start..end as usize;
            start = range.end;
            (&self.items[range.clone()], range)
        })
    }
}

impl State {
    fn feature(&self, k: usize, users: usize) -> &[f32] {
        &self.w[k * users..(k + 1) * users]
    }
}

impl Program for Ccd {
    type Shard = Ranked;
    type Local = State;
    type Model = Factors;
    type Job = Job;
    type Partial = Partial;
    type Change = Change;

    fn update(&self, job: &Job, shard: &Ranked, state: &State) -> Partial {
        match job {
            Job::Users { k, h, .. } => {
                let w = state.feature(*k, shard.ends.len());
                let new = shard.users().zip(w).map(|((items, range), &w)| {
                    let (mut products, mut squares) = (0.0, 0.0);
                    for (&item, &r) in items.iter().zip(&state.left[range]) {
                        let h = f64::from(h[item as usize]);
                        products += f64::from(r) * h;
                        squares += h * h;
                    }
                    best(w, products, squares, self.pull.lambda, self.pull.users)
                });
                Partial::Users(new.collect())
            }
            Job::Items { k } => {
                let w = state.feature(*k, shard.ends.len());
                let mut sums = vec![[0.0; 2]; self.items];
                for ((items, range), &w) in shard.users().zip(w) {
                    let w = f64::from(w);
                    for (&item, &r) in items.iter().zip(&state.left[range]) {
                        let [products, squares] = &mut sums[item as usize];
                        *products += f64::from(r) * w;
                        *squares += w * w;
                    }
                }
                Partial::Items(sums)
            }
        }
    }

    fn aggregate(&self, job: &Job, partials: Partials<'_, Partial>, factors: &mut Factors) -> Change {
        match job {
            Job::Users { shard, k, .. } => {
                let new = partials.flat_map(|partial| partial.users().unwrap_or_default()).collect::<Vec<_>>();
                let first = k * factors.users + self.firsts[*shard];
                factors.w[first..first + new.len()].copy_from_slice(&new);
                Change::Users(new)
            }
            Job::Items { k } => {
                let mut sums = vec![[0.0; 2]; self.items];
                for part in partials.filter_map(Partial::items) {
                    sums.iter_mut().zip(part).for_each(|(sum, part)| *sum = [sum[0] + part[0], sum[1] + part[1]]);
                }
                let h = &mut factors.h[k * self.items..(k + 1) * self.items];
                let changes = h.iter_mut().zip(sums).map(|(h, [products, squares])| {
                    let old = std::mem::replace(h, best(*h, products, squares, self.pull.lambda, self.pull.items));
                    *h - old
                });
                Change::Items(changes.collect())
            }
        }
    }

    fn apply(&self, job: &Job, change: &Change, shard: &Ranked, state: &mut State) {
        let users = shard.ends.len();
        let State { left, w } = state;
        match (job, change) {
            (Job::Users { k, h, .. }, Change::Users(new)) => {
                let w = &mut w[k * users..(k + 1) * users];
                for (((items, range), w), &new) in shard.users().zip(w).zip(new) {
                    let change = new - *w;
                    *w = new;
                    items.iter().zip(&mut left[range]).for_each(|(&item, r)| *r -= change * h[item as usize]);
                }
            }
            (Job::Items { k }, Change::Items(changes)) => {
                for ((items, range), &w) in shard.users().zip(&w[k * users..]) {
                    items.iter().zip(&mut left[range]).for_each(|(&item, r)| *r -= w * changes[item as usize]);
                }
            }
            // A change is of its job's kind.
            (Job::Users { .. }, Change::Items(_)) | (Job::Items { .. }, Change::Users(_)) => {}
        }
    }

    fn updated_on(&self, job: &Job) -> Shards {
        match job {
            Job::Users { shard, .. } => Shards::One(*shard),
            Job::Items { .. } => Shards::All,
        }
    }

    fn applied_to(&self, job: &Job) -> Shards {
        self.updated_on(job)
    }

    fn weight(&self, _: &Job, shard: &Ranked) -> u64 {
        shard.items.len() as u64
    }
}

/// Round robin: a feature of all users' shards, side by side since each has its own rows, or of all items. A call is an
/// epoch.
#[derive(Debug, Clone, Copy)]
struct RoundRobin {
    order: Order,
    shards: usize,
}

impl Schedule<Factors, Job, Change> for RoundRobin {
    fn schedule(&mut self, round: usize, factors: &Factors, jobs: &mut Vec<Job>) {
        let (users, k) = match self.order {
            Order::Matrix => (round < factors.rank, round % factors.rank),
            Order::Feature => (round.is_multiple_of(2), round / 2),
        };
        if users {
            let h = &factors.h[k * factors.items..(k + 1) * factors.items];
            jobs.extend((0..self.shards).map(|shard| Job::Users { shard, k, h: h.to_vec() }));
        } else {
            jobs.push(Job::Items { k });
        }
    }
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let args: Args = cli::parse();
    let run = Training::start("ccdmf", session, &args.common)?;
    let path = args.common.data_or_default()?;
    let (ratings, split) = args.factors.prepare(ids::read(session, &path)?, &path, args.common.seed)?;
    train(session, &args, run, &ratings, &split)
}

fn train(
    session: &Session,
    args: &Args,
    mut run: Training<'_, SquaredError>,
    ratings: &Ratings,
    split: &Split,
) -> Result<(), AnyError> {
    let size = DataSize::of(ratings, split);
    let rank = args.factors.rank.get();
    let by_user = ByUser::new(&split.train, size.users);
    let parts = args.shards.map_or(size.train.div_ceil(RATINGS).clamp(1, MOST_SHARDS), usize::from);
    let mut factors = Factors::new(&args.factors, &size, &split.train, args.common.seed);
    let (shards, states, firsts) = cut(&by_user, parts, &factors);
    let threads = session.threads();
    run.line(&format!("{size}, rank {rank}, {} shards, threads {threads}", shards.len()));

    let mut schedule = RoundRobin { order: args.factors.order, shards: shards.len() };
    let program = Ccd { items: size.items, pull: factors.pull, firsts };
    let settings = format!("{}, {} shards", args.factors.settings(args.common.seed, &size), shards.len());
    run.resume(settings)?;
    let shards = DVector::from_vec(session, shards)?;
    let mut states = run.vector("states", || DVector::from_vec(session, states))?;
    if let Some(checkpoint) = run.resumed() {
        factors.w = checkpoint.vector(session, "w")?.to_vec()?;
        factors.h = checkpoint.vector(session, "h")?.to_vec()?;
    }

    for _epoch in run.done()..args.common.epochs {
        let clock = Instant::now();
        // Nothing is stale: each round reads what the one before has changed.
        let pass = scheduled(session, &program).pipeline(1).label("epoch");
        let pass = pass.run(&mut schedule, &mut factors, &shards, &mut states, 2 * rank)?;
        let seconds = clock.elapsed().as_secs_f64();

        let squares = session.sum(0.0f64);
        let scoring = async_parallel_for!(0..states.len(), [&states, &squares], |n| {
            squares.add(states[n].left.iter().map(|&r| f64::from(r) * f64::from(r)).sum());
        })?;
        let errors = SquaredError::of(&size, &factors, squares.get(), &split.test);
        run.epoch(seconds, pass.bytes_sent(), errors)?;
        if run.save_due() {
            let w = DVector::from_vec(session, factors.w.clone())?;
            let h = DVector::from_vec(session, factors.h.clone())?;
            run.save(&[("states", &states), ("w", &w), ("h", &h)])?;
        }
        run.record(&[&scoring])?;
        run.record_scheduled([&pass]);
    }

    if let Some(folder) = &args.common.output {
        factors.store(folder, ratings)?;
    }
    run.finish(size, &factors.digest())
}

/// The users in ranges of about as many ratings each: what each shard has, what it keeps, and its first user.
fn cut(ratings: &ByUser, parts: usize, factors: &Factors) -> (Vec<Ranked>, Vec<State>, Vec<usize>) {
    let left = factors.left(ratings);
    let (mut shards, mut states, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
    let mut first = 0;
    for end in ratings.cut(parts) {
        let range = ratings.of(first).start..ratings.of(end - 1).end;
        let ends = ratings.ends[first..end].iter().map(|&end| (end - range.start) as u32).collect();
        shards.push(Ranked { ends, items: ratings.items[range.clone()].to_vec() });
        states.push(State { left: left[range].to_vec(), w: vec![factors.pull.users; factors.rank * (end - first)] });
        firsts.push(first);
        first = end;
    }
    (shards, states, firsts)
}
