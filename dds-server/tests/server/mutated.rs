//! Both decoders on bytes at random and on messages with bytes changed: the plain form of the fuzz targets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stradsap_dds_server::codec::{decode, encode};
use stradsap_dds_server::frame::{HEADER_LEN, Header, Kind, read_header, read_payload};
use stradsap_dds_server::hello::{Hello, Purpose, Role};

const ROUNDS: usize = 100_000;

/// A small generator: the same inputs each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.next() as u8).collect()
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                2 => bytes.truncate(at),
                3 => bytes.insert(at, self.next() as u8),
                _ => {
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].fill(0xff);
                }
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
enum Message {
    Hello(Hello),
    Lists(Vec<Vec<u32>>, BTreeMap<String, Option<char>>),
    Nested(Option<Box<Message>>),
    Empty { units: Vec<()>, text: String, bytes: Vec<u8> },
}

#[test]
fn the_codec_refuses_or_reads() {
    let mut random = Random(1);
    let hello = Hello {
        role: Role::Worker,
        purpose: Purpose::Data,
        index: Some(3),
        generation: 1,
        build: [7; 32],
        version: "0.1.0".into(),
        address: "127.0.0.1:4000".into(),
        host: "here".into(),
        pid: 1,
        threads: 2,
    };
    let seeds = [
        encode(&Message::Hello(hello)).unwrap(),
        encode(&Message::Lists(vec![vec![1, 2], vec![]], BTreeMap::from([("k".into(), Some('v'))]))).unwrap(),
        encode(&Message::Nested(Some(Box::new(Message::Nested(None))))).unwrap(),
        encode(&Message::Empty { units: vec![(); 9], text: "text".into(), bytes: vec![1, 2, 3] }).unwrap(),
    ];
    let (mut read, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let mut bytes = if round % 4 == 0 { random.bytes(200) } else { seeds[round % seeds.len()].clone() };
        random.mutate(&mut bytes);
        match decode::<Message>(&bytes, 1 << 16) {
            // What is read is written the same, or the reader took one thing for another.
            Ok(message) => {
                assert_eq!(encode(&message).unwrap(), bytes);
                read += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(read > 100 && refused > ROUNDS / 4, "{read} read, {refused} refused");
}

#[tokio::test]
async fn the_frame_reader_refuses_or_reads() {
    let mut random = Random(2);
    let mut read = 0;
    for round in 0..ROUNDS {
        let payload = random.bytes(64);
        let kind = Kind::ALL[random.below(Kind::ALL.len())];
        let header = Header {
            generation: random.next() as u32,
            call: random.next(),
            len: payload.len() as u64,
            checksum: crc32fast::hash(&payload),
            ..Header::new(kind)
        };
        let mut bytes = header.encode().to_vec();
        bytes.extend(&payload);
        match round % 4 {
            0 => bytes = random.bytes(200),
            1 => random.mutate(&mut bytes),
            // A header whose checksum is right, whatever it says.
            2 => {
                let at = random.below(68);
                bytes[at] = random.next() as u8;
                let sum = crc32fast::hash(&bytes[..68]);
                bytes[68..HEADER_LEN].copy_from_slice(&sum.to_le_bytes());
            }
            _ => {}
        }
        let mut from = bytes.as_slice();
        if let Ok(Some(header)) = read_header(&mut from, 1 << 40).await {
            let start = bytes.len() - from.len();
            if let Ok(payload) = read_payload(&mut from, &header).await {
                assert_eq!(header.encode(), bytes[..start]);
                assert_eq!(payload, bytes[start..start + payload.len()]);
                read += 1;
            }
        }
    }
    assert!(read > ROUNDS / 8, "{read} read");
}
