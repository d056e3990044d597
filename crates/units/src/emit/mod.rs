//! Jobs for the schedulers of others, as text: `unit run` over all units, then `assemble`, and nothing else of ours.
//!
//! Every word may hold any character. It reaches `remaster` unchanged, through whatever quoting the format needs.

mod k8s;
mod openjd;
mod quote;
mod shell;
mod slurm;
#[cfg(all(test, unix))]
mod tests;

/// Whose job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Open Job Description: AWS Deadline Cloud, and `openjd run` on one machine
    Openjd,
    /// A script that submits an array job to Slurm
    Slurm,
    /// An Indexed Job of Kubernetes
    K8s,
    /// A script for one machine, or several over ssh
    Shell,
}

/// What a job needs to know about a plan.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// For people: it is shown by the scheduler, shortened and without odd characters.
    pub name: String,
    /// The place of the plan, a whole path or a URL, as the workers see it.
    pub plan: String,
    /// How many units the plan has.
    pub units: u32,
    /// Units of a task. A scheduler with a limit on tasks gets more of them where needed.
    pub chunk: u32,
    /// Tasks at the same time. Without it Slurm decides alone, Kubernetes runs 8 and a shell one.
    pub workers: Option<u32>,
    /// The source, a whole path, as the workers see it.
    pub input: Option<String>,
    /// The film, a whole path, if it is another than the plan says.
    pub output: Option<String>,
    /// Whether a task needs a GPU.
    pub gpu: bool,
    /// What a task may use by `--ram`, in bytes. The scheduler is asked for more.
    pub ram: Option<u64>,
    /// Cores of a task.
    pub cores: Option<u32>,
    /// The container image with `remaster` and ffmpeg, for Kubernetes.
    pub image: Option<String>,
    /// The queue of Kueue, for Kubernetes.
    pub queue: Option<String>,
    /// The Secret whose entries become variables of the workers, for Kubernetes.
    pub secret: Option<String>,
    /// Extra arguments of `unit run`, such as `--device cpu`.
    pub unit_words: Vec<String>,
    /// Further words for `assemble`.
    pub assemble_words: Vec<String>,
}

/// A ready job. Its first lines say how to start it.
pub fn job(kind: Kind, job: &Job) -> String {
    match kind {
        Kind::Openjd => openjd::job(job),
        Kind::Slurm => slurm::job(job),
        Kind::K8s => k8s::job(job),
        Kind::Shell => shell::job(job),
    }
}

/// Exit codes that mean the same on every machine: wrong usage, a damaged file, a bug. Trying again is no use.
const FINAL: [u8; 3] = [2, 6, 101];

/// Units divided into tasks.
struct Tasks {
    chunk: u32,
    count: u32,
}

impl Job {
    /// Tasks of `chunk` units, or of more if they would be more than `most`.
    fn tasks(&self, most: u32) -> Tasks {
        let units = self.units.max(1);
        let chunk = self.chunk.max(units.div_ceil(most)).clamp(1, units);
        Tasks { chunk, count: units.div_ceil(chunk) }
    }

    /// The last unit.
    fn last(&self) -> u32 {
        self.units.max(1) - 1
    }

    /// `--ram` of a task in MiB, rounded up.
    fn ram(&self) -> Option<u64> {
        self.ram.map(|bytes| bytes.div_ceil(1 << 20).max(1))
    }

    /// The limit that a scheduler is asked for, in MiB: a tenth and 128 MiB above `--ram`. What the system keeps for a group
    /// of processes counts there, too: tables of pages, pipes, and pages of files that are being written.
    fn mebibytes(&self) -> Option<u64> {
        self.ram().map(|ram| ram + ram / 10 + 128)
    }

    /// `remaster unit run` without its units.
    fn unit_command(&self) -> Vec<String> {
        let mut words: Vec<String> = ["remaster", "unit", "run"].map(str::to_owned).into();
        words.extend(self.unit_options());
        words
    }

    /// The words behind `unit run`. Values are joined with `=`, so that they may start with a dash.
    fn unit_options(&self) -> Vec<String> {
        let mut words = vec![format!("--plan={}", self.plan)];
        words.extend(self.input.iter().map(|input| format!("--input={input}")));
        words.extend(self.own_unit_words());
        words
    }

    /// `--ram` and the extra arguments of `unit run`.
    fn own_unit_words(&self) -> Vec<String> {
        let ram = self.ram().map(|ram| format!("--ram={ram}M"));
        ram.into_iter().chain(self.unit_words.iter().cloned()).collect()
    }

    /// `remaster assemble`. A job that is run again writes the same film again, so it may replace it.
    fn assemble_command(&self) -> Vec<String> {
        let mut words: Vec<String> = ["remaster", "assemble"].map(str::to_owned).into();
        words.push(format!("--plan={}", self.plan));
        words.extend(self.input.iter().map(|input| format!("--input={input}")));
        words.extend(self.output.iter().map(|output| format!("--output={output}")));
        words.push("-y".to_owned());
        words.extend(self.assemble_words.iter().cloned());
        words
    }
}
