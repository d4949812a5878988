//! Asks cargo about the workspace.

use std::process::Command;

use crate::repository::root;

/// Runs cargo in the workspace and returns what it printed. Panics with its words when it fails.
pub(crate) fn cargo(args: &[&str]) -> String {
    let program = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let output = Command::new(program).args(args).current_dir(root()).output();
    let output = output.expect("cargo runs this test");
    assert!(output.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}
