#!/usr/bin/env python3
"""Compares the reference with the logits of engines that are not ours (tests/data/goldens).

Writes the checkpoints with tools/make_checkpoint.py and checks their hashes. Prints the numbers;
fails when the normalised mean square error exceeds 1e-9 or an argmax or greedy token differs.

Usage: check_goldens.py [--write FILE]
"""
from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile

import torch

from model import Model

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# eps of the latent norms, as the engine that made the golden uses it
GOLDENS = {"tiny-logits": (["--preset", "tiny", "--seed", "1"], 1e-5),
           "tiny-linear-logits": (["--preset", "tiny-linear", "--seed", "3"], 1e-6)}
LIMIT = 1e-9


def sha256(path: str) -> str:
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def check(name: str, preset: list, eps: float, out: list) -> bool:
    with open(os.path.join(ROOT, "tests/data/goldens", name + ".json"), encoding="utf-8") as f:
        golden = json.load(f)
    expected = torch.tensor(golden["logits"], dtype=torch.float64)
    ok = True
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.join(ROOT, "tools/make_checkpoint.py"), *preset, "--out", folder],
                       check=True, stdout=subprocess.DEVNULL)
        for file, digest in golden["sha256"].items():
            if sha256(os.path.join(folder, file)) != digest:
                raise SystemExit(f"{name}: {file} is not the checkpoint of the golden")
        for label, options in (("float64 recurrent expanded", {}),
                               ("float64 chunkwise absorbed", {"chunkwise": True, "absorbed": True}),
                               ("float32 recurrent expanded", {"dtype": torch.float32})):
            model = Model.from_dir(folder, latent_norm_eps=eps, **options)
            logits = model.forward(golden["prompt_ids"]).double()
            same = int((logits.argmax(-1) == torch.tensor(golden["argmax"])).sum())
            error = logits[golden.get("rows", range(len(logits)))] - expected
            nmse = float(error.square().sum() / expected.square().sum())
            greedy = model.greedy(golden["prompt_ids"], len(golden["greedy_ids"]))
            agree = sum(a == b for a, b in zip(greedy, golden["greedy_ids"]))
            out.append(f"{name:20} {label:28} nmse {nmse:.2e}  max {float(error.abs().max()):.1e}"
                       f"  argmax {same}/{len(golden['argmax'])}  greedy {agree}/{len(greedy)}")
            print(out[-1])
            ok &= nmse <= LIMIT and same == len(golden["argmax"]) and agree == len(greedy)
    return ok


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--write", help="also write the numbers to this file")
    a = ap.parse_args()
    lines: list = []
    ok = all([check(name, *args, lines) for name, args in GOLDENS.items()])
    if a.write:
        with open(a.write, "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
