//! A script that submits an array job to Slurm, and the assembly behind it.

use super::quote::{bash_line, label};
use super::{FINAL, Job};

/// Slurm's `MaxArraySize` is 1001 by default.
const MOST_TASKS: u32 = 1000;

pub(super) fn job(job: &Job) -> String {
    let tasks = job.tasks(MOST_TASKS);
    let (units, chunk, last_task) = (job.units.max(1), tasks.chunk, tasks.count - 1);
    let name = label(&job.name);
    let limit = job.workers.map(|workers| format!("%{}", workers.max(1))).unwrap_or_default();
    let needs = [
        job.gpu.then(|| " --gres=gpu:1".to_owned()),
        job.cores.map(|cores| format!(" --cpus-per-task={}", cores.max(1))),
        job.mebibytes().map(|mebibytes| format!(" --mem={mebibytes}M")),
    ];
    let needs: String = needs.into_iter().flatten().collect();
    let unit = bash_line(&job.unit_command());
    let assemble = bash_line(&job.assemble_command());
    let final_codes = FINAL.map(|code| code.to_string()).join(" | ");
    format!(
        r#"#!/usr/bin/env bash
# Start where sbatch works: bash FILE [options of sbatch: --partition=gpu --time=4:00:00 ...]
# Started again, it goes on with the units that are not done.
set -euo pipefail

unit=({unit})
assemble=({assemble})
units={units} chunk={chunk} retries=10

# A task of the array: some units.
restore() {{
  local first=$((SLURM_ARRAY_TASK_ID * chunk)) last child code=0 late=
  last=$((first + chunk < units ? first + chunk - 1 : units - 1))
  "${{unit[@]}}" "--index=$first-$last" &
  child=$!
  # USR1 comes before the time limit. What is finished by then is kept.
  trap 'late=yes; kill -TERM "$child" 2>/dev/null || true' USR1
  trap 'kill -TERM "$child" 2>/dev/null || true' TERM
  wait "$child" || code=$?
  # A signal ends the wait early.
  while kill -0 "$child" 2>/dev/null; do
    code=0
    wait "$child" || code=$?
  done
  case $code in
  0) return ;;
  # These fail on every node.
  {final_codes}) exit "$code" ;;
  # Somebody stopped it. If that was a preemption, Slurm queues the task again by itself.
  130 | 143) if [ -z "$late" ]; then exit "$code"; fi ;;
  esac
  # Not $SLURM_JOB_ID: that of the last task is the number of the whole array.
  if ((${{SLURM_RESTART_COUNT:-0}} < retries)) &&
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"; then
    # Slurm ends this script now.
    sleep 60
  fi
  exit "$code"
}}

case "${{1:-}}" in
remaster-restore) restore ;;
remaster-assemble) "${{assemble[@]}}" ;;
*)
  array=$(sbatch --parsable --job-name={name} --array=0-{last_task}{limit} --requeue --open-mode=append \
    --signal=B:USR1@120{needs} "$@" "${{BASH_SOURCE[0]}}" remaster-restore)
  array=${{array%%;*}}
  film=$(sbatch --parsable --job-name={name}-assemble --dependency="afterok:$array" --kill-on-invalid-dep=yes \
    --requeue --open-mode=append "$@" "${{BASH_SOURCE[0]}}" remaster-assemble)
  echo "submitted: units in job $array, assembly in job ${{film%%;*}}"
  ;;
esac
"#
    )
}
