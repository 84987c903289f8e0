//! The store: what was put is got, within its bound.

use stradsap_dds_server::records;
use stradsap_dds_server::store::*;

fn got(store: &Store, dds: u64, tag: u64, lo: u64, hi: u64, size: u64) -> Result<Vec<u8>, StoreError> {
    let slices = store.get(dds, tag, lo, hi, Encoding::Plain { size })?;
    Ok(slices.iter().flat_map(|slice| slice.as_ref().iter().copied()).collect())
}

#[test]
fn plain_ranges_are_cut_out_across_parts() {
    let mut store = Store::new(1 << 20);
    store.put(1, 1, 10, 13, vec![10, 10, 11, 11, 12, 12]).unwrap();
    store.put(1, 1, 13, 15, vec![13, 13, 14, 14]).unwrap();
    store.put(1, 1, 20, 21, vec![20, 20]).unwrap();
    assert_eq!(got(&store, 1, 1, 10, 15, 2).unwrap(), [10, 10, 11, 11, 12, 12, 13, 13, 14, 14]);
    assert_eq!(got(&store, 1, 1, 11, 12, 2).unwrap(), [11, 11]);
    assert_eq!(got(&store, 1, 1, 12, 14, 2).unwrap(), [12, 12, 13, 13]);
    for (lo, hi) in [(9, 11), (14, 16), (14, 21), (15, 20), (0, 5), (30, 31)] {
        assert!(matches!(got(&store, 1, 1, lo, hi, 2), Err(StoreError::Missing { .. })), "{lo}..{hi}");
    }
    assert!(matches!(got(&store, 1, 1, 10, 11, 3), Err(StoreError::Encoding { size: 3, found: 6, .. })));
    assert!(matches!(got(&store, 1, 1, 10, 11, u64::MAX), Err(StoreError::Encoding { .. })));
    assert!(matches!(got(&store, 1, 1, 11, 11, 2), Err(StoreError::Range { .. })));
    assert!(matches!(got(&store, 1, 2, 10, 11, 2), Err(StoreError::Missing { .. })));
    assert!(matches!(got(&store, 2, 1, 10, 11, 2), Err(StoreError::Missing { .. })));
    let ranges: Vec<_> = store.ranges(1, 1).collect();
    assert_eq!(ranges, [(10..13, 6), (13..15, 4), (20..21, 2)]);
}

#[test]
fn ranges_of_encoded_elements_are_cut_out_across_parts() {
    let folder = tempfile::tempdir().unwrap();
    let word =
        |i: u64| if i.is_multiple_of(7) { String::new() } else { "w".repeat(i as usize * 31 % 90) + &i.to_string() };
    let records = |range: std::ops::Range<u64>| {
        let mut bytes = Vec::new();
        range.for_each(|i| records::push(&mut bytes, |out| out.extend_from_slice(word(i).as_bytes())).unwrap());
        bytes
    };
    let (mut here, mut away) = (Store::new(1 << 30), Store::new(1 << 30));
    away.spill_to(folder.path(), 0);
    let bounds = [10, 11, 500, 3_000, 3_001, 4_000];
    for store in [&mut here, &mut away] {
        for part in bounds.windows(2) {
            store.put(1, 1, part[0], part[1], records(part[0]..part[1])).unwrap();
        }
    }
    assert!(away.held() < here.held() / 2);
    for (lo, hi) in [(10, 11), (10, 4_000), (700, 701), (499, 501), (2_999, 3_002), (3_999, 4_000), (10, 500)] {
        for store in [&here, &away] {
            let slices = store.get(1, 1, lo, hi, Encoding::Encoded).unwrap();
            let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.as_ref().iter().copied()).collect();
            assert_eq!(bytes, records(lo..hi), "{lo}..{hi}");
            let words: String = (lo..hi).map(word).collect();
            assert_eq!(records::contents(&bytes, (hi - lo) as usize).unwrap(), words.as_bytes());
        }
    }
    assert!(matches!(here.get(1, 1, 9, 11, Encoding::Encoded), Err(StoreError::Missing { .. })));
    assert!(matches!(here.get(1, 1, 10, 4_001, Encoding::Encoded), Err(StoreError::Missing { .. })));
}

/// Lengths that say too much, too many of them, or too few.
#[test]
fn bytes_that_are_no_records_are_refused() {
    let mut good = Vec::new();
    ["one", "", "three"].iter().for_each(|word| records::push(&mut good, |out| out.extend(word.bytes())).unwrap());
    let mut long = good.clone();
    long[0] = 200;
    let mut huge = good.clone();
    huge[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let cases =
        [(good.clone(), 2), (good.clone(), 4), (good[..good.len() - 1].to_vec(), 3), (long, 3), (huge, 3), (vec![], 1)];
    for (bytes, n) in cases {
        let mut store = Store::new(1 << 20);
        store.put(1, 1, 0, n, bytes.clone()).unwrap();
        let read = store.get(1, 1, 0, 1, Encoding::Encoded);
        assert!(matches!(read, Err(StoreError::Records { lo: 0, .. })), "{bytes:?} {n}");
        assert_eq!(records::contents(&bytes, n as usize), None);
    }
    assert!(records::contents(&[], 0).unwrap().is_empty());
}

#[test]
fn elements_without_bytes() {
    let mut store = Store::new(1 << 20);
    store.put(1, 1, 0, u64::MAX, Vec::new()).unwrap();
    assert_eq!(got(&store, 1, 1, 5, 1 << 60, 0).unwrap(), [0; 0]);
    assert!(matches!(got(&store, 1, 1, 0, 5, u64::MAX), Err(StoreError::Encoding { .. })));
}

#[test]
fn the_same_range_replaces_and_another_that_overlaps_is_refused() {
    let mut store = Store::new(1 << 20);
    store.put(1, 1, 10, 20, vec![1; 10]).unwrap();
    let held = store.held();
    store.put(1, 1, 10, 20, vec![2; 10]).unwrap();
    assert_eq!(store.held(), held);
    assert_eq!(got(&store, 1, 1, 10, 11, 1).unwrap(), [2]);
    for (lo, hi) in [(10, 19), (10, 21), (9, 11), (19, 25), (12, 13), (0, 100)] {
        let error = store.put(1, 1, lo, hi, vec![3; 10]).unwrap_err();
        assert!(matches!(error, StoreError::Overlap { other_lo: 10, other_hi: 20, .. }), "{error}");
        assert_eq!(store.held(), held);
    }
    assert!(matches!(store.put(1, 1, 5, 5, vec![]), Err(StoreError::Range { .. })));
    store.put(1, 1, 20, 21, vec![3]).unwrap();
    store.put(1, 1, 0, 10, vec![3; 10]).unwrap();
    store.put(1, 2, 15, 25, vec![3; 10]).unwrap();
}

#[test]
fn memory_is_bounded_and_comes_back() {
    let mut store = Store::new(1000);
    store.put(1, 1, 0, 1, vec![0; 600]).unwrap();
    let held = store.held();
    let error = store.put(1, 1, 1, 2, vec![0; 600]).unwrap_err();
    assert!(matches!(error, StoreError::Full { limit: 1000, .. }));
    assert!(matches!(store.claim(u64::MAX), Err(StoreError::Full { .. })));
    assert_eq!(store.held(), held);
    assert_eq!(store.drop_between(1, 0..2), held);
    assert_eq!(store.held(), 0);
    // Empty parts are no way round it.
    let stored = (0..1000).take_while(|&i| store.put(1, 1, i, i + 1, Vec::new()).is_ok()).count();
    assert!(stored < 20, "{stored}");
}

#[test]
fn snapshots_of_one_dds_are_dropped_below_a_tag() {
    let mut store = Store::new(1 << 20);
    for dds in 0..3 {
        for tag in 0..4 {
            store.put(dds, tag, 0, 1, vec![tag as u8; 100]).unwrap();
        }
    }
    let held = store.held();
    let freed = store.drop_between(1, 0..2);
    assert_eq!(freed * 6, held);
    assert_eq!(store.held(), held - freed);
    for dds in 0..3 {
        for tag in 0..4 {
            assert_eq!(got(&store, dds, tag, 0, 1, 100).is_ok(), dds != 1 || tag >= 2, "{dds} {tag}");
        }
    }
    assert_eq!(store.drop_between(1, 0..2), 0);
    assert_eq!(store.drop_between(9, 0..u64::MAX), 0);
}

#[test]
fn who_is_of_an_older_epoch_is_fenced_off() {
    let mut store = Store::new(0);
    store.admit(3).unwrap();
    store.admit(3).unwrap();
    assert_eq!(store.admit(2).unwrap_err().to_string(), "generation 2 is over: this is generation 3");
    store.admit(4).unwrap();
    assert_eq!(store.generation(), 4);
}

/// What a store gives that has no memory for parts is what another gives.
#[test]
fn parts_lie_in_files_where_there_is_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (mut here, mut away) = (Store::new(1 << 30), Store::new(1 << 20));
    away.spill_to(folder.path(), 64 << 10);
    let part = |first: u64, n: u64| -> Vec<u8> { (first..first + n).flat_map(|k| (k * k).to_le_bytes()).collect() };
    for tag in 1..4 {
        let mut lo = 0;
        for n in [3u64, 5_000, 20_000, 1, 60_000, 7_000] {
            for store in [&mut here, &mut away] {
                store.put(7, tag, lo, lo + n, part(lo + tag, n)).unwrap();
            }
            lo += n;
        }
        // Once more, with other bytes.
        for store in [&mut here, &mut away] {
            store.put(7, tag, 3, 5_003, part(99, 5_000)).unwrap();
        }
    }
    assert!(here.held() > 2 << 20 && away.held() < 200 << 10, "{} and {} bytes", here.held(), away.held());
    for tag in 1..4 {
        for (lo, hi) in [(0, 92_004), (2, 4), (4_000, 30_000), (85_004, 92_004)] {
            assert_eq!(got(&away, 7, tag, lo, hi, 8).unwrap(), got(&here, 7, tag, lo, hi, 8).unwrap());
        }
        assert_eq!(away.ranges(7, tag).collect::<Vec<_>>(), here.ranges(7, tag).collect::<Vec<_>>());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files without names");
    away.drop_between(7, 0..9);
    assert_eq!(away.held(), 0);
    // Without the folder they stay in memory.
    let gone = folder.path().join("gone");
    away.spill_to(&gone, 0);
    away.put(7, 9, 0, 5_000, part(0, 5_000)).unwrap();
    assert_eq!(got(&away, 7, 9, 10, 12, 8).unwrap(), part(10, 2));
    assert!(away.held() > 40_000);
}
