//! Sealed connections: what goes in comes out, and nothing that anybody changed on the way does.

use std::io::IoSlice;

use stradsap_dds_server::hello::{Hello, Purpose, Role, greet, welcome};
use stradsap_dds_server::link::Link;
use stradsap_dds_server::secret::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Both ends of a sealed connection, whose bytes pass by two more connections in between: what one end sends is
/// read at `by.0` and has to be written to `by.1`.
struct Between {
    from: Link,
    to: Link,
    by: (TcpStream, TcpStream),
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (one, other) = tokio::join!(TcpStream::connect(address), listener.accept());
    (one.unwrap(), other.unwrap().0)
}

async fn sealed() -> Between {
    let ((mut from, mut first), (mut second, mut to)) = (pair().await, pair().await);
    let secret = Secret::from_bytes([3; 32]);
    let worker = Hello::of_this_process(Role::Worker, Purpose::Data).unwrap();
    let driver = Hello { role: Role::Driver, ..worker.clone() };
    let both = async {
        let (greeted, welcomed) = tokio::join!(
            greet(&mut from, &secret, &worker, true),
            welcome(&mut to, &secret, &driver, false, |_| Ok(()))
        );
        (greeted.unwrap().1, welcomed.unwrap().1)
    };
    let keys = tokio::select! {
        keys = both => keys,
        carried = tokio::io::copy_bidirectional(&mut first, &mut second) => panic!("{carried:?}"),
    };
    let (from, to) = (Link::new(from, keys.0), Link::new(to, keys.1));
    assert!(from.is_sealed() && to.is_sealed());
    Between { from, to, by: (first, second) }
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// What `from` sends for `said`, as it passes.
async fn carried(between: &mut Between, said: &[u8]) -> Vec<u8> {
    between.from.write_all(said).await.unwrap();
    between.from.flush().await.unwrap();
    let mut sealed = vec![0; said.len() + 18 * said.len().div_ceil(65_519)];
    between.by.0.read_exact(&mut sealed).await.unwrap();
    sealed
}

#[tokio::test]
async fn any_lengths_go_through_in_any_portions() {
    let Between { from, to, by: (mut first, mut second) } = sealed().await;
    let carrying = tokio::spawn(async move { tokio::io::copy_bidirectional(&mut first, &mut second).await });
    let lengths = [1, 2, 71, 4096, 65_518, 65_519, 65_520, 300_000, 1, 2_000_000];
    let ((mut from_read, mut from_write), (mut to_read, mut to_write)) = (from.into_split(), to.into_split());
    let sending = async {
        for (k, len) in lengths.into_iter().enumerate() {
            let said = bytes(len, k as u64);
            let (head, tail) = said.split_at(len / 3);
            let mut slices = [IoSlice::new(head), IoSlice::new(&[]), IoSlice::new(tail)];
            let mut left = &mut slices[..];
            while !left.is_empty() {
                let n = from_write.write_vectored(left).await.unwrap();
                assert!(n > 0);
                IoSlice::advance_slices(&mut left, n);
            }
            from_write.flush().await.unwrap();
        }
        from_write.shutdown().await.unwrap();
        let mut back = Vec::new();
        from_read.read_to_end(&mut back).await.unwrap();
        assert_eq!(back, bytes(100_000, 99));
    };
    let receiving = async {
        for (k, len) in lengths.into_iter().enumerate() {
            let mut heard = vec![0; len];
            // In portions that have nothing to do with those that were sent.
            for chunk in heard.chunks_mut(1 + 7919 * k) {
                to_read.read_exact(chunk).await.unwrap();
            }
            assert_eq!(heard, bytes(len, k as u64), "{len}");
        }
        assert_eq!(to_read.read(&mut [0; 8]).await.unwrap(), 0);
        to_write.write_all(&bytes(100_000, 99)).await.unwrap();
        to_write.shutdown().await.unwrap();
    };
    tokio::join!(sending, receiving);
    drop((to_read, to_write));
    carrying.await.unwrap().unwrap();
}

#[tokio::test]
async fn nothing_of_it_is_read_on_the_way() {
    let mut between = sealed().await;
    let said = vec![0; 100_000];
    let (once, again) = (carried(&mut between, &said).await, carried(&mut between, &said).await);
    let equal = once.iter().zip(&again).filter(|(a, b)| a == b).count();
    assert!(equal < once.len() / 100, "{equal}");
    assert!(once.iter().filter(|&&byte| byte == 0).count() < once.len() / 100);
}

/// Bytes that a record says.
const LEN: usize = 40;

/// Each byte of a record changed, a record left out, sent twice, cut off, or taken for another one.
#[tokio::test]
async fn what_was_changed_is_not_passed_on() {
    let (a, b) = (bytes(LEN, 1), bytes(LEN, 2));
    for at in 0..LEN + 18 {
        let mut between = sealed().await;
        let mut sealed = carried(&mut between, &a).await;
        sealed[at] ^= 1 << (at % 8);
        refused(between, &[&sealed]).await;
    }
    for order in [&[1][..], &[0, 0], &[1, 0], &[0, 1, 1]] {
        let mut between = sealed().await;
        let records = [carried(&mut between, &a).await, carried(&mut between, &b).await];
        let sent: Vec<&[u8]> = order.iter().map(|&k: &usize| &records[k][..]).collect();
        refused(between, &sent).await;
    }
    let mut between = sealed().await;
    let record = carried(&mut between, &a).await;
    refused(between, &[&record[..LEN]]).await;
    // Zeros are no record.
    let between = sealed().await;
    refused(between, &[&16u16.to_le_bytes(), &[0; 16]]).await;
    // And of another connection, under the same secret.
    let (mut one, other) = (sealed().await, sealed().await);
    let record = carried(&mut one, &a).await;
    refused(other, &[&record]).await;
}

/// All of these in a row end in an error, before which at most the records that are in their place were read.
async fn refused(between: Between, sent: &[&[u8]]) {
    let Between { from: _from, mut to, by: (_first, mut second) } = between;
    for record in sent {
        second.write_all(record).await.unwrap();
    }
    second.shutdown().await.unwrap();
    let mut heard = Vec::new();
    let error = to.read_to_end(&mut heard).await.expect_err("it was taken");
    assert_eq!(heard.len() % LEN, 0, "{error}");
    assert!(heard.is_empty() || heard[..LEN] == bytes(LEN, 1));
    let again = to.read(&mut [0; 64]).await;
    assert!(again.is_err() || again.is_ok_and(|n| n == 0), "nothing comes after an error");
}
