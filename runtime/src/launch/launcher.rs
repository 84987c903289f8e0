//! What MPI launchers and Slurm tell the processes that they start. The variables are those that Open MPI 4.1,
//! MPICH 4.0 (Hydra) and Slurm 22.05 were seen to set; Intel's launcher is a Hydra too.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::launch::roles::{Env, number};
use crate::session::error::{Error, Result};

/// The variable that names a job where its launcher doesn't.
pub(super) const JOB: &str = "STRADSAP_JOB";

/// A process that a launcher started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launched {
    pub(crate) launcher: Launcher,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// How many of the ranks are on this machine.
    pub(crate) here: usize,
    /// The cores that the launcher gave to each rank, where it says so.
    pub(crate) cores: Option<usize>,
    /// What the ranks of this run have in common, and no other run has.
    pub(crate) job: String,
}

/// Who started the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launcher {
    OpenMpi,
    Hydra,
    Slurm,
}

impl Launched {
    /// Whether all ranks are on this machine.
    pub(crate) fn one_machine(&self) -> bool {
        self.here == self.size
    }

    /// The file in which the ranks find each other, in `STRADSAP_RENDEZVOUS` or `$HOME/.stradsap`.
    pub(super) fn rendezvous(&self, env: Env<'_>) -> Result<PathBuf> {
        let folder = match (env("STRADSAP_RENDEZVOUS"), env("HOME")) {
            (Some(folder), _) => PathBuf::from(folder),
            (None, Some(home)) => Path::new(&home).join(".stradsap"),
            (None, None) => {
                let message = "neither STRADSAP_RENDEZVOUS nor HOME is set: a folder that all ranks see was expected";
                return Err(Error::usage(message));
            }
        };
        let Launched { launcher, size, job, .. } = self;
        let name = blake3::hash(format!("{launcher:?}\n{size}\n{job}").as_bytes()).to_hex();
        Ok(folder.join(format!("job-{}", &name[..32])))
    }
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::OpenMpi => "Open MPI's mpirun",
            Launcher::Hydra => "MPICH's mpiexec",
            Launcher::Slurm => "Slurm's srun",
        })
    }
}

/// The launcher that started this process, if one did. A job of one rank needs no name, and has none.
pub(crate) fn launched(env: Env<'_>) -> Result<Option<Launched>> {
    // The order matters: within a Slurm job, mpirun starts its daemons with srun, whose variables the ranks inherit.
    let Some(found) = open_mpi(env)?.or(hydra(env)?).or(slurm(env)?) else { return Ok(None) };
    let Found { launcher, rank, size, here, cores } = found;
    if rank >= size {
        return Err(Error::usage(format!("{launcher} gave rank {rank} of {size}: less than {size} was expected")));
    }
    let job = if size == 1 { String::new() } else { job(launcher, env)? };
    Ok(Some(Launched { launcher, rank, size, here, cores, job }))
}

struct Found {
    launcher: Launcher,
    rank: usize,
    size: usize,
    here: usize,
    cores: Option<usize>,
}

fn open_mpi(env: Env<'_>) -> Result<Option<Found>> {
    let counts = (count(env, "OMPI_COMM_WORLD_RANK")?, count(env, "OMPI_COMM_WORLD_SIZE")?);
    let (Some(rank), Some(size)) = counts else { return Ok(None) };
    let here = count(env, "OMPI_COMM_WORLD_LOCAL_SIZE")?.unwrap_or(1);
    Ok(Some(Found { launcher: Launcher::OpenMpi, rank, size, here, cores: None }))
}

fn hydra(env: Env<'_>) -> Result<Option<Found>> {
    // Slurm's own PMI sets PMI_RANK too, but not this one.
    let Some(here) = count(env, "MPI_LOCALNRANKS")? else { return Ok(None) };
    let (Some(rank), Some(size)) = (count(env, "PMI_RANK")?, count(env, "PMI_SIZE")?) else { return Ok(None) };
    Ok(Some(Found { launcher: Launcher::Hydra, rank, size, here, cores: None }))
}

fn slurm(env: Env<'_>) -> Result<Option<Found>> {
    // The shell of a batch script has rank and size, but no step.
    if env("SLURM_STEP_ID").is_none() {
        return Ok(None);
    }
    let size = count(env, "SLURM_STEP_NUM_TASKS")?.or(count(env, "SLURM_NTASKS")?);
    let (Some(rank), Some(size)) = (count(env, "SLURM_PROCID")?, size) else { return Ok(None) };
    let nodes = count(env, "SLURM_STEP_NUM_NODES")?.or(count(env, "SLURM_NNODES")?);
    // Slurm spreads tasks about evenly.
    let here = nodes.map_or(1, |nodes| size.div_ceil(nodes.max(1)));
    let shared = count(env, "SLURM_CPUS_ON_NODE")?.map(|cores| (cores / here.max(1)).max(1));
    let cores = count(env, "SLURM_CPUS_PER_TASK")?.filter(|&cores| cores > 0).or(shared);
    Ok(Some(Found { launcher: Launcher::Slurm, rank, size, here, cores }))
}

fn count(env: Env<'_>, name: &str) -> Result<Option<usize>> {
    number(env, name, 0, usize::MAX)
}

fn job(launcher: Launcher, env: Env<'_>) -> Result<String> {
    let joined = |names: &[&str]| {
        let values: Vec<String> = names.iter().filter_map(|name| env(name)).collect();
        Some(values.join(" ")).filter(|job| !job.is_empty())
    };
    let job = match launcher {
        Launcher::OpenMpi => {
            let name = env("PMIX_NAMESPACE").or_else(|| env("OMPI_MCA_ess_base_jobid"));
            // Job numbers of Open MPI 4 return; this is the random key of a run.
            name.map(|name| name + " " + &env("OMPI_MCA_orte_precondition_transports").unwrap_or_default())
        }
        Launcher::Slurm => {
            env("SLURM_JOB_ID").and_then(|_| joined(&["SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_CLUSTER_NAME"]))
        }
        Launcher::Hydra => None, // nothing in the environment; `here` asks the process manager
    };
    job.or_else(|| env(JOB)).ok_or_else(|| {
        Error::usage(format!("{launcher} doesn't tell its runs apart: set {JOB} to the same new word for all ranks"))
    })
}
