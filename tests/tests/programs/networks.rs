//! Graphs whose nodes have lists of neighbours, and indices.

use std::collections::BTreeMap;

use super::Trial;
use crate::common::{below, bits};
use crate::seen::Seen;
use stradsap::prelude::*;

/// Neighbours of each node, both ways, sorted, none twice.
fn neighbours(edges: usize, nodes: usize) -> Vec<Vec<u32>> {
    let mut of = vec![Vec::new(); nodes];
    for k in 0..edges as u64 {
        let (a, b) = (below(2 * k, nodes), below(2 * k + 1, nodes) * below(k, nodes) / nodes);
        if a != b {
            of[a].push(b as u32);
            of[b].push(a as u32);
        }
    }
    for list in &mut of {
        list.sort_unstable();
        list.dedup();
    }
    of
}

/// PageRank; what pages without links have goes to all.
pub(super) fn pagerank_with_sinks(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let n = trial.size(3_000, 600_000);
    let from: Vec<Vec<u32>> =
        (0..n).map(|v| (0..v % 7).map(|k| below((8 * v + k) as u64, n) as u32).collect()).collect();
    let mut out = vec![0u32; n];
    from.iter().flatten().for_each(|&u| out[u as usize] += 1);
    let mut plain = vec![1.0 / n as f64; n];
    let (links, degree) = (DVector::from_vec(session, from.clone())?, DVector::from_vec(session, out.clone())?);
    let mut rank = DVector::from_vec(session, plain.clone())?;
    let sunk = session.sum(0.0f64);
    let mut before = plain.clone();
    let report = trial.sweep(
        || {
            let mut last = None;
            for _ in 0..3 {
                sunk.set(0.0);
                // In the loop's order, so that the sum is the plain loop's to the last bit.
                async_parallel_for!(
                    0..n,
                    [&degree, &rank, &sunk],
                    |v| {
                        if degree[v] == 0 {
                            sunk.add(rank[v]);
                        }
                    },
                    order = Preserve
                )?;
                let for_all = (0.15 + 0.85 * sunk.get()) / n as f64;
                let report = async_parallel_for!(0..n, [for_all, &links, &degree, &mut rank], |v| {
                    let given: f64 = links[v].iter().map(|&u| rank.old[u] / f64::from(degree[u])).sum();
                    rank[v] = for_all + 0.85 * given;
                })?;
                last = Some(report);
            }
            Ok(last.unwrap())
        },
        || {
            for _ in 0..3 {
                let mut sunk = 0.0;
                for v in 0..n {
                    if out[v] == 0 {
                        sunk += plain[v];
                    }
                }
                let for_all = (0.15 + 0.85 * sunk) / n as f64;
                before.clone_from(&plain);
                for v in 0..n {
                    let given: f64 = from[v].iter().map(|&u| before[u as usize] / f64::from(out[u as usize])).sum();
                    plain[v] = for_all + 0.85 * given;
                }
            }
        },
    )?;
    trial.same(bits(rank.to_vec()?), bits(plain));
    seen.digest("rank", &rank)?;
    Ok(report)
}

/// The k-core: nodes of few neighbours go, which leaves others with fewer, until all have enough.
pub(super) fn k_core(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (n, k) = (trial.size(3_000, 100_000), 4i32);
    let around = neighbours(3 * n, n);
    let (mut plain, mut plain_degree) = (vec![0u8; n], vec![0i32; n]);
    let links = DVector::from_vec(session, around.clone())?;
    let mut gone = DVector::from_vec(session, plain.clone())?;
    let mut degree = DVector::from_vec(session, plain_degree.clone())?;
    let report = trial.sweep(
        || {
            let mut first = None;
            async_parallel_for!(0..n, [&links, &mut gone, &mut degree], |v| {
                gone[v] = 0;
                degree[v] = links[v].len() as i32;
            })?;
            // 0: stays, 1: goes in this round, 2: has gone.
            for round in 0u8.. {
                let falls = session.any();
                async_parallel_for!(0..n, [k, &degree, &mut gone, &falls], |v| {
                    gone[v] = match gone[v] {
                        0 if degree[v] < k => 1,
                        0 => 0,
                        _ => 2,
                    };
                    falls.or(gone[v] == 1);
                })?;
                if !falls.get() {
                    break;
                }
                let report = async_parallel_for!(0..n, [&links, &gone, sum degree], |v| {
                    if gone[v] == 1 {
                        for &u in &links[v] {
                            degree[u] += -1;
                        }
                    }
                })?;
                first.get_or_insert(report);
                assert!(round < 200);
            }
            Ok(first.unwrap())
        },
        || {
            for v in 0..n {
                (plain[v], plain_degree[v]) = (0, around[v].len() as i32);
            }
            loop {
                let mut falls = false;
                for v in 0..n {
                    plain[v] = match plain[v] {
                        0 if plain_degree[v] < k => 1,
                        0 => 0,
                        _ => 2,
                    };
                    falls |= plain[v] == 1;
                }
                if !falls {
                    break;
                }
                for v in (0..n).filter(|&v| plain[v] == 1) {
                    for &u in &around[v] {
                        plain_degree[u as usize] -= 1;
                    }
                }
            }
        },
    )?;
    trial.same((gone.to_vec()?, degree.to_vec()?), (plain, plain_degree));
    seen.digest("gone", &gone)?;
    Ok(report)
}

/// How many triangles each node is a corner of, and how many there are.
pub(super) fn triangles(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(1_500, 40_000);
    let mut around = neighbours(8 * n, n);
    // Each edge stands at the node with the lower number.
    for (v, list) in around.iter_mut().enumerate() {
        list.retain(|&u| u as usize > v);
    }
    fn common<'a>(one: &'a [u32], other: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        let mut at = 0;
        one.iter().copied().filter(move |x| {
            while at < other.len() && other[at] < *x {
                at += 1;
            }
            other.get(at) == Some(x)
        })
    }
    let (mut plain, mut plain_all) = (vec![0u32; n], 0u64);
    let links = DVector::from_vec(session, around.clone())?;
    let mut corners = DVector::from_vec(session, plain.clone())?;
    let all = session.count();
    let report = trial.sweep(
        || {
            async_parallel_for!(0..n, [&links, sum corners, &all], |a| {
                for &b in &links[a] {
                    for c in common(&links[a], &links[b]) {
                        corners[a] += 1;
                        corners[b] += 1;
                        corners[c] += 1;
                        all.add(1);
                    }
                }
            })
        },
        || {
            for a in 0..n {
                for &b in &around[a] {
                    for c in common(&around[a], &around[b as usize]) {
                        plain[a] += 1;
                        plain[b as usize] += 1;
                        plain[c as usize] += 1;
                        plain_all += 1;
                    }
                }
            }
        },
    )?;
    trial.same((corners.to_vec()?, all.get()), (plain, plain_all));
    seen.digest("corners", &corners)?;
    seen.record("triangles", all.get());
    Ok(report)
}

/// Connected components: each node takes the least label around it, from before, until none changes.
pub(super) fn connected_components(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let n = trial.size(2_000, 200_000);
    let around = neighbours(n, n);
    let mut plain = vec![0u32; n];
    let links = DVector::from_vec(session, around.clone())?;
    let mut label = DVector::from_vec(session, plain.clone())?;
    let changed = session.any();
    let mut before = plain.clone();
    let report = trial.sweep(
        || {
            async_parallel_for!(0..n as u32, [&mut label], |v| label[v] = v)?;
            loop {
                changed.set(false);
                let report = async_parallel_for!(0..n, [&links, &mut label, &changed], |v| {
                    let least = links[v].iter().map(|&u| label.old[u]).fold(label.old[v], u32::min);
                    label[v] = least;
                    changed.or(least != label.old[v]);
                })?;
                if !changed.get() {
                    return Ok(report);
                }
            }
        },
        || {
            (0..n).for_each(|v| plain[v] = v as u32);
            loop {
                before.clone_from(&plain);
                for v in 0..n {
                    plain[v] = around[v].iter().map(|&u| before[u as usize]).fold(before[v], u32::min);
                }
                if plain == before {
                    break;
                }
            }
        },
    )?;
    trial.same(label.to_vec()?, plain);
    seen.digest("label", &label)?;
    Ok(report)
}

/// SimRank: two nodes are alike where those around them are.
pub(super) fn similar_nodes(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(60, 900);
    let around = neighbours(2 * n, n);
    fn alike(a: usize, b: usize, n: usize, one: &[u32], other: &[u32], before: impl Fn(usize) -> f64) -> f64 {
        if a == b {
            return 1.0;
        }
        let pairs = one.iter().flat_map(|&i| other.iter().map(move |&j| i as usize * n + j as usize));
        0.8 * pairs.map(before).sum::<f64>() / (one.len() * other.len()).max(1) as f64
    }
    let mut plain: Vec<f64> = (0..n * n).map(|at| f64::from(u8::from(at / n == at % n))).collect();
    let links = DVector::from_vec(session, around.clone())?;
    let mut s = DVector::from_vec(session, plain.clone())?;
    let mut before = plain.clone();
    let report = trial.sweep(
        || {
            let mut last = None;
            for _ in 0..2 {
                let report = async_parallel_for!((0..n, 0..n), [n, &links, &mut s], |(a, b)| {
                    s[a * n + b] = alike(a, b, n, &links[a], &links[b], |at| s.old[at]);
                })?;
                last = Some(report);
            }
            Ok(last.unwrap())
        },
        || {
            for _ in 0..2 {
                before.clone_from(&plain);
                for a in 0..n {
                    for b in 0..n {
                        plain[a * n + b] = alike(a, b, n, &around[a], &around[b], |at| before[at]);
                    }
                }
            }
        },
    )?;
    trial.same(bits(s.to_vec()?), bits(plain));
    seen.digest("s", &s)?;
    Ok(report)
}

/// DBSCAN's first step: which points have six others nearby, by cells of a grid in a map.
pub(super) fn dense_points(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(2_000, 100_000);
    let wide = ((n / 5) as f64).sqrt() as usize;
    let points: Vec<(f32, f32)> = (0..n as u64)
        .map(|i| (below(2 * i, 100 * wide) as f32 / 100.0, below(2 * i + 1, 100 * wide) as f32 / 100.0))
        .collect();
    fn cell(point: &(f32, f32)) -> (i32, i32) {
        (point.0 as i32, point.1 as i32)
    }
    fn close(a: (f32, f32), b: (f32, f32)) -> bool {
        (a.0 - b.0).powi(2) + (a.1 - b.1).powi(2) <= 1.0
    }
    let mut plain_cells: BTreeMap<(i32, i32), Vec<u32>> = BTreeMap::new();
    for (i, point) in points.iter().enumerate() {
        plain_cells.entry(cell(point)).or_default().push(i as u32);
    }
    let mut plain = vec![false; n];
    let data = DVector::from_vec(session, points.clone())?;
    let cells = data.enumerate().map(|(i, point)| (cell(point), *i as u32)).group_by_key()?;
    let mut dense = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(0..n, [&data, &cells, &mut dense], |i| {
                let (x, y) = cell(&data[i]);
                let mut near = 0;
                for column in x - 1..=x + 1 {
                    for row in y - 1..=y + 1 {
                        near += cells[&(column, row)].iter().filter(|&&j| close(data[i], data[j])).count();
                    }
                }
                dense[i] = near > 6;
            })
        },
        || {
            for i in 0..n {
                let (x, y) = cell(&points[i]);
                let mut near = 0;
                for column in x - 1..=x + 1 {
                    for row in y - 1..=y + 1 {
                        let others = plain_cells.get(&(column, row)).map_or(&[][..], |others| others);
                        near += others.iter().filter(|&&j| close(points[i], points[j as usize])).count();
                    }
                }
                plain[i] = near > 6;
            }
        },
    )?;
    trial.same(dense.to_vec()?, plain);
    seen.digest("dense", &dense)?;
    Ok(report)
}

/// An inverted index: of each word the documents that have it, in their order.
pub(super) fn inverted_index(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (n, words) = (trial.size(1_500, 60_000), trial.size(900, 40_000));
    let documents: Vec<Vec<u16>> =
        (0..n).map(|d| (0..1 + d % 3).map(|k| below((4 * d + k) as u64, words) as u16).collect()).collect();
    let mut plain: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    let data = DVector::from_vec(session, documents.clone())?;
    let mut index: DMultiMap<u16, u32> = DMultiMap::with_capacity(session, words)?;
    let report = trial.sweep(
        || {
            async_parallel_for!(
                0..n as u32,
                [&data, &mut index],
                |d| {
                    for &word in &data[d] {
                        index.insert(word, d);
                    }
                },
                order = Preserve
            )
        },
        || {
            for d in 0..n {
                for &word in &documents[d] {
                    plain.entry(word).or_default().push(d as u32);
                }
            }
        },
    )?;
    let mut found = index.to_vec()?;
    found.sort();
    trial.same(found, plain.into_iter().collect());
    seen.record("index", index.digest()?);
    Ok(report)
}
