"""The K3 model for training: the function of tools/reference/model.py, over packed windows.

Only the released K3 form (no variants). Parameters are a dict with the released names, without
`language_model.`, experts stacked per layer: what `checkpoint.load_weights` of the reference gives.

Every block is a plain function of tensors, so that one compiled version serves all layers. Values
between the blocks have the type `act` (bfloat16 on the GPU, float64 in the tests), the inside of KDA,
norms, router and mix the type `core` (float32, float64). All experts run densely with the weights of
those not chosen at zero: at this size that costs less than sorting tokens.
"""
from __future__ import annotations

import torch
import torch.nn.functional as F

import kda as kda_lib


def rms(x, gain, eps, core):
    x32 = x.to(core)
    y = (x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps)).to(x.dtype)
    return y * gain.to(x.dtype)


def linear(x, w):
    return F.linear(x, w.to(x.dtype))


def situ_glu(g, u, core, beta=4.0, linear_beta=25.0):
    g, u = g.to(core), u.to(core)
    return beta * torch.tanh(g / beta) * torch.sigmoid(g) * linear_beta * torch.tanh(u / linear_beta)


def mix_norm(sources, gain, query, norm_gain, eps: float, core):
    """The attention residual over `sources`, and the RMSNorm that follows it."""
    w = gain.to(core) * query.to(core).reshape(-1)
    scores = []
    for v in sources:
        v = v.to(core)
        scores.append((v * w).sum(-1, keepdim=True) * torch.rsqrt(v.square().mean(-1, keepdim=True) + eps))
    p = torch.softmax(torch.cat(scores, dim=-1), dim=-1)
    out = sum(p[..., i:i + 1] * v.to(core) for i, v in enumerate(sources)).to(sources[0].dtype)
    return rms(out, norm_gain, eps, core)


def conv_silu(x, taps, ages, core):
    """Causal depthwise conv of x [B,T,C] and SiLU; `ages` [B,T,1] is the position in the document."""
    x32, taps = x.to(core), taps.squeeze(1).to(core)
    width = taps.shape[1]
    y = x32 * taps[:, width - 1]
    for back in range(1, width):
        shifted = F.pad(x32, (0, 0, back, 0))[:, :-back]
        y = y + shifted * (ages >= back) * taps[:, width - 1 - back]
    return y * torch.sigmoid(y)


def kda_prepare(x, w, ages, masks, heads: int, lower: float, core):
    B, T, _ = x.shape
    N = T // kda_lib.CHUNK

    def split(t):
        return t.reshape(B, N, kda_lib.CHUNK, heads, -1).permute(0, 3, 1, 2, 4)

    def unit(t):
        return t * torch.rsqrt(t.square().sum(-1, keepdim=True) + 1e-6)

    qkv = [split(conv_silu(linear(x, w[n + "_proj.weight"]), w[n + "_conv1d.weight"], ages, core).to(x.dtype))
           for n in ("q", "k", "v")]
    q, k, v = (t.to(core) for t in qkv)
    q, k = unit(q) * q.shape[-1] ** -0.5, unit(k)
    z = linear(linear(x, w["f_a_proj.weight"]), w["f_b_proj.weight"]).to(core) + w["dt_bias"].to(core)
    a = torch.exp(w["A_log"].to(core)).reshape(1, heads, 1, 1, 1)
    g = lower * torch.sigmoid(a * split(z))
    beta = torch.sigmoid(split(linear(x, w["b_proj.weight"]).to(core)))
    return kda_lib.prepare(q, k, v, g, beta, masks)


def kda_finish(qg, h, P, vn, x, w, eps: float, core):
    B, T, _ = x.shape
    o = (qg @ h + P @ vn).permute(0, 2, 3, 1, 4)                     # [B,N,C,H,V]
    o = o.reshape(B, T, o.shape[-2], o.shape[-1])
    gate = linear(x, w["g_proj.weight"]).reshape(o.shape).to(core)
    y = o * torch.rsqrt(o.square().mean(-1, keepdim=True) + eps) * w["o_norm.weight"].to(core) * torch.sigmoid(gate)
    return linear(y.reshape(B, T, -1).to(x.dtype), w["o_proj.weight"])


def mla(x, w, bias, heads: int, nope: int, extra: int, dv: int, latent_eps: float, core):
    """`bias` [B,1,T,T] is 0 within a document's past and present, -inf elsewhere."""
    B, T, _ = x.shape
    ql = rms(linear(x, w["q_a_proj.weight"]), w["q_a_layernorm.weight"], latent_eps, core)
    q = linear(ql, w["q_b_proj.weight"]).reshape(B, T, heads, nope + extra).transpose(1, 2)
    c = linear(x, w["kv_a_proj_with_mqa.weight"])
    ckv = rms(c[..., :c.shape[-1] - extra], w["kv_a_layernorm.weight"], latent_eps, core)
    kv = linear(ckv, w["kv_b_proj.weight"]).reshape(B, T, heads, nope + dv).transpose(1, 2)
    side = c[..., c.shape[-1] - extra:].unsqueeze(1).expand(B, heads, T, extra)
    k = torch.cat((kv[..., :nope], side), dim=-1)
    v = F.pad(kv[..., nope:], (0, nope + extra - dv))       # the fused kernel wants one width
    o = attention(q, k, v, bias)[..., :dv]
    y = o.transpose(1, 2).reshape(B, T, heads * dv) * torch.sigmoid(linear(x, w["g_proj.weight"]))
    return linear(y, w["o_proj.weight"])


def attention(q, k, v, bias):
    if hasattr(F, "scaled_dot_product_attention") and q.is_cuda:
        return F.scaled_dot_product_attention(q.contiguous(), k.contiguous(), v.contiguous(), attn_mask=bias)
    s = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5 + bias
    return torch.softmax(s, dim=-1) @ v


def dense_ffn(x, w, core):
    h = situ_glu(linear(x, w["gate_proj.weight"]), linear(x, w["up_proj.weight"]), core)
    return linear(h.to(x.dtype), w["down_proj.weight"])


def moe(x, w, w1, w3, w2, top: int, scale: float, eps: float, core):
    """The latent MoE. w1, w3 [E,F,Z] and w2 [E,Z,F] come apart from w: they may be fake-quantised.

    Returns the output and, for the balancing, the scores [M,E] and the (top+1)-th biased score [M,1]."""
    B, T, D = x.shape
    E, width, Z = w1.shape
    x = x.reshape(-1, D)
    gate = w["gate.weight"].to(x.dtype).to(core)          # as exported; a product of bf16 values is exact in tf32
    s = torch.sigmoid(x.to(core) @ gate.t())
    biased = s.detach() + w["gate.e_score_correction_bias"].to(core)
    order = torch.topk(biased, top + 1, dim=-1).values
    chosen = s * (biased > order[:, top:]).to(core)
    p = chosen / (chosen.sum(-1, keepdim=True) + 1e-20) * scale
    z = linear(x, w["routed_expert_down_proj.weight"])
    h = situ_glu(linear(z, w1.reshape(E * width, Z)), linear(z, w3.reshape(E * width, Z)), core)
    h = (h.reshape(-1, E, width) * p.unsqueeze(-1)).reshape(-1, E * width).to(x.dtype)
    u = linear(h, w2.permute(1, 0, 2).reshape(Z, E * width))
    u = linear(rms(u, w["routed_expert_norm.weight"], eps, core), w["routed_expert_up_proj.weight"])
    shared = {k[len("shared_experts."):]: v for k, v in w.items() if k.startswith("shared_experts.")}
    y = (u + dense_ffn(x, shared, core)).reshape(B, T, D)
    return y, s.detach(), order[:, top:]


def head(x, w, target):
    """Negative log-likelihood [B,T] of target, in nats."""
    logits = linear(x, w).float() if x.dtype == torch.bfloat16 else linear(x, w)
    nll = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1), reduction="none")
    return nll.reshape(target.shape)


class FastModel:
    """c: the reference's Config. params: name -> leaf tensor. `compile` wraps each block once."""

    def __init__(self, c, params: dict, act=torch.bfloat16, core=torch.float32, compile_fn=None):
        self.c, self.params, self.act, self.core = c, params, act, core
        self.fake_quant = None          # set for quantisation-aware steps: w -> w as MXFP4 rounds it
        wrap = compile_fn or (lambda f: f)
        self.mix_norm, self.kda_prepare, self.kda_finish = wrap(mix_norm), wrap(kda_prepare), wrap(kda_finish)
        self.mla, self.dense, self.moe, self.head = wrap(mla), wrap(dense_ffn), wrap(moe), wrap(head)
        self.stats = []                 # per MoE layer: scores, threshold
        self.local = {}
        for i in range(c.num_layers):
            for part in ("self_attn.", "mlp.", "block_sparse_moe."):
                prefix = f"model.layers.{i}.{part}"
                self.local[prefix] = {k[len(prefix):]: v for k, v in params.items()
                                      if k.startswith(prefix) and ".experts." not in k}

    def hidden(self, ids, starts):
        """ids [B,T], starts [B,T] (1 where a document begins) -> input of the head [B,T,D]."""
        c, p, core = self.c, self.params, self.core
        doc = torch.cumsum(starts.to(torch.int32), dim=1).to(torch.int32)
        masks = kda_lib.document_masks(doc, core)
        position = torch.arange(ids.shape[1], device=ids.device)
        ages = (position - torch.cummax(position * starts, dim=1).values).unsqueeze(-1)
        visible = (doc.unsqueeze(-1) == doc.unsqueeze(-2)) & (position[:, None] >= position)
        bias = torch.zeros(visible.shape, dtype=self.act, device=ids.device)
        bias = bias.masked_fill(~visible, float("-inf")).unsqueeze(1)

        prefix, bank = F.embedding(ids, p["model.embed_tokens.weight"]).to(self.act), []
        self.stats = []
        for s in range(2 * c.num_layers):
            layer, kind = s // 2, "mlp_res" if s % 2 else "self_attention_res"
            name = f"model.layers.{layer}."
            norm = p[name + ("post_attention_layernorm.weight" if s % 2 else "input_layernorm.weight")]
            sources = bank + [prefix] if bank else [prefix]     # one source is its own mix
            x = self.mix_norm(sources, p[f"{name}{kind}_norm.weight"], p[f"{name}{kind}_proj.weight"], norm,
                              c.rms_norm_eps, core)
            if s % c.res_block == 0:
                bank, prefix = bank + [prefix], None
            out = self._ffn(x, layer) if s % 2 else self._mixer(x, layer, ages, masks, bias)
            prefix = out if prefix is None else prefix + out
        return self.mix_norm(bank + [prefix], p["model.output_attn_res_norm.weight"],
                             p["model.output_attn_res_proj.weight"], p["model.norm.weight"], c.rms_norm_eps, core)

    def _mixer(self, x, layer, ages, masks, bias):
        c, w = self.c, self.local[f"model.layers.{layer}.self_attn."]
        if not c.is_kda(layer):
            return self.mla(x, w, bias, c.mla_heads, c.nope_dim, c.rope_dim, c.mla_dv, c.latent_norm_eps, self.core)
        parts = self.kda_prepare(x, w, ages, masks, c.kda_heads, c.gate_lower_bound, self.core)
        return kda_lib.chunkwise(parts, lambda *t: self.kda_finish(*t, x, w, c.rms_norm_eps, self.core))

    def _ffn(self, x, layer):
        c = self.c
        if not c.is_moe(layer):
            return self.dense(x, self.local[f"model.layers.{layer}.mlp."], self.core)
        name = f"model.layers.{layer}.block_sparse_moe."
        experts = [self.params[f"{name}experts.{k}"] for k in ("w1", "w3", "w2")]
        if self.fake_quant is not None:
            experts = [self.fake_quant(e) for e in experts]
        y, scores, threshold = self.moe(x, self.local[name], *experts, c.experts_per_token, c.routed_scale,
                                        c.rms_norm_eps, self.core)
        self.stats.append((scores, threshold))
        return y

    def nll(self, ids, starts, target):
        return self.head(self.hidden(ids, starts), self.params["lm_head.weight"], target)
