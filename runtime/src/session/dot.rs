//! The order of blocks as a picture, in the DOT language.

use std::path::Path;

use crate::files;
use crate::session::error::{Error, Result};
use crate::session::report::LoopReport;

/// Writes the conflict graph of a plan's blocks.
pub(crate) fn write(report: &LoopReport, path: &Path) -> Result<()> {
    let text = report.plan.dot(&|capture| report.site.name(capture));
    files::write(path, |out| out.write_all(text.as_bytes()))
        .map_err(|source| Error::File { path: path.to_path_buf(), source })
}
