//! Coloured loops that are spread over workers: the same bits as in one process, on any number of workers and threads.

use stradsap::Error;
use stradsap::prelude::*;

use crate::common::{below, mix};
use crate::scenarios;
use crate::seen::{Scenario, Seen, without_worker};

type Result = stradsap::Result<()>;

pub(crate) const SCENARIOS: &[Scenario] = scenarios![
    spread::gauss_seidel,
    spread::label_propagation,
    spread::graph_colouring,
    spread::sums_of_floats,
    spread::names,
    spread::beside_other_loops,
    spread::failures,
    spread::misspeculation,
];

/// Lists of neighbours, one behind the other.
struct Graph {
    starts: Vec<u32>,
    to: Vec<u32>,
}

impl Graph {
    fn of_edges(nodes: usize, edges: impl Iterator<Item = (usize, usize)>) -> Graph {
        let mut lists = vec![Vec::new(); nodes];
        for (a, b) in edges.filter(|(a, b)| a != b) {
            lists[a].push(b as u32);
            lists[b].push(a as u32);
        }
        let mut starts = vec![0];
        lists.iter().for_each(|list| starts.push(starts[starts.len() - 1] + list.len() as u32));
        Graph { starts, to: lists.concat() }
    }

    /// A square whose cells are numbered at random.
    fn mesh(side: usize) -> Graph {
        let n = side * side;
        let mut number: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|k| number.swap(k, below(k as u64, k + 1)));
        let right = (0..n).filter(|cell| cell % side + 1 < side).map(|cell| (cell, cell + 1));
        let down = (0..n - side).map(|cell| (cell, cell + side));
        Graph::of_edges(n, right.chain(down).map(|(a, b)| (number[a], number[b])))
    }

    /// Some nodes have many more edges than others, and most edges are between nodes that are near each other.
    fn web(nodes: usize, edges: usize) -> Graph {
        let edge = |k: usize| {
            let a = below(3 * k as u64, nodes);
            let far = [a * below(3 * k as u64 + 1, 1000) / 1000, (a + 1 + below(3 * k as u64 + 2, 30)) % nodes];
            (a, far[usize::from(!k.is_multiple_of(8))])
        };
        Graph::of_edges(nodes, (0..edges).map(edge))
    }

    fn on(&self, session: &Session) -> stradsap::Result<(DVector<u32>, DVector<u32>)> {
        Ok((DVector::from_vec(session, self.starts.clone())?, DVector::from_vec(session, self.to.clone())?))
    }

    fn nodes(&self) -> usize {
        self.starts.len() - 1
    }
}

/// That a loop runs on more than one worker, if there are more.
fn is_spread(session: &Session, report: &LoopReport) {
    assert_eq!(report.strategy(), Strategy::Coloured);
    let busy = report.shares().iter().filter(|share| share.blocks > 0).count();
    assert!(busy > 1 || session.workers() < 2, "{} of {} workers are busy", busy, session.workers());
}

pub(crate) mod spread {
    use super::*;

    fn sweep(
        (starts, to): (&DVector<u32>, &DVector<u32>),
        x: &mut DVector<f64>,
        order: Order,
    ) -> stradsap::Result<LoopReport> {
        async_parallel_for!(
            0..x.len(),
            [&starts, &to, &mut x],
            |i| {
                let mut sum = 0.0;
                let beside = &to[starts[i]..starts[i + 1]];
                for &j in beside {
                    sum += x[j];
                }
                x[i] = 0.5 * x[i] + 0.5 * sum / beside.len().max(1) as f64;
            },
            strategy = Coloured,
            order = order
        )
    }

    pub(crate) fn gauss_seidel(session: &Session, seen: &mut Seen) -> Result {
        let mesh = Graph::mesh(160);
        let (starts, to) = mesh.on(session)?;
        for order in [Order::Any, Order::Preserve] {
            let mut x = DVector::from_fn(session, mesh.nodes(), |i| mix(i as u64) as f64 / 1e18)?;
            for round in 0..4 {
                let report = sweep((&starts, &to), &mut x, order)?;
                if order == Order::Any {
                    is_spread(session, &report);
                }
                seen.report("sweep", &report);
                if round % 2 == 1 {
                    seen.digest("x", &x)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn label_propagation(session: &Session, seen: &mut Seen) -> Result {
        let web = Graph::web(40_000, 200_000);
        let (starts, to) = web.on(session)?;
        let mut label = DVector::from_fn(session, web.nodes(), |i| i as u32)?;
        for _ in 0..3 {
            let changed = session.count();
            let report = async_parallel_for!(
                0..web.nodes(),
                [&starts, &to, &mut label, &changed],
                |i| {
                    let mut least = label[i];
                    for &j in &to[starts[i]..starts[i + 1]] {
                        least = least.min(label[j]);
                    }
                    if least != label[i] {
                        changed.add(1);
                    }
                    label[i] = least;
                },
                strategy = Coloured
            )?;
            is_spread(session, &report);
            seen.report("round", &report);
            seen.record("changed", changed.get());
        }
        seen.digest("labels", &label)
    }

    pub(crate) fn graph_colouring(session: &Session, seen: &mut Seen) -> Result {
        let web = Graph::web(40_000, 160_000);
        let (starts, to) = web.on(session)?;
        let mut colour = DVector::from_fn(session, web.nodes(), |_| u8::MAX)?;
        let report = async_parallel_for!(
            0..web.nodes(),
            [&starts, &to, &mut colour],
            |i| {
                let mut taken = 0u64;
                for &j in &to[starts[i]..starts[i + 1]] {
                    taken |= if colour[j] < 64 { 1 << colour[j] } else { 0 };
                }
                colour[i] = taken.trailing_ones() as u8;
            },
            strategy = Coloured
        )?;
        is_spread(session, &report);
        seen.report("colours", &report);
        let colour = colour.to_vec()?;
        let proper = |i: usize| {
            let beside = &web.to[web.starts[i] as usize..web.starts[i + 1] as usize];
            colour[i] == 64 || beside.iter().all(|&j| colour[j as usize] != colour[i])
        };
        assert!((0..web.nodes()).all(proper));
        seen.record("colours", colour.iter().fold(7, |hash, &colour| mix(hash ^ u64::from(colour))));
        Ok(())
    }

    /// Their bits depend on the blocks, which stay as they are.
    pub(crate) fn sums_of_floats(session: &Session, seen: &mut Seen) -> Result {
        let mesh = Graph::mesh(200);
        let (starts, to) = mesh.on(session)?;
        let mut x = DVector::from_fn(session, mesh.nodes(), |i| mix(i as u64) as f64 / 1e18)?;
        for _ in 0..3 {
            let change = session.sum(0.25f64);
            let report = async_parallel_for!(
                0..mesh.nodes(),
                [&starts, &to, &mut x, &change],
                |i| {
                    let mut sum = 0.0;
                    for &j in &to[starts[i]..starts[i + 1]] {
                        sum += x[j];
                    }
                    change.add(0.25 * sum - x[i]);
                    x[i] = 0.25 * sum;
                },
                strategy = Coloured
            )?;
            is_spread(session, &report);
            seen.report("sweep", &report);
            seen.record("change", change.get().to_bits());
        }
        seen.digest("x", &x)
    }

    /// Elements that own memory, and two DDSs that are written.
    pub(crate) fn names(session: &Session, seen: &mut Seen) -> Result {
        let mesh = Graph::mesh(200);
        let (starts, to) = mesh.on(session)?;
        let mut name = DVector::from_fn(session, mesh.nodes(), |i| format!("node {i}"))?;
        let mut heard = DVector::from_fn(session, mesh.nodes(), |_| 0u64)?;
        for round in 0..3u32 {
            let report = async_parallel_for!(
                0..mesh.nodes(),
                [round, &starts, &to, &mut name, &mut heard],
                |i| {
                    let mut letters = 0;
                    for &j in &to[starts[i]..starts[i + 1]] {
                        letters += name[j].len() as u64;
                        heard[j] = heard[j].rotate_left(5) ^ i as u64;
                    }
                    let own = &mut name[i];
                    if letters % 3 == u64::from(round) {
                        own.push('x');
                    }
                },
                strategy = Coloured
            )?;
            is_spread(session, &report);
            seen.report("round", &report);
        }
        seen.digest("names", &name)?;
        seen.digest("heard", &heard)
    }

    /// What a spread loop leaves, other loops and the program find, and the other way round.
    pub(crate) fn beside_other_loops(session: &Session, seen: &mut Seen) -> Result {
        let mesh = Graph::mesh(160);
        let (starts, to) = mesh.on(session)?;
        let mut x = DVector::from_fn(session, mesh.nodes(), |i| mix(i as u64) as f64 / 1e18)?;
        for round in 0..3 {
            is_spread(session, &sweep((&starts, &to), &mut x, Order::Any)?);
            async_parallel_for!(0..mesh.nodes(), [round, &mut x], |i| x[i] += (i % 7) as f64 * round as f64)?;
            let most = session.max(f64::NEG_INFINITY);
            async_parallel_for!(0..mesh.nodes(), [&x, &most], |i| most.max(x[i]))?;
            seen.record("most", most.get().to_bits());
            x.set(round as usize, 1.5)?;
            is_spread(session, &sweep((&starts, &to), &mut x, Order::Any)?);
            seen.record("one", x.get(17)?.to_bits());
        }
        seen.digest("x", &x)
    }

    /// Several iterations fail: the first in the serial order is reported, and all is as it was.
    pub(crate) fn failures(session: &Session, seen: &mut Seen) -> Result {
        let mesh = Graph::mesh(160);
        let (starts, to) = mesh.on(session)?;
        let n = mesh.nodes();
        let mut x = DVector::from_fn(session, n, |i| i as u64)?;
        for round in 0..6u64 {
            let fails = [below(round, n), below(round + 100, n), n - 1 - round as usize];
            let kind = round % 3;
            let before = x.digest()?;
            let ended = async_parallel_for!(
                0..n,
                [fails, kind, &starts, &to, &mut x],
                |i| {
                    let mut sum = 0u64;
                    for &j in &to[starts[i]..starts[i + 1]] {
                        sum = sum.wrapping_add(x[j]);
                    }
                    x[i] = mix(sum ^ x[i]);
                    if fails.contains(&i) && kind > 0 {
                        assert!(kind == 1, "iteration {i} panics");
                        return Err(Error::usage(format!("iteration {i}")));
                    }
                    Ok(())
                },
                strategy = Coloured
            );
            match ended {
                Ok(report) => is_spread(session, &report),
                Err(error) => {
                    assert_eq!(before, x.digest()?);
                    seen.record("error", without_worker(session, &error.to_string()));
                }
            }
            seen.digest("x", &x)?;
        }
        Ok(())
    }

    /// Edges that the program changes, of which the plan knows nothing.
    pub(crate) fn misspeculation(session: &Session, seen: &mut Seen) -> Result {
        let mesh = Graph::mesh(160);
        let (starts, mut to) = mesh.on(session)?;
        let mut x = DVector::from_fn(session, mesh.nodes(), |i| mix(i as u64) as f64 / 1e18)?;
        for round in 0..4 {
            let report = sweep((&starts, &to), &mut x, Order::Any)?;
            is_spread(session, &report);
            seen.report("sweep", &report);
            seen.digest("x", &x)?;
            for k in 0..2 * round {
                to.set(below(k + 10 * round, mesh.to.len()), below(k + 7, mesh.nodes()) as u32)?;
            }
        }
        Ok(())
    }
}
