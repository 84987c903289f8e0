//! The engine of [stradsap](https://docs.rs/stradsap): recording, planning and executing parallel loops.
//!
//! Programs use the `stradsap` crate, which adds the macros; this one is what they expand to.

#![warn(clippy::too_many_lines)]
// The floors have what a backend of many processes asks of them; what nobody needs is found with the feature.
#![cfg_attr(not(feature = "cluster"), allow(dead_code, unused_imports, reason = "the backend of workers is left out"))]

#[cfg(panic = "abort")]
compile_error!(
    "stradsap ends iterations by unwinding (to undo a loop that was misspeculated or failed): build with panic = \"unwind\""
);

mod backend;
mod body;
#[cfg(feature = "cluster")]
mod cluster;
mod dds;
pub mod files;
pub mod kernels;
mod launch;
mod local;
mod loops;
mod memory;
mod minibatch;
mod operate;
mod scheduled;
mod session;

pub(crate) use stradsap_planner as planner;

pub use body::index::ElementIndex;
pub use body::shared_view::SharedView;
pub use body::value::Value;
pub use body::view::{Elements, ReadView, WriteView};
#[cfg(feature = "cluster")]
pub use cluster::driver::{ClusterOptions, Homes};
pub use dds::dmap::{
    DMap, DMultiMap, Key, MapEntry, MapSharedView, MapView, MapWriteView, MultiMapSharedView, MultiMapView,
    MultiMapWriteView, SharedEntry,
};
pub use dds::dmatrix::DMatrix;
pub use dds::dvector::DVector;
pub use dds::reduction::{
    All, Any, Count, CountView, Extreme, ExtremeView, Flag, FlagView, Joins, Largest, Max, Min, Number, Smallest, Sum,
    SumView, Which,
};
pub use dds::relaxed::{Relaxed, RelaxedNumberView, RelaxedVector, RelaxedView};
pub use memory::additive::Additive;
pub use memory::codec::CodecError;
pub use memory::decode::DecodeError;
pub use memory::element::Element;
pub use memory::merge::Merge;
pub use memory::ordered::Ordered;
pub use memory::shared::{Lane, Shared};
pub use minibatch::{Batch, CachedRows, MergeRule, SyncOptions, SyncPolicy, SyncReport};
pub use operate::{IntoPipe, JoinWith, Numbering, Pipe};
pub use scheduled::{
    Block, DynRegr, Magnitude, Partials, Pick, Program, Rotation, RoundRobin, Schedule, Scheduled, ScheduledReport,
    Shards, StaticRota, schedule_dyn_regr, schedule_round_robin, schedule_static_rota, scheduled,
};
pub use session::error::{BatchProblem, BodyError, ClusterError, Error, LoopProblem, Result, RoundProblem};
pub use session::memory::parse_bytes;
pub use session::options::{LoopOptions, LoopRange, OnFailure, Order, Strategy};
pub use session::report::{Conflict, LoopReport, Staleness, WorkerShare, WorkerTime};
pub use session::stopping::StopSignal;
pub use session::verified::{Unverified, Verified};
pub use session::{MAX_THREADS, Session, SessionBuilder};

/// What macro expansions name. Not for use by hand.
#[doc(hidden)]
pub mod private {
    pub use crate::body::apart::{apart2, apart3, apart4, apart5, apart6};
    pub use crate::body::capture::{
        ByMerge, Capture, Handles, IndexedNear, Read, ReadCapture, Reborrow, SharedCapture, Write, WriteCapture,
        WriteShared, indexed_near, read, write, write_shared,
    };
    pub use crate::body::index::{Here, Near};
    pub use crate::body::inference::{
        body_uses_only_its_capture_list, loop_uses_only_its_capture_list, scratch_uses_only_the_capture_list,
        typed_body, typed_scratch,
    };
    pub use crate::body::outcome::Outcome;
    pub use crate::body::sharing::{IsCollection, IsNoCollection, ShowsNone, ShowsState};
    pub use crate::body::summed::{AddsInOrder, AddsUp, SumCapture, Tallied, handle_type, sum, summed};
    pub use crate::body::value::kinds::{
        BySerde, ChooseCode, ChooseCopy, ChooseFunction, ChooseKnown, ChooseNone, ChooseSerde,
    };
    pub use crate::body::value::{Copied, CopyValue, Probe, RefValue, Value, Values, value};
    pub use crate::body::view::{Counts, CountsNothing, HoldsNothing, NoRounds, Rounds};
    pub use crate::body::waiting::round;
    pub use crate::dds::dmap::Named;
    pub use crate::dds::dmap::{each_entry, version_of_map, whereabouts_of_map};
    pub use crate::dds::dmatrix::{each_row, version_of_rows};
    pub use crate::dds::dvector::{each_element, version_of};
    pub use crate::launch::{MainOutcome, launch};
    pub use crate::loops::call::async_for;
    pub use crate::loops::old::{HasOld, Old, before_loop, to_copy};
    pub use crate::loops::over::order;
    pub use crate::memory::codec::{SerdeElement, decode_serde, encode_serde};
    pub use crate::memory::decode::{decode_plain, decode_vec, no_variant};
    pub use crate::memory::element::{DropsNothing, HasDrop, encode_slice, is_plain};
    pub use crate::minibatch::{
        LoopInput, MinibatchSize, SyncOptions, input, minibatch, policy, sync_for, typed_batch_body,
    };
    pub use crate::operate::born::{Source, born, born_rows, given, is_apart};
    pub use crate::operate::taken::{Sink, taken, taken_rows, whereabouts, whereabouts_of_rows};
    pub use crate::session::backend::Whereabouts;
    pub use crate::session::options::{LoopOptions, Site, range};
    pub use stradsap_dds_server::process::{build_hash, host_name};
}
