//! A script for machines without a scheduler: xargs, here or over ssh.

use super::Job;
use super::quote::{bash, bash_line, posix_line};

pub(super) fn job(job: &Job) -> String {
    let tasks = job.tasks(u32::MAX);
    let workers = job.workers.unwrap_or(1).max(1);
    let (units, chunk, last) = (job.units.max(1), tasks.chunk, job.last());
    let unit = bash_line(&job.unit_command());
    let assemble = bash_line(&job.assemble_command());
    // The shell at the other end reads its line once more.
    let remote = bash(&posix_line(&job.unit_command()));
    format!(
        r#"#!/usr/bin/env bash
# Start: bash FILE; WORKERS={workers} is how many tasks run at once here, or HOSTS="gpu1 gpu2" runs one on each over ssh.
# Stop it at any time; started again it goes on with the units that are not done.
set -euo pipefail

unit=({unit})
assemble=({assemble})
remote={remote}
units={units} chunk={chunk} tries=3

# One task. 255 makes xargs start no other: the words are wrong for every unit, or the host is gone.
if [ "${{1:-}}" = unit ]; then
  last=$(($2 + chunk - 1)) code=0
  range=$2-$((last < units ? last : units - 1))
  if [ -z "${{HOSTS:-}}" ]; then
    "${{unit[@]}}" "--index=$range" || code=$?
  else
    read -ra hosts <<<"$HOSTS"
    host=${{hosts[$REMASTER_SLOT]}}
    for pause in 5 30 0; do
      code=0
      ssh -n -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=30 -- "$host" "$remote --index=$range" || code=$?
      if [ "$code" != 255 ]; then break; fi
      sleep "${{SSH_PAUSE:-$pause}}"
    done
    if [ "$code" = 255 ]; then echo "$host" >>"$REMASTER_GONE"; fi
  fi
  if [ "$code" = 2 ]; then code=255; fi
  exit "$code"
fi

gone=$(mktemp)
trap 'rm -f "$gone"' EXIT
export REMASTER_GONE=$gone
round=1
# Units that are done take no time, so a round costs only what is missing.
while true; do
  workers=${{WORKERS:-{workers}}}
  slots=()
  if [ -n "${{HOSTS:-}}" ]; then
    read -ra hosts <<<"$HOSTS"
    workers=${{#hosts[@]}}
    # An option of GNU xargs: which of the workers, from 0.
    slots=(--process-slot-var=REMASTER_SLOT)
  fi
  code=0
  seq 0 "$chunk" {last} | xargs ${{slots[@]+"${{slots[@]}}"}} -P "$workers" -n 1 bash -- "${{BASH_SOURCE[0]}}" unit || code=$?
  if [ "$code" = 0 ]; then break; fi
  if [ -s "$gone" ]; then
    left=
    for host in "${{hosts[@]}}"; do
      if grep -qxF -e "$host" "$gone"; then echo "$host is out of reach; continuing without it" >&2; else left+="$host "; fi
    done
    : >"$gone"
    if [ -z "$left" ]; then exit 1; fi
    export HOSTS=$left
    continue
  fi
  # What xargs returns after a 255.
  if [ "$code" = 124 ]; then exit 2; fi
  if [ "$round" = "$tries" ]; then
    echo "some units failed $tries times; see above, then start this again" >&2
    exit 1
  fi
  round=$((round + 1))
done
"${{assemble[@]}}"
"#
    )
}
