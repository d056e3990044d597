//! Two Jobs of Kubernetes: an Indexed one over chunks of units, and a suspended one that assembles.
//!
//! Kubernetes has no dependencies between Jobs. A pod that waits for others would hold its place without a limit, so
//! the second Job is suspended until the first is complete and it is resumed.

use super::quote::{label, yaml};
use super::{FINAL, Job};

/// Beyond it the API wants further limits.
const MOST_TASKS: u32 = 10_000;
/// Default number of pods at the same time: a cluster that grows by itself would buy a node for each.
const WORKERS: u32 = 8;
/// What NVIDIA's runtime is asked for: without `graphics` a container does not see the card through Vulkan.
const CAPABILITIES: &str = "compute,graphics,utility,video";
/// The Secret with the credentials of the store.
const SECRET: &str = "remaster-store";

pub(super) fn job(job: &Job) -> String {
    let tasks = job.tasks(MOST_TASKS);
    let name = name(job);
    let workers = job.workers.unwrap_or(WORKERS).clamp(1, tasks.count);
    let final_codes = FINAL.map(|code| code.to_string()).join(", ");
    let unit = pod(job, &unit_command(job), &resources(job));
    let assemble = pod(job, &job.assemble_command(), "");
    let completions = tasks.count;
    // Only of the first Job: Kueue would start the other one at once.
    let queue =
        job.queue.as_ref().map(|queue| format!("  labels: {{kueue.x-k8s.io/queue-name: {}}}\n", yaml(queue)));
    let queue = queue.unwrap_or_default();
    format!(
        r#"# Start: kubectl create -f FILE && kubectl wait --for=condition=complete --timeout=168h job/{name} && kubectl patch job/{name}-assemble --type=merge -p '{{"spec":{{"suspend":false}}}}'
# Again, with the units that are not done: kubectl delete -f FILE first.
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
{queue}spec:
  completionMode: Indexed
  completions: {completions}
  parallelism: {workers}
  backoffLimitPerIndex: 3
  podFailurePolicy:
    rules:
      # A drained or preempted node is not the fault of the unit.
      - action: Ignore
        onPodConditions: [{{type: DisruptionTarget, status: "True"}}]
      # These codes are the same on every node.
      - action: FailIndex
        onExitCodes: {{containerName: remaster, operator: In, values: [{final_codes}]}}
{unit}---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}-assemble
spec:
  # Resumed when all units are done. Too early it fails and says which units are missing.
  suspend: true
  backoffLimit: 3
  podFailurePolicy:
    rules:
      - action: Ignore
        onPodConditions: [{{type: DisruptionTarget, status: "True"}}]
{assemble}"#
    )
}

/// The template of a pod.
fn pod(job: &Job, command: &[String], resources: &str) -> String {
    let image = yaml(job.image.as_deref().unwrap_or_default());
    // Kubernetes replaces `$(NAME)` in words, and `$$` by one dollar.
    let line = |word: &String| format!("            - {}\n", yaml(&word.replace('$', "$$")));
    let command: String = command.iter().map(line).collect();
    let mut pod = format!(
        "  template:\n    spec:\n      restartPolicy: Never\n      terminationGracePeriodSeconds: 120\n      \
         containers:\n        - name: remaster\n          image: {image}\n          command:\n{command}"
    );
    let is_bucket = job.plan.contains("://") && !job.plan.starts_with("file://");
    if is_bucket || job.secret.is_some() {
        let secret = yaml(job.secret.as_deref().unwrap_or(SECRET));
        pod += &format!(
            "          # AWS_ACCESS_KEY_ID and the like. Optional: the node or its role may have access already.\n          \
             envFrom:\n            - secretRef: {{name: {secret}, optional: true}}\n"
        );
    }
    pod += resources;
    let folders = folders(job);
    if !folders.is_empty() {
        pod += "          volumeMounts:\n";
        for (n, folder) in folders.iter().enumerate() {
            pod += &format!("            - {{name: folder{n}, mountPath: {}}}\n", yaml(folder));
        }
        pod += "      # Every node must have these folders, on a share. A persistentVolumeClaim does as well.\n      \
                volumes:\n";
        for (n, folder) in folders.iter().enumerate() {
            pod += &format!("        - {{name: folder{n}, hostPath: {{path: {}}}}}\n", yaml(folder));
        }
    }
    pod
}

/// Requests, limits and the environment of a pod that restores.
fn resources(job: &Job) -> String {
    let memory = job.mebibytes().map(|mebibytes| format!("memory: {mebibytes}Mi"));
    let cores = job.cores.map(|cores| format!("cpu: {}", cores.max(1)));
    let gpu = job.gpu.then(|| "nvidia.com/gpu: 1".to_owned());
    let requests: Vec<String> = memory.iter().chain(&cores).cloned().collect();
    let limits: Vec<String> = memory.iter().chain(&gpu).cloned().collect();
    let line = |name: &str, amounts: &[String]| match amounts {
        [] => String::new(),
        _ => format!("            {name}: {{{}}}\n", amounts.join(", ")),
    };
    let lines = line("requests", &requests) + &line("limits", &limits);
    let env = match job.gpu {
        true => {
            format!("          env: [{{name: NVIDIA_DRIVER_CAPABILITIES, value: {}}}]\n", yaml(CAPABILITIES))
        }
        false => String::new(),
    };
    if lines.is_empty() { env } else { format!("{env}          resources:\n{lines}") }
}

/// A task: the index of the pod becomes a range of units. The words come behind, so sh never reads them as code.
fn unit_command(job: &Job) -> Vec<String> {
    let (chunk, last) = (job.tasks(MOST_TASKS).chunk, job.last());
    let script = format!(
        "first=$((JOB_COMPLETION_INDEX * {chunk})); last=$((first + {chunk} - 1)); \
         if [ \"$last\" -gt {last} ]; then last={last}; fi; \
         exec remaster unit run \"--index=$first-$last\" \"$@\""
    );
    let mut words: Vec<String> = ["/bin/sh", "-c", &script, "remaster"].map(str::to_owned).into();
    words.extend(job.unit_options());
    words
}

/// Folders that the pods must see under the same names: of the plan, the source and the film.
fn folders(job: &Job) -> Vec<String> {
    let parent = |path: &String| path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
    let plan = match job.plan.strip_prefix("file://") {
        Some(path) => remaster_disk::percent_decoded(path),
        None => Some(job.plan.clone()),
    };
    let mut folders: Vec<String> = Vec::new();
    for folder in [plan, job.input.as_ref().and_then(parent), job.output.as_ref().and_then(parent)]
        .into_iter()
        .flatten()
    {
        let folder = folder.trim_end_matches('/');
        if folder.starts_with('/') && !folders.iter().any(|known| known == folder) {
            folders.push(folder.to_owned());
        }
    }
    folders
}

/// A name of lower-case letters, digits and dashes, different for every plan. Pods add their index to it, and all of it
/// must fit into 63 characters.
fn name(job: &Job) -> String {
    let lower = label(&job.name).to_ascii_lowercase().replace(['.', '_'], "-");
    let short: String = lower.chars().take(24).collect();
    let short = short.trim_matches('-');
    let short = if short.is_empty() { "film" } else { short };
    // FNV-1a: it only has to tell the plans of a namespace apart.
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = job.plan.bytes().fold(0x811c_9dc5, mix);
    format!("remaster-{short}-{hash:08x}")
}
