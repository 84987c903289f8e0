//! The `dds-server` binary as a person or a driver starts it.

use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Instant;

use crate::common::{Driver, SECOND, ask};
use stradsap_dds_server::frame::{Header, Kind};
use stradsap_dds_server::net;
use tokio::io::AsyncWriteExt;

fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dds-server"));
    for variable in
        ["STRADSAP_SECRET", "STRADSAP_SECRET_FILE", "STRADSAP_JOIN", "STRADSAP_INDEX", "STRADSAP_GENERATION"]
    {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn refused(output: &Output, code: i32, part: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.starts_with("dds-server: ") && text.trim_end().lines().count() == 1, "{text}");
    assert!(text.contains(part), "{text}");
    assert!(output.stdout.is_empty());
}

#[test]
fn wrong_usage_is_one_line_and_exit_code_2() {
    let secret = "0".repeat(64);
    refused(&binary().arg("--wrong").output().unwrap(), 2, "--wrong");
    refused(&binary().args(["--join", "127.0.0.1:1"]).output().unwrap(), 2, "STRADSAP_SECRET");
    refused(&binary().env("STRADSAP_SECRET", &secret).output().unwrap(), 2, "--join");
    refused(&binary().env("STRADSAP_SECRET", "12").args(["--join", "x:1"]).output().unwrap(), 2, "64 hexadecimal");
    refused(&binary().env("STRADSAP_SECRET", &secret).args(["--memory", "0"]).output().unwrap(), 2, "--memory");
    let nowhere = ["--join", "127.0.0.1:1", "--spill", "/no/such/folder"];
    refused(&binary().env("STRADSAP_SECRET", &secret).args(nowhere).output().unwrap(), 2, "--spill: /no/such/folder");
    let index = binary().env("STRADSAP_SECRET", &secret).env("STRADSAP_INDEX", "one").args(["--join", "x:1"]).output();
    refused(&index.unwrap(), 2, "STRADSAP_INDEX");
    assert!(binary().arg("--help").output().unwrap().status.success());
}

#[test]
fn an_address_that_is_none_is_exit_code_1() {
    let output = binary().env("STRADSAP_SECRET", "0".repeat(64)).args(["--join", "nowhere"]).output().unwrap();
    refused(&output, 1, "nowhere: not an address");
}

async fn ended(server: &mut Child) -> ExitStatus {
    let until = Instant::now() + 5 * SECOND;
    loop {
        if let Some(status) = server.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > until {
            server.kill().unwrap();
            panic!("it did not end");
        }
        tokio::time::sleep(SECOND / 20).await;
    }
}

#[tokio::test]
async fn it_serves_until_the_driver_ends() {
    let driver = Driver::new().await;
    let mut server = binary()
        .env("STRADSAP_SECRET", driver.secret.to_hex())
        .env("STRADSAP_JOIN", driver.address())
        .env("STRADSAP_INDEX", "3")
        .env("STRADSAP_GENERATION", "2")
        .spawn()
        .unwrap();
    let joined = driver.join().await;
    assert_eq!((joined.hello.index, joined.hello.generation, joined.hello.pid), (Some(3), 2, server.id()));
    let mut data = driver.connect(&joined.hello.address).await.unwrap();
    let put = Header { generation: 2, lo: 0, hi: 1, ..Header::new(Kind::Put) };
    assert_eq!(ask(&mut data, put, b"one").await.0.kind, Kind::Done);
    drop(joined);
    let status = ended(&mut server).await;
    assert!(status.success());
}

/// The most memory that a process has had, in KiB.
#[cfg(target_os = "linux")]
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
// Heartbeats must go on while connections are made: with threads of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_take_no_memory() {
    let driver = Driver::new().await;
    let secret = driver.secret.to_hex();
    let mut server = binary().env("STRADSAP_SECRET", secret).args(["--join", &driver.address()]).spawn().unwrap();
    let joined = driver.join().await;
    let mut data = driver.connect(&joined.hello.address).await.unwrap();
    ask(&mut data, Header::new(Kind::Ping), &[]).await;
    let before = peak(server.id());
    let mut open = std::collections::VecDeque::new();
    for _ in 0..1000 {
        let mut stream = net::connect(&joined.hello.address, 10 * SECOND).await.unwrap();
        // A good beginning, so that each comes as far as a stranger can.
        let _refused = stream.write_all(b"stradsap/hello 1").await;
        open.push_back(stream);
        if open.len() > 300 {
            open.pop_front();
        }
    }
    ask(&mut data, Header::new(Kind::Ping), &[]).await;
    let grown = peak(server.id()) - before;
    assert!(grown < 10 << 10, "{grown} KiB");
    drop(joined);
    assert!(ended(&mut server).await.success());
}
