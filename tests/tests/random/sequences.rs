//! Random sequences of loops of several kinds on the same DVectors, with reads and writes of the driver's between.

use std::rc::Rc;

use stradsap::prelude::*;
use stradsap::{Error, LoopProblem};

use super::items::{a_slot, alive};
use super::program::Rng;
use super::running::OnPurpose;
use super::world::{BOLD, Call, KINDS, Kind, State, World, assert_none_alive};

/// How long the loops are: those above the threshold are recorded from a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Short,
    Middle,
    AroundTheThreshold,
}

/// The fewest iterations that are sampled.
const THRESHOLD: usize = 4 * 1024 * 8;

impl Length {
    fn random(self, rng: &mut Rng) -> usize {
        match self {
            Length::Short => 1 + rng.below(60),
            Length::Middle => 1 + rng.below(3000),
            Length::AroundTheThreshold => THRESHOLD - 100 + rng.below(300),
        }
    }
}

/// Runs one random sequence on each session, and compares all of them with plain loops.
pub(crate) fn check(seed: u64, length: Length, sessions: &[Rc<Session>]) {
    let mut rng = Rng::new(seed);
    let (n, slot) = (length.random(&mut rng), a_slot());
    let expected = State::new(&mut rng, n, slot);
    let worlds = sessions.iter().map(|session| World::new(session, &expected).unwrap()).collect();
    let mut sequence =
        Sequence { case: format!("STRADSAP_SEED={seed}: {n} iterations"), slot, expected, sum: 0, worlds };
    for _ in 0..3 + rng.below(6) {
        sequence.next(&mut rng);
    }
    sequence.look();
    let case = std::mem::take(&mut sequence.case);
    drop(sequence);
    assert_none_alive(sessions, slot, &case);
}

struct Sequence {
    case: String,
    slot: u32,
    expected: State,
    sum: u64,
    worlds: Vec<World>,
}

impl Sequence {
    fn next(&mut self, rng: &mut Rng) {
        let n = self.expected.edges.len();
        let kind = match rng.below(KINDS.len() + BOLD.len()) {
            k if k < KINDS.len() => &KINDS[k],
            k => &BOLD[k - KINDS.len()],
        };
        let mut range = if rng.one_in(4) { rng.below(n)..n - rng.below(n) } else { 0..n };
        // No block begins in a loop without iterations.
        range.end = range.end.max(range.start + usize::from(kind.blocks));
        let call = Call {
            range,
            order: if rng.one_in(4) { Order::Preserve } else { Order::Any },
            parts: 1 + rng.below(8),
            salt: rng.below(4) as u64,
            slot: self.slot,
            fails: if rng.one_in(3) { rng.below(n) } else { usize::MAX },
        };
        self.case += &format!(", {} {:?} {:?}", kind.name, call.range, call.order);
        self.run(kind, &call);
        if rng.one_in(3) {
            self.look();
        }
        if rng.one_in(3) {
            self.change(rng);
        }
    }

    fn run(&mut self, kind: &Kind, call: &Call) {
        let is_refused = |error: &Error| matches!(error, Error::Loop { problem: LoopProblem::PartsRefused { .. }, .. });
        let case = &self.case;
        let mut ended = self.worlds.iter_mut().map(|world| (kind.run)(world, call)).collect::<Vec<_>>().into_iter();
        match ended.next().unwrap() {
            Ok(report) => {
                let order: Vec<usize> = report.serial_order().collect();
                let mut in_range = order.clone();
                in_range.sort_unstable();
                assert!(in_range.into_iter().eq(call.range.clone()), "{case}: the order is no permutation");
                for (other, world) in ended.zip(&self.worlds[1..]) {
                    let place = format!("{} workers, {} threads", world.session.workers(), world.session.threads());
                    let other = other.unwrap_or_else(|error| panic!("{case}, {place}: {error}"));
                    let theirs: Vec<usize> = other.serial_order().collect();
                    if theirs == order {
                        continue;
                    }
                    // Workers don't run tiles. Either order must leave what the loop's own does.
                    let tiles_here = report.strategy() == Strategy::Tiled && world.session.workers() > 0;
                    assert!(
                        tiles_here && call.order == Order::Preserve && !kind.blocks,
                        "{case}, {place}: another order"
                    );
                    let after = |order: &[usize]| {
                        let mut state = self.expected.clone();
                        let sum = (kind.plain)(&mut state, call, order, &[]).unwrap();
                        (state, sum)
                    };
                    let mut in_range = theirs.clone();
                    in_range.sort_unstable();
                    assert!(
                        in_range.into_iter().eq(call.range.clone()),
                        "{case}, {place}: the order is no permutation"
                    );
                    assert!(after(&theirs) == after(&order), "{case}, {place}: an order with another outcome");
                }
                self.replay(kind, call, &order, report.blocks());
            }
            Err(Error::Body { iteration, source, .. }) if iteration == call.fails => {
                assert!(source.to_string().starts_with(&OnPurpose.to_string()), "{case}: {source}");
                let fails = |other| matches!(other, Err(Error::Body { iteration, .. }) if iteration == call.fails);
                assert!(ended.all(fails), "{case}");
            }
            Err(error) if kind.may_be_refused || is_refused(&error) => {
                assert!(ended.all(|other| other.is_err()), "{case}: {error}, but not everywhere");
            }
            Err(error) => panic!("{case}: {error}"),
        }
    }

    /// The plain loop in the claimed order; with `order = Preserve` in the loop's own as well.
    fn replay(&mut self, kind: &Kind, call: &Call, order: &[usize], blocks: usize) {
        let case = &self.case;
        let mut begins = Vec::new();
        if kind.blocks {
            begins.extend(self.worlds[0].nth.iter().unwrap().map(|nth| nth == 1));
            let found = begins[call.range.clone()].iter().filter(|&&begins| begins).count();
            assert_eq!(found, blocks, "{case}: blocks");
            assert!(order.first().is_none_or(|&first| begins[first]), "{case}: the first iteration begins no block");
        } else if call.order == Order::Preserve && order.len() < THRESHOLD / 2 {
            let mut own = self.expected.clone();
            (kind.plain)(&mut own, call, &call.range.clone().collect::<Vec<_>>(), &begins).unwrap();
            let mut claimed = self.expected.clone();
            (kind.plain)(&mut claimed, call, order, &begins).unwrap();
            assert!(own == claimed, "{case}: not the loop's own order");
        }
        let sum = (kind.plain)(&mut self.expected, call, order, &begins);
        self.sum += sum.unwrap_or_else(|error| panic!("{case}: the loop ended well, but {error}"));
    }

    /// Compares everything.
    fn look(&self) {
        let (case, expected) = (&self.case, &self.expected);
        for world in &self.worlds {
            let place = format!("{} workers, {} threads", world.session.workers(), world.session.threads());
            let found = world.state().unwrap_or_else(|error| panic!("{case}, {place}: {error}"));
            macro_rules! same {
                ($($dds:ident)*) => {$(
                    let differs = found.$dds.iter().zip(&expected.$dds).position(|(found, expected)| found != expected);
                    if let Some(at) = differs {
                        let (found, expected) = (&found.$dds[at], &expected.$dds[at]);
                        panic!("{case}, {place}: {}[{at}] is {found:?} instead of {expected:?}", stringify!($dds));
                    }
                    assert_eq!(found.$dds.len(), expected.$dds.len());
                )*};
            }
            same!(edges near texts items nth left right names);
            assert_eq!(world.sum.get(), self.sum, "{case}, {place}");
        }
        if self.worlds.iter().all(|world| world.session.workers() == 0) {
            let each = (expected.items.len() + expected.right.len()) as isize;
            assert_eq!(alive(self.slot), each * (1 + self.worlds.len() as isize), "{case}: elements alive");
        }
    }

    /// The driver writes a few elements.
    fn change(&mut self, rng: &mut Rng) {
        let State { edges, near, texts, items, left, right, .. } = &mut self.expected;
        let (n, at) = (edges.len(), rng.below(edges.len()));
        let mut item = items[at].clone();
        item.change(5);
        let (edge, text) = ([rng.below(left.len()) as u32, rng.below(right.len()) as u32], format!("set at {at}"));
        (edges[at], near[n - 1], texts[n / 2], items[at]) = (edge, 7, text.clone(), item.clone());
        right[0] = item.clone();
        for world in &mut self.worlds {
            world.edges.set(at, edge).unwrap();
            world.near.set(n - 1, 7).unwrap();
            world.texts.set(n / 2, text.clone()).unwrap();
            world.items.set(at, item.clone()).unwrap();
            world.right.set(0, item.clone()).unwrap();
        }
    }
}
