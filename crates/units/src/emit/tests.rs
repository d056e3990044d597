//! The jobs are run, with programs that only write down how they were called.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use remaster_testkit::says;

use super::quote;
use super::{Job, Kind, job};

/// Names that break careless quoting.
const HOSTILE: [&str; 17] = [
    "/films/plain",
    "/films/a b  c",
    "/films/it's \"quoted\"",
    "/films/$HOME/$(touch pwned)/`touch pwned`/${x}/$$",
    "-y --help",
    "--",
    "/films/back\\slash\\n\\'end\\",
    "/films/new\nline\nEOF\n#SBATCH --wrap=x\n---\n",
    "/films/\ttab\r\ncarriage \u{1}\u{7f}\u{85}\u{2028}\u{feff}",
    "/films/Amélie 映画 🎬 \u{301}",
    "/films/*?[a-z]{1,2}~!# : - & ; | < > %s %20",
    "~/film",
    "{{Param.Plan}} {{ }} {x} }}",
    "/films/'; exit 0; '",
    "[1, 2]",
    "null",
    " leading and trailing ",
];

/// A folder with programs that record their words, and the words.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Bench { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(bench.path("bin")).unwrap();
        fs::create_dir(bench.path("calls")).unwrap();
        // Named by the time and the process, so that the calls can be read in order.
        bench.program(
            "remaster",
            "#!/bin/bash\ncall=$CALLS/$(date +%s%N)-$$\nprintf '%s\\0' \"$@\" >\"$call.part\"\nmv \"$call.part\" \"$call\"\n\
             if [ \"$1\" = unit ] && [ -n \"${FAILS:-}\" ] && [ \"$(ls \"$CALLS\" | wc -l)\" -le \"$FAILS\" ]; then exit \"${CODE:-5}\"; fi\n",
        );
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        remaster_testkit::program(&self.path("bin").join(name), text);
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// A command that finds our programs first.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("PATH", path).env("CALLS", self.path("calls"));
        for name in ["HOSTS", "WORKERS", "FAILS", "CODE"] {
            command.env_remove(name);
        }
        command
    }

    fn bash(&self, script: &Path) -> Command {
        let mut command = self.command("bash");
        command.arg(script);
        command
    }

    /// What `remaster` was called with, in order.
    fn calls(&self) -> Vec<Vec<String>> {
        let mut files: Vec<PathBuf> =
            fs::read_dir(self.path("calls")).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let words = |file: PathBuf| {
            let text = String::from_utf8(fs::read(&file).unwrap()).unwrap();
            fs::remove_file(file).unwrap();
            text.split_terminator('\0').map(str::to_owned).collect()
        };
        let calls = files.into_iter().map(words).collect();
        assert!(!self.path("pwned").exists(), "a name was run");
        calls
    }
}

fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{said}{errors}");
    output
}

fn film(name: &str) -> Job {
    let unit_words = vec!["--device".into(), "cpu".into(), format!("--temp={name}"), name.into()];
    let (input, output) = (Some(name.into()), Some(name.into()));
    let job = Job { name: name.into(), plan: name.into(), input, output, ..Job::default() };
    Job { units: 10, chunk: 4, unit_words, ..job }
}

/// Every unit was in exactly one task with the right words, and the assembly came last.
fn check(calls: &[Vec<String>], job: &Job) {
    let (assemble, units) = calls.split_last().unwrap();
    let plan = format!("--plan={}", job.plan);
    let input = job.input.as_ref().map(|input| format!("--input={input}"));
    let mut expected = vec!["assemble".to_owned(), plan.clone()];
    expected.extend(input.clone());
    expected.extend(job.output.as_ref().map(|output| format!("--output={output}")));
    expected.push("-y".into());
    expected.extend(job.assemble_words.iter().cloned());
    assert_eq!(*assemble, expected);

    let mut done = Vec::new();
    for call in units {
        let is_index = |word: &&String| word.starts_with("--index=");
        let index = call.iter().find(is_index).unwrap();
        let rest: Vec<&String> = call.iter().filter(|word| !is_index(word)).collect();
        let mut expected = vec!["unit".to_owned(), "run".into(), plan.clone()];
        expected.extend(input.clone());
        expected.extend(job.ram.map(|bytes| format!("--ram={}M", bytes.div_ceil(1 << 20))));
        expected.extend(job.unit_words.iter().cloned());
        assert_eq!(rest, expected.iter().collect::<Vec<_>>());
        let (first, last) = index["--index=".len()..].split_once('-').unwrap();
        done.extend(first.parse::<u32>().unwrap()..=last.parse().unwrap());
    }
    done.sort_unstable();
    assert_eq!(done, (0..job.units).collect::<Vec<_>>());
}

/// An `sbatch` that runs the job at once, and writes down its own words.
const SBATCH: &str = r#"#!/bin/bash
printf '%s\n' "$*" >>"$CALLS/../sbatch"
first=0 last=0
while [ "${1:0:1}" = - ]; do
  case $1 in --array=*) array=${1#--array=}; array=${array%%%*}; first=${array%-*} last=${array#*-} ;; esac
  shift
done
for ((n = first; n <= last; n++)); do
  for ((restarts = 0; ; restarts++)); do
    rm -f "$CALLS/../again"
    SLURM_ARRAY_TASK_ID=$n SLURM_ARRAY_JOB_ID=77 SLURM_RESTART_COUNT=$restarts bash "$@" >&2
    code=$?
    [ -f "$CALLS/../again" ] || break
  done
  [ $code = 0 ] || echo $code >>"$CALLS/../failed"
done
echo "77;cluster"
"#;

/// An `scontrol requeue` that ends the script, as Slurm does.
const SCONTROL: &str = "#!/bin/bash\n[ \"$*\" = \"requeue 77_$SLURM_ARRAY_TASK_ID\" ] || exit 9\ntouch \"$CALLS/../again\"\nkill -KILL $PPID\n";

fn slurm() -> Bench {
    let bench = Bench::new();
    bench.program("sbatch", SBATCH);
    bench.program("scontrol", SCONTROL);
    bench
}

#[test]
fn every_script_is_correct_bash_and_starts_with_how_to_start_it() {
    let bench = Bench::new();
    for name in HOSTILE {
        for (kind, word) in [(Kind::Shell, "bash FILE"), (Kind::Slurm, "bash FILE")] {
            let text = job(kind, &film(name));
            let script = bench.write("job.sh", &text);
            ran(Command::new("bash").arg("-n").arg(script));
            assert!(text.lines().nth(1).unwrap().contains(word), "{text}");
        }
        assert!(job(Kind::Openjd, &film(name)).starts_with("# Start: openjd run"));
        assert!(job(Kind::K8s, &film(name)).starts_with("# Start: kubectl create"));
    }
}

#[test]
fn a_shell_runs_every_unit_then_assembles_whatever_the_names_are() {
    let bench = Bench::new();
    for name in HOSTILE {
        let film = film(name);
        let script = bench.write("job.sh", &job(Kind::Shell, &film));
        ran(bench.bash(&script).env("WORKERS", "3"));
        check(&bench.calls(), &film);
    }
}

#[test]
fn a_shell_sends_the_same_words_over_ssh_to_all_hosts() {
    let bench = Bench::new();
    // What sshd does with the words: a shell reads them once more.
    bench.program(
        "ssh",
        "#!/bin/bash\nwhile [ \"$1\" != -- ]; do shift; done\necho \"$2\" >>\"$CALLS/../hosts\"\nsleep 0.05\nexec sh -c \"${*:3}\"\n",
    );
    for name in HOSTILE {
        let film = Job { chunk: 1, ..film(name) };
        let script = bench.write("job.sh", &job(Kind::Shell, &film));
        ran(bench.bash(&script).env("HOSTS", "one two three"));
        check(&bench.calls(), &film);
    }
    let hosts = fs::read_to_string(bench.path("hosts")).unwrap();
    assert_eq!(hosts.lines().collect::<BTreeSet<_>>(), BTreeSet::from(["one", "two", "three"]));
}

#[test]
fn a_shell_tries_failed_units_again_and_gives_up_on_wrong_words() {
    let bench = Bench::new();
    let script = bench.write("job.sh", &job(Kind::Shell, &film("/plan")));
    ran(bench.bash(&script).env("FAILS", "2"));
    let calls = bench.calls();
    assert_eq!(calls.len(), 3 + 3 + 1, "{calls:?}");
    let output = bench.bash(&script).env("FAILS", "99").output().unwrap();
    assert_eq!((output.status.code(), bench.calls().len()), (Some(1), 9));
    let output = bench.bash(&script).env("FAILS", "99").env("CODE", "2").output().unwrap();
    assert_eq!((output.status.code(), bench.calls().len()), (Some(2), 1));
}

#[test]
fn a_shell_goes_on_without_hosts_that_are_gone() {
    let bench = Bench::new();
    bench.program(
        "ssh",
        "#!/bin/bash\nwhile [ \"$1\" != -- ]; do shift; done\n[ \"$2\" = here ] || exit 255\nsleep 0.05\nexec sh -c \"${*:3}\"\n",
    );
    let film = Job { chunk: 1, ..film("/plan") };
    let script = bench.write("job.sh", &job(Kind::Shell, &film));
    let said = ran(bench.bash(&script).env("HOSTS", "gone here lost").env("SSH_PAUSE", "0"));
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("gone is out of reach") && said.contains("lost is out of reach"), "{said}");
    let calls = bench.calls();
    let indices: BTreeSet<&String> =
        calls.iter().flatten().filter(|word| word.starts_with("--index=")).collect();
    assert_eq!((indices.len(), calls.last().unwrap()[0].as_str()), (10, "assemble"));
    let output = bench.bash(&script).env("HOSTS", "gone lost").env("SSH_PAUSE", "0").output().unwrap();
    assert_eq!((output.status.code(), bench.calls().len()), (Some(1), 0));
}

#[test]
fn slurm_gets_an_array_and_an_assembly_behind_it() {
    let bench = slurm();
    for name in HOSTILE {
        let film =
            Job { gpu: true, ram: Some((8 << 30) + 1), cores: Some(4), workers: Some(20), ..film(name) };
        let script = bench.write("job.sh", &job(Kind::Slurm, &film));
        let said = ran(bench.bash(&script).args(["--partition=gpu", "--comment=two words"]));
        assert_eq!(said.stdout, b"submitted: units in job 77, assembly in job 77\n");
        check(&bench.calls(), &film);
        let submitted = fs::read_to_string(bench.path("sbatch")).unwrap();
        fs::remove_file(bench.path("sbatch")).unwrap();
        let [array, assembly] = submitted.lines().collect::<Vec<_>>()[..] else { panic!("{submitted}") };
        let words =
            ["--array=0-2%20", "--requeue", "--gres=gpu:1", "--mem=9140M", "--cpus-per-task=4", "gpu"];
        says(array, &words);
        says(assembly, &["--dependency=afterok:77 ", "--kill-on-invalid-dep=yes", "--partition=gpu"]);
        assert!(!assembly.contains("gres"), "{assembly}");
    }
    assert!(!bench.path("failed").exists());
}

#[test]
fn slurm_queues_failed_tasks_again_but_not_those_that_fail_everywhere() {
    let bench = slurm();
    let script = bench.write("job.sh", &job(Kind::Slurm, &film("/plan")));
    ran(bench.bash(&script).env("FAILS", "3"));
    assert_eq!(bench.calls().len(), 3 + 3 + 1);
    assert!(!bench.path("failed").exists());
    ran(bench.bash(&script).env("FAILS", "1").env("CODE", "2"));
    assert_eq!(bench.calls().len(), 3 + 1);
    assert_eq!(fs::read_to_string(bench.path("failed")).unwrap(), "2\n");
    // Somebody cancelled it: it must not come back.
    ran(bench.bash(&script).env("FAILS", "1").env("CODE", "130"));
    assert_eq!(bench.calls().len(), 3 + 1);
}

#[test]
fn slurm_tells_the_program_before_the_time_limit_and_queues_the_task_again() {
    let bench = slurm();
    // It ends with 130 when told to, as ours does.
    bench.program(
        "remaster",
        "#!/bin/bash\ntrap 'touch \"$CALLS/../told\"; exit 130' TERM\ntouch \"$CALLS/../runs\"\nfor n in {1..200}; do sleep 0.05; done\n",
    );
    let script = bench.write("job.sh", &job(Kind::Slurm, &film("/plan")));
    let mut task = bench
        .bash(&script)
        .arg("remaster-restore")
        .envs([("SLURM_ARRAY_TASK_ID", "0"), ("SLURM_ARRAY_JOB_ID", "77")])
        .spawn()
        .unwrap();
    while !bench.path("runs").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    ran(Command::new("kill").args(["-USR1", &task.id().to_string()]));
    assert!(!task.wait().unwrap().success());
    assert!(bench.path("told").exists() && bench.path("again").exists());
}

#[test]
fn arrays_stay_below_the_usual_limits() {
    let cases = [(1, 1, 1000), (1000, 1, 1000), (1001, 1, 1000), (2800, 1, 1000), (10, 50, 1000)];
    for (units, chunk, most) in cases {
        let job = Job { units, chunk, ..Job::default() };
        let tasks = job.tasks(most);
        assert!(tasks.count <= most && tasks.chunk >= 1 && tasks.chunk <= units);
        let filled = tasks.count * tasks.chunk >= units && (tasks.count - 1) * tasks.chunk < units;
        assert!(filled, "no empty task");
    }
    let long = Job { units: 2800, chunk: 1, ..film("/plan") };
    assert!(job(Kind::Slurm, &long).contains("--array=0-933 "));
    assert!(job(Kind::Slurm, &Job { units: 0, chunk: 0, ..film("/plan") }).contains("--array=0-0 "));
}

#[test]
fn requirements_are_named_only_when_there_are_some() {
    for kind in [Kind::Openjd, Kind::Slurm, Kind::K8s, Kind::Shell] {
        let none = job(kind, &film("/plan"));
        assert!(!none.contains("gpu:") && !none.contains("worker.") && !none.contains("resources"), "{none}");
    }
    let needs = Job { gpu: true, ram: Some(1), cores: Some(2), ..film("/plan") };
    let text = job(Kind::Openjd, &needs);
    let words =
        ["amount.worker.gpu, min: 1", "amount.worker.memory, min: 129}", "amount.worker.vcpu, min: 2"];
    says(&text, &words);
    let text = job(Kind::K8s, &needs);
    says(&text, &["limits: {memory: 129Mi, nvidia.com/gpu: 1}", "requests: {memory: 129Mi, cpu: 2}"]);
    assert_eq!(text.matches("nvidia").count(), 1, "the assembly needs no GPU");
    // Vulkan in a container needs it, and the units alone.
    let capabilities = "NVIDIA_DRIVER_CAPABILITIES, value: \"compute,graphics,utility,video\"";
    assert_eq!(text.matches(capabilities).count(), 1, "{text}");
    assert!(!text.contains("kueue"), "{text}");
    // The assembly job stays suspended until it is started by hand; Kueue would start it.
    let queued = job(Kind::K8s, &Job { queue: Some("films".into()), ..needs });
    assert_eq!(queued.matches("labels: {kueue.x-k8s.io/queue-name: \"films\"}").count(), 1, "{queued}");
}

#[test]
fn paths_reach_both_steps_of_openjd_as_strings() {
    let text = job(Kind::Openjd, &film("/films/a.mkv"));
    assert_eq!(text.matches("--input={{Param.Input}}").count(), 2, "{text}");
    for name in ["Plan", "Input", "Output"] {
        says(&text, &[&format!("{{name: {name}, type: STRING, default: \"/films/a.mkv\"}}")]);
    }
    assert!(!text.contains("PATH"), "a whole path is no default of a PATH: {text}");
}

#[test]
fn a_bucket_gets_its_credentials_and_a_folder_is_mounted() {
    let bucket = job(Kind::K8s, &Job { plan: "s3://films/a".into(), input: None, output: None, ..film("a") });
    says(&bucket, &["\"remaster-store\", optional: true"]);
    assert!(!bucket.contains("hostPath"), "{bucket}");
    let named =
        job(Kind::K8s, &Job { secret: Some("mine".into()), image: Some("hub/r:1".into()), ..film("/a/b") });
    assert!(named.contains("name: \"mine\"") && named.contains("image: \"hub/r:1\""), "{named}");
    let folder = job(Kind::K8s, &Job { plan: "file:///films/a%20b/".into(), ..film("/films/in.mkv") });
    assert!(!folder.contains("secretRef"), "{folder}");
    for path in ["{path: \"/films/a b\"}", "{path: \"/films\"}"] {
        assert_eq!(folder.matches(path).count(), 2, "{folder}");
    }
}

#[test]
fn names_of_kubernetes_are_legal_and_differ_by_plan() {
    for name in HOSTILE {
        let film = Job { plan: "/other".into(), ..film(name) };
        let first = |text: String| {
            let line = text.lines().find(|line| line.starts_with("  name: ")).unwrap().to_owned();
            line["  name: ".len()..].to_owned()
        };
        let name = first(job(Kind::K8s, &film));
        assert!(name.len() <= 48 && !name.ends_with('-'), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
        assert_ne!(name, first(job(Kind::K8s, &Job { plan: "/another".into(), ..film })));
    }
}

#[test]
fn quoted_words_are_read_back_by_shells() {
    let words = HOSTILE.map(str::to_owned);
    for (shell, line) in [("bash", quote::bash_line(&words)), ("sh", quote::posix_line(&words))] {
        let output = ran(Command::new(shell).arg("-c").arg(format!("printf '%s\\0' {line} ''")));
        let expected: String = words.iter().map(|word| format!("{word}\0")).collect::<String>() + "\0";
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{shell}");
    }
    assert!(HOSTILE.iter().all(|word| !quote::bash(word).contains(char::is_control)));
    assert!(HOSTILE.iter().all(|word| !quote::yaml(word).contains(char::is_control)));
}

/// The command that the first line of a job says, for the job in `file`.
fn start_of(job: &str, file: &str) -> String {
    let line = job.lines().next().unwrap().strip_prefix("# Start: ").unwrap();
    line.split(',').next().unwrap().replace("FILE", file)
}

/// The folder `bin` with openjd, kubernetes-validate and a python that knows YAML.
fn tools() -> PathBuf {
    std::env::var_os("REMASTER_FARM_TOOLS").unwrap_or_else(|| panic!("set REMASTER_FARM_TOOLS")).into()
}

#[test]
#[ignore = "openjd: the scheduler"]
fn openjd_runs_the_job_whatever_the_names_are() {
    let bench = Bench::new();
    // The runner of openjd-cli writes its own script and turns CR LF into LF there.
    let hostile = HOSTILE.map(|name| name.replace('\r', ""));
    // A run takes seconds, so three names share one.
    for names in hostile.chunks(3) {
        let (input, output) = (names.get(1).cloned(), names.get(2).cloned());
        let (unit_words, assemble_words) = (hostile.to_vec(), hostile.to_vec());
        let film = Job { input, output, unit_words, assemble_words, ..film(&names[0]) };
        let text = job(Kind::Openjd, &film);
        bench.write("job.yaml", &text);
        // As the job says, in another folder than that of the job.
        let path = format!("{}:{}:$PATH", bench.path("bin").display(), tools().display());
        let line = format!("PATH={path}; {}", start_of(&text, "../job.yaml"));
        ran(bench.command("bash").current_dir(bench.path("calls")).args(["-c", &line]));
        check(&bench.calls(), &film);
    }
    // A real worker of a farm would look at these.
    let needs = Job { gpu: true, ram: Some(8 << 30), cores: Some(4), units: 1, ..film("/plan") };
    let template = bench.write("job.yaml", &job(Kind::Openjd, &needs));
    ran(bench.command(tools().join("openjd")).arg("check").arg(&template));
    let mut run = bench.command(tools().join("openjd"));
    ran(run.arg("run").arg(&template).args(["--step", "Restore"]));
    assert!(bench.calls()[0].contains(&"--index=0-0".to_owned()));
}

#[test]
#[ignore = "kubernetes: kubernetes-validate"]
fn kubernetes_takes_the_job_and_its_words_arrive() {
    let bench = Bench::new();
    for (n, name) in HOSTILE.into_iter().enumerate() {
        let (ram, cores) = ((n % 3 == 0).then_some(8 << 30), (n % 4 == 0).then_some(4));
        let secret = (n % 5 == 0).then(|| "mine".into());
        let film = Job { gpu: n % 2 == 0, ram, cores, secret, ..film(name) };
        let file = bench.write("job.yaml", &job(Kind::K8s, &film));
        ran(bench.command(tools().join("kubernetes-validate")).arg("--strict").arg(&file));
        let read = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
        let output = ran(bench.command(tools().join("python")).args(["-c", read]).arg(&file));
        let documents: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for document in documents.as_array().unwrap() {
            let words = &document["spec"]["template"]["spec"]["containers"][0]["command"];
            // What kubelet does: our words contain no $(NAME) that is not escaped.
            let words: Vec<String> =
                words.as_array().unwrap().iter().map(|w| expanded(w.as_str().unwrap())).collect();
            for index in 0..document["spec"]["completions"].as_u64().unwrap_or(1) {
                let mut command = bench.command(&words[0]);
                ran(command.args(&words[1..]).env("JOB_COMPLETION_INDEX", index.to_string()));
            }
        }
        check(&bench.calls(), &film);
    }
}

/// The words of a container as kubelet passes them on, if no variable is set.
fn expanded(word: &str) -> String {
    let mut out = String::new();
    let mut chars = word.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '$' {
            assert_eq!(chars.next(), Some('$'), "a dollar that is not escaped: {word}");
        }
        out.push(c);
    }
    out
}
