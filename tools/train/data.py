"""Token streams for training: flat ids with document starts and a loss mask, windows cut on the device."""
from __future__ import annotations

import glob
import lzma
import os

import numpy as np
import torch

START, COUNTS = 1, 2        # bits of a token's flags: begins a document; is a target of the loss
WINDOW = 1024


def _read(path: str, dtype) -> np.ndarray:
    if os.path.exists(path + ".xz"):
        with lzma.open(path + ".xz") as f:
            return np.frombuffer(f.read(), dtype=dtype)
    return np.fromfile(path, dtype=dtype)


def read_source(base: str) -> tuple:
    """(ids u16 [N], flags u8 [N]) of BASE.ids.u16, BASE.starts.u32 and BASE.mask.u8 (.xz or plain)."""
    ids = _read(base + ".ids.u16", "<u2")
    starts = _read(base + ".starts.u32", "<u4")
    flags = np.full(len(ids), COUNTS, dtype=np.uint8)
    if os.path.exists(base + ".mask.u8") or os.path.exists(base + ".mask.u8.xz"):
        flags = (_read(base + ".mask.u8", np.uint8) != 0).astype(np.uint8) * COUNTS
    flags[starts] = START       # a document's first token has no context: never a target
    return ids, flags


def starts_of(base: str) -> np.ndarray:
    return _read(base + ".starts.u32", "<u4")


class Stream:
    """Sources behind one another on the device, and the order in which windows of them are visited."""

    def __init__(self, bases: list, device, seed: int, aligned: bool):
        parts = [read_source(b) for b in bases]
        end = (np.zeros(1, np.uint16), np.array([START], np.uint8))     # what follows the last window
        self.ids = torch.from_numpy(np.concatenate([p[0] for p in parts] + [end[0]]).astype(np.int32)).to(device)
        self.flags = torch.from_numpy(np.concatenate([p[1] for p in parts] + [end[1]])).to(device)
        self.rng, self.aligned, self.epochs = np.random.default_rng(seed), aligned, 0
        self.order, self.at = self._shuffle(), 0

    def _shuffle(self):
        """Starts of all windows in random order; where they may be cut anywhere, from a random offset."""
        tokens = len(self.ids) - 1
        offset = 0 if self.aligned else int(self.rng.integers(0, WINDOW))
        first = offset + WINDOW * np.arange((tokens - offset) // WINDOW)
        return self.rng.permutation(first)

    def next(self, count: int) -> torch.Tensor:
        """Starts of the next `count` windows, on the host."""
        if self.at + count > len(self.order):
            self.order, self.at = self._shuffle(), 0
            self.epochs += 1
        self.at += count
        return torch.from_numpy(self.order[self.at - count:self.at])


def cut(ids: torch.Tensor, flags: torch.Tensor, first: torch.Tensor) -> tuple:
    """(ids, starts, target, weight), each [B, WINDOW], of the windows that begin at `first`."""
    at = first.to(ids.device).unsqueeze(1) + torch.arange(WINDOW + 1, device=ids.device)
    tokens, f = ids[at].long(), flags[at]
    return tokens[:, :-1], (f[:, :-1] & START).long(), tokens[:, 1:], ((f[:, 1:] & COUNTS) != 0).float()


def sources(folder: str, pattern: str) -> list:
    """Base paths of the sources whose name matches."""
    found = {p.split(".ids.u16")[0] for p in glob.glob(os.path.join(folder, pattern + ".ids.u16*"))}
    return sorted(found)
