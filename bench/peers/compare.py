"""Times Remaster and PyTorch in turn on one machine and writes the table of docs/performance.md.

For every case both programs are started once, run once each to warm up, and then take turns; the fastest
and the median sample of each count. Memory is the highest resident size of each process, so every case has
processes of its own with only the half of the network in use. Called by `run`, which builds and installs
what is needed.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
START, END = "<!-- table made by bench/peers/run -->", "<!-- end of table -->"


class Ours:
    """`remaster bench vae --step`: one run per line on stdin, seconds on stderr."""

    def __init__(self, binary, case):
        words = [binary, "bench", "vae", case["what"], "--json", "--step"]
        words += ["--warmup", "0", "--threads", str(case["threads"]), "--slice", "0"]
        for key in ("dtype", "frames", "height", "width"):
            words += [f"--{key}", str(case[key])]
        self.process = subprocess.Popen(words, text=True, stdin=-1, stdout=-1, stderr=-1)
        while self.process.stderr.readline().strip() != "ready":
            if self.process.poll() is not None:
                raise SystemExit("remaster did not start")

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stderr.readline())

    def finish(self):
        out, _ = self.process.communicate()
        return json.loads(out)["resident_bytes"]


class Torch:
    """`torch_vae.py serve`: one run per line of JSON."""

    def __init__(self, case, layout, sliced, cache):
        self.ask = json.dumps({**case, "layout": layout, "slice": sliced}) + "\n"
        words = [sys.executable, str(HERE / "torch_vae.py"), "serve", "--threads", str(case["threads"])]
        self.process = subprocess.Popen(words + ["--cache", cache], text=True, stdin=-1, stdout=-1)

    def run(self):
        self.process.stdin.write(self.ask)
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["seconds"]

    def finish(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        self.process.communicate()
        return int(peak.split()[1]) * 1024


def measure(binary, case, variants, rounds, cache):
    """Samples of ours and of each variant of theirs, taken in turn."""
    runners = {"ours": Ours(binary, case)}
    for layout, sliced in variants:
        runners[f"torch {layout} slice {sliced}"] = Torch(case, layout, sliced, cache)
    samples = {name: [] for name in runners}
    for turn in range(rounds + 1):
        for name, runner in runners.items():
            seconds = runner.run()
            print(f"{case} {name}: {seconds:.2f} s", file=sys.stderr, flush=True)
            if turn > 0:
                samples[name].append(seconds)
    peaks = {name: runner.finish() for name, runner in runners.items()}
    return {"case": case, "samples": samples, "peaks": peaks}


def row(result):
    case, samples, peaks = result["case"], result["samples"], result["peaks"]
    theirs = min((name for name in samples if name != "ours"), key=lambda name: min(samples[name]))
    best = {name: (min(samples[name]), statistics.median(samples[name])) for name in ("ours", theirs)}
    size = f"{case['frames']} x {case['height']} x {case['width']}"
    cells = [case["what"], case["dtype"], size]
    cells += [f"{best['ours'][0]:.2f} / {best['ours'][1]:.2f}", f"{best[theirs][0]:.2f} / {best[theirs][1]:.2f}"]
    cells += [theirs.removeprefix("torch "), f"**{best[theirs][0] / best['ours'][0]:.2f}**"]
    cells += [f"{best[theirs][1] / best['ours'][1]:.2f}", f"{len(samples['ours'])}"]
    cells += [f"{peaks['ours'] / 2**20:.0f}", f"{peaks[theirs] / 2**20:.0f}", f"{peaks['ours'] / peaks[theirs]:.2f}"]
    return "| " + " | ".join(cells) + " |"


def table(results):
    head = "| | | clip | ours, s (min / median) | torch, s (min / median) | torch's best variant | times faster (min) "
    head += "| (median) | rounds | ours, MiB | torch, MiB | memory ratio |"
    rule = "|" + "---|" * head.count("|", 1)
    return "\n".join([head, rule] + [row(r) for r in results])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=str(ROOT / "target/release/remaster"))
    parser.add_argument("--cache", required=True, help="prefix of files that keep the formula weights")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--sizes", default="17x256x256,5x512x512")
    parser.add_argument("--variants", default="all", help="all, or LAYOUT:SLICE,... of torch")
    parser.add_argument("--results", default=str(HERE / "out" / "results.json"), help="kept and added to")
    args = parser.parse_args()
    path = pathlib.Path(args.results)
    results = json.loads(path.read_text()) if path.exists() else []
    for dtype in args.dtypes.split(","):
        for size in args.sizes.split(","):
            frames, height, width = map(int, size.split("x"))
            slices = [0] if frames <= 5 else [0, 4]
            variants = [(layout, s) for layout in ("contiguous", "channels_last_3d") for s in slices]
            if args.variants != "all":
                variants = [(v.split(":")[0], int(v.split(":")[1])) for v in args.variants.split(",")]
            for what in ("encode", "decode"):
                case = {"what": what, "dtype": dtype, "frames": frames, "height": height, "width": width}
                case["threads"] = args.threads
                results = [r for r in results if r["case"] != case]
                results.append(measure(args.binary, case, variants, args.rounds, args.cache))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(results, indent=1))
    document = ROOT / "docs" / "performance.md"
    text = document.read_text()
    before, after = text.split(START)[0], text.split(END)[1]
    document.write_text(f"{before}{START}\n{table(results)}\n{END}{after}")
    print(table(results))


if __name__ == "__main__":
    main()
