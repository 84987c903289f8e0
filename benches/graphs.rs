//! Loops over graphs, in which an iteration reads its neighbours and writes itself: Gauss-Seidel on a mesh, label propagation and
//! greedy colouring on a graph that is read or generated. The plain loop, one process with one thread and with several, one worker and
//! several take turns; what `stradsap simulate` predicts stands beside it.
//! `cargo bench --bench graphs -- --help` lists the options; docs/scaling.md says what came of it.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use stradsap::prelude::*;
use stradsap::{ClusterOptions, ReadFiles};
use stradsap_benches::harness::{Samples, benchmarking};
use stradsap_benches::table::Table;
use stradsap_planner::simulate::{Access, PlanTable, Setup, simulate};

/// Gauss-Seidel, label propagation and colouring on several workers.
#[derive(Parser)]
#[command(name = "graphs")]
struct Options {
    /// A graph in place of the generated one: a line an edge, with the two nodes
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    /// Cells of a side of the mesh
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(8..=10_000))]
    side: u32,
    /// Nodes of the generated graph, which has 8 times as many edges
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(64..=20_000_000))]
    nodes: u32,
    /// Worker processes of one thread, and threads of the one process
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    workers: u32,
    /// Rounds of turns
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Let the planner choose the strategy, in place of coloured plans
    #[arg(long)]
    any_strategy: bool,
    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// Lists of neighbours, one behind the other.
struct Graph {
    starts: Vec<u32>,
    to: Vec<u32>,
}

impl Graph {
    fn new(nodes: usize, edges: impl Iterator<Item = (usize, usize)>) -> Graph {
        let mut lists = vec![Vec::new(); nodes];
        for (a, b) in edges.filter(|(a, b)| a != b) {
            lists[a].push(b as u32);
            lists[b].push(a as u32);
        }
        lists.iter_mut().for_each(|list| list.sort_unstable());
        let mut starts = vec![0];
        lists.iter().for_each(|list| starts.push(starts[starts.len() - 1] + list.len() as u32));
        Graph { starts, to: lists.concat() }
    }

    /// A square of cells, numbered row by row.
    fn mesh(side: usize) -> Graph {
        let n = side * side;
        let right = (0..n).filter(|cell| cell % side + 1 < side).map(|cell| (cell, cell + 1));
        Graph::new(n, right.chain((0..n - side).map(|cell| (cell, cell + side))))
    }

    /// Like pages: most links stay near, a few nodes have most of the others.
    fn web(nodes: usize) -> Graph {
        let mut state = 1u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as usize) % n
        };
        let edges: Vec<(usize, usize)> = (0..8 * nodes)
            .map(|k| {
                let a = below(nodes);
                if k % 4 == 0 {
                    (a, [below(nodes), below(nodes)].into_iter().fold(nodes, |n, k| n * k / nodes))
                } else {
                    (a, (a + 1 + below(40)) % nodes)
                }
            })
            .collect();
        Graph::new(nodes, edges.into_iter())
    }

    fn read(path: &PathBuf) -> Result<Graph> {
        let edges = Session::new()?.read_edges(path)?.to_vec()?;
        let nodes = edges.iter().map(|edge| edge.from.max(edge.to) as usize + 1).max().unwrap_or(0);
        Ok(Graph::new(nodes, edges.iter().map(|edge| (edge.from as usize, edge.to as usize))))
    }

    fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    fn beside(&self, node: usize) -> &[u32] {
        &self.to[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}

/// Runs a loop with the strategy of the options.
macro_rules! sweep {
    ($any:expr, $($what:tt)*) => {
        if $any { async_parallel_for!($($what)*) } else { async_parallel_for!($($what)*, strategy = Coloured) }
    };
}

#[derive(Clone, Copy)]
enum Program {
    GaussSeidel,
    Labels,
    Colours,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::GaussSeidel => "Gauss-Seidel",
            Program::Labels => "label propagation",
            Program::Colours => "colouring",
        }
    }

    fn initial(self, node: usize) -> u32 {
        match self {
            Program::GaussSeidel => (1.0 + (node * 7919 % 1000) as f32).to_bits(),
            Program::Labels => node as u32,
            Program::Colours => u32::MAX,
        }
    }

    /// The plain loop.
    fn plain(self, graph: &Graph, x: &mut [u32]) {
        for i in 0..x.len() {
            x[i] = self.of(x[i], graph.beside(i).iter().map(|&j| x[j as usize]));
        }
    }

    fn of(self, own: u32, beside: impl ExactSizeIterator<Item = u32>) -> u32 {
        match self {
            Program::GaussSeidel => relaxed(own, beside),
            Program::Labels => beside.fold(own, u32::min),
            Program::Colours => lowest(beside),
        }
    }

    fn sweep(self, data: &mut Data, any: bool) -> Result<LoopReport> {
        let Data { starts, to, x, .. } = data;
        let nodes = x.len();
        let report = match self {
            Program::GaussSeidel => sweep!(any, 0..nodes, [starts = &*starts, to = &*to, &mut x], |i| {
                let beside = &to[starts[i]..starts[i + 1]];
                x[i] = relaxed(x[i], beside.iter().map(|&j| x[j]));
            }),
            Program::Labels => sweep!(any, 0..nodes, [starts = &*starts, to = &*to, &mut x], |i| {
                let beside = &to[starts[i]..starts[i + 1]];
                x[i] = beside.iter().map(|&j| x[j]).fold(x[i], u32::min);
            }),
            Program::Colours => sweep!(any, 0..nodes, [starts = &*starts, to = &*to, &mut x], |i| {
                let beside = &to[starts[i]..starts[i + 1]];
                x[i] = lowest(beside.iter().map(|&j| x[j]));
            }),
        };
        Ok(report?)
    }
}

/// The mean of what stands beside a cell, and of what it holds itself.
fn relaxed(own: u32, beside: impl ExactSizeIterator<Item = u32>) -> u32 {
    let n = beside.len().max(1) as f32;
    (0.5 * f32::from_bits(own) + 0.5 * beside.map(f32::from_bits).sum::<f32>() / n).to_bits()
}

/// The lowest colour below 64 that no neighbour has.
fn lowest(beside: impl Iterator<Item = u32>) -> u32 {
    let taken = beside.fold(0u64, |taken, colour| if colour < 64 { taken | 1 << colour } else { taken });
    taken.trailing_ones()
}

/// A graph and what its nodes hold, in a session.
struct Data {
    _session: Session,
    starts: DVector<u32>,
    to: DVector<u32>,
    x: DVector<u32>,
}

impl Data {
    fn new(graph: &Graph, program: Program, (workers, threads): (usize, usize)) -> Result<Data> {
        let session = Session::builder().threads(threads).build()?;
        if workers > 0 {
            session.start_workers(&ClusterOptions::new(workers).threads(1))?;
        }
        let starts = DVector::from_vec(&session, graph.starts.clone())?;
        let to = DVector::from_vec(&session, graph.to.clone())?;
        let x = DVector::from_fn(&session, graph.nodes(), |node| program.initial(node))?;
        Ok(Data { _session: session, starts, to, x })
    }
}

/// Seconds of each contestant, by turn.
#[derive(Default)]
struct Times {
    plain: Vec<f64>,
    ours: [Vec<f64>; 4],
    reports: Vec<LoopReport>,
}

#[stradsap::main]
fn main(_: &Session) -> Result<()> {
    let mut options = Options::parse();
    if !benchmarking() {
        (options.side, options.nodes, options.rounds) = (40, 2000, 1);
    }
    run(&options)
}

fn run(options: &Options) -> Result<()> {
    let mesh = Graph::mesh(options.side as usize);
    let web = match &options.graph {
        Some(path) => Graph::read(path).with_context(|| path.display().to_string())?,
        None => Graph::web(options.nodes as usize),
    };
    let heading = [
        "program",
        "nodes",
        "edges",
        "strategy",
        "blocks",
        "plain ms",
        "1 process",
        "threads",
        "1 worker",
        "workers",
        "predicted",
        "16 cores",
        "16 machines",
        "first call",
        "busy",
    ];
    let mut table = Table::new(&heading);
    for program in [Program::GaussSeidel, Program::Labels, Program::Colours] {
        let graph = if matches!(program, Program::GaussSeidel) { &mesh } else { &web };
        table.push(measured(program, graph, options)?);
    }
    println!(
        "{} rounds in alternation, medians; times the plain loop, but `threads` ({} of one process) times one of them, `workers` (as \
         many, one thread each) times one worker, and predictions times one thread: `predicted` for as many workers, and 16 of \
         one machine or of 16\n\n{table}",
        options.rounds, options.workers
    );
    Ok(())
}

fn measured(program: Program, graph: &Graph, options: &Options) -> Result<Vec<String>> {
    let any = options.any_strategy;
    let mut plain: Vec<u32> = (0..graph.nodes()).map(|node| program.initial(node)).collect();
    let several = options.workers as usize;
    let contestants = [(0, 1), (0, several), (1, 1), (several, 1)];
    let mut all = contestants.iter().map(|&each| Data::new(graph, program, each)).collect::<Result<Vec<Data>>>()?;
    let mut times = Times::default();
    let mut first = 0.0;
    for round in 0..=options.rounds {
        let begun = Instant::now();
        program.plain(graph, &mut plain);
        times.plain.push(begun.elapsed().as_secs_f64());
        times.reports.clear();
        for (data, seconds) in all.iter_mut().zip(&mut times.ours) {
            let begun = Instant::now();
            times.reports.push(program.sweep(data, any)?);
            seconds.push(begun.elapsed().as_secs_f64());
        }
        if round == 0 {
            first = times.ours[0][0];
            // The first turns record and plan.
            times.plain.clear();
            times.ours.iter_mut().for_each(Vec::clear);
        }
    }
    let digests = all.iter().map(|data| data.x.digest()).collect::<stradsap::Result<Vec<_>>>()?;
    ensure!(digests.windows(2).all(|two| two[0] == two[1]), "{}: other bits on workers", program.name());
    row(program, graph, options, &times, first)
}

fn row(program: Program, graph: &Graph, options: &Options, times: &Times, first: f64) -> Result<Vec<String>> {
    let plain = Samples::new(times.plain.clone()).median();
    let [alone, threads, one, several] = times.ours.each_ref().map(|seconds| Samples::new(seconds.clone()).median());
    let report = &times.reports[0];
    let [here, cores, machines] = predicted(&times.reports[..2], [alone, threads], options.workers as usize)?;
    let shares = times.reports[3].shares();
    let busy = shares.iter().filter(|share| share.blocks > 0).count();
    Ok(vec![
        program.name().to_owned(),
        graph.nodes().to_string(),
        (graph.to.len() / 2).to_string(),
        report.strategy().to_string(),
        report.blocks().to_string(),
        format!("{:.2}", 1e3 * plain),
        format!("{:.3}", plain / alone),
        format!("{:.2}", alone / threads),
        format!("{:.3}", plain / one),
        format!("{:.2}", one / several),
        format!("{here:.2}"),
        format!("{cores:.1}"),
        format!("{machines:.1}"),
        format!("{:.1}", first / plain),
        busy.to_string(),
    ])
}

/// How much faster than one thread the plan would be: on workers of a machine with as many cores, on 16 of one machine, and on 16
/// machines with 10 Gbit/s between them. The reports are of one thread and of as many as there are workers, which take `seconds`.
fn predicted(reports: &[LoopReport], seconds: [f64; 2], workers: usize) -> Result<[f64; 3]> {
    let path = std::env::temp_dir().join(format!("stradsap-graphs-{}.json", std::process::id()));
    let mut tables = Vec::new();
    for (report, seconds) in reports.iter().zip(seconds) {
        report.write_plan(&path)?;
        let mut table: PlanTable = serde_json::from_reader(BufReader::new(File::open(&path)?))?;
        std::fs::remove_file(&path)?;
        table.measured.seconds = seconds;
        tables.push(table);
    }
    let table = &tables[0];
    let plan = table.plan()?;
    let alone = table.nanos_an_access(&plan)?;
    let crowded = table.crowded(&plan, &tables[1])?;
    let on = |count, cores| {
        let setup = Setup {
            workers: count,
            threads: 1,
            cores,
            shared: false,
            machines: None,
            // How many more processors slow each other down isn't known.
            access: Access { alone, crowded: (cores <= workers).then_some(crowded) },
            bytes_a_nano: 1.25,
            latency: 50_000.0,
            slow: Vec::new(),
            lost: None,
        };
        simulate(table, &plan, &setup).speedup
    };
    Ok([on(workers, workers), on(16, 16), on(16, 1)])
}
