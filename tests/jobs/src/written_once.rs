//! A job whose first loop writes what all later ones only read: after a while it is in no snapshot but the oldest. One epoch
//! takes long. It ends when its test has seen enough.

use std::time::Duration;

use stradsap::prelude::*;

use crate::common::mix;

/// Makes this executable that job.
pub const WRITTEN_ONCE: &str = "STRADSAP_TEST_WRITTEN_ONCE";

/// Where this file is, the job begins no other epoch.
pub const ENOUGH: &str = "STRADSAP_TEST_ENOUGH";

const WRITTEN: usize = 3000;
const CELLS: usize = 20_000;
/// The epoch that takes a second of one thread.
pub const SLOW: usize = 3;

#[allow(clippy::print_stdout)]
pub fn run(session: &Session, epochs: usize) -> stradsap::Result<()> {
    let enough = std::env::var_os(ENOUGH).map(std::path::PathBuf::from);
    let mut once = DVector::from_fn(session, WRITTEN, |i| mix(i as u64))?;
    let mut often = DVector::from_fn(session, CELLS, |i| i as u64)?;
    println!("begins at 0");
    std::thread::sleep(Duration::from_millis(20));
    async_parallel_for!(0..once.len(), [&mut once], |i| once[i] = once[i].rotate_left(i as u32 % 64) ^ 7)?;
    println!("written once");
    std::thread::sleep(Duration::from_millis(20));
    let mut epoch = 0;
    while epoch < epochs && !enough.as_ref().is_some_and(|file| file.exists()) {
        // Some that live for one epoch alone.
        let mut fleeting = DVector::from_fn(session, 100, |i| i as u64)?;
        async_parallel_for!(0..WRITTEN, [epoch, &once, &mut often, &mut fleeting], |i| {
            if epoch == SLOW {
                std::thread::sleep(Duration::from_micros(250));
            }
            let at = i * 7 % CELLS;
            often[at] = often[at].rotate_left(3) ^ once[i] ^ epoch as u64;
            fleeting[i % 100] ^= once[i];
        })?;
        println!("epoch {epoch} ");
        std::thread::sleep(Duration::from_millis(2));
        epoch += 1;
    }
    println!("digest {}", left(epoch, &once.to_vec()?, &often.to_vec()?));
    Ok(())
}

/// What a job leaves after some epochs, in words.
fn left(epochs: usize, once: &[u64], often: &[u64]) -> String {
    let [once, often] = [once, often].map(|all| all.iter().fold(0, |hash, &x| mix(hash ^ x)));
    format!("{epochs} {once:016x} {often:016x}")
}

/// What it must leave: the same in plain loops. `left` says after how many epochs it ended.
pub fn expected(left: &str) -> String {
    let epochs = left.split(' ').next().unwrap_or_default().parse().unwrap();
    let once: Vec<u64> = (0..WRITTEN).map(|i| mix(i as u64).rotate_left(i as u32 % 64) ^ 7).collect();
    let mut often: Vec<u64> = (0..CELLS as u64).collect();
    for epoch in 0..epochs {
        for (i, &written) in once.iter().enumerate() {
            let at = i * 7 % CELLS;
            often[at] = often[at].rotate_left(3) ^ written ^ epoch as u64;
        }
    }
    self::left(epochs, &once, &often)
}
