#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stradsap_fuzz::handshake(bytes));
