//! Folders.

use std::path::{Path, PathBuf};

/// A folder where nothing stands yet; removed with everything in it.
pub(crate) struct Fresh(PathBuf);

impl Fresh {
    pub(crate) fn new(base: &Path) -> Self {
        let path = base.join(format!("run-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder to work in");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
