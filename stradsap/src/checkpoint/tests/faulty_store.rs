//! A store in memory that fails where it is told to, and counts what is asked of it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

/// What happens at a request that changes something. One that fails may have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreFault {
    Never,
    /// From the request of this number on nothing happens any more, except perhaps that one.
    Crash {
        at: usize,
        done: bool,
    },
    /// That one fails.
    Fail {
        at: usize,
        done: bool,
    },
    /// The store can be read, and no more.
    ReadOnly,
}

#[derive(Debug)]
struct State {
    fault: StoreFault,
    log: Vec<&'static str>,
    open: usize,
    under_way: usize,
    most_under_way: usize,
    largest: usize,
}

/// The store. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct FaultyStore {
    pub(super) store: Arc<InMemory>,
    state: Arc<Mutex<State>>,
    /// What makes a store unfit for locks.
    pub(super) ignores_conditions: bool,
}

impl FaultyStore {
    pub(super) fn new(store: InMemory, fault: StoreFault) -> FaultyStore {
        let state = State { fault, log: Vec::new(), open: 0, under_way: 0, most_under_way: 0, largest: 0 };
        FaultyStore { store: Arc::new(store), state: Arc::new(Mutex::new(state)), ignores_conditions: false }
    }

    /// Another process's way to the same objects.
    pub(super) fn seen_by_another(&self, fault: StoreFault) -> FaultyStore {
        let other = FaultyStore::new(InMemory::new(), fault);
        FaultyStore { store: Arc::clone(&self.store), ..other }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn set(&self, fault: StoreFault) {
        let mut state = self.state();
        (state.fault, state.log) = (fault, Vec::new());
    }

    /// The requests so far that change something.
    pub(super) fn log(&self) -> Vec<&'static str> {
        self.state().log.clone()
    }

    /// Uploads in parts that were begun, and neither completed nor given up.
    pub(super) fn open(&self) -> usize {
        self.state().open
    }

    /// How many parts were under way at once, and the size of the largest object that was sent at once.
    pub(super) fn most(&self) -> (usize, usize) {
        let state = self.state();
        (state.most_under_way, state.largest)
    }

    /// Whether a request is carried out, and whether that is said.
    fn begin(&self, request: &'static str) -> (bool, bool) {
        let mut state = self.state();
        state.log.push(request);
        let n = state.log.len();
        match state.fault {
            StoreFault::Crash { at, done } if n >= at => (done && n == at, false),
            StoreFault::Fail { at, done } if n == at => (done, false),
            StoreFault::ReadOnly => (false, false),
            _ => (true, true),
        }
    }

    async fn change<T>(&self, request: &'static str, task: impl Future<Output = Result<T>>) -> Result<T> {
        let (carried_out, said) = self.begin(request);
        if !carried_out {
            return Err(self.broken());
        }
        let outcome = task.await;
        if said { outcome } else { Err(self.broken()) }
    }

    fn broken(&self) -> Error {
        let source = "the connection broke".into();
        match self.state().fault {
            StoreFault::ReadOnly => Error::PermissionDenied { path: String::new(), source },
            _ => Error::Generic { store: "faulty", source },
        }
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, key: &Key, bytes: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        if self.ignores_conditions {
            options = PutOptions::default();
        }
        {
            let mut state = self.state();
            state.largest = state.largest.max(bytes.content_length());
        }
        self.change("put", self.store.put_opts(key, bytes, options)).await
    }

    async fn put_multipart_opts(&self, key: &Key, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.change("begin", self.store.put_multipart_opts(key, options)).await?;
        self.state().open += 1;
        Ok(Box::new(Upload { upload, store: self.clone() }))
    }

    async fn get_opts(&self, key: &Key, options: GetOptions) -> Result<GetResult> {
        self.store.get_opts(key, options).await
    }

    fn delete_stream(&self, keys: BoxStream<'static, Result<Key>>) -> BoxStream<'static, Result<Key>> {
        let this = self.clone();
        let delete = move |key: Result<Key>| {
            let this = this.clone();
            async move {
                let key = key?;
                let one = futures_util::stream::iter([Ok(key.clone())]).boxed();
                let deleted = async { this.store.delete_stream(one).next().await.unwrap() };
                this.change("delete", deleted).await
            }
        };
        keys.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Key, to: &Key, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct Upload {
    upload: Box<dyn MultipartUpload>,
    store: FaultyStore,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, bytes: PutPayload) -> UploadPart {
        let (store, size) = (self.store.clone(), bytes.content_length());
        let part = self.upload.put_part(bytes);
        {
            let mut state = store.state();
            state.largest = state.largest.max(size);
            state.under_way += 1;
            state.most_under_way = state.most_under_way.max(state.under_way);
        }
        Box::pin(async move {
            tokio::task::yield_now().await;
            let sent = store.change("part", part).await;
            store.state().under_way -= 1;
            sent
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let completed = self.store.change("complete", self.upload.complete()).await?;
        self.store.state().open -= 1;
        Ok(completed)
    }

    async fn abort(&mut self) -> Result<()> {
        // One that was completed is there no more.
        let aborted = self.store.change("abort", async {
            drop(self.upload.abort().await);
            Ok(())
        });
        aborted.await?;
        self.store.state().open -= 1;
        Ok(())
    }
}
