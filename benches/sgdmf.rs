//! Matrix factorisation by SGD, written once as a loop that stradsap makes parallel, beside the ways to write it by
//! hand. `cargo bench --bench sgdmf -- --help` lists the options.
//!
//! The method: every contestant trains the same factors from the same initial values with the same step.
//! 1. *Prepare*: stradsap's first call, which records and plans, is timed on fresh data, some times over.
//! 2. *Time*: after one epoch to warm up, the contestants alternate (A B C, A B C, ...); the table shows medians over
//!    the rounds.
//! 3. *Quality*: each contestant trains once more from the initial values; the table shows its error on the ratings
//!    held back.
//!
//! It reports and never judges: a slow run is not a failure.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use stradsap_benches::data::RatingSet;
use stradsap_benches::generate::{Shape, generate};
use stradsap_benches::harness::{Samples, alternate, benchmarking, exit_code};
use stradsap_benches::peers::blocked::{Blocked, Grid};
use stradsap_benches::peers::copies::Copies;
use stradsap_benches::peers::hogwild::Hogwild;
use stradsap_benches::peers::locked::Locked;
use stradsap_benches::peers::ours::{Ours, Rows};
use stradsap_benches::peers::sequential::Sequential;
use stradsap_benches::peers::{COPIES, Contestant, Preparation, STRADSAP};
use stradsap_benches::report::{Comparison, HEADING, Measured, Quality};
use stradsap_benches::table::{Table, create};

/// Matrix factorisation by SGD: stradsap beside a plain loop, a blocked one, Hogwild and locks.
#[derive(Parser)]
#[command(name = "sgdmf")]
struct Options {
    /// Sets of ratings [default: all but hot]
    #[arg(long = "set", value_name = "NAME")]
    sets: Vec<Set>,
    /// The ratings of MovieLens 1M (ratings.dat, or as CSV or TSV)
    #[arg(long, value_name = "FILE", env = "STRADSAP_ML1M")]
    ml_1m: Option<PathBuf>,
    /// Rank of the factors: 16, 32, 40, 64, 100, 128 or 300 [default: by set]
    #[arg(long, value_name = "K", value_parser = rank)]
    rank: Vec<usize>,
    /// Threads of the parallel contestants
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
    threads: u32,
    /// Rounds of turns [default: 7, quick: 2]
    #[arg(long, value_name = "N", value_parser = at_least_1())]
    rounds: Option<u32>,
    /// Epochs in a turn [default: enough for 4 M ratings]
    #[arg(long, value_name = "N", value_parser = at_least_1())]
    epochs: Option<u32>,
    /// Parts a side of the loop blocked by hand [default: by set, the best of 2, 4, 8, 16 and 32]
    #[arg(long, value_name = "N", value_parser = at_least_1())]
    blocks: Option<u32>,
    /// Shuffle the ratings of files, which come ordered by user
    #[arg(long)]
    shuffle: bool,
    /// Only contestants whose name contains this, and the twin
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Smaller generated sets, the lowest rank, few rounds
    #[arg(long)]
    quick: bool,
    /// Leave out the training for quality
    #[arg(long)]
    no_quality: bool,
    /// Write the table to this file as well
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn at_least_1() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

fn rank(text: &str) -> Result<usize, String> {
    let rank = text.parse().ok().filter(|rank| RANKS.contains(rank));
    rank.ok_or_else(|| "expected 16, 32, 40, 64, 100, 128 or 300".to_owned())
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Set {
    /// 420 k ratings of anime by 4.7 k viewers, from the repository
    Anime,
    /// MovieLens 1M, where --ml-1m says
    #[value(name = "ml-1m")]
    Ml1m,
    /// Generated: 10 M ratings, 100 k users, 20 k items, as skewed as MovieLens
    Skewed,
    /// Generated: the same with 7 % of the ratings on one item
    Hot,
}

const RANKS: [usize; 7] = [16, 32, 40, 64, 100, 128, 300];
const QUALITY_EPOCHS: usize = 20;
const RATINGS_PER_TURN: usize = 4_000_000;

fn main() -> ExitCode {
    let mut options = Options::parse();
    options.quick |= !benchmarking();
    exit_code(run(options))
}

fn run(mut options: Options) -> Result<()> {
    let csv = options.csv.as_deref().map(create).transpose()?;
    if options.sets.is_empty() {
        options.sets = vec![Set::Anime, Set::Ml1m, Set::Skewed];
    }
    let cores = available_parallelism().map_or(1, usize::from);
    println!("{cores} cores, {} rounds, contestants in alternation, medians", options.rounds());

    let mut table = Table::new(&HEADING);
    let mut answers = Vec::new();
    for &set in &options.sets {
        let Some(ratings) = set.load(&options)? else {
            println!("ml-1m left out: --ml-1m FILE or STRADSAP_ML1M says where its ratings are");
            continue;
        };
        let (train, test) = (ratings.train.len(), ratings.test.len());
        println!("\n{}: {} users, {} items, {train} + {test} ratings", ratings.name, ratings.users, ratings.items);
        let blocks = set.blocks(&options);
        for rank in set.ranks(&options) {
            let comparison = match rank {
                16 => compare::<16>(&ratings, blocks, &options)?,
                32 => compare::<32>(&ratings, blocks, &options)?,
                40 => compare::<40>(&ratings, blocks, &options)?,
                64 => compare::<64>(&ratings, blocks, &options)?,
                100 => compare::<100>(&ratings, blocks, &options)?,
                300 => compare::<300>(&ratings, blocks, &options)?,
                128 => compare::<128>(&ratings, blocks, &options)?,
                _ => unreachable!("rank {rank} isn't one of RANKS"),
            };
            println!("{}", comparison.table());
            table.append(comparison.table());
            answers.extend(comparison.answers(set.twin_bar(&options), QUALITY_EPOCHS));
        }
    }
    println!("{}", answers.join("\n"));
    if let Some(csv) = csv {
        table.write_csv(csv)?;
    }
    Ok(())
}

impl Set {
    /// The ratings; none for MovieLens when nobody says where it is.
    fn load(self, options: &Options) -> Result<Option<RatingSet>> {
        let sized = |shape: Shape| if options.quick { shape.small() } else { shape };
        Ok(Some(match self {
            Self::Anime => RatingSet::read("anime", &stradsap_examples::data::default_ratings()?, options.shuffle)?,
            Self::Ml1m => match &options.ml_1m {
                Some(path) => RatingSet::read("ml-1m", path, options.shuffle)?,
                None => return Ok(None),
            },
            Self::Skewed => generate("skewed", sized(Shape::skewed())),
            Self::Hot => generate("hot", sized(Shape::hot())),
        }))
    }

    /// Parts a side with which the loop blocked by hand is fastest.
    fn blocks(self, options: &Options) -> usize {
        let best = if matches!(self, Self::Skewed | Self::Hot) && !options.quick { 16 } else { 8 };
        options.blocks.map_or(best, |n| n as usize)
    }

    fn ranks(self, options: &Options) -> Vec<usize> {
        let ranks: &[usize] = match self {
            Self::Anime => &[32],
            Self::Ml1m => &[32, 128],
            Self::Skewed | Self::Hot => &[64],
        };
        match (options.rank.is_empty(), options.quick) {
            (false, _) => options.rank.clone(),
            (true, true) => ranks[..1].to_vec(),
            (true, false) => ranks.to_vec(),
        }
    }

    /// How many times as fast as the twin stradsap should be on one thread: blocks pay where the factors outgrow
    /// the cache.
    fn twin_bar(self, options: &Options) -> f64 {
        if matches!(self, Self::Skewed | Self::Hot) && !options.quick { 2.5 } else { 0.97 }
    }
}

impl Options {
    fn rounds(&self) -> usize {
        self.rounds.map_or(if self.quick { 2 } else { 7 }, |n| n as usize)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|text| name.contains(text))
    }
}

type LineUp<'a, const K: usize> = Vec<Box<dyn Contestant<K> + 'a>>;

/// All contestants, at the initial factors.
fn line_up<'a, const K: usize>(set: &'a RatingSet, blocks: usize, options: &Options) -> Result<LineUp<'a, K>> {
    let threads = options.threads as usize;
    let grid = Arc::new(Grid::new(set, blocks));
    let mut line_up: LineUp<'a, K> = vec![
        Box::new(Sequential::new(set)),
        Box::new(Copies::new(set, threads)),
        Box::new(Blocked::new(set, Arc::clone(&grid), 1)),
        Box::new(Blocked::new(set, grid, threads)),
        Box::new(Hogwild::new(set, threads)),
        Box::new(Locked::new(set, threads)?),
        Box::new(Ours::new(set, 1)?),
        Box::new(Ours::new(set, threads)?),
        Box::new(Rows::new(set, 1, K)?),
        Box::new(Rows::new(set, threads, K)?),
    ];
    let mut n = 0;
    line_up.retain(|contestant| {
        n += 1;
        n == 1 || options.wants(contestant.name())
    });
    Ok(line_up)
}

fn compare<'a, const K: usize>(set: &'a RatingSet, blocks: usize, options: &Options) -> Result<Comparison<'a>> {
    let rounds = options.rounds();
    let epochs = options.epochs.map_or(RATINGS_PER_TURN / set.train.len(), |n| n as usize).max(1);

    let preparations = prepare::<K>(set, options, rounds.min(3))?;

    let mut contestants = line_up::<K>(set, blocks, options)?;
    for contestant in &mut contestants {
        contestant.epoch()?;
    }
    let samples = alternate(&mut contestants, rounds, |contestant| {
        for _ in 0..epochs {
            contestant.epoch()?;
        }
        Ok(())
    })?;
    let mut measured: Vec<Measured> = contestants
        .iter()
        .zip(samples)
        .map(|(contestant, turns)| Measured {
            name: contestant.name(),
            threads: contestant.threads(),
            passes: contestant.passes(),
            epoch: turns.per(epochs),
            preparation: (contestant.name() == STRADSAP)
                .then(|| preparations.get(&contestant.threads()).copied())
                .flatten(),
            plans: contestant.plans(),
            quality: None,
        })
        .collect();
    drop(contestants);

    if !options.no_quality {
        let fresh = line_up::<K>(set, blocks, options)?;
        for (mut contestant, measured) in fresh.into_iter().zip(&mut measured) {
            if contestant.name() != COPIES {
                measured.quality = Some(train_and_test(&mut *contestant, set)?);
            }
        }
    }
    Ok(Comparison { set, rank: K, measured })
}

/// What stradsap's first call costs, by threads: medians of some first calls on fresh data.
fn prepare<const K: usize>(set: &RatingSet, options: &Options, calls: usize) -> Result<BTreeMap<usize, Preparation>> {
    if !options.wants(STRADSAP) {
        return Ok(BTreeMap::new());
    }
    let threads = [1, options.threads as usize];
    let mut first_calls = [Vec::new(), Vec::new()];
    for _ in 0..calls {
        for (threads, first_calls) in threads.iter().zip(&mut first_calls) {
            let mut ours = Ours::<K>::new(set, *threads)?;
            ours.epoch()?;
            first_calls.extend(ours.preparation());
        }
    }
    let median =
        |calls: &[Preparation], part: fn(&Preparation) -> f64| Samples::new(calls.iter().map(part).collect()).median();
    let medians = |calls: &[Preparation]| Preparation {
        recording: median(calls, |p| p.recording),
        planning: median(calls, |p| p.planning),
        first_call: median(calls, |p| p.first_call),
    };
    Ok(threads.into_iter().zip(first_calls.iter().map(|calls| medians(calls))).collect())
}

fn train_and_test<const K: usize>(contestant: &mut dyn Contestant<K>, set: &RatingSet) -> Result<Quality> {
    for _ in 0..QUALITY_EPOCHS {
        contestant.epoch()?;
    }
    let factors = contestant.factors()?;
    Ok(Quality { rmse: factors.rmse(&set.test), fingerprint: factors.fingerprint() })
}
