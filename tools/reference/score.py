#!/usr/bin/env python3
"""Mean loss of a token file under a checkpoint: float32 without rounding, and with bf16 rounding points.

The file is cut into windows of --window tokens, each a fresh sequence; the loss of a window's first
token is not counted. Prints nats per token and, for --windows of them, how the two modes differ.

Usage: score.py MODEL_DIR IDS_FILE [--window 1024] [--windows 8]
IDS_FILE: little-endian uint16 (name ends in .u16), or text with one id per blank-separated word.
"""
from __future__ import annotations

import argparse

import numpy as np
import torch

from model import Model


def read_ids(path: str) -> list:
    if path.endswith(".u16"):
        return np.fromfile(path, "<u2").astype(int).tolist()
    with open(path, encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


def losses(model: Model, ids: list) -> torch.Tensor:
    """Nats of ids[1:] given what came before each."""
    logits = model.forward(ids[:-1]).double()
    return torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model_dir")
    ap.add_argument("ids_file")
    ap.add_argument("--window", type=int, default=1024)
    ap.add_argument("--windows", type=int, default=8)
    a = ap.parse_args()
    ids = read_ids(a.ids_file)
    cuts = [ids[i:i + a.window] for i in range(0, len(ids), a.window)][:a.windows]
    cuts = [c for c in cuts if len(c) > 1]
    for label, bf16 in (("float32", False), ("bf16", True)):
        model = Model.from_dir(a.model_dir, torch.float32, bf16, chunkwise=True)
        nats = torch.cat([losses(model, c) for c in cuts])
        print(f"{label:8} {float(nats.mean()):.6f} nats per token over {len(nats)} tokens")


if __name__ == "__main__":
    with torch.no_grad():
        main()
