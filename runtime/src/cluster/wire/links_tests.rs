//! What one process pushes to another, over real connections.

use std::ops::Range;
use std::sync::mpsc::{Sender, channel};

use stradsap_dds_server::frame::FrameError;
use stradsap_dds_server::hello::Role;
use stradsap_dds_server::store::Store;

use super::*;
use crate::cluster::wire::join;
use crate::cluster::wire::serve::{self, Blobs, Local, Memory};

/// A process in which a call begins late.
struct Late {
    links: Arc<Links>,
    blobs: Blobs,
    store: Mutex<Store>,
    begins: Instant,
    taken: Sender<u64>,
}

impl Local for Late {
    fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    fn links(&self) -> &Arc<Links> {
        &self.links
    }

    fn store(&self) -> &Mutex<Store> {
        &self.store
    }

    fn memory(&self, _dds: u64, _range: Range<usize>) -> Option<Memory> {
        None
    }

    fn trouble(&self, _peer: Node, why: &str) {
        panic!("{why}");
    }

    async fn ready(&self, _header: &Header) {
        tokio::time::sleep_until(self.begins).await;
    }

    async fn part(&self, header: Header, stream: &mut Link) -> Result<(), FrameError> {
        frame::skip_payload(stream, &header).await?;
        let _over = self.taken.send(header.tag);
        Ok(())
    }

    async fn message(&self, header: Header, stream: &mut Link) -> Result<(), FrameError> {
        self.part(header, stream).await
    }
}

fn links(secret: &Secret, trouble: Sender<String>) -> Arc<Links> {
    let me = Hello::of_this_process(Role::Worker, Purpose::Data).unwrap();
    let told = Mutex::new(trouble);
    let report = move |_, why| _ = locked(&told).send(why);
    Links::new(secret.clone(), &me, tokio::runtime::Handle::current(), report)
}

#[test]
fn who_waits_for_a_call_to_begin_is_not_taken_for_cut_off() {
    let ((taken, parts), (trouble, told)) = (channel(), channel());
    join::runtime().unwrap().block_on(async {
        let (secret, me) = (Secret::generate().unwrap(), Hello::of_this_process(Role::Worker, Purpose::Data).unwrap());
        let listener = net::bind("127.0.0.1:0", true).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let there = links(&secret, trouble.clone());
        there.begin_generation(1, 7, []);
        let begins = Instant::now() + DEAF + Duration::from_secs(2);
        let store = Mutex::new(Store::new(1 << 20));
        let late = Late { links: there, blobs: Blobs::default(), store, begins, taken };
        tasks::spawn(serve::accept(listener, secret.clone(), me, Arc::new(late)));
        let here = links(&secret, trouble);
        here.begin_generation(0, 7, [Peer { node: 1, address }]);
        for tag in [4, 5] {
            let header = Header { kind: Kind::Part, generation: 7, call: 1, tag, ..EMPTY };
            here.push(1, Outgoing { header, payload: Payload::Bytes(vec![0; 100]) });
        }
        tokio::time::sleep_until(begins + Duration::from_secs(1)).await;
    });
    assert_eq!(told.try_recv().ok(), None);
    assert_eq!(parts.try_iter().collect::<Vec<_>>(), [4, 5]);
}
