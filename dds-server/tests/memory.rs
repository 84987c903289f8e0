//! What a message claims takes no memory. Alone in its process, since the process is what is measured.

#![allow(clippy::unwrap_used, reason = "a test")]

use stradsap_dds_server::codec::decode;
use stradsap_dds_server::frame::{Header, Kind, read_payload};

/// The most address space that this process has had, in KiB.
#[cfg(target_os = "linux")]
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn twenty_bytes_take_no_memory() {
    let _warm = vec![1u8; 1 << 20];
    let before = peak();
    for claimed in [1u64 << 63, 1 << 40, 200 << 20, 8 << 20] {
        let mut bytes = claimed.to_le_bytes().to_vec();
        bytes.resize(20, 1);
        decode::<Vec<u64>>(&bytes, 1 << 20).unwrap_err();
        decode::<Vec<u8>>(&bytes, 1 << 20).unwrap_err();
        decode::<String>(&bytes, 1 << 20).unwrap_err();
        decode::<Vec<[u128; 32]>>(&bytes, 1 << 20).unwrap_err();
        let header = Header { len: claimed, ..Header::new(Kind::Put) };
        read_payload(&mut bytes.as_slice(), &header).await.unwrap_err();
    }
    let grown = peak() - before;
    assert!(grown < 4 << 10, "{grown} KiB");
}
