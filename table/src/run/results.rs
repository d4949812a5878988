//! Results beside a recording.

use std::path::{Path, PathBuf};

use super::error::RunError;
use super::paths::RunPaths;
use crate::disk;
use crate::part::write_part_as;
use crate::{EnergyWindow, Row, Simulated};

/// Writes windows as the run's `energy_windows`, in place of those of an earlier report: two reports of one stretch of
/// time side by side would count its energy twice. Returns the path, or `None` when there are no windows.
///
/// # Errors
/// When another process is just doing the same, or the disk refuses.
pub fn write_energy_windows(
    run: &Path,
    windows: Vec<EnergyWindow>,
) -> Result<Option<PathBuf>, RunError> {
    if windows.is_empty() {
        return Ok(None);
    }
    let paths = RunPaths::new(run);
    let directory = run.join(EnergyWindow::TABLE);
    disk::make_dir(&directory)?;
    let locked = RunError::Locked { path: directory.clone() };
    // The recorder's own lock does not cover results: they may be computed while it records.
    let _lock = disk::lock(&directory.join(".lock"))?.ok_or(locked)?;
    let path = paths.part::<EnergyWindow>(1);
    let simulated = Simulated::of(windows.iter().map(|window| window.simulated));
    let unfinished = paths.unfinished::<EnergyWindow>(1);
    write_part_as(unfinished, &path, windows, simulated, None)?;
    Ok(Some(path))
}
