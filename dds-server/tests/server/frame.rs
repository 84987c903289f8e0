//! Frames: what is written is read, and what is not a frame is refused.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use proptest::prelude::*;
use stradsap_dds_server::frame::*;
use tokio::io::AsyncWrite;

fn header() -> Header {
    Header { generation: 3, call: 4, dds: 5, lo: 6, hi: 7, tag: 8, len: 9, checksum: 10, ..Header::new(Kind::Put) }
}

/// Sets bytes of an encoded header and makes its checksum right again.
fn changed(at: usize, byte: u8) -> [u8; HEADER_LEN] {
    let mut bytes = header().encode();
    bytes[at] = byte;
    let sum = crc32fast::hash(&bytes[..68]);
    bytes[68..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

async fn written(header: Header, parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame_parts(&mut out, header, parts).await.unwrap();
    out
}

proptest! {
    #[test]
    fn every_header_is_read_as_it_was_written(
        kind in 0..Kind::ALL.len(), generation: u32, numbers: [u64; 6], checksum: u32,
    ) {
        let [call, dds, lo, hi, tag, len] = numbers;
        let header = Header { kind: Kind::ALL[kind], generation, call, dds, lo, hi, tag, len, checksum };
        prop_assert_eq!(Header::decode(&header.encode()).unwrap(), header);
    }
}

#[test]
fn kinds_are_numbered_in_order() {
    for (i, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, i + 1);
    }
}

#[test]
fn what_is_no_header_is_refused_by_name() {
    let decode = |bytes: [u8; HEADER_LEN]| Header::decode(&bytes).unwrap_err();
    assert!(matches!(decode(changed(0, b'X')), FrameError::Magic([b'X', b'D', b'S', b'F'])));
    assert!(matches!(decode(changed(4, 2)), FrameError::Version(2)));
    assert!(matches!(decode(changed(5, 0)), FrameError::Kind(0)));
    assert!(matches!(decode(changed(5, 11)), FrameError::Kind(11)));
    assert!(matches!(decode(changed(6, 1)), FrameError::Reserved));
    assert!(matches!(decode(changed(67, 1)), FrameError::Reserved));
    let mut damaged = header().encode();
    damaged[60] ^= 1;
    assert!(matches!(decode(damaged), FrameError::HeaderChecksum { .. }));
}

#[test]
fn every_flipped_bit_of_a_header_is_noticed() {
    for bit in 0..HEADER_LEN * 8 {
        let mut bytes = header().encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Header::decode(&bytes).is_err(), "bit {bit}");
    }
}

#[tokio::test]
async fn a_frame_is_read_as_it_was_written() {
    let bytes = written(header(), &[b"one", b"", b"two"]).await;
    let mut from = bytes.as_slice();
    let got = read_header(&mut from, 6).await.unwrap().unwrap();
    assert_eq!(got, Header { len: 6, checksum: crc32fast::hash(b"onetwo"), ..header() });
    assert_eq!(read_payload(&mut from, &got).await.unwrap(), b"onetwo");
    assert!(read_header(&mut from, 6).await.unwrap().is_none());

    let mut from = &bytes[HEADER_LEN..];
    let mut into = [0; 6];
    read_payload_into(&mut from, &got, &mut into).await.unwrap();
    assert_eq!(&into, b"onetwo");

    let two = [written(header(), &[b"skipped"]).await, written(header(), &[]).await].concat();
    let mut from = two.as_slice();
    let first = read_header(&mut from, 100).await.unwrap().unwrap();
    skip_payload(&mut from, &first).await.unwrap();
    assert_eq!(read_header(&mut from, 100).await.unwrap().unwrap().len, 0);
}

#[tokio::test]
async fn long_payloads_come_whole() {
    let payload: Vec<u8> = (0..5_000_003u32).map(|i| ((i * 7) >> 3) as u8).collect();
    let mut out = Vec::new();
    write_frame(&mut out, header(), &payload).await.unwrap();
    let mut from = out.as_slice();
    let got = read_header(&mut from, u64::MAX).await.unwrap().unwrap();
    assert!(read_payload(&mut from, &got).await.unwrap() == payload);
}

#[tokio::test]
async fn a_frame_that_ends_anywhere_is_truncated() {
    let bytes = written(header(), &[b"payload"]).await;
    for end in 1..bytes.len() {
        let mut from = &bytes[..end];
        let error = match read_header(&mut from, 100).await {
            Ok(header) => {
                let header = header.unwrap();
                let mut skipping = from;
                assert!(matches!(skip_payload(&mut skipping, &header).await, Err(FrameError::Truncated)));
                let mut filling = from;
                let mut into = vec![0; 7];
                assert!(matches!(
                    read_payload_into(&mut filling, &header, &mut into).await,
                    Err(FrameError::Truncated)
                ));
                read_payload(&mut from, &header).await.unwrap_err()
            }
            Err(error) => error,
        };
        assert!(matches!(error, FrameError::Truncated), "{end}: {error}");
    }
}

#[tokio::test]
async fn a_damaged_payload_is_noticed() {
    let mut bytes = written(header(), &[b"payload"]).await;
    bytes[HEADER_LEN + 3] ^= 4;
    let mut from = bytes.as_slice();
    let got = read_header(&mut from, 100).await.unwrap().unwrap();
    assert!(matches!(read_payload(&mut from, &got).await, Err(FrameError::Checksum { .. })));
    let mut into = [0; 7];
    let error = read_payload_into(&mut &bytes[HEADER_LEN..], &got, &mut into).await.unwrap_err();
    assert!(matches!(error, FrameError::Checksum { .. }));
}

#[tokio::test]
async fn claims_are_refused_before_anything_is_read() {
    let claim = Header { len: 1 << 63, ..header() };
    let bytes = claim.encode();
    let error = read_header(&mut bytes.as_slice(), 1 << 30).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the frame claims {} bytes, but at most {} are allowed here", 1u64 << 63, 1 << 30)
    );
    // Where the reader has set no limit, memory is taken for what comes, not for what is claimed.
    assert!(matches!(read_payload(&mut [0u8; 20].as_slice(), &claim).await, Err(FrameError::TooLong { .. })));
    let claim = Header { len: 1 << 45, ..header() };
    assert!(matches!(read_payload(&mut [0u8; 20].as_slice(), &claim).await, Err(FrameError::Truncated)));
    let error = read_payload_into(&mut [0u8; 20].as_slice(), &claim, &mut [0; 20]).await.unwrap_err();
    assert!(matches!(error, FrameError::Length { expected: 20, .. }));
}

/// Takes few bytes at a time, of several slices at once.
struct Narrow {
    out: Vec<u8>,
    step: usize,
}

impl AsyncWrite for Narrow {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let n = bytes.len().min(self.step);
        self.out.extend_from_slice(&bytes[..n]);
        Poll::Ready(Ok(n))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let n = all.len().min(self.step);
        self.out.extend_from_slice(&all[..n]);
        Poll::Ready(Ok(n))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn partial_writes_go_on_where_they_stopped() {
    let whole = written(header(), &[b"some", b"bytes", b"", b"more"]).await;
    for step in 1..=whole.len() {
        let mut narrow = Narrow { out: Vec::new(), step };
        write_frame_parts(&mut narrow, header(), &[b"some", b"bytes", b"", b"more"]).await.unwrap();
        assert_eq!(narrow.out, whole, "{step}");
    }
    let mut closed = Narrow { out: Vec::new(), step: 0 };
    assert!(matches!(write_frame(&mut closed, header(), b"x").await, Err(FrameError::Io(_))));
}
