"""Writes a file as `torch.save` does, with Python's own pickler and stand-ins for the names of PyTorch, and its values.

    python tools/checkpoints/write_pth.py crates/weights/tests/data
"""

import collections
import io
import pathlib
import pickle
import struct
import sys
import types
import zipfile


def module(name):
    sys.modules[name] = types.ModuleType(name)
    return sys.modules[name]


torch, utils = module("torch"), module("torch._utils")
for kind in ("Float", "Half", "BFloat16", "Long"):
    name = f"{kind}Storage"
    setattr(torch, name, type(name, (), {"__module__": "torch"}))


def _rebuild_tensor_v2(*_):
    raise NotImplementedError


def _rebuild_parameter(*_):
    raise NotImplementedError


for function in (_rebuild_tensor_v2, _rebuild_parameter):
    function.__module__ = "torch._utils"
    setattr(utils, function.__name__, function)


class Storage:
    def __init__(self, kind, key, data, width):
        self.kind, self.key, self.data, self.values = kind, key, data, len(data) // width


class Tensor:
    def __init__(self, storage, offset, shape):
        self.storage, self.offset, self.shape = storage, offset, shape

    def __reduce_ex__(self, _):
        strides, step = [], 1
        for length in reversed(self.shape):
            strides.insert(0, step)
            step *= length
        hooks = collections.OrderedDict()
        return _rebuild_tensor_v2, (self.storage, self.offset, self.shape, tuple(strides), False, hooks)


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce_ex__(self, _):
        return _rebuild_parameter, (self.tensor, True, collections.OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, thing):
        if isinstance(thing, Storage):
            return "storage", getattr(torch, thing.kind), thing.key, "cpu", thing.values
        return None


def floats(count, first):
    return [(first + 37 * i) % 101 / 8 - 6 for i in range(count)]


def main(folder):
    wide = floats(40, 1)
    half = floats(12, 5)
    top = floats(6, 9)
    storages = [
        Storage("FloatStorage", "0", struct.pack("<40f", *wide), 4),
        Storage("HalfStorage", "1", struct.pack("<12e", *half), 2),
        Storage("BFloat16Storage", "2", b"".join(struct.pack("<f", v)[2:] for v in top), 2),
        Storage("LongStorage", "3", struct.pack("<q", 1000), 8),
        Storage("FloatStorage", "4", struct.pack("<f", 1.0), 4),
    ]
    smoothed = collections.OrderedDict()
    smoothed["a.weight"] = Tensor(storages[0], 0, (2, 3, 2, 2))
    smoothed["b.weight"] = Parameter(Tensor(storages[0], 24, (4, 4)))
    smoothed["c.half"] = Tensor(storages[1], 0, (12,))
    smoothed["d.brain"] = Tensor(storages[2], 0, (1, 6))
    smoothed["e.scalar"] = Tensor(storages[1], 11, ())
    smoothed["f.tied"] = smoothed["a.weight"]
    smoothed["g.count"] = Tensor(storages[3], 0, ())
    smoothed._metadata = collections.OrderedDict([("", {"version": 1}), ("a", {"version": 1})])
    plain = {"a.weight": Tensor(storages[4], 0, (1,))}
    everything = {"epoch": 70000, "params": plain, "params_ema": smoothed, "note": None, "name": "x"}
    out = io.BytesIO()
    Pickler(out, protocol=2).dump(everything)
    with zipfile.ZipFile(folder / "state.pth", "w") as archive:
        members = [("data.pkl", out.getvalue()), ("byteorder", b"little")]
        members += [(f"data/{storage.key}", storage.data) for storage in storages]
        for name, data in members + [("version", b"3\n")]:
            archive.writestr(zipfile.ZipInfo(f"state/{name}"), data)
    values = wide[:24] + wide[24:] + half + top + half[11:] + wide[:24]
    (folder / "state.f32").write_bytes(struct.pack(f"<{len(values)}f", *values))


main(pathlib.Path(sys.argv[1]))
