#!/bin/sh
# run.sh PYTHON ARGUMENTS: starts train.py, or $TRAIN of this folder, with the environment it needs.
# glibc gives every tensor back to the system and gets it back page by page; kept instead, a step takes a
# fifth of the time. ONEDNN_MAX_CPU_ISA: the AMX gradients of some torch versions corrupt memory.
python=$1
shift
export MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 MALLOC_TOP_PAD_=268435456
export MALLOC_ARENA_MAX=1
export OMP_WAIT_POLICY=passive THP_MEM_ALLOC_ENABLE=1 ONEDNN_MAX_CPU_ISA=${ONEDNN_MAX_CPU_ISA:-AVX512_CORE_BF16}
exec "$python" "$(dirname "$0")/${TRAIN:-train.py}" "$@"
