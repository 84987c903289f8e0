use super::*;

fn log_of(iterations: &[&[(usize, bool)]]) -> CaptureLog {
    let mut log = CaptureLog::new(0, iterations.len(), true);
    for accesses in iterations {
        for &(i, w) in *accesses {
            log.access(i, w);
        }
        log.end_iteration();
    }
    log
}

const SHAPE: CaptureShape = CaptureShape { len: 100, reduction: false, by_block: false, owning: false, dealt: false };

fn usage(iterations: &[&[(usize, bool)]]) -> (Usage, CaptureLog) {
    let n = iterations.len();
    let mut recording = Recording::new(0..n, vec![vec![log_of(iterations)]], &[SHAPE]);
    (recording.usage[0], recording.slices.remove(0).remove(0))
}

#[test]
fn in_step_with_an_offset_lists_nothing() {
    let (usage, log) = usage(&[&[(5, false)], &[(6, true), (6, false)], &[], &[(8, true)]]);
    assert_eq!(usage, Usage::InStep { offset: 5, written: true });
    assert_eq!(log.listed(), 0);
}

#[test]
fn leaving_step_writes_out_what_went_before() {
    let (usage, log) = usage(&[&[], &[(1, false)], &[(2, true)], &[], &[(4, true), (9, false)], &[(0, false)]]);
    assert_eq!(usage, Usage::Shared);
    let want: [&[u32]; 6] = [&[], &[2], &[5], &[], &[9, 18], &[0]];
    for (k, want) in want.iter().enumerate() {
        assert_eq!(log.of(k), *want, "iteration {k}");
    }
}

#[test]
fn repeated_accesses_unite() {
    let (_, log) = usage(&[&[(7, false), (3, false), (7, true), (3, false)], &[(3, false), (7, false)]]);
    assert_eq!(log.of(0), [6, 15]);
    assert_eq!(log.of(1), [6, 14]);
    assert_eq!(log.uniform(), Some(2));
}

#[test]
fn a_sample_has_its_share_of_each_stretch_and_of_each_beat() {
    const STRETCHES: usize = 16;
    let (len, n) = (1 << 19, 1 << 20);
    let logs = slices(&(0..n)).into_iter().map(|slice| {
        let mut log = CaptureLog::new(slice.start, slice.len(), true);
        slice.for_each(|i| {
            log.access(i / 2, false);
            log.access(i / 2, true);
            log.end_iteration();
        });
        vec![log]
    });
    let recording = Recording::new(0..n, logs.collect(), &[CaptureShape { len, ..SHAPE }]);
    for every in [1, 7, 100, 156, 200, 512] {
        let mut counts = vec![0; len];
        let all = (0..recording.slice_count())
            .map(|s| recording.each_sampled(s, 0, every, |entry| counts[entry as usize / 2] += 1))
            .sum::<usize>();
        assert_eq!(all, counts.iter().sum::<usize>());
        let is_fair = |count: usize, of: usize| {
            let share = n / of / every;
            count.abs_diff(share) <= 48 + share / 16
        };
        let stretches: Vec<usize> = counts.chunks(len / STRETCHES).map(|stretch| stretch.iter().sum()).collect();
        assert!(stretches.iter().all(|&count| is_fair(count, STRETCHES)), "one in {every}: {stretches:?}");
        for beat in [2, 3, 8] {
            let on = |k: usize| counts.chunks(32).skip(k).step_by(beat).flatten().sum::<usize>();
            let beats: Vec<usize> = (0..beat).map(on).collect();
            assert!(beats.iter().all(|&count| is_fair(count, beat)), "one in {every}, of {beat}: {beats:?}");
        }
    }
}

#[test]
fn only_read_out_of_step_is_read_only() {
    let (usage, log) = usage(&[&[(7, false)], &[(7, false)]]);
    assert_eq!((usage, log.listed()), (Usage::ReadOnly, 0));
}

/// A capture's usage, and whether every block conflicts with every other, where scratch makes one access.
fn beside_scratch(write: bool, iterations: &[&[(usize, bool)]]) -> (Usage, Option<usize>) {
    let mut log = CaptureLog::new(0, iterations.len(), true);
    log.begin_scratch();
    log.access(7, write);
    log.end_scratch();
    for accesses in iterations {
        accesses.iter().for_each(|&(i, w)| {
            log.access(i, w);
        });
        log.end_iteration();
    }
    let recording = Recording::new(0..iterations.len(), vec![vec![log]], &[SHAPE]);
    (recording.usage[0], recording.in_all_blocks)
}

#[test]
fn what_scratch_touches_every_block_touches() {
    let in_step: [&[(usize, bool)]; 2] = [&[(0, false)], &[(1, false)]];
    assert_eq!(beside_scratch(false, &in_step), (Usage::ReadOnly, None));
    assert_eq!(beside_scratch(false, &[&[], &[]]), (Usage::ReadOnly, None));
    assert_eq!(beside_scratch(true, &[&[], &[]]).1, Some(0));
    assert_eq!(beside_scratch(true, &in_step).1, Some(0));
    assert_eq!(beside_scratch(false, &[&[(0, true)], &[(1, true)]]).1, Some(0));
    assert_eq!(beside_scratch(false, &[&[(5, true)], &[(5, false)]]).1, Some(0));
}

#[test]
fn out_of_range_steps_are_not_in_step() {
    let mut log = CaptureLog::new(98, 4, true);
    for i in 98..100 {
        log.access(i, true);
        log.end_iteration();
    }
    log.end_iteration();
    let recording = Recording::new(98..101, vec![vec![log]], &[SHAPE]);
    assert_eq!(recording.usage[0], Usage::Shared);
}
