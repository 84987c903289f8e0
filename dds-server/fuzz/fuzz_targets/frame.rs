//! Frames one after the other, as they would come off a socket.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stradsap_dds_server::frame::{read_header, read_payload};

fuzz_target!(|bytes: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("an event loop");
    runtime.block_on(async {
        let mut from = bytes;
        while let Ok(Some(header)) = read_header(&mut from, 1 << 40).await {
            let Ok(payload) = read_payload(&mut from, &header).await else { break };
            assert_eq!(payload.len() as u64, header.len);
        }
    });
});
