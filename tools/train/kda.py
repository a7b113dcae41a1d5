"""Kimi Delta Attention for training: chunkwise, packed documents, with gradients.

The chunkwise form of the reference (tools/reference/ops.py), batched over sequences, heads and chunks.
A document start inside a window must reset the state. The log decays cannot express that (they must
stay within the bounded gate's range), so masks do: pairs of one document only; a row reads the state
that enters its chunk only if no document began since; a row feeds the state that leaves its chunk
only if no document begins after it.

Two parts are not left to autograd: the triangular inverse and the scan over chunks. Both have a
Triton kernel and a plain version that computes the same.
"""
from __future__ import annotations

import torch
import torch.nn.functional as F

CHUNK = 64
TILE = 16       # 16 tokens * 5 nats = 80 < 88: both factors of a tile product stay in float32's range

try:
    import triton_kernels
except ImportError:             # no Triton here: the plain versions below
    triton_kernels = None
USE_TRITON = False              # set by train.py after it has compared both on the device


def document_masks(doc: torch.Tensor, dtype: torch.dtype) -> tuple:
    """doc [B,T] (a number per document) -> pair [B,1,N,C,C], read, write [B,1,N,C,1], carry [B,1,N,1,1]."""
    d = doc.reshape(doc.shape[0], 1, -1, CHUNK)
    last = d[..., -1:]
    before = torch.cat((last[:, :, :1], last[:, :, :-1]), dim=2)    # nothing enters the first chunk
    pair = (d.unsqueeze(-1) == d.unsqueeze(-2)).to(dtype).tril()
    return (pair, (d == before).to(dtype).unsqueeze(-1), (d == last).to(dtype).unsqueeze(-1),
            (last == before).to(dtype).unsqueeze(-1))


def decayed_scores(q, kb, k, G):
    """P_ij = sum_d q_id k_jd e^(G_id - G_jd) and the same with kb for q; all [..,C,K] -> two [..,C,C].

    Entries above the diagonal are finite, but without meaning."""
    C = G.shape[-2]
    anchor = G[..., ::TILE, :]
    rel = torch.exp(G - anchor.repeat_interleave(TILE, dim=-2))
    ql, kl = q * rel, kb * rel
    rows_p, rows_a = [], []
    for i in range(C // TILE):
        first, last = i * TILE, (i + 1) * TILE
        right = k[..., :last, :] * torch.exp(anchor[..., i:i + 1, :] - G[..., :last, :])
        left = torch.cat((ql[..., first:last, :], kl[..., first:last, :]), dim=-2)
        s = F.pad(left @ right.transpose(-1, -2), (0, C - last))
        rows_p.append(s[..., :TILE, :])
        rows_a.append(s[..., TILE:, :])
    return torch.cat(rows_p, dim=-2), torch.cat(rows_a, dim=-2)


def plain_inverse(a: torch.Tensor) -> torch.Tensor:
    """(I + a)^-1 of strictly lower a [M,C,C], by doubling the size of the inverted diagonal blocks:
    inverse of [[A,0],[L,B]] = [[A^-1, 0], [-B^-1 L A^-1, B^-1]]. No power of a is formed."""
    C = a.shape[-1]
    index = torch.arange(C, device=a.device)
    x = torch.eye(C, dtype=a.dtype, device=a.device).expand_as(a)
    size = 1
    while size < C:
        r, c = index[:, None] // size, index[None, :] // size
        block = ((r % 2 == 1) & (c == r - 1)).to(a.dtype)
        x = x - x @ ((a * block) @ x)
        size *= 2
    return x


class UnitLowerInverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        x = triton_kernels.inverse(a) if USE_TRITON else plain_inverse(a)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, dx):
        (x,) = ctx.saved_tensors
        xt = x.transpose(-1, -2)
        return -(xt @ (dx @ xt)).tril(-1)


def plain_scan(w, u, kd, decay):
    """vn_n = u_n - w_n h_n;  h_(n+1) = Diag(decay_n) h_n + kd_n^T vn_n.  w, kd [S,N,C,K], u [S,N,C,V],
    decay [S,N,K] -> vn [S,N,C,V] and the states h [S,N,K,V] that enter the chunks."""
    S, N, _, K = w.shape
    h = w.new_zeros(S, K, u.shape[-1])
    states, new = [], []
    for n in range(N):
        states.append(h)
        vn = torch.baddbmm(u[:, n], w[:, n], h, alpha=-1.0)
        h = torch.baddbmm(decay[:, n].unsqueeze(-1) * h, kd[:, n].transpose(1, 2), vn)
        new.append(vn)
    return torch.stack(new, dim=1), torch.stack(states, dim=1)


def plain_scan_backward(w, kd, decay, dvn, dh):
    """The serial half of the gradient: total dvn [S,N,C,V], and D [S,N,K,V], that of the state leaving."""
    S, N, _, K = w.shape
    d = w.new_zeros(S, K, dvn.shape[-1])
    total, leaving = [None] * N, [None] * N
    for n in reversed(range(N)):
        leaving[n] = d
        total[n] = torch.baddbmm(dvn[:, n], kd[:, n], d)
        d = torch.baddbmm(decay[:, n].unsqueeze(-1) * d + dh[:, n], w[:, n].transpose(1, 2), total[n], alpha=-1.0)
    return torch.stack(total, dim=1), torch.stack(leaving, dim=1)


class ChunkScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, u, kd, decay):
        vn, h = (triton_kernels.scan if USE_TRITON else plain_scan)(w, u, kd, decay)
        ctx.save_for_backward(w, kd, decay, vn, h)
        return vn, h

    @staticmethod
    def backward(ctx, dvn, dh):
        w, kd, decay, vn, h = ctx.saved_tensors
        backward = triton_kernels.scan_backward if USE_TRITON else plain_scan_backward
        du, d = backward(w, kd, decay, dvn.contiguous(), dh.contiguous())
        return -du @ h.transpose(-1, -2), du, vn @ d.transpose(-1, -2), (h * d).sum(-1)


def prepare(q, k, v, g, beta, masks):
    """All that precedes the inverse. q, k, g [B,H,N,C,K], v [B,H,N,C,V], beta [B,H,N,C,1]."""
    pair, read, write, carry = masks
    G = torch.cumsum(g, dim=-2)
    kb = beta * k
    P, A = decayed_scores(q, kb, k, G)
    last = G[..., -1:, :]
    eG = torch.exp(G) * read
    return (P * pair, (A * pair).tril(-1), beta * v, kb * eG, k * torch.exp(last - G) * write,
            (torch.exp(last) * carry).squeeze(-2), q * eG)


def chunkwise(parts, finish):
    """The rest: parts of `prepare`; `finish(qg, h, P, vn)` gives the output from the scan's results."""
    P, A, bv, bkg, kd, decay, qg = parts
    B, H, N, C, K = kd.shape
    X = UnitLowerInverse.apply(A.reshape(-1, C, C)).reshape(A.shape)
    u, w = X @ bv, X @ bkg

    def flat(t):
        return t.reshape(B * H, *t.shape[2:]).contiguous()
    vn, h = ChunkScan.apply(flat(w), flat(u), flat(kd), flat(decay))
    return finish(qg, h.reshape(B, H, N, K, -1), P, vn.reshape(B, H, N, C, -1))
