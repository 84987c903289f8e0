//! The launchers that this machine has, for real: each starts this test program five times, and the ranks must meet.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::cluster::launch::rendezvous::{Invitation, Seeker, publish};
use crate::launch::roles::{Join, Role, Workers, here};

const INSIDE: &str = "STRADSAP_TEST_RANK";
const RANKS: usize = 5;

/// What a rank does.
fn rank() {
    match here().unwrap() {
        Role::Driver(driver) => {
            assert_eq!(driver.workers, Workers::Join(RANKS - 1));
            let listener = TcpListener::bind(driver.listen.unwrap()).unwrap();
            let bound = listener.local_addr().unwrap();
            let file = driver.rendezvous.unwrap();
            let _published = publish(&file, &Invitation::at(bound, "5ec2e7".into())).unwrap();
            let mut seen = [false; RANKS - 1];
            for _ in 0..RANKS - 1 {
                let mut index = [0];
                listener.accept().unwrap().0.read_exact(&mut index).unwrap();
                seen[usize::from(index[0])] = true;
            }
            assert_eq!(seen, [true; RANKS - 1]);
            eprintln!("all ranks met");
        }
        Role::Worker(worker) => {
            let Join::Rendezvous(file) = worker.join else { panic!("{worker:?}") };
            let invitation = Seeker::new(file, Duration::from_secs(30)).next().unwrap();
            assert_eq!(invitation.secret, "5ec2e7");
            let mut driver = TcpStream::connect(&invitation.addresses[0]).unwrap();
            driver.write_all(&[worker.index.unwrap() as u8]).unwrap();
        }
        Role::Server(server) => panic!("{server:?}"),
    }
}

fn there(program: &str, argument: &str) -> bool {
    let tried = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

#[test]
fn ranks_of_real_launchers_meet() {
    if std::env::var_os(INSIDE).is_some() {
        return rank();
    }
    let (open_mpi, hydra) = (there("mpirun.openmpi", "--version"), there("mpiexec.hydra", "--version"));
    let slurm = there("sinfo", "--noheader"); // its daemons answer
    let launchers: [(bool, &[&str]); 4] = [
        (open_mpi, &["mpirun.openmpi", "--oversubscribe", "-np", "5"]),
        (hydra, &["mpiexec.hydra", "-n", "5"]),
        (slurm, &["srun", "--overcommit", "-n", "5"]),
        (slurm, &["srun", "--overcommit", "--mpi=pmi2", "-n", "5"]),
    ];
    let folder = std::env::temp_dir().join(format!("stradsap-ranks-{}", std::process::id()));
    for (there, words) in launchers {
        if !there {
            eprintln!("{} is not on this machine", words[0]);
            continue;
        }
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "cluster::launch::launcher_tests::ranks_of_real_launchers_meet", "--nocapture"]);
        command.env(INSIDE, "1").env("STRADSAP_RENDEZVOUS", &folder);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let Output { status, stdout, stderr } = command.output().unwrap();
        let said = String::from_utf8_lossy(&stdout) + String::from_utf8_lossy(&stderr);
        assert!(status.success() && said.matches("all ranks met").count() == 1, "{words:?}: {said}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{words:?} left its file");
    }
    let _ = std::fs::remove_dir(&folder); // not there where no launcher is
}
