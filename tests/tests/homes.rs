//! DDS servers as the home of elements: what workers have between calls, and what is refused.

use stradsap::prelude::*;

use crate::jobs::processes::{children_as, memory, memory_of_files};
use crate::seen::Alone;

pub(crate) const ALONE: &[Alone] = &[
    ("workers have no elements between calls", no_elements_between_calls),
    ("workers have no texts between calls", no_texts_between_calls),
    ("texts that the driver has made are with the servers", texts_are_given_up),
    ("what is only read stays with workers", what_is_read_stays),
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

fn refused_without_servers() {
    let session = Session::builder().threads(1).build().unwrap();
    let refused = session.start_workers(&ClusterOptions::new(2).homes(Homes::Servers)).unwrap_err();
    let expected = "elements can't be at home on DDS servers when there is none: ask for two servers";
    assert_eq!(refused.to_string(), expected);
    assert_eq!(session.workers(), 0);
}
