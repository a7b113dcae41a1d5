"""Files of the released layout: safetensors with an index, and MXFP4 matrices.

MXFP4 (k = 0, 1, ...): element 2k of a row is the low nibble of byte k, element 2k+1 the high one.
A code is a sign (bit 3) and an index into MAGNITUDES; 32 elements share the scale 2^(byte-127).
"""
from __future__ import annotations

import json
import os
import struct

import numpy as np
import torch

import config as config_lib

GROUP = 32
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# Halfway points between neighbouring magnitudes; a tie goes to the even code.
_MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
           "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8}
_NAMES = {v: k for k, v in _DTYPES.items()}


def decode_mxfp4(packed: torch.Tensor, scale: torch.Tensor, dtype=torch.float64) -> torch.Tensor:
    """packed U8 [R, C/2], scale U8 [R, C/32] -> [R, C]; exact in float32 for scale bytes 1..254."""
    if bool((scale == 255).any()):
        raise ValueError("MXFP4: scale byte 255 is NaN")
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2).long()
    table = torch.tensor(MAGNITUDES + tuple(-m for m in MAGNITUDES), dtype=torch.float64, device=packed.device)
    factor = torch.pow(2.0, scale.double() - 127.0).repeat_interleave(GROUP, dim=-1)
    return (table[codes] * factor).to(dtype)


def encode_mxfp4(w: torch.Tensor) -> tuple:
    """[R, C] -> packed U8 [R, C/2], scale U8 [R, C/32], by the OCP rule: a group's exponent is that
    of its largest magnitude, less 2 (the exponent of 4); larger values clamp to 6."""
    x = w.double().reshape(*w.shape[:-1], -1, GROUP)
    biggest = x.abs().amax(-1, keepdim=True)
    exponent = torch.floor(torch.log2(torch.clamp(biggest, min=2.0 ** -120))) - 2.0
    y = x / torch.pow(2.0, exponent)
    bounds = torch.tensor(_MIDPOINTS, dtype=torch.float64, device=w.device)
    low = torch.bucketize(y.abs(), bounds)               # a tie counts as below the bound ...
    high = torch.bucketize(y.abs(), bounds, right=True)  # ... or as above it
    magnitude = torch.where(low % 2 == 0, low, high)
    codes = (magnitude + 8 * (torch.signbit(y)).long()).reshape(w.shape).to(torch.uint8)
    packed = codes[..., 0::2] | (codes[..., 1::2] << 4)
    return packed, (exponent.squeeze(-1) + 127.0).to(torch.uint8)


def read_safetensors(path: str) -> dict:
    """All tensors of one file, in the dtype of the file."""
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        data = np.frombuffer(f.read(), dtype=np.uint8)
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = torch.from_numpy(data[begin:end].copy())
        out[name] = raw.view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return out


def write_safetensors(path: str, tensors: dict) -> int:
    """Writes the tensors in the given order; returns the number of data bytes."""
    header, offset, parts = {}, 0, []
    for name, t in tensors.items():
        t = t.detach().cpu().contiguous()
        raw = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
        header[name] = {"dtype": _NAMES[t.dtype], "shape": list(t.shape),
                        "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        parts.append(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for raw in parts:
            f.write(raw)
    return offset


def read_checkpoint(model_dir: str) -> dict:
    """Tensors of a model folder, one file or sharded by an index, without `language_model.`."""
    index = os.path.join(model_dir, "model.safetensors.index.json")
    files = ["model.safetensors"]
    if os.path.exists(index):
        with open(index, encoding="utf-8") as f:
            files = sorted(set(json.load(f)["weight_map"].values()))
    out = {}
    for name in files:
        for key, value in read_safetensors(os.path.join(model_dir, name)).items():
            if key.startswith("language_model."):
                key = key[len("language_model."):]
            out[key] = value
    return out


def load_weights(c: config_lib.Config, tensors: dict, dtype: torch.dtype) -> dict:
    """The tensors of `inventory(c)` in `dtype`, each checked for its shape, experts unpacked.

    The experts of a layer are stacked: `...block_sparse_moe.experts.w1` is [E, F, Z]."""
    out, stacks = {}, {}
    tensors = dict(tensors)
    for name, shape in config_lib.inventory(c).items():
        if name in tensors:
            value = tensors.pop(name).to(dtype)
            if name.endswith("conv1d.weight") and value.dim() == 2:
                value = value.unsqueeze(1)
        elif name + "_packed" in tensors:
            value = decode_mxfp4(tensors.pop(name + "_packed"), tensors.pop(name + "_scale"), dtype)
        else:
            raise ValueError(f"checkpoint lacks {name}")
        if name.endswith("A_log"):
            value = value.flatten()
            if value.numel() not in (c.kda_heads, c.kda_dk):
                raise ValueError(f"{name}: {value.numel()} entries")
            value = value[:c.kda_heads]      # the released K3 pads it to head_dim
        elif tuple(value.shape) != tuple(shape):
            raise ValueError(f"{name}: expected {tuple(shape)}, found {tuple(value.shape)}")
        if ".experts." in name and "shared" not in name:
            prefix, rest = name.split(".experts.")
            stacks.setdefault(f"{prefix}.experts.{rest.split('.')[1]}", []).append(value)
        else:
            out[name] = value
    if tensors:
        raise ValueError(f"checkpoint has unknown tensors: {sorted(tensors)[:5]}")
    out.update({name: torch.stack(parts) for name, parts in stacks.items()})
    return out
