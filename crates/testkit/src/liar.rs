//! A Vulkan driver with the limits of another card, or one that lies: `vulkan/liar.c` between a program and the real driver.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tempfile::TempDir;

use crate::not_run::no_layer;

const NAME: &str = "VK_LAYER_REMASTER_liar";
const SOURCE: &str = include_str!("../vulkan/liar.c");

/// The layer, as one program is to see it. The source says which lies and limits there are.
pub struct Liar {
    layer: Arc<TempDir>,
    log: PathBuf,
    lies: String,
    limits: String,
    slow: Duration,
}

/// What the layer noted of a process, when it ended or after a lie.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noted {
    /// The process.
    pub pid: u32,
    /// The last line of its process, which a process that was killed does not have.
    pub is_end: bool,
    /// Dispatches recorded.
    pub dispatches: usize,
    /// Copies between buffers recorded.
    pub copies: usize,
    /// Submissions.
    pub submits: usize,
    /// Allocations of memory.
    pub allocations: usize,
    /// Kernels of products compiled.
    pub products: usize,
    /// Lies told so far, as they were asked for.
    pub told: Vec<String>,
}

impl Liar {
    /// A layer that tells the truth. `None` where it cannot be compiled, after saying that `test` was not run.
    pub fn new(test: &str) -> Option<Self> {
        static LOGS: AtomicUsize = AtomicUsize::new(0);
        let layer = built().or_else(|| {
            no_layer(test);
            None
        })?;
        let log = layer.path().join(format!("log-{}", LOGS.fetch_add(1, Relaxed)));
        Some(Liar {
            layer,
            log,
            lies: String::new(),
            limits: String::new(),
            slow: Duration::from_millis(200),
        })
    }

    /// Lies, such as `drop-dispatch@17,slow@30`.
    pub fn lies(mut self, lies: &str) -> Self {
        lies.clone_into(&mut self.lies);
        self
    }

    /// Limits below those of the driver, such as `shared=16384,f16=0`.
    pub fn limits(mut self, limits: &str) -> Self {
        limits.clone_into(&mut self.limits);
        self
    }

    /// How long each submission takes after the lie `slow`.
    pub fn slow(mut self, time: Duration) -> Self {
        self.slow = time;
        self
    }

    /// The environment of a program that is to see it.
    pub fn env(&self) -> [(&'static str, OsString); 6] {
        [
            ("VK_LAYER_PATH", self.layer.path().into()),
            ("VK_INSTANCE_LAYERS", NAME.into()),
            ("LIAR", self.lies.clone().into()),
            ("LIAR_LIMITS", self.limits.clone().into()),
            ("LIAR_SLOW_MS", self.slow.as_millis().to_string().into()),
            ("LIAR_LOG", self.log.clone().into()),
        ]
    }

    /// What it noted of all processes that had this environment, in the order of time.
    pub fn log(&self) -> Vec<Noted> {
        std::fs::read_to_string(&self.log).unwrap_or_default().lines().map(noted).collect()
    }

    /// The process that submitted most, when it was last heard of.
    pub fn busiest(&self) -> Noted {
        self.log().into_iter().max_by_key(|noted| noted.submits).unwrap_or_default()
    }

    /// Lies that were told.
    pub fn told(&self) -> Vec<String> {
        self.log().pop().map(|noted| noted.told).unwrap_or_default()
    }
}

/// The folder of the layer. All that live share one.
fn built() -> Option<Arc<TempDir>> {
    static BUILT: Mutex<Weak<TempDir>> = Mutex::new(Weak::new());
    let mut kept = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = match kept.upgrade() {
        Some(folder) => folder,
        None => Arc::new(build()?),
    };
    *kept = Arc::downgrade(&folder);
    Some(folder)
}

fn build() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let [source, library] = ["liar.c", "libliar.so"].map(|name| folder.path().join(name));
    std::fs::write(&source, SOURCE).unwrap();
    let mut cc = Command::new("cc");
    cc.args("-std=c11 -Wall -Wextra -O1 -shared -fPIC -fvisibility=hidden -Wl,-z,nodelete -o".split(' '));
    let made = cc.arg(&library).arg(&source).arg("-lpthread").status();
    std::fs::write(folder.path().join("liar.json"), manifest(&library)).unwrap();
    made.is_ok_and(|status| status.success()).then_some(folder)
}

fn manifest(library: &Path) -> String {
    format!(
        r#"{{ "file_format_version": "1.2.0", "layer": {{ "name": "{NAME}", "type": "GLOBAL", "library_path": "{}",
            "api_version": "1.3.239", "implementation_version": "1", "description": "limits and lies for tests" }} }}"#,
        library.display()
    )
}

fn noted(line: &str) -> Noted {
    let mut noted = Noted::default();
    for (name, value) in line.split(' ').filter_map(|word| word.split_once('=')) {
        let number = || value.parse().unwrap();
        match name {
            "pid" => noted.pid = value.parse().unwrap(),
            "event" => noted.is_end = value == "end",
            "dispatches" => noted.dispatches = number(),
            "copies" => noted.copies = number(),
            "submits" => noted.submits = number(),
            "allocations" => noted.allocations = number(),
            "products" => noted.products = number(),
            _ => noted.told = value.split(',').filter(|lie| !lie.is_empty()).map(str::to_owned).collect(),
        }
    }
    noted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_is_read() {
        let line =
            "pid=7 event=lie dispatches=115 copies=34 submits=13 allocations=8 products=2 told=slow@3,lose@7";
        let told = vec!["slow@3".to_owned(), "lose@7".to_owned()];
        let (dispatches, copies, submits, allocations, products) = (115, 34, 13, 8, 2);
        let expected =
            Noted { pid: 7, is_end: false, dispatches, copies, submits, allocations, products, told };
        assert_eq!(noted(line), expected);
        assert_eq!(
            noted("pid=7 event=end dispatches=0 told="),
            Noted { pid: 7, is_end: true, ..Noted::default() }
        );
    }
}
