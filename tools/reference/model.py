"""The forward pass of Kimi K3, Kimi Linear and the variants of docs/config.md, for one sequence.

    model = Model.from_dir("DIR")                      # float64, nothing rounded
    logits = model.forward(ids)                        # [T, V]
    model.greedy(ids, 24)

`forward` can continue from a `State`, so prefill and decode are the same code.
"""
from __future__ import annotations

import torch

import checkpoint
import config as config_lib
import ops


class State:
    """What one sequence carries: per KDA layer S and the conv history, per MLA layer the cache."""

    def __init__(self):
        self.tokens = 0
        self.layers = {}


class Model:
    def __init__(self, c: config_lib.Config, weights: dict, numerics: ops.Numerics,
                 chunkwise: bool = False, absorbed: bool = False):
        self.c, self.w, self.n = c, weights, numerics
        self.chunkwise, self.absorbed = chunkwise, absorbed
        self.routing = []         # of the last forward: [T, A] per MoE layer

    @classmethod
    def from_dir(cls, model_dir: str, dtype=torch.float64, bf16=False, latent_norm_eps=None, **kwargs):
        c = config_lib.load(model_dir)
        if latent_norm_eps is not None:
            c.latent_norm_eps = latent_norm_eps
        weights = checkpoint.load_weights(c, checkpoint.read_checkpoint(model_dir), dtype)
        return cls(c, weights, ops.Numerics(dtype, bf16), **kwargs)

    # ------------------------------------------------------------------ the whole model
    def forward(self, ids, state: State = None) -> torch.Tensor:
        c, state = self.c, state or State()
        self.routing = []
        h = self.w["model.embed_tokens.weight"][torch.as_tensor(ids, dtype=torch.long)]
        h = self._stream(h, state) if c.res_block is None else self._attention_residuals(h, state)
        state.tokens += len(ids)
        h = self.n.rms_norm(h, self.w["model.norm.weight"], c.rms_norm_eps)
        return self.n.linear(self.w["lm_head.weight"], h)

    def _stream(self, h, state):
        for s in range(2 * self.c.num_layers):
            h = self.n.r(h + self._sublayer(s, h, state))
        return h

    def _attention_residuals(self, prefix, state):
        bank = []
        for s in range(2 * self.c.num_layers):
            kind = "mlp_res" if s % 2 else "self_attention_res"
            h = self._mix(bank + [prefix], f"model.layers.{s // 2}.{kind}") if bank else prefix
            if s % self.c.res_block == 0:
                bank.append(prefix)
                prefix = None
            out = self._sublayer(s, h, state)
            prefix = out if prefix is None else self.n.r(prefix + out)
        return self._mix(bank + [prefix], "model.output_attn_res")

    def _mix(self, sources, name):
        return self.n.r(ops.residual_mix(sources, self.w[name + "_norm.weight"], self.w[name + "_proj.weight"],
                                         self.c.rms_norm_eps))

    def _sublayer(self, s, h, state):
        layer, p = s // 2, f"model.layers.{s // 2}."
        norm = "post_attention_layernorm" if s % 2 else "input_layernorm"
        x = self.n.rms_norm(h, self.w[f"{p}{norm}.weight"], self.c.rms_norm_eps)
        if s % 2:
            return self._moe(x, p + "block_sparse_moe.") if self.c.is_moe(layer) else self._dense(x, p + "mlp.")
        if self.c.is_kda(layer):
            return self._kda(x, p + "self_attn.", layer, state)
        return self._mla(x, p + "self_attn.", layer, state)

    # ------------------------------------------------------------------ Kimi Delta Attention
    def _kda(self, x, p, layer, state):
        c, n, w, T = self.c, self.n, self.w, x.shape[0]
        H, K, V = c.kda_heads, c.kda_dk, c.kda_dv
        old = state.layers.get(layer)
        if old is None:
            old = {name: x.new_zeros(c.conv_width - 1, H * dim) for name, dim in (("q", K), ("k", K), ("v", V))}
            old["S"] = x.new_zeros(H, K, V)
        new, qkv = {}, {}
        for name in ("q", "k", "v"):
            raw = n.linear(w[f"{p}{name}_proj.weight"], x)
            qkv[name] = n.r(ops.short_conv(raw, w[f"{p}{name}_conv1d.weight"].squeeze(1), old[name]))
            new[name] = torch.cat((old[name], raw))[-(c.conv_width - 1):]
        q = n.r(ops.l2_unit(qkv["q"].reshape(T, H, K))) * K ** -0.5
        k = n.r(ops.l2_unit(qkv["k"].reshape(T, H, K)))
        v = qkv["v"].reshape(T, H, V)

        z = n.linear(w[p + "f_b_proj.weight"], n.linear(w[p + "f_a_proj.weight"], x)) + w[p + "dt_bias"]
        z = z.reshape(T, H, 1 if c.per_head_decay else K)
        g = ops.decay_gate(z, w[p + "A_log"], c.gate_lower_bound).expand(T, H, K)
        beta = torch.sigmoid(n.linear(w[p + "b_proj.weight"], x))
        if self.chunkwise:
            o, new["S"] = ops.kda_chunkwise(q, k, v, g, beta, old["S"], c.gate_lower_bound is not None)
        else:
            o, new["S"] = ops.kda_recurrent(q, k, v, g, beta, old["S"])
        state.layers[layer] = new

        y = ops.rms_unit(n.r(o), c.rms_norm_eps) * w[p + "o_norm.weight"]
        gate = self._output_gate(x, p, c.kda_gate)
        if gate is not None:
            y = y * torch.sigmoid(gate.reshape(T, H, V))
        return n.linear(w[p + "o_proj.weight"], n.r(y.reshape(T, H * V)))

    def _output_gate(self, x, p, form):
        if form == "none":
            return None
        if form == "full":
            return self.n.linear(self.w[p + "g_proj.weight"], x)
        return self.n.linear(self.w[p + "g_b_proj.weight"], self.n.linear(self.w[p + "g_a_proj.weight"], x))

    # ------------------------------------------------------------------ MLA, MQA, GQA
    def _mla(self, x, p, layer, state):
        c, n, w, T = self.c, self.n, self.w, x.shape[0]
        H, V = c.mla_heads, c.mla_dv
        if c.q_lora_rank is None:
            q = n.linear(w[p + "q_proj.weight"], x)
        else:
            ql = n.rms_norm(n.linear(w[p + "q_a_proj.weight"], x), w[p + "q_a_layernorm.weight"], c.latent_norm_eps)
            q = n.linear(w[p + "q_b_proj.weight"], ql)
        q_nope, q_pe = q.reshape(T, H, c.score_dim).split((c.nope_dim, c.rope_dim), dim=-1)
        if c.rope_theta is not None and c.rope_dim:
            q_pe = n.r(ops.rotate(q_pe, state.tokens, c.rope_theta))

        if c.mla_kv == "gqa":
            o = self._gqa(x, q_nope, p, layer, state)
        else:
            ckv, k_pe = self._cached_latent(x, p, layer, state)
            side = torch.einsum("thr,nr->htn", q_pe, k_pe)
            attend = self._mqa if c.mla_kv == "mqa" else self._absorbed if self.absorbed else self._expanded
            o = attend(q_nope, side, ckv, w[p + "kv_b_proj.weight"])
        y = n.r(o).reshape(T, H * V)
        gate = self._output_gate(x, p, c.mla_gate)
        if gate is not None:
            y = n.r(y * n.r(torch.sigmoid(gate)))
        return n.linear(w[p + "o_proj.weight"], y)

    def _cached_latent(self, x, p, layer, state):
        """The cache holds, per token, the normalised latent and the side key (rotated if any is)."""
        c, n, w = self.c, self.n, self.w
        latent, k_pe = n.linear(w[p + "kv_a_proj_with_mqa.weight"], x).split((c.kv_lora_rank, c.rope_dim), dim=-1)
        ckv = n.rms_norm(latent, w[p + "kv_a_layernorm.weight"], c.latent_norm_eps)
        if c.rope_theta is not None and c.rope_dim:
            k_pe = n.r(ops.rotate(k_pe, state.tokens, c.rope_theta))
        if layer in state.layers:
            ckv = torch.cat((state.layers[layer][0], ckv))
            k_pe = torch.cat((state.layers[layer][1], k_pe))
        state.layers[layer] = (ckv, k_pe)
        return ckv, k_pe

    def _softmax(self, scores):
        return self.n.r(ops.causal_softmax(scores * self.c.score_dim ** -0.5))

    def _expanded(self, q_nope, side, ckv, kv_b):
        c = self.c
        kv = self.n.linear(kv_b, ckv).reshape(-1, c.mla_heads, c.nope_dim + c.mla_dv)
        k, v = kv.split((c.nope_dim, c.mla_dv), dim=-1)
        p = self._softmax(torch.einsum("thd,nhd->htn", q_nope, k) + side)
        return torch.einsum("htn,nhv->thv", p, v)

    def _absorbed(self, q_nope, side, ckv, kv_b):
        """q~ = W_UK^T q meets the latent itself; the context is expanded by W_UV afterwards."""
        c = self.c
        up = kv_b.reshape(c.mla_heads, c.nope_dim + c.mla_dv, c.kv_lora_rank)
        w_uk, w_uv = up.split((c.nope_dim, c.mla_dv), dim=1)
        q = torch.einsum("thd,hdc->thc", q_nope, w_uk)
        p = self._softmax(torch.einsum("thc,nc->htn", q, ckv) + side)
        return torch.einsum("htn,nc,hvc->thv", p, ckv, w_uv)

    def _mqa(self, q_nope, side, ckv, kv_b):
        """Native MQA: the query has the latent's width; only values are projected up."""
        p = self._softmax(torch.einsum("thc,nc->htn", q_nope, ckv) + side)
        v = self.n.linear(kv_b, ckv).reshape(-1, self.c.mla_heads, self.c.mla_dv)
        return torch.einsum("htn,nhv->thv", p, v)

    def _gqa(self, x, q, p, layer, state):
        c, n, w, G = self.c, self.n, self.w, self.c.kv_heads
        k = n.linear(w[p + "k_proj.weight"], x).reshape(-1, G, c.nope_dim)
        v = n.linear(w[p + "v_proj.weight"], x).reshape(-1, G, c.mla_dv)
        if layer in state.layers:
            k, v = (torch.cat((old, new)) for old, new in zip(state.layers[layer], (k, v)))
        state.layers[layer] = (k, v)
        k, v = (t.repeat_interleave(c.mla_heads // G, dim=1) for t in (k, v))
        prob = self._softmax(torch.einsum("thd,nhd->htn", q, k))
        return torch.einsum("htn,nhv->thv", prob, v)

    # ------------------------------------------------------------------ feed-forward
    def _glu(self, gate, up):
        c, n = self.c, self.n
        if c.act == "situ":
            return n.r(ops.situ_glu(gate, up, c.situ_beta, c.situ_linear_beta))
        return n.r(n.r(gate * torch.sigmoid(gate)) * up)

    def _dense(self, x, p):
        n, w = self.n, self.w
        h = self._glu(n.linear(w[p + "gate_proj.weight"], x), n.linear(w[p + "up_proj.weight"], x))
        return n.linear(w[p + "down_proj.weight"], h)

    def _moe(self, x, p):
        c, n, w = self.c, self.n, self.w
        z = x if c.latent_size is None else n.linear(w[p + "routed_expert_down_proj.weight"], x)
        # The router is never rounded: it reads the (rounded) input in full precision.
        logits = (z if c.router_latent else x) @ w[p + "gate.weight"].T
        chosen, weight = ops.route(logits, w[p + "gate.e_score_correction_bias"], c.experts_per_token,
                                   c.renormalize, c.routed_scale)
        self.routing.append(chosen)
        u = self._experts(z, chosen, weight, p + "experts.")
        if c.latent_size is not None:
            if c.latent_norm:
                u = n.rms_norm(u, w[p + "routed_expert_norm.weight"], c.rms_norm_eps)
            u = n.linear(w[p + "routed_expert_up_proj.weight"], u)
        return n.r(u + self._dense(x, p + "shared_experts.")) if c.shared_experts else u

    def _experts(self, z, chosen, weight, p):
        """sum over the slots of weight * w2(act(w1 z, w3 z)); each expert's output is rounded."""
        n, w = self.n, self.w
        per_slot = z.new_zeros(*chosen.shape, z.shape[-1])
        for e in torch.unique(chosen).tolist():
            token, slot = torch.nonzero(chosen == e, as_tuple=True)
            h = self._glu(n.linear(w[p + "w1"][e], z[token]), n.linear(w[p + "w3"][e], z[token]))
            per_slot[token, slot] = n.linear(w[p + "w2"][e], h)
        return n.r((weight.unsqueeze(-1) * per_slot).sum(1))

    # ------------------------------------------------------------------ generation
    def greedy(self, ids, count: int) -> list:
        """`count` greedy tokens behind ids; the prompt at once, then one token at a time."""
        state, out = State(), []
        logits = self.forward(ids, state)[-1]
        for _ in range(count):
            out.append(int(torch.argmax(logits)))
            logits = self.forward(out[-1:], state)[-1]
        return out
