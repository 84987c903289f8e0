//! Variables of the environment that nothing reads, since their names are misspelt.

use std::sync::Once;

use crate::session::logging::warning;

const PREFIX: &str = "STRADSAP_";

/// All that the library reads, without their prefix. `LONG`, `SEED` and `SEEDS` are of its
/// tests, and near to others.
const KNOWN: [&str; 36] = [
    "ADVERTISE",
    "ATTEMPTS",
    "BIND",
    "BUILD",
    "DDS_SERVER",
    "DDS_SERVERS",
    "DRIVER_MEMORY",
    "DRIVER_PAUSE",
    "ENCRYPT",
    "EXPLAIN",
    "GENERATION",
    "HOME",
    "INDEX",
    "JOB",
    "JOIN",
    "JOINED_AGAIN",
    "LISTEN",
    "LOG",
    "LONG",
    "MEMORY",
    "RENDEZVOUS",
    "ROLE",
    "SECRET",
    "SECRET_FILE",
    "SEED",
    "SEEDS",
    "SHOW",
    "SIZE",
    "SLOW_BODY",
    "SNAPSHOT_EVERY",
    "SPILL",
    "STACK_SIZE",
    "THREADS",
    "TRACE",
    "VERIFY",
    "WORKERS",
];

/// Warns once of each variable whose name is nearly that of one that the library reads. Processes that a driver starts have its
/// environment, of which it has warned.
pub(super) fn warn_of_misspelt() {
    static ONCE: Once = Once::new();
    if std::env::var_os("STRADSAP_GENERATION").is_some() {
        return;
    }
    ONCE.call_once(|| {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for (name, meant) in names.filter_map(|name| meant(&name).map(|meant| (name, meant))) {
            warning!("{name} is not a variable of stradsap, and is ignored: did you mean {PREFIX}{meant}?");
        }
    });
}

/// The variable that an unknown one is probably meant for.
fn meant(name: &str) -> Option<&'static str> {
    let given = name.strip_prefix(PREFIX)?;
    // A short word is near to many.
    let allowed = if given.len() < 6 { 1 } else { 2 };
    let distance = |known: &str| strsim::osa_distance(given, known);
    let nearest = KNOWN.into_iter().min_by_key(|known| distance(known))?;
    (1..=allowed).contains(&distance(nearest)).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Session, locked};

    const INSIDE: &str = "STRADSAP_TEST_ENVIRONMENT";

    /// What a session of another process says under these variables.
    #[track_caller]
    fn under(variables: &[(&str, &str)]) -> String {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "session::variables::tests::sessions_read_the_environment", "--nocapture"]);
        let ended =
            child.env(INSIDE, "1").env("STRADSAP_THREADS", "1").envs(variables.iter().copied()).output().unwrap();
        assert!(ended.status.success());
        String::from_utf8(ended.stderr).unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn sessions_read_the_environment() {
        if std::env::var_os(INSIDE).is_some() {
            for _ in 0..2 {
                match Session::new() {
                    Ok(session) => eprintln!("{:?}", locked(&session.inner.spill).as_ref().map(|spill| spill.limit())),
                    Err(error) => eprintln!("{error}"),
                }
            }
            return;
        }
        let said = under(&[("STRADSAP_TREADS", "2"), ("STRADSAP_LONG", "1"), ("STRADSAP_OWN", "1")]);
        let warning =
            "warning: STRADSAP_TREADS is not a variable of stradsap, and is ignored: did you mean STRADSAP_THREADS?";
        assert_eq!(said, format!("{warning}\nNone\nNone\n"));
        assert_eq!(under(&[("STRADSAP_TREADS", "2"), ("STRADSAP_GENERATION", "0")]), "None\nNone\n");
        let said = under(&[("STRADSAP_EXPLAIN", "yes")]);
        assert!(said.starts_with("STRADSAP_EXPLAIN=yes: 0, 1, false or true was expected\n"), "{said}");
        let said = under(&[("STRADSAP_MEMORY", "much")]);
        assert!(
            said.starts_with("STRADSAP_MEMORY=much: a number of bytes such as 2GiB or 500MB was expected"),
            "{said}"
        );
        if cfg!(target_os = "linux") {
            let folder = std::env::current_exe().unwrap();
            let folder = folder.parent().and_then(|folder| folder.to_str()).unwrap();
            let said = under(&[("STRADSAP_MEMORY", "2GiB"), ("STRADSAP_SPILL", folder)]);
            assert_eq!(said, "Some(2147483648)\nSome(2147483648)\n");
        }
    }

    #[test]
    fn slips_are_near_to_a_known_name() {
        assert_eq!(meant("STRADSAP_TREADS"), Some("THREADS"));
        assert_eq!(meant("STRADSAP_WORKER"), Some("WORKERS"));
        assert_eq!(meant("STRADSAP_STACKSIZE"), Some("STACK_SIZE"));
        assert_eq!(meant("STRADSAP_LGO"), Some("LOG"));
        for known in KNOWN {
            assert_eq!(meant(&format!("{PREFIX}{known}")), None);
        }
    }

    #[test]
    fn others_are_a_programs_own() {
        let tests = "DIGESTS EPOCH FROM MEASURE ML REGENERATE ROUNDS TARGET TESTS_CHILD TEST_EPOCHS TEST_MEMORY TEST_PAUSE \
                     TEST_SCENARIOS TEST_SETS";
        for own in tests.split(' ') {
            assert_eq!(meant(&format!("{PREFIX}{own}")), None, "{own}");
        }
        assert_eq!((meant("TREADS"), meant("PATH")), (None, None));
    }
}
