//! Plans: when they are used again, what they look like, and what is said about them.
//!
//! The schedules that loops must have are those of the planner's own tests, which write them anew when told.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::common::{Rating, mix, ratings, session};
use stradsap::prelude::*;

/// One place in the source, for all tests of reuse.
fn count_visits(
    pairs: &DVector<[u32; 2]>,
    x: &mut DVector<u64>,
    sum: &stradsap::Sum<u64>,
    range: std::ops::Range<usize>,
    parts: usize,
    order: Order,
) -> LoopReport {
    async_parallel_for!(
        range,
        [&pairs, &mut x, &sum],
        |i| {
            let [a, b] = pairs[i];
            x[a] += 1;
            x[b] += 1;
            sum.add(2);
        },
        parts = parts,
        order = order
    )
    .unwrap()
}

fn some_pairs(session: &Session, n: usize, len: usize) -> DVector<[u32; 2]> {
    DVector::from_fn(session, n, |i| [(mix(i as u64) % len as u64) as u32, (i % len) as u32]).unwrap()
}

#[test]
fn plans_are_used_again_until_something_differs() {
    let session = session(2);
    let n = 4000;
    let pairs = some_pairs(&session, n, 100);
    let mut x = DVector::from_fn(&session, 100, |_| 0u64).unwrap();
    let sum = session.sum(0);
    assert!(!count_visits(&pairs, &mut x, &sum, 0..n, 4, Order::Any).reused());
    for _ in 0..3 {
        let report = count_visits(&pairs, &mut x, &sum, 0..n, 4, Order::Any);
        assert!(report.reused());
        assert_eq!(report.misspeculations(), 0);
        // A reduction holds nothing that a plan could depend on.
        let another = session.sum(0);
        assert!(count_visits(&pairs, &mut x, &another, 0..n, 4, Order::Any).reused());
        assert_eq!(another.get(), 2 * n as u64);
    }
    // Another number of threads is no reason.
    session.set_threads(3).unwrap();
    assert!(count_visits(&pairs, &mut x, &sum, 0..n, 4, Order::Any).reused());

    assert!(!count_visits(&pairs, &mut x, &sum, 0..n - 1, 4, Order::Any).reused(), "another range");
    assert!(!count_visits(&pairs, &mut x, &sum, 0..n, 5, Order::Any).reused(), "another number of parts");
    assert!(!count_visits(&pairs, &mut x, &sum, 0..n, 4, Order::Preserve).reused(), "another order");
    assert!(count_visits(&pairs, &mut x, &sum, 0..n, 4, Order::Any).reused(), "the first plan is still there");

    let same = some_pairs(&session, n, 100);
    assert!(!count_visits(&same, &mut x, &sum, 0..n, 4, Order::Any).reused(), "another DVector, though it is equal");
    let mut longer = DVector::from_fn(&session, 101, |_| 0u64).unwrap();
    assert!(!count_visits(&pairs, &mut longer, &sum, 0..n, 4, Order::Any).reused(), "another length");
    assert!(count_visits(&pairs, &mut longer, &sum, 0..n, 4, Order::Any).reused());
}

/// A body of generic code is a body of its own for each type.
fn double<T: stradsap::Element + Copy + std::ops::AddAssign>(x: &mut DVector<T>) -> LoopReport {
    async_parallel_for!(0..x.len(), [&mut x], |i| {
        let own = x[i];
        x[i] += own;
    })
    .unwrap()
}

#[test]
fn plans_belong_to_a_place_a_body_and_its_captures() {
    let session = session(1);
    let mut a = DVector::from_fn(&session, 10, |i| i as u64).unwrap();
    let mut b = DVector::from_fn(&session, 10, |i| i as f32).unwrap();
    assert!(!double(&mut a).reused());
    assert!(!double(&mut b).reused());
    assert!(double(&mut a).reused());
    assert!(double(&mut b).reused());
    // Names don't matter, identities do.
    a = DVector::from_fn(&session, 10, |i| i as u64).unwrap();
    assert!(!double(&mut a).reused());
    assert!(a.iter().unwrap().eq((0..10).map(|i| 2 * i)) && b.iter().unwrap().eq((0..10).map(|i| i as f32 * 4.0)));
}

/// A place in the source keeps thousands of short plans; plans of DVectors that are gone make room.
#[test]
fn dropped_vectors_forget_their_plans() {
    let session = session(1);
    let pairs = some_pairs(&session, 100, 10);
    let sum = session.sum(0);
    let keeps = |x: &mut DVector<u64>| count_visits(&pairs, x, &sum, 0..100, 2, Order::Any).reused();
    let fresh = || DVector::from_fn(&session, 10, |_| 0u64).unwrap();
    let mut first = fresh();
    assert!(!keeps(&mut first));
    for _ in 0..10 {
        let mut short_lived = fresh();
        assert!(!keeps(&mut short_lived));
        drop(short_lived);
    }
    assert!(keeps(&mut first), "plans of vectors that are gone pushed it out");
    let mut others: Vec<DVector<u64>> = (0..9000).map(|_| fresh()).collect();
    others.iter_mut().for_each(|other| assert!(!keeps(other)));
    let again = others.iter_mut().map(&keeps).filter(|&reused| reused).count();
    assert!((3000..9000).contains(&again), "{again} of 9000 plans were kept, which were used in turn");
}

/// All that a schedule is.
fn schedule(report: &LoopReport) -> String {
    let mut text = String::new();
    writeln!(text, "strategy      {}", report.strategy()).unwrap();
    writeln!(text, "iterations    {}", report.iterations()).unwrap();
    writeln!(text, "blocks        {}", report.blocks()).unwrap();
    writeln!(text, "work          {}", report.work()).unwrap();
    writeln!(text, "critical path {}", report.critical_path()).unwrap();
    writeln!(text, "reason        {}", report.reason()).unwrap();
    writeln!(text, "serial order").unwrap();
    for line in report.serial_order().collect::<Vec<_>>().chunks(20) {
        let line: Vec<String> = line.iter().map(ToString::to_string).collect();
        writeln!(text, "  {}", line.join(" ")).unwrap();
    }
    text
}

fn golden(name: &str, report: &LoopReport) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../runtime/planner/tests/golden");
    let path = folder.join(format!("{name}.txt"));
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(schedule(report), expected.replace("\r\n", "\n"), "the schedule is not the one in {}", path.display());
}

fn grid_of_ratings(threads: usize, order: Order, strategy: Strategy) -> LoopReport {
    let session = session(threads);
    let all = (0..36u32).map(|k| Rating { user: k / 6, item: k % 6, stars: 3.0 });
    let data = DVector::from_iter(&session, all).unwrap();
    let mut p = DVector::from_fn(&session, 6, |i| i as f32).unwrap();
    let mut q = DVector::from_fn(&session, 6, |i| i as f32).unwrap();
    async_parallel_for!(
        0..36,
        [&data, &mut p, &mut q],
        |i| {
            let r = data[i];
            let e = r.stars - p[r.user] * q[r.item];
            p[r.user] += 0.1 * e;
            q[r.item] += 0.1 * e;
        },
        parts = 3,
        order = order,
        strategy = strategy
    )
    .unwrap()
}

fn stencil(threads: usize, strategy: Strategy) -> LoopReport {
    let session = session(threads);
    let mut x = DVector::from_fn(&session, 66, |i| i as f64).unwrap();
    async_parallel_for!(
        1..65usize,
        [&mut x],
        |i| {
            let around = x[i - 1] + x[i + 1];
            x[i] = 0.5 * x[i] + 0.25 * around;
        },
        parts = 4,
        strategy = strategy
    )
    .unwrap()
}

fn total(threads: usize) -> LoopReport {
    let session = session(threads);
    let x = DVector::from_fn(&session, 50, |i| i as f64).unwrap();
    let mut total = DVector::from_fn(&session, 1, |_| 0.0).unwrap();
    let report = async_parallel_for!(0..50, [&x, &mut total], |i| total[0] += x[i]).unwrap();
    assert_eq!(total.to_vec().unwrap(), [1225.0]);
    report
}

#[test]
fn schedules_stay_as_they_are() {
    for threads in [1, 2, 3] {
        golden("grid", &grid_of_ratings(threads, Order::Any, Strategy::Grid));
        golden("grid-preserving", &grid_of_ratings(threads, Order::Preserve, Strategy::Grid));
        golden("coloured", &grid_of_ratings(threads, Order::Any, Strategy::Coloured));
        golden("coloured-preserving", &grid_of_ratings(threads, Order::Preserve, Strategy::Coloured));
        golden("stencil-grid", &stencil(threads, Strategy::Grid));
        golden("stencil-coloured", &stencil(threads, Strategy::Coloured));
        golden("total", &total(threads));
    }
}

#[test]
fn a_total_is_advised_to_be_a_reduction() {
    let report = total(2);
    assert_eq!(report.strategy(), Strategy::Serial);
    let advice = report.advice().unwrap();
    assert!(advice.starts_with("every iteration touches `total[0]`"), "{advice}");
    assert!(advice.contains("use a reduction"), "{advice}");
    let conflicts = report.conflicts();
    assert_eq!(conflicts.len(), 1);
    assert_eq!((conflicts[0].dds, conflicts[0].elements.first()), ("total", Some(&(0, 50))));
    let text = report.to_string();
    assert!(text.contains(&format!("\n  advice: {advice}")), "{text}");
    assert!(
        text.contains("`total`: 50 accesses; most iterations touch [0] 50; 100.00 % write [0]: at most 1 worker\n"),
        "{text}"
    );
}

#[test]
fn reports_say_what_conflicts() {
    let report = grid_of_ratings(2, Order::Any, Strategy::Grid);
    let text = report.to_string();
    assert!(text.starts_with(&format!("loop {}: grid, {}\n", report.site(), report.reason())), "{text}");
    assert!(text.contains("36 iterations in 9 blocks"), "{text}");
    assert!(text.contains("3 parts of `p`, 3 parts of `q`"), "{text}");
    for dds in ["p", "q"] {
        let conflict = report.conflicts().into_iter().find(|conflict| conflict.dds == dds).unwrap();
        assert_eq!(conflict.accesses, 36);
        assert!(conflict.elements.iter().all(|&(index, times)| index < 6 && times == 6));
        assert!(text.contains(&format!("`{dds}`: 36 accesses")), "{text}");
    }
    // 3 x 3 blocks of equal work: three of them at a time.
    assert_eq!(report.critical_path() * 3, report.work(), "{text}");
    assert!(text.contains(": parallelism 3.0\n"), "{text}");
    assert_eq!(report.advice(), None);
    let speedups = report.predicted_speedups();
    assert_eq!(speedups.iter().map(|&(threads, _)| threads).collect::<Vec<_>>(), [2, 4, 8, 16, 64]);
    assert!(speedups.windows(2).all(|pair| pair[0].1 <= pair[1].1 && pair[1].1 <= 3.0), "{speedups:?}");
    assert!(text.contains("predicted speed-up by threads: 2: "), "{text}");
}

#[test]
fn conflict_graphs_are_drawn() {
    let folder = std::env::temp_dir().join(format!("stradsap-plans-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let nodes_and_edges = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.starts_with("digraph {") && text.trim_end().ends_with('}'), "{text}");
        let lines = text.lines().filter(|line| line.contains('['));
        let (edges, nodes): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.contains("->"));
        assert!(nodes.iter().all(|node| node.contains("label")), "{text}");
        (nodes.len(), edges.len(), text)
    };
    let path = folder.join("grid.dot");
    let report = grid_of_ratings(1, Order::Any, Strategy::Grid);
    report.write_dot(&path).unwrap();
    let (nodes, edges, text) = nodes_and_edges(&path);
    assert_eq!(nodes, report.blocks());
    // Every block but the last of a row waits for one in its row, and likewise in its column.
    assert_eq!(edges, 2 * 6);
    assert!(text.contains("p part 0") && text.contains("q part 2"), "{text}");
    let path = folder.join("serial.dot");
    total(1).write_dot(&path).unwrap();
    assert_eq!(nodes_and_edges(&path).0, 1);

    // A session writes them by itself.
    let path = folder.join("session.dot");
    let session = session(1);
    session.set_dot(Some(&path));
    let mut x = DVector::from_fn(&session, 10_000, |_| 0).unwrap();
    let report = async_parallel_for!(0..10_000, [&mut x], |i| x[i] += 1).unwrap();
    let (nodes, edges, _) = nodes_and_edges(&path);
    assert_eq!((nodes, edges), (report.blocks(), 0));
    assert!(nodes > 1);

    let error = report.write_dot(&folder.join("missing/grid.dot")).unwrap_err();
    assert!(matches!(&error, stradsap::Error::File { path, .. } if path.ends_with("missing/grid.dot")), "{error:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// An epoch over many ratings, with indices that stand in the data, or that only the body knows how to get.
fn long_epoch(threads: usize, data: &[Rating], hidden: bool, order: Order) -> (LoopReport, Vec<u64>) {
    let session = session(threads);
    let data = DVector::from_vec(&session, data.to_vec()).unwrap();
    let n = data.len();
    let mut p = DVector::from_fn(&session, 3000, |i| i as f64 / 3000.0).unwrap();
    let mut q = DVector::from_fn(&session, 3000, |i| i as f64 / 2000.0).unwrap();
    let loss = session.sum(0.0);
    let report = async_parallel_for!(
        0..n,
        [hidden, &data, &mut p, &mut q, &loss],
        |i| {
            let r = data[i];
            let (u, v) = if hidden { (r.user / 2 * 2 + r.user % 2, (r.item + 1) % 3000) } else { (r.user, r.item) };
            let e = f64::from(r.stars) - p[u] * q[v];
            p[u] += 0.01 * e;
            q[v] -= 0.01 * e;
            loss.add(e * e);
        },
        order = order
    )
    .unwrap();
    let mut bits = crate::common::bits(p.iter().unwrap());
    bits.extend(crate::common::bits(q.iter().unwrap()));
    bits.push(loss.get().to_bits());
    (report, bits)
}

fn plain_epoch(data: &[Rating], hidden: bool, order: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut p: Vec<f64> = (0..3000).map(|i| f64::from(i) / 3000.0).collect();
    let mut q: Vec<f64> = (0..3000).map(|i| f64::from(i) / 2000.0).collect();
    let mut loss = 0.0;
    for i in order {
        let r = data[i];
        let (u, v) = (r.user as usize, if hidden { (r.item as usize + 1) % 3000 } else { r.item as usize });
        let e = f64::from(r.stars) - p[u] * q[v];
        p[u] += 0.01 * e;
        q[v] -= 0.01 * e;
        loss += e * e;
    }
    let mut bits = crate::common::bits(p);
    bits.extend(crate::common::bits(q));
    bits.push(loss.to_bits());
    bits
}

#[test]
fn patterns_read_off_a_sample_keep_all_promises() {
    let data = ratings(50_000, 3000, 3000);
    for order in [Order::Any, Order::Preserve] {
        for hidden in [false, true] {
            let (report, bits) = long_epoch(1, &data, hidden, order);
            // In the loop's own order a sample shows that little could run at the same time.
            assert_eq!(report.inferred(), !hidden && order == Order::Any);
            assert_eq!(report.misspeculations(), 0);
            let rows = bits.len() - 1;
            match order {
                Order::Any => assert_eq!(bits[..rows], plain_epoch(&data, hidden, report.serial_order())[..rows]),
                Order::Preserve => assert_eq!(bits, plain_epoch(&data, hidden, 0..data.len())),
            }
            for threads in [2, 3, 8] {
                let (other, other_bits) = long_epoch(threads, &data, hidden, order);
                assert!(other_bits == bits, "{order:?}, hidden: {hidden}, {threads} threads");
                assert!(other.serial_order().eq(report.serial_order()));
            }
        }
    }
    let (report, _) = long_epoch(2, &data, false, Order::Any);
    assert!(report.to_string().contains("(a sample; the rest follows from the data)"), "{report}");
}

/// Two indices into one DVector stand in each tuple. Its parts are larger than the nearest cache.
#[test]
fn the_pattern_of_loops_over_edges_is_read_off_a_sample() {
    let (n, nodes) = (60_000, 400_000);
    let node = |k: usize| crate::common::below(k as u64, nodes) as u32;
    let edges: Vec<(u32, u32, f32)> = (0..n).map(|k| (node(2 * k), node(2 * k + 1), k as f32)).collect();
    let epochs = |threads: usize| {
        let session = session(threads);
        let data = DVector::from_vec(&session, edges.clone()).unwrap();
        let mut x = DVector::from_fn(&session, nodes, |i| i as f64).unwrap();
        let mut run =
            || async_parallel_for!(&data, [&mut x], |(a, b, by)| x[b] = 0.5 * x[b] + x[a] * f64::from(by)).unwrap();
        let report = run();
        assert!(run().reused() && report.inferred() && report.misspeculations() == 0, "{report}");
        assert_eq!(report.strategy(), Strategy::Grid, "{report}");
        (report, crate::common::bits(x.to_vec().unwrap()))
    };
    let (report, bits) = epochs(1);
    let mut plain: Vec<f64> = (0..nodes).map(|i| i as f64).collect();
    for _ in 0..2 {
        for i in report.serial_order() {
            let (a, b, by) = edges[i];
            plain[b as usize] = 0.5 * plain[b as usize] + plain[a as usize] * f64::from(by);
        }
    }
    assert_eq!(bits, crate::common::bits(plain));
    assert_eq!(epochs(2).1, bits);
}

/// A record with padding, as one would write it.
#[derive(Clone, Copy, Element)]
struct Visit {
    stars: f32,
    user: usize,
    page: u32,
    more: (u8, u32),
}

/// Tuples and structs whose numbers don't fill them: their patterns are read off a sample as those of others are.
#[test]
fn the_pattern_of_records_with_padding_is_read_off_a_sample() {
    let (n, len) = (60_000, 3000);
    let at = |k: usize| crate::common::below(k as u64, len);
    let pairs: Vec<(usize, usize, f32)> = (0..n).map(|k| (at(2 * k), at(2 * k + 1), k as f32)).collect();
    let behind: Vec<(f32, usize, u64)> = pairs.iter().map(|&(a, b, by)| (by, a, b as u64)).collect();
    let visits: Vec<Visit> =
        pairs.iter().map(|&(a, b, by)| Visit { stars: by, user: a, page: b as u32, more: (7, 9) }).collect();
    let flagged: Vec<(bool, u32, char, u32, f32)> =
        pairs.iter().map(|&(a, b, by)| (a > b, a as u32, 'c', b as u32, by)).collect();
    let mut plain: Option<Vec<u64>> = None;
    for threads in [1, 3] {
        let session = session(threads);
        let flagged = &DVector::from_vec(&session, flagged.clone()).unwrap();
        let data = (
            DVector::from_vec(&session, pairs.clone()).unwrap(),
            DVector::from_vec(&session, behind.clone()).unwrap(),
            DVector::from_vec(&session, visits.clone()).unwrap(),
        );
        let (pairs_there, behind_there, visits_there) = (&data.0, &data.1, &data.2);
        let begun = || DVector::from_fn(&session, len, |i| i as f64).unwrap();
        let [mut x, mut y, mut z, mut w] = [begun(), begun(), begun(), begun()];
        let reports = [
            async_parallel_for!(0..n, [&pairs_there, &mut x], |i| {
                let (a, b, by) = pairs_there[i];
                x[b] = 0.5 * x[b] + x[a] * f64::from(by);
            }),
            async_parallel_for!(0..n, [&behind_there, &mut y], |i| {
                let (by, a, b) = behind_there[i];
                y[b] = 0.5 * y[b] + y[a] * f64::from(by);
            }),
            async_parallel_for!(0..n, [&visits_there, &mut z], |i| {
                let visit = visits_there[i];
                z[visit.page] = 0.5 * z[visit.page] + z[visit.user] * f64::from(visit.stars);
            }),
            async_parallel_for!(0..n, [&flagged, &mut w], |i| {
                let (greater, a, letter, b, by) = flagged[i];
                assert!(letter == 'c' && greater == (a > b));
                w[b] = 0.5 * w[b] + w[a] * f64::from(by);
            }),
        ];
        for report in reports {
            let report = report.unwrap();
            assert!(report.inferred() && report.misspeculations() == 0, "{report}");
            let expected = plain.get_or_insert_with(|| {
                let mut plain: Vec<f64> = (0..len).map(|i| i as f64).collect();
                for i in report.serial_order() {
                    let (a, b, by) = pairs[i];
                    plain[b] = 0.5 * plain[b] + plain[a] * f64::from(by);
                }
                crate::common::bits(plain)
            });
            assert_eq!(expected.len(), len);
        }
        for vector in [x, y, z, w] {
            assert_eq!(Some(crate::common::bits(vector.to_vec().unwrap())), plain);
        }
    }
}

/// A rule that holds in every sample, and not everywhere.
#[test]
fn a_sample_that_misleads_costs_a_misspeculation_and_nothing_else() {
    let n = 60_000;
    for threads in [1, 3] {
        let session = session(threads);
        let data = DVector::from_vec(&session, ratings(n, 500, 500)).unwrap();
        let mut p = DVector::from_fn(&session, 500, |i| i as f64).unwrap();
        let mut q = DVector::from_fn(&session, 500, |i| i as f64).unwrap();
        for call in 0..2 {
            let (mut pp, mut pq) = (p.to_vec().unwrap(), q.to_vec().unwrap());
            // 5000 is in no sample.
            let report = async_parallel_for!(0..n, [&data, &mut p, &mut q], |i| {
                let r = data[i];
                let u = if i == 5000 { (r.user + 250) % 500 } else { r.user };
                p[u] = p[u] * 0.5 + q[r.item];
                q[r.item] = q[r.item] * 0.5 + i as f64;
            })
            .unwrap();
            assert_eq!((report.misspeculations(), report.reused()), if call == 0 { (1, false) } else { (0, true) });
            assert!(!report.inferred());
            let data = data.to_vec().unwrap();
            for i in report.serial_order() {
                let (u, v) = (data[i].user as usize, data[i].item as usize);
                let u = if i == 5000 { (u + 250) % 500 } else { u };
                pp[u] = pp[u] * 0.5 + pq[v];
                pq[v] = pq[v] * 0.5 + i as f64;
            }
            assert_eq!(
                (crate::common::bits(p.iter().unwrap()), crate::common::bits(q.iter().unwrap())),
                (crate::common::bits(pp), crate::common::bits(pq))
            );
        }
    }
}

#[test]
fn reports_of_synchronous_loops_say_when_rows_are_short() {
    let session = session(2);
    let n = 40_000;
    let mut single = DVector::from_fn(&session, 500, |_| 0.0f32).unwrap();
    let mut rows = DVector::from_fn(&session, 500, |_| [0.0f32; 16]).unwrap();
    let input = DVector::from_fn(&session, n, |i| i).unwrap();
    let mut of_numbers = |policy| {
        sync_parallel_for!(
            input,
            10,
            [&mut single],
            |batch| {
                for &i in batch {
                    (0..20).for_each(|k| single[(i * 31 + k * 7) % 500].add(1.0));
                }
            },
            policy
        )
    };
    let report = of_numbers(SyncPolicy::Bsp).unwrap();
    assert!(report.advice().unwrap().contains("some of 4 bytes"), "{report}");
    assert!(report.to_string().contains("advice: copies brought and united"), "{report}");
    assert_eq!(of_numbers(SyncPolicy::Hybrid).unwrap().advice(), None);
    let report = sync_parallel_for!(
        input,
        10,
        [&mut rows],
        |batch| {
            for &i in batch {
                (0..20).for_each(|k| rows[(i * 31 + k * 7) % 500].add(&[1.0; 16]));
            }
        },
        SyncPolicy::Bsp
    );
    assert_eq!(report.unwrap().advice(), None);
    session.set_threads(1).unwrap();
    assert_eq!(of_numbers(SyncPolicy::Bsp).unwrap().advice(), None, "one copy");
}
