//! DDS servers as the home of elements: what workers have between calls, and what is refused.

use stradsap::prelude::*;

use crate::jobs::processes::{children_as, memory, memory_of_files, signal_to};
use crate::seen::Alone;

pub(crate) const ALONE: &[Alone] = &[
    ("workers have no elements between calls", no_elements_between_calls),
    ("workers have no texts between calls", no_texts_between_calls),
    ("texts that the driver has made are with the servers", texts_are_given_up),
    ("what is only read stays with workers", what_is_read_stays),
    ("workers have few elements in a call", few_elements_in_a_call),
    ("rows that pass through workers are freed", rows_pass_through),
    ("a call that fails late leaves what it had stored", fails_late),
    ("without servers it is refused", refused_without_servers),
];

/// 64 MiB.
const LEN: usize = 8 << 20;

fn session(homes: Homes) -> Session {
    let session = Session::builder().threads(1).explain(false).build().unwrap();
    session.start_workers(&ClusterOptions::new(2).threads(1).dds_servers(2).homes(homes)).unwrap();
    session
}

/// KiB of all workers' memory, without their program's own pages.
fn memory_of_workers() -> u64 {
    let workers = children_as(std::process::id(), "worker");
    assert_eq!(workers.len(), 2);
    workers.into_iter().map(|pid| memory(pid).unwrap().1 - memory_of_files(pid).unwrap()).sum()
}

/// KiB of the peak of one of two workers' memory while something is done, without their program's own pages.
fn peak_of_workers(something: impl FnOnce()) -> u64 {
    let workers = children_as(std::process::id(), "worker");
    assert_eq!(workers.len(), 2);
    // Their peaks are those from now on.
    workers.iter().for_each(|pid| std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap());
    something();
    let peak = |pid: u32| memory(pid).unwrap().0.saturating_sub(memory_of_files(pid).unwrap());
    workers.into_iter().map(peak).max().unwrap()
}

fn no_elements_between_calls() {
    let run = |homes| {
        let session = session(homes);
        let mut x = session.range(LEN).map(|i| *i as f64).collect().unwrap();
        for _ in 0..3 {
            async_parallel_for!(0..x.len(), [&mut x], |i| {
                x[i] = 0.5 * x[i] + 1.0;
            })
            .unwrap();
        }
        let workers = memory_of_workers();
        (workers, x.digest().unwrap())
    };
    let (here, digest) = run(Homes::Workers);
    let (away, same) = run(Homes::Servers);
    assert_eq!(same, digest);
    let mebibytes = [here, away].map(|kib| kib >> 10);
    assert!(here >= away + (48 << 10), "{mebibytes:?} MiB with elements at workers and at servers");
}

/// 64 MiB of 256 texts.
fn text(i: usize) -> String {
    format!("{i:0>65535}").repeat(4)
}

fn no_texts_between_calls() {
    let run = |homes| {
        let session = session(homes);
        let mut texts = session.range(256).map(|i| text(*i)).collect().unwrap();
        for _ in 0..2 {
            async_parallel_for!(0..texts.len(), [&mut texts], |i| texts[i].push('.')).unwrap();
        }
        let workers = memory_of_workers();
        (workers, texts.get(77).unwrap(), texts.digest().unwrap())
    };
    let (here, one, digest) = run(Homes::Workers);
    let (away, other, same) = run(Homes::Servers);
    assert!(one == text(77) + ".." && one == other && same == digest);
    let mebibytes = [here, away].map(|kib| kib >> 10);
    assert!(here >= away + (40 << 10), "{mebibytes:?} MiB with texts at workers and at servers");
}

fn texts_are_given_up() {
    let session = session(Homes::Servers);
    let own = std::process::id();
    let mut texts = DVector::from_vec(&session, (0..256).map(text).collect()).unwrap();
    let (digest, before) = (texts.digest().unwrap(), memory(own).unwrap().1);
    let mut lengths = DVector::from_vec(&session, vec![0; 256]).unwrap();
    async_parallel_for!(0..256, [&texts, &mut lengths], |i| lengths[i] = texts[i].len()).unwrap();
    let after = memory(own).unwrap().1;
    assert!(before >= after + (40 << 10), "{before} KiB have become {after}");
    assert!(lengths.to_vec().unwrap() == vec![4 * 65_535; 256] && texts.get(3).unwrap() == text(3));
    assert_eq!(texts.digest().unwrap(), digest);
    texts.set(3, "three".to_string()).unwrap();
    async_parallel_for!(0..256, [&texts, &mut lengths], |i| lengths[i] = texts[i].len()).unwrap();
    assert_eq!((lengths.get(3).unwrap(), lengths.get(4).unwrap()), (5, 4 * 65_535));
}

/// What a call has changed is sent to those that read it, once.
fn what_is_read_stays() {
    let session = session(Homes::Servers);
    let mut table = DVector::from_vec(&session, (0..LEN as u64 / 8).collect::<Vec<u64>>()).unwrap();
    async_parallel_for!(0..table.len(), [&mut table], |i| table[i] *= 3).unwrap();
    let mut sums = DVector::from_vec(&session, vec![0u64; 1000]).unwrap();
    let mut call = || {
        let report = async_parallel_for!(0..sums.len(), [&table, &mut sums], |i| {
            sums[i] += table[i * 1000 % table.len()] + table[i * i % table.len()];
        });
        report.unwrap().bytes_sent()
    };
    call();
    // Of the sums each worker gets its own, and nothing of the table. It asks for them while the loop runs: the questions count.
    let sent = [call(), call()];
    assert!(sent[0] == sent[1] && (8001..9000).contains(&sent[0]), "{sent:?}");
}

/// In a call workers have what their blocks need soon, and what isn't stored yet.
fn few_elements_in_a_call() {
    let run = |homes| {
        let session = session(homes);
        let mut x = session.range(2 * LEN).map(|i| *i as f64).collect().unwrap();
        let mut call = || {
            async_parallel_for!(0..x.len(), [&mut x], |i| {
                x[i] = 0.5 * x[i] + 1.0;
            })
            .unwrap();
        };
        call();
        let peak = peak_of_workers(&mut call) >> 10;
        (peak, x.digest().unwrap())
    };
    let (here, digest) = run(Homes::Workers);
    let (away, same) = run(Homes::Servers);
    assert_eq!(same, digest);
    // Each worker runs 64 MiB. Where they stay they are saved as they were, too.
    assert!(here >= away + 64 && away <= 64, "{here} MiB with elements at workers, {away} with elements at servers");
}

const ROWS: usize = 1 << 17;
const WIDTH: usize = 64;

/// Rows of two matrices of 32 MiB: those of one stay with a worker for the call, those of the other pass through.
fn rows_pass_through() {
    let run = |homes| {
        let session = session(homes);
        let pairs = session.range(4 * ROWS).map(|i| (i * 31 % ROWS, (i * 17 + i / 5) % ROWS));
        let pairs = pairs.collect().unwrap();
        let start = || session.range(ROWS).map(|i| [(*i % 10) as f32 * 0.1; WIDTH]).collect_rows(WIDTH).unwrap();
        let (mut p, mut q): (DMatrix<f32>, DMatrix<f32>) = (start(), start());
        let mut call = || {
            let loops = async_parallel_for!(0..pairs.len(), [&pairs, &mut p, &mut q], |n| {
                let (i, j) = pairs[n];
                let (u, v) = (&mut p[i], &mut q[j]);
                for k in 0..WIDTH {
                    (u[k], v[k]) = (0.75 * u[k] + 0.25 * v[k], 0.5 * (u[k] + v[k]));
                }
            });
            loops.unwrap()
        };
        let planned = call();
        let peak = peak_of_workers(|| drop(call())) >> 10;
        (planned.strategy(), peak, p.digest().unwrap(), q.digest().unwrap())
    };
    let (strategy, here, p, q) = run(Homes::Workers);
    let (_, away, same_p, same_q) = run(Homes::Servers);
    assert_eq!((same_p, same_q), (p, q));
    assert_eq!(strategy, Strategy::Grid);
    // A worker has half of one matrix for the whole call, and half of the other after the other. Where they stay it has all of that one,
    // and what it was the first to write as it was before.
    assert!(here >= away + 24, "{here} MiB with elements at workers, {away} with elements at servers");
}

/// Calls fail when most of what they write is stored and freed; what follows goes on from what was there before.
fn fails_late() {
    const LEN: usize = 1 << 20;
    let session = session(Homes::Servers);
    let mut x = session.range(LEN).map(|i| *i as f64).collect().unwrap();
    let mut sums = session.range(1000).map(|_| 0.0).collect().unwrap();
    let mut expected: Vec<f64> = (0..LEN).map(|i| i as f64).collect();
    for round in 0..4 {
        for fails_at in [LEN - 1, LEN / 2 + 1] {
            let failed = async_parallel_for!(0..x.len(), [fails_at, &mut x], |i| {
                x[i] += 1.0;
                if i == fails_at {
                    return Err(format!("iteration {i} fails"));
                }
                Ok(())
            });
            let failed = failed.unwrap_err().to_string();
            assert!(failed.contains(&format!("iteration {fails_at} fails")), "{failed}");
        }
        if round == 2 {
            let lost = children_as(std::process::id(), "worker")[0];
            signal_to(lost, "KILL");
        }
        async_parallel_for!(0..x.len(), [&mut x], |i| x[i] *= 1.5).unwrap();
        expected.iter_mut().for_each(|x| *x *= 1.5);
        async_parallel_for!(0..sums.len(), [&x, &mut sums], |i| sums[i] += x[i * 1000]).unwrap();
        assert!(x.to_vec().unwrap() == expected, "round {round}");
    }
    let first: f64 = sums.get(999).unwrap();
    assert_eq!(first, (1..=4).map(|k| 999_000.0 * 1.5f64.powi(k)).sum::<f64>());
}

fn refused_without_servers() {
    let session = Session::builder().threads(1).build().unwrap();
    let refused = session.start_workers(&ClusterOptions::new(2).homes(Homes::Servers)).unwrap_err();
    let expected = "elements can't be at home on DDS servers when there is none: ask for two servers";
    assert_eq!(refused.to_string(), expected);
    assert_eq!(session.workers(), 0);
}
