//! What the driver asks of a worker: recordings, plans, loops, minibatches, scheduled programs, snapshots. Each runs on the
//! second thread, and ends early when a process of the job can't be reached.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use stradsap_dds_server::{codec, tasks};
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::body::lease::Lease;
use crate::body::slow_path::Pager;
use crate::cluster::wire::links::Pieces;
use crate::cluster::wire::protocol::{
    Asked, DRIVER, Duplicate, Holder, Install, Node, PIECE, Prepare, Problem, RecordJob, RecordedLogs, RemoteFailure,
    RunEnd, RunJob, ScheduleEnd, ScheduleJob, SnapshotJob, SurveyJob, SyncEnd, SyncJob, TOO_LARGE,
};
use crate::cluster::worker::exchange::Syncing;
use crate::cluster::worker::pager::{Elements, Pages, RECORDING};
use crate::cluster::worker::scheduled::{self, Scheduling};
use crate::cluster::worker::{Running, Worker, minibatch, surveys};
use crate::dds::relaxed::board;
use crate::loops::record::{RecordedLoop, record_slices};
use crate::loops::tallies::Tallies;
use crate::planner::share::Share;
use crate::planner::survey::{gather, gather_offsets};
use crate::session::locked;
use crate::session::timeline::{Category, span, task_span};

/// How long the question to run a loop may be behind the question how it ended, and a part behind the failure of its loop.
const BEGINNING: Duration = Duration::from_secs(20);
/// How often it is asked whether a part that is being read is there.
const RECEIVING: Duration = Duration::from_millis(1);
/// What is wrong with a plan's order.
const OTHERS: &str = "other iterations than planned were dealt out";
/// Logs of this many slices travel together.
const SLICES_A_BLOB: usize = 64;

impl Worker {
    pub(super) async fn record(self: &Arc<Self>, job: RecordJob) -> std::result::Result<RecordedLogs, Problem> {
        let stopped = Arc::clone(&locked(&self.stopped));
        let me = self.node.load(Relaxed);
        let runtime = tokio::runtime::Handle::current();
        let (logs, nanos) = self
            .apart(move |worker| {
                let _span = span(Category::Record, job.slices.len() as u64);
                let bench = &worker.bench;
                bench.commit();
                let task = bench.task(&job.task)?;
                let captured = bench.captured(&job.captures)?;
                let relaxed = board::of_bytes(&captured, &job.relaxed)
                    .ok_or_else(|| Problem::Broken("relaxed state of another length".to_string()))?;
                let reservations = bench.reservations_of(&job.captures);
                let ids = job.captures.iter().map(crate::cluster::worker::bench::dds_of);
                let paged = ids.zip(reservations).zip(job.held).map(|((id, reservation), held)| {
                    Some(Elements { dds: id?, reservation: reservation?, held, by_list: false })
                });
                let pages = Pages::new(me, paged.collect(), Arc::clone(&worker.links), runtime, stopped, RECORDING);
                for (c, capture) in captured.iter().enumerate() {
                    // Placeholders are made of the middle element.
                    if let crate::body::capture::Kind::Vector { len: len @ 1.., .. } = capture.kind {
                        pages.bring(c, len / 2);
                    }
                }
                let pool = bench.pool().map_err(|error| Problem::Broken(error.to_string()))?;
                let logs = match pages.failed() {
                    // SAFETY: the driver names the captures that the task was made for; no loop runs meanwhile.
                    #[allow(unsafe_code)]
                    None => unsafe {
                        let (lease, relaxed) = (Lease::of(&captured), &relaxed);
                        let tallies = &Tallies::to_record(&captured, &job.tallied);
                        let recorded =
                            RecordedLoop { task: &*task, lease: &lease, relaxed, tallies, pager: Some(&pages) };
                        record_slices(&recorded, &job.slices, job.concrete, &pool)
                    },
                    Some(_) => (Vec::new(), 0),
                };
                drop(captured);
                pages.forget();
                pages.failed().map_or(Ok(logs), Err)
            })
            .await??;
        let mut blobs = Vec::new();
        for logs in logs.chunks(SLICES_A_BLOB) {
            let bytes = codec::encode(logs).map_err(|error| Problem::Broken(error.to_string()))?;
            blobs.push(self.blobs.offer(bytes));
        }
        Ok(RecordedLogs { blobs, nanos })
    }

    pub(super) async fn survey(self: &Arc<Self>, job: SurveyJob) -> std::result::Result<Vec<u64>, Problem> {
        if let Asked::Deal(..) = job.asked {
            // What was dealt out before has been fetched.
            self.blobs.clear();
        }
        let captures = job.captures.clone();
        self.apart(move |worker| {
            worker.bench.commit();
            worker.bench.captured(&captures).map(drop)
        })
        .await??;
        self.fill_all(&job.pulls).await?;
        let answers = self.apart(move |worker| surveys::answer(&worker.bench, &job)).await??;
        Ok(answers.into_iter().map(|answer| self.blobs.offer(answer)).collect())
    }

    /// What workers have dealt out for this one.
    pub(super) async fn dealt(&self, from: &[(Node, u64)]) -> std::result::Result<Vec<Vec<u8>>, Problem> {
        let mut parts = Vec::with_capacity(from.len());
        for &(node, blob) in from {
            let part = match node == self.node.load(Relaxed) {
                true => self.blobs.take(blob).ok_or_else(|| Problem::Broken("no such blob".to_string()))?,
                false => self.links.blob(node, blob).await.map_err(|error| error.problem(node))?,
            };
            parts.push(part);
        }
        Ok(parts)
    }

    pub(super) async fn install(self: &Arc<Self>, job: Install) -> std::result::Result<(), Problem> {
        let Some(blob) = job.share else { return Ok(()) };
        let bytes = self.links.blob(DRIVER, blob).await.map_err(|error| error.problem(DRIVER))?;
        let parts = match &job.offsets {
            Some(dealt) => Some((self.dealt(&dealt.from).await?, dealt.turns)),
            None => None,
        };
        self.apart(move |worker| {
            let _span = span(Category::Install, job.plan);
            let mut share: Share =
                codec::decode(&bytes, codec::MAX_BYTES).map_err(|error| Problem::Broken(error.to_string()))?;
            if let Some((parts, turns)) = parts {
                let offsets = gather_offsets(&share.sizes(), &parts, turns);
                if !offsets.is_some_and(|offsets| share.set_offsets(offsets)) {
                    return Err(Problem::Broken(OTHERS.to_string()));
                }
            }
            worker.bench.install(job.plan, &job.captures, share)
        })
        .await?
    }

    pub(super) async fn prepare(self: &Arc<Self>, job: Prepare) -> std::result::Result<(), Problem> {
        let _span = task_span(Category::Prepare, (job.pulls.len() + job.laid_out.len()) as u64);
        self.apart(|worker| worker.bench.commit()).await?;
        self.fill_all(&job.pulls).await?;
        for (capture, blob, version) in job.laid_out {
            let (plan, links) = (job.plan, Arc::clone(&self.links));
            let mut fresh = self.bench.begin_layout(plan, capture)?;
            let mut buffer = Vec::new();
            for range in fresh.segments() {
                buffer.resize(range.len(), 0);
                let read = links.blob_into(DRIVER, blob, range.start, &mut buffer).await;
                read.map_err(|error| error.problem(DRIVER))?;
                fresh.push(&buffer)?;
            }
            self.bench.end_layout(plan, capture, fresh, version)?;
        }
        for (capture, dealt, version) in job.dealt {
            let mut fresh = self.bench.begin_layout(job.plan, capture)?;
            let (sizes, parts) = (self.bench.sizes_of(job.plan)?, self.dealt(&dealt.from).await?);
            let gathering = move |_: &Arc<Worker>| {
                let size = fresh.size();
                let all = gather(&sizes, &parts, (size, dealt.turns), |block| fresh.push(block).is_ok());
                all.then_some(fresh).ok_or_else(|| Problem::Broken(OTHERS.to_string()))
            };
            let fresh = self.apart(gathering).await??;
            self.bench.end_layout(job.plan, capture, fresh, version)?;
        }
        Ok(())
    }

    pub(super) async fn run(self: &Arc<Self>, generation: u32, job: RunJob) -> std::result::Result<RunEnd, Problem> {
        let call = job.call;
        // The driver has fetched what it wanted of what was offered before.
        self.blobs.clear();
        self.bench.commit();
        let installed = self.bench.installed(job.plan)?;
        let sent_before = self.links.sent();
        let (running, coming, stores) = locked(&installed).start(generation, &job, &self.links, &self.bench)?;
        if locked(&self.stopped).load(Relaxed) {
            running.blocks.stop();
        }
        self.running.set(Some(Arc::clone(&running)));
        let (at_work, its) = (Arc::clone(&installed), Arc::clone(&running));
        self.bench.remember(call, &installed);
        if !coming.is_empty() {
            // It may have to go on when this question is answered, since a block has failed.
            tasks::spawn(Arc::clone(self).fetch_ahead(Arc::clone(&running), coming));
        }
        let ports = running.blocks.ports();
        let returning = ports.returning.as_ref();
        if let (Some(returning), Some(stores)) = (returning, stores) {
            tasks::spawn(Arc::clone(self).store_returned(Arc::clone(returning), stores));
        }
        let work = async {
            let end = self.apart(move |worker| locked(&at_work).run(&its, &job, &worker.bench)).await;
            match returning {
                Some(returning) if matches!(end, Ok(Ok(Some(_)))) => returning.all_gone().await.and(end),
                _ => end,
            }
        };
        let trouble = self.trouble.wait();
        // However this ends.
        let _closed = returning.map(|returning| returning.closed_in_the_end());
        tokio::select! {
            biased;
            end = work => match end?? {
                Some((mut ran, tallied)) => {
                    ran.tallies = tallied.map(|tallied| self.blobs.offer(tallied));
                    let stored = returning.map_or(0, |returning| returning.bytes_stored());
                    ran.bytes_sent = (self.links.sent() - sent_before).saturating_sub(stored);
                    ran.relaxed = running.added().map(|added| self.blobs.offer(added));
                    Ok(RunEnd::Done(ran))
                }
                None => match ports.first_failed.load(Relaxed) {
                    u32::MAX if running.blocks.is_broken() => Err(Problem::Broken("a part that can't be read".into())),
                    u32::MAX => Ok(RunEnd::Stopped),
                    block => Ok(RunEnd::Failed { block: running.global[block as usize] }),
                },
            },
            () = ports.news.notified() => {
                let block = ports.first_failed.load(Relaxed);
                tracing::debug!(call, block, "a block failed");
                Ok(RunEnd::Failed { block: running.global[block as usize] })
            }
            (node, why) = trouble => {
                running.blocks.stop();
                Err(Problem::Peer { node, why })
            }
        }
    }

    pub(super) async fn settle(
        self: &Arc<Self>,
        call: u64,
        cut: u32,
    ) -> std::result::Result<Option<RemoteFailure>, Problem> {
        // The question to run it may be on its way.
        let running = tokio::select! {
            biased;
            begun = tokio::time::timeout(BEGINNING, self.running(call)) => begun.ok().flatten(),
            (node, why) = self.trouble.wait() => return Err(Problem::Peer { node, why }),
        };
        let Some(running) = running else {
            return Err(Problem::Broken("a run that never began can't be settled".to_string()));
        };
        running.blocks.cut_at(running.local_cut(cut));
        loop {
            let end = running.end.notified();
            if let Some(ending) = locked(&running.ended).clone() {
                return Ok(ending.failure);
            }
            tokio::select! {
                biased;
                () = end => {}
                (node, why) = self.trouble.wait() => {
                    running.blocks.stop();
                    return Err(Problem::Peer { node, why });
                }
            }
        }
    }

    /// The run of a call, as soon as it has begun; none if it is over.
    pub(super) async fn running(&self, call: u64) -> Option<Arc<Running>> {
        let current = self.running.wait(|now| now.clone().filter(|running| running.call >= call)).await;
        Some(current).filter(|running| running.call == call)
    }

    /// Ends what arrives for a run that is to be undone: what blocks elsewhere sent before they heard of the failure would
    /// overwrite what is put back. Waits for what is being sent of what is to be freed.
    pub(super) async fn end_arrivals(&self, call: u64) -> std::result::Result<(), Problem> {
        let running = self.running.get().filter(|running| running.call == call);
        let Some(running) = running else { return Ok(()) };
        running.blocks.stop();
        let since = Instant::now();
        let is_read = || running.blocks.ports().returning.as_ref().is_some_and(|returning| returning.is_read());
        while running.blocks.is_receiving() || is_read() {
            if since.elapsed() > BEGINNING {
                return Err(Problem::Broken("a part that was sent for a loop that failed never came".into()));
            }
            tokio::time::sleep(RECEIVING).await;
        }
        Ok(())
    }

    pub(super) async fn sync(self: &Arc<Self>, generation: u32, job: SyncJob) -> std::result::Result<SyncEnd, Problem> {
        let since = Instant::now();
        self.blobs.clear();
        self.apart(|worker| worker.bench.commit()).await?;
        let threads = self.bench.threads();
        let begun = minibatch::begin(&self.bench, &job, generation, self.bench.workers(), &self.links, threads)?;
        let syncing = Arc::clone(&begun.syncing);
        // From here on messages of the loop find it.
        self.syncing.set(Some(Arc::clone(&syncing)));
        if locked(&self.stopped).load(Relaxed) {
            syncing.stop();
        }
        let preparing = task_span(Category::Prepare, job.pulls.len() as u64);
        self.fill_all(&job.pulls).await?;
        let input = self.bench.input(&job, &self.links).await?;
        drop(preparing);
        let (sent_before, prepared) = (self.links.sent(), since.elapsed().as_secs_f64());
        let work =
            self.apart(move |worker| minibatch::run(&begun, &job, &input, (&worker.bench, &worker.blobs), prepared));
        let trouble = self.trouble.wait();
        tokio::select! {
            biased;
            end = work => match end?? {
                SyncEnd::Done(mut ran) => {
                    ran.counts.bytes_sent = self.links.sent() - sent_before;
                    Ok(SyncEnd::Done(ran))
                }
                end => Ok(end),
            },
            (node, why) = trouble => {
                syncing.stop();
                Err(Problem::Peer { node, why })
            }
        }
    }

    /// The synchronous loop of a call, when it has begun here; none if it is over.
    pub(super) async fn syncing(&self, call: u64) -> Option<Arc<Syncing>> {
        // A neighbour may be quicker to begin.
        let current = self.syncing.wait(|now| now.clone().filter(|syncing| syncing.team.call >= call)).await;
        Some(current).filter(|syncing| syncing.team.call == call)
    }

    pub(super) async fn scheduled(
        self: &Arc<Self>,
        generation: u32,
        job: ScheduleJob,
    ) -> std::result::Result<ScheduleEnd, Problem> {
        self.blobs.clear();
        self.apart(|worker| worker.bench.commit()).await?;
        let sent_before = self.links.sent();
        let begun = scheduled::begin(&self.bench, &job)?;
        self.fill_all(&job.pulls).await?;
        let scheduling = Arc::clone(&begun.scheduling);
        self.scheduling.set(Some(Arc::clone(&scheduling)));
        if locked(&self.stopped).load(Relaxed) {
            scheduling.stop();
        }
        let work = self.apart(move |worker| scheduled::run(&begun, &job, &worker.bench, &worker.links, generation));
        let trouble = self.trouble.wait();
        tokio::select! {
            biased;
            end = work => {
                let end = end??;
                Ok(ScheduleEnd { bytes_sent: self.links.sent() - sent_before, ..end })
            }
            (node, why) = trouble => {
                scheduling.stop();
                Err(Problem::Peer { node, why })
            }
        }
    }

    /// The scheduled program of a call, when it has begun here; none if it is over.
    pub(super) async fn scheduling(&self, call: u64) -> Option<Arc<Scheduling>> {
        // The question to run it may be on its way.
        let current = self.scheduling.wait(|now| now.clone().filter(|scheduling| scheduling.call >= call)).await;
        Some(current).filter(|scheduling| scheduling.call == call)
    }

    pub(super) async fn snapshot(self: &Arc<Self>, job: SnapshotJob) -> std::result::Result<u64, Problem> {
        let _span = task_span(Category::Snapshot, job.snapshot);
        self.apart(|worker| worker.bench.commit()).await?;
        let mut bytes_stored = 0;
        for (dds, range, to) in job.parts {
            let reservation = self.bench.known(dds)?;
            let (mut start, mut records) = (range.start, Vec::new());
            // Neither this process nor the other has more than a piece in memory twice.
            while start < range.end {
                // SAFETY: no loop runs while a snapshot is taken.
                #[allow(unsafe_code)]
                let (part, bytes) = unsafe {
                    if reservation.is_plain() {
                        let each = (PIECE / reservation.ops().size.max(1)).max(1);
                        let part = start..range.end.min(start.saturating_add(each));
                        (part.clone(), reservation.bytes(part))
                    } else {
                        let end = reservation.records(start..range.end, PIECE, &mut records);
                        let end = end.ok_or_else(|| Problem::Broken(TOO_LARGE.to_string()))?;
                        (start..end, records.as_slice())
                    }
                };
                bytes_stored += bytes.len() as u64;
                self.store(Holder { node: to, snapshot: job.snapshot }, dds, &part, bytes).await?;
                start = part.end;
            }
        }
        for Duplicate { pull, size, to } in job.duplicates {
            let mut pieces = Pieces::new(pull.range, size);
            while let Some(part) = pieces.next() {
                let bytes = self.links.stored(pull.dds, part.clone(), pull.from, size).await;
                let bytes = bytes.map_err(|error| error.problem(pull.from.node))?;
                pieces.took(part.len(), bytes.len());
                bytes_stored += bytes.len() as u64;
                self.store(Holder { node: to, snapshot: job.snapshot }, pull.dds, &part, &bytes).await?;
            }
        }
        Ok(bytes_stored)
    }

    /// Stores a part of a snapshot, here or with another process.
    pub(super) async fn store(
        &self,
        at: Holder,
        dds: u64,
        range: &Range<usize>,
        bytes: &[u8],
    ) -> std::result::Result<(), Problem> {
        if at.node == self.node.load(Relaxed) {
            let (lo, hi) = (range.start as u64, range.end as u64);
            let put = locked(&self.store).put(dds, at.snapshot, lo, hi, bytes.to_vec());
            // The next piece may follow at once, and gigabytes take seconds: signs of life go out between them.
            yield_now().await;
            return put.map_err(|error| Problem::Broken(error.to_string()));
        }
        let put = self.links.put(at.node, dds, range, at.snapshot, bytes).await;
        put.map_err(|error| error.problem(at.node))
    }
}
