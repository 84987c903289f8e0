//! When a checkpoint was written, and by which build.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::__private::build_hash;

/// The program that wrote a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Build {
    /// This library and its version.
    pub(super) package: String,
    /// BLAKE3 of the program's file.
    pub(super) executable: String,
    /// Processor and operating system.
    pub(super) target: String,
    /// What of the processor the library was compiled for.
    pub(super) features: Vec<String>,
}

macro_rules! compiled_for {
    ($($feature:tt)*) => {{
        let mut features: Vec<String> = Vec::new();
        $(if cfg!(target_feature = $feature) {
            features.push($feature.to_owned());
        })*
        features
    }};
}

impl Build {
    /// The running program's.
    pub(super) fn here() -> Build {
        let executable = match build_hash() {
            Ok(hash) => format!("blake3:{}", blake3::Hash::from(hash).to_hex()),
            Err(_) => "unknown".to_owned(),
        };
        Build {
            package: concat!("stradsap ", env!("CARGO_PKG_VERSION")).to_owned(),
            executable,
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            features: compiled_for!(
                "sse2" "sse3" "ssse3" "sse4.1" "sse4.2" "avx" "avx2" "fma" "bmi1" "bmi2" "f16c" "avx512f" "avx512bw"
                "avx512cd" "avx512dq" "avx512vl" "neon" "sve" "sve2" "v"
            ),
        }
    }
}

/// The time in RFC 3339, in UTC, to the second.
pub(super) fn now() -> String {
    // Humantime panics before 1970 and after 9999, where a clock that was never set may well be.
    let latest = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_seconds(SystemTime::now().clamp(UNIX_EPOCH, latest)).to_string()
}
