#!/usr/bin/env python3
"""Includes point down only: checks the #include lines of src/ and include/ against the layer table.

The table is the one of docs/architecture.md. A name that ends in .h admits that header alone.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# layer -> what it may include besides itself and the public headers of BASE.
ALLOWED = {
    "core": (),
    "ops": ("core",),
    "cpu": ("ops", "core"),
    "cuda": ("ops", "core"),
    "io": ("core",),
    "text": ("core", "io"),
    "model": ("core", "ops", "io"),
    "engine": ("core", "ops", "io", "text", "model", "cpu/backend.h", "cuda/backend.h"),
    "train": ("core", "ops", "model", "io"),
    "plan": ("core", "ops", "io", "model/config.h", "model/device_placement.h", "model/model_stats.h"),
    "measure": ("core", "ops", "model", "engine", "plan", "io", "text", "cpu/backend.h", "cpu/peak.h"),
    "serve": ("core", "engine", "text"),
    "cli": ("core", "io", "text", "engine", "plan", "measure", "train", "serve",
            "model/config.h", "model/loader.h", "model/model_stats.h", "model/quantize.h", "model/synth.h"),
}
# Public headers: the plain types and interfaces of all layers, and those that belong to one layer.
BASE = ("constraint.h", "error.h", "memory_plan.h", "types.h", "version.h")
OWNER = {"tokenizer.h": "text", "chat.h": "text", "config.h": "model", "plan.h": "plan"}
# Layers that see the engine only as the public interface.
PUBLIC_ONLY = ("cli", "serve")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1)


def admitted(layer, target):
    """Why `layer` may not include `target` ("layer/file.h"), or None."""
    head, _, name = target.partition("/")
    if head == "baltoro":
        if name in BASE:
            return None
        head = OWNER.get(name, "engine")
    elif head == "engine" and layer in PUBLIC_ONLY and target not in ALLOWED[layer]:
        return "only the public headers of the engine"
    if head == layer or head in ALLOWED[layer] or target in ALLOWED[layer]:
        return None
    return f"{layer} may include {', '.join(ALLOWED[layer]) or 'nothing of ours'}"


def check(path, layer):
    for number, target in includes(path):
        where = f"{path.relative_to(ROOT)}:{number}: \"{target}\""
        head = target.split("/")[0]
        if layer == "baltoro":
            if head != "baltoro":
                yield f"{where}: public headers include public headers only"
        elif head not in ALLOWED and head != "baltoro":
            # Leaf loops are included by the objects of their own folder.
            if not (path.parent / target).exists():
                yield f"{where}: write the path from src/ or include/"
        else:
            why = admitted(layer, target)
            if why:
                yield f"{where}: {why}"


def main():
    errors = []
    for folder in (ROOT / "src", ROOT / "include"):
        for path in sorted(folder.rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu", ".cuh"):
                continue
            layer = path.relative_to(folder).parts[0]
            if layer not in ALLOWED and layer != "baltoro":
                errors.append(f"{path.relative_to(ROOT)}: no layer named {layer}")
                continue
            errors += check(path, layer)
    print("\n".join(errors) if errors else "layers: every include points down")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
