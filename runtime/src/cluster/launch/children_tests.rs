use super::*;

fn ends_within(child: &mut Child, patience: Duration) -> Option<ProcessEnd> {
    crate::cluster::wire::join::runtime().unwrap().block_on(child.ends_within(patience))
}

fn settings() -> ChildSettings {
    ChildSettings { join: "127.0.0.1:9".into(), secret: "5ec2e7".into(), index: 3, threads: Some(2), generation: 4 }
}

fn shell(script: &str) -> Command {
    let mut shell = command(Path::new("/bin/sh"), "worker", &settings());
    shell.args(["-c", script]);
    shell
}

fn alive(pid: u32) -> bool {
    // A zombie is a process that ended and was not reaped.
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|text| !text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

#[test]
fn the_end_of_a_child_is_told() {
    let nursery = Nursery::new().unwrap();
    let mut child = nursery.start(shell("exit 3")).unwrap();
    assert_eq!(ends_within(&mut child, Duration::from_secs(20)).unwrap().to_string(), "exit code 3");
    assert_eq!(child.ended(), Some(ProcessEnd::Code(3)));
    assert_eq!(child.kill(), ProcessEnd::Code(3));

    let mut child = nursery.start(shell("kill -SEGV $$")).unwrap();
    assert_eq!(ends_within(&mut child, Duration::from_secs(20)).unwrap().to_string(), "signal 11 (SIGSEGV)");

    let mut child = nursery.start(shell("exec sleep 60")).unwrap();
    assert_eq!(child.ended(), None);
    assert_eq!(ends_within(&mut child, Duration::from_millis(10)), None);
    assert_eq!(child.kill().to_string(), "signal 9 (SIGKILL)");
    assert_eq!(ProcessEnd::Signal(64).to_string(), "signal 64");
}

/// Run by the test below, in a process of its own.
#[test]
#[ignore = "ends its process"]
fn asks_for_too_much_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 60)));
}

/// Likewise.
#[test]
#[ignore = "ends its process"]
fn goes_too_deep() {
    fn down(n: u64) -> u64 {
        let room = std::hint::black_box([n; 64]);
        if n == 0 { 0 } else { down(n - 1) + room[1] }
    }
    std::hint::black_box(down(1 << 20));
}

/// A child that runs one of the two.
fn ends_by(nursery: &Nursery, test: &str) -> Child {
    let mut command = command(&std::env::current_exe().unwrap(), "worker", &settings());
    command.args(["--ignored", "--nocapture", "--exact", &format!("cluster::launch::children::tests::{test}")]);
    nursery.start(command).unwrap()
}

#[test]
fn a_stack_that_was_full_is_named() {
    let nursery = Nursery::new().unwrap();
    let mut child = ends_by(&nursery, "goes_too_deep");
    let ended = ends_within(&mut child, Duration::from_secs(60)).unwrap();
    assert_eq!(ended, ProcessEnd::NoStack);
    assert!(ended.to_string().contains("STRADSAP_STACK_SIZE"), "{ended}");
}

#[test]
fn memory_that_a_child_did_not_get_is_named() {
    let nursery = Nursery::new().unwrap();
    let mut child = ends_by(&nursery, "asks_for_too_much_memory");
    let ended = ends_within(&mut child, Duration::from_secs(60)).unwrap();
    assert_eq!(ended, ProcessEnd::NoMemory { bytes: 1 << 60 });
    let message = "signal 6 (SIGABRT): it got no memory for 1152921504606846976 bytes";
    assert_eq!((ended.to_string(), child.kill()), (message.to_owned(), ended));

    // What was said before another end, or something else before this one, is no such thing.
    let line = "memory allocation of 7 bytes failed";
    for (script, end) in [
        (format!("echo '{line}' >&2; kill -SEGV $$"), ProcessEnd::Signal(libc::SIGSEGV)),
        ("echo 'memory allocation of much' >&2; kill -ABRT $$".to_owned(), ProcessEnd::Signal(libc::SIGABRT)),
        ("echo \"thread 'a' has overflowed its stack\" >&2; kill -ABRT $$".to_owned(), ProcessEnd::NoStack),
        // A process of the child's that goes on holds the pipe open, and is not waited for.
        (format!("sleep 5 & echo '{line}' >&2; kill -ABRT $$"), ProcessEnd::NoMemory { bytes: 7 }),
    ] {
        let since = std::time::Instant::now();
        let mut child = nursery.start(shell(&script)).unwrap();
        assert_eq!(ends_within(&mut child, Duration::from_secs(60)), Some(end), "{script}");
        drop(child);
        assert!(since.elapsed() < Duration::from_secs(4), "{script}");
    }
}

#[test]
fn memory_that_the_system_wanted_back_is_named() {
    let mut child = Nursery::new().unwrap().start(shell("kill -KILL $$")).unwrap();
    // As if the system had ended one more process since.
    child.memory_kills -= 1;
    let ended = ends_within(&mut child, Duration::from_secs(20)).unwrap();
    let message = "signal 9 (SIGKILL), and the system has ended a process for want of memory";
    assert_eq!((ended, ended.to_string()), (ProcessEnd::KilledForMemory, message.to_owned()));

    // Signals of other kinds have other reasons.
    let mut child = Nursery::new().unwrap().start(shell("kill -TERM $$")).unwrap();
    child.memory_kills -= 1;
    assert_eq!(ends_within(&mut child, Duration::from_secs(20)), Some(ProcessEnd::Signal(libc::SIGTERM)));
}

#[test]
fn a_child_is_told_who_it_is_and_nothing_of_its_parent() {
    let expected = "[ \"$STRADSAP_ROLE $STRADSAP_JOIN $STRADSAP_SECRET $STRADSAP_INDEX $STRADSAP_THREADS \
                    $STRADSAP_GENERATION\" = 'worker 127.0.0.1:9 5ec2e7 3 2 4' ] && [ -z \"$STRADSAP_WORKERS\" ]";
    let mut child = Nursery::new().unwrap().start(shell(expected)).unwrap();
    assert_eq!(ends_within(&mut child, Duration::from_secs(20)), Some(ProcessEnd::Code(0)));
    let removed = |name: &str| {
        let command = command(Path::new("p"), "worker", &ChildSettings { threads: None, ..settings() });
        command.get_envs().any(|(key, value)| key == name && value.is_none())
    };
    assert!(removed("STRADSAP_WORKERS") && removed("STRADSAP_THREADS") && !removed("STRADSAP_JOIN"));
}

#[test]
fn children_are_ended_side_by_side() {
    let nursery = Nursery::new().unwrap();
    let mut children: Vec<Child> = (0..4).map(|_| nursery.start(shell("exec sleep 60")).unwrap()).collect();
    children.push(nursery.start(shell("exit 0")).unwrap());
    let pids: Vec<u32> = children.iter().map(Child::pid).collect();
    let since = Instant::now();
    end_all(children, Duration::from_millis(400));
    assert!((400..2000).contains(&since.elapsed().as_millis()), "{:?}", since.elapsed());
    assert!(pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()), "reaped");
}

#[test]
fn a_dropped_child_is_gone() {
    let child = Nursery::new().unwrap().start(shell("exec sleep 60")).unwrap();
    let pid = child.pid();
    std::thread::sleep(Duration::from_millis(50));
    assert!(alive(pid), "the nursery was dropped, but not the child");
    drop(child);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "reaped");
}

/// Without the nursery, the child would be killed when the thread that asked for it ends.
#[test]
fn a_child_survives_the_thread_that_asked_for_it() {
    let nursery = Nursery::new().unwrap();
    let mut child = std::thread::spawn(move || nursery.start(shell("exec sleep 60")).unwrap()).join().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(child.ended(), None);
}

/// This test starts this test program once more, which starts a child and waits; then that one is killed.
#[cfg(target_os = "linux")]
#[test]
fn no_child_outlives_a_killed_parent() {
    const NOTE: &str = "STRADSAP_TEST_PID_FILE";
    if let Ok(note) = std::env::var(NOTE) {
        let child = Nursery::new().unwrap().start(shell("exec sleep 60")).unwrap();
        std::fs::write(format!("{note}.new"), child.pid().to_string()).unwrap();
        std::fs::rename(format!("{note}.new"), note).unwrap();
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let note = std::env::temp_dir().join(format!("stradsap-orphan-{}", std::process::id()));
    let module = module_path!().split_once("::").map_or("", |(_, module)| module);
    let name = format!("{module}::no_child_outlives_a_killed_parent");
    let mut parent = Command::new(std::env::current_exe().unwrap());
    let mut parent = parent.args([name.as_str(), "--exact"]).env(NOTE, &note).stdout(Stdio::null()).spawn().unwrap();
    let until = |what: &dyn Fn() -> bool| {
        let since = Instant::now();
        while !what() {
            assert!(since.elapsed() < Duration::from_secs(20), "waited in vain");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(&|| note.exists());
    let orphan: u32 = std::fs::read_to_string(&note).unwrap().parse().unwrap();
    std::fs::remove_file(&note).unwrap();
    assert!(alive(orphan));
    parent.kill().unwrap();
    parent.wait().unwrap();
    until(&|| !alive(orphan));
}

#[test]
fn the_program_for_servers_is_found_where_it_is() {
    let folder = std::env::temp_dir().join(format!("stradsap-server-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("examples")).unwrap();
    let own = folder.join("examples").join("program");
    assert_eq!(server_program(None, &own).unwrap(), None);
    let above = folder.join("dds-server");
    std::fs::write(&above, "").unwrap();
    assert_eq!(server_program(None, &own).unwrap(), Some(above.clone()));
    let beside = folder.join("examples").join("dds-server");
    std::fs::write(&beside, "").unwrap();
    assert_eq!(server_program(None, &own).unwrap(), Some(beside));
    assert_eq!(server_program(Some(above.clone()), &own).unwrap(), Some(above));
    let message = server_program(Some("/no/server".into()), &own).unwrap_err().to_string();
    assert_eq!(message, "STRADSAP_DDS_SERVER=/no/server: there is no such file");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let nursery = Nursery::new().unwrap();
    let error = nursery.start(command(Path::new("/no/program"), "worker", &settings())).unwrap_err();
    assert!(error.to_string().starts_with("/no/program: "), "{error}");
}
