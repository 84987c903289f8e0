//! The engine of [stradsap](https://docs.rs/stradsap): recording, planning and executing parallel loops.
//!
//! Programs use the `stradsap` crate, which adds the macros; this one is what they expand to.

#[cfg(panic = "abort")]
compile_error!(
    "stradsap ends iterations by unwinding (to undo a loop that strayed or failed): build with panic = \"unwind\""
);

mod bulk;
mod capture;
mod cluster;
mod codec;
mod cold;
mod decode;
mod dmap;
mod dot;
mod dvector;
mod element;
mod engine;
mod error;
mod execute;
mod frame;
mod gather;
mod handoff;
mod inference;
pub mod kernels;
mod launch;
mod logging;
mod memory;
mod merge;
mod operate;
mod options;
mod panics;
mod pieces;
mod plan;
mod plan_cache;
mod pool;
mod record;
mod recording;
mod reduction;
mod relaxed;
mod report;
mod scheduled;
mod session;
mod shared;
mod sync;
mod task;
mod timeline;
mod undo;
mod value;
mod verify;
mod view;

pub use cluster::driver::ClusterOptions;
pub use codec::CodecError;
pub use decode::DecodeError;
pub use dmap::{DMap, DMultiMap, Key, MapEntry, MapSharedView, MapView, MapWriteView, MultiMapView, MultiMapWriteView};
pub use dvector::DVector;
pub use element::Element;
pub use error::{BatchProblem, BodyError, ClusterError, Error, LoopProblem, Result, RoundProblem};
pub use merge::Merge;
pub use operate::{IntoPipe, JoinWith, Pipe};
pub use options::{LoopOptions, LoopRange, Order, Strategy};
pub use reduction::{Count, CountView, Extreme, ExtremeView, Largest, Max, Min, Number, Smallest, Sum, SumView, Which};
pub use relaxed::{Relaxed, RelaxedNumberView, RelaxedVector, RelaxedView};
pub use report::{Conflict, LoopReport, Staleness, WorkerShare, WorkerTime};
pub use scheduled::{
    Block, DynRegr, Magnitude, Partials, Pick, Program, RoundRobin, Schedule, Scheduled, ScheduledReport, Shards,
    StaticRota, schedule_dyn_regr, schedule_round_robin, schedule_static_rota, scheduled,
};
pub use session::{MAX_THREADS, Session, SessionBuilder};
pub use shared::{Lane, Shared};
pub use sync::{Batch, SharedView, SyncOptions, SyncPolicy, SyncReport};
pub use value::Value;
pub use view::{ElementIndex, ReadView, WriteView};

/// What macro expansions name. Not for use by hand.
#[doc(hidden)]
pub mod private {
    pub use crate::capture::{
        ByMerge, Capture, Handles, Read, ReadCapture, Reborrow, SharedCapture, Write, WriteCapture, WriteShared, read,
        write, write_shared,
    };
    pub use crate::codec::{SerdeElement, decode_serde, encode_serde};
    pub use crate::decode::{decode_plain, decode_vec, no_variant};
    pub use crate::dmap::{encode_entries, version_of_map};
    pub use crate::dvector::{encode_elements, version_of};
    pub use crate::element::{encode_slice, is_plain};
    pub use crate::engine::async_for;
    pub use crate::launch::{MainOutcome, launch};
    pub use crate::options::{LoopOptions, Site, range};
    pub use crate::sync::{
        LoopInput, MinibatchSize, SyncOptions, input, minibatch, policy, sync_for, typed_batch_body,
    };
    pub use crate::task::{
        Outcome, body_uses_only_its_capture_list, loop_uses_only_its_capture_list, scratch_uses_only_the_capture_list,
        typed_body, typed_scratch,
    };
    pub use crate::value::{AnyCodec, BySerde, Copied, CopyValue, Probe, RefValue, SerdeCodec, Value, Values, value};
    pub use crate::view::Here;
    pub use stradsap_dds_server::hello::build_hash;
}
