//! Checkpoints as objects in a store: `s3://bucket/prefix`.
//!
//! An object appears whole or not at all, and what a store has said that it took stays. So the order of writing that makes
//! folders safe makes these safe: data first, then the manifest, and what is old is deleted last.

mod blocking;
mod lease;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path as Key;
use object_store::{GetOptions, MultipartUpload, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions};
use url::Url;

use super::background::locked;
use super::folder::at;
use super::lock::NAME as LOCK;
use super::manifest::data_digest;
use super::place::{Hold, NotWritten, Place};
use crate::files::shown;
use crate::read::remote::{into_io, locate};
use crate::read::{address, one_line};
use crate::{Error, Result};
use blocking::{Pending, Requests};
use lease::Lease;
pub(super) use lease::Leases;
#[cfg(test)]
pub(super) use lease::Timing;

/// What is larger is sent in parts of this size, of which a few are under way at once: so much memory a checkpoint takes.
const PART: usize = 8 << 20;
const UNDER_WAY: usize = 4;
/// More parts than this no store takes.
const MOST_PARTS: usize = 10_000;
/// A store that doesn't answer at all isn't waited for longer when a job begins.
const OPENING: Duration = Duration::from_secs(60);
/// What has to be done while the place is this process's is tried for so long.
const PATIENCE: Duration = Duration::from_secs(180);

/// Why an object is not there, and whether that is certain.
type Unsent = (io::Error, bool);

/// The objects whose keys begin with a prefix and a slash.
#[derive(Debug)]
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Key,
    /// What errors name.
    address: PathBuf,
    part: usize,
    requests: Requests,
    leases: Leases,
    lease: Mutex<Weak<Lease>>,
}

impl Objects {
    /// The objects that an address names. The environment says how to reach them.
    pub(super) fn open(path: &Path) -> Result<Objects> {
        let failed = |source| Error::File { path: path.to_path_buf(), source };
        let url = address::parse(path).map_err(failed)?;
        refuse_secrets(&url)?;
        if url.scheme() == "memory" {
            return Err(Error::usage("memory:// keeps nothing: s3, gs, az, abfs, http, https or file was expected"));
        }
        let (store, prefix) = locate(&url).map_err(|error| failed(unreachable(url.scheme(), &into_io(error))))?;
        Objects::new(store, prefix, path.to_path_buf(), Leases::here()).map_err(failed)
    }

    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        prefix: Key,
        address: PathBuf,
        leases: Leases,
    ) -> io::Result<Objects> {
        let requests = Requests::new()?;
        Ok(Objects { store, prefix, address, part: PART, requests, leases, lease: Mutex::default() })
    }

    #[cfg(test)]
    pub(super) fn with_parts_of(self, part: usize) -> Objects {
        Objects { part, ..self }
    }

    fn explain(&self, error: &io::Error) -> io::Error {
        let scheme = address::scheme(&self.address).unwrap_or_default();
        unreachable(scheme, error)
    }

    fn key(&self, name: &str) -> Key {
        self.prefix.clone().join(name)
    }

    /// For how long the place certainly is this process's; an error if another one has taken it over.
    fn guard(&self) -> io::Result<Duration> {
        let lease = locked(&self.lease).upgrade();
        lease.map_or(Ok(PATIENCE), |lease| lease.guard())
    }

    /// Makes a request that must not arrive once another process has taken the place over. It may be made twice. One that
    /// does no harm then is made once.
    fn ask<T, F>(&self, harmless: bool, request: impl Fn() -> F) -> io::Result<T>
    where
        T: Send + 'static,
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let since = Instant::now();
        loop {
            let limit = self.guard()?;
            if harmless {
                return self.requests.wait(request()).map_err(into_io);
            }
            match self.requests.wait(within(limit, request())) {
                Some(answer) => return answer.map_err(into_io),
                None if since.elapsed() < PATIENCE => {}
                None => return Err(io::Error::new(io::ErrorKind::TimedOut, "the store doesn't answer")),
            }
        }
    }

    fn names(&self) -> Pending<object_store::Result<Vec<(String, u64)>>> {
        let (store, prefix) = (Arc::clone(&self.store), self.prefix.clone());
        self.requests.start(async move {
            let found = store.list_with_delimiter(Some(&prefix)).await?;
            let named = |meta: object_store::ObjectMeta| Some((meta.location.filename()?.to_owned(), meta.size));
            Ok(found.objects.into_iter().filter_map(named).collect())
        })
    }

    fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<(), Unsent> {
        let key = self.key(name);
        let bytes = Bytes::copy_from_slice(bytes);
        let put = || {
            let (store, key, bytes) = (Arc::clone(&self.store), key.clone(), bytes.clone());
            async move { store.put_opts(&key, bytes.into(), PutOptions::default()).await.map(drop) }
        };
        self.ask(is_data(name), put).map_err(|error| (error, false))
    }

    /// Sends a large object in parts; it appears when the last is there.
    fn write_parts(&self, name: &str, bytes: &[u8]) -> Result<(), Unsent> {
        let (store, key) = (Arc::clone(&self.store), self.key(name));
        let begun =
            self.requests.wait(async move { store.put_multipart_opts(&key, PutMultipartOptions::default()).await });
        let mut upload = match begun {
            Ok(upload) => upload,
            // WebDAV has no parts.
            Err(object_store::Error::NotImplemented { .. }) => return self.write_whole(name, bytes),
            Err(error) => return Err((into_io(error), true)),
        };
        let size = self.part.max(bytes.len().div_ceil(MOST_PARTS));
        // Sending takes its time, in which the place may have been lost.
        let limit = match self.send(&mut *upload, bytes, size).map_err(into_io).and_then(|()| self.guard()) {
            Ok(_) if is_data(name) => Duration::MAX,
            Ok(limit) => limit,
            Err(error) => {
                self.requests.wait(async move { drop(upload.abort().await) }); // only the first error is reported
                return Err((error, true));
            }
        };
        let completed = self.requests.wait(async move {
            let completed = within(limit, upload.complete()).await;
            if !matches!(completed, Some(Ok(_))) {
                drop(upload.abort().await); // as above
            }
            completed
        });
        match completed {
            Some(completed) => completed.map(drop).map_err(|error| (into_io(error), false)),
            None => Err((io::Error::new(io::ErrorKind::TimedOut, "the store doesn't answer"), false)),
        }
    }

    /// Sends the parts of an object, and waits until none is under way.
    fn send(&self, upload: &mut dyn MultipartUpload, bytes: &[u8], size: usize) -> object_store::Result<()> {
        let (mut under_way, mut outcome) = (VecDeque::new(), Ok(()));
        for part in bytes.chunks(size) {
            if under_way.len() == UNDER_WAY {
                outcome = under_way.pop_front().map_or(Ok(()), Pending::wait);
            }
            if outcome.is_err() {
                break;
            }
            under_way.push_back(self.requests.start(upload.put_part(Bytes::copy_from_slice(part).into())));
        }
        under_way.into_iter().map(Pending::wait).fold(outcome, std::result::Result::and)
    }
}

impl Place for Objects {
    fn check(&self) -> io::Result<()> {
        self.prepare()
    }

    /// Nothing has to be there before the first object. This is where it shows whether the store can be reached.
    fn prepare(&self) -> io::Result<()> {
        match self.names().wait_for(OPENING) {
            Some(listed) => listed.map(drop).map_err(|error| self.explain(&into_io(error))),
            None => {
                let problem = format!("no answer within {} seconds", OPENING.as_secs());
                Err(self.explain(&io::Error::new(io::ErrorKind::TimedOut, problem)))
            }
        }
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.names().wait().map_err(|error| self.explain(&into_io(error)))
    }

    fn read(&self, name: &str) -> io::Result<(Box<dyn Read>, u64)> {
        let (store, key) = (Arc::clone(&self.store), self.key(name));
        let found =
            self.requests.wait(async move { store.get_opts(&key, GetOptions::default()).await }).map_err(into_io)?;
        let size = found.meta.size;
        let stream = Some(found.into_stream());
        Ok((Box::new(Arriving { requests: self.requests.clone(), stream, chunk: Bytes::new() }), size))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), NotWritten> {
        let written = self.guard().map_err(|error| (error, true)).and_then(|_| {
            if bytes.len() > self.part { self.write_parts(name, bytes) } else { self.write_whole(name, bytes) }
        });
        written.map_err(|(error, absent)| NotWritten { error: at(&self.address.join(name))(error), absent })
    }

    fn mark(&self, name: &str) -> io::Result<Option<PathBuf>> {
        self.write_whole(name, &[]).map_err(|(error, _)| error)?;
        Ok(Some(self.address.clone()))
    }

    /// A store has an object for good when it says that it has it.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let delete = || {
            let (store, key) = (Arc::clone(&self.store), self.key(name));
            async move { store.delete(&key).await }
        };
        match self.ask(false, delete) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()), // the first of two requests may have done it
        }
    }

    fn lock(&self) -> Result<Option<Arc<dyn Hold>>> {
        let lease = self.leases.take(&self.requests, &self.store, &self.key(LOCK), &self.address)?;
        *locked(&self.lease) = lease.as_ref().map_or_else(Weak::new, Arc::downgrade);
        Ok(lease.map(|lease| lease as Arc<dyn Hold>))
    }

    fn is_out_of_reach(&self, error: &io::Error) -> bool {
        !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
    }
}

/// One of these is named by its contents: that it comes late makes it no other.
fn is_data(name: &str) -> bool {
    data_digest(name).is_some()
}

/// An object as it arrives.
struct Arriving {
    requests: Requests,
    /// None after its end.
    stream: Option<BoxStream<'static, object_store::Result<Bytes>>>,
    chunk: Bytes,
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() && !buffer.is_empty() {
            let Some(mut stream) = self.stream.take() else { return Ok(0) };
            let (stream, chunk) = self.requests.wait(async move {
                let chunk = stream.next().await;
                (stream, chunk)
            });
            if let Some(chunk) = chunk {
                self.chunk = chunk.map_err(into_io)?;
                self.stream = Some(stream);
            }
        }
        let n = buffer.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut buffer[..n]);
        Ok(n)
    }
}

/// None if it takes longer.
async fn within<T>(limit: Duration, task: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, task).await.ok()
}

/// Addresses are printed and kept in logs.
fn refuse_secrets(url: &Url) -> Result<()> {
    if url.password().is_none() && url.query().is_none() && url.fragment().is_none() {
        return Ok(());
    }
    let place = format!("{}://{}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path());
    Err(Error::usage(format!(
        "{}: an address of checkpoints without a password and without `?` and `#` was expected: credentials belong into \
         the environment",
        shown(&place)
    )))
}

/// Why a store can't be used, and what it needs.
fn unreachable(scheme: &str, error: &io::Error) -> io::Error {
    let expected = match scheme {
        "s3" | "s3a" => {
            "a bucket that is there, with its region in AWS_REGION and credentials for it in AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY (or of the machine's role); for a store that isn't Amazon's its address in \
             AWS_ENDPOINT_URL, and AWS_ALLOW_HTTP=true where that begins with http:"
        }
        "gs" => "a bucket that is there, and credentials for it in GOOGLE_SERVICE_ACCOUNT (or the machine's account)",
        "az" | "adl" | "azure" | "abfs" | "abfss" => {
            "a container that is there, and AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY for it"
        }
        "http" | "https" => "a server that speaks WebDAV",
        _ => "s3, gs, az, abfs, http, https or file",
    };
    io::Error::new(error.kind(), format!("{}; expected: {expected}", one_line(&error.to_string())))
}
