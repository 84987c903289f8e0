//! Messages with every shape that control messages have.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use serde::{Deserialize, Serialize};
use stradsap_dds_server::codec::{decode, encode};
use stradsap_dds_server::hello::Hello;

#[derive(Serialize, Deserialize)]
enum Message {
    Hello(Hello),
    Lists(Vec<Vec<u32>>, BTreeMap<u32, Option<char>>),
    Nested(Option<Box<Message>>),
    Empty { units: Vec<()>, text: String, bytes: Vec<u8> },
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = decode::<Message>(bytes, 1 << 20) {
        // Written and read again it is the same; a map may have come in another order.
        let written = encode(&message).expect("it was read");
        let again: Message = decode(&written, 1 << 20).expect("it was written");
        assert!(encode(&again).expect("it was read") == written);
    }
});
