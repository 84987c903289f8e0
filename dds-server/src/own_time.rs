//! Time in which this process ran. While it was stopped, with the machine or by a signal, it could not hear anybody: that time
//! counts against nobody.

use std::future::Future;
use std::time::Duration;

/// A process that was stopped for longer than this, between two looks at the clock, has lost no more than this.
const STEP: Duration = Duration::from_millis(250);

/// What a future gives, unless it takes longer than `limit` of the time in which this process runs.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut left = limit;
    loop {
        let step = left.min(STEP);
        // The future is asked first: who was stopped for long hears what has come meanwhile.
        if let Ok(done) = tokio::time::timeout(step, &mut future).await {
            return Some(done);
        }
        left -= step;
        if left.is_zero() {
            return None;
        }
    }
}
