//! Less memory than a program needs: large DDSs lie in files, in this process and on workers, and nothing else changes.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use stradsap::ClusterOptions;
use stradsap::prelude::*;

use crate::common::{below, mix, ratings};
use crate::jobs::processes::{children_as, memory, signal_to};
use crate::places::on_the_disk;
use crate::seen::{Alone, Scenario, Seen};
use crate::{alone, scenarios};

type Result = stradsap::Result<()>;

pub(crate) const SCENARIOS: &[Scenario] =
    scenarios![loops::factorisation, loops::topics, loops::in_step, loops::over_a_map, loops::coloured];

pub(crate) const ALONE: &[Alone] =
    alone![workers_stay_near_their_limit, servers_keep_snapshots_in_files, folders_are_checked];

/// Their large DDSs have a mebibyte or more.
mod loops {
    use super::*;

    /// With a loop that fails, and is undone.
    pub(crate) fn factorisation(session: &Session, seen: &mut Seen) -> Result {
        let (users, items, rank) = (5_000, 4_500, 64);
        let data = DVector::from_vec(session, ratings(100_000, users, items))?;
        let start = |i: usize, k: usize| 0.01 * below((i * rank + k) as u64, 30) as f32;
        let mut p: DMatrix<f32> = DMatrix::from_fn(session, users, rank, start)?;
        let mut q: DMatrix<f32> = DMatrix::from_fn(session, items, rank, start)?;
        for _epoch in 0..2 {
            let loss = session.sum(0.0f64);
            let report = async_parallel_for!(0..data.len(), [&data, &mut p, &mut q, &loss], |n| {
                let r = data[n];
                let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
                let e = r.stars - kernels::dot(pu, qi);
                kernels::axpy(0.01 * e, qi, pu);
                kernels::axpy(0.01 * e, pu, qi);
                loss.add(f64::from(e * e));
            })?;
            seen.report("trained", &report);
            seen.record("loss", loss.get().to_bits());
            let failed = async_parallel_for!(0..data.len(), [&data, &mut p, &mut q], |n| {
                p[data[n].user][0] += 1.0;
                q[data[n].item][0] += 1.0;
                if n == 90_000 {
                    return Err(std::io::Error::other("far on"));
                }
                Ok(())
            });
            seen.record("failed", failed.unwrap_err().to_string().contains("far on"));
            seen.record("p", p.digest()?);
            seen.record("q", q.digest()?);
        }
        Ok(())
    }

    /// Tokens that move between topics, by rows of counts of which each has all topics, and totals that are stale.
    pub(crate) fn topics(session: &Session, seen: &mut Seen) -> Result {
        let (n, documents, words, topics) = (60_000, 2_500, 3_000, 128usize);
        let tokens = DVector::from_fn(session, n, |t| {
            let (document, word) = (below(2 * t as u64, documents), below(2 * t as u64 + 1, words));
            [document as u32, word as u32, (document + word) as u32 % 128, 0, 0]
        })?;
        let mut of = DVector::from_fn(session, n, |t| [below(t as u64, topics) as u32; 5])?;
        let mut in_documents: DMatrix<i32> = DMatrix::from_fn(session, documents, topics, |_, _| 0)?;
        let mut in_words: DMatrix<i32> = DMatrix::from_fn(session, words, topics, |_, _| 0)?;
        let totals = session.relaxed_vector(vec![0i64; topics]);
        for epoch in 0..2u64 {
            let report = async_parallel_for!(
                0..n,
                [epoch, topics, &tokens, &mut of, &mut in_documents, &mut in_words, &totals],
                |t| {
                    let token = tokens[t];
                    let (document, word) = (&mut in_documents[token[0]], &mut in_words[token[1]]);
                    let old = of[t][0] as usize;
                    let other = below(epoch ^ t as u64, topics);
                    let good = |k: usize| i64::from(document[k] + 1) * i64::from(word[k] + 1) - totals[k] / 64;
                    let new = if good(other) >= good(old) { other } else { token[2] as usize };
                    (document[old], word[old]) = (document[old] - 1, word[old] - 1);
                    (document[new], word[new]) = (document[new] + 1, word[new] + 1);
                    totals.add(old, -1);
                    totals.add(new, 1);
                    of[t] = [new as u32; 5];
                }
            )?;
            seen.report("sampled", &report);
            seen.record("totals", totals.to_vec());
        }
        seen.digest("of", &of)?;
        seen.record("documents", in_documents.digest()?);
        seen.record("words", in_words.digest()?);
        Ok(())
    }

    /// Without conflicts, in the loop's own order, and of elements that own memory; operators and changes between them.
    pub(crate) fn in_step(session: &Session, seen: &mut Seen) -> Result {
        let mut line = DVector::from_fn(session, 200_000, |i| below(i as u64, 1000) as f64)?;
        let mut names = DVector::from_fn(session, 50_000, |i| format!("name {i}"))?;
        for round in 0..3 {
            async_parallel_for!(1..line.len(), [&mut line], |i| line[i] = 0.5 * line[i] + 1.0)?;
            async_parallel_for!(1..line.len(), [&mut line], |i| line[i] += 0.25 * line[i - 1], order = Preserve)?;
            async_parallel_for!(0..names.len(), [round, &mut names], |i| {
                names[i].push(char::from(b'a' + round));
            })?;
            line.set(1000 * usize::from(round), 7.0)?;
            let odd = line.filter(|x| x.to_bits() % 2 == 1).collect()?;
            seen.digest("odd", &odd.sort_by_key(|x| x.to_bits())?)?;
            seen.digest("names", &names)?;
        }
        seen.digest("line", &line)
    }

    pub(crate) fn over_a_map(session: &Session, seen: &mut Seen) -> Result {
        let keys = DVector::from_fn(session, 140_000, |i| below(i as u64, 20_000) as u64)?;
        let mut counts: DMap<u64, [u64; 4]> = DMap::new(session)?;
        for round in 0..2 {
            let report = async_parallel_for!(0..keys.len(), [round, &keys, &mut counts], |i| {
                let count = counts.entry(keys[i]).or_insert([0; 4]);
                count[i % 4] = count[i % 4].wrapping_mul(3).wrapping_add(i as u64 + round);
            })?;
            seen.report("counted", &report);
            let mut all: Vec<(u64, [u64; 4])> = counts.iter()?.collect();
            all.sort_unstable();
            let hash = all.iter().fold(7, |hash, (key, count)| count.iter().fold(mix(hash ^ key), |h, n| mix(h ^ n)));
            seen.record("counts", (all.len(), hash));
        }
        Ok(())
    }

    /// The cells of a square, each of which has the means of four others, in an order that has none of them side by side.
    pub(crate) fn coloured(session: &Session, seen: &mut Seen) -> Result {
        let side = 150;
        let mut cells = DVector::from_fn(session, side * side, |i| [below(i as u64, 1000) as f64; 8])?;
        let place = |cell: usize| cell * 7919 % (150 * 150);
        for _round in 0..3 {
            let report = async_parallel_for!(
                0..side * side,
                [side, place, &mut cells],
                |cell| {
                    let (row, column) = (cell / side, cell % side);
                    if row > 0 && row + 1 < side && column > 0 && column + 1 < side {
                        let mut sum = 0.0;
                        for beside in [cell - side, cell - 1, cell + 1, cell + side] {
                            sum += cells[place(beside)][beside % 8];
                        }
                        cells[place(cell)][cell % 8] = 0.25 * sum;
                    }
                },
                strategy = Coloured
            )?;
            seen.report("swept", &report);
        }
        seen.digest("cells", &cells)
    }
}

const MEBI: u64 = 1 << 20;

/// Several matrices, made and changed by the workers: what they leave, and the largest peak of a worker in bytes.
fn peak_of_workers(limit: Option<u64>) -> (Vec<String>, u64) {
    let (rows, width) = (400_000, 32);
    let session = Session::builder().threads(1).verify(false).explain(false).build().unwrap();
    session.start_workers(&ClusterOptions::new(2).threads(1).driver_memory(0).snapshot_every(2)).unwrap();
    if let Some(limit) = limit {
        session.set_memory(limit, on_the_disk()).unwrap();
    }
    let workers = children_as(std::process::id(), "worker");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A worker's pages of its own program are shared by all, so the peak that the system keeps says too much.
        let watching = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Relaxed) {
                most = workers.iter().filter_map(|&pid| Some(memory(pid)?.1 << 10)).fold(most, u64::max);
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            most
        });
        let train = || -> stradsap::Result<Vec<String>> {
            let make = |k: usize| with!([k], session.range(rows).map(|i| [(*i + k) as f32; 32])).collect_rows(width);
            let mut all: Vec<DMatrix<f32>> = (0..3).map(make).collect::<stradsap::Result<_>>()?;
            for step in 0..4u32 {
                let (first, others) = all.split_first_mut().unwrap();
                for x in others {
                    async_parallel_for!(0..rows, [step, &mut *first, &mut x], |i| {
                        first[i][1] = 0.5 * first[i][1] + step as f32;
                        x[i][2] += first[i][1];
                    })?;
                }
            }
            all.iter().map(DMatrix::digest).collect()
        };
        let left = train();
        over.store(true, Relaxed);
        (left.unwrap(), watching.join().unwrap())
    })
}

fn workers_stay_near_their_limit() {
    let limit = 64 * MEBI;
    let (expected, free) = peak_of_workers(None);
    let (found, limited) = peak_of_workers(Some(limit));
    assert_eq!(found, expected);
    eprintln!("a worker's peak: {} MiB without a limit, {} MiB with one of 64", free / MEBI, limited / MEBI);
    assert!(free > 5 * limit, "{free} bytes without a limit");
    // What is written between two looks at memory, and pieces of snapshots that arrive, are added for moments.
    assert!(limited < 2 * limit, "{limited} bytes with a limit of {limit}");
}

/// A server that the driver starts has a snapshot in a file, from which a worker that is killed is replaced.
fn servers_keep_snapshots_in_files() {
    let folder = tempfile::tempdir_in(on_the_disk()).unwrap();
    let session = Session::builder().threads(1).verify(false).explain(false).build().unwrap();
    session.set_memory(MEBI, folder.path()).unwrap();
    session.start_workers(&ClusterOptions::new(2).threads(1).dds_servers(1).snapshot_every(1)).unwrap();
    let mut x = DVector::from_fn(&session, 400_000, |i| i as f64).unwrap();
    for round in 0..3 {
        async_parallel_for!(0..x.len(), [round, &mut x], |i| x[i] = 0.5 * x[i] + f64::from(round)).unwrap();
        let workers = children_as(std::process::id(), "worker");
        let servers = children_as(std::process::id(), "server");
        assert_eq!((workers.len(), servers.len()), (2, 1));
        let files = std::fs::read_dir(format!("/proc/{}/fd", servers[0])).unwrap();
        let links = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        assert!(links.filter(|file| file.starts_with(folder.path())).count() > 0, "round {round}");
        signal_to(workers[1], "KILL");
    }
    let expected = |i: usize| (0..3).fold(i as f64, |x, round| 0.5 * x + f64::from(round));
    assert!(x.to_vec().unwrap().into_iter().eq((0..400_000).map(expected)));
}

/// A folder that doesn't exist is refused before workers hear of it.
fn folders_are_checked() {
    let session = Session::builder().threads(1).verify(false).explain(false).build().unwrap();
    session.start_workers(&ClusterOptions::new(1).threads(1)).unwrap();
    let absent = on_the_disk().join("no such folder");
    let error = session.set_memory(MEBI, &absent).unwrap_err();
    assert!(error.to_string().starts_with(&absent.display().to_string()), "{error}");
    assert_eq!(DVector::from_fn(&session, 10, |i| i).unwrap().get(3).unwrap(), 3);
}
