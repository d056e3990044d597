#!/usr/bin/env python3
"""Measures what ffmpeg takes as a child of remaster: the highest resident memory of decoders and encoders by frame size
and threads. Prints one line per measurement; crates/media/src/ffmpeg_memory.rs has the table that was made of them.

    python3 tools/ffmpeg_memory/measure.py > ffmpeg-memory.txt
"""
import os
import subprocess
import sys
import tempfile

SIZES = {"480": (864, 480), "1080": (1920, 1088), "2160": (3840, 2160)}
THREADS = {"480": [1, 2, 4, 8, 16], "1080": [1, 2, 4, 8, 16], "2160": [1, 8]}
# A lookahead of x264 is 40 frames; all frames in flight are there after that.
FRAMES = {"480": 64, "1080": 64, "2160": 52}

ENCODERS = {
    "libx264": ("yuv420p", "-crf 12 -preset medium"),
    "libx265": ("yuv420p10le", "-crf 14 -preset medium -x265-params log-level=error"),
    "ffv1": ("yuv420p10le", "-level 3 -g 1 -slices 16 -slicecrc 1"),
    "prores_ks": ("yuv422p10le", "-profile:v hq"),
    "libvpx-vp9": ("yuv420p", "-crf 18 -b:v 0 -row-mt 1 -cpu-used 2"),
}

# How a file for each decoder is made.
DECODERS = {
    "h264": ("yuv420p", "libx264 -preset veryfast -refs 4 -bf 3", "mkv"),
    "hevc": ("yuv420p10le", "libx265 -preset ultrafast -x265-params log-level=error", "mkv"),
    "mpeg2video": ("yuv420p", "mpeg2video -q:v 4 -bf 2", "mkv"),
    "ffv1": ("yuv420p10le", "ffv1 -level 3 -g 1 -slices 16", "mkv"),
    "prores": ("yuv422p10le", "prores_ks -profile:v hq", "mov"),
    "vp9": ("yuv420p", "libvpx-vp9 -deadline realtime -cpu-used 8 -row-mt 1 -b:v 4M", "mkv"),
    "av1": ("yuv420p", "libsvtav1 -preset 12", "mkv"),
}

QUIET = ["-hide_banner", "-nostdin", "-v", "error", "-y"]


def peak(command, stdin=None):
    child = subprocess.Popen(command, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    return usage.ru_maxrss * 1024 if status == 0 else None


def source(size, frames, pixel_format):
    width, height = SIZES[size]
    made = f"testsrc2=size={width}x{height}:rate=24,noise=alls=12:allf=t"
    return ["-f", "lavfi", "-i", made, "-frames:v", str(frames), "-pix_fmt", pixel_format]


def tell(kind, name, size, threads, result):
    width, height = SIZES[size]
    print(kind, name, width * height, threads, result or "failed", flush=True)


def encoders(folder, size, names):
    width, height = SIZES[size]
    for name in names:
        pixel_format, options = ENCODERS[name]
        for threads in THREADS[size]:
            make = ["ffmpeg", *QUIET, *source(size, FRAMES[size], pixel_format), "-c:v", "rawvideo", "-f", "nut", "pipe:1"]
            maker = subprocess.Popen(make, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            take = ["ffmpeg", *QUIET, "-probesize", str(width * height * 12), "-f", "nut", "-i", "pipe:0", "-c:v", name]
            take += [*options.split(), "-threads", str(threads), "-pix_fmt", pixel_format, f"{folder}/out.mkv"]
            result = peak(take, maker.stdout)
            maker.stdout.close()
            maker.wait()
            tell("encode", name, size, threads, result)


def decoders(folder, size, names):
    for name in names:
        pixel_format, options, ending = DECODERS[name]
        file = f"{folder}/{name}-{size}.{ending}"
        make = ["ffmpeg", *QUIET, *source(size, FRAMES[size], pixel_format), "-c:v", *options.split(), file]
        if subprocess.run(make, stderr=subprocess.DEVNULL).returncode != 0:
            tell("decode", name, size, 0, None)
            continue
        for threads in THREADS[size]:
            take = ["ffmpeg", *QUIET, "-threads", str(threads), "-i", file, "-pix_fmt", pixel_format]
            take += ["-c:v", "rawvideo", "-f", "nut", "/dev/null"]
            tell("decode", name, size, threads, peak(take))
        os.remove(file)


def main():
    sizes = sys.argv[1].split(",") if len(sys.argv) > 1 else list(SIZES)
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            decoders(folder, size, DECODERS)
            encoders(folder, size, ENCODERS)


if __name__ == "__main__":
    main()
