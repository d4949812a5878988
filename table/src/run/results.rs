//! Results beside a recording.

use std::path::{Path, PathBuf};

use super::error::RunError;
use super::paths::RunPaths;
use crate::disk;
use crate::part::write_part_as;
use crate::{EnergyWindow, Row, Simulated};

/// Writes windows as the next part of the run's `energy_windows`. Returns its path, or `None` when there are none.
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
    let number = paths.parts::<EnergyWindow>()?.last().copied().unwrap_or(0) + 1;
    let path = paths.part::<EnergyWindow>(number);
    let simulated = Simulated::of(windows.iter().map(|window| window.simulated));
    let unfinished = paths.unfinished::<EnergyWindow>(number);
    write_part_as(unfinished, &path, windows, simulated)?;
    Ok(Some(path))
}
