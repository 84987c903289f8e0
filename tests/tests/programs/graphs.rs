//! Graphs, by their edges or by their nodes.

use super::Trial;
use crate::common::below;
use crate::seen::Seen;
use stradsap::prelude::*;

fn edges(n: usize, nodes: usize) -> Vec<(u32, u32)> {
    (0..n as u64).map(|k| (below(2 * k, nodes) as u32, below(2 * k + 1, nodes) as u32)).collect()
}

/// Neighbours of each node in one list, and where each node's begin.
fn lists(edges: &[(u32, u32)], nodes: usize) -> (Vec<u32>, Vec<u32>) {
    let mut of = vec![Vec::new(); nodes];
    for &(a, b) in edges {
        of[a as usize].push(b);
        of[b as usize].push(a);
    }
    let mut starts = vec![0u32];
    starts.extend(of.iter().scan(0, |end, list| {
        *end += list.len() as u32;
        Some(*end)
    }));
    (starts, of.concat())
}

/// The label that most neighbours have at that moment.
pub(super) fn label_propagation(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let nodes = trial.size(6_000, 450_000);
    let (plain_starts, plain_to) = lists(&edges(nodes * 4 / 3, nodes), nodes);
    let mut plain: Vec<u32> = (0..nodes as u32).map(|i| i % 50).collect();
    let starts = DVector::from_vec(session, plain_starts.clone())?;
    let to = DVector::from_vec(session, plain_to.clone())?;
    let mut label = DVector::from_vec(session, plain.clone())?;
    fn most(labels: impl Iterator<Item = u32>) -> Option<u32> {
        let mut all: Vec<u32> = labels.collect();
        all.sort_unstable();
        all.chunk_by(|a, b| a == b).max_by_key(|run| run.len()).map(|run| run[0])
    }
    let report = trial.steps(
        0..nodes,
        || {
            async_parallel_for!(0..nodes, [&starts, &to, &mut label], |i| {
                if let Some(found) = most(to[starts[i]..starts[i + 1]].iter().map(|&j| label[j])) {
                    label[i] = found;
                }
            })
        },
        |i| {
            let around = &plain_to[plain_starts[i] as usize..plain_starts[i + 1] as usize];
            if let Some(found) = most(around.iter().map(|&j| plain[j as usize])) {
                plain[i] = found;
            }
        },
    )?;
    trial.same(label.to_vec()?, plain);
    seen.report("labels", &report);
    Ok(report)
}

/// Each node takes the smallest colour that no neighbour has.
pub(super) fn colouring(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let nodes = trial.size(6_000, 900_000);
    let pairs = edges(nodes * 3 / 2, nodes);
    let (plain_starts, plain_to) = lists(&pairs, nodes);
    let mut plain = vec![u8::MAX; nodes];
    let starts = DVector::from_vec(session, plain_starts.clone())?;
    let to = DVector::from_vec(session, plain_to.clone())?;
    let mut colour = DVector::from_vec(session, plain.clone())?;
    let free = |taken: u64| taken.trailing_ones() as u8;
    let report = trial.steps(
        0..nodes,
        || {
            async_parallel_for!(0..nodes as u32, [free, &starts, &to, &mut colour], |i| {
                let mut taken = 0u64;
                for &j in &to[starts[i]..starts[i + 1]] {
                    taken |= if j != i && colour[j] < 64 { 1 << colour[j] } else { 0 };
                }
                colour[i] = free(taken);
            })
        },
        |i| {
            let mut taken = 0u64;
            for &j in &plain_to[plain_starts[i] as usize..plain_starts[i + 1] as usize] {
                taken |= if j as usize != i && plain[j as usize] < 64 { 1 << plain[j as usize] } else { 0 };
            }
            plain[i] = free(taken);
        },
    )?;
    trial.same(colour.to_vec()?, plain.clone());
    assert!(trial.size(0, 1) == 1 || pairs.iter().all(|&(a, b)| a == b || plain[a as usize] != plain[b as usize]));
    seen.report("colours", &report);
    Ok(report)
}

fn lengths(n: usize, nodes: usize) -> Vec<(u32, u32, f32)> {
    edges(n, nodes).into_iter().enumerate().map(|(k, (a, b))| (a, b, 1.0 + below(k as u64, 30) as f32)).collect()
}

/// Edges are relaxed until none gets shorter.
pub(super) fn shortest_paths(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let nodes = trial.size(4_000, 800_000);
    let all = lengths(4 * nodes, nodes);
    let mut plain = vec![f32::INFINITY; nodes];
    plain[0] = 0.0;
    let data = DVector::from_vec(session, all.clone())?;
    let mut distance = DVector::from_vec(session, plain.clone())?;
    let mut last = None;
    for round in 0..trial.size(30, 1) {
        let shorter = session.count();
        let mut plain_shorter = 0;
        let report = trial.steps(
            0..all.len(),
            || {
                async_parallel_for!(&data, [&mut distance, &shorter], |(a, b, length)| {
                    let through = distance[a] + length;
                    if through < distance[b] {
                        shorter.add(1);
                    }
                    distance[b] = distance[b].min(through);
                })
            },
            |k| {
                let (a, b, length) = all[k];
                let through = plain[a as usize] + length;
                plain_shorter += u64::from(through < plain[b as usize]);
                plain[b as usize] = plain[b as usize].min(through);
            },
        )?;
        trial.same((round, shorter.get(), distance.to_vec()?), (round, plain_shorter, plain.clone()));
        seen.report("round", &report);
        last = Some(report);
        if plain_shorter == 0 {
            break;
        }
    }
    Ok(last.unwrap())
}

/// The same, in which an edge writes only what gets shorter: nobody can foresee which do.
pub(super) fn shortest_paths_by_condition(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let nodes = trial.size(400, 500_000);
    let all = lengths(4 * nodes, nodes);
    let mut plain = vec![f32::INFINITY; nodes];
    plain[0] = 0.0;
    let data = DVector::from_vec(session, all.clone())?;
    let mut distance = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(
                &data,
                [&mut distance],
                |(a, b, length)| {
                    if distance[a] + length < distance[b] {
                        distance[b] = distance[a] + length;
                    }
                },
                order = Preserve
            )
        },
        || {
            for &(a, b, length) in &all {
                if plain[a as usize] + length < plain[b as usize] {
                    plain[b as usize] = plain[a as usize] + length;
                }
            }
        },
    )?;
    trial.same(distance.to_vec()?, plain);
    seen.digest("distance", &distance)?;
    Ok(report)
}

/// All pairs, over rows: row `k` is what the others look at in step `k`.
pub(super) fn floyd_warshall(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(48, 300);
    let start = |i: usize, j: usize| if i == j { 0 } else { 1 + below((i * n + j) as u64, 500) as u32 };
    let mut plain: Vec<Vec<u32>> = (0..n).map(|i| (0..n).map(|j| start(i, j)).collect()).collect();
    let mut rows = DVector::from_vec(session, plain.clone())?;
    let mut last = None;
    let report = trial.sweep(
        || {
            for k in 0..n {
                let through = rows.get(k)?;
                let through = &through;
                let report = async_parallel_for!(0..n, [k, through, &mut rows], |i| {
                    let row = &mut rows[i];
                    let first = row[k];
                    for (j, far) in row.iter_mut().enumerate() {
                        *far = (*far).min(first + through[j]);
                    }
                })?;
                last = Some(report);
            }
            Ok(last.take().unwrap())
        },
        || {
            for k in 0..n {
                for i in 0..n {
                    for j in 0..n {
                        plain[i][j] = plain[i][j].min(plain[i][k] + plain[k][j]);
                    }
                }
            }
        },
    )?;
    trial.same(rows.to_vec()?, plain);
    seen.digest("rows", &rows)?;
    Ok(report)
}

/// Depths in a tree whose parents come first, each expected to be there.
pub(super) fn depths_that_are_expected(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let nodes = trial.size(1_000, 1_000_000);
    let parents: Vec<u32> = (0..nodes).map(|i| if i == 0 { 0 } else { below(i as u64, i) as u32 }).collect();
    let mut plain: Vec<Option<u32>> = vec![None; nodes];
    plain[0] = Some(0);
    let parent = DVector::from_vec(session, parents.clone())?;
    let mut depth = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(
                1..nodes,
                [&parent, &mut depth],
                |i| {
                    let above = depth[parent[i]].expect("parents come first");
                    depth[i] = Some(above + 1);
                },
                order = Preserve
            )
        },
        || (1..nodes).for_each(|i| plain[i] = Some(plain[parents[i] as usize].expect("parents come first") + 1)),
    )?;
    trial.same(depth.to_vec()?, plain);
    seen.digest("depth", &depth)?;
    Ok(report)
}

/// Roots are found by following parents, which unions change.
pub(super) fn union_find(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let nodes = trial.size(600, 300_000);
    let pairs = edges(nodes * 7 / 6, nodes);
    let mut plain: Vec<u32> = (0..nodes as u32).collect();
    let data = DVector::from_vec(session, pairs.clone())?;
    let mut parent = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(
                &data,
                [&mut parent],
                |(mut a, mut b)| {
                    while parent[a] != a {
                        a = parent[a];
                    }
                    while parent[b] != b {
                        b = parent[b];
                    }
                    if a != b {
                        parent[a.max(b)] = a.min(b);
                    }
                },
                order = Preserve
            )
        },
        || {
            for &(mut a, mut b) in &pairs {
                while plain[a as usize] != a {
                    a = plain[a as usize];
                }
                while plain[b as usize] != b {
                    b = plain[b as usize];
                }
                if a != b {
                    plain[a.max(b) as usize] = a.min(b);
                }
            }
        },
    )?;
    trial.same(parent.to_vec()?, plain);
    seen.digest("parent", &parent)?;
    Ok(report)
}
