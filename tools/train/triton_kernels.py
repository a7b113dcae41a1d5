"""Triton kernels of the KDA core: the unit lower triangular inverse and the scan over chunks.

Shapes as in kda.py, all float32 and contiguous; C, K, V powers of two from 16 to 64. Products are
in tf32, sums and the running state in float32.
"""
import torch
import triton
import triton.language as tl


@triton.jit
def _inverse(a_ptr, x_ptr, C: tl.constexpr, LEVELS: tl.constexpr):
    row = tl.arange(0, C)[:, None]
    col = tl.arange(0, C)[None, :]
    at = tl.program_id(0).to(tl.int64) * C * C + row * C + col
    a = tl.load(a_ptr + at)
    # Blocks of one row are inverted already, so the first doubling needs no product.
    x = tl.where(row == col, 1.0, 0.0) - tl.where((row % 2 == 1) & (col == row - 1), a, 0.0)
    for level in tl.static_range(1, LEVELS):
        r = row >> level
        block = (r % 2 == 1) & ((col >> level) == r - 1)
        left = tl.where(block, a, 0.0)
        x = x - tl.dot(x, tl.dot(left, x, input_precision="tf32"), input_precision="tf32")
    tl.store(x_ptr + at, x)


def inverse(a: torch.Tensor) -> torch.Tensor:
    a = a.contiguous()
    x = torch.empty_like(a)
    C = a.shape[-1]
    _inverse[(a.shape[0],)](a, x, C=C, LEVELS=C.bit_length() - 1, num_warps=4)
    return x


@triton.jit
def _scan(w_ptr, u_ptr, kd_ptr, decay_ptr, vn_ptr, h_ptr, N,
          C: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr):
    seq = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, C)[:, None]
    kr = tl.arange(0, K)[:, None]
    kc = tl.arange(0, K)[None, :]
    v = tl.program_id(1) * BV + tl.arange(0, BV)[None, :]
    h = tl.zeros((K, BV), dtype=tl.float32)
    for n in range(N):
        chunk = seq * N + n
        tl.store(h_ptr + chunk * K * V + kr * V + v, h)
        w = tl.load(w_ptr + chunk * C * K + c * K + kc)
        u = tl.load(u_ptr + chunk * C * V + c * V + v)
        vn = u - tl.dot(w, h, input_precision="tf32")
        tl.store(vn_ptr + chunk * C * V + c * V + v, vn)
        kd = tl.load(kd_ptr + chunk * C * K + c * K + kc)
        decay = tl.load(decay_ptr + chunk * K + tl.arange(0, K))
        h = decay[:, None] * h + tl.dot(tl.trans(kd), vn, input_precision="tf32")


def scan(w, u, kd, decay):
    S, N, C, K = w.shape
    V = u.shape[-1]
    vn, h = torch.empty_like(u), w.new_empty(S, N, K, V)
    BV = min(32, V)
    _scan[(S, V // BV)](w, u, kd, decay, vn, h, N, C=C, K=K, V=V, BV=BV, num_warps=4)
    return vn, h


@triton.jit
def _scan_backward(w_ptr, kd_ptr, decay_ptr, dvn_ptr, dh_ptr, total_ptr, d_ptr, N,
                   C: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr):
    seq = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, C)[:, None]
    kr = tl.arange(0, K)[:, None]
    kc = tl.arange(0, K)[None, :]
    v = tl.program_id(1) * BV + tl.arange(0, BV)[None, :]
    d = tl.zeros((K, BV), dtype=tl.float32)
    for i in range(N):
        chunk = seq * N + (N - 1 - i)
        tl.store(d_ptr + chunk * K * V + kr * V + v, d)
        kd = tl.load(kd_ptr + chunk * C * K + c * K + kc)
        total = tl.load(dvn_ptr + chunk * C * V + c * V + v) + tl.dot(kd, d, input_precision="tf32")
        tl.store(total_ptr + chunk * C * V + c * V + v, total)
        w = tl.load(w_ptr + chunk * C * K + c * K + kc)
        decay = tl.load(decay_ptr + chunk * K + tl.arange(0, K))
        dh = tl.load(dh_ptr + chunk * K * V + kr * V + v)
        d = decay[:, None] * d + dh - tl.dot(tl.trans(w), total, input_precision="tf32")


def scan_backward(w, kd, decay, dvn, dh):
    S, N, C, K = w.shape
    V = dvn.shape[-1]
    total, d = torch.empty_like(dvn), torch.empty_like(dh)
    BV = min(32, V)
    _scan_backward[(S, V // BV)](w, kd, decay, dvn, dh, total, d, N, C=C, K=K, V=V, BV=BV, num_warps=4)
    return total, d
