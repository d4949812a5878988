//! A text file that gets a line now and then: a whole one, under a header, or none.

use std::path::Path;

use crate::disk::{self, DiskError, GrowingFile};
use crate::samples_csv::whole_lines;

/// Appends a line to a file of lines, which is made with its header if there is none, and makes it durable. A torn last
/// line, as a crash leaves it, is cut first: with a line behind it, it would pass for a whole one. Returns its bytes.
///
/// # Errors
/// When the path is a link, or the disk refuses. Nothing of the line stays then.
pub fn append_line(path: &Path, header: &str, line: &str) -> Result<u64, DiskError> {
    let mut file = GrowingFile::open(path)?;
    let whole = whole_lines(file.file()).map_err(disk::at("read", path))?;
    let torn = file.len() - whole;
    if torn > 0 {
        file.cut(whole)?;
    }
    let lines = if whole == 0 { format!("{header}\n{line}\n") } else { format!("{line}\n") };
    file.append(lines.as_bytes())?;
    file.sync()?;
    Ok(torn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use tempfile::tempdir;

    #[test]
    fn a_line_is_whole_whatever_was_there() {
        let cases = [
            ("", "name\nx\n", 0),
            ("na", "name\nx\n", 2),
            ("name\n", "name\nx\n", 0),
            ("name\na\nb", "name\na\nx\n", 1),
            ("name\r\na\r\n", "name\r\na\r\nx\n", 0),
        ];
        let directory = tempdir().unwrap();
        for (before, after, torn) in cases {
            let path = directory.path().join("lines");
            fs::write(&path, before).unwrap();
            assert_eq!(append_line(&path, "name", "x").unwrap(), torn, "{before:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), after, "{before:?}");
        }
    }

    #[test]
    fn a_link_is_refused() {
        let directory = tempdir().unwrap();
        let (victim, link) = (directory.path().join("victim"), directory.path().join("link"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        let error = append_line(&link, "name", "x").unwrap_err().to_string();
        assert!(error.ends_with("link: found a link, expected a plain file"), "{error}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }
}
