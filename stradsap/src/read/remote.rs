//! Objects in stores that an address names: `s3://bucket/key`.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use super::address;
use super::source::Input;
use crate::{Error, Result};

/// This many chunks of an object wait to be parsed.
const AHEAD: usize = 16;
/// Variables that begin so configure stores.
const PREFIXES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// An object in a store.
pub(crate) struct Object {
    store: Arc<dyn ObjectStore>,
    key: Key,
}

impl Object {
    #[cfg(test)]
    pub(super) fn new(store: Arc<dyn ObjectStore>, key: Key) -> Self {
        Object { store, key }
    }

    /// The object's bytes. They are fetched by a thread of their own: the caller's may belong to an asynchronous runtime,
    /// which doesn't bear another one.
    pub(crate) fn open(&self) -> io::Result<Download> {
        let (sender, receiver) = sync_channel(AHEAD);
        let (store, key) = (Arc::clone(&self.store), self.key.clone());
        std::thread::Builder::new().name("stradsap-fetch".to_string()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let failed = match runtime {
                Ok(runtime) => runtime.block_on(fetch(&*store, &key, &sender)).err(),
                Err(error) => Some(error),
            };
            if let Some(error) = failed {
                // Nobody waits for it, if this fails.
                let _ = sender.send(Some(Err(error)));
            }
        })?;
        Ok(Download { receiver, chunk: Bytes::new(), whole: false })
    }
}

/// A chunk, why there is none, or the end.
type Message = Option<io::Result<Bytes>>;

async fn fetch(store: &dyn ObjectStore, key: &Key, sender: &SyncSender<Message>) -> io::Result<()> {
    let mut stream = store.get(key).await.map_err(into_io)?.into_stream();
    while let Some(chunk) = stream.next().await {
        if sender.send(Some(Ok(chunk.map_err(into_io)?))).is_err() {
            return Ok(()); // the reader has seen enough
        }
    }
    let _ = sender.send(None);
    Ok(())
}

pub(crate) fn into_io(error: object_store::Error) -> io::Error {
    let kind = match &error {
        object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// Bytes as they arrive.
pub(crate) struct Download {
    receiver: Receiver<Message>,
    chunk: Bytes,
    whole: bool,
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() && !self.whole && !buffer.is_empty() {
            match self.receiver.recv() {
                Ok(Some(chunk)) => self.chunk = chunk?,
                Ok(None) => self.whole = true,
                // A stop without a word must not pass for the end.
                Err(_) => return Err(io::Error::other("the thread that fetched the object is gone")),
            }
        }
        let n = buffer.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut buffer[..n]);
        Ok(n)
    }
}

/// The object, if this is an address.
pub(super) fn resolve(path: &Path) -> Result<Option<Input>> {
    if address::scheme(path).is_none() {
        return Ok(None);
    }
    let located = address::parse(path).and_then(|url| locate(&url).map_err(into_io));
    let (store, key) = located.map_err(|source| Error::File { path: path.to_path_buf(), source })?;
    Ok(Some(Input::remote(path.to_path_buf(), Object { store, key })))
}

/// The store that an address leads to, configured by the environment, and the key there.
pub(crate) fn locate(url: &Url) -> object_store::Result<(Arc<dyn ObjectStore>, Key)> {
    // What a program has chosen itself stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        // Who writes `http://` means it.
        .chain((url.scheme() == "http").then(|| ("allow_http".to_string(), "true".to_string())));
    let (store, key) = object_store::parse_url_opts(url, variables)?;
    Ok((Arc::from(store), key))
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::read::blocks::Reading;
    use crate::read::lines::Lines;
    use crate::{ReadFiles, Session};

    fn session() -> Session {
        Session::builder().threads(2).build().unwrap()
    }

    #[test]
    fn objects_are_read_as_files_are() {
        let store = Arc::new(InMemory::new());
        let text: String = (0..5000).map(|k| format!("line {k}\n")).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.put(&Key::from("a/b.txt"), text.clone().into())).unwrap();
        let input = |key: &str| {
            let object = Object::new(Arc::clone(&store) as Arc<dyn ObjectStore>, Key::from(key));
            Input::remote(format!("memory:///{key}").into(), object)
        };
        let session = session();
        let inputs = [input("a/b.txt")];
        let reading = Reading { block: 1000, ..Reading::new(&session, &inputs) };
        assert!(reading.vector(&Lines).unwrap().iter().unwrap().eq(text.lines()));

        let missing = Reading::new(&session, &[input("c")]).vector(&Lines).unwrap_err().to_string();
        assert!(missing.starts_with("memory:///c: "), "{missing}");
        // Within an asynchronous runtime, and on its own thread.
        let one = Session::builder().threads(1).build().unwrap();
        assert_eq!(runtime.block_on(async { Reading::new(&one, &inputs).vector(&Lines).unwrap().len() }), 5000);
    }

    #[test]
    fn addresses_without_encryption_are_meant() {
        use std::io::Write;

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/folder/t.txt", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap();
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"1\"\r\nConnection: close\r\n";
            write!(stream, "{head}Last-Modified: Sat, 21 Nov 2026 12:00:00 GMT\r\n\r\na\nb").unwrap();
            String::from_utf8(request[..length].to_vec()).unwrap()
        });
        assert_eq!(session().read_lines(&address).unwrap().to_vec().unwrap(), ["a", "b"]);
        assert!(server.join().unwrap().starts_with("GET /folder/t.txt HTTP/1.1"));
    }

    #[test]
    fn programs_choose_no_cipher() {
        for address in ["https://localhost/t.txt", "s3://bucket/t.txt", "gs://bucket/t.txt"] {
            assert!(locate(&Url::parse(address).unwrap()).is_ok(), "{address}");
        }
    }

    #[test]
    fn addresses_name_local_files_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.txt");
        std::fs::write(&path, "a\nb").unwrap();
        let address = format!("file://{}", path.display());
        assert_eq!(session().read_lines(&address).unwrap().to_vec().unwrap(), ["a", "b"]);
        let missing = session().read_lines(format!("{address}x")).unwrap_err().to_string();
        assert!(missing.starts_with(&format!("{address}x: ")), "{missing}");
        assert!(session().read_lines("what://is/this").unwrap_err().to_string().starts_with("what://is/this: "));
        assert!(session().read_lines("s3:/no/address").is_err());
    }
}
