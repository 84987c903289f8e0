//! Rows whose width is known at run time.

use crate::common::{Rating, below, bits, mix, ratings};
use crate::seen::{Scenario, Seen};
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    bodies::factorise,
    bodies::take_rows_as_slices,
    bodies::sweep_over_rows,
    bodies::put_back_what_failed,
    bodies::stray_to_other_rows,
    bodies::count_in_integers,
    bodies::change_between_loops,
    bodies::refuse_rows_that_cant_be,
    bodies::read_rows_from_before,
    bodies::add_rows_up,
    bodies::take_ranges_of_rows,
    bodies::name_what_isnt_there,
    bodies::flow_through_operators
];

const STRATEGIES: [Strategy; 3] = [Strategy::Grid, Strategy::Coloured, Strategy::Serial];

/// As long as a row of `width`, of floats that look random.
fn row(width: usize, i: usize) -> Vec<f32> {
    (0..width).map(|k| below((i * width + k) as u64, 1000) as f32 / 2500.0).collect()
}

/// One step on two rows.
fn step(p: &mut [f32], q: &mut [f32], stars: f32) -> f32 {
    let e = stars - p.iter().zip(q.iter()).fold(0.0, |sum, (a, b)| sum + a * b);
    for (p, q) in p.iter_mut().zip(q) {
        let (a, b) = (*p, *q);
        *p += 0.01 * (e * b - 0.02 * a);
        *q += 0.01 * (e * a - 0.02 * b);
    }
    e
}

/// What must be the same everywhere.
pub(crate) mod bodies {
    use super::*;

    /// Like arrays of the same width, to the bit, by plans of all kinds.
    pub(crate) fn factorise(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        const K: usize = 12;
        let (users, items) = (300, 200);
        let data: DVector<Rating> = DVector::from_vec(session, ratings(6_000, users, items))?;
        for strategy in STRATEGIES {
            let mut p = DMatrix::from_rows(session, (0..users).map(|i| row(K, i)))?;
            let mut q = DMatrix::from_rows(session, (0..items).map(|i| row(K, i + 1000)))?;
            let array = |i: usize| <[f32; K]>::try_from(row(K, i)).unwrap();
            let mut p_arrays = DVector::from_fn(session, users, array)?;
            let mut q_arrays = DVector::from_fn(session, items, |i| array(i + 1000))?;
            for _ in 0..3 {
                let (loss, loss_of_arrays) = (session.sum(0.0f64), session.sum(0.0f64));
                let report = async_parallel_for!(
                    0..data.len(),
                    [&data, &mut p, &mut q, &loss],
                    |n| {
                        let r = data[n];
                        let e = step(&mut p[r.user], &mut q[r.item], r.stars);
                        loss.add(f64::from(e * e));
                    },
                    strategy = strategy
                )?;
                async_parallel_for!(
                    0..data.len(),
                    [&data, &mut p_arrays, &mut q_arrays, &loss_of_arrays],
                    |n| {
                        let r = data[n];
                        let e = step(&mut p_arrays[r.user], &mut q_arrays[r.item], r.stars);
                        loss_of_arrays.add(f64::from(e * e));
                    },
                    strategy = strategy
                )?;
                assert_eq!(loss.get().to_bits(), loss_of_arrays.get().to_bits());
                seen.report("report", &report);
            }
            assert_eq!((p.digest()?, q.digest()?), (p_arrays.digest()?, q_arrays.digest()?), "{strategy}");
            assert_eq!(p.get(17)?, p_arrays.get(17)?);
            seen.record("p", p.digest()?);
        }
        Ok(())
    }

    /// All that a body does with a row and with several.
    pub(crate) fn take_rows_as_slices(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for (rows, width) in [(40usize, 1usize), (40, 7), (33, 64), (25, 1000)] {
            let table = DMatrix::from_fn(session, rows, width, |i, k| mix((i * 7 + k) as u64))?;
            let mut m = DMatrix::from_fn(session, rows, width, |i, k| (i * 1000 + k) as u64)?;
            let mut plain: Vec<Vec<u64>> = m.iter()?.collect();
            let given: Vec<Vec<u64>> = table.iter()?.collect();
            for _ in 0..2 {
                let report = async_parallel_for!(
                    0..rows,
                    [rows, &table, &mut m],
                    |i| {
                        assert_eq!((m.len(), m[i].len(), m.get(rows).is_none()), (rows, table[i].len(), true));
                        for x in &mut m[i] {
                            *x = x.wrapping_mul(3);
                        }
                        let other = (i * 7 + 1) % rows;
                        if other != i {
                            let (a, b) = m.pair_mut(i, other);
                            a[0] = a[0].wrapping_add(b[b.len() - 1]);
                            b.swap_with_slice(a);
                            m.swap(i, other);
                        }
                        let last = (i + 2) % rows;
                        let [x, y] = m.many_mut([(last + 1) % rows, last]);
                        x.iter_mut().zip(&*y).for_each(|(x, y)| *x ^= y);
                        m[last].copy_from_slice(&table[other]);
                        for x in &table {
                            m[i][0] = m[i][0].wrapping_add(x[x.len() / 2]);
                        }
                        m[last][0] += m.get(i).map_or(0, |row| row[0] % 5);
                    },
                    order = Preserve
                )?;
                for i in 0..rows {
                    plain[i].iter_mut().for_each(|x| *x = x.wrapping_mul(3));
                    let other = (i * 7 + 1) % rows;
                    if other != i {
                        plain[i][0] = plain[i][0].wrapping_add(plain[other][width - 1]);
                    }
                    let last = (i + 2) % rows;
                    let y = plain[last].clone();
                    plain[(last + 1) % rows].iter_mut().zip(&y).for_each(|(x, y)| *x ^= y);
                    plain[last].clone_from(&given[other]);
                    given.iter().for_each(|x| plain[i][0] = plain[i][0].wrapping_add(x[width / 2]));
                    plain[last][0] += plain[i][0] % 5;
                }
                assert_eq!(m.iter()?.collect::<Vec<_>>(), plain, "{rows} x {width}");
                seen.report("report", &report);
            }
            seen.record("m", m.digest()?);
        }
        Ok(())
    }

    /// In step with the loop, beside a row's neighbours, and by tiles.
    pub(crate) fn sweep_over_rows(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for width in [2usize, 5, 130] {
            let n = 3000;
            let from = DMatrix::from_fn(session, n, width, |i, k| (i + k) as f64)?;
            let mut to = DMatrix::from_fn(session, n, width, |_, k| k as f64)?;
            let (given, mut plain) = (from.to_vec()?, to.to_vec()?);
            let at = |i: usize, k: usize| i * width + k;
            for _ in 0..2 {
                let report = async_parallel_for!(0..n, [n, &from, &mut to], |i| {
                    if i > 0 && i + 1 < n {
                        for k in 0..to[i].len() {
                            to[i][k] += 0.25 * (from[i - 1][k] + from[i + 1][k]) - from[i][k];
                        }
                    }
                })?;
                assert_eq!(report.strategy(), Strategy::Aligned);
                for i in 1..n - 1 {
                    for k in 0..width {
                        plain[at(i, k)] += 0.25 * (given[at(i - 1, k)] + given[at(i + 1, k)]) - given[at(i, k)];
                    }
                }
                let report = async_parallel_for!(
                    1..n - 1,
                    [&mut to],
                    |i| {
                        for k in 0..to[i].len() {
                            to[i][k] = 0.3 * (to[i - 1][k] + to[i][k] + to[i + 1][k]);
                        }
                    },
                    order = Preserve
                )?;
                for i in 1..n - 1 {
                    for k in 0..width {
                        plain[at(i, k)] = 0.3 * (plain[at(i - 1, k)] + plain[at(i, k)] + plain[at(i + 1, k)]);
                    }
                }
                assert_eq!(to.to_vec()?, plain);
                seen.report("sweep", &report);
            }
            let w = 60;
            let report = async_parallel_for!(
                0..n,
                [n, w, &mut to],
                |i| {
                    let (row, column) = (i / w, i % w);
                    if row > 0 && column > 0 && row < n / w {
                        for k in 0..to[i].len() {
                            to[i][k] += 0.5 * (to[i - 1][k] - to[i - w][k]);
                        }
                    }
                },
                order = Preserve
            )?;
            for i in (0..n).filter(|i| i / w > 0 && i % w > 0 && i / w < n / w) {
                for k in 0..width {
                    plain[at(i, k)] += 0.5 * (plain[at(i - 1, k)] - plain[at(i - w, k)]);
                }
            }
            assert_eq!(to.to_vec()?, plain);
            // (On workers there are no tiles.)
            seen.record("table", (report.iterations(), to.digest()?));
        }
        Ok(())
    }

    /// Errors, panics and indices out of range leave all rows as they were.
    pub(crate) fn put_back_what_failed(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (n, width) = (500usize, 37);
        let to = DVector::from_fn(session, 4000, |k| below(k as u64, n) as u32)?;
        let mut m = DMatrix::from_fn(session, n, width, |i, k| (i * width + k) as i32)?;
        for strategy in STRATEGIES {
            for what in 0..4 {
                let (before, version) = (m.to_vec()?, m.digest()?);
                let ended = async_parallel_for!(
                    0..to.len(),
                    [what, n, &to, &mut m],
                    |k| -> Result<(), std::io::Error> {
                        let i = to[k] as usize;
                        m[i].iter_mut().for_each(|x| *x = x.wrapping_mul(31) + k as i32);
                        // Not where the loop is recorded: what is looked at are values.
                        if k == 3900 && m[i][0] != i32::MIN {
                            match what {
                                0 => return Err(std::io::Error::other("enough")),
                                1 => panic!("at row {i}"),
                                2 => m[n + i][0] = 1,
                                _ => m[i][1000] = 1,
                            }
                        }
                        Ok(())
                    },
                    strategy = strategy
                );
                let error = ended.unwrap_err().to_string();
                let expected = ["enough", "at row", "m[", "index out of bounds"][what];
                assert!(error.contains(expected) && error.contains("3900"), "{error}");
                assert_eq!(m.to_vec()?, before);
                assert_eq!(m.digest()?, version);
            }
            let report =
                async_parallel_for!(0..to.len(), [&to, &mut m], |k| m[to[k]][k % 37] ^= k as i32, strategy = strategy)?;
            seen.report("report", &report);
        }
        seen.record("m", m.digest()?);
        Ok(())
    }

    /// Which row is written depends on rows that others write, so that plans come to be wrong.
    pub(crate) fn stray_to_other_rows(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (n, width) = (200usize, 9);
        let mut m = DMatrix::from_fn(session, n, width, |i, k| below((i * 100 + k) as u64, n) as u32)?;
        let mut plain = m.to_vec()?;
        for round in 0..4u32 {
            let report = async_parallel_for!(
                0..n,
                [n, round, &mut m],
                |i| {
                    let next = (m[i][1] + round) as usize % n;
                    m[next][2] = (m[next][2] + m[i][0]) % n as u32;
                    m[next].rotate_left(1);
                    m[i][1] = (m[i][1] + 1) % n as u32;
                },
                order = Preserve
            )?;
            for i in 0..n {
                let next = (plain[i * width + 1] + round) as usize % n;
                plain[next * width + 2] = (plain[next * width + 2] + plain[i * width]) % n as u32;
                plain[next * width..][..width].rotate_left(1);
                plain[i * width + 1] = (plain[i * width + 1] + 1) % n as u32;
            }
            assert_eq!(m.to_vec()?, plain, "round {round}");
            seen.record("iterations", report.iterations());
        }
        seen.record("m", m.digest()?);
        Ok(())
    }

    /// Bytes, arrays as the numbers of a row, indices in a row that is read in step.
    pub(crate) fn count_in_integers(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let edges = DMatrix::from_fn(session, 9000, 2, |n, k| below((2 * n + k) as u64, 500) as u32)?;
        let mut counts = DMatrix::from_fn(session, 500, 3, |_, _| 0u8)?;
        let mut moments = DMatrix::from_fn(session, 500, 2, |_, _| [0i64; 2])?;
        let (mut plain_counts, mut plain_moments) = (vec![[0u8; 3]; 500], vec![[[0i64; 2]; 2]; 500]);
        for _ in 0..2 {
            let report = async_parallel_for!(0..edges.len(), [&edges, &mut counts, &mut moments], |n| {
                let (a, b) = (edges[n][0], edges[n][1]);
                counts[a][0] = counts[a][0].wrapping_add(1);
                counts[b][2] = counts[b][2].wrapping_add(2);
                moments[a][1][0] += i64::from(b);
                moments[b][0][1] -= i64::from(a);
            })?;
            for edge in edges.iter()? {
                let (a, b) = (edge[0] as usize, edge[1] as usize);
                plain_counts[a][0] = plain_counts[a][0].wrapping_add(1);
                plain_counts[b][2] = plain_counts[b][2].wrapping_add(2);
                plain_moments[a][1][0] += b as i64;
                plain_moments[b][0][1] -= a as i64;
            }
            seen.report("report", &report);
        }
        assert_eq!(counts.to_vec()?, plain_counts.concat());
        assert_eq!(moments.to_vec()?, plain_moments.concat());
        seen.record("counts", counts.digest()?);
        Ok(())
    }

    /// What the program reads and changes itself, and matrices without rows.
    pub(crate) fn change_between_loops(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut m = DMatrix::from_fn(session, 100, 3, |i, k| (i + k) as u16)?;
        let mut reports = Vec::new();
        for round in 0..3u16 {
            reports.push(async_parallel_for!(0..100, [round, &mut m], |i| m[i][2] += round + 1)?);
            m.set(7, &[round, 0, 100])?;
        }
        assert_eq!((m.get(7)?, m.get(8)?, m.read(6..8)?), (vec![2, 0, 100], vec![8, 9, 16], vec![6, 7, 14, 2, 0, 100]));
        assert!(reports[2].reused());
        for (i, row) in [(100, vec![0; 3]), (7, vec![0; 2]), (7, vec![])] {
            assert!(m.set(i, &row).is_err());
        }
        let said = "rows 99..101 were asked for, but the DMatrix has 100";
        assert_eq!((m.read(99..101).unwrap_err().to_string(), m.get(100).is_err()), (said.to_string(), true));
        let mut none: DMatrix<f32> = DMatrix::from_vec(session, 10, vec![])?;
        async_parallel_for!(0..none.len(), [&mut none], |i| none[i][0] = 1.0)?;
        assert!(none.is_empty() && none.width() == 10 && none.iter()?.len() == 0);
        seen.record("m", format!("{m:?}"));
        Ok(())
    }

    /// `m.old[i]`: a smoothing down the columns, which a plain loop does with a copy.
    pub(crate) fn read_rows_from_before(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for (n, width, order) in [(700, 5, Order::Any), (700, 1, Order::Any), (90, 300, Order::Preserve)] {
            let mut m = DMatrix::from_fn(session, n, width, |i, k| below((i * width + k) as u64, 1000) as f64)?;
            let mut plain: Vec<Vec<f64>> = m.iter()?.collect();
            for sweep in 0..4 {
                let report = async_parallel_for!(
                    1..n - 1,
                    [&mut m],
                    |i| {
                        let (above, below) = (&m.old[i - 1], &m.old[i + 1]);
                        for (x, (a, b)) in m[i].iter_mut().zip(above.iter().zip(below)) {
                            *x = 0.25 * a + 0.5 * *x + 0.25 * b;
                        }
                    },
                    order = order
                )?;
                let old = plain.clone();
                for i in 1..n - 1 {
                    for k in 0..width {
                        plain[i][k] = 0.25 * old[i - 1][k] + 0.5 * old[i][k] + 0.25 * old[i + 1][k];
                    }
                }
                assert_eq!(bits(m.to_vec()?), bits(plain.concat()), "sweep {sweep}");
                assert_eq!((report.reused(), report.strategy()), (sweep > 0, Strategy::Aligned));
                if sweep == 1 {
                    m.set(3, &vec![1.0; width])?;
                    plain[3] = vec![1.0; width];
                }
                seen.report("sweep", &report);
            }
        }
        Ok(())
    }

    /// Rows that a loop only adds to: said, seen by the macro, and by whole rows.
    pub(crate) fn add_rows_up(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for (rows, width) in [(9usize, 7usize), (5, 1), (3, 300)] {
            let n = 20_000;
            let to = move |i: usize| below(i as u64, rows);
            let mut said = DMatrix::from_fn(session, rows, width, |i, k| (i + k) as u64)?;
            let mut unsaid = DMatrix::from_fn(session, rows, width, |_, _| 0i32)?;
            let mut floats = DMatrix::from_fn(session, rows, width, |_, _| 0.5f32)?;
            let mut arrays = DVector::from_fn(session, rows, |_| [0.5f32; 7])?;
            let (mut plain, mut plain_unsaid) = (said.to_vec()?, unsaid.to_vec()?);
            for call in 0..2 {
                let report = async_parallel_for!(
                    0..n,
                    [rows, width, sum said, &mut unsaid, sum floats, sum arrays],
                    |i| {
                        let row = below(i as u64, rows);
                        let x = (i % 17) as f32 * 0.01;
                        said[row][i % width] += i as u64;
                        unsaid[row][0] += 1;
                        floats[row][0] += x;
                        arrays[row][0] += x;
                    }
                )?;
                for i in 0..n {
                    plain[to(i) * width + i % width] += i as u64;
                    plain_unsaid[to(i) * width] += 1;
                }
                assert_eq!((said.to_vec()?, unsaid.to_vec()?), (plain.clone(), plain_unsaid.clone()), "call {call}");
                assert!(report.strategy() != Strategy::Serial && report.misspeculations() == 0, "{report}");
                seen.report("sums", &report);
            }
            // Blocks and their tree are those of arrays.
            for i in 0..rows {
                assert_eq!(floats.get(i)?[0].to_bits(), arrays.get(i)?[0].to_bits());
            }
            seen.record("floats", floats.digest()?);

            let by: Vec<u64> = (0..width as u64).collect();
            let by = DVector::from_vec(session, by)?;
            async_parallel_for!(0..n, [rows, &by, sum said], |i| said.add(i % rows, &by[..]))?;
            for i in 0..n {
                (0..width).for_each(|k| plain[i % rows * width + k] += k as u64);
            }
            assert_eq!(said.to_vec()?, plain);
        }
        let mut m = DMatrix::from_fn(session, 4, 3, |_, _| 0u8)?;
        let short = async_parallel_for!(0..4, [sum m], |i| m.add(i, &[1, 2])).unwrap_err().to_string();
        assert!(short.contains("a row of 3 numbers and one of 2"), "{short}");
        assert_eq!(m.to_vec()?, [0; 12]);
        Ok(())
    }

    /// `m[a..b]`: the numbers of rows that follow each other, as one slice.
    pub(crate) fn take_ranges_of_rows(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
            let (n, width) = (120usize, 6usize);
            let table = DMatrix::from_fn(session, n, width, |i, k| (i * width + k) as u32)?;
            let mut m = DMatrix::from_fn(session, n, width, |i, k| mix((i * width + k) as u64) as u32)?;
            let (mut plain, given) = (m.to_vec()?, table.to_vec()?);
            for round in 0..3usize {
                let report = async_parallel_for!(
                    0..n / 4,
                    [n, width, round, &table, &mut m],
                    |i| {
                        let first = 4 * i;
                        let own = &mut m[first..first + 3];
                        own.rotate_left(1);
                        own.iter_mut().zip(&table[..3]).for_each(|(x, y)| *x = x.wrapping_add(*y));
                        let read = (first + 8 * round) % (n - 5);
                        let sum = m[read..=read + 4].iter().fold(0u32, |sum, x| sum.wrapping_add(*x));
                        let all = table[..].len() + table[n - 1..].len() + m[first..first].len();
                        m[first + 3][i % width] = sum.wrapping_mul(all as u32);
                    },
                    order = Preserve,
                    strategy = strategy
                )?;
                for i in 0..n / 4 {
                    let first = 4 * i;
                    let own = &mut plain[first * width..(first + 3) * width];
                    own.rotate_left(1);
                    own.iter_mut().zip(&given[..3 * width]).for_each(|(x, y)| *x = x.wrapping_add(*y));
                    let read = (first + 8 * round) % (n - 5);
                    let sum = plain[read * width..(read + 5) * width].iter().fold(0u32, |sum, x| sum.wrapping_add(*x));
                    plain[(first + 3) * width + i % width] = sum.wrapping_mul(((n + 1) * width) as u32);
                }
                assert_eq!(m.to_vec()?, plain, "{strategy}, round {round}");
                seen.record("iterations", report.iterations());
            }
        }
        let m = DMatrix::from_fn(session, 3, 2, |_, _| 0u8)?;
        let mut lens = DVector::from_fn(session, 3, |_| 0usize)?;
        let beyond = async_parallel_for!(0..3, [&m, &mut lens], |i| lens[i] = m[i..i + 2].len()).unwrap_err();
        assert!(matches!(beyond, stradsap::Error::IndexOutOfRange { iteration: 2, index: 3, .. }), "{beyond}");
        Ok(())
    }

    /// Rows that aren't there are called rows; numbers beyond the width are the body's own panic, of an iteration that is named.
    pub(crate) fn name_what_isnt_there(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for width in [1usize, 4] {
            let mut m = DMatrix::from_fn(session, 30, width, |i, k| (i * k) as f32)?;
            let before = m.digest()?;
            let row = async_parallel_for!(0..30, [&mut m], |i| {
                let next = m[i + 1][0];
                m[i][0] += next;
            });
            let column = async_parallel_for!(0..30, [&mut m, width], |i| m[i][width - 1 + i / 29] += 1.0);
            let places = DVector::from_fn(session, 30, |i| i as u32)?;
            let batch = sync_parallel_for!(places, 8, [&mut m], |batch| m[batch[0] + 7].scale(2.0), SyncPolicy::Bsp);
            let mapped = with!([&m], places.map(|i| m[i + 1].len())).to_vec();
            for (error, said) in [
                (row.unwrap_err(), "iteration 29 uses `m[30]`, but `m` has 30 rows".to_string()),
                (
                    column.unwrap_err(),
                    format!("iteration 29 panicked: index out of bounds: the len is {width} but the index is {width}"),
                ),
                (batch.unwrap_err(), "uses `m[31]`, but `m` has 30 rows".to_string()),
                (mapped.unwrap_err(), "`m` has 30 rows".to_string()),
            ] {
                let error = error.to_string();
                assert!(error.contains(&said) && error.contains("matrices.rs:"), "{error}");
                seen.record("error", said);
            }
            assert_eq!(m.digest()?, before, "what fails is undone");
        }
        Ok(())
    }

    /// Pipes give what the standard library's iterators over the same rows give, also of what loops left on workers.
    pub(crate) fn flow_through_operators(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for (n, width) in [(0usize, 3usize), (1, 1), (700, 1), (3000, 7), (300, 1000)] {
            let mut m = DMatrix::from_vec(session, width, (0..n * width).map(|k| mix(k as u64) as u32).collect())?;
            let label = DVector::from_fn(session, n, |i| below(i as u64, 5) as u8)?;
            for round in 0..2u32 {
                let rows: Vec<Vec<u32>> = m.iter()?.collect();
                let sum = |row: &[u32]| row.iter().fold(0u64, |sum, &x| sum + u64::from(x));
                let sums = m.map(|row| row.iter().fold(0u64, |sum, &x| sum + u64::from(x)));
                assert_eq!(sums.to_vec()?, rows.iter().map(|row| sum(row)).collect::<Vec<_>>());
                let some = m.filter(|row| row[0] % 3 == 0);
                let expected: Vec<_> = rows.iter().filter(|row| row[0] % 3 == 0).cloned().collect();
                let wide = some.to_vec()?;
                assert_eq!(wide, expected);
                if !wide.is_empty() {
                    assert_eq!(DMatrix::from_rows(session, wide)?.to_vec()?, expected.concat());
                }
                let numbers =
                    m.flat_map(|row| row.iter().rev().copied().collect::<Vec<_>>()).filter(|x| x % 2 == 0).collect()?;
                let backwards = rows.iter().flat_map(|row| row.iter().rev()).copied().filter(|x| x % 2 == 0);
                assert!(numbers.to_vec()? == backwards.collect::<Vec<_>>(), "{n} rows of {width}");
                let places = m.enumerate().map(|(i, row)| *i as u32 ^ row[row.len() - 1]).to_vec()?;
                let last = rows.iter().enumerate().map(|(i, row)| i as u32 ^ row[width - 1]);
                assert_eq!(places, last.collect::<Vec<_>>());
                let labelled = m.zip(&label).map(|(row, label)| row[0] % (1 + u32::from(*label))).to_vec()?;
                let theirs = rows.iter().zip(label.to_vec()?).map(|(row, label)| row[0] % (1 + u32::from(label)));
                assert_eq!(labelled, theirs.collect::<Vec<_>>());
                let lengths = label.zip(&m).map(|(label, row)| row.len() + usize::from(*label)).to_vec()?;
                assert_eq!(lengths, label.iter()?.map(|label| width + usize::from(label)).collect::<Vec<_>>());
                let bounds = m.fold(
                    (u32::MAX, 0),
                    |(a, b), row| (a.min(row[0]), b.max(row[0])),
                    |a, b| (a.0.min(b.0), a.1.max(b.1)),
                );
                let first = || rows.iter().map(|row| row[0]);
                assert_eq!(bounds?, (first().min().unwrap_or(u32::MAX), first().max().unwrap_or(0)));
                let sorted = m.sort_by_key(|row| row[row.len() / 2])?;
                let mut by_middle = rows.clone();
                by_middle.sort_by_key(|row| row[width / 2]);
                assert_eq!(sorted.to_vec()?, by_middle);
                let counted = m.count_by_key(|row| row[0] % 4)?;
                assert_eq!(counted.get(&1)?.unwrap_or(0), first().filter(|x| x % 4 == 1).count() as u64);
                let (train, test) = m.split(0.7, 3)?;
                assert_eq!(train.len() + test.len(), n);
                seen.record("train", train.digest()?);
                let shift = round + 7;
                with!([shift, &label], m.enumerate().map(|(i, row)| (row[0] >> shift) + u32::from(label[*i])))
                    .to_vec()?
                    .into_iter()
                    .zip(rows.iter().zip(label.to_vec()?))
                    .for_each(|(x, (row, label))| assert_eq!(x, (row[0] >> shift) + u32::from(label)));
                // What a loop and a transform leave where they ran is what the next pipes see.
                async_parallel_for!(0..n, [&mut m], |i| m[i][0] = m[i][0].wrapping_mul(31) ^ i as u32)?;
                with!([shift], m.transform(|row| row.iter_mut().for_each(|x| *x = x.rotate_left(shift))))?;
                let mut plain = rows;
                for (i, row) in plain.iter_mut().enumerate() {
                    row[0] = row[0].wrapping_mul(31) ^ i as u32;
                    row.iter_mut().for_each(|x| *x = x.rotate_left(shift));
                }
                assert_eq!(m.to_vec()?, plain.concat());
            }
            seen.record("m", m.digest()?);
        }
        let m = DMatrix::from_fn(session, 40, 3, |i, k| i + k)?;
        let error = m.map(|row| row[row[0] / 13]).to_vec().unwrap_err().to_string();
        assert!(error.contains("element 39 panicked: index out of bounds"), "{error}");
        Ok(())
    }

    pub(crate) fn refuse_rows_that_cant_be(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for (refused, said) in [
            (DMatrix::from_rows(session, [vec![1.0, 2.0], vec![3.0]]), "row 1 has 1 number and row 0 has 2"),
            (DMatrix::from_rows(session, [vec![], vec![3.0]]), "row 1 has 1 number and row 0 has 0"),
            (DMatrix::from_rows(session, [[0.0f64; 0]; 2]), "the width is 0"),
            (DMatrix::from_rows(session, Vec::<Vec<f64>>::new()), "nothing says how wide"),
            (DMatrix::from_vec(session, 0, vec![1.0]), "the width is 0"),
            (DMatrix::from_vec(session, 3, vec![1.0; 7]), "7 numbers don't make whole rows of 3"),
            (DMatrix::from_fn(session, 5, 0, |_, _| 1.0), "the width is 0"),
            (DMatrix::from_fn(session, 5, usize::MAX / 4, |_, _| 1.0), "more than memory has addresses for"),
            (DMatrix::from_fn(session, 1 << 30, 1 << 33, |_, _| 1.0), "more than memory has addresses for"),
            (DMatrix::from_fn(session, (1 << 48) + 1, 1, |_, _| 1.0), "at most 281474976710656"),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            seen.record("error", error);
        }
        Ok(())
    }
}
