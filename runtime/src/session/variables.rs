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
