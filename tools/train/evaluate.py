"""Held-out bits per byte of prose, and exact match per skill, of a FastModel."""
from __future__ import annotations

import json
import math
import os

import numpy as np
import torch

import data

STRIDE = data.WINDOW // 2       # prose: each token is predicted with at least this much context


class Evaluator:
    """Reads valid_*.ids.u16 of a folder once."""

    def __init__(self, folder: str, batch: int, device):
        self.batch, self.device = batch, device
        with open(os.path.join(folder, "meta.json"), encoding="utf-8") as f:
            self.meta = json.load(f)
        self.prose = {os.path.basename(b): self._stream(b) for b in data.sources(folder, "valid_*")
                      if not b.endswith("valid_skills")}
        base = os.path.join(folder, "valid_skills")
        self.skills = None
        if data.sources(folder, "valid_skills"):
            self.skills = self._stream(base)
            self.document = data.starts_of(base).astype(np.int64)
            kinds = base + ".kinds.txt"
            self.kinds = None
            if os.path.exists(kinds):
                with open(kinds, encoding="utf-8") as f:
                    self.kinds = f.read().split("\n")

    def _stream(self, base):
        ids, flags = data.read_source(base)
        pad = data.WINDOW + 1       # filler behind the end, never a target
        ids = np.concatenate((ids, np.zeros(pad, np.uint16))).astype(np.int32)
        flags = np.concatenate((flags, np.full(pad, data.START, np.uint8)))
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(flags).to(self.device)

    def _batches(self, stream, stride):
        """Yields (first [n], ids, starts, target, weight), padded to whole batches (weight 0)."""
        ids, flags = stream
        count = len(ids) - data.WINDOW - 1
        firsts = torch.arange(0, max(1, count - 1), stride)
        firsts = firsts[firsts + data.WINDOW <= len(ids) - 1]
        for at in range(0, len(firsts), self.batch):
            first = firsts[at:at + self.batch]
            n = len(first)
            first = torch.cat((first, first.new_zeros(self.batch - n)))
            window = data.cut(ids, flags, first)
            window[3][n:] = 0.0
            yield first[:n], window

    def bits_per_byte(self, model, name) -> float:
        nats, size = 0.0, self.meta[name]["bytes"]
        for first, (ids, starts, target, weight) in self._batches(self.prose[name], STRIDE):
            seen = torch.arange(data.WINDOW, device=ids.device) < data.WINDOW - STRIDE
            keep = torch.ones_like(weight)
            keep[:len(first)][(first > 0).to(ids.device)] = (~seen).float()
            nll = model.nll(ids, starts, target).detach()
            nats += float((nll * weight * keep).double().sum())
        return nats / math.log(2.0) / size

    def exact_match(self, model) -> dict:
        """skill -> (exact, of): a document is exact if the argmax is the target wherever the loss counts,
        which is the same as greedy decoding of the answers."""
        wrong = torch.zeros(len(self.skills[0]), dtype=torch.bool)
        nats = weight_sum = 0.0
        for first, (ids, starts, target, weight) in self._batches(self.skills, data.WINDOW):
            x = model.hidden(ids, starts).detach()
            w = model.params["lm_head.weight"].detach().to(x.dtype)
            best = torch.stack([(row @ w.t()).argmax(-1) for row in x])
            nll = model.head(x, model.params["lm_head.weight"], target).detach()
            nats += float((nll * weight).double().sum())
            weight_sum += float(weight.sum())
            miss = ((best != target) & (weight > 0)).cpu()
            for i, f in enumerate(first.tolist()):
                wrong[f + 1:f + 1 + data.WINDOW] = miss[i]
        answers = (self.skills[1].cpu() & data.COUNTS) != 0
        out: dict = {}
        ends = np.concatenate((self.document[1:], [len(wrong)]))
        for i, (a, b) in enumerate(zip(self.document, ends)):
            if not bool(answers[a:b].any()):
                continue
            kind = self.kinds[i] if self.kinds else "all"
            hit, total = out.get(kind, (0, 0))
            out[kind] = (hit + int(not bool(wrong[a:b].any())), total + 1)
        return {"skills_nats": nats / max(weight_sum, 1.0),
                "exact": {k: [hit, total] for k, (hit, total) in sorted(out.items())}}

    def run(self, model) -> dict:
        out = {name: self.bits_per_byte(model, name) for name in self.prose}
        if self.skills is not None:
            out.update(self.exact_match(model))
        return out
