//! Loops of several kinds on the same DVectors: each body stands here once, and runs on views and on plain vectors.

use std::ops::Range;
use std::rc::Rc;

use stradsap::Result;
use stradsap::prelude::*;

use super::items::{Item, alive};
use super::program::{Rng, mix};
use super::running::{OnPurpose, Plain};

/// What loops work on, as plain vectors. The first five have an element an iteration.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct State {
    pub(crate) edges: Vec<[u32; 2]>,
    pub(crate) near: Vec<u64>,
    pub(crate) texts: Vec<String>,
    pub(crate) items: Vec<Item>,
    /// Which iteration of its block each was, counted from 1, in the last loop with `scratch`.
    pub(crate) nth: Vec<u32>,
    pub(crate) left: Vec<[u32; 3]>,
    pub(crate) right: Vec<Item>,
    pub(crate) names: Vec<String>,
}

impl State {
    pub(crate) fn new(rng: &mut Rng, n: usize, slot: u32) -> State {
        let rows = [1 + rng.below(n.min(700) + 3), 1 + rng.below(n.min(300) + 3), 1 + rng.below(9)];
        State {
            edges: (0..n).map(|_| [rng.below(rows[0]) as u32, rng.below(rows[1]) as u32]).collect(),
            near: (0..n as u64).map(mix).collect(),
            texts: (0..n).map(|i| format!("text {i}, too long to be anywhere but on the heap")).collect(),
            items: (0..n as u64).map(|i| Item::new(slot, i)).collect(),
            nth: vec![0; n],
            left: (0..rows[0] as u32).map(|i| [i, 1, 2]).collect(),
            right: (0..rows[1] as u64).map(|i| Item::new(slot, i)).collect(),
            names: (0..rows[2]).map(|i| format!("name {i}")).collect(),
        }
    }
}

/// The same of one session.
pub(crate) struct World {
    pub(crate) edges: DVector<[u32; 2]>,
    pub(crate) near: DVector<u64>,
    pub(crate) texts: DVector<String>,
    pub(crate) items: DVector<Item>,
    pub(crate) nth: DVector<u32>,
    pub(crate) left: DVector<[u32; 3]>,
    pub(crate) right: DVector<Item>,
    pub(crate) names: DVector<String>,
    pub(crate) sum: stradsap::Sum<u64>,
    pub(crate) session: Rc<Session>,
}

impl World {
    pub(crate) fn new(session: &Rc<Session>, state: &State) -> Result<World> {
        Ok(World {
            edges: DVector::from_vec(session, state.edges.clone())?,
            near: DVector::from_vec(session, state.near.clone())?,
            texts: DVector::from_vec(session, state.texts.clone())?,
            items: DVector::from_vec(session, state.items.clone())?,
            nth: DVector::from_vec(session, state.nth.clone())?,
            left: DVector::from_vec(session, state.left.clone())?,
            right: DVector::from_vec(session, state.right.clone())?,
            names: DVector::from_vec(session, state.names.clone())?,
            sum: session.sum(0),
            session: Rc::clone(session),
        })
    }

    pub(crate) fn state(&self) -> Result<State> {
        Ok(State {
            edges: self.edges.to_vec()?,
            near: self.near.to_vec()?,
            texts: self.texts.to_vec()?,
            items: self.items.to_vec()?,
            nth: self.nth.to_vec()?,
            left: self.left.to_vec()?,
            right: self.right.to_vec()?,
            names: self.names.to_vec()?,
        })
    }
}

/// One call of a loop.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) range: Range<usize>,
    pub(crate) order: Order,
    pub(crate) parts: usize,
    pub(crate) salt: u64,
    pub(crate) slot: u32,
    /// The iteration that fails, if it is in the range.
    pub(crate) fails: usize,
}

type PlainLoop = fn(&mut State, &Call, order: &[usize], begins: &[bool]) -> std::result::Result<u64, OnPurpose>;

/// A kind of loop.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Whether it has `scratch`, so that results depend on where blocks begin.
    pub(crate) blocks: bool,
    /// Whether `scratch` touches what belongs to single iterations: the loop may then end with an error.
    pub(crate) may_be_refused: bool,
    pub(crate) run: fn(&mut World, &Call) -> Result<LoopReport>,
    /// Iterations in an order; of each index whether a block begins with it; gives what the reduction counts.
    pub(crate) plain: PlainLoop,
}

/// Per block: what it began with, and how many iterations it has had.
pub(crate) struct Run {
    start: u64,
    nth: u32,
    words: Vec<String>,
}

impl Run {
    fn new(start: u64) -> Run {
        Run { start, nth: 0, words: vec![format!("a block began with {start}")] }
    }

    fn next(&mut self) -> u32 {
        self.nth += 1;
        self.words.push(String::new());
        self.nth
    }
}

macro_rules! kind {
    ($name:ident, [$($value:ident),*], [$($read:ident),*], [$($write:ident),*], $sum:ident, |$n:ident| {$($body:tt)*}) => {
        Kind {
            name: stringify!($name),
            blocks: false,
            may_be_refused: false,
            run: |world, call| {
                let World { $($read,)* $($write,)* sum: $sum, .. } = world;
                let Call { range, order, parts, $($value,)* .. } = call.clone();
                async_parallel_for!(range, [$($value,)* $(&$read,)* $(&mut $write,)* &$sum], |$n| {
                    $($body)*
                    Ok::<(), OnPurpose>(())
                }, order = order, parts = parts)
            },
            plain: |state, call, order, _| {
                let State { $($read,)* $($write,)* .. } = state;
                let Call { $($value,)* .. } = call.clone();
                let mut $sum = Plain(0u64);
                for &$n in order {
                    $($body)*
                }
                Ok($sum.0)
            },
        }
    };
    // Cut as the loop itself suggests, with options; and with what it only adds to.
    (
        with {$($option:tt)*} $name:ident, [$($value:ident),*], [$($read:ident),*], [$($write:ident),*], [$($tally:ident),*], $sum:ident,
        |$n:ident| {$($body:tt)*}
    ) => {
        Kind {
            name: stringify!($name),
            blocks: false,
            may_be_refused: false,
            run: |world, call| {
                let World { $($read,)* $($write,)* $($tally,)* sum: $sum, .. } = world;
                let Call { range, order, $($value,)* .. } = call.clone();
                async_parallel_for!(range, [$($value,)* $(&$read,)* $(&mut $write,)* $(sum $tally,)* &$sum], |$n| {
                    $($body)*
                    Ok::<(), OnPurpose>(())
                }, order = order, $($option)*)
            },
            plain: |state, call, order, _| {
                let State { $($read,)* $($write,)* $($tally,)* .. } = state;
                let Call { $($value,)* .. } = call.clone();
                let mut $sum = Plain(0u64);
                for &$n in order {
                    $($body)*
                }
                Ok($sum.0)
            },
        }
    };
    (
        $name:ident, $may_be_refused:expr, [$($value:ident),*], [$($read:ident),*], [$($write:ident),*], $sum:ident,
        |$n:ident, $run:ident| {$($body:tt)*}, scratch = {$($scratch:tt)*}
    ) => {
        Kind {
            name: stringify!($name),
            blocks: true,
            may_be_refused: $may_be_refused,
            run: |world, call| {
                let World { $($read,)* $($write,)* sum: $sum, .. } = world;
                let Call { range, order, parts, $($value,)* .. } = call.clone();
                async_parallel_for!(range, [$($value,)* $(&$read,)* $(&mut $write,)* &$sum], |$n, $run| {
                    $($body)*
                }, scratch = {$($scratch)*}, order = order, parts = parts)
            },
            plain: |state, call, order, begins| {
                let State { $($read,)* $($write,)* .. } = state;
                let Call { $($value,)* .. } = call.clone();
                let mut $sum = Plain(0u64);
                let mut own: Option<Run> = None;
                for &$n in order {
                    if begins[$n] {
                        own = Some({$($scratch)*});
                    }
                    let $run = own.as_mut().expect("a block begins with the first iteration of all");
                    $($body)*
                }
                Ok($sum.0)
            },
        }
    };
}

pub(crate) const KINDS: &[Kind] = &[
    kind!(scatter, [salt], [edges, near, texts], [left, right], sum, |n| {
        let [a, b] = edges[n].map(|k| k as usize);
        let by = mix(near[n] ^ salt ^ texts[n].len() as u64);
        left[a][(by % 3) as usize] ^= by as u32;
        right[b].change(by ^ u64::from(left[a][0]));
        sum.add(by % 1000);
    }),
    kind!(in_step, [salt, slot], [edges, left], [near, texts, items], sum, |n| {
        let by = mix(u64::from(left[edges[n][0] as usize][1]) ^ near[n] ^ salt);
        near[n] = by;
        texts[n].push(char::from(b'a' + (by % 26) as u8));
        if by.is_multiple_of(5) {
            texts[n] = format!("another text of iteration {n}, on the heap again: {by}");
            items[n] = Item::new(slot, by);
        }
        items[n].change(texts[n].len() as u64);
        sum.add(items[n].sum() % 1000);
    }),
    kind!(by_index, [salt], [near, texts, items], [names, left], sum, |n| {
        let at = mix(n as u64 ^ salt) as usize;
        let by = near[at % near.len()] ^ items[(n * 7 + 3) % items.len()].sum();
        let (a, b) = (at % left.len(), at % names.len());
        let name = &mut names[b];
        name.push(texts[(at / 3) % texts.len()].chars().next_back().unwrap_or('-'));
        if name.len() > 20 {
            *name = format!("{by}");
        }
        left[a][1] = (by as u32).wrapping_add(name.len() as u32);
        sum.add(by % 1000);
    }),
    kind!(items_by_index, [salt, slot], [texts], [items], sum, |n| {
        let at = (n + salt as usize % 3) % items.len();
        items[at].change(texts[n].len() as u64);
        if (n as u64 ^ salt).is_multiple_of(11) {
            items[n / 2] = Item::new(slot, salt);
        }
        sum.add(1);
    }),
    kind!(neighbours, [salt], [items], [near], sum, |n| {
        let next = near[(n + 1) % near.len()];
        near[n] = mix(near[n] ^ next.rotate_left(3) ^ items[n].sum() ^ salt);
        sum.add(near[n] % 1000);
    }),
    kind!(far, [salt], [edges], [near, names], sum, |n| {
        // Where it goes depends on what others wrote: no recording can foresee it.
        let at = if n % 50 == 7 { near[n] as usize % near.len() } else { n };
        near[at] = mix(near[at] ^ u64::from(edges[n][1]) ^ salt);
        if n % 64 == 3 {
            let at = edges[n][0] as usize % names.len();
            let name = &mut names[at];
            *name = format!("{name}{n}").chars().rev().take(15).collect();
        }
        sum.add(1);
    }),
    kind!(failing, [salt, fails], [edges, near], [texts, right], sum, |n| {
        texts[n].insert(0, 'x');
        right[edges[n][1] as usize].change(near[n] ^ salt);
        sum.add(1);
        if n == fails {
            return Err(OnPurpose);
        }
    }),
    kind!(
        scratch_of_values,
        false,
        [salt],
        [edges, near],
        [left, nth],
        sum,
        |n, run| {
            nth[n] = run.next();
            let a = edges[n][0] as usize;
            left[a][2] ^= (mix(near[n] ^ run.start) as u32).wrapping_add(nth[n]);
            sum.add(run.words.len() as u64);
        },
        scratch = { Run::new(salt) }
    ),
    kind!(
        scratch_that_reads,
        false,
        [salt],
        [edges, right, names],
        [texts, left, nth],
        sum,
        |n, run| {
            nth[n] = run.next();
            let [a, b] = edges[n].map(|k| k as usize);
            left[a][0] = left[a][0].wrapping_mul(31) ^ (right[b].sum() ^ run.start) as u32;
            texts[n] = format!("{} {} {}", run.words[0], nth[n], left[a][0]);
            sum.add(1);
        },
        scratch = { Run::new(salt ^ right[salt as usize % right.len()].sum() ^ names[0usize].len() as u64) }
    ),
    // Rows of 20 or 33: tiled in one process, if in order.
    kind!(with { grain = 24 } table, [salt, fails], [items], [near], [], sum, |n| {
        let width = 20 + salt as usize % 2 * 13;
        if n >= width && n % width > 0 {
            near[n] = mix(near[n] ^ near[n - width].rotate_left(5) ^ near[n - 1] ^ items[n].sum());
        }
        sum.add(near[n] % 1000);
        if n == fails && salt == 3 {
            return Err(OnPurpose);
        }
    }),
    kind!(with { grain = 16 } table_with_odd_cells, [salt], [edges], [near, texts], [], sum, |n| {
        let width = 15 + salt as usize % 3;
        if n >= width && n % width > 0 {
            // Nobody can foresee where these go.
            let above = if n % 701 == 300 { near[n] as usize % near.len() } else { n - width };
            near[n] = mix(near[above] ^ near[n - 1] ^ u64::from(edges[n][0]));
            near[above] ^= 1;
        }
        if n % 100 == 7 {
            texts[n].push('o');
        }
        sum.add(near[n] % 1000);
    }),
    kind!(with { grain = 40 } tallied_where_values_say, [salt], [edges], [near], [nth], sum, |n| {
        near[n] = mix(near[n] ^ salt);
        if near[n].is_multiple_of(3) {
            let at = edges[n][1] as usize % nth.len();
            nth[at] += 1;
        }
        sum.add(near[n] % 1000);
    }),
    kind!(with { grain = 20 } tallied_beside_a_table, [salt, fails], [edges], [near], [nth], sum, |n| {
        let width = 25;
        if n > width {
            near[n] = mix(near[n] ^ near[n - width].rotate_left(3) ^ near[n - 1] ^ salt);
        }
        let at = edges[n][0] as usize % nth.len();
        nth[at] += 2;
        sum.add(1);
        if n == fails && salt == 1 {
            return Err(OnPurpose);
        }
    }),
    Kind {
        name: "from_before_the_loop",
        blocks: false,
        may_be_refused: false,
        run: |world, call| {
            let World { near, sum, .. } = world;
            let Call { range, order, salt, .. } = call.clone();
            async_parallel_for!(
                range,
                [salt, &mut near, &sum],
                |n| {
                    let (before, after) = (near.old[n - (n > 0) as usize], near.old[(n + 1) % near.len()]);
                    near[n] = mix(near[n] ^ before.rotate_left(9) ^ after.rotate_left(3) ^ salt);
                    sum.add(near[n] % 1000);
                },
                order = order
            )
        },
        plain: |State { near, .. }, &Call { salt, .. }, order, _| {
            let old = near.clone();
            let mut sum = 0;
            for &n in order {
                let (before, after) = (old[n - (n > 0) as usize], old[(n + 1) % old.len()]);
                near[n] = mix(near[n] ^ before.rotate_left(9) ^ after.rotate_left(3) ^ salt);
                sum += near[n] % 1000;
            }
            Ok(sum)
        },
    },
];

/// Those whose `scratch` writes, or touches what belongs to single iterations.
pub(crate) const BOLD: &[Kind] = &[
    kind!(
        scratch_that_writes,
        false,
        [salt],
        [edges, near],
        [left, nth, names],
        sum,
        |n, run| {
            nth[n] = run.next();
            let a = edges[n][0] as usize;
            left[a][2] ^= (mix(near[n]) as u32) ^ run.start as u32;
            sum.add(1);
        },
        scratch = {
            names[0usize] = format!("{:.12} and so on", names[0usize].chars().rev().collect::<String>());
            Run::new(salt ^ names[0usize].len() as u64)
        }
    ),
    kind!(
        scratch_that_reads_in_step,
        true,
        [salt],
        [edges, near],
        [left, nth],
        sum,
        |n, run| {
            nth[n] = run.next();
            left[edges[n][0] as usize][0] ^= (near[n] ^ run.start) as u32;
            sum.add(1);
        },
        scratch = { Run::new(near[salt as usize % near.len()]) }
    ),
    kind!(
        scratch_that_writes_in_step,
        true,
        [salt, slot],
        [edges],
        [items, texts, left, nth],
        sum,
        |n, run| {
            nth[n] = run.next();
            left[edges[n][0] as usize][0] ^= (items[n].sum() ^ run.start) as u32;
            texts[n] = format!("iteration {n} of a block that began with {}", run.start);
            items[n] = Item::new(slot, run.start);
            sum.add(1);
        },
        scratch = {
            let at = salt as usize % items.len();
            items[at].change(salt);
            texts[at] = format!("a block wrote this, {salt}");
            Run::new(items[at].sum())
        }
    ),
];

/// Asserts that no process of the sessions has any of these elements left, once no snapshot needs them.
pub(crate) fn assert_none_alive(sessions: &[Rc<Session>], slot: u32, case: &str) {
    let count = |session: &Rc<Session>, rounds: usize| {
        let mut left = DVector::from_fn(session, 64, |_| 0i64).unwrap();
        for _ in 0..rounds {
            async_parallel_for!(0..64, [slot, &mut left], |i| left[i] = alive(slot) as i64, parts = 8).unwrap();
        }
        left.to_vec().unwrap()
    };
    // Drivers are this process, all of them: first each gets to its next snapshot.
    sessions.iter().filter(|session| session.workers() > 0).for_each(|session| drop(count(session, 8)));
    assert_eq!(alive(slot), 0, "{case}: elements are left");
    for session in sessions {
        assert_eq!(count(session, 1), [0; 64], "{case}: elements are left, {} workers", session.workers());
    }
}
