"""Compares our values of every GGUF block format with PyPI's `gguf`, bit by bit.

    pip install gguf numpy
    cargo build --example dump_values -p remaster-weights
    python tools/checkpoints/check_gguf.py target/debug/examples/dump_values         # 10,000 random blocks per format
    python tools/checkpoints/check_gguf.py --fixture crates/weights/tests/data       # writes the fixture of the tests
"""

import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np

T = gguf.GGMLQuantizationType
# The f16 fields of a block, which must be finite: byte offsets.
HALVES = {
    T.F16: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
    T.F32: [], T.BF16: [],
}


def random_blocks(kind, count, rng):
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALVES[kind]:
        # An exponent of all ones is infinity or NaN.
        infinite = (blocks[:, at + 1] & 0x7C) == 0x7C
        blocks[infinite, at + 1] ^= 0x40
    if kind in (T.F32, T.BF16):
        blocks[:, -1] &= 0xBF
    return blocks


def write(path, count, rng):
    """Writes one tensor per format and returns the expected values by name."""
    writer = gguf.GGUFWriter(path, "test")
    expected = {}
    for kind in HALVES:
        values, size = gguf.GGML_QUANT_SIZES[kind]
        n = count * (256 if values == 1 else 1)
        blocks = random_blocks(kind, n, rng)
        rows = blocks.reshape(2, -1)
        if kind in (T.F32, T.F16):
            rows = rows.view(np.float32 if kind == T.F32 else np.float16)
            writer.add_tensor(kind.name, rows)
        else:
            writer.add_tensor(kind.name, rows, raw_dtype=kind)
        expected[kind.name] = gguf.quants.dequantize(rows, kind).reshape(-1).astype(np.float32)
    writer.add_string("general.name", "blocks")
    writer.add_array("comfy.gguf.orig_shape.Q4_K", [count * 16, 4, 4])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


def main():
    rng = np.random.default_rng(1)
    if sys.argv[1] == "--fixture":
        folder = pathlib.Path(sys.argv[2])
        expected = write(folder / "blocks.gguf", 2, rng)
        (folder / "blocks.f32").write_bytes(b"".join(expected[k].tobytes() for k in sorted(expected)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "blocks.gguf"
        expected = write(path, 10_000, rng)
        ours = np.frombuffer(subprocess.run([sys.argv[1], path], check=True, capture_output=True).stdout, np.uint32)
        at = 0
        for name in sorted(expected):
            theirs = expected[name].view(np.uint32)
            mine = ours[at : at + theirs.size]
            at += theirs.size
            differ = int((mine != theirs).sum())
            print(f"{name:6} {theirs.size:9} values, {differ} differ")
            assert differ == 0
        assert at == ours.size


main()
