//! Plans of random loops: each iteration runs once, whatever conflicts is ordered, and no plan depends on threads.

use std::collections::HashMap;

use petgraph::algo::toposort;
use petgraph::algo::tred::{dag_to_toposorted_adjacency_list, dag_transitive_reduction_closure};
use petgraph::graph::DiGraph;
use proptest::prelude::{ProptestConfig, proptest};
use stradsap_planner::inference;
use stradsap_planner::plan::{Plan, plan};
use stradsap_planner::recording::{CaptureShape, Fields, IndexFields};
use stradsap_planner::{Inline, Order, PlanOptions, Strategy};

use crate::loops::{Loop, Team, serial_order};
use crate::play::Chance;

/// Iterations that touch random elements of some DDSs, or those of their own index.
pub(crate) fn random_loop(seed: u64, first: usize, n: usize, lens: &[usize], most: usize, writes: usize) -> Loop {
    let mut chance = Chance(seed);
    let mut touched = |_| {
        let many = chance.below(most + 1);
        let access = |_| {
            let capture = chance.below(lens.len());
            (capture, chance.below(lens[capture]), chance.below(4) < writes)
        };
        (0..many).map(access).collect()
    };
    Loop {
        range: first..first + n,
        captures: lens.iter().map(|&len| (len, true)).collect(),
        accesses: (0..n).map(&mut touched).collect(),
    }
}

/// All pairs of blocks of which the first must have ended before the second starts, by petgraph's closure of the graph.
fn ordered(plan: &Plan) -> impl Fn(usize, usize) -> bool {
    let edges = |b: usize| plan.graph.followers(b).iter().map(move |&after| (b as u32, after));
    let mut graph: DiGraph<(), ()> = DiGraph::new();
    (0..plan.graph.len()).for_each(|_| _ = graph.add_node(()));
    graph.extend_with_edges((0..plan.graph.len()).flat_map(edges));
    let order = toposort(&graph, None).expect("blocks wait in a circle");
    let (adjacency, place) = dag_to_toposorted_adjacency_list::<_, u32>(&graph, &order);
    let (_, closure) = dag_transitive_reduction_closure(&adjacency);
    move |before, after| closure.contains_edge(place[before], place[after])
}

/// A block, an iteration, and whether it writes.
type Seen = (usize, usize, bool);

/// That conflicting iterations of a plan follow each other, in its serial order.
pub(crate) fn check(of: &Loop, plan: &Plan, order: Order) {
    let serial = serial_order(plan);
    let mut sorted = serial.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(of.range.clone()), "not every iteration once");
    assert!(plan.blocks.iter().zip(&plan.blocks[1..]).all(|(one, next)| one.end == next.start), "gaps between blocks");
    assert_eq!((plan.blocks[0].start, plan.blocks[plan.blocks.len() - 1].end), (0, of.range.len()));
    let ordered = ordered(plan);
    // Of each capture and index: the accesses so far.
    let mut seen: HashMap<(usize, usize), Vec<Seen>> = HashMap::new();
    for (b, block) in plan.blocks.iter().enumerate() {
        for &i in &serial[block.start..block.end] {
            for &(capture, index, write) in &of.accesses[i - of.range.start] {
                let before = seen.entry((capture, index)).or_default();
                for &(other, j, _) in before.iter().filter(|(_, _, other)| write || *other) {
                    assert!(other == b || ordered(other, b), "blocks {other} and {b} race for [{index}] of {capture}");
                    assert!(
                        order == Order::Any || j <= i,
                        "{i} runs before {j}, and both touch [{index}] of {capture}"
                    );
                }
                before.push((b, i, write));
            }
        }
    }
}

pub(crate) fn same(one: &Plan, other: &Plan) {
    assert_eq!((one.strategy, &one.blocks, &one.offsets), (other.strategy, &other.blocks, &other.offsets));
    assert_eq!(one.graph.tail, other.graph.tail);
    for b in 0..one.graph.len() {
        assert_eq!(one.graph.followers(b), other.graph.followers(b));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn random_loops(seed: u64, first in 0..5usize, n in 1..300usize, len in 1..200usize, dds in 1..4usize, most in 0..5usize,
                    writes in 0..5usize, parts in 0..9usize, kind in 0..5usize, preserve: bool) {
        let of = random_loop(seed, first, n, &vec![len; dds], most, writes);
        let strategies = [None, Some(Strategy::Grid), Some(Strategy::Coloured), Some(Strategy::Serial), Some(Strategy::Tiled)];
        let order = if preserve { Order::Preserve } else { Order::Any };
        let parts = (parts > 0).then_some(parts);
        let options = PlanOptions { order, parts, strategy: strategies[kind], ..PlanOptions::default() };
        let plan = of.plan(&options, 1);
        check(&of, &plan, order);
        same(&plan, &of.plan(&options, 3));
    }

    /// Iterations in step, with offsets, and some that leave step.
    #[test]
    fn loops_in_step(seed: u64, n in 1..300usize, offset in 0..4usize, misspeculations in 0..3usize, preserve: bool) {
        let mut chance = Chance(seed);
        let mut touched = |i: usize| {
            let own = if chance.below(100) < misspeculations { chance.below(n) } else { i };
            vec![(0, own + offset, chance.below(2) == 0), (1, i, true)]
        };
        let accesses = (0..n).map(&mut touched).collect();
        let of = Loop { range: 0..n, captures: vec![(n + offset, true), (n, true)], accesses };
        let order = if preserve { Order::Preserve } else { Order::Any };
        let options = PlanOptions { order, ..PlanOptions::default() };
        check(&of, &of.plan(&options, 2), order);
    }
}

/// Many iterations whose indices stand in records of three numbers.
fn records(n: usize, len: usize) -> (Vec<u8>, Loop) {
    let mut chance = Chance(7);
    let pairs: Vec<(usize, usize)> = (0..n).map(|_| (chance.below(len), chance.below(len))).collect();
    let bytes = pairs.iter().flat_map(|&(a, b)| [9, a as u32, b as u32]).flat_map(u32::to_ne_bytes).collect();
    let touched = |(i, &(a, b)): (usize, &(usize, usize))| vec![(0, i, false), (1, a, true), (2, b, true)];
    let accesses = pairs.iter().enumerate().map(touched).collect();
    (bytes, Loop { range: 0..n, captures: vec![(n, false), (len, true), (len, true)], accesses })
}

#[test]
fn rules_from_a_sample_give_the_plan_of_all_accesses() {
    let (bytes, of) = records(60_000, 500);
    let samples = inference::samples(&of.range).unwrap();
    let fields = [Some(Fields::new(0, 12, &bytes)), None, None];
    let shapes: Vec<CaptureShape> = of.shapes();
    let inferred = inference::infer(&of.record(&samples), &samples, &shapes, (&fields, None), &Inline).unwrap();
    let options = PlanOptions::default();
    let by_rules = plan(&inferred, &shapes, &options, &Inline);
    same(&by_rules, &of.plan(&options, 2));
    assert!(by_rules.facts.inferred && by_rules.strategy == Strategy::Grid);
    assert_eq!(by_rules.fields, [None, indices_at(&[4]), indices_at(&[8])]);
}

/// Where indices stand in the elements of the first capture.
fn indices_at(bytes: &[usize]) -> Option<IndexFields> {
    Some(IndexFields { capture: 0, bytes: bytes.to_vec() })
}

#[test]
fn two_indices_of_one_dds_follow_from_a_sample() {
    let (bytes, of) = records(60_000, 500);
    let united = |accesses: &Vec<(usize, usize, bool)>| {
        let of_second = |&(c, index, write): &(usize, usize, bool)| (c.min(1), index, write && c == 2);
        accesses.iter().map(of_second).collect()
    };
    let accesses = of.accesses.iter().map(united).collect();
    let of = Loop { range: of.range.clone(), captures: of.captures[..2].to_vec(), accesses };
    let samples = inference::samples(&of.range).unwrap();
    let fields = [Some(Fields::new(0, 12, &bytes)), None];
    let shapes: Vec<CaptureShape> = of.shapes();
    let inferred = inference::infer(&of.record(&samples), &samples, &shapes, (&fields, None), &Inline).unwrap();
    let options = PlanOptions::default();
    let by_rules = plan(&inferred, &shapes, &options, &Inline);
    check(&of, &by_rules, Order::Any);
    same(&by_rules, &plan(&inferred, &shapes, &options, &Team(3)));
    assert_eq!(by_rules.fields, [None, indices_at(&[4, 8])]);
}

#[test]
fn rows_and_columns_of_pairs_are_rules() {
    let (rows, columns) = (300, 170);
    // From row 3 and column 2 on, of more.
    let touched = |at: usize| vec![(0, at / columns + 3, true), (1, at % columns + 2, true), (2, at, false)];
    let accesses = (0..rows * columns).map(touched).collect();
    let captures = vec![(rows + 3, true), (columns + 7, true), (rows * columns, false)];
    let of = Loop { range: 0..rows * columns, captures, accesses };
    let samples = inference::samples(&of.range).unwrap();
    let (sampled, shapes, fields) = (of.record(&samples), of.shapes(), [None, None, None]);
    let infer = |columns| inference::infer(&sampled, &samples, &shapes, (&fields, columns), &Inline);
    assert!(infer(None).is_none() && infer(Some(columns + 1)).is_none());
    let inferred = infer(Some(columns)).unwrap();
    let options = PlanOptions::default();
    let by_rules = plan(&inferred, &shapes, &options, &Inline);
    check(&of, &by_rules, Order::Any);
    same(&by_rules, &of.plan(&options, 1));
    same(&by_rules, &plan(&inferred, &shapes, &options, &Team(3)));
    let surveyed = inference::surveyed(&sampled, &samples, &shapes, (&fields, Some(columns)));
    assert!(surveyed.is_some_and(|recording| recording.listed(1) == rows * columns));
}

#[test]
fn nothing_is_inferred_from_fields_that_are_no_indices() {
    let (mut bytes, of) = records(60_000, 500);
    let samples = inference::samples(&of.range).unwrap();
    let infer = |fields: Fields<'_>| {
        let fields = [Some(fields), None, None];
        inference::infer(&of.record(&samples), &samples, &of.shapes(), (&fields, None), &Inline).is_some()
    };
    assert!(infer(Fields::new(0, 12, &bytes)));
    assert!(!infer(Fields::new(0, 12, &bytes[..bytes.len() - 1])), "the last element is not whole");
    assert!(!infer(Fields::new(1, 12, &bytes)), "there is no element for the first iteration");
    assert!(!infer(Fields::new(0, 0, &[])), "elements of no bytes");
    // 5000 is in no sample: its index is beyond the end.
    bytes[5000 * 12 + 4..][..4].copy_from_slice(&500u32.to_ne_bytes());
    assert!(!infer(Fields::new(0, 12, &bytes)));
}
