"""Writes a small safetensors file with a quantised layer of every format, and the values it stands for.

The quantisers and the formulas are written from the formats' description, loop by loop where that is plainer, and share
nothing with our reader.

    pip install numpy ml_dtypes
    python tools/checkpoints/check_layers.py crates/weights/tests/data
"""

import json
import pathlib
import struct
import sys

import ml_dtypes
import numpy as np

E4M3 = ml_dtypes.float8_e4m3fn
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def hadamard(size):
    h4 = np.array([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]], np.float64)
    h = np.ones((1, 1))
    while h.shape[0] < size:
        h = np.kron(h, h4)
    return h / np.sqrt(size)


def int8(w, group):
    """Rotated and quantised: q, scales, and the widened values."""
    rows, columns = w.shape
    h = hadamard(group)
    rotated = (w.reshape(rows, -1, group).astype(np.float64) @ h).reshape(rows, columns).astype(np.float32)
    s = np.maximum(np.abs(rotated).max(1, keepdims=True) / np.float32(127), np.float32(1e-30)).astype(np.float32)
    q = np.clip(np.rint(rotated / s), -128, 127).astype(np.int8)
    sums = (q.reshape(rows, -1, group).astype(np.float64) @ h).reshape(rows, columns)
    return q, s, (sums.astype(np.float32) * s).astype(np.float32)


def swizzle(scales):
    """Scale (r, c) goes to a tile of 128 rows and 4 columns."""
    rows, columns = scales.shape
    nr, nc = -(-rows // 128), -(-columns // 4)
    flat = np.zeros(nr * nc * 512, np.uint8)
    for r in range(rows):
        for c in range(columns):
            at = ((r // 128) * nc + c // 4) * 512 + (r % 32) * 16 + ((r % 128) // 32) * 4 + c % 4
            flat[at] = scales[r, c]
    return flat.reshape(nr * 128, nc * 4)


def nvfp4(w):
    rows, columns = w.shape
    scale_2 = np.float32(np.abs(w).max() / (448 * 6))
    blocks = w.reshape(rows, -1, 16)
    scales = (np.abs(blocks).max(2) / 6 / scale_2).astype(E4M3)
    packed = np.zeros((rows, columns // 2), np.uint8)
    values = np.zeros((rows, columns), np.float32)
    for r in range(rows):
        for c in range(columns):
            scale = np.float32(scales[r, c // 16])
            ideal = abs(w[r, c]) / max(float(scale * scale_2), 1e-30)
            code = int(np.argmin([abs(ideal - v) for v in E2M1])) | (8 if w[r, c] < 0 else 0)
            packed[r, c // 2] |= code << (4 if c % 2 == 0 else 0)
            e2m1 = np.float32(E2M1[code & 7]) * np.float32(-1 if code & 8 else 1)
            values[r, c] = e2m1 * scale * scale_2
    return packed, swizzle(scales.view(np.uint8)), scale_2, values


def mxfp8(w):
    rows, columns = w.shape
    blocks = w.reshape(rows, -1, 32)
    largest = np.abs(blocks).max(2)
    exponents = np.clip(np.ceil(np.log2(np.maximum(largest, 1e-38) / 448)) + 127, 0, 254).astype(np.uint8)
    exponents[0, 0] = 0
    powers = np.where(exponents == 0, 0.0, np.exp2(exponents.astype(np.float64) - 127)).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        q = np.where(powers[:, :, None] == 0, 1.0, blocks / powers[:, :, None]).astype(np.float32).astype(E4M3)
    values = (q.astype(np.float32) * powers[:, :, None]).reshape(rows, columns)
    return q.reshape(rows, columns), swizzle(exponents), values


def main():
    rng = np.random.default_rng(2)
    matrix = lambda rows, columns: rng.normal(0, 0.05, (rows, columns)).astype(np.float32)
    tensors, expected = {}, {}

    def marker(layer, **conf):
        tensors[f"{layer}.comfy_quant"] = ("U8", np.frombuffer(json.dumps(conf).encode(), np.uint8))

    def layer(name, dtype, weight, scale_dtype, scale, values):
        tensors[f"{name}.weight"] = (dtype, weight)
        tensors[f"{name}.weight_scale"] = (scale_dtype, scale)
        expected[f"{name}.weight"] = values

    layer("rotated", "I8", *(lambda q, s, v: (q, "F32", s, v))(*int8(matrix(5, 512), 256)))
    marker("rotated", format="int8_tensorwise", convrot=True, convrot_groupsize=256)
    layer("rotated16", "I8", *(lambda q, s, v: (q, "F32", s, v))(*int8(matrix(3, 48), 16)))
    marker("rotated16", format="int8_tensorwise", params={"convrot": True, "convrot_groupsize": 16})
    q, s = rng.integers(-128, 128, (3, 20), dtype=np.int8), matrix(3, 1)
    layer("plain8", "I8", q, "F32", s, q.astype(np.float32) * s)
    marker("plain8", format="int8_tensorwise")
    for name, rows, columns in [("nv", 130, 80), ("nv_small", 3, 16)]:
        packed, scales, scale_2, values = nvfp4(matrix(rows, columns))
        layer(name, "U8", packed, "F8_E4M3", scales, values)
        tensors[f"{name}.weight_scale_2"] = ("F32", np.array(scale_2, np.float32))
        marker(name, format="nvfp4", full_precision_matrix_mult=False)
    q, scales, values = mxfp8(matrix(131, 160))
    layer("mx", "F8_E4M3", q.view(np.uint8), "U8", scales, values)
    marker("mx", format="mxfp8")
    q, s = matrix(4, 12).astype(E4M3), np.array(0.37, np.float32)
    layer("listed", "F8_E4M3", q.view(np.uint8), "F32", s, q.astype(np.float32) * s)
    q, s = matrix(4, 12).astype(E4M3), np.array([0.73], np.float32)
    tensors["old.weight"], tensors["old.scale_weight"] = ("F8_E4M3", q.view(np.uint8)), ("F32", s)
    expected["old.weight"] = q.astype(np.float32) * s
    tensors["scaled_fp8"] = ("F8_E4M3", np.zeros(0, np.uint8))
    codes = np.array([c for c in range(256) if c & 0x7F != 0x7F], np.uint8)
    tensors["cast"] = ("F8_E4M3", codes)
    expected["cast"] = codes.view(E4M3).astype(np.float32)

    header = {"__metadata__": {"_quantization_metadata": json.dumps({"layers": {"listed": {"format": "float8_e4m3fn"}}})}}
    data = b""
    for name, (dtype, values) in tensors.items():
        raw = np.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    folder = pathlib.Path(sys.argv[1])
    (folder / "layers.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "layers.f32").write_bytes(b"".join(expected[k].astype(np.float32).tobytes() for k in sorted(expected)))


main()
