//! PageRank by the power method, in parallel. `pagerank_sequential` is the program without the library.

use std::time::Instant;

use clap::Parser;
use stradsap::prelude::*;
use stradsap_examples::{AnyError, CommonArgs, Training, cli};
use stradsap_gallery::graph::Graph;
use stradsap_gallery::pagerank::{self, Change, DataSize, RankArgs};
use stradsap_gallery::sync::{Sync, SyncArgs, threads};

/// Ranks the pages of a graph by PageRank, with the power method, in parallel.
///
/// The graph is a list of links, one in each line: the page that it is on and the page that it leads to. Without --data the program
/// makes a random graph (R-MAT). The objective in the report is the change: how far the ranks moved in an iteration, summed over
/// all pages. An epoch is an iteration; --epochs is the most there are. The pages of highest rank are printed, and all are stored
/// as `ranks.tsv`: id, tab, rank. A minibatch consists of strips of the graph; each has up to 65,536 pages and links to them. No
/// two strips write the same page, so all policies of --sync give the same ranks.
#[derive(Debug, Parser)]
#[command(
    version,
    mut_arg("epochs", |epochs| epochs.default_value("200").help("Iterations at the most")),
    mut_arg("sync", |sync| sync.default_value("hybrid"))
)]
struct Args {
    #[command(flatten)]
    ranking: RankArgs,
    #[command(flatten)]
    sync: SyncArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Consecutive pages with the links to them.
#[derive(Debug, Clone, Element)]
struct Strip {
    /// The first page.
    start: u32,
    /// How many links are on each page.
    links_out: Vec<u32>,
    /// Where the links to each page end in `links_in`.
    ends: Vec<u32>,
    /// The pages that link to each page.
    links_in: Vec<u32>,
}

/// Strips of a graph, at least: this many that threads can share the work.
const STRIPS: usize = 64;
/// Pages and links of a strip: no fewer than are worth a minibatch, no more than fit the cache beside the shares.
const LEAST: usize = 64;
const MOST: usize = 1 << 16;

impl Strip {
    fn new(graph: &Graph, pages: std::ops::Range<usize>) -> Strip {
        let mut links_in = Vec::new();
        let ends = pages.clone().map(|page| {
            links_in.extend_from_slice(graph.links_to(page));
            links_in.len() as u32
        });
        let ends = ends.collect();
        Strip { start: pages.start as u32, links_out: graph.links_out()[pages].to_vec(), ends, links_in }
    }
}

/// What a page gives along each of its links; of a page without links, its rank.
#[derive(Debug, Clone, Copy, Element)]
struct Share(f64);

/// One copy alone writes a page's share: whatever the policy, that is what all agree on.
impl Merge for Share {
    fn change(_base: &Share, local: &Share) -> Share {
        *local
    }

    fn apply(&mut self, change: &Share) {
        *self = *change;
    }

    fn share(&mut self, _copies: usize) {}
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let args: Args = cli::parse();
    let mut run: Training<'_, Change> = Training::start("pagerank", session, &args.common)?;
    let graph = args.ranking.graph(args.common.data.as_deref(), args.common.seed)?;
    let size = DataSize::of(&graph);
    run.line(&format!("{size}, threads {}", session.threads()));
    let (pages, damping) = (size.pages as f64, args.ranking.damping);

    let settings = args.ranking.settings(args.common.seed, &size);
    run.resume(settings)?;
    let strips = graph.strips(((size.pages + size.links) / STRIPS).clamp(LEAST, MOST)).into_iter();
    let strips: DVector<Strip> = DVector::from_iter(session, strips.map(|pages| Strip::new(&graph, pages)))?;
    let first = |page: usize| Share(1.0 / pages / pagerank::ways(graph.links_out()[page]));
    let mut shares: DVector<Share> = run.vector("shares", || DVector::from_fn(session, size.pages, first))?;
    let mut next: DVector<Share> = DVector::from_fn(session, size.pages, |_| Share(0.0))?;
    let last = run.history().last().map(|&(_, _, change)| change);
    let mut dangling_rank = last.map_or(size.dangling as f64 / pages, |last| last.dangling_rank);
    let converged = |change: Change| change.change < args.ranking.tolerance;
    let mut done = last.is_some_and(converged);

    let minibatch =
        args.sync.minibatch.map_or_else(|| default_minibatch(session, args.sync.sync, strips.len()), usize::from);
    let policy = args.sync.policy(strips.len().div_ceil(minibatch).div_ceil(threads(session)));
    while !done && run.done() < args.common.epochs {
        let clock = Instant::now();
        let base = (1.0 - damping + damping * dangling_rank) / pages;
        let (changes, dangling) = (session.sum(0.0f64), session.sum(0.0f64));
        let iteration = sync_parallel_for!(
            strips,
            minibatch,
            [base, damping, &shares, &mut next, &changes, &dangling],
            |batch| {
                for strip in batch {
                    let (mut page, mut from) = (strip.start as usize, 0);
                    for (&links_out, &to) in strip.links_out.iter().zip(&strip.ends) {
                        let mut sum = 0.0;
                        for &source in &strip.links_in[from..to as usize] {
                            sum += shares[source].0;
                        }
                        let rank = base + damping * sum;
                        let ways = pagerank::ways(links_out);
                        let share = rank / ways;
                        next[page].set(Share(share));
                        changes.add((share - shares[page].0).abs() * ways);
                        if links_out == 0 {
                            dangling.add(rank);
                        }
                        (page, from) = (page + 1, to as usize);
                    }
                }
            },
            policy,
            label = "iteration",
            prefetch = !args.sync.no_prefetch,
            early = args.sync.early,
            // No row is written twice: there is nothing for caches to hold unless the command line says so.
            caches = args.sync.caches.unwrap_or(0)
        )?;
        std::mem::swap(&mut shares, &mut next);
        dangling_rank = dangling.get();
        let change = Change { change: changes.get(), dangling_rank };
        run.epoch(clock.elapsed().as_secs_f64(), iteration.bytes_sent(), change)?;
        run.save(&[("shares", &shares)])?;
        run.record_all(&[&iteration], &[])?;
        done = converged(change);
    }

    let ranks = pagerank::ranks(&graph, shares.iter()?.map(|share| share.0));
    pagerank::show_top(&graph, &ranks, args.ranking.top)?;
    if let Some(folder) = &args.common.output {
        pagerank::store(folder, &graph, &ranks)?;
    }
    run.finish(size, &Digest::new().vector(ranks))
}

/// Threads that share one copy take strips as they are free; copies of their own agree once an iteration.
fn default_minibatch(session: &Session, sync: Sync, strips: usize) -> usize {
    let shared = session.workers() == 0 && sync == Sync::Hybrid;
    if shared { 1 } else { strips.div_ceil(threads(session)).max(1) }
}
