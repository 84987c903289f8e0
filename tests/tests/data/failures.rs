//! Closures and bodies that fail: the error says where and why, all is as before, and the session goes on.

use stradsap::prelude::*;
use stradsap::{Error, LoopProblem};

use crate::seen::{Seen, without_worker};

type Result = stradsap::Result<()>;

const BAD: u32 = 777;

/// Asserts that an operator failed for an element, in this file.
fn failed<T>(session: &Session, seen: &mut Seen, operator: &str, element: usize, ended: stradsap::Result<T>) {
    let Err(error) = ended else { panic!("{operator} did not fail") };
    let Error::Operator { site, element: found, .. } = &error else { panic!("{operator}: {error}") };
    assert!(site.contains("failures.rs:") && site.ends_with(&format!(" ({operator})")), "{operator}: {site}");
    assert_eq!(*found, Some(element), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("element {element} panicked: {BAD} is bad (")), "{text}");
    assert!(!text.contains('\n'), "{text}");
    seen.record(operator, without_worker(session, &text));
}

/// Panics for one number.
fn good(n: u32) -> u32 {
    assert!(n != BAD, "{n} is bad");
    n
}

/// A key whose comparison panics: not in a chunk, but where items of many chunks come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Element)]
struct Fussy(u32);

impl PartialOrd for Fussy {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fussy {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        assert!(self.0 != BAD || other.0 != BAD, "{BAD} is bad");
        self.0.cmp(&other.0)
    }
}

pub(crate) fn closures_that_panic(session: &Session, seen: &mut Seen) -> Result {
    // Two of them: the first one is named.
    let mut x = DVector::from_fn(session, 3000, |i| if i % 1500 == 1234 { BAD } else { i as u32 % 700 })?;
    let empty = DVector::<u32>::from_vec(session, Vec::new())?;
    let shift = 0u32;
    for written in [false, true] {
        if written {
            async_parallel_for!(0..x.len(), [&mut x], |i| x[i] = x[i].rotate_left(7).rotate_right(7))?;
        }
        let before = x.digest()?;
        failed(session, seen, "collect", 1234, x.map(|n| good(*n)).collect());
        failed(session, seen, "to_vec", 1234, x.filter(|n| good(*n) < 9).to_vec());
        failed(session, seen, "collect", 1234, x.enumerate().flat_map(|(_, n)| [good(*n); 2]).collect());
        failed(
            session,
            seen,
            "collect",
            1234,
            with!([shift, &empty], x.map(|n| good(n + shift) + empty.len() as u32)).collect(),
        );
        failed(session, seen, "fold", 1234, x.fold(0u64, |sum, n| sum + u64::from(good(*n)), |a, b| a + b));
        failed(
            session,
            seen,
            "fold",
            1234,
            with!([shift], x.fold(0u32, |sum, n| sum ^ good(*n + shift), |a, b| a ^ b)),
        );
        failed(session, seen, "reduce", 1234, x.reduce(|a, b| a ^ good(b)));
        failed(session, seen, "sort_by_key", 1234, x.sort_by_key(|n| good(*n)));
        failed(session, seen, "count_by_key", 1234, x.count_by_key(|n| good(*n)));
        failed(session, seen, "group_by_key", 1234, x.map(|n| (good(*n), 1u8)).group_by_key());
        failed(session, seen, "reduce_by_key", 1234, x.map(|n| (good(*n), 1u8)).reduce_by_key(|a, b| a ^ b));
        failed(session, seen, "collect_map", 1234, x.map(|n| (good(*n), 1u8)).collect_map());
        failed(session, seen, "split", 1234, x.map(|n| good(*n)).split(0.5, 1));
        failed(session, seen, "shuffle", 1234, x.map(|n| good(*n)).shuffle(1));
        failed(session, seen, "top_k", 1234, x.top_k(3, |n| good(*n)));
        failed(session, seen, "number_by_key", 1234, x.number_by_key(|n| good(*n)));
        let sorted = x.sort_by_key(|n| Fussy(*n));
        assert!(matches!(&sorted, Err(Error::Operator { element: None, .. })));
        let text = sorted.unwrap_err().to_string();
        assert!(text.contains("(sort_by_key): bringing items together panicked: 777 is bad"), "{text}");
        let ended = x.transform(|n| *n = good(*n) + 1);
        let Err(Error::Panic { iteration, message, .. }) = &ended else { panic!("{ended:?}") };
        assert_eq!((*iteration % 1500, message.as_str()), (1234, "777 is bad"));
        seen.record("transform", iteration);
        // Nothing has changed, and operators go on.
        assert_eq!(x.digest()?, before);
        assert_eq!(x.map(|n| n + 1).count()?, 3000);
    }
    let mut map = DMap::from_entries(session, (0..2000u32).map(|k| (k, k)))?;
    let before = map.digest()?;
    let error = map.map(|(key, _)| good(*key)).collect().err().unwrap().to_string();
    assert!(error.contains("777 is bad") && error.contains("failures.rs"), "{error}");
    let error = map.transform(|key, value| *value += good(*key)).unwrap_err().to_string();
    assert!(error.contains("777 is bad") && error.contains("failures.rs"), "{error}");
    assert_eq!(map.digest()?, before);
    map.transform(|key, value| *value += key)?;
    assert_eq!(map.get(&BAD)?, Some(2 * BAD));
    // A function that unites two values.
    let pairs = map.map(|(key, _)| (key % 5, *key));
    let error = pairs.reduce_by_key(|a, b| good(a).max(good(b))).err().unwrap().to_string();
    assert!(error.contains("777 is bad"), "{error}");
    seen.record("map", map.digest()?);
    // Where the program's own process brings together what chunks gave, and samples keys.
    let many = DVector::from_fn(session, 20_000, |i| i as u32)?;
    let error = many.fold(0u32, |_, n| *n, |_, _| panic!("no sum")).unwrap_err().to_string();
    assert!(error.contains("(fold): bringing items together panicked: no sum"), "{error}");
    let error = many.sort_by_key(|n| Fussy(BAD + n % 2)).unwrap_err().to_string();
    assert!(error.contains("(sort_by_key): bringing items together panicked: 777 is bad"), "{error}");
    Ok(())
}

pub(crate) fn out_of_range(session: &Session, seen: &mut Seen) -> Result {
    let x = DVector::from_fn(session, 2000, |i| (i % 101) as u32)?;
    let (table, names) = (DVector::from_fn(session, 100, |i| i as f64)?, DVector::from_fn(session, 101, |i| i as u8)?);
    let ended = with!([&names, &table], x.map(|n| f64::from(names[*n as usize]) + table[*n as usize])).collect();
    let error = ended.err().unwrap();
    let text = error.to_string();
    let Error::Operator { element, .. } = error else { panic!("{text}") };
    assert_eq!(element, Some(100));
    assert!(text.contains("[100]") && text.contains("has 100 elements"), "{text}");
    seen.record("map", &text);
    let ended = with!([&table], x.fold(0.0, |sum, n| sum + table[*n as usize], |a, b| a + b));
    let text = ended.unwrap_err().to_string();
    assert!(text.contains("(fold): element 100 ") && text.contains("has 100 elements"), "{text}");
    seen.record("fold", text);
    let text = with!([&table], x.map(|n| table[*n as usize])).count().unwrap_err().to_string();
    assert!(text.contains("(count): element 100 "), "{text}");
    // In step, and with a map beside it.
    let mut y = x.map(|n| u64::from(*n)).collect()?;
    let (before, counts) = (y.digest()?, x.count_by_key(|n| *n)?);
    let ended = with!([&counts, &table], y.transform(|n| *n += counts[&(*n as u32)] + table[*n as usize] as u64));
    let Err(Error::IndexOutOfRange { index: 100, len: 100, iteration, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(iteration % 101, 100);
    assert_eq!(y.digest()?, before);
    with!([&counts], y.transform(|n| *n += counts[&(*n as u32)]))?;
    assert_eq!(y.get(0)?, 20);
    seen.digest("y", &y)
}

/// `m[&key]` of a key that is not there.
pub(crate) fn missing_keys(session: &Session, seen: &mut Seen) -> Result {
    let keys = DVector::from_fn(session, 500, |i| if i == 321 { 1000 } else { i as u32 % 60 })?;
    let mut map = DMap::from_entries(session, (0..60u32).map(|k| (k, u64::from(k))))?;
    let mut other = DMap::<u32, u64>::new(session)?;
    let before = map.digest()?;
    let ended = async_parallel_for!(0..keys.len(), [&keys, &mut map, &mut other], |i| {
        other.insert(keys[i], i as u64);
        *map.entry(i as u32 % 90).or_insert(3) += 1;
        let value = map[&keys[i]];
        *map.entry(keys[i]).or_insert(0) += value;
    });
    // Whether the key was there depends on the order; that one was never put there.
    let error = ended.err().unwrap();
    let Error::Panic { iteration: 321, message, location, .. } = &error else { panic!("{error}") };
    assert!(message.contains("`map` has no such key: use `get`") && location.contains("failures.rs"), "{error}");
    seen.record("written", without_worker(session, &error.to_string()));
    assert_eq!((map.digest()?, map.len()?, other.len()?), (before.clone(), 60, 0));
    let mut sums = DVector::from_fn(session, 500, |_| 0u64)?;
    let ended = async_parallel_for!(0..keys.len(), [&keys, &map, &mut sums], |i| sums[i] += map[&keys[i]]);
    let error = ended.err().unwrap();
    assert!(matches!(&error, Error::Panic { iteration: 321, .. }), "{error}");
    seen.record("read", without_worker(session, &error.to_string()));
    assert!(sums.iter()?.all(|sum| sum == 0));
    let error = with!([&map], keys.map(|key| map[key])).collect().err().unwrap();
    assert!(matches!(&error, Error::Operator { element: Some(321), .. }), "{error}");
    seen.record("operator", without_worker(session, &error.to_string()));
    // The same loops, with the key.
    map.insert(1000, 1)?;
    async_parallel_for!(0..keys.len(), [&keys, &map, &mut sums], |i| sums[i] += map[&keys[i]])?;
    assert_eq!(sums.get(321)?, 1);
    seen.digest("sums", &sums)
}

/// An operator within a loop's body, and within another operator's closure.
pub(crate) fn nested(session: &Session, seen: &mut Seen) -> Result {
    let mut x = DVector::from_fn(session, 50, |i| i as u32)?;
    let ended = async_parallel_for!(0..50, [&mut x], |i| {
        x[i] += 1;
        inner().map(drop)
    });
    let error = ended.err().unwrap().to_string();
    assert!(error.contains("can't be called from the body of another one"), "{error}");
    seen.record("loop", without_worker(session, &error));
    let error = x.map(|n| n + inner().map_err(|error| error.to_string()).unwrap()).collect().err().unwrap().to_string();
    assert!(error.contains("can't be called from the body of another one"), "{error}");
    assert_eq!(x.to_vec()?, (0..50).collect::<Vec<u32>>());
    assert_eq!(x.reduce(|a, b| a + b)?, Some(1225));
    Ok(())
}

fn inner() -> stradsap::Result<u32> {
    let session = Session::builder().threads(1).build()?;
    let y = DVector::from_fn(&session, 40, |i| i as u32)?;
    y.fold(0, |sum, n| sum + n, |a, b| a + b)
}

/// What operators can't be given.
pub(crate) fn refused(session: &Session, seen: &mut Seen) -> Result {
    let problem = |ended: Error| match ended {
        Error::Loop { site, problem } => {
            assert!(site.contains("failures.rs:"), "{site}");
            problem
        }
        other => panic!("{other}"),
    };
    let x = DVector::from_fn(session, 100, |i| i as u32)?;
    let total = session.sum(0u64);
    let ended = with!(
        [&total],
        x.map(|n| {
            total.add(1);
            *n
        })
    )
    .collect();
    assert_eq!(problem(ended.err().unwrap()), LoopProblem::ReductionInOperator);
    assert_eq!(total.get(), 0);
    let other = Session::builder().threads(1).build()?;
    let (table, map) = (DVector::from_fn(&other, 100, |i| i as u32)?, DMap::from_entries(&other, [(1u32, 2u32)])?);
    let ended = with!([&table], x.map(|n| table[*n as usize])).to_vec();
    assert!(matches!(problem(ended.err().unwrap()), LoopProblem::TwoSessions { second: "table", .. }));
    assert!(matches!(problem(x.zip(&table).collect().err().unwrap()), LoopProblem::TwoSessions { .. }));
    assert!(matches!(problem(x.join(&map, |n| *n).collect().err().unwrap()), LoopProblem::TwoSessions { .. }));
    let ended = with!([&map], x.fold(0, |sum, n| sum + map.get(n).copied().unwrap_or(0), |a, b| a + b));
    assert!(matches!(problem(ended.err().unwrap()), LoopProblem::TwoSessions { .. }));
    for (given, text) in [(90.0, "90"), (1.0001, "1.0001"), (-0.1, "-0.1"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        let (sampled, split) = (x.sample(given, 1).count(), x.map(|n| *n).split(given, 1));
        for (operator, ended) in [("sample", sampled.err()), ("split", split.err())] {
            let wanted = LoopProblem::Probability { operator, given: text.to_string() };
            assert_eq!(problem(ended.unwrap()), wanted);
        }
    }
    let error = x.zip(x.map(|n| *n)).sample(2.0, 1).collect().err().unwrap().to_string();
    assert!(error.ends_with("expected a number from 0 to 1, such as 0.9 for 90 %"), "{error}");
    let mut y = x.map(|n| *n).collect()?;
    let ended = with!([&table], y.transform(|n| *n += table[*n as usize]));
    assert!(matches!(problem(ended.err().unwrap()), LoopProblem::TwoSessions { .. }));
    seen.digest("y", &y)
}
