//! What this process logs (`STRADSAP_LOG`), and warnings, which a person sees in any case.

use stradsap_dds_server::logging;
pub(crate) use stradsap_dds_server::logging::{Logging, set_name};

use crate::session::error::{Error, Result};

/// Begins to log, as the environment says. What is given ends it.
pub(crate) fn start(name: &str) -> Result<Logging> {
    logging::start(name).map_err(|error| Error::usage(error.to_string()))
}

/// Tells a person of something that costs time and no more: in the log where there is one, otherwise on standard error.
macro_rules! warning {
    ($($text:tt)*) => {{
        let text = format!($($text)*);
        if tracing::enabled!(tracing::Level::WARN) {
            tracing::warn!("{text}");
        } else {
            eprintln!("warning: {text}");
        }
    }};
}
pub(crate) use warning;
