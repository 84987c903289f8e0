//! The same bits in every arrangement: 1 to 3 threads, 0 to 4 workers, elements with workers, with two servers or in files, and no fault,
//! a worker killed or a server killed. All of them with `STRADSAP_LONG=1`; otherwise a few.

use std::time::Duration;

use stradsap::prelude::*;

use crate::coloured;
use crate::common::{below, mix};
use crate::jobs::processes::{children_as, runs, signal_to, wait_for};
use crate::jobs::runner::{Test, long};
use crate::places::{ALONE, Expected, Place, at_servers, look, place};
use crate::scenarios;
use crate::seen::{Scenario, Seen};

type Result = stradsap::Result<()>;

const SCENARIOS: &[Scenario] = scenarios![bodies::ratings, bodies::topics, bodies::words, bodies::mesh];

mod bodies {
    use super::*;

    /// Matrix factorisation, as `sgdmf` does it.
    pub(super) fn ratings(session: &Session, seen: &mut Seen) -> Result {
        const RANK: usize = 16;
        let (users, items, n) = (700, 300, 20_000);
        let row = |i: usize, k: usize| (mix((i * RANK + k) as u64) % 1000) as f32 / 2000.0;
        let draw = |i: usize| (below(3 * i as u64, users) as u32, below(3 * i as u64 + 1, items) as u32, row(i, 1));
        let data = DVector::from_fn(session, n, draw)?;
        let mut p = DMatrix::from_fn(session, users, RANK, row)?;
        let mut q = DMatrix::from_fn(session, items, RANK, |i, k| row(i + users, k))?;
        for epoch in 0..5 {
            let (rate, loss) = (0.05 / (1 + epoch) as f32, session.sum(0.0));
            async_parallel_for!(0..n, [rate, &data, &mut p, &mut q, &loss], |i| {
                let (user, item, rating) = data[i];
                let (a, b) = (&mut p[user], &mut q[item]);
                let e = rating - kernels::dot(a, b);
                kernels::each_pair(a, b, |a, b| {
                    let (x, y) = (*a, *b);
                    *a += rate * (e * y - 0.05 * x);
                    *b += rate * (e * x - 0.05 * y);
                });
                loss.add(f64::from(e * e));
            })?;
            seen.record("loss", loss.get().to_bits());
        }
        seen.record("factors", (p.digest()?, q.digest()?));
        Ok(())
    }

    /// Collapsed Gibbs sampling with sparse rows and relaxed totals, as `lda` does it.
    pub(super) fn topics(session: &Session, seen: &mut Seen) -> Result {
        const TOPICS: usize = 12;
        let (documents, vocabulary, n) = (200, 150, 8_000);
        let tokens = DVector::from_fn(session, n, |t| (t * documents / n, below(t as u64, vocabulary)))?;
        let first = |t: usize| mix(t as u64) as usize % TOPICS;
        let counted = |rows: usize, row: &dyn Fn(usize) -> usize| {
            let mut counts = vec![vec![0u32; TOPICS]; rows];
            (0..n).for_each(|t| counts[row(t)][first(t)] += 1);
            counts
        };
        let of_documents = counted(documents, &|t| t * documents / n);
        let mut in_all = vec![0i64; TOPICS];
        of_documents.iter().for_each(|row| in_all.iter_mut().zip(row).for_each(|(all, n)| *all += i64::from(*n)));
        let mut topic = DVector::from_fn(session, n, first)?;
        let mut of_documents = DVector::from_vec(session, of_documents)?;
        let mut of_words = DVector::from_vec(session, counted(vocabulary, &|t| below(t as u64, vocabulary)))?;
        let totals = session.relaxed_vector(in_all);
        for epoch in 0..4u64 {
            let rng = session.rng(epoch);
            async_parallel_for!(0..n, [rng, &tokens, &mut topic, &mut of_documents, &mut of_words, &totals], |t| {
                let (document, word) = tokens[t];
                let old = topic[t];
                let (by_document, by_word) = (&mut of_documents[document], &mut of_words[word]);
                by_document[old] -= 1;
                by_word[old] -= 1;
                totals.add(old, -1);
                let weight = |k: usize| {
                    (f64::from(by_document[k]) + 0.1) * (f64::from(by_word[k]) + 0.01) / (totals[k].max(0) as f64 + 1.5)
                };
                let mut left = f64::from(rng.unit(t)) * (0..TOPICS).map(weight).sum::<f64>();
                let new = (0..TOPICS).find(|&k| {
                    left -= weight(k);
                    left <= 0.0
                });
                let new = new.unwrap_or(TOPICS - 1);
                by_document[new] += 1;
                by_word[new] += 1;
                totals.add(new, 1);
                topic[t] = new;
            })?;
            seen.record("totals", totals.to_vec());
        }
        seen.digest("topics", &topic)?;
        seen.digest("documents", &of_documents)?;
        seen.digest("words", &of_words)
    }

    /// Loops over maps: one that operators make, one that loops fill.
    pub(super) fn words(session: &Session, seen: &mut Seen) -> Result {
        let n = 12_000;
        let word = |i: usize| format!("w{}", mix(i as u64) % 1500);
        let text = DVector::from_fn(session, n, word)?;
        let counts = text.count_by_key(Clone::clone)?;
        let mut followers: DMap<String, Vec<u32>> = DMap::with_capacity(session, 1000)?;
        for epoch in 0..3usize {
            async_parallel_for!(0..n - 1, [epoch, &text, &counts, &mut followers], |i| {
                let list = followers.entry(text[i + 1].clone()).or_insert(Vec::new());
                if list.len() < 20 {
                    list.push(counts[&text[i]] as u32 + epoch as u32);
                }
            })?;
            seen.record("entries", followers.len()?);
        }
        let longest = followers.fold(0, |most: usize, (_, list)| most.max(list.len()), usize::max)?;
        seen.record("map", (followers.digest()?, counts.digest()?, longest));
        Ok(())
    }

    pub(super) fn mesh(session: &Session, seen: &mut Seen) -> Result {
        coloured::spread::gauss_seidel(session, seen)
    }
}

/// Where all the loops run, and which of the processes is killed meanwhile.
fn arrangements() -> Vec<(Place, Option<&'static str>)> {
    let mut all = Vec::new();
    for threads in 1..4 {
        all.extend([place(0, threads, 0), place(0, threads, 0).spilled()].map(|place| (place, None)));
        for workers in 1..5 {
            for fault in [None, Some("worker"), Some("server")] {
                // Snapshots are with the workers, unless a server is to be killed.
                let with_workers = place(workers, threads, if fault == Some("server") { 2 } else { 0 });
                let homes = [with_workers, at_servers(workers, threads), with_workers.spilled()];
                all.extend(homes.map(|place| (place, fault)));
            }
        }
    }
    // (Of those of a number of threads there are 38, so that each kind comes.)
    let each = if long() { 1 } else { 5 };
    all.into_iter().step_by(each).collect()
}

/// Kills one of the processes that play a role, at a moment that depends on the seed.
fn kill(role: &'static str, seed: u64) -> std::thread::JoinHandle<u32> {
    let all = children_as(std::process::id(), role);
    let victim = all[seed as usize % all.len()];
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(seed / 64 % 500));
        signal_to(victim, "KILL");
        victim
    })
}

pub(crate) fn tests() -> Vec<Test> {
    let expected = Expected::new(ALONE, Place::session);
    let test = |(k, (place, fault)): (usize, (Place, Option<&'static str>))| {
        let expected = expected.clone();
        let killed = fault.map_or_else(String::new, |role| format!(", a {role} is killed"));
        Test::new(format!("{place}{killed}"), 120, move || {
            let session = place.session();
            let killing = fault.map(|role| kill(role, mix(k as u64)));
            for scenario in SCENARIOS {
                expected.check(scenario, &look(&session, scenario));
            }
            if let Some(victim) = killing.map(|killing| killing.join().unwrap()) {
                wait_for("the killed process's end", Duration::from_secs(5), || (!runs(victim)).then_some(()));
            }
        })
    };
    arrangements().into_iter().enumerate().map(test).collect()
}
