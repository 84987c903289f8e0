//! Where the files lie that properties read and write, and what errors about them must be like.

use std::path::{Path, PathBuf};

use stradsap::{Error, Session};
use tempfile::TempDir;

/// A session of one thread, and a folder in memory where there is one.
pub(crate) struct Place {
    pub(crate) session: Session,
    folder: TempDir,
}

thread_local! {
    static PLACE: Place = Place {
        session: Session::builder().threads(1).build().expect("a session"),
        folder: tempfile::Builder::new()
            .prefix("stradsap-fuzz-")
            .tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .expect("a folder"),
    };
}

pub(crate) fn place<R>(f: impl FnOnce(&Place) -> R) -> R {
    PLACE.with(f)
}

impl Place {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file in memory");
        path
    }
}

/// An error is about a place that there is, in one line. `text` is the file's, where lines are counted in it.
pub(crate) fn located(error: &Error, file: &Path, text: Option<&[u8]>) {
    one_line(error);
    let Error::Input { path, line, column, .. } = error else { panic!("no place is named: {error:?}") };
    assert_eq!(path, file);
    let Some(text) = text else { return assert_eq!((*line, *column), (1, None)) };
    let found = text.split(|byte| *byte == b'\n').nth(usize::try_from(*line).expect("a line") - 1);
    let Some(found) = found else { panic!("there is no such line: {error}") };
    let column = column.expect("a column");
    assert!(1 <= column && column <= found.len() as u64 + 1, "there is no such column: {error}");
}

/// An error about a whole file.
pub(crate) fn of_a_file(error: &Error) {
    one_line(error);
    assert!(matches!(error, Error::File { .. }), "{error:?}");
}

fn one_line(error: &Error) {
    let text = error.to_string();
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert!(text.len() < 3000, "{} bytes: {text}", text.len());
}
