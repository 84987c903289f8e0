//! Two changes of one row made into one, of rows of floats (`merge = Combine`).

/// The lanes that inner products are added up in.
const LANES: usize = 8;

/// What two changes are multiplied by before they are added: 1 less half of what the one says of the other.
#[inline(always)]
fn factors([one, both, other]: [f64; 3]) -> Option<(f64, f64)> {
    // A change of no length says nothing; of one whose length is no ordinary number nothing can be said.
    (one.is_normal() && other.is_normal()).then(|| (1.0 - both / (2.0 * one), 1.0 - both / (2.0 * other)))
}

/// The inner products of one row with itself, of both, and of the other with itself: number `k` is added to lane
/// `k % 8`, and the lanes are added up pairwise from the halves.
macro_rules! combines {
    ($($name:ident $float:ident;)*) => {$(
        pub(crate) fn $name(change: &mut [$float], other: &[$float]) {
            let mut sums = [[0.0f64; LANES]; 3];
            let mut add = |a: &[$float], b: &[$float]| {
                for (k, (&a, &b)) in a.iter().zip(b).enumerate() {
                    let (a, b) = (f64::from(a), f64::from(b));
                    sums[0][k] += a * a;
                    sums[1][k] += a * b;
                    sums[2][k] += b * b;
                }
            };
            let (chunks, rest) = change.as_chunks::<LANES>();
            let (other_chunks, other_rest) = other.as_chunks::<LANES>();
            chunks.iter().zip(other_chunks).for_each(|(a, b)| add(a, b));
            add(rest, other_rest);
            let sum = |l: [f64; LANES]| ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
            let Some((own, others)) = factors(sums.map(sum)) else {
                return change.iter_mut().zip(other).for_each(|(a, b)| *a += b);
            };
            for (a, b) in change.iter_mut().zip(other) {
                *a = (own * f64::from(*a) + others * f64::from(*b)) as $float;
            }
        }
    )*};
}
combines! {
    f32s f32;
    f64s f64;
}
