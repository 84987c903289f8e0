//! One job at a time writes below a prefix: each deletes what it doesn't know.
//!
//! Stores have no locks that end with a process. They can write an object on the condition that it is as it was read. So
//! the job that has the place writes an object of its own every few seconds, each time on the condition that nobody else
//! has. A job that finds it watches it, by its own clock: as long as it changes its job is alive; if it hasn't for as long
//! as it promises to, it is replaced. Who hasn't been able to write it for half as long does nothing any more before
//! it has, and nothing at all once another job has the place.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use object_store::path::Path as Key;
use object_store::{GetOptions, ObjectStore, PutMode, UpdateVersion};
use serde::{Deserialize, Serialize};

use super::blocking::Requests;
use crate::checkpoint::background::{locked, warn};
use crate::checkpoint::lock::{in_use, this_process};
use crate::checkpoint::place::Hold;
use crate::files::shown;
use crate::read::one_line;
use crate::read::remote::into_io;
use crate::{Error, Result};

const FORMAT: &str = "stradsap lock";
/// When a program ends it doesn't wait longer for its lock to be given back.
const GIVING_BACK: Duration = Duration::from_secs(10);
/// Of these one finds the lock as it was read.
const TRIES: usize = 100;
/// What another program wrote is believed up to this.
const LONGEST: u64 = 600;

/// For how long a lock holds without a sign of life.
#[derive(Clone, Copy, Debug)]
pub(in crate::checkpoint) struct Timing(pub(in crate::checkpoint) Duration);

impl Default for Timing {
    fn default() -> Timing {
        Timing(Duration::from_secs(30))
    }
}

impl Timing {
    fn between_signs(self) -> Duration {
        self.0 / 6
    }

    /// A request is begun if nobody can take the place over for so long.
    fn enough(self) -> Duration {
        self.0 / 2
    }
}

/// What the lock's object says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    format: String,
    /// For people.
    holder: String,
    /// Tells holders apart; none has given it back.
    token: Option<String>,
    /// Changes with each sign of life.
    sign: u64,
    /// After this time without one the holder is taken for dead.
    milliseconds: u64,
}

/// The object, and a version to replace it by.
type Found = (Record, UpdateVersion);

/// Why a record could not be written.
enum Unwritten {
    /// Somebody else wrote one.
    Changed,
    /// The store knows no conditions.
    Unconditional,
    Failed(object_store::Error),
}

/// The lock's object.
#[derive(Clone, Debug)]
struct Slot {
    store: Arc<dyn ObjectStore>,
    key: Key,
}

impl Slot {
    async fn read(&self) -> io::Result<Option<Found>> {
        let found = match self.store.get_opts(&self.key, GetOptions::default()).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(into_io(error)),
        };
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        let bytes = found.bytes().await.map_err(into_io)?;
        let record: Option<Record> = serde_json::from_slice(&bytes).ok();
        match record.filter(|record| record.format == FORMAT) {
            Some(record) => Ok(Some((record, version))),
            None => {
                let problem = "not a lock that this version of stradsap knows: delete it if no job uses this place";
                Err(io::Error::new(io::ErrorKind::InvalidData, problem))
            }
        }
    }

    async fn write(&self, record: &Record, mode: PutMode) -> std::result::Result<UpdateVersion, Unwritten> {
        use object_store::Error::{AlreadyExists, NotImplemented, NotSupported, Precondition};
        let bytes = serde_json::to_vec_pretty(record)
            .map_err(|error| Unwritten::Failed(object_store::Error::Generic { store: "lock", source: error.into() }))?;
        match self.store.put_opts(&self.key, bytes.into(), mode.into()).await {
            Ok(put) => Ok(UpdateVersion { e_tag: put.e_tag, version: put.version }),
            Err(AlreadyExists { .. } | Precondition { .. }) => Err(Unwritten::Changed),
            Err(NotImplemented { .. } | NotSupported { .. }) => Err(Unwritten::Unconditional),
            Err(error) => Err(Unwritten::Failed(error)),
        }
    }
}

/// What a holder knows of its lock.
#[derive(Debug)]
struct State {
    record: Record,
    version: UpdateVersion,
    /// When the last sign was sent that arrived.
    renewed: Moment,
    /// Who has it now.
    lost: Option<String>,
}

/// A time by two clocks: one stands still while the machine sleeps, the other can be set.
#[derive(Clone, Copy, Debug)]
struct Moment(Instant, SystemTime);

impl Moment {
    fn now() -> Moment {
        Moment(Instant::now(), SystemTime::now())
    }

    fn age(&self) -> Duration {
        self.0.elapsed().max(self.1.elapsed().unwrap_or(Duration::MAX))
    }
}

#[derive(Debug)]
struct Held {
    slot: Slot,
    timing: Timing,
    state: Mutex<State>,
    /// One sign at a time: each has to know the one before.
    turn: tokio::sync::Mutex<()>,
}

impl Held {
    /// For how long nobody can take the place over. (Clocks don't run at quite the same speed.)
    fn left(&self) -> io::Result<Duration> {
        let state = locked(&self.state);
        match &state.lost {
            Some(who) => Err(taken(who)),
            None => Ok((self.timing.0 * 9 / 10).saturating_sub(state.renewed.age())),
        }
    }

    /// Gives a sign of life, unless the lock holds for so long without one.
    async fn renew(&self, enough: Duration) -> io::Result<()> {
        let _turn = self.turn.lock().await;
        for _ in 0..TRIES {
            if self.left()? >= enough {
                return Ok(());
            }
            let (record, version) = {
                let state = locked(&self.state);
                (Record { sign: state.record.sign + 1, ..state.record.clone() }, state.version.clone())
            };
            let sent = Moment::now();
            match self.slot.write(&record, PutMode::Update(version)).await {
                Ok(version) => {
                    self.renewed(record, version, sent);
                    return Ok(());
                }
                Err(Unwritten::Failed(error)) => return Err(into_io(error)),
                Err(Unwritten::Unconditional) => {
                    return Err(io::Error::other("the store takes no conditions any more"));
                }
                Err(Unwritten::Changed) => match self.slot.read().await? {
                    // It arrived, and the answer was lost.
                    Some((found, version)) if found == record => {
                        self.renewed(record, version, sent);
                        return Ok(());
                    }
                    Some((found, version)) if found.token == record.token => {
                        let mut state = locked(&self.state);
                        (state.record, state.version) = (found, version);
                    }
                    other => {
                        let who =
                            other.map_or_else(|| "somebody who deleted its lock".to_owned(), |(found, _)| found.holder);
                        locked(&self.state).lost = Some(who.clone());
                        return Err(taken(&who));
                    }
                },
            }
        }
        Err(io::Error::other("the lock changes again and again"))
    }

    fn renewed(&self, record: Record, version: UpdateVersion, sent: Moment) {
        let mut state = locked(&self.state);
        (state.record, state.version, state.renewed) = (record, version, sent);
    }

    /// Says that the place is free.
    async fn give_back(&self) {
        let _turn = self.turn.lock().await;
        let (record, version) = {
            let state = locked(&self.state);
            if state.lost.is_some() {
                return;
            }
            (Record { token: None, ..state.record.clone() }, state.version.clone())
        };
        // Otherwise the next job waits for a sign of life.
        let _ = self.slot.write(&record, PutMode::Update(version)).await;
    }
}

fn taken(who: &str) -> io::Error {
    let who = one_line(who);
    io::Error::new(io::ErrorKind::ResourceBusy, format!("nothing is written here any more: it was taken over by {who}"))
}

/// A place that this process has for itself.
#[derive(Debug)]
pub(in crate::checkpoint) struct Lease {
    held: Arc<Held>,
    requests: Requests,
}

impl Hold for Lease {}

impl Lease {
    /// For how long the place certainly is this process's: long enough to make a request.
    pub(super) fn guard(&self) -> io::Result<Duration> {
        let held = Arc::clone(&self.held);
        let left = self.held.left()?;
        if left >= self.held.timing.enough() {
            return Ok(left);
        }
        self.requests.wait(async move { held.renew(held.timing.enough()).await })?;
        self.held.left()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let held = Arc::clone(&self.held);
        let _ = self.requests.start(async move { held.give_back().await }).wait_for(GIVING_BACK);
    }
}

/// Gives signs of life for as long as somebody holds it.
async fn keep(held: Weak<Held>, timing: Timing) {
    loop {
        tokio::time::sleep(timing.between_signs()).await;
        let Some(held) = held.upgrade() else { return };
        // One that fails is tried again. The one who writes learns of it.
        let _ = held.renew(timing.0 * 9 / 10).await;
        if locked(&held.state).lost.is_some() {
            return;
        }
    }
}

/// The places that a process has. Within it each is one lease.
#[derive(Clone, Debug)]
pub(in crate::checkpoint) struct Leases {
    held: Arc<Mutex<BTreeMap<PathBuf, Weak<Lease>>>>,
    timing: Timing,
}

impl Leases {
    /// This process's.
    pub(in crate::checkpoint) fn here() -> Leases {
        static HERE: Mutex<Option<Leases>> = Mutex::new(None);
        let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
        here.get_or_insert_with(|| Leases::new(Timing::default())).clone()
    }

    /// Another process's, as far as leases know.
    pub(in crate::checkpoint) fn new(timing: Timing) -> Leases {
        Leases { held: Arc::default(), timing }
    }

    /// Takes a place, unless another process has it. None where the store can't say who does.
    pub(super) fn take(
        &self,
        requests: &Requests,
        store: &Arc<dyn ObjectStore>,
        key: &Key,
        address: &Path,
    ) -> Result<Option<Arc<Lease>>> {
        let mut all = locked(&self.held);
        all.retain(|_, lease| lease.strong_count() > 0);
        if let Some(lease) = all.get(address).and_then(Weak::upgrade) {
            return Ok(Some(lease));
        }
        let (slot, timing) = (Slot { store: Arc::clone(store), key: key.clone() }, self.timing);
        let record = Record {
            format: FORMAT.to_owned(),
            holder: this_process(),
            token: Some(token()),
            sign: 0,
            milliseconds: timing.0.as_millis() as u64,
        };
        let place = address.to_path_buf();
        let lock = address.join(super::LOCK);
        let acquired = requests.wait(async move { acquire(slot, record, timing, &place).await });
        let held = match acquired {
            Ok(held) => Arc::new(held),
            Err(Refused::InUse(holder)) => return Err(in_use(address, &holder)),
            Err(Refused::NoLocks) => {
                let place = shown(address);
                warn(&format!("{place} can't be locked: see to it that no other job uses it at the same time"));
                return Ok(None);
            }
            // Who may not write here can only read.
            Err(Refused::Failed(error)) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
            Err(Refused::Failed(source)) => return Err(Error::File { path: lock, source }),
        };
        requests.spawn(keep(Arc::downgrade(&held), timing));
        let lease = Arc::new(Lease { held, requests: requests.clone() });
        all.insert(address.to_path_buf(), Arc::downgrade(&lease));
        Ok(Some(lease))
    }
}

/// No other holder's.
fn token() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", random(), random())
}

/// Why a place could not be taken.
enum Refused {
    InUse(String),
    NoLocks,
    Failed(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Failed(error)
    }
}

async fn acquire(slot: Slot, record: Record, timing: Timing, place: &Path) -> std::result::Result<Held, Refused> {
    let mut mode = PutMode::Create;
    for _ in 0..TRIES {
        let sent = Moment::now();
        let version = match slot.write(&record, mode).await {
            Ok(version) => Some(version),
            Err(Unwritten::Unconditional) => return Err(Refused::NoLocks),
            Err(Unwritten::Failed(error)) => return Err(into_io(error).into()),
            Err(Unwritten::Changed) => None,
        };
        if let Some(version) = version {
            // A store that passes over conditions takes it twice.
            return match slot.write(&record, PutMode::Create).await {
                Ok(_) | Err(Unwritten::Unconditional) => Err(Refused::NoLocks),
                Err(Unwritten::Failed(error)) => Err(into_io(error).into()),
                Err(Unwritten::Changed) => {
                    let state = Mutex::new(State { record, version, renewed: sent, lost: None });
                    Ok(Held { slot, timing, state, turn: tokio::sync::Mutex::default() })
                }
            };
        }
        mode = match slot.read().await? {
            None => PutMode::Create,
            Some((found, version)) if found.token.is_none() || found.token == record.token => PutMode::Update(version),
            Some(found) => watch(&slot, found, place).await?,
        };
    }
    Err(Refused::Failed(io::Error::other("the lock changes again and again")))
}

/// Waits for a sign of life of a lock's holder. Without one it can be replaced.
async fn watch(slot: &Slot, (found, version): Found, place: &Path) -> std::result::Result<PutMode, Refused> {
    let limit = Duration::from_millis(found.milliseconds.min(LONGEST * 1000));
    let place = shown(place);
    let holder = one_line(&found.holder);
    let seconds = limit.as_secs_f64();
    warn(&format!("{place} was in use by {holder}: it is free if there is no sign of it for {seconds} seconds"));
    let since = Instant::now();
    while since.elapsed() < limit {
        tokio::time::sleep(limit / 20).await;
        match slot.read().await? {
            None => return Ok(PutMode::Create),
            Some((now, version)) if now.token.is_none() => return Ok(PutMode::Update(version)),
            Some((now, _)) if now != found => return Err(Refused::InUse(now.holder)),
            Some(_) => {}
        }
    }
    Ok(PutMode::Update(version))
}
