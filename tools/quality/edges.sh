#!/usr/bin/env bash
# What --edges does to the picture: PSNR of all of it, of its last 16 rows and of its last 16 columns, as means over the clips.
# usage: tools/quality/edges.sh REMASTER WEIGHTS OUT_DIR CLIP...
set -euo pipefail
remaster=$1 weights=$2 out=$3
shift 3
mkdir -p "$out"
sizes=${SIZES:-320x200 640x360 854x480 720x576}

lossless() { # IN FILTER OUT
  ffmpeg -v error -nostdin -y -i "$1" -frames:v "${FRAMES:-5}" -an -vf "$2" -pix_fmt bgr0 -c:v ffv1 "$3"
}

psnr() { # CROP
  lossless "$out/in.mkv" "$1" "$out/a.mkv"
  lossless "$out/out.mkv" "$1" "$out/b.mkv"
  "$remaster" compare "$out/a.mkv" "$out/b.mkv" --quick --json --progress none 2>>"$out/log.txt" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["pooled"]["psnr"])'
}

echo "| size | edges | network sees | more pixels | all, dB | last 16 rows, dB | last 16 columns, dB |"
echo "|---|---|---|---|---|---|---|"
for size in $sizes; do
  width=${size%x*} height=${size#*x}
  for edges in black mirror mirror-black; do
    : >"$out/figures.txt"
    for clip in "$@"; do
      ffmpeg -v error -nostdin -y -ss 1 -i "$clip" -frames:v "${FRAMES:-5}" -an \
        -vf "scale=$width:$height:force_original_aspect_ratio=increase,crop=$width:$height,format=rgb24" -pix_fmt bgr0 -c:v ffv1 "$out/in.mkv"
      "$remaster" vae roundtrip "$out/in.mkv" -o "$out/out.mkv" --weights "$weights" --dtype f32 --lossless --progress none -y \
        --edges "$edges" --json >"$out/run.json" 2>>"$out/log.txt"
      echo "$(psnr null) $(psnr "crop=iw:16:0:ih-16:exact=1") $(psnr "crop=16:ih:iw-16:0:exact=1")" >>"$out/figures.txt"
    done
    python3 - "$out" "$size" "$edges" <<'P'
import json, sys
out, size, edges = sys.argv[1:]
w, h = map(int, size.split("x"))
x, y = json.load(open(f"{out}/run.json"))["geometry"]["padded"]
up = lambda n: (n + 15) // 16 * 16
rows = [list(map(float, line.split())) for line in open(f"{out}/figures.txt")]
means = " | ".join(f"{sum(c) / len(c):.2f}" for c in zip(*rows))
print(f"| {size} | `{edges}` | {x}x{y} | {100 * (x * y / (up(w) * up(h)) - 1):.1f} % | {means} |")
P
  done
done
