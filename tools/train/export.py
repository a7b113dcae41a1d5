"""Parameters of the trainer -> a checkpoint folder in the released layout."""
from __future__ import annotations

import json
import os

import torch

import checkpoint
import config as config_lib

F32 = ("A_log", "dt_bias", "e_score_correction_bias", "conv1d.weight", "o_norm.weight")


def tensors(c: config_lib.Config, params: dict) -> dict:
    """Released names -> tensors as stored: MXFP4 experts, F32 as released, BF16 otherwise."""
    out = {}
    for name, shape in config_lib.inventory(c).items():
        full = "language_model." + name
        if ".experts." in name:
            prefix, rest = name.split(".experts.")
            expert, matrix = rest.split(".")[:2]
            w = params[f"{prefix}.experts.{matrix}"][int(expert)].detach().float().cpu()
            out[full + "_packed"], out[full + "_scale"] = checkpoint.encode_mxfp4(w)
            continue
        w = params[name].detach().float().cpu()
        if name.endswith("A_log"):          # the released file pads it to head_dim
            w = torch.cat((w.flatten(), torch.zeros(shape[0] - w.numel())))
        out[full] = w if name.endswith(F32) else w.to(torch.bfloat16)
    return out


def write(c: config_lib.Config, params: dict, folder: str, shards: int = 2) -> int:
    """Writes the shards, about equal in size, and the index; returns the bytes of tensor data."""
    os.makedirs(folder, exist_ok=True)
    everything = tensors(c, params)
    total = sum(t.numel() * t.element_size() for t in everything.values())
    parts, size = [{} for _ in range(shards)], 0
    for name, t in everything.items():
        parts[min(shards - 1, size * shards // total)][name] = t
        size += t.numel() * t.element_size()
    weight_map = {}
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        checkpoint.write_safetensors(os.path.join(folder, file), part)
        weight_map.update({name: file for name in part})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, f, indent=1)
        f.write("\n")
    return total
