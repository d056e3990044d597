#!/usr/bin/env bash
# Ways of cutting frames against the uncut run, on real content: PSNR and drift of colour.
# usage: tools/quality/run.sh REMASTER WEIGHTS OUT_DIR CLIP...
set -euo pipefail
remaster=$1 weights=$2 out=$3
shift 3
mkdir -p "$out"
frames=${FRAMES:-33}

roundtrip() { # IN OUT FLAGS...
  local from=$1 to=$2
  shift 2
  "$remaster" vae roundtrip "$from" -o "$to" --weights "$weights" --dtype f32 --lossless --progress none -y "$@" \
    >/dev/null 2>>"$out/log.txt"
}

echo "| clip | size | way | PSNR against whole, dB | worst frame, dB | largest drift of a block, levels |"
echo "|---|---|---|---|---|---|"
for clip in "$@"; do
  name=$(basename "${clip%.*}")
  ffmpeg -v error -nostdin -y -i "$clip" -frames:v "$frames" -an -vf "scale=640:-2" -pix_fmt yuv444p -c:v ffv1 \
    "$out/$name.mkv"
  size=$(ffprobe -v error -select_streams v:0 -show_entries stream=width,height -of csv=s=x:p=0 "$out/$name.mkv")
  roundtrip "$out/$name.mkv" "$out/$name.whole.mkv" --mode whole
  for way in "exact --stripes 4" "shared-stats" "blend --tile 344 --overlap 40"; do
    mode=${way%% *}
    # shellcheck disable=SC2086
    roundtrip "$out/$name.mkv" "$out/$name.$mode.mkv" --mode $way
    "$remaster" compare "$out/$name.whole.mkv" "$out/$name.$mode.mkv" --quick --json --progress none \
      --drift "$out/$name.$mode.drift.png" >"$out/$name.$mode.json" 2>>"$out/log.txt"
    python3 - "$out/$name.$mode.json" "$name" "$size" "$way" <<'P'
import json, sys
r = json.load(open(sys.argv[1]))
show = lambda v, f="{:.2f}": "inf" if v is None else f.format(v)
worst = r["summary"].get("psnr", {}).get("min") if not r["identical"] else None
largest = r["drift"]["largest"]
print(f"| {sys.argv[2]} | {sys.argv[3]} | `{sys.argv[4]}` | {show(r['pooled']['psnr'])} | {show(worst)} | "
      f"{'0' if r['identical'] or not largest else show(abs(largest['levels']))} |")
P
  done
done
