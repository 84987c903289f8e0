use super::*;
use crate::kernels;

/// Random bits, and what is special about floats among them.
struct Values(u64);

impl Values {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn row<N: Real, const K: usize>(&mut self, special: bool) -> [N; K] {
        std::array::from_fn(|_| match self.bits() % 64 {
            0 if special => N::SPECIAL[self.bits() as usize % N::SPECIAL.len()],
            1..=4 => N::from_f64(if self.bits().is_multiple_of(2) { 0.0 } else { -0.0 }),
            _ => N::from_f64((self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0),
        })
    }
}

trait Real: Float + fmt::Debug {
    const SPECIAL: [Self; 8];
    fn from_f64(x: f64) -> Self;
    /// All NaNs are alike: which of two comes out of a sum is the machine's affair.
    fn key(self) -> u64;
}

macro_rules! reals {
    ($($t:ident)*) => {$(
        impl Real for $t {
            const SPECIAL: [$t; 8] = [
                $t::INFINITY, $t::NEG_INFINITY, $t::MAX, $t::MIN, $t::MIN_POSITIVE, -$t::MIN_POSITIVE / 4.0,
                $t::from_bits(1), -$t::from_bits(3),
            ];
            fn from_f64(x: f64) -> $t {
                x as $t
            }
            fn key(self) -> u64 {
                if self.is_nan() { u64::MAX } else { u64::from(self.to_bits()) }
            }
        }
    )*};
}
reals! { f32 f64 }

fn keys<N: Real, const K: usize>(row: &[N; K]) -> [u64; K] {
    row.map(Real::key)
}

const SENTINEL: [u32; 16] = [0xDEAD_BEEF; 16];

/// Changes an element within others by its address, and sees that nothing beside it changes.
fn guarded<T: Element, R>(element: &mut T, f: impl FnOnce(*mut T) -> R) -> R {
    #[repr(C)]
    struct Guarded<T> {
        before: [u32; 16],
        element: T,
        after: [u32; 16],
    }
    let mut guarded = Guarded { before: SENTINEL, element: element.clone(), after: SENTINEL };
    let result = f(&raw mut guarded.element);
    assert_eq!((guarded.before, guarded.after), (SENTINEL, SENTINEL), "written beside the element");
    *element = guarded.element;
    result
}

/// All kernels of one kind against the plain ones.
macro_rules! same_bits {
    ($name:ident, $kernels:ident) => {
        fn $name<N: Real, const K: usize>() {
            let mut values = Values(K as u64);
            for round in 0..if cfg!(miri) { 2 } else { 200 } {
                let special = round % 2 == 1;
                let [a] = values.row::<N, 1>(special);
                let (row, x, y) = (values.row::<N, K>(special), values.row::<N, K>(special), values.row(special));
                // Applies the one to a copy of the row, the other to another: they must become the same.
                let same = |shared: &dyn Fn(*mut [N; K]), plain: &dyn Fn(&mut [N; K]), what: &str| {
                    let (mut one, mut other) = (row, row);
                    guarded(&mut one, shared);
                    plain(&mut other);
                    assert_eq!(keys(&one), keys(&other), "{what}, K = {K}");
                };
                // SAFETY: rows of this function's own.
                same(&|row| unsafe { $kernels::axpy(row, a, &x) }, &|row| kernels::axpy(a, &x, row), "axpy");
                // SAFETY: rows of this function's own.
                same(&|row| unsafe { $kernels::add(row, &x) }, &|row| kernels::add(&x, row), "add");
                // SAFETY: rows of this function's own.
                same(&|row| unsafe { $kernels::scale(row, a) }, &|row| kernels::scale(a, row), "scale");
                // SAFETY: rows of this function's own.
                same(&|row| unsafe { $kernels::set(row, &raw const x) }, &|row| *row = x, "set");

                let product = kernels::dot(&row, &x).key();
                // SAFETY: rows of this function's own.
                let shared = |row: *mut _| assert_eq!(unsafe { $kernels::dot(row, &x) }.key(), product, "dot, K = {K}");
                same(&shared, &|_| {}, "dot leaves the row");
                // SAFETY: rows of this function's own.
                let shared = |address: *mut [N; K]| assert_eq!(keys(&unsafe { $kernels::get(address) }), keys(&row));
                same(&shared, &|_| {}, "get leaves the row");
                let shared = |address: *mut _| {
                    let (mut to, mut plain) = (y, y);
                    // SAFETY: rows of this function's own.
                    guarded(&mut to, |to| unsafe { $kernels::add_to(address, a, &mut *to) });
                    kernels::axpy(a, &row, &mut plain);
                    assert_eq!(keys(&to), keys(&plain), "add_to, K = {K}");
                };
                same(&shared, &|_| {}, "add_to leaves the row");

                let shared = |address: *mut _| {
                    let (mut to, mut plain) = (y, y);
                    // SAFETY: rows of this function's own.
                    guarded(&mut to, |to| unsafe { $kernels::step(address, a, &x, &mut *to) });
                    kernels::axpy(a, &row, &mut plain);
                    assert_eq!(keys(&to), keys(&plain), "the change of step, K = {K}");
                };
                same(&shared, &|row| kernels::axpy(a, &x, row), "step");
                same(&shared, &|row| kernels::step(a, row, &x, &mut y.clone()), "plain step");
                let (mut plain, mut change) = (y, y);
                kernels::axpy(a, &row, &mut plain);
                kernels::step(a, &mut row.clone(), &x, &mut change);
                assert_eq!(keys(&change), keys(&plain), "the change of the plain step, K = {K}");
            }
        }
    };
}
same_bits!(same_bits, imp);
same_bits!(same_bits_portable, portable);

/// Rows of a width that is known at run time, by the methods of arrays.
#[allow(clippy::undocumented_unsafe_blocks, reason = "the macro's functions, who have a row of their own, call these")]
mod as_rows {
    use super::*;

    unsafe fn row<'a, T, const K: usize>(row: *const [T; K]) -> &'a Shared<[T]> {
        // SAFETY: the callers', who have a row.
        unsafe { &*(row as *const [T] as *const Shared<[T]>) }
    }
    pub(super) unsafe fn axpy<N: Float, const K: usize>(to: *mut [N; K], a: N, x: &[N; K]) {
        unsafe { row(to) }.axpy(a, x);
    }
    pub(super) unsafe fn add<N: Lane, const K: usize>(to: *mut [N; K], x: &[N; K]) {
        unsafe { row(to) }.add(x);
    }
    pub(super) unsafe fn scale<N: Float, const K: usize>(to: *mut [N; K], a: N) {
        unsafe { row(to) }.scale(a);
    }
    pub(super) unsafe fn set<N: Element, const K: usize>(to: *mut [N; K], value: *const [N; K]) {
        unsafe { row(to).store(&*value) };
    }
    pub(super) unsafe fn get<N: Real, const K: usize>(from: *const [N; K]) -> [N; K] {
        let mut out = [N::from_f64(7.0); K];
        unsafe { row(from) }.load(&mut out);
        assert_eq!(unsafe { row(from) }.to_vec().iter().map(|x| x.key()).collect::<Vec<_>>(), keys(&out));
        out
    }
    pub(super) unsafe fn dot<N: Float, const K: usize>(of: *const [N; K], x: &[N; K]) -> N {
        unsafe { row(of) }.dot(x)
    }
    pub(super) unsafe fn add_to<N: Float, const K: usize>(from: *const [N; K], a: N, y: &mut [N; K]) {
        unsafe { row(from) }.add_to(a, y);
    }
    pub(super) unsafe fn step<N: Float, const K: usize>(to: *mut [N; K], g: N, x: &[N; K], change: &mut [N; K]) {
        unsafe { row(to) }.step(g, x, change);
    }
}
same_bits!(same_bits_as_rows, as_rows);

/// A path of rows, one of which learns nothing, is what its steps one by one are: for the row, the others and `change`.
fn descends_as_step_by_step<N: Real>(width: usize) {
    let mut values = Values(width as u64);
    let mut next = |n: usize| (0..n).map(|_| values.row::<N, 1>(false)[0]).collect::<Vec<N>>();
    let (start, path, change) = (next(width), [next(width), next(width), next(width)], next(width));
    let rate = |f: N, label: f64| (label != 2.0).then(|| N::from_f64(label) * f);
    let (mut others, mut sum, mut given) = (path.clone(), vec![N::from_f64(0.0); width], change.clone());
    for (label, other) in others.iter_mut().enumerate() {
        let f = kernels::dot(&start, other);
        if let Some(g) = rate(f, label as f64) {
            kernels::step(g, &mut other.clone(), &start, &mut sum);
            kernels::step(g, other, &start, &mut given);
        }
    }
    let mut moved = start.clone();
    kernels::add(&sum, &mut moved);

    fn row<T>(numbers: &mut [T]) -> &Shared<[T]> {
        // SAFETY: the layouts are the same, and the borrow keeps everybody else away.
        unsafe { &*(&raw mut *numbers as *const Shared<[T]>) }
    }
    let bits = |numbers: &[N]| numbers.iter().map(|x| x.key()).collect::<Vec<_>>();
    let (mut mine, mut theirs) = (start.clone(), path.clone());
    row(&mut mine).descend(theirs.iter_mut().enumerate().map(|(n, other)| (row(other), n as f64)), rate);
    assert_eq!(bits(&mine), bits(&moved), "the row, {width} wide");
    assert_eq!(theirs.each_ref().map(|other| bits(other)), others.each_ref().map(|other| bits(other)));
    let (mut into, mut theirs) = (change, path);
    let pairs = theirs.iter_mut().enumerate().map(|(n, other)| (row(other), n as f64));
    Shared::descend_from(&start, &mut into, pairs, rate);
    assert_eq!(bits(&into), bits(&given), "what is given, {width} wide");
    assert_eq!(theirs.each_ref().map(|other| bits(other)), others.each_ref().map(|other| bits(other)));
}

#[test]
fn descending_is_learning_step_by_step() {
    for width in [1, 3, 16, 31, 32, 33, 64, 100, 128, 200, 300] {
        descends_as_step_by_step::<f32>(width);
        descends_as_step_by_step::<f64>(width);
    }
    #[cfg(not(miri))]
    descends_as_step_by_step::<f32>(1100);
}

#[test]
#[should_panic(expected = "a row of 3 numbers and one of 2")]
fn what_a_row_of_another_length_descends_on_is_refused() {
    let row: &mut [f32] = &mut [1.0; 3];
    // SAFETY: the layouts are the same, and the borrow keeps everybody else away.
    let row: &Shared<[f32]> = unsafe { &*(&raw mut *row as *const Shared<[f32]>) };
    Shared::descend_from(&[1.0; 3], &mut [0.0; 2], [(row, ())], |_, ()| None);
}

#[test]
#[should_panic(expected = "a row of 3 numbers and one of 2")]
fn rows_of_other_lengths_are_refused() {
    let mut row = [1.0f32; 3];
    let shared = Shared::from_mut(&mut row);
    // SAFETY: the same row, through `Shared` as well.
    let row: &Shared<[f32]> =
        unsafe { &*(std::ptr::slice_from_raw_parts(std::ptr::from_ref(shared).cast::<f32>(), 3) as *const _) };
    row.axpy(1.0, &[1.0; 2]);
}

#[test]
fn kernels_have_the_bits_of_the_plain_ones() {
    macro_rules! sizes {
        ($t:ident: $($k:literal)*) => {$(
            same_bits::<$t, $k>();
            same_bits_as_rows::<$t, $k>();
        )*};
    }
    sizes! { f32: 0 1 2 3 4 5 7 8 12 15 16 17 31 }
    sizes! { f64: 1 3 6 15 }
    #[cfg(not(miri))]
    sizes! { f32: 32 33 40 64 96 100 128 200 256 300 }
    #[cfg(not(miri))]
    sizes! { f64: 64 100 143 }
    same_bits_portable::<f32, 5>();
    same_bits_portable::<f32, 33>();
    same_bits_portable::<f64, 12>();
}

/// The definition of the sum, lane by lane.
#[test]
fn dot_adds_in_its_order() {
    fn check<const K: usize>() {
        let mut values = Values(9);
        let (a, b) = (values.row::<f32, K>(false), values.row::<f32, K>(false));
        let mut lanes = [0.0f32; 16];
        for k in 0..K {
            lanes[k % 16] += a[k] * b[k];
        }
        let (wide_a, wide_b) = (a.map(f64::from), b.map(f64::from));
        let mut wide_lanes = [0.0f64; 8];
        for k in 0..K {
            wide_lanes[k % 8] += wide_a[k] * wide_b[k];
        }
        for half in [8, 4, 2, 1] {
            for k in 0..half {
                lanes[k] += lanes[k + half];
            }
        }
        for half in [4, 2, 1] {
            for k in 0..half {
                wide_lanes[k] += wide_lanes[k + half];
            }
        }
        assert_eq!(kernels::dot(&a, &b).to_bits(), lanes[0].to_bits(), "K = {K}");
        assert_eq!(kernels::dot(&wide_a, &wide_b).to_bits(), wide_lanes[0].to_bits(), "K = {K}");
        assert_eq!(Shared::from_mut(&mut a.clone()).dot(&b).to_bits(), lanes[0].to_bits(), "K = {K}");
    }
    check::<1>();
    check::<7>();
    check::<16>();
    check::<37>();
    check::<100>();
}

#[test]
fn integers_wrap_in_every_lane() {
    fn check<N: Lane + PartialEq + fmt::Debug, const K: usize>(from: impl Fn(u64) -> N, plus: impl Fn(N, N) -> N) {
        let mut values = Values(K as u64);
        let [row, x]: [[N; K]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| from(values.bits())));
        let sum: [N; K] = std::array::from_fn(|k| plus(row[k], x[k]));
        let (mut one, mut other) = (row, row);
        // SAFETY: rows of this function's own.
        guarded(&mut one, |row| unsafe { imp::add(row, &x) });
        // SAFETY: rows of this function's own.
        guarded(&mut other, |row| unsafe { portable::add(row, &x) });
        assert_eq!((one, other), (sum, sum), "K = {K}");
        for (element, x) in one.iter_mut().zip(x) {
            let sum = plus(*element, x);
            Shared::from_mut(element).add(x);
            assert_eq!(*element, sum);
        }
    }
    macro_rules! types {
        ($($t:ident)*) => {$(
            check::<$t, 3>(|bits| bits as $t, $t::wrapping_add);
            check::<$t, 100>(|bits| bits as $t, $t::wrapping_add);
        )*};
    }
    types! { u8 i8 u16 i16 u32 i32 u64 i64 usize isize }
    check::<u8, 1021>(|bits| bits as u8, u8::wrapping_add);
    check::<i16, 31>(|bits| bits as i16, i16::wrapping_add);
    check::<u128, 1>(|bits| u128::from(bits) << 64 | u128::from(!bits), u128::wrapping_add);
    check::<i128, 100>(|bits| i128::from(bits) << 64 | i128::from(!bits), i128::wrapping_add);
}

/// Elements of any size and alignment go in and out whole, at addresses of no better alignment than theirs.
#[test]
fn every_plain_element_goes_in_and_out() {
    fn check<N: Lane + PartialEq + fmt::Debug, const K: usize>(from: impl Fn(u64) -> N) {
        let mut values = Values(K as u64);
        let [a, b]: [[N; K]; 2] = std::array::from_fn(|_| std::array::from_fn(|_| from(values.bits())));
        let mut element = a;
        let before = guarded(&mut element, |address| {
            // SAFETY: nobody else has the address.
            let shared = unsafe { &*address.cast::<Shared<[N; K]>>() };
            let before = shared.get();
            shared.set(b);
            before
        });
        assert_eq!((before, element), (a, b));
    }
    macro_rules! sizes {
        ($t:ident: $($k:literal)*) => {$(
            check::<$t, $k>(|bits| bits as $t);
        )*};
    }
    sizes! { u8: 0 1 2 3 4 5 7 8 9 12 13 15 16 17 33 }
    sizes! { u16: 1 3 5 13 31 }
    sizes! { u32: 1 2 3 13 100 }
    sizes! { u64: 1 3 11 }
    #[cfg(not(miri))]
    sizes! { u8: 62 63 64 65 127 255 511 512 513 1023 2049 }
    check::<u128, 3>(u128::from);
}

#[test]
fn structs_of_numbers_are_shared_too() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Row {
        weights: [f32; 5],
        times: u32,
    }
    // SAFETY: numbers of one alignment, without padding.
    unsafe impl Element for Row {
        const PLAIN: bool = true;
        fn encode(&self, out: &mut Vec<u8>) {
            self.weights.encode(out);
            self.times.encode(out);
        }
        fn decode(bytes: &mut &[u8]) -> Result<Self, crate::DecodeError> {
            Ok(Row { weights: Element::decode(bytes)?, times: Element::decode(bytes)? })
        }
    }
    let mut rows = [Row { weights: [0.5; 5], times: 1 }; 3];
    let shared = Shared::from_mut_slice(&mut rows);
    let mut row = shared[1].get();
    row.times += 1;
    shared[1].set(row);
    assert_eq!(format!("{:?}", shared[1]), "Shared(Row { weights: [0.5, 0.5, 0.5, 0.5, 0.5], times: 2 })");
    assert_eq!(rows.map(|row| row.times), [1, 2, 1]);
}

/// Threads write rows of equal lanes; a reader sees in each lane what some thread wrote there.
#[test]
fn lanes_are_never_torn() {
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 100_000 };
    // Numbers whose halves would make none of the others.
    const WRITTEN: [f64; 3] = [1.000_000_1e-300, -7.3e200, 3.3e5];
    fn hammer<const K: usize>() {
        // An element that begins 8 bytes off a cache line has lanes on both sides of one.
        #[repr(C, align(64))]
        struct Off<const K: usize>(f64, [[f64; K]; 3]);
        let mut off = Off(0.0, [[WRITTEN[0]; K]; 3]);
        let rows = Shared::from_mut_slice(&mut off.1);
        std::thread::scope(|scope| {
            for value in WRITTEN {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        rows[round % 3].store(&[value; K]);
                    }
                });
            }
            for round in 0..ROUNDS {
                let row = rows[round % 3].get();
                assert!(row.iter().all(|x| WRITTEN.contains(x)), "torn: {row:?}");
            }
        });
    }
    hammer::<13>();
    hammer::<100>();
}

/// Nothing is lost where threads update rows of their own in turn, through the same shared slice.
#[test]
fn updates_are_seen_by_the_next_thread() {
    const K: usize = 37;
    let threads = 4;
    let rounds = if cfg!(miri) { 2 } else { 1000 };
    let mut rows = vec![[0.0f32; K]; threads];
    let shared = Shared::from_mut_slice(&mut rows);
    let barrier = std::sync::Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let barrier = &barrier;
            scope.spawn(move || {
                for round in 0..rounds {
                    let row = &shared[(thread + round) % threads];
                    let mut change = [0.0; K];
                    row.step(1.0, &[1.0; K], &mut change);
                    assert_eq!(change, [round as f32; K]);
                    barrier.wait();
                }
            });
        }
    });
    assert_eq!(rows, vec![[rounds as f32; K]; threads]);
}
