//! Where a test can end the process.
//!
//! All operations on files that are kept go through [`counted`], which calls a watcher before and after each. A watcher that
//! ends the process at the n-th call shows what a kill at that moment leaves. Builds without debug assertions have neither
//! watchers nor calls.

use std::ffi::OsStr;
use std::path::Path;

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// It is created, empty.
    Create,
    /// Bytes are written to it.
    Write,
    /// It, or the folder's list of names, is flushed to the disk.
    Sync,
    /// It gets its final name.
    Rename,
    /// It is removed.
    Remove,
    /// A folder is made.
    MakeFolder,
    /// An empty folder is removed.
    RemoveFolder,
}

/// A moment at which the process may end.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// The operation.
    pub op: Op,
    /// It is done already.
    pub after: bool,
    /// The folder.
    pub folder: &'a Path,
    /// The name in it.
    pub name: &'a OsStr,
}

#[cfg(debug_assertions)]
type Watcher = Box<dyn Fn(Point<'_>) + Send + Sync>;

#[cfg(debug_assertions)]
static WATCHER: std::sync::OnceLock<Watcher> = std::sync::OnceLock::new();

/// Calls `watcher` before and after each operation from now on. The first one of a process stays.
#[cfg(debug_assertions)]
pub fn watch(watcher: impl Fn(Point<'_>) + Send + Sync + 'static) {
    let _ = WATCHER.set(Box::new(watcher));
}

/// Does one operation between two points.
pub fn counted<T>(op: Op, folder: &Path, name: &OsStr, work: impl FnOnce() -> T) -> T {
    point(Point { op, after: false, folder, name });
    let done = work();
    point(Point { op, after: true, folder, name });
    done
}

fn point(point: Point<'_>) {
    #[cfg(debug_assertions)]
    if let Some(watcher) = WATCHER.get() {
        watcher(point);
    }
    #[cfg(not(debug_assertions))]
    let _ = point;
}
