//! How much memory recording and planning take: at most 24 bytes an access at the peak; that plans don't pile up; and limits of
//! memory.
//!
//! A binary of its own, whose tests take turns: the allocator counts for all threads.

#![allow(clippy::unwrap_used)]
#![allow(unsafe_code)]

mod limits;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use stradsap::prelude::*;
use stradsap_test_jobs::common;
use stradsap_test_jobs::common::{Rating, ratings, session};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn grew(bytes: usize) {
    PEAK.fetch_max(LIVE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: passed on.
        unsafe { System.dealloc(ptr, layout) };
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While it is moved both are there.
        grew(size);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: passed on.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `f` gives, and the most bytes that were allocated meanwhile beyond those that were before.
fn peak_of<R>(f: impl FnOnce() -> R) -> (R, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = f();
    (result, PEAK.load(Relaxed) - before)
}

const MOST_BYTES_AN_ACCESS: f64 = 24.0;

/// Prints the figure (`--nocapture` shows it), and holds it against the bound.
fn check(case: &str, peak: usize, saved: usize, accesses: usize) {
    let each = (peak.saturating_sub(saved)) as f64 / accesses as f64;
    eprintln!("{case}: {each:.1} bytes an access ({peak} at the peak, {saved} of them saved elements)");
    assert!(each <= MOST_BYTES_AN_ACCESS, "{case}: {each:.1} bytes an access");
    // Nothing is free: the measure itself is not broken.
    assert!(each > 0.5, "{case}: {each:.1} bytes an access");
}

/// Two written rows and one rating in each of 300,000 iterations.
fn factorisation(threads: usize, hidden: bool, order: Order, strategy: Option<Strategy>) {
    let (n, users, items) = (300_000, 6000, 3000);
    let session = session(threads);
    let data = DVector::from_vec(&session, ratings(n, users, items)).unwrap();
    let mut p = DVector::from_fn(&session, users, |_| [0.1f32; 8]).unwrap();
    let mut q = DVector::from_fn(&session, items, |_| [0.1f32; 8]).unwrap();
    let flip = u32::from(hidden);
    macro_rules! run {
        ($($option:tt)*) => {
            async_parallel_for!(0..n, [flip, &data, &mut p, &mut q], |i| {
                let Rating { user, item, stars } = data[i];
                let (pu, qi) = (&mut p[user ^ flip], &mut q[item ^ flip]);
                let e = stars - kernels::dot(pu, qi);
                kernels::axpy(0.01 * e, qi, pu);
                kernels::axpy(0.01 * e, pu, qi);
            }, order = order $($option)*)
            .unwrap()
        };
    }
    let (report, peak) = peak_of(|| match strategy {
        Some(strategy) => run!(, strategy = strategy),
        None => run!(),
    });
    assert_eq!(report.inferred(), !hidden);
    assert_eq!(report.misspeculations(), 0);
    let case = format!(
        "factorisation, {}, {order:?}, {threads} threads, {}",
        report.strategy(),
        if hidden { "recorded in full" } else { "read off a sample" }
    );
    check(&case, peak, 32 * (users + items), 3 * n);
    let said = report.planning_peak_bytes();
    assert!(said > 0 && said <= 24 * 3 * n, "{case}: the report says {said} bytes");
}

/// Iterations that touch four of very many elements each.
fn sparse(threads: usize, len: usize) {
    let n = 100_000usize;
    let session = session(threads);
    let steps = DVector::from_fn(&session, n, |i| {
        std::array::from_fn::<u32, 4, _>(|k| common::below((4 * i + k) as u64, len / 2) as u32 * 2)
    })
    .unwrap();
    let mut x = DVector::from_fn(&session, len, |i| i as f32).unwrap();
    let (report, peak) = peak_of(|| {
        async_parallel_for!(
            0..n,
            [&steps, &mut x],
            |i| {
                for at in steps[i] {
                    x[at + 1] += 1.0;
                }
            },
            strategy = Coloured
        )
        .unwrap()
    });
    assert_eq!((report.strategy(), report.misspeculations()), (Strategy::Coloured, 0));
    assert!(!report.inferred());
    check(&format!("sparse, coloured, {len} elements, {threads} threads"), peak, 4 * len, 5 * n);
}

static TURN: Mutex<()> = Mutex::new(());

#[test]
fn ranges_that_are_always_new_leave_plans_of_about_32_mebibytes() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let session = session(2);
    let mut x = DVector::from_fn(&session, 1000, |i| i as u64).unwrap();
    let mut step = |call: usize| {
        let (from, to) = (common::below(call as u64, 500), 500 + common::below(call as u64 + 7, 500));
        let report = async_parallel_for!(from..to, [call, &mut x], |i| {
            let at = (i * 7 + call % 3) % 1000;
            x[at] = x[at].wrapping_mul(3) ^ i as u64;
        })
        .unwrap();
        assert!(!report.reused() || report.misspeculations() == 0);
    };
    let before = LIVE.load(Relaxed);
    (0..9000).for_each(&mut step);
    let most = LIVE.load(Relaxed) - before;
    (9000..12_000).for_each(&mut step);
    let grown = (LIVE.load(Relaxed) - before).saturating_sub(most);
    eprintln!("9,000 calls with changing ranges: {most} bytes; 3,000 more: {grown} more");
    assert!(most < 40 << 20 && grown < 4 << 20, "{most} bytes, {grown} more");
}

#[test]
fn recording_and_planning_take_at_most_24_bytes_an_access() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for threads in [1, 2] {
        for hidden in [false, true] {
            factorisation(threads, hidden, Order::Any, None);
            factorisation(threads, hidden, Order::Preserve, Some(Strategy::Coloured));
            factorisation(threads, hidden, Order::Any, Some(Strategy::Coloured));
        }
        sparse(threads, 50_000);
        sparse(threads, 400_000);
        sparse(threads, 1_000_000);
    }
}
