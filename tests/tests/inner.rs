//! Loops within bodies: whose rounds all reach the same elements, elements that follow each other, or none of the block's own.

use crate::common::{below, mix};
use crate::seen::{Scenario, Seen};
use stradsap::prelude::*;
use stradsap::{ReadView, WriteView};

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    loops::over_rows,
    loops::over_stretches,
    loops::over_what_is_only_read,
    loops::over_sums,
    loops::over_other_things,
    loops::over_all_elements,
    loops::that_end_early,
    loops::that_count_in_other_types,
    loops::that_leave_the_vector,
    loops::that_go_astray,
];

type Result = stradsap::Result<()>;

/// What must be the same everywhere.
pub(crate) mod loops {
    use super::*;

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    fn start(k: usize) -> f32 {
        1.0 + below(k as u64, 90) as f32 / 30.0
    }

    pub(crate) fn over_rows(session: &Session, seen: &mut Seen) -> Result {
        const K: usize = 5;
        let (users, items, n) = (60, 40, 6_000usize);
        let pairs: Vec<(u32, u8)> =
            (0..n as u64).map(|k| (below(k, users) as u32, below(k + 99, items) as u8)).collect();
        let row = |k: usize| -> [f32; K] { std::array::from_fn(|j| start(k * K + j)) };
        let (mut plain_p, mut plain_q): (Vec<_>, Vec<_>) =
            ((0..users).map(row).collect(), (0..items).map(row).collect());
        let pairs_of = DVector::from_vec(session, pairs.clone())?;
        let mut p = DVector::from_vec(session, plain_p.clone())?;
        let mut q = DVector::from_vec(session, plain_q.clone())?;
        let mut wide = DMatrix::from_fn(session, users, K, |u, j| start(u * K + j))?;
        for _ in 0..3 {
            let report = async_parallel_for!(
                0..n,
                [&pairs_of, &mut p, &mut q, &mut wide],
                |at| {
                    let (u, i) = pairs_of[at];
                    let mut e = 0.0;
                    for k in 0..K {
                        e += p[u][k] * q[i][k];
                    }
                    for k in 0..K {
                        let (a, b) = (p[u][k], q[i][k]);
                        p[u][k] += 0.001 * (e * b - a);
                        q[i][k] += 0.001 * (e * a - b);
                        wide[u][k] = 0.5 * wide[u][k] + e;
                    }
                },
                order = Preserve
            )?;
            for &(u, i) in &pairs {
                let (p, q) = (&mut plain_p[u as usize], &mut plain_q[usize::from(i)]);
                let e = (0..K).fold(0.0, |e, k| e + p[k] * q[k]);
                for k in 0..K {
                    let (a, b) = (p[k], q[k]);
                    p[k] += 0.001 * (e * b - a);
                    q[k] += 0.001 * (e * a - b);
                }
            }
            assert_eq!(bits(p.to_vec()?.as_flattened()), bits(plain_p.as_flattened()), "{report}");
            assert_eq!(bits(q.to_vec()?.as_flattened()), bits(plain_q.as_flattened()), "{report}");
        }
        seen.digest("p", &p)?;
        seen.record("wide", wide.digest()?);
        Ok(())
    }

    /// Two rows of one vector, which may be the same.
    pub(crate) fn over_stretches(session: &Session, seen: &mut Seen) -> Result {
        let (rows, width, n) = (50usize, 7usize, 3_000usize);
        let mut plain: Vec<f32> = (0..rows * width).map(start).collect();
        let mut x = DVector::from_vec(session, plain.clone())?;
        let mut seldom = DVector::from_fn(session, 100_000, |k| k as u32)?;
        let head = ..3usize;
        let report = async_parallel_for!(
            0..n,
            [rows, width, head, &mut x, &mut seldom],
            |i| {
                let (a, b) = (below(i as u64, rows), below(7 * i as u64 + 1, rows));
                for j in a % width..width {
                    x[a * width + j] -= 0.25 * x[b * width + j];
                    x[b * width + j] += 0.125;
                }
                let from = below(i as u64, 99_000);
                for k in 0..3 {
                    seldom[from + 10 * k / 10] += k as u32;
                    seldom[k + from + 1] ^= 1;
                }
                for k in from..from + 2 {
                    seldom[k - from + 3] += 1;
                }
                let first = 1..;
                for k in 0..2 {
                    x[head][k] += 0.5 * x[a * width];
                    x[head][k + 1] -= x[first.clone()][k];
                }
            },
            order = Preserve
        )?;
        let mut plain_seldom: Vec<u32> = (0..100_000).collect();
        for i in 0..n {
            let (a, b) = (below(i as u64, rows), below(7 * i as u64 + 1, rows));
            for j in a % width..width {
                plain[a * width + j] -= 0.25 * plain[b * width + j];
                plain[b * width + j] += 0.125;
            }
            let from = below(i as u64, 99_000);
            for k in 0..3 {
                plain_seldom[from + k] += k as u32;
                plain_seldom[k + from + 1] ^= 1;
            }
            (3..5).for_each(|k| plain_seldom[k] += 1);
            for k in 0..2 {
                plain[k] += 0.5 * plain[a * width];
                plain[k + 1] -= plain[1 + k];
            }
        }
        assert_eq!(bits(&x.to_vec()?), bits(&plain), "{report}");
        assert_eq!(seldom.to_vec()?, plain_seldom);
        seen.digest("x", &x)
    }

    /// A row that the block may read and not write, and rows of what is captured to be read.
    pub(crate) fn over_what_is_only_read(session: &Session, seen: &mut Seen) -> Result {
        let n = 40usize;
        let entry = |at: usize| if at / n == at % n { 50.0 } else { start(at) };
        let mut plain: Vec<f32> = (0..n * n).map(entry).collect();
        let scale = DVector::from_fn(session, n, start)?;
        let scales = scale.to_vec()?;
        let mut a = DVector::from_vec(session, plain.clone())?;
        for k in 0..n - 1 {
            let report = async_parallel_for!(k + 1..n, [k, n, &scale, &mut a], |i| {
                let by = a[i * n + k] / a[k * n + k];
                a[i * n + k] = by;
                for j in k + 1..n {
                    a[i * n + j] -= by * a[k * n + j] * scale[j] + 0.0 * a[i * n + j];
                }
            })?;
            for i in k + 1..n {
                let by = plain[i * n + k] / plain[k * n + k];
                plain[i * n + k] = by;
                for j in k + 1..n {
                    plain[i * n + j] -= by * plain[k * n + j] * scales[j] + 0.0 * plain[i * n + j];
                }
            }
            assert_eq!(bits(&a.to_vec()?), bits(&plain), "{k}: {report}");
        }
        seen.digest("a", &a)
    }

    pub(crate) fn over_sums(session: &Session, seen: &mut Seen) -> Result {
        let (centres, width, n) = (9usize, 6usize, 4_000usize);
        let mut counts = DVector::from_fn(session, centres * width, |_| 0u64)?;
        let mut totals = DVector::from_fn(session, centres, |_| [0u32; 6])?;
        async_parallel_for!(0..n, [centres, width, sum counts, &mut totals], |i| {
            let c = below(i as u64, centres);
            for k in 0..width {
                counts[c * width + k] += mix((i * width + k) as u64) % 10;
            }
            for k in 0..width {
                totals[c][k] += k as u32;
            }
        })?;
        let (mut plain, mut plain_totals) = (vec![0u64; centres * width], vec![[0u32; 6]; centres]);
        for i in 0..n {
            let c = below(i as u64, centres);
            for k in 0..width {
                plain[c * width + k] += mix((i * width + k) as u64) % 10;
                plain_totals[c][k] += k as u32;
            }
        }
        assert_eq!((counts.to_vec()?, totals.to_vec()?), (plain, plain_totals));
        seen.digest("totals", &totals)
    }

    /// Maps, texts, and iterators that are no ranges.
    pub(crate) fn over_other_things(session: &Session, seen: &mut Seen) -> Result {
        let n = 500usize;
        let names: Vec<String> = (0..30).map(|k| format!("n{k}")).collect();
        let mut map = DMap::from_entries(session, names.iter().map(|name| (name.clone(), 0u32)))?;
        let mut lists = DVector::from_fn(session, 40, |k| vec![k as u16; 3])?;
        let mut words = DVector::from_fn(session, 40, |k| format!("w{k}"))?;
        let mut cells = DVector::from_fn(session, 40, |_| Some(1u64))?;
        async_parallel_for!(
            0..n,
            [names, &mut map, &mut lists, &mut words, &mut cells],
            |i| {
                let name = &names[below(i as u64, 30)];
                let u = below(3 * i as u64, 40);
                for _ in 0..2 {
                    lists[u].push(map[name] as u16);
                }
                if let Some(count) = map.get_mut(name) {
                    *count += 2;
                }
                for (k, letter) in name.bytes().enumerate() {
                    lists[u].push(u16::from(letter) + k as u16);
                    if words[u].len() < 9 {
                        words[u].push(char::from(letter));
                    }
                }
                'all: for value in [Some(3), None, Some(4)] {
                    let Some(value) = value else { continue 'all };
                    if let Some(cell) = &mut cells[u] {
                        *cell += value;
                    }
                    match cells[u] {
                        Some(ref mut cell) if cell.is_multiple_of(5) => *cell += 1,
                        _ => cells[u] = cells[u].map(|cell| cell * 3 % 1009),
                    }
                }
            },
            order = Preserve
        )?;
        let mut plain = vec![0u32; 30];
        let mut plain_lists: Vec<Vec<u16>> = (0..40).map(|k| vec![k; 3]).collect();
        let mut plain_words: Vec<String> = (0..40).map(|k| format!("w{k}")).collect();
        let mut plain_cells = vec![1u64; 40];
        for i in 0..n {
            let (name, u) = (below(i as u64, 30), below(3 * i as u64, 40));
            plain_lists[u].extend([plain[name] as u16; 2]);
            plain[name] += 2;
            for (k, letter) in names[name].bytes().enumerate() {
                plain_lists[u].push(u16::from(letter) + k as u16);
                if plain_words[u].len() < 9 {
                    plain_words[u].push(char::from(letter));
                }
            }
            for value in [3, 4] {
                let cell = plain_cells[u] + value;
                plain_cells[u] = if cell.is_multiple_of(5) { cell + 1 } else { cell * 3 % 1009 };
            }
        }
        assert_eq!(lists.to_vec()?, plain_lists);
        assert_eq!(words.to_vec()?, plain_words);
        assert_eq!(cells.to_vec()?, plain_cells.into_iter().map(Some).collect::<Vec<_>>());
        for (name, count) in names.iter().zip(plain) {
            assert_eq!(map.get(name)?, Some(count));
        }
        seen.digest("lists", &lists)
    }

    fn most<const C: usize, const W: usize>(x: &WriteView<'_, f32, C, W>) -> f32 {
        let mut most = 0.0;
        for &value in x {
            most = f32::max(most, value);
        }
        most
    }

    fn total<const C: usize, const W: usize>(rows: &ReadView<'_, [f32], C, W>) -> f32 {
        rows.iter().map(|row| row[0]).sum()
    }

    /// All of a DVector, in part written before: by a function, and by iterators that go on inside.
    pub(crate) fn over_all_elements(session: &Session, seen: &mut Seen) -> Result {
        let n = 200usize;
        let rows = DMatrix::from_fn(session, 30, 3, |i, k| start(3 * i + k))?;
        let of_rows: f32 = (0..30).map(|i| start(3 * i)).sum();
        let mut x = DVector::from_fn(session, n, start)?;
        let mut plain = x.to_vec()?;
        for _ in 0..2 {
            async_parallel_for!(
                0..n,
                [&rows, &mut x],
                |i| {
                    let (first, last) = (most(x), x.iter().skip(i / 2).fold(0.0, |a: f32, b| a.max(*b)));
                    let mut least = total(rows);
                    for value in &*x {
                        least = least.min(*value);
                    }
                    x[i] = 0.5 * x[i] + 0.25 * first + 0.125 * last + least;
                },
                order = Preserve
            )?;
            for i in 0..n {
                let largest = |values: &[f32]| values.iter().fold(0.0, |a: f32, b| a.max(*b));
                let least = plain.iter().fold(of_rows, |a, b| a.min(*b));
                plain[i] = 0.5 * plain[i] + 0.25 * largest(&plain) + 0.125 * largest(&plain[i / 2..]) + least;
            }
            assert_eq!(bits(&x.to_vec()?), bits(&plain));
        }
        seen.digest("x", &x)
    }

    /// Jumps, errors and panics in a round leave nothing half done.
    pub(crate) fn that_end_early(session: &Session, seen: &mut Seen) -> Result {
        let (n, width) = (300usize, 10usize);
        let mut x = DVector::from_fn(session, n * width, |k| below(k as u64, 50) as i64)?;
        let mut plain = x.to_vec()?;
        for last in [30, 50] {
            let outcome = async_parallel_for!(
                0..n,
                [last, width, &mut x],
                |i| {
                    let u = (i * 7) % 300;
                    'rounds: for k in 0..width {
                        x[u * width + k] += 1;
                        if x[u * width + k] % 13 == 0 {
                            break 'rounds;
                        }
                        if x[u * width + k] == last {
                            return Err(format!("{last} at {}", u * width + k));
                        }
                        if k % 4 == 3 {
                            continue;
                        }
                        x[u * width + k] += 2;
                    }
                    Ok(())
                },
                order = Preserve
            );
            let mut tried = plain.clone();
            let failed = (0..n).find_map(|i| {
                let u = (i * 7) % 300;
                for k in 0..width {
                    let value = &mut tried[u * width + k];
                    *value += 1;
                    if *value % 13 == 0 {
                        break;
                    }
                    if *value == last {
                        return Some(format!("{last} at {}", u * width + k));
                    }
                    *value += if k % 4 == 3 { 0 } else { 2 };
                }
                None
            });
            match (outcome, failed) {
                (Ok(_), None) => plain = tried,
                (Err(error), Some(failed)) => assert!(error.to_string().contains(&failed), "{error}: {failed}"),
                (outcome, failed) => panic!("{outcome:?}: {failed:?}"),
            }
            assert_eq!(x.to_vec()?, plain);
        }
        seen.digest("x", &x)
    }

    pub(crate) fn that_count_in_other_types(session: &Session, seen: &mut Seen) -> Result {
        let n = 700usize;
        let mut x = DVector::from_fn(session, 300, |k| k as u64)?;
        let mut plain = x.to_vec()?;
        async_parallel_for!(
            0..n,
            [&mut x],
            |i| {
                let (a, b) = (below(i as u64, 40) as i32, below(i as u64, 9) as u8);
                let (nine, three) = (9usize, 3usize);
                for k in a - 20..20 {
                    x[(k + 20) as usize] += 1;
                }
                for k in 250u8..255 {
                    x[k] += u64::from(b);
                }
                for k in b..b + 3 {
                    x[u32::from(k) + 100] ^= 3;
                }
                for letter in 'a'..'d' {
                    x[letter as usize] += 5;
                }
                for letter in 'a'..='b' {
                    x[letter as usize] += 1;
                }
                for k in a..=a + 2 {
                    x[k] += 2;
                }
                for k in 254u8..=255 {
                    x[k] += 3;
                }
                for k in nine..=three {
                    x[k + 1000 * i] += 5;
                }
                for k in usize::MAX - 1..=usize::MAX {
                    x[k.wrapping_add(9)] += 2;
                }
                for (k, by) in [7, 8, 9u64].iter().enumerate() {
                    x[k + usize::from(b)] += by;
                }
                for (k, by) in (0..9u64).filter(|k| k % 4 == 1).enumerate() {
                    x[200 + k] ^= by;
                }
                for k in nine..three {
                    x[k + 1000 * i] += 5;
                }
                for k in (0..4u16).rev() {
                    x[k + 7] = x[k + 7].wrapping_mul(3);
                }
            },
            order = Preserve
        )?;
        for i in 0..n {
            let (a, b) = (below(i as u64, 40), below(i as u64, 9));
            (a..40).for_each(|k| plain[k] += 1);
            (250..255).for_each(|k| plain[k] += b as u64);
            (b..b + 3).for_each(|k| plain[k + 100] ^= 3);
            (97..100).for_each(|k| plain[k] += 5);
            (97..99).for_each(|k| plain[k] += 1);
            (a..=a + 2).for_each(|k| plain[k] += 2);
            (254..=255).for_each(|k| plain[k] += 3);
            (7..=8).for_each(|k| plain[k] += 2);
            (0..3).for_each(|k| plain[k + b] += 7 + k as u64);
            (0..2).for_each(|k| plain[200 + k] ^= 1 + 4 * k as u64);
            (7..11).for_each(|k| plain[k] = plain[k].wrapping_mul(3));
        }
        assert_eq!(x.to_vec()?, plain);
        seen.digest("x", &x)
    }

    /// Rounds that go beyond the last element, and indices that only a round that isn't run would compute.
    pub(crate) fn that_leave_the_vector(session: &Session, seen: &mut Seen) -> Result {
        let n = 1_000usize;
        const NONE: usize = usize::MAX;
        let parents: Vec<usize> = (0..n).map(|i| if i % 3 == 0 { NONE } else { below(i as u64, 20) }).collect();
        let parent = DVector::from_vec(session, parents.clone())?;
        let mut x = DVector::from_fn(session, 100, |_| 0u32)?;
        for (length, fails) in [(5, false), (6, true)] {
            let outcome = async_parallel_for!(
                0..n,
                [length, &parent, &mut x],
                |i| {
                    let from = parent[i];
                    for k in 0..length {
                        if from != NONE {
                            x[from * 5 + k] += 1;
                        }
                    }
                    for k in 0..0 {
                        x[from - 21 + k] += 1;
                    }
                    for by in [0u32; 0] {
                        x[from * 7] += by;
                    }
                    let head = ..3;
                    for k in 0..3 {
                        x[head][k] += 0;
                    }
                },
                order = Preserve
            );
            if fails {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("`x[100]`"), "{error}");
            } else {
                outcome?;
            }
            let mut plain = vec![0u32; 100];
            let owned = parents.iter().filter(|&&from| from != NONE);
            owned.for_each(|from| (0..5).for_each(|k| plain[from * 5 + k] += 1));
            assert_eq!(x.to_vec()?, plain);
        }
        // Whose first rounds are in range.
        let outcome = async_parallel_for!(
            0..n,
            [&mut x],
            |i| {
                for k in i % 50..i % 50 + 55 {
                    x[k] += 7;
                }
            },
            order = Preserve
        );
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("`x[100]`") && error.contains("iteration 46"), "{error}");
        seen.digest("x", &x)
    }

    /// In later calls the rounds reach elements of other blocks.
    pub(crate) fn that_go_astray(session: &Session, seen: &mut Seen) -> Result {
        let (n, rows) = (4_000usize, 400usize);
        let mut x = DVector::from_fn(session, rows, |u| [u as u64; 4])?;
        let mut flat = DVector::from_fn(session, rows * 4, |k| k as u64)?;
        let (mut plain, mut plain_flat) = (x.to_vec()?, flat.to_vec()?);
        for call in 0..3 {
            let report = async_parallel_for!(
                0..n,
                [call, n, rows, &mut x, &mut flat],
                |i| {
                    let shift = if i % 500 == 499 { call } else { 0 };
                    let u = (i * rows / n + shift * 37) % rows;
                    for k in 0..4 {
                        x[u][k] = mix(x[u][k] + i as u64);
                        flat[u * 4 + k] ^= x[u][k];
                    }
                },
                order = Preserve
            )?;
            for i in 0..n {
                let shift = if i % 500 == 499 { call } else { 0 };
                let u = (i * rows / n + shift * 37) % rows;
                for k in 0..4 {
                    plain[u][k] = mix(plain[u][k] + i as u64);
                    plain_flat[u * 4 + k] ^= plain[u][k];
                }
            }
            assert_eq!((x.to_vec()?, flat.to_vec()?), (plain.clone(), plain_flat.clone()), "{call}: {report}");
        }
        seen.digest("x", &x)
    }
}
