//! What asks a program to end: a signal, after which the running epoch may still end, and be saved.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;

use crate::session::Session;
use crate::session::logging::warning;

/// A signal that asks the program to end.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::StopSignal;
///
/// assert_eq!((StopSignal::Terminate.to_string(), StopSignal::Terminate.exit_code()), ("SIGTERM".to_string(), 143));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// `SIGTERM`: sent by `kill`, by a batch system that needs the machine, and by Kubernetes.
    Terminate,
    /// `SIGINT`: Ctrl-C.
    Interrupt,
    /// `SIGUSR1`: sent by a batch system some time before it ends the job (Slurm: `--signal=USR1@300`).
    User,
}

impl StopSignal {
    const ALL: [StopSignal; 3] = [StopSignal::Terminate, StopSignal::Interrupt, StopSignal::User];

    fn number(self) -> i32 {
        match self {
            StopSignal::Terminate => SIGTERM,
            StopSignal::Interrupt => SIGINT,
            StopSignal::User => SIGUSR1,
        }
    }

    /// The exit code of a program that ends because of the signal: 128 plus its number, as shells report it.
    pub fn exit_code(self) -> u8 {
        (128 + self.number()) as u8
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopSignal::Terminate => "SIGTERM",
            StopSignal::Interrupt => "SIGINT",
            StopSignal::User => "SIGUSR1",
        })
    }
}

/// The number of the signal that came last; 0: none came.
static LAST: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Whether the program was asked to end, and watches for that.
#[cfg(feature = "cluster")]
pub(crate) fn is_asked() -> bool {
    LAST.get().is_some_and(|last| last.load(Relaxed) != 0)
}

fn last() -> &'static Arc<AtomicUsize> {
    LAST.get_or_init(|| {
        let last = Arc::default();
        if let Err(error) = watch(&last) {
            warning!("signals end this program at once, since they can't be watched: {error}");
        }
        last
    })
}

fn watch(last: &Arc<AtomicUsize>) -> std::io::Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in StopSignal::ALL {
        // Who says it twice means at once; a batch system's warning is none of the two.
        if signal != StopSignal::User {
            flag::register_conditional_shutdown(signal.number(), signal.exit_code().into(), Arc::clone(&asked))?;
            flag::register(signal.number(), Arc::clone(&asked))?;
        }
        flag::register_usize(signal.number(), Arc::clone(last), signal.number() as usize)?;
    }
    Ok(())
}

impl Session {
    /// The signal that has asked the program to end, if one came. After the first call of this method `SIGTERM`, `SIGINT` (Ctrl-C)
    /// and `SIGUSR1` don't end the program any more. So call it before the first epoch, and after each one. When it returns a
    /// signal, save a checkpoint and return [`Error::Stopped`](crate::Error::Stopped). A second `SIGTERM` or `SIGINT` ends the
    /// program at once.
    ///
    /// In a terminal or under a batch system, the job's workers get the same signals. They go on until the driver ends, or for five
    /// minutes. A worker that gets `SIGTERM` while others don't leaves the job when the running loop has ended.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{Error, Session};
    ///
    /// # fn train_one_epoch() {}
    /// # fn save() {}
    /// fn train(session: &Session) -> stradsap::Result<()> {
    ///     session.stopping();
    ///     for epoch in 0..10 {
    ///         train_one_epoch();
    ///         if let Some(signal) = session.stopping() {
    ///             save();
    ///             return Err(Error::Stopped { signal });
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// # train(&Session::builder().threads(1).build()?)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn stopping(&self) -> Option<StopSignal> {
        let number = last().load(Relaxed);
        StopSignal::ALL.into_iter().find(|signal| signal.number() as usize == number)
    }
}
