//! What a session that verifies compared of a call, and why it compared nothing.

use std::fmt;

/// What a call compared with its replay, in a session that [verifies](crate::Session::verify). A difference is an
/// [`Error::Verification`](crate::Error::Verification), so all that a report names here was equal.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{Unverified, Verified};
///
/// let compared = Verified::Compared(vec!["ranks", "moved"]);
/// assert_eq!(compared.to_string(), "verified: `ranks`, `moved` have the bits that a replay on one thread gives");
/// let not = Verified::NotCompared(Unverified::SharedRows);
/// assert!(not.to_string().starts_with("not verified: "));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verified {
    /// The session doesn't verify.
    #[default]
    NotAsked,
    /// These DDSs, reductions and relaxed states have the replay's bits. They are named as in the capture list, and are all that
    /// the call may change. The list is empty if the call changes nothing.
    Compared(Vec<&'static str>),
    /// Nothing was compared.
    NotCompared(Unverified),
}

/// Why nothing was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unverified {
    /// Under `Hybrid` with several threads a process.
    SharedRows,
    /// Under `Ssp` with several copies.
    Stale {
        /// How many reads were checked against the bound instead.
        reads: u64,
    },
    /// A synchronous loop on workers.
    OnWorkers,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verified::NotAsked => f.write_str("not verified: the session doesn't verify"),
            Verified::Compared(names) if names.is_empty() => {
                f.write_str("verified: a replay on one thread ended well; there was nothing to compare")
            }
            Verified::Compared(names) => {
                let s = if names.len() == 1 { "has" } else { "have" };
                write!(f, "verified: `{}` {s} the bits that a replay on one thread gives", names.join("`, `"))
            }
            Verified::NotCompared(why) => write!(f, "not verified: {why}"),
        }
    }
}

impl fmt::Display for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unverified::SharedRows => f.write_str(
                "under `hybrid` the threads of a process share rows, so bits differ from run to run; with one thread they \
                 can be compared",
            ),
            Unverified::Stale { reads } => write!(
                f,
                "under `ssp` copies read what is there, so bits differ from run to run; {reads} reads were checked against \
                 the bound instead"
            ),
            Unverified::OnWorkers => f.write_str("a synchronous loop on workers isn't replayed; in one process it is"),
        }
    }
}
