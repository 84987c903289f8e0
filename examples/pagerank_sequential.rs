//! PageRank by the power method, as a plain sequential program: the twin of `pagerank`, without the library.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use stradsap_examples::{CommonArgs, Digest, Result, Run, cli};
use stradsap_gallery::pagerank::{self, Change, DataSize, RankArgs};

/// Ranks the pages of a graph by PageRank, with the power method, sequentially.
///
/// The graph is a list of links, one in each line: the page that it is on and the page that it leads to. Without --data the program
/// makes a random graph (R-MAT). The objective in the report is the change: how far the ranks moved in an iteration, summed over
/// all pages. An epoch is an iteration; --epochs is the most there are. The pages of highest rank are printed, and all are stored
/// as `ranks.tsv`: id, tab, rank.
#[derive(Debug, Parser)]
#[command(version, mut_arg("epochs", |epochs| epochs.default_value("200").help("Iterations at the most")))]
struct Args {
    #[command(flatten)]
    ranking: RankArgs,
    #[command(flatten)]
    common: CommonArgs,
}

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: &Args) -> Result<()> {
    let mut run = Run::sequential("pagerank_sequential", &args.common)?;
    let graph = args.ranking.graph(args.common.data.as_deref(), args.common.seed)?;
    let size = DataSize::of(&graph);
    run.line(&format!("{size}, sequential"));
    let (pages, damping) = (size.pages as f64, args.ranking.damping);

    // What a page gives along each of its links; of a page without links, its rank.
    let mut shares: Vec<f64> = graph.links_out().iter().map(|&links| 1.0 / pages / pagerank::ways(links)).collect();
    let mut next = vec![0.0; size.pages];
    let mut dangling_rank = size.dangling as f64 / pages;

    for _iteration in 0..args.common.epochs {
        let clock = Instant::now();
        let base = (1.0 - damping + damping * dangling_rank) / pages;
        let mut change = 0.0;
        dangling_rank = 0.0;
        for (page, (links_in, &links_out)) in graph.links_in().zip(graph.links_out()).enumerate() {
            let mut sum = 0.0;
            for &from in links_in {
                sum += shares[from as usize];
            }
            let rank = base + damping * sum;
            let ways = pagerank::ways(links_out);
            next[page] = rank / ways;
            change += (next[page] - shares[page]).abs() * ways;
            if links_out == 0 {
                dangling_rank += rank;
            }
        }
        std::mem::swap(&mut shares, &mut next);
        run.epoch(clock.elapsed().as_secs_f64(), 0, Change { change, dangling_rank })?;
        if change < args.ranking.tolerance {
            break;
        }
    }

    let ranks = pagerank::ranks(&graph, shares.into_iter());
    pagerank::show_top(&graph, &ranks, args.ranking.top)?;
    if let Some(folder) = &args.common.output {
        pagerank::store(folder, &graph, &ranks)?;
    }
    run.finish(size, &Digest::new().vector(ranks))
}
