//! The worker as the driver calls it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use stradsap_dds_server::codec;
use tarpc::context::Context;

use crate::body::panics::CaughtPanic;
use crate::cluster::wire::protocol::{
    Control, HandOut, Install, Membership, MemoryLimit, OperateEnd, OperateJob, Prepare, Problem, RecordJob,
    RecordedLogs, RemoteFailure, RunEnd, RunJob, ScheduleEnd, ScheduleJob, ShuffleJob, SnapshotJob, StoreJob,
    SurveyJob, SyncEnd, SyncJob, TakeIn,
};
use crate::cluster::worker::{Worker, operate};
use crate::session::slow_bodies::{self, Unit};
use crate::session::timeline;

/// A worker, for its driver.
#[derive(Clone)]
pub(crate) struct Server(pub(super) Arc<Worker>);

impl Control for Server {
    async fn join(self, _: Context, membership: Membership) -> std::result::Result<(), Problem> {
        self.0.join(membership).await
    }

    async fn record(self, _: Context, generation: u32, job: RecordJob) -> std::result::Result<RecordedLogs, Problem> {
        self.0.check(generation)?;
        self.0.record(job).await
    }

    async fn survey(self, _: Context, generation: u32, job: SurveyJob) -> std::result::Result<Vec<u64>, Problem> {
        self.0.check(generation)?;
        self.0.survey(job).await
    }

    async fn install(self, _: Context, generation: u32, job: Install) -> std::result::Result<(), Problem> {
        self.0.check(generation)?;
        self.0.install(job).await
    }

    async fn prepare(self, _: Context, generation: u32, job: Prepare) -> std::result::Result<(), Problem> {
        self.0.check(generation)?;
        self.0.prepare(job).await
    }

    async fn run(self, _: Context, generation: u32, job: RunJob) -> std::result::Result<RunEnd, Problem> {
        self.0.check(generation)?;
        self.0.run(generation, job).await
    }

    async fn settle(
        self,
        _: Context,
        generation: u32,
        call: u64,
        cut: u32,
    ) -> std::result::Result<Option<RemoteFailure>, Problem> {
        self.0.check(generation)?;
        self.0.settle(call, cut).await
    }

    async fn undo(
        self,
        _: Context,
        generation: u32,
        call: u64,
    ) -> std::result::Result<(Vec<u32>, Option<CaughtPanic>), Problem> {
        self.0.check(generation)?;
        self.0.end_arrivals(call).await?;
        self.0.apart(move |worker| worker.bench.undo(call)).await
    }

    async fn sync(self, _: Context, generation: u32, job: SyncJob) -> std::result::Result<SyncEnd, Problem> {
        self.0.check(generation)?;
        self.0.sync(generation, job).await
    }

    async fn halt(self, _: Context, generation: u32, call: u64) -> std::result::Result<(), Problem> {
        self.0.check(generation)?;
        let syncing = self.0.syncing.get();
        if let Some(syncing) = syncing.filter(|syncing| syncing.team.call == call) {
            syncing.stop();
        }
        Ok(())
    }

    async fn operate(self, _: Context, generation: u32, job: OperateJob) -> std::result::Result<OperateEnd, Problem> {
        self.0.check(generation)?;
        self.0.operate(job).await
    }

    async fn shuffle(self, _: Context, generation: u32, job: ShuffleJob) -> std::result::Result<OperateEnd, Problem> {
        self.0.check(generation)?;
        self.0.shuffle(job).await
    }

    async fn store(self, _: Context, generation: u32, job: StoreJob) -> std::result::Result<(), Problem> {
        self.0.check(generation)?;
        self.0.apart(move |worker| operate::store(&worker.bench, &job)).await?
    }

    async fn give(self, _: Context, generation: u32, call: u64) -> std::result::Result<u64, Problem> {
        self.0.check(generation)?;
        let bytes = self.0.apart(move |worker| operate::give(&worker.bench, call)).await??;
        Ok(self.0.blobs.offer(bytes))
    }

    async fn scheduled(
        self,
        _: Context,
        generation: u32,
        job: ScheduleJob,
    ) -> std::result::Result<ScheduleEnd, Problem> {
        self.0.check(generation)?;
        self.0.scheduled(generation, job).await
    }

    async fn snapshot(self, _: Context, generation: u32, job: SnapshotJob) -> std::result::Result<u64, Problem> {
        self.0.check(generation)?;
        self.0.snapshot(job).await
    }

    async fn hand_out(
        self,
        _: Context,
        generation: u32,
        job: HandOut,
    ) -> std::result::Result<Vec<(u64, usize)>, Problem> {
        self.0.check(generation)?;
        self.0.hand_out(job).await
    }

    async fn take_in(self, _: Context, generation: u32, job: TakeIn) -> std::result::Result<(), Problem> {
        self.0.check(generation)?;
        self.0.take_in(job).await
    }

    async fn forget(
        self,
        _: Context,
        generation: u32,
        ddss: Vec<u64>,
        plans: Vec<u64>,
    ) -> std::result::Result<(), Problem> {
        self.0.check(generation)?;
        self.0.apart(move |worker| worker.bench.forget(&ddss, &plans)).await
    }

    async fn limit_memory(self, _: Context, generation: u32, limit: MemoryLimit) -> std::result::Result<(), Problem> {
        self.0.check(generation)?;
        self.0.limit_memory(&limit).map_err(|error| Problem::Broken(error.to_string()))
    }

    async fn free(self, _: Context, generation: u32, ddss: Vec<u64>) -> std::result::Result<(), Problem> {
        self.0.check(generation)?;
        self.0.apart(move |worker| worker.bench.free(&ddss)).await
    }

    async fn bye(self, _: Context) {
        self.0.dismissed.store(true, Relaxed);
    }

    async fn timeline(self, _: Context, generation: u32) -> std::result::Result<u64, Problem> {
        self.0.check(generation)?;
        let bytes = codec::encode(&timeline::take()).map_err(|error| Problem::Broken(error.to_string()))?;
        Ok(self.0.blobs.offer(bytes))
    }

    async fn slowest(
        self,
        _: Context,
        generation: u32,
        limit: u64,
    ) -> std::result::Result<Option<(Unit, u64)>, Problem> {
        self.0.check(generation)?;
        let slowest = slow_bodies::slowest(Duration::from_secs(limit));
        Ok(slowest.map(|(unit, for_now)| (unit, for_now.as_secs())))
    }

    async fn clock(self, _: Context) -> std::result::Result<u64, Problem> {
        Ok(timeline::now())
    }
}
