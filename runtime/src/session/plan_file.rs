//! The blocks of a plan as a file, for simulations of it on other machines.

use std::path::Path;

use crate::files;
use crate::planner::simulate::{Measured, PlanTable};
use crate::session::error::{Error, Result};
use crate::session::report::LoopReport;

/// Writes the block table of a loop's plan as JSON.
pub(crate) fn write(report: &LoopReport, path: &Path) -> Result<()> {
    let measured =
        Measured { seconds: report.seconds_running, workers: report.workers().len(), threads: report.threads };
    let name = |capture: usize| report.site.name(capture).to_owned();
    let element = |capture: usize| report.sizes.elements.get(capture).copied().unwrap_or(0);
    let (cut_anywhere, relaxed) = (report.sizes.cut_anywhere, report.sizes.relaxed);
    let table = PlanTable::of(&report.plan, report.site(), &name, &element, cut_anywhere, (relaxed, measured));
    files::write(path, |out| serde_json::to_writer(out, &table).map_err(Into::into))
        .map_err(|source| Error::File { path: path.to_path_buf(), source })
}
