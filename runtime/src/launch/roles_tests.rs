use std::collections::BTreeMap;

use super::*;

const OPEN_MPI: &[(&str, &str)] = &[
    ("OMPI_COMM_WORLD_RANK", "0"),
    ("OMPI_COMM_WORLD_SIZE", "5"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "5"),
    ("OMPI_MCA_orte_precondition_transports", "c793730ce835726f-55ab059dd2e4770b"),
    ("PMIX_NAMESPACE", "1657864193"),
];
const HYDRA: &[(&str, &str)] =
    &[("MPI_LOCALNRANKS", "5"), ("PMI_RANK", "0"), ("PMI_SIZE", "5"), ("STRADSAP_JOB", "kvs_5100_0_586840621_vm")];
const SLURM: &[(&str, &str)] = &[
    ("SLURM_JOB_ID", "7"),
    ("SLURM_NNODES", "1"),
    ("SLURM_NTASKS", "5"),
    ("SLURM_PROCID", "0"),
    ("SLURM_STEP_ID", "0"),
    ("SLURM_STEP_NUM_NODES", "1"),
    ("SLURM_STEP_NUM_TASKS", "5"),
];
const POD: &[(&str, &str)] =
    &[("JOB_COMPLETION_INDEX", "0"), ("STRADSAP_JOIN", "job-0.job:7350"), ("STRADSAP_SIZE", "5")];

const DRIVER: DriverRole = DriverRole {
    workers: Workers::None,
    fewest: None,
    threads: None,
    servers: 0,
    homes_on_servers: false,
    listen: None,
    snapshot_every: None,
    attempts: None,
    slow_body: None,
    driver_memory: None,
    trace: None,
    rendezvous: None,
};

/// The role for a command line in an environment; later variables hide earlier ones, empty ones count as absent.
fn given(line: &str, variables: &[&[(&str, &str)]]) -> Result<Role, String> {
    let home = [("HOME", "/home/me")];
    let variables: BTreeMap<&str, &str> = home.iter().chain(variables.iter().copied().flatten()).copied().collect();
    let env = |name: &str| variables.get(name).map(|&value| value.to_owned());
    role(line.split_whitespace().map(OsString::from), &env).map_err(|error| {
        assert_eq!(error.exit_code(), 2);
        let message = error.to_string();
        assert!(!message.contains('\n'), "{message}");
        message
    })
}

fn driver_of(role: Result<Role, String>) -> DriverRole {
    match role {
        Ok(Role::Driver(driver)) => driver,
        other => panic!("{other:?}"),
    }
}

fn worker_of(role: Result<Role, String>) -> WorkerRole {
    match role {
        Ok(Role::Worker(worker)) => worker,
        other => panic!("{other:?}"),
    }
}

fn joins(address: &str) -> WorkerRole {
    WorkerRole { join: Join::Address(address.into()), threads: None, workers_here: 1, index: None, generation: 0 }
}

#[test]
fn a_plain_start_is_a_driver_without_workers() {
    assert_eq!(driver_of(given("", &[])), DRIVER);
    assert_eq!(driver_of(given("--data x --workers 4 --threads many", &[])), DRIVER); // the program's own affair
    assert_eq!(driver_of(given("", &[&[("STRADSAP_WORKERS", "0"), ("STRADSAP_ROLE", "")]])), DRIVER);
}

#[test]
fn a_driver_has_one_worker_a_core_where_no_number_is_given() {
    let each = std::thread::available_parallelism().unwrap().get();
    assert_eq!(driver_of(given("", &[&[("STRADSAP_WORKERS", "cores")]])).workers, Workers::Spawn(each));
    assert_eq!(one_per_core(), each);
    let elastic = driver_of(given("", &[&[("STRADSAP_WORKERS", "2..8"), ("STRADSAP_LISTEN", "h:9")]]));
    assert_eq!((elastic.workers, elastic.fewest), (Workers::Join(8), Some(2)));
    for wrong in ["2..", "..8", "8..2", "0..2", "2..1025", "1..2..3"] {
        let error = given("", &[&[("STRADSAP_WORKERS", wrong)]]).unwrap_err();
        assert!(error.contains(&format!("STRADSAP_WORKERS={wrong}: a range such as 2..8")), "{error}");
    }
    // The program reads its own command line: `--workers` takes no word away from what is read here.
    assert_eq!(driver_of(given("--workers --threads 2", &[])), DRIVER);
    let joined = worker_of(given("--workers --join h:9 --threads 2", &[]));
    assert_eq!(joined, WorkerRole { threads: Some(2), ..joins("h:9") });
}

#[test]
fn the_environment_sets_up_a_driver() {
    let all = [
        ("STRADSAP_WORKERS", "4"),
        ("STRADSAP_DDS_SERVERS", "2"),
        ("STRADSAP_SNAPSHOT_EVERY", "10"),
        ("STRADSAP_DRIVER_MEMORY", "0"),
        ("STRADSAP_HOME", "servers"),
        ("STRADSAP_TRACE", "t.json"),
        ("STRADSAP_THREADS", "3"),
    ];
    let driver = driver_of(given("", &[&all]));
    let expected = DriverRole { workers: Workers::Spawn(4), servers: 2, snapshot_every: Some(10), ..DRIVER };
    let expected = DriverRole { driver_memory: Some(0), homes_on_servers: true, ..expected };
    assert_eq!(driver, DriverRole { trace: Some("t.json".into()), threads: Some(3), ..expected.clone() });
    let memory = |text| driver_of(given("", &[&[("STRADSAP_DRIVER_MEMORY", text)]])).driver_memory;
    assert_eq!(["64", "64MiB", "1.5 kB"].map(memory), [64 << 20, 64 << 20, 1500].map(Some));
    let driver = driver_of(given("", &[&all[..5], &[("STRADSAP_LISTEN", "[::]:0")]]));
    assert_eq!(driver, DriverRole { workers: Workers::Join(4), listen: Some("[::]:0".into()), ..expected });
}

#[test]
fn workers_join_by_environment_or_command_line() {
    let started = [
        ("STRADSAP_ROLE", "worker"),
        ("STRADSAP_JOIN", "127.0.0.1:9"),
        ("STRADSAP_INDEX", "3"),
        ("STRADSAP_THREADS", "2"),
        ("STRADSAP_GENERATION", "5"),
    ];
    let expected = WorkerRole { threads: Some(2), index: Some(3), generation: 5, ..joins("127.0.0.1:9") };
    assert_eq!(worker_of(given("", &[&started])), expected);
    // A child of a rank inherits what the launcher said to its parent.
    assert_eq!(worker_of(given("", &[OPEN_MPI, &started])), expected);
    assert_eq!(
        worker_of(given("--epochs 3 --join h:9 --threads 2", &[])),
        WorkerRole { threads: Some(2), ..joins("h:9") }
    );
    assert_eq!(
        worker_of(given("--threads=2 --join=h:9", &[&[("STRADSAP_THREADS", "7")]])),
        WorkerRole { threads: Some(2), ..joins("h:9") }
    );
    assert_eq!(worker_of(given("--join [fd00::1]:9", &[])), joins("[fd00::1]:9"));
    assert_eq!(driver_of(given("-- --join h:9", &[])), DRIVER);
}

#[test]
fn servers_join_by_environment() {
    let started = [("STRADSAP_ROLE", "server"), ("STRADSAP_JOIN", "127.0.0.1:9"), ("STRADSAP_INDEX", "1")];
    let join = Join::Address("127.0.0.1:9".into());
    assert_eq!(given("", &[&started]), Ok(Role::Server(ServerRole { join, index: Some(1), generation: 0 })));
}

#[test]
fn rank_0_drives_and_the_others_join() {
    let rank = |n| [("OMPI_COMM_WORLD_RANK", n), ("PMI_RANK", n), ("SLURM_PROCID", n)];
    let mut files = Vec::new();
    for launcher in [OPEN_MPI, HYDRA, SLURM] {
        let driver = driver_of(given("", &[launcher]));
        let file = driver.rendezvous.clone().unwrap();
        assert!(file.starts_with("/home/me/.stradsap"), "{}", file.display());
        let listen = Some("127.0.0.1:0".to_owned());
        assert_eq!(driver, DriverRole { workers: Workers::Join(4), listen, rendezvous: Some(file.clone()), ..DRIVER });
        let own: Vec<_> =
            rank("4").into_iter().filter(|(name, _)| launcher.iter().any(|(set, _)| set == name)).collect();
        let worker = worker_of(given("--threads 2", &[launcher, &own]));
        let join = Join::Rendezvous(file.clone());
        assert_eq!(worker, WorkerRole { join, threads: Some(2), workers_here: 4, index: Some(3), generation: 0 });
        files.push(file);
    }
    files.dedup();
    assert_eq!(files.len(), 3);
}

#[test]
fn each_run_has_a_file_of_its_own() {
    let file = |launcher, other: &[(&str, &str)]| driver_of(given("", &[launcher, other])).rendezvous.unwrap();
    for (launcher, name) in [
        (OPEN_MPI, "PMIX_NAMESPACE"),
        (OPEN_MPI, "OMPI_MCA_orte_precondition_transports"),
        (HYDRA, "STRADSAP_JOB"),
        (SLURM, "SLURM_JOB_ID"),
        (SLURM, "SLURM_STEP_ID"),
        (SLURM, "SLURM_CLUSTER_NAME"),
    ] {
        assert_ne!(file(launcher, &[]), file(launcher, &[(name, "8")]), "{name}");
    }
    let (namespace, old) = (("PMIX_NAMESPACE", ""), ("OMPI_MCA_ess_base_jobid", "1657864193"));
    assert_eq!(file(OPEN_MPI, &[]), file(OPEN_MPI, &[namespace, old]));
    let elsewhere = file(SLURM, &[("STRADSAP_RENDEZVOUS", "/scratch/r")]);
    assert!(elsewhere.starts_with("/scratch/r"));
}

#[test]
fn ranks_on_several_machines_are_not_on_loopback() {
    for (launcher, local) in
        [(OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE"), (HYDRA, "MPI_LOCALNRANKS"), (SLURM, "SLURM_STEP_NUM_NODES")]
    {
        let driver = driver_of(given("", &[launcher, &[(local, "2")]]));
        assert_eq!(driver.listen.as_deref(), Some("0.0.0.0:0"), "{local}");
        let rank = [("OMPI_COMM_WORLD_RANK", "3"), ("PMI_RANK", "3"), ("SLURM_PROCID", "3")];
        let here = worker_of(given("", &[launcher, &[(local, "2")], &rank])).workers_here;
        assert_eq!(here, if launcher == SLURM { 3 } else { 2 });
    }
    let told = driver_of(given("", &[SLURM, &[("STRADSAP_LISTEN", "10.0.0.1:7")]]));
    assert_eq!((told.listen.as_deref(), told.workers), (Some("10.0.0.1:7"), Workers::Join(4)));
}

#[test]
fn workers_share_the_cores_of_a_machine() {
    let rank = [("OMPI_COMM_WORLD_RANK", "3"), ("SLURM_PROCID", "3")];
    let threads = |line, variables: &[(&str, &str)]| worker_of(given(line, &[SLURM, &rank, variables])).threads;
    assert_eq!(threads("", &[("SLURM_CPUS_ON_NODE", "10")]), Some(2));
    assert_eq!(threads("", &[("SLURM_CPUS_ON_NODE", "3")]), Some(1));
    assert_eq!(threads("", &[("SLURM_CPUS_ON_NODE", "10"), ("SLURM_CPUS_PER_TASK", "8")]), Some(8));
    assert_eq!(threads("--threads 3", &[("SLURM_CPUS_PER_TASK", "8")]), Some(3));
    let worker = worker_of(given("", &[OPEN_MPI, &rank]));
    assert_eq!((worker.threads, worker.workers_here), (None, 4));
}

#[test]
fn a_single_rank_is_a_plain_start() {
    for (launcher, size) in [(OPEN_MPI, "OMPI_COMM_WORLD_SIZE"), (HYDRA, "PMI_SIZE"), (SLURM, "SLURM_STEP_NUM_TASKS")] {
        assert_eq!(driver_of(given("", &[launcher, &[(size, "1"), ("STRADSAP_JOB", "")]])), DRIVER, "{size}");
        let workers = driver_of(given("", &[launcher, &[(size, "1"), ("STRADSAP_WORKERS", "2")]])).workers;
        assert_eq!(workers, Workers::Spawn(2));
    }
    assert_eq!(driver_of(given("", &[POD, &[("STRADSAP_SIZE", "1")]])), DRIVER);
}

#[test]
fn the_shell_of_a_batch_script_is_no_rank() {
    let shell: Vec<_> = SLURM.iter().copied().filter(|(name, _)| !name.starts_with("SLURM_STEP")).collect();
    assert_eq!(driver_of(given("", &[&shell])), DRIVER);
    assert_eq!(driver_of(given("", &[&shell, &[("STRADSAP_WORKERS", "2")]])).workers, Workers::Spawn(2));
}

#[test]
fn a_launcher_within_slurm_hides_it() {
    let driver = driver_of(given("", &[SLURM, OPEN_MPI]));
    assert_eq!(driver.rendezvous, driver_of(given("", &[OPEN_MPI])).rendezvous);
    let driver = driver_of(given("", &[SLURM, HYDRA]));
    assert_eq!(driver.rendezvous, driver_of(given("", &[HYDRA])).rendezvous);
    // srun --mpi=pmi2
    let own = [("PMI_RANK", "0"), ("PMI_SIZE", "5"), ("PMI_JOBID", "7.0")];
    assert_eq!(driver_of(given("", &[SLURM, &own])), driver_of(given("", &[SLURM])));
}

#[test]
fn a_launcher_is_left_aside_where_the_role_is_told() {
    assert_eq!(driver_of(given("", &[OPEN_MPI, &[("STRADSAP_ROLE", "driver")]])), DRIVER);
    assert_eq!(worker_of(given("--join h:9", &[OPEN_MPI])), joins("h:9"));
}

#[test]
fn pods_of_an_indexed_job_meet_at_pod_0() {
    let driver = driver_of(given("", &[POD]));
    let expected = DriverRole { workers: Workers::Join(4), listen: Some("0.0.0.0:7350".into()), ..DRIVER };
    assert_eq!(driver, expected);
    let worker = worker_of(given("", &[POD, &[("JOB_COMPLETION_INDEX", "2")]]));
    assert_eq!(worker, WorkerRole { index: Some(1), ..joins("job-0.job:7350") });
    // Any other Indexed Job: its pods have nothing to do with each other.
    assert_eq!(driver_of(given("", &[&[("JOB_COMPLETION_INDEX", "2")]])), DRIVER);
}

#[test]
fn variables_are_for_a_role() {
    let alone = given("", &[&[("STRADSAP_JOIN", "h:9")]]);
    assert_eq!(alone.unwrap_err(), "STRADSAP_JOIN=h:9: with it, STRADSAP_ROLE=worker was expected");
    let none = given("", &[&[("STRADSAP_THREADS", "0")]]);
    assert_eq!(none.unwrap_err(), "STRADSAP_THREADS=0: a number from 1 to 1024 was expected");
}

#[test]
fn mistakes_are_told_in_one_line() {
    let say = |line, variables: &[&[(&str, &str)]]| given(line, variables).unwrap_err();
    for (variables, message) in [
        (&[("STRADSAP_ROLE", "boss")][..], "STRADSAP_ROLE=boss: driver, worker or server was expected"),
        (
            &[("STRADSAP_ROLE", "worker")],
            "STRADSAP_ROLE=worker needs STRADSAP_JOIN=HOST:PORT, the address of the driver",
        ),
        (
            &[("STRADSAP_DRIVER_MEMORY", "1XB")],
            "STRADSAP_DRIVER_MEMORY=1XB: a number of mebibytes, or one with its unit such as 64MiB, was expected",
        ),
        (&[("STRADSAP_WORKERS", "four")], "STRADSAP_WORKERS=four: a number from 0 to 1024 was expected"),
        (
            &[("STRADSAP_WORKERS", "cores"), ("STRADSAP_LISTEN", "h:9")],
            "STRADSAP_WORKERS=cores: with STRADSAP_LISTEN, the number of workers that will join was expected",
        ),
        (&[("STRADSAP_WORKERS", "-1")], "STRADSAP_WORKERS=-1: a number from 0 to 1024 was expected"),
        (&[("STRADSAP_DDS_SERVERS", "1025")], "STRADSAP_DDS_SERVERS=1025: a number from 0 to 1024 was expected"),
        (&[("STRADSAP_HOME", "driver")], "STRADSAP_HOME=driver: workers or servers was expected"),
        (&[("STRADSAP_HOME", "servers")], "STRADSAP_HOME=servers: it needs servers, as in STRADSAP_DDS_SERVERS=2"),
        (&[("STRADSAP_SNAPSHOT_EVERY", "0")], "STRADSAP_SNAPSHOT_EVERY=0: a number from 1 was expected"),
        (&[("STRADSAP_LISTEN", "7350")], "STRADSAP_LISTEN=7350: host:port was expected, such as 192.168.1.5:7350"),
        (&[("STRADSAP_LISTEN", ":7350")], "STRADSAP_LISTEN=:7350: host:port was expected, such as 192.168.1.5:7350"),
        (&[("STRADSAP_LISTEN", "::1:9")], "STRADSAP_LISTEN=::1:9: host:port was expected, such as 192.168.1.5:7350"),
        (
            &[("STRADSAP_SIZE", "3")],
            "STRADSAP_SIZE is for Kubernetes Indexed Jobs, and JOB_COMPLETION_INDEX is not set",
        ),
        (
            &[("STRADSAP_SIZE", "3"), ("JOB_COMPLETION_INDEX", "3")],
            "JOB_COMPLETION_INDEX=3: less than STRADSAP_SIZE=3 was expected",
        ),
        (
            &[("STRADSAP_SIZE", "3"), ("JOB_COMPLETION_INDEX", "1")],
            "STRADSAP_SIZE needs STRADSAP_JOIN=HOST:PORT, the address of pod 0",
        ),
    ] {
        assert_eq!(say("", &[variables]), message);
    }
    assert_eq!(say("--join", &[]), "--join: the driver's address was expected, as host:port");
    assert_eq!(say("--join host", &[]), "--join host: host:port was expected, such as 192.168.1.5:7350");
    assert_eq!(say("--join h:0", &[]), "--join h:0: the port that the driver listens on was expected");
    assert_eq!(say("--join h:9 --threads x", &[]), "--threads x: a number from 1 to 1024 was expected");
    assert_eq!(
        say("", &[OPEN_MPI, &[("STRADSAP_WORKERS", "2")]]),
        "STRADSAP_WORKERS=2: Open MPI's mpirun started 5 processes, a driver and 4 workers; unset it"
    );
    assert_eq!(say("", &[SLURM, &[("SLURM_PROCID", "9")]]), "Slurm's srun gave rank 9 of 5: less than 5 was expected");
    assert_eq!(
        say("", &[HYDRA, &[("STRADSAP_JOB", "")]]),
        "MPICH's mpiexec doesn't tell its runs apart: set STRADSAP_JOB to the same new word for all ranks"
    );
    assert_eq!(
        say("", &[OPEN_MPI, &[("HOME", "")]]),
        "neither STRADSAP_RENDEZVOUS nor HOME is set: a folder that all ranks see was expected"
    );
    assert_eq!(
        say("", &[SLURM, &[("SLURM_STEP_NUM_TASKS", "5000")]]),
        "Slurm's srun started 5000 ranks: at most 1025 are offered"
    );
}
