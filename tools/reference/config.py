"""config.json of Kimi K3 and Kimi Linear, and the variants of docs/config.md.

The form of the model follows from the keys that are present, never from `model_type`. A key that
changes the result has no default: all missing ones are named in one error. Layers are 0-based
past this file (the lists in config.json are 1-based).
"""
from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Optional

BALTORO_KEYS = {"decay", "kda_v_head_dim", "kda_output_gate", "mla_output_gate", "mla_kv",
                "router_input", "attn_res_sublayers", "latent_norm_eps"}


class ConfigError(ValueError):
    pass


@dataclass
class Config:
    nested: bool                     # the text model's keys stand under text_config
    vocab_size: int
    hidden_size: int                 # D
    num_layers: int                  # L
    rms_norm_eps: float
    latent_norm_eps: float           # of q_a_layernorm and kv_a_layernorm
    act: str                         # situ | silu
    situ_beta: float = 0.0
    situ_linear_beta: float = 0.0
    ffn_size: int = 0                # dense layers
    kda_layers: frozenset = frozenset()
    # KDA
    kda_heads: int = 0
    kda_dk: int = 0
    kda_dv: int = 0
    conv_width: int = 0
    gate_lower_bound: Optional[float] = None
    per_head_decay: bool = False
    kda_gate: str = "none"           # full | low_rank | none
    # MLA
    mla_heads: int = 0
    mla_kv: str = "latent"           # latent | mqa | gqa
    kv_heads: int = 0                # gqa only
    q_lora_rank: Optional[int] = None
    kv_lora_rank: int = 0            # Ckv
    nope_dim: int = 0
    rope_dim: int = 0
    mla_dv: int = 0
    mla_gate: str = "none"
    rope_theta: Optional[float] = None   # None: no rotation
    # MoE
    first_dense: int = 0
    moe_freq: int = 1
    num_experts: int = 0             # E
    experts_per_token: int = 0       # A
    shared_experts: int = 0
    expert_ffn_size: int = 0         # F
    latent_size: Optional[int] = None    # Z; None: full-width experts
    latent_norm: bool = False
    renormalize: bool = True
    routed_scale: float = 1.0
    router_latent: bool = False
    # Attention Residuals: block length in sub-layers; None: ordinary residual
    res_block: Optional[int] = None

    def is_kda(self, layer: int) -> bool:
        return layer in self.kda_layers

    def is_moe(self, layer: int) -> bool:
        return layer >= self.first_dense and layer % self.moe_freq == 0

    @property
    def num_moe_layers(self) -> int:
        return sum(self.is_moe(i) for i in range(self.num_layers))

    @property
    def score_dim(self) -> int:
        """Width of q and k in the softmax attention; the score scale is its -1/2 power."""
        return self.nope_dim + self.rope_dim

    @property
    def expert_io(self) -> int:
        return self.hidden_size if self.latent_size is None else self.latent_size


class _Keys:
    """Reads keys of one object and remembers those that were missing."""

    def __init__(self, obj: dict, where: str, missing: list):
        self.obj, self.where, self.missing = obj, where, missing

    def need(self, *names):
        for name in names:
            if self.obj.get(name) is not None:
                return self.obj[name]
        self.missing.append(self.where + names[0])
        return 0

    def get(self, name, default=None):
        value = self.obj.get(name)
        return default if value is None else value


def _agree(key: str, ours: Optional[str], released, full: str, absent: str) -> str:
    """An output gate's form from the `baltoro` key and the released one, which must agree."""
    implied = None if released is None else (full if released else absent)
    if ours is not None and ours not in ("full", "low_rank", "none"):
        raise ConfigError(f"baltoro.{key}: {ours!r} is none of full, low_rank, none")
    if ours in ("full", absent) and implied is not None and implied != ours:
        raise ConfigError(f"baltoro.{key} is {ours!r}, but the released key says {implied!r}")
    return ours or implied or absent


def parse(raw: dict) -> Config:
    nested = "text_config" in raw
    text = raw["text_config"] if nested else raw
    missing: list = []
    t = _Keys(text, "", missing)
    lin = _Keys(t.need("linear_attn_config") or {}, "linear_attn_config.", missing)
    own = text.get("baltoro", {})
    if set(own) - BALTORO_KEYS:
        raise ConfigError(f"baltoro: unknown keys {sorted(set(own) - BALTORO_KEYS)}")

    c = Config(nested=nested, vocab_size=t.need("vocab_size"), hidden_size=t.need("hidden_size"),
               num_layers=t.need("num_hidden_layers"), rms_norm_eps=t.need("rms_norm_eps"),
               latent_norm_eps=own.get("latent_norm_eps", 1e-6), act=t.need("hidden_act"))
    if c.act == "situ":
        c.situ_beta, c.situ_linear_beta = t.need("activation_situ_beta"), t.need("activation_situ_linear_beta")
    elif c.act != "silu":
        raise ConfigError(f"hidden_act: {c.act!r} is none of situ, silu")

    kda = lin.obj.get("kda_layers", [])
    full = lin.obj.get("full_attn_layers", [])
    if sorted(kda + full) != list(range(1, c.num_layers + 1)):
        raise ConfigError("kda_layers and full_attn_layers must name each layer 1..L exactly once")
    c.kda_layers = frozenset(i - 1 for i in kda)
    if kda:
        _parse_kda(c, lin, own)
    if full:
        _parse_mla(c, t, own)

    c.first_dense, c.moe_freq = t.need("first_k_dense_replace"), t.need("moe_layer_freq") or 1
    if c.num_moe_layers:
        _parse_moe(c, t, own)
    if c.num_moe_layers < c.num_layers:
        c.ffn_size = t.need("intermediate_size")

    block, sub = text.get("attn_res_block_size"), own.get("attn_res_sublayers")
    if block is not None and sub is not None:
        raise ConfigError("attn_res_block_size and baltoro.attn_res_sublayers are both present")
    c.res_block = sub if block is None else 2 * block
    if missing:
        raise ConfigError("config.json lacks: " + ", ".join(missing))
    return c


def _parse_kda(c: Config, lin: _Keys, own: dict) -> None:
    c.kda_heads, c.kda_dk = lin.need("num_heads"), lin.need("head_dim")
    c.kda_dv = own.get("kda_v_head_dim", c.kda_dk)
    c.conv_width = lin.need("short_conv_kernel_size")
    c.gate_lower_bound = lin.get("gate_lower_bound")
    if c.gate_lower_bound is not None and not -5.0 <= c.gate_lower_bound < 0.0:
        raise ConfigError(f"gate_lower_bound: {c.gate_lower_bound} is outside [-5, 0)")
    c.per_head_decay = own.get("decay", "per_channel") == "per_head"
    released = lin.get("use_full_rank_gate")
    c.kda_gate = _agree("kda_output_gate", own.get("kda_output_gate"), released, "full", "low_rank")


def _parse_mla(c: Config, t: _Keys, own: dict) -> None:
    c.mla_heads, c.mla_dv = t.need("num_attention_heads"), t.need("v_head_dim")
    c.nope_dim = t.need("qk_nope_head_dim")
    if "qk_rope_head_dim" not in t.obj:
        t.need("qk_rope_head_dim")
    c.rope_dim = t.get("qk_rope_head_dim", 0)
    c.q_lora_rank = t.get("q_lora_rank")
    c.mla_kv = own.get("mla_kv", "latent")
    if c.mla_kv == "gqa":
        c.kv_heads = t.need("num_key_value_heads")
        if t.get("kv_lora_rank") is not None or c.rope_dim:
            raise ConfigError("mla_kv gqa: kv_lora_rank must be absent and qk_rope_head_dim 0")
        if c.kv_heads and c.mla_heads % c.kv_heads:
            raise ConfigError("mla_kv gqa: num_key_value_heads must divide num_attention_heads")
    else:
        c.kv_lora_rank = t.need("kv_lora_rank")
    if c.mla_kv == "mqa" and c.nope_dim != c.kv_lora_rank:
        raise ConfigError("mla_kv mqa: qk_nope_head_dim must equal kv_lora_rank")
    c.mla_gate = _agree("mla_output_gate", own.get("mla_output_gate"), t.get("mla_use_output_gate"),
                        "full", "none")
    if t.need("mla_use_nope") is False:
        c.rope_theta = t.need("rope_theta")


def _parse_moe(c: Config, t: _Keys, own: dict) -> None:
    c.num_experts = t.need("num_experts")
    c.experts_per_token = t.need("num_experts_per_token", "num_experts_per_tok")
    if "num_shared_experts" not in t.obj:
        t.need("num_shared_experts")
    c.shared_experts = t.get("num_shared_experts", 0)
    c.expert_ffn_size = t.need("moe_intermediate_size")
    c.renormalize, c.routed_scale = t.need("moe_renormalize"), t.need("routed_scaling_factor")
    if t.get("moe_router_activation_func", "sigmoid") != "sigmoid":
        raise ConfigError("moe_router_activation_func: only sigmoid is known")
    c.latent_size = t.get("routed_expert_hidden_size")
    if c.latent_size is not None:
        c.latent_norm = t.need("latent_moe_use_norm")
    c.router_latent = own.get("router_input", "model") == "latent"
    if c.router_latent and c.latent_size is None:
        raise ConfigError("router_input latent needs routed_expert_hidden_size")
    if c.experts_per_token > c.num_experts:
        raise ConfigError("num_experts_per_token is larger than num_experts")


def load(model_dir: str) -> Config:
    with open(os.path.join(model_dir, "config.json"), encoding="utf-8") as f:
        return parse(json.load(f))


def inventory(c: Config) -> dict:
    """name -> shape of every unquantised matrix and vector, without the `language_model.` prefix.

    An expert matrix stands here under its plain name `experts.E.w1.weight`; in the file it may be
    a pair `weight_packed`, `weight_scale` instead.
    """
    D, out = c.hidden_size, {}

    def residual(name):
        out[name + "_norm.weight"], out[name + "_proj.weight"] = (D,), (1, D)

    def gate(p, form, heads, rank, dv):
        if form == "full":
            out[p + "g_proj.weight"] = (heads * dv, D)
        elif form == "low_rank":
            out[p + "g_a_proj.weight"], out[p + "g_b_proj.weight"] = (rank, D), (heads * dv, rank)

    def glu(p, names, width, size):
        for name, shape in zip(names, ((size, width), (size, width), (width, size))):
            out[f"{p}{name}.weight"] = shape

    def kda(p):
        H, Dk, Dv = c.kda_heads, c.kda_dk, c.kda_dv
        for name, dim in (("q", Dk), ("k", Dk), ("v", Dv)):
            out[f"{p}{name}_proj.weight"] = (H * dim, D)
            out[f"{p}{name}_conv1d.weight"] = (H * dim, 1, c.conv_width)
        decays = H if c.per_head_decay else H * Dk
        out[p + "f_a_proj.weight"], out[p + "f_b_proj.weight"] = (Dk, D), (decays, Dk)
        out[p + "b_proj.weight"] = (H, D)
        out[p + "A_log"], out[p + "dt_bias"] = ((Dk,) if c.nested else (1, 1, H, 1)), (decays,)
        gate(p, c.kda_gate, H, Dk, Dv)
        out[p + "o_norm.weight"], out[p + "o_proj.weight"] = (Dv,), (D, H * Dv)

    def mla(p):
        H, Dv, q_out = c.mla_heads, c.mla_dv, c.mla_heads * c.score_dim
        if c.q_lora_rank is None:
            out[p + "q_proj.weight"] = (q_out, D)
        else:
            out[p + "q_a_proj.weight"], out[p + "q_a_layernorm.weight"] = (c.q_lora_rank, D), (c.q_lora_rank,)
            out[p + "q_b_proj.weight"] = (q_out, c.q_lora_rank)
        if c.mla_kv == "gqa":
            out[p + "k_proj.weight"] = (c.kv_heads * c.nope_dim, D)
            out[p + "v_proj.weight"] = (c.kv_heads * Dv, D)
        else:
            up = Dv if c.mla_kv == "mqa" else c.nope_dim + Dv
            out[p + "kv_a_proj_with_mqa.weight"] = (c.kv_lora_rank + c.rope_dim, D)
            out[p + "kv_a_layernorm.weight"] = (c.kv_lora_rank,)
            out[p + "kv_b_proj.weight"] = (H * up, c.kv_lora_rank)
        gate(p, c.mla_gate, H, Dv, Dv)
        out[p + "o_proj.weight"] = (D, H * Dv)

    def moe(p):
        E, F, Z = c.num_experts, c.expert_ffn_size, c.latent_size
        out[p + "gate.weight"] = (E, Z if c.router_latent else D)
        out[p + "gate.e_score_correction_bias"] = (E,)
        if Z is not None:
            out[p + "routed_expert_down_proj.weight"] = (Z, D)
            out[p + "routed_expert_up_proj.weight"] = (D, Z)
            if c.latent_norm:
                out[p + "routed_expert_norm.weight"] = (Z,)
        if c.shared_experts:
            glu(p + "shared_experts.", ("gate_proj", "up_proj", "down_proj"), D, F * c.shared_experts)
        for e in range(E):
            glu(f"{p}experts.{e}.", ("w1", "w3", "w2"), c.expert_io, F)

    out["model.embed_tokens.weight"] = (c.vocab_size, D)
    for i in range(c.num_layers):
        p = f"model.layers.{i}."
        out[p + "input_layernorm.weight"] = out[p + "post_attention_layernorm.weight"] = (D,)
        if c.res_block is not None:
            residual(p + "self_attention_res")
            residual(p + "mlp_res")
        (kda if c.is_kda(i) else mla)(p + "self_attn.")
        if c.is_moe(i):
            moe(p + "block_sparse_moe.")
        else:
            glu(p + "mlp.", ("gate_proj", "up_proj", "down_proj"), D, c.ffn_size)
    if c.res_block is not None:
        residual("model.output_attn_res")
    out["model.norm.weight"] = (D,)
    out["lm_head.weight"] = (c.vocab_size, D)
    return out
