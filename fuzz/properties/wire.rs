//! What comes off sockets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stradsap_dds_server::codec::{decode, encode};
use stradsap_dds_server::frame::{HEADER_LEN, Header, Kind, read_header, read_payload};

/// The shapes that control messages have.
#[derive(Serialize, Deserialize)]
enum Message {
    Lists(Vec<Vec<u32>>, BTreeMap<u32, Option<char>>),
    Nested(Option<Box<Message>>),
    Empty { units: Vec<()>, text: String, bytes: Vec<u8> },
    Numbers(i8, u16, i64, u128, f32, f64, bool, [u8; 3]),
    Results(Vec<Result<String, u8>>),
}

/// A message is refused, or it is written as the bytes that it was read from, but for the order and repetition of a map's keys.
pub fn codec(bytes: &[u8]) {
    if let Ok(message) = decode::<Message>(bytes, 1 << 20) {
        let written = encode(&message).expect("it was read");
        assert!(written.len() <= bytes.len());
        if !matches!(message, Message::Lists(_, _) | Message::Nested(_)) {
            assert_eq!(written, bytes);
        }
        let again: Message = decode(&written, 1 << 20).expect("it was written");
        assert_eq!(encode(&again).expect("it was read"), written);
    }
}

/// Frames one after the other, as they would come off a socket; and again with right checksums, which no mutation finds.
pub fn frame(bytes: &[u8]) {
    frames(bytes);
    if let Some((header, payload)) = bytes.split_at_checked(HEADER_LEN) {
        let mut sealed = Header::new(Kind::ALL[0]).encode();
        sealed[5..64].copy_from_slice(&header[5..64]);
        sealed[12..16].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        if header[0] & 1 == 0 {
            sealed[56..64].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        }
        let sum = crc32fast::hash(&sealed[..68]);
        sealed[68..].copy_from_slice(&sum.to_le_bytes());
        frames(&[&sealed, payload].concat());
    }
}

fn frames(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("an event loop");
    runtime.block_on(async {
        let mut from = bytes;
        loop {
            let start = from;
            let Ok(Some(header)) = read_header(&mut from, 1 << 40).await else { break };
            assert_eq!(header.encode(), start[..HEADER_LEN]);
            let Ok(payload) = read_payload(&mut from, &header).await else { break };
            assert_eq!(payload.len() as u64, header.len);
            assert!(start[HEADER_LEN..].starts_with(&payload));
        }
    });
}
