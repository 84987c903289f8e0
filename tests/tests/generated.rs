//! Pipes of numbers: data and models that no DDS and no file was needed for.

use std::collections::BTreeMap;

use stradsap::Error;
use stradsap::prelude::*;

use crate::common::{below, mix};
use crate::seen::{Alone, Scenario, Seen, without_worker};

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    bodies::flow_as_from_a_vector,
    bodies::go_through_all_steps,
    bodies::come_to_all_ends,
    bodies::use_captures,
    bodies::pair_with_others,
    bodies::become_rows,
    bodies::start_a_model,
    bodies::change_afterwards,
    bodies::differ_in_width,
    bodies::are_too_many,
    bodies::name_who_panicked,
];

/// Tests that need no workers.
pub(crate) const ALONE: &[Alone] = crate::alone![longer_than_a_vector];

/// None, one, about a chunk, several partitions, and many.
const LENGTHS: [usize; 7] = [0, 1, 31, 33, 5000, 70_000, 300_000];

fn word(i: usize) -> String {
    format!("w{}", mix(i as u64) % 997)
}

fn rating(i: usize, users: usize, items: usize) -> (u32, u32, f32) {
    let (user, item) = (below(3 * i as u64, users), below(3 * i as u64 + 1, items));
    (user as u32, item as u32, 1.0 + below(3 * i as u64 + 2, 9) as f32 / 2.0)
}

fn start(i: usize, k: usize) -> f32 {
    0.1 + (mix((i * 1000 + k) as u64) % 100) as f32 / 500.0
}

/// What must be the same everywhere.
pub(crate) mod bodies {
    use super::*;

    /// A range is a DVector of its numbers, to the bit: they are cut alike.
    pub(crate) fn flow_as_from_a_vector(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for n in LENGTHS {
            let x = DVector::from_fn(session, n, |i| i)?;
            assert_eq!(session.range(n).collect()?.digest()?, x.digest()?);
            let root = |sum: f64, i: &usize| sum + (*i as f64).sqrt();
            let (sum, of_vector) = (session.range(n).fold(0.0, root, |a, b| a + b)?, x.fold(0.0, root, |a, b| a + b)?);
            assert_eq!(sum.to_bits(), of_vector.to_bits());
            seen.record("sum", sum.to_bits());
            let inverse = session.range(n).map(|i| 1.0 / (1 + i) as f64).reduce(|a, b| a + b)?.map(f64::to_bits);
            assert_eq!(inverse, x.map(|i| 1.0 / (1 + i) as f64).reduce(|a, b| a + b)?.map(f64::to_bits));
            let sum = session.range(n).map(|i| 1.0 / (1 + i) as f64).sum()?;
            assert_eq!(sum.to_bits(), inverse.unwrap_or_default());
            assert_eq!((x.sum()?, x.filter(|i| *i > 2).sum()?), ((0..n).sum(), (3..n.max(3)).sum()));
            assert_eq!(session.range(n).sample(0.3, 5).to_vec()?, x.sample(0.3, 5).to_vec()?);
            assert_eq!(session.range(n).shuffle(7)?.digest()?, x.shuffle(7)?.digest()?);
            let (split, of_vector) = (session.range(n).split(0.8, 3)?, x.split(0.8, 3)?);
            assert_eq!(split.0.digest()?, of_vector.0.digest()?);
            assert_eq!(split.1.digest()?, of_vector.1.digest()?);
            let sums = session.range(n).map(|i| (i % 7, 1.0 / (1 + i) as f64)).reduce_by_key(|a, b| a + b)?;
            let of_vector = x.map(|i| (i % 7, 1.0 / (1 + i) as f64)).reduce_by_key(|a, b| a + b)?;
            assert_eq!(sums.digest()?, of_vector.digest()?);
            seen.record("sums", sums.digest()?);
        }
        Ok(())
    }

    pub(crate) fn go_through_all_steps(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for n in LENGTHS {
            let found = session
                .range(n)
                .enumerate()
                .map(|(at, i)| (at + i) as u64)
                .filter(|twice| twice % 3 != 1)
                .flat_map(|twice| vec![*twice; *twice as usize % 4])
                .collect()?;
            let kept = (0..n as u64).map(|i| 2 * i).filter(|twice| twice % 3 != 1);
            let expected: Vec<u64> = kept.flat_map(|twice| vec![twice; twice as usize % 4]).collect();
            assert!(found.to_vec()? == expected, "{n}");
            let words = session.range(n).map(|i| word(*i)).collect()?;
            assert!(words.to_vec()? == (0..n).map(word).collect::<Vec<_>>(), "{n}");
            seen.digest("words", &words)?;
            let names = DMap::from_entries(session, (0..50u32).map(|k| (k, format!("name {k}"))))?;
            let named = session.range(n).join(&names, |i| (i % 60) as u32).map(|(i, name)| format!("{i} {name}"));
            let expected = (0..n).filter(|i| i % 60 < 50).map(|i| format!("{i} name {}", i % 60));
            assert!(named.to_vec()? == expected.collect::<Vec<_>>(), "{n}");
            let lists = session.range(200).map(|i| ((i % 20) as u32, i * i)).group_by_key()?;
            let several = session.range(n).join(&lists, |i| (i % 25) as u32).map(|(i, square)| i + square).count()?;
            assert_eq!(several, 10 * (0..n).filter(|i| i % 25 < 20).count());
        }
        Ok(())
    }

    pub(crate) fn come_to_all_ends(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for n in LENGTHS {
            assert_eq!(session.range(n).to_vec()?, (0..n).collect::<Vec<_>>());
            assert_eq!(session.range(n).count()?, n);
            assert_eq!(session.range(n).filter(|i| i % 5 == 2).count()?, (0..n).filter(|i| i % 5 == 2).count());
            assert_eq!(session.range(n).reduce(usize::max)?, n.checked_sub(1));
            let mut sorted: Vec<u64> = (0..n as u64).map(mix).collect();
            sorted.sort_by_key(|x| x % 1000);
            let by_key = session.range(n).map(|i| mix(*i as u64)).sort_by_key(|x| x % 1000)?;
            assert!(by_key.to_vec()? == sorted, "{n}");
            seen.digest("sorted", &by_key)?;
            let best = session.range(n).map(|i| mix(*i as u64) >> 11).top_k(9, |x| *x)?;
            let mut all: Vec<u64> = (0..n as u64).map(|i| mix(i) >> 11).collect();
            all.sort_unstable_by(|a, b| b.cmp(a));
            assert_eq!(best, all[..n.min(9)]);
            let counts = session.range(n).count_by_key(|i| word(*i))?;
            let mut expected = BTreeMap::<String, u64>::new();
            (0..n).for_each(|i| *expected.entry(word(i)).or_default() += 1);
            assert_eq!(counts.to_vec()?.into_iter().collect::<BTreeMap<_, _>>(), expected);
            let numbering = session.range(n).number_by_key(|i| word(*i))?;
            let mut first: Vec<String> = Vec::new();
            let mut met = std::collections::HashSet::new();
            first.extend((0..n).map(word).filter(|word| met.insert(word.clone())));
            assert_eq!(numbering.keys.to_vec()?, first);
            let lists = session.range(n).map(|i| (i % 11, *i)).group_by_key()?;
            assert_eq!(lists.get(&3)?, (0..n).filter(|i| i % 11 == 3).collect::<Vec<_>>());
            let last = session.range(n).map(|i| (i % 11, *i)).collect_map()?;
            assert_eq!(last.get(&3)?, (0..n).rfind(|i| i % 11 == 3));
        }
        Ok(())
    }

    pub(crate) fn use_captures(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (n, noise, scale) = (50_000, session.rng(4), 2.5f32);
        let table = DVector::from_fn(session, 100, |i| i as f32)?;
        let weights = DMap::from_entries(session, (0..10u32).map(|k| (k, k as f32 / 10.0)))?;
        let rows = DMatrix::from_fn(session, 30, 2, |i, k| (2 * i + k) as f32)?;
        let made = with!(
            [noise, scale, &table, &weights, &rows],
            session
                .range(n)
                .map(|i| scale * noise.unit(*i) + table[i % 100] + weights[&(*i as u32 % 10)] + rows[i % 30][1])
        )
        .collect()?;
        let one = |i: usize| {
            scale * noise.unit(i) + (i % 100) as f32 + (i as u32 % 10) as f32 / 10.0 + (2 * (i % 30) + 1) as f32
        };
        assert!(made.iter()?.map(f32::to_bits).eq((0..n).map(|i| one(i).to_bits())));
        seen.digest("made", &made)?;
        let sum = with!(
            [noise, &table],
            session.range(n).fold(0.0, |sum, i| sum + f64::from(noise.unit(*i) * table[i % 100]), |a, b| a + b)
        )?;
        seen.record("sum", sum.to_bits());
        // What was made stays as it was, whatever becomes of what it was made of.
        drop(table);
        assert_eq!(made.get(n - 1)?.to_bits(), one(n - 1).to_bits());
        Ok(())
    }

    pub(crate) fn pair_with_others(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (n, by, shift) = (40_000, 3usize, 10usize);
        let (x, m) =
            (DVector::from_fn(session, n, mix_of)?, DMatrix::from_fn(session, n, 3, |i, k| (i * 3 + k) as u32)?);
        let on_either_side =
            [session.range(n + 7).zip(&x).to_vec()?, x.zip(session.range(n + 7)).map(|(x, i)| (*i, *x)).to_vec()?];
        for found in on_either_side {
            assert!(found == (0..n).map(|i| (i, mix_of(i))).collect::<Vec<_>>());
        }
        let rows = m.zip(session.range(900)).map(|(row, i)| row[1] + *i as u32).to_vec()?;
        assert_eq!(rows, (0..900).map(|i| 4 * i + 1).collect::<Vec<u32>>());
        let captures = with!(
            [by, shift, &x],
            session
                .range(n)
                .map(|i| i / by)
                .zip(session.range(n).map(|i| x[*i] >> shift))
                .zip(&x)
                .map(|((a, b), c)| *a as u64 + b + c)
        );
        let found = captures.collect()?;
        assert!(
            found.to_vec()? == (0..n).map(|i| (i / by) as u64 + (mix_of(i) >> shift) + mix_of(i)).collect::<Vec<_>>()
        );
        seen.digest("found", &found)
    }

    fn mix_of(i: usize) -> u64 {
        mix(i as u64) >> 20
    }

    pub(crate) fn become_rows(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for (n, width) in [(0usize, 3usize), (1, 1), (1, 40), (700, 1), (70_000, 7), (300, 1000)] {
            let expected = DMatrix::from_fn(session, n, width, start)?;
            let made: DMatrix<f32> =
                with!([width], session.range(n).map(|i| (0..width).map(|k| start(*i, k)).collect::<Vec<_>>()))
                    .collect_rows(width)?;
            assert_eq!((made.len(), made.width(), made.is_empty()), (n, width, n == 0));
            assert_eq!(made.digest()?, expected.digest()?);
            seen.record("rows", made.digest()?);
            if n > 0 {
                assert_eq!(made.get(n - 1)?, expected.get(n - 1)?);
                assert_eq!(made.get(n).unwrap_err().to_string(), expected.get(n).unwrap_err().to_string());
            }
            // Some rows of a matrix, and rows that come with something else.
            let some = made.filter(|row| row[0] < 0.2).collect_rows(width)?;
            let few: Vec<Vec<f32>> = expected.iter()?.filter(|row| row[0] < 0.2).collect();
            assert_eq!((some.len(), some.to_vec()?), (few.len(), few.concat()));
            assert_eq!(
                made.map(|row| row.clone().into_boxed_slice()).collect_rows(width)?.digest()?,
                expected.digest()?
            );
        }
        let arrays = session.range(999).map(|i| [[*i as u8; 4], [7; 4]]).collect_rows(2)?;
        assert_eq!(arrays.get(300)?, [[44; 4], [7; 4]]);
        let several =
            session.range(1000).flat_map(|i| (0..i % 3).map(|k| [*i, k]).collect::<Vec<_>>()).collect_rows(2)?;
        assert_eq!(several.len(), 999);
        assert_eq!(several.get(998)?, [998, 1]);
        seen.record("several", several.digest()?);
        Ok(())
    }

    /// Data and model of a factorisation.
    pub(crate) fn start_a_model(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let (n, users, items, rank) = (60_000, 700, 400, 12);
        let made = with!([users, items], session.range(n).map(|i| rating(*i, users, items))).collect()?;
        let model = |rows| {
            with!([rank], session.range(rows).map(|i| (0..rank).map(|k| start(*i, k)).collect::<Vec<_>>()))
                .collect_rows(rank)
        };
        let given = DVector::from_fn(session, n, |i| rating(i, users, items))?;
        let of_fn = |rows| DMatrix::from_fn(session, rows, rank, start);
        let train = |data: &DVector<(u32, u32, f32)>, p: &mut DMatrix<f32>, q: &mut DMatrix<f32>, seen: &mut Seen| {
            for _ in 0..3 {
                let loss = session.sum(0.0f64);
                let report = async_parallel_for!(0..data.len(), [&data, &mut p, &mut q, &loss], |n| {
                    let (user, item, stars) = data[n];
                    let (p, q) = (&mut p[user], &mut q[item]);
                    let e = stars - kernels::dot(p, q);
                    kernels::each_pair(p, q, |p, q| {
                        let (a, b) = (*p, *q);
                        *p += 0.01 * (e * b - 0.02 * a);
                        *q += 0.01 * (e * a - 0.02 * b);
                    });
                    loss.add(f64::from(e * e));
                })?;
                seen.report("report", &report);
                seen.record("loss", loss.get().to_bits());
            }
            Ok::<_, Error>((p.digest()?, q.digest()?))
        };
        let (mut p, mut q): (DMatrix<f32>, DMatrix<f32>) = (model(users)?, model(items)?);
        let found = train(&made, &mut p, &mut q, seen)?;
        let (mut p, mut q) = (of_fn(users)?, of_fn(items)?);
        assert_eq!(train(&given, &mut p, &mut q, &mut Seen::default())?, found);
        seen.record("model", found);
        Ok(())
    }

    /// Like DDSs that the program made.
    pub(crate) fn change_afterwards(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 20_000;
        let mut x = session.range(n).map(|i| *i as f64).collect()?;
        let mut m = session.range(n).map(|i| [*i as f32, 0.5]).collect_rows(2)?;
        x.set(7, 0.25)?;
        m.set(9, &[3.0, 4.0])?;
        x.transform(|x| *x += 1.0)?;
        m.transform(|row| row[1] += row[0])?;
        async_parallel_for!(0..n, [&mut x, &mut m], |i| {
            x[i] *= 2.0;
            m[i][0] -= x[i] as f32;
        })?;
        let plain = |i: usize| 2.0 * (if i == 7 { 0.25 } else { i as f64 } + 1.0);
        let row = |i: usize| {
            let [a, b] = if i == 9 { [3.0, 4.0] } else { [i as f32, 0.5] };
            [a - plain(i) as f32, b + a]
        };
        assert!(x.to_vec()? == (0..n).map(plain).collect::<Vec<_>>());
        assert!(m.to_vec()? == (0..n).flat_map(row).collect::<Vec<_>>());
        assert_eq!(m.read(8..10)?, [row(8), row(9)].concat());
        seen.record("m", m.digest()?);
        seen.digest("x", &x)
    }

    /// The first row of another width is named, wherever others are.
    pub(crate) fn differ_in_width(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for bad in [0usize, 1, 4_999, 60_000, 99_999] {
            let rows =
                with!([bad], session.range(100_000).map(|i| vec![1.0f32; if *i >= bad { 2 + i % 2 } else { 3 }]));
            let first = bad + bad % 2;
            if first == 100_000 {
                assert_eq!(rows.collect_rows(3)?.len(), first);
                continue;
            }
            let error = rows.collect_rows(3).unwrap_err();
            assert!(matches!(error, Error::Operator { element: Some(element), .. } if element == first), "{error}");
            let text = without_worker(session, &error.to_string());
            let said = format!(
                "(collect_rows): element {first} failed: its row has 2 numbers, and those of the DMatrix have 3"
            );
            assert!(text.contains("generated.rs:") && text.ends_with(&said), "{text}");
            seen.record("text", text);
        }
        // What comes behind it in the same chunk doesn't count.
        let rows = session.range(40).map(|i| match i {
            5 => vec![1u8],
            6 => panic!("behind it"),
            _ => vec![1, 2],
        });
        let error = rows.collect_rows(2).unwrap_err().to_string();
        assert!(error.contains("element 5 failed: its row has 1 number, and those"), "{error}");
        let error = session.range(40).map(|_| [1u8; 2]).collect_rows(0).unwrap_err();
        assert!(matches!(&error, Error::Rows { .. }) && error.to_string().contains("the width is 0"), "{error}");
        Ok(())
    }

    pub(crate) fn are_too_many(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let most = 1usize << 48;
        for n in [most + 1, 1 << 60, usize::MAX] {
            let ends = [
                session.range(n).collect().err(),
                session.range(n).map(|i| *i as u8).to_vec().err(),
                session.range(n).enumerate().map(|(i, _)| *i as u8).collect().err(),
                session.range(n).sort_by_key(|i| *i).err(),
                session.range(n).shuffle(1).err(),
                session.range(n).zip(session.range(n)).collect().err(),
                session.range(n).map(|_| [1u8]).collect_rows(1).err(),
            ];
            for error in ends.map(Option::unwrap) {
                assert!(matches!(error, Error::TooLong { len, max } if (len, max) == (n, most)), "{error}");
                seen.record("error", error.to_string());
            }
        }
        let width = 1 << 40;
        let error = session.range(1 << 30).map(|_| vec![0u64]).collect_rows(width).unwrap_err().to_string();
        assert!(error.contains("more than memory has addresses for"), "{error}");
        // As many as the shorter pipe has.
        assert_eq!(session.range(usize::MAX).zip(session.range(5)).count()?, 5);
        Ok(())
    }

    pub(crate) fn name_who_panicked(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 100_000;
        let table = DVector::from_fn(session, 70_000, |i| i as u32)?;
        let text = |error: Error| {
            let text = without_worker(session, &error.to_string());
            assert!(text.contains("generated.rs:"), "{text}");
            text
        };
        let fails = |i: &usize| {
            assert!(i % 50_000 != 40_001, "no {i}");
            *i
        };
        let texts = [
            text(session.range(n).map(fails).collect().unwrap_err()),
            text(session.range(n).map(fails).count().unwrap_err()),
            text(session.range(n).map(fails).sort_by_key(|i| *i).unwrap_err()),
            text(session.range(n).map(fails).count_by_key(|i| i % 3).unwrap_err()),
            text(session.range(n).map(fails).map(|i| [*i]).collect_rows(1).unwrap_err()),
        ];
        for text in texts {
            assert!(text.contains("element 40001 panicked: no 40001"), "{text}");
            seen.record("panic", text);
        }
        let beyond = with!([&table], session.range(n).map(|i| table[*i])).collect().unwrap_err().to_string();
        assert!(beyond.contains("element 70000 uses") && beyond.contains("has 70000 elements"), "{beyond}");
        seen.record("beyond", beyond);
        let inside = session.range(30).map(|i| inner().map_or_else(|error| error.to_string(), |n| (n + i).to_string()));
        let inside = inside.to_vec()?;
        assert!(inside.iter().all(|text| text.contains("can't be called from the body of another one")), "{inside:?}");
        Ok(())
    }

    fn inner() -> stradsap::Result<usize> {
        Session::builder().threads(1).build()?.range(40).count()
    }
}

/// More numbers than a DVector has elements, of which few stay. It takes a minute: only with `STRADSAP_LONG=1`.
fn longer_than_a_vector() {
    if std::env::var_os("STRADSAP_LONG").is_none() {
        return;
    }
    let session = crate::common::session(2);
    let n = (1usize << 31) + 70_000;
    let few = session.range(n).filter(|i| i % (1 << 28) == 65_537).map(|i| *i as u64).collect().unwrap();
    assert_eq!(few.to_vec().unwrap(), (0..9).map(|k| (k << 28) + 65_537).collect::<Vec<u64>>());
}
