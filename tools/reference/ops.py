"""The operations of Kimi K3 and Kimi Linear, each as its equation reads.

Shapes: T tokens, H heads, K key width, V value width, D model width. Every function takes and
returns one floating type, float64 or float32. `Numerics` says whether values are also rounded to
bfloat16 at the places where the released bf16 code rounds them.
"""
from __future__ import annotations

import torch
import torch.nn.functional as F

L2_EPS = 1e-6       # inside the root, on the sum of squares
TILE = 16           # tokens a decay tile spans: 16 * 5 nats = 80 < 88, the range of float32's exp


class Numerics:
    """dtype of the arithmetic, and the rounding points: with bf16 every `r(x)` is rounded."""

    def __init__(self, dtype: torch.dtype = torch.float64, bf16: bool = False):
        self.dtype, self.bf16 = dtype, bf16

    def r(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16).to(self.dtype) if self.bf16 else x

    def linear(self, w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.r(x @ w.transpose(-1, -2))

    def rms_norm(self, x: torch.Tensor, gain: torch.Tensor, eps: float) -> torch.Tensor:
        """The released code rounds the normalised value and again the product with the gain."""
        return self.r(self.r(rms_unit(x, eps)) * gain)


def rms_unit(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def l2_unit(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + L2_EPS)


def situ_glu(g: torch.Tensor, u: torch.Tensor, beta: float, linear_beta: float) -> torch.Tensor:
    """beta tanh(g/beta) sigma(g) * linear_beta tanh(u/linear_beta); sigma takes the uncapped g."""
    return beta * torch.tanh(g / beta) * torch.sigmoid(g) * linear_beta * torch.tanh(u / linear_beta)


def short_conv(x: torch.Tensor, taps: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
    """y[t,c] = sum_j taps[c,j] x[t-W+1+j,c], then SiLU. x [T,C], taps [C,W], history [W-1,C]."""
    padded = torch.cat((history, x))
    width, T = taps.shape[1], x.shape[0]
    y = sum(taps[:, j] * padded[j:j + T] for j in range(width))
    return y * torch.sigmoid(y)


def decay_gate(z: torch.Tensor, a_log: torch.Tensor, lower_bound) -> torch.Tensor:
    """The log decay g of z [T,H,K] (dt_bias included) and a_log [H]: two forms, not one clamped."""
    a = torch.exp(a_log)[:, None]
    if lower_bound is None:
        return -a * F.softplus(z)
    return lower_bound * torch.sigmoid(a * z)


def kda_recurrent(q, k, v, g, beta, state):
    """S <- Diag(e^g) S;  S <- S + k (beta (v - S^T k))^T;  o = S^T q, token by token.

    q, k, g [T,H,K], v [T,H,V], beta [T,H], state [H,K,V] -> o [T,H,V], state. q is scaled."""
    out = []
    for t in range(q.shape[0]):
        state = torch.exp(g[t]).unsqueeze(-1) * state
        u = torch.einsum("hkv,hk->hv", state, k[t])
        state = state + torch.einsum("hk,hv->hkv", k[t], beta[t].unsqueeze(-1) * (v[t] - u))
        out.append(torch.einsum("hkv,hk->hv", state, q[t]))
    return torch.stack(out), state


def decayed_scores(a, b, G, bounded: bool):
    """M_ij = sum_d a_id b_jd exp(G_id - G_jd) for i >= j, else 0.  a, b, G [H,C,K] -> [H,C,C].

    No exponent exceeds 0 unless the gate is bounded. A row tile of 16 tokens is anchored at its
    first row: both factors of an off-diagonal product are then at most 1. Inside the tile, the
    bounded gate keeps the right factor below e^80; the softplus gate needs each pair for itself."""
    H, C, _ = a.shape
    rows = []
    for first in range(0, C, TILE):
        last = min(first + TILE, C)
        anchor = G[:, first:first + 1]
        left = a[:, first:last] * torch.exp(G[:, first:last] - anchor)
        row = torch.zeros(H, last - first, C, dtype=a.dtype, device=a.device)
        row[:, :, :first] = left @ (b[:, :first] * torch.exp(anchor - G[:, :first])).transpose(1, 2)
        if bounded:
            tile = left @ (b[:, first:last] * torch.exp(anchor - G[:, first:last])).transpose(1, 2)
        else:
            span = G[:, first:last, None] - G[:, None, first:last]
            pair = a[:, first:last, None] * b[:, None, first:last]
            tile = (pair * torch.exp(torch.clamp(span, max=0.0))).sum(-1)
        row[:, :, first:last] = tile
        rows.append(row)
    return torch.tril(torch.cat(rows, dim=1))


def kda_chunkwise(q, k, v, g, beta, state, bounded: bool, chunk: int = 64):
    """The same function as kda_recurrent, chunk by chunk (same arguments).

    (I + A) U = Diag(beta) V,  (I + A) W = Diag(beta) (e^G * K),  Vn = U - W S,
    O = (Q * e^G) S + P Vn,  S <- Diag(e^G_last) S + (e^(G_last - G) * K)^T Vn."""
    out = []
    for first in range(0, q.shape[0], chunk):
        part = slice(first, first + chunk)
        qc, kc, vc, gc = (x[part].transpose(0, 1) for x in (q, k, v, g))
        bc = beta[part].transpose(0, 1).unsqueeze(-1)
        G = torch.cumsum(gc, dim=1)
        eye = torch.eye(G.shape[1], dtype=q.dtype, device=q.device)
        A = torch.tril(bc * decayed_scores(kc, kc, G, bounded), diagonal=-1)
        both = torch.cat((bc * vc, bc * torch.exp(G) * kc), dim=-1)
        both = torch.linalg.solve_triangular(eye + A, both, upper=False, unitriangular=True)
        new = both[..., :vc.shape[-1]] - both[..., vc.shape[-1]:] @ state
        P = decayed_scores(qc, kc, G, bounded)
        out.append(((qc * torch.exp(G)) @ state + P @ new).transpose(0, 1))
        last = G[:, -1:]
        state = torch.exp(last).transpose(1, 2) * state + (torch.exp(last - G) * kc).transpose(1, 2) @ new
    return torch.cat(out), state


def rotate(x: torch.Tensor, first: int, theta: float) -> torch.Tensor:
    """Rotates adjacent pairs (2i, 2i+1) of x [T,...,R] by (first + t) * theta^(-2i/R)."""
    T, R = x.shape[0], x.shape[-1]
    position = torch.arange(first, first + T, dtype=x.dtype)
    angle = position[:, None] * torch.pow(torch.tensor(theta, dtype=x.dtype),
                                          -torch.arange(0, R, 2, dtype=x.dtype) / R)
    angle = angle.reshape(T, *([1] * (x.dim() - 2)), R // 2)
    a, b = x[..., 0::2], x[..., 1::2]
    turned = (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos())
    return torch.stack(turned, dim=-1).flatten(-2)


def causal_softmax(scores: torch.Tensor) -> torch.Tensor:
    """scores [H,T,N] of the last T of N tokens; a token sees itself and what came before."""
    T, N = scores.shape[-2:]
    future = torch.ones(T, N, dtype=torch.bool, device=scores.device).triu(N - T + 1)
    return torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)


def residual_mix(sources, gain, query, eps: float) -> torch.Tensor:
    """softmax over the sources of (w . RMSNorm(v_i)), w = gain * query, applied to the raw v_i."""
    v = torch.stack(sources)                                          # [M,T,D]
    scores = (rms_unit(v, eps) * (gain * query.reshape(-1))).sum(-1)  # [M,T]
    return (torch.softmax(scores, dim=0).unsqueeze(-1) * v).sum(0)


def route(logits, bias, count: int, renormalize: bool, scale: float):
    """The chosen experts [T,A] (by biased score, lowest index on ties) and their weights [T,A]
    (from the scores without the bias)."""
    s = torch.sigmoid(logits)
    chosen = torch.argsort(s + bias, dim=-1, descending=True, stable=True)[:, :count]
    w = s.gather(1, chosen)
    if renormalize:
        w = w / (w.sum(-1, keepdim=True) + 1e-20)
    return chosen, w * scale
