//! A program of loops, and its sequential twin.

use std::time::Duration;

use stradsap::prelude::*;
use stradsap_dds_server::simulation::World;
use stradsap_dds_server::simulation::random::Random;
use stradsap_dds_server::tasks;

use crate::plan::Plan;

/// Spreads numbers.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// What the program works on.
struct State {
    pairs: DVector<[u32; 2]>,
    x: DVector<u64>,
    y: DVector<u64>,
    words: DVector<String>,
    counts: DVector<u64>,
    batches: DVector<u32>,
}

/// The same in one piece of memory.
#[derive(Clone)]
struct Twin {
    pairs: Vec<[u32; 2]>,
    x: Vec<u64>,
    y: Vec<u64>,
    words: Vec<String>,
    counts: Vec<u64>,
    batches: Vec<u32>,
}

impl Twin {
    fn random(random: &mut Random) -> Twin {
        let (n, rows, columns) = (random.of(1..=60), random.of(1..=24), random.of(1..=24));
        let pairs = (0..n).map(|_| [random.of(0..=rows - 1) as u32, random.of(0..=columns - 1) as u32]).collect();
        Twin {
            pairs,
            x: (0..rows).map(|_| random.any()).collect(),
            y: (0..columns).map(|_| random.any()).collect(),
            words: (0..rows).map(|k| format!("w{k}")).collect(),
            counts: (0..columns).collect(),
            batches: (0..n).map(|_| random.of(0..=columns - 1) as u32).collect(),
        }
    }

    fn distribute(&self, session: &Session) -> stradsap::Result<State> {
        Ok(State {
            pairs: DVector::from_vec(session, self.pairs.clone())?,
            x: DVector::from_vec(session, self.x.clone())?,
            y: DVector::from_vec(session, self.y.clone())?,
            words: DVector::from_vec(session, self.words.clone())?,
            counts: DVector::from_vec(session, self.counts.clone())?,
            batches: DVector::from_vec(session, self.batches.clone())?,
        })
    }

    fn compare(&self, state: &State, after: &str) -> stradsap::Result<()> {
        assert_eq!(state.x.to_vec()?, self.x, "x after {after}");
        assert_eq!(state.y.to_vec()?, self.y, "y after {after}");
        assert_eq!(state.words.to_vec()?, self.words, "words after {after}");
        assert_eq!(state.counts.to_vec()?, self.counts, "counts after {after}");
        Ok(())
    }
}

/// More steps than this take long.
const MOST_STEPS: u64 = 60;

/// Runs the program of a plan on a session, beside its twin.
pub(crate) fn run(session: &Session, world: &World, plan: &Plan) -> stradsap::Result<()> {
    let mut random = plan.program.clone();
    let mut twin = Twin::random(&mut random);
    let mut state = twin.distribute(session)?;
    let steps = random.of(2..=10);
    let last = plan.faults.iter().map(|&(at, _)| at).max().unwrap_or(0);
    let mut step = 0;
    // Whatever goes wrong does so while the program runs.
    while step < steps || (step < MOST_STEPS && world.now().as_millis() as u64 <= last) {
        step += 1;
        let kind = random.of(0..=9);
        let salt = random.any();
        let done = match kind {
            0 | 1 => entangled(session, &mut state, &mut twin, salt)?,
            2 => in_step(&mut state, &mut twin, salt)?,
            3 => strings(&mut state, &mut twin, salt)?,
            4 => fails(&mut state, salt)?,
            5 | 6 => counted(session, &mut state, &mut twin, (kind == 6, &mut random))?,
            7 => bounded(session, plan, &mut random)?,
            8 => written(&mut state, &mut twin, salt)?,
            _ => relaxed(session, &mut state, &mut twin, salt)?,
        };
        if random.once_in(4) {
            twin.compare(&state, &format!("step {step}, {done}"))?;
        }
        if random.once_in(3) {
            tasks::pause(Duration::from_millis(random.of(0..=2_000)));
        }
    }
    twin.compare(&state, "the last step")
}

/// Iterations that touch what others do: the twin runs them in the order that the report gives.
fn entangled(session: &Session, state: &mut State, twin: &mut Twin, salt: u64) -> stradsap::Result<&'static str> {
    let State { pairs, x, y, .. } = state;
    let count = session.count();
    let report = async_parallel_for!(0..pairs.len(), [salt, &pairs, &mut *x, &mut *y, &count], |i| {
        let [a, b] = pairs[i];
        x[a] = mix(x[a] ^ y[b] ^ salt);
        y[b] = y[b].wrapping_mul(3).wrapping_add(x[a]);
        count.add(1);
    })?;
    let order: Vec<usize> = report.serial_order().collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..twin.pairs.len()), "each iteration once");
    for i in order {
        let [a, b] = twin.pairs[i].map(|k| k as usize);
        twin.x[a] = mix(twin.x[a] ^ twin.y[b] ^ salt);
        twin.y[b] = twin.y[b].wrapping_mul(3).wrapping_add(twin.x[a]);
    }
    assert_eq!(count.get(), twin.pairs.len() as u64, "what iterations have added");
    Ok("a loop over pairs")
}

/// Iterations that have nothing to do with each other.
fn in_step(state: &mut State, twin: &mut Twin, salt: u64) -> stradsap::Result<&'static str> {
    let State { x, .. } = state;
    async_parallel_for!(0..x.len(), [salt, &mut *x], |i| x[i] = mix(x[i] ^ salt))?;
    twin.x.iter_mut().for_each(|x| *x = mix(*x ^ salt));
    Ok("a loop in step")
}

/// Elements that are not plain.
fn strings(state: &mut State, twin: &mut Twin, salt: u64) -> stradsap::Result<&'static str> {
    let State { pairs, words, y, .. } = state;
    let report = async_parallel_for!(0..pairs.len(), [salt, &pairs, &mut *words, &y], |i| {
        let [a, b] = pairs[i];
        let letter = b'a' + (mix(y[b] ^ salt) % 26) as u8;
        words[a].push(letter as char);
        if words[a].len() > 20 {
            words[a].clear();
        }
    })?;
    for i in report.serial_order() {
        let [a, b] = twin.pairs[i].map(|k| k as usize);
        let letter = b'a' + (mix(twin.y[b] ^ salt) % 26) as u8;
        twin.words[a].push(letter as char);
        if twin.words[a].len() > 20 {
            twin.words[a].clear();
        }
    }
    Ok("a loop over strings")
}

/// A loop whose body fails somewhere: nothing has changed after it.
fn fails(state: &mut State, salt: u64) -> stradsap::Result<&'static str> {
    let State { pairs, x, y, .. } = state;
    let at = (salt % pairs.len() as u64) as usize;
    let ended = async_parallel_for!(0..pairs.len(), [salt, at, &pairs, &mut *x, &mut *y], |i| {
        let [a, b] = pairs[i];
        x[a] = mix(x[a] ^ y[b] ^ salt);
        y[b] = y[b].wrapping_add(x[a]);
        if i == at {
            return Err(std::io::Error::other("on purpose"));
        }
        Ok(())
    });
    match ended {
        Err(stradsap::Error::Body { iteration, .. }) => assert_eq!(iteration, at),
        Err(other) => return Err(other),
        Ok(_) => panic!("iteration {at} fails"),
    }
    Ok("a loop that fails")
}

/// Copies that meet: each change counts once. From the second call on rows are with their keepers, and go back there when a loop of the
/// other kind has moved them.
fn counted(
    session: &Session,
    state: &mut State,
    twin: &mut Twin,
    (in_turns, random): (bool, &mut Random),
) -> stradsap::Result<&'static str> {
    let State { batches, counts, .. } = state;
    let policies = [SyncPolicy::Bsp, SyncPolicy::Ssp { staleness: 1 }, SyncPolicy::Ssp { staleness: 0 }];
    let (policy, size) = (*random.one_of(&policies), random.of(1..=7) as usize);
    for time in 0..if in_turns { 3 } else { 1 } {
        if time == 2 {
            async_parallel_for!(0..counts.len(), [&mut *counts], |i| counts[i] = 3 * counts[i] + 1)?;
            twin.counts.iter_mut().for_each(|count| *count = 3 * *count + 1);
        }
        let all = session.count();
        sync_parallel_for!(
            batches,
            size,
            [&mut *counts, &all],
            |batch| {
                for &row in batch {
                    counts[row].add(1);
                    all.add(1);
                }
            },
            policy
        )?;
        twin.batches.iter().for_each(|&row| twin.counts[row as usize] += 1);
        assert_eq!(all.get(), twin.batches.len() as u64, "what minibatches have added under {policy:?}");
    }
    Ok("minibatches")
}

/// The bound of `Ssp`, as bodies see it: each minibatch adds 1 to its copy's own clock.
fn bounded(session: &Session, plan: &Plan, random: &mut Random) -> stradsap::Result<&'static str> {
    let (copies, staleness, each) = (plan.workers, random.of(0..=3) as usize, random.of(1..=12) as usize);
    let input = DVector::from_fn(session, each * copies, |i| i as u32)?;
    let mut clocks = DVector::from_fn(session, copies, |_| 0u64)?;
    let wrong = session.count();
    let report = sync_parallel_for!(
        input,
        1,
        [staleness, copies, &mut clocks, &wrong],
        |batch| {
            let (me, clock) = (batch.number() % copies, (batch.number() / copies) as u64);
            for copy in 0..copies {
                let seen = clocks[copy].get();
                if seen < clock.saturating_sub(staleness as u64) || (copy == me && seen != clock) {
                    wrong.add(1);
                }
            }
            clocks[me].add(1);
        },
        SyncPolicy::Ssp { staleness }
    )?;
    // After a loss there may be fewer copies than the body takes there to be.
    if report.copies() == copies {
        assert_eq!(wrong.get(), 0, "clocks that were older than {staleness}");
    }
    assert!(report.staleness_seen() <= staleness as u64, "{} instead of {staleness}", report.staleness_seen());
    assert_eq!(clocks.to_vec()?, vec![each as u64; copies]);
    Ok("minibatches within a bound")
}

/// The program's own code writes between loops.
fn written(state: &mut State, twin: &mut Twin, salt: u64) -> stradsap::Result<&'static str> {
    let at = (salt % twin.x.len() as u64) as usize;
    state.x.set(at, salt)?;
    twin.x[at] = salt;
    assert_eq!(state.y.get(0)?, twin.y[0]);
    Ok("a write")
}

/// Additions whose order means nothing.
fn relaxed(session: &Session, state: &mut State, twin: &mut Twin, salt: u64) -> stradsap::Result<&'static str> {
    let State { pairs, y, .. } = state;
    let sums = session.relaxed_vector(vec![0i64; 3]);
    let report = async_parallel_for!(0..pairs.len(), [salt, &pairs, &mut *y, &sums], |i| {
        let [a, b] = pairs[i];
        y[b] = mix(y[b] ^ salt);
        sums.add(a as usize % 3, 1);
    })?;
    let mut expected = vec![0i64; 3];
    for i in report.serial_order() {
        let [a, b] = twin.pairs[i].map(|k| k as usize);
        twin.y[b] = mix(twin.y[b] ^ salt);
        expected[a % 3] += 1;
    }
    assert_eq!(sums.to_vec(), expected, "relaxed sums");
    Ok("a loop with relaxed sums")
}
