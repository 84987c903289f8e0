//! A job whose first loop writes what all later ones only read: after a while it is in no snapshot but the oldest. One epoch
//! takes long.

use std::time::Duration;

use stradsap::prelude::*;

use crate::common::mix;

/// Makes this executable that job.
pub const WRITTEN_ONCE: &str = "STRADSAP_TEST_WRITTEN_ONCE";

const CELLS: usize = 20_000;
/// The epoch that takes a second of one thread.
pub const SLOW: usize = 3;

#[allow(clippy::print_stdout)]
pub fn run(session: &Session, epochs: usize) -> stradsap::Result<()> {
    let mut once = DVector::from_fn(session, 3000, |i| mix(i as u64))?;
    let mut often = DVector::from_fn(session, CELLS, |i| i as u64)?;
    println!("begins at 0");
    std::thread::sleep(Duration::from_millis(20));
    async_parallel_for!(0..once.len(), [&mut once], |i| once[i] = once[i].rotate_left(i as u32 % 64) ^ 7)?;
    println!("written once");
    std::thread::sleep(Duration::from_millis(20));
    for epoch in 0..epochs {
        // Some that live for one epoch alone.
        let mut fleeting = DVector::from_fn(session, 100, |i| i as u64)?;
        async_parallel_for!(0..3000, [epoch, &once, &mut often, &mut fleeting], |i| {
            if epoch == SLOW {
                std::thread::sleep(Duration::from_micros(250));
            }
            let at = i * 7 % CELLS;
            often[at] = often[at].rotate_left(3) ^ once[i] ^ epoch as u64;
            fleeting[i % 100] ^= once[i];
        })?;
        println!("epoch {epoch} ");
        std::thread::sleep(Duration::from_millis(2));
    }
    println!("digest {} {}", once.digest()?, often.digest()?);
    Ok(())
}
