"""Muon (per head for q, k, v) beside AdamW, and the router's quantile balancing.

Muon, for a matrix [m, n] (Moonlight, arXiv 2502.16982): M <- mu M + G; O = NewtonSchulz(G + mu M);
W <- W - lr (0.2 sqrt(max(m, n)) O + decay W). The factor gives the update the size of AdamW's, so one
learning rate serves both. All state lies in a few flat buffers, and the parameters are views of them.
"""
from __future__ import annotations

import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
MOMENTUM, STEPS = 0.95, 5
BETA1, BETA2, EPS = 0.9, 0.95, 1e-8
ALIGN = 64


def orthogonalise(g: torch.Tensor) -> torch.Tensor:
    """Newton-Schulz of a batch [n, r, c], in bfloat16 on the GPU."""
    a, b, c = COEFFICIENTS
    x = g.to(torch.bfloat16) if g.is_cuda else g
    tall = x.shape[-2] > x.shape[-1]
    x = x.transpose(-1, -2) if tall else x
    x = x / (x.float().square().sum((-1, -2), keepdim=True).sqrt() + 1e-7).to(x.dtype)
    for _ in range(STEPS):
        y = x @ x.transpose(-1, -2)
        x = a * x + (b * y + c * (y @ y)) @ x
    return x.transpose(-1, -2) if tall else x


def matrix_shape(name: str, p: torch.Tensor, c):
    """(rows, columns) of the matrices that make up a parameter for Muon, None for AdamW."""
    if p.dim() < 2 or "conv1d" in name or "_res_proj" in name or name.endswith(("A_log", ".b_proj.weight")):
        return None
    if "embed_tokens" in name or "lm_head" in name or name.endswith(".gate.weight"):
        return None
    rows, columns = p.shape[-2:]
    layer = int(name.split(".")[2])
    if c.is_kda(layer) and name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
        rows //= c.kda_heads
    elif name.endswith("q_b_proj.weight"):
        rows //= c.mla_heads
    elif name.endswith("kv_b_proj.weight") and c.nope_dim == c.mla_dv:
        rows //= 2 * c.mla_heads                # K and V of each head
    return rows, columns


class Group:
    """Parameters made of equal matrices; one buffer [n, r, c], the parameters views of it."""

    def __init__(self, shape, names, params):
        self.names = names
        self.buffer = torch.cat([params[n].detach().reshape(-1, *shape) for n in names])
        self.momentum = torch.zeros_like(self.buffer)
        self.scale = 0.2 * max(shape) ** 0.5
        at = 0
        for n in names:
            count = params[n].numel() // (shape[0] * shape[1])
            params[n] = self.buffer[at:at + count].reshape(params[n].shape).requires_grad_(True)
            at += count

    def step(self, grads, lr, decay):
        g = torch.cat([grads[n].reshape(-1, *self.buffer.shape[1:]) for n in self.names])
        self.momentum.mul_(MOMENTUM).add_(g)
        update = orthogonalise(g + MOMENTUM * self.momentum).to(self.buffer.dtype)
        self.buffer.sub_(lr * (self.scale * update + decay * self.buffer))


class Optimiser:
    """Takes `params` over: after this its entries are leaves that view the optimiser's buffers."""

    def __init__(self, c, params: dict, decay: float = 0.1):
        self.params, self.decay = params, decay
        shapes: dict = {}
        self.adam_names = []
        for name, p in params.items():
            if name.endswith("e_score_correction_bias"):
                continue            # not trained: balanced_bias sets it
            shape = matrix_shape(name, p, c)
            if shape is None:
                self.adam_names.append(name)
            else:
                shapes.setdefault(shape, []).append(name)
        self.groups = [Group(shape, names, params) for shape, names in shapes.items()]
        self._init_adam()

    def _init_adam(self):
        # Each parameter begins at a multiple of ALIGN entries: compiled kernels read 16 bytes at a time.
        flat = [torch.nn.functional.pad(self.params[n].detach().reshape(-1), (0, -self.params[n].numel() % ALIGN))
                for n in self.adam_names]
        self.flat = torch.cat(flat)
        self.first, self.second = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        # Decay the two embeddings and the router; never gates, biases, taps or gains.
        decayed = ("embed_tokens.weight", "lm_head.weight", ".gate.weight", ".b_proj.weight")
        self.flat_decay = torch.cat([torch.full_like(f, self.decay if n.endswith(decayed) else 0.0)
                                     for n, f in zip(self.adam_names, flat)])
        at = 0
        for n, f in zip(self.adam_names, flat):
            view = self.flat[at:at + self.params[n].numel()]
            self.params[n] = view.reshape(self.params[n].shape).requires_grad_(True)
            at += f.numel()

    @torch.no_grad()
    def step(self, grads: dict, lr: torch.Tensor, count: torch.Tensor):
        """lr, count (steps so far, from 1): scalars on the device, so that a recorded graph reads them."""
        for group in self.groups:
            group.step(grads, lr, self.decay)
        g = torch.cat([torch.nn.functional.pad(grads[n].reshape(-1), (0, -grads[n].numel() % ALIGN))
                       for n in self.adam_names])
        g = g * torch.clamp(1.0 / (g.norm() + 1e-6), max=1.0)       # clip to norm 1
        self.first.mul_(BETA1).add_(g, alpha=1.0 - BETA1)
        self.second.mul_(BETA2).add_(g * g, alpha=1.0 - BETA2)
        first = self.first / (1.0 - BETA1 ** count)
        second = self.second / (1.0 - BETA2 ** count)
        self.flat.sub_(lr * (first / (second.sqrt() + EPS) + self.flat_decay * self.flat))


def balanced_bias(scores: torch.Tensor, threshold: torch.Tensor, top: int) -> torch.Tensor:
    """Quantile balancing (K3 report 2.3.3): the bias with which each expert is chosen by top/E of the
    tokens. scores [M, E] without bias, threshold [M, 1] = the (top+1)-th biased score."""
    M, E = scores.shape
    required = torch.sort(threshold - scores, dim=0).values
    bias = required[min(M - 1, round(top * M / E))]
    return bias - bias.mean()
