#!/usr/bin/env python3
"""Writes tests/data/fixtures: a tiny random checkpoint per variant, with what the reference makes of it.

Each folder holds config.json, model.safetensors (released names and packing), expected.json
(prompt, greedy continuation, what the variant changes) and expected.safetensors:

  logits       F32  [T, V]   float64 forward, nothing rounded
  logits_bf16  BF16 [T, V]   float32 forward with the rounding points of the released bf16 code
  routing      I32  [moe layers, T, A]   experts in chosen order, float64 forward

Weights come from NumPy's PCG64 by (seed, tensor name). Gains are such that gates, caps, biases and
softmaxes all matter. The seed of a variant is the first whose float64 run decides every expert and
every greedy token by a clear margin, and whose own float32 run is close: float32 must decide the same.

Usage: make_fixtures.py [NAME ...]      (default: all)
"""
from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import sys

import numpy as np
import torch

import checkpoint
import config as config_lib
import ops
from model import Model

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "data", "fixtures")
T, GREEDY, VOCAB = 70, 24, 96      # 70 tokens cross a chunk of 64
ROUTE_MARGIN, GREEDY_MARGIN = 1e-4, 5e-3
FLOAT32_ERROR = 4e-6                # of the reference's own float32 run, in any logit

K3 = {
    "model_type": "kimi_k3", "architectures": ["KimiK3ForConditionalGeneration"],
    "text_config": {
        "model_type": "kimi_linear", "vocab_size": VOCAB, "hidden_size": 64, "num_hidden_layers": 5,
        "intermediate_size": 64, "hidden_act": "situ", "activation_situ_beta": 4.0,
        "activation_situ_linear_beta": 25.0, "attn_res_block_size": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": 24, "kv_lora_rank": 40,
        "qk_nope_head_dim": 24, "qk_rope_head_dim": 16, "v_head_dim": 16, "mla_use_nope": True,
        "mla_use_output_gate": True, "num_experts": 8, "num_experts_per_token": 2,
        "num_shared_experts": 2, "moe_intermediate_size": 32, "routed_expert_hidden_size": 32,
        "latent_moe_use_norm": True, "moe_renormalize": True, "moe_router_activation_func": "sigmoid",
        "topk_method": "noaux_tc", "use_grouped_topk": True, "num_expert_group": 1, "topk_group": 1,
        "routed_scaling_factor": 1.0, "first_k_dense_replace": 1, "moe_layer_freq": 1,
        "num_nextn_predict_layers": 0, "tie_word_embeddings": False, "max_position_embeddings": 1048576,
        "bos_token_id": VOCAB - 16, "eos_token_id": VOCAB - 14, "pad_token_id": VOCAB - 1,
        "linear_attn_config": {
            "num_heads": 2, "head_dim": 32, "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
            "use_full_rank_gate": True, "kda_layers": [1, 2, 3], "full_attn_layers": [4, 5]},
        "quantization_config": {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"},
    },
}
# The variants are smaller than `k3`: one layer less, narrower heads, one shared expert.
BASE = copy.deepcopy(K3)
BASE["text_config"].update(hidden_size=48, num_hidden_layers=4, num_shared_experts=1, num_experts=6,
                           q_lora_rank=16, kv_lora_rank=32, intermediate_size=32)
BASE["text_config"]["linear_attn_config"].update(head_dim=16, kda_layers=[1, 3], full_attn_layers=[2, 4])

KIMI_LINEAR = {k: v for k, v in copy.deepcopy(K3["text_config"]).items() if k not in (
    "activation_situ_beta", "activation_situ_linear_beta", "attn_res_block_size", "mla_use_output_gate",
    "routed_expert_hidden_size", "latent_moe_use_norm", "quantization_config", "max_position_embeddings",
    "topk_method")}
KIMI_LINEAR.update(hidden_act="silu", q_lora_rank=None, num_shared_experts=1, moe_intermediate_size=16,
                   routed_scaling_factor=2.446, model_max_length=1048576, rope_theta=10000.0, head_dim=32,
                   architectures=["KimiLinearForCausalLM"])
for absent in ("gate_lower_bound", "use_full_rank_gate"):
    del KIMI_LINEAR["linear_attn_config"][absent]

# name: (base, changes); None removes the key. `linear_attn_config` and `baltoro` are merged.
LIN, OWN = "linear_attn_config", "baltoro"
VARIANTS = {
    "k3": ("k3", {}),
    "kimi_linear": ("kimi_linear", {}),
    "gdn": ("base", {OWN: {"decay": "per_head"}}),
    "unified": ("base", {"kv_lora_rank": 48, "qk_nope_head_dim": 40, "qk_rope_head_dim": 0}),
    "mqa": ("base", {"qk_nope_head_dim": 32, OWN: {"mla_kv": "mqa"}}),
    "gqa": ("base", {"num_attention_heads": 4, "num_key_value_heads": 2, "kv_lora_rank": None,
                     "qk_rope_head_dim": 0, OWN: {"mla_kv": "gqa"}}),
    "rope": ("base", {"mla_use_nope": False, "rope_theta": 10000.0}),
    "router_latent": ("base", {OWN: {"router_input": "latent"}}),
    "attnres_full": ("base", {"attn_res_block_size": None, OWN: {"attn_res_sublayers": 1}}),
    "no_stable_norm": ("base", {"latent_moe_use_norm": False}),
    "swiglu": ("base", {"hidden_act": "silu", "activation_situ_beta": None, "activation_situ_linear_beta": None}),
    "no_shared": ("base", {"num_shared_experts": 0}),
    "gate_none": ("base", {LIN: {"use_full_rank_gate": None}, "mla_use_output_gate": None,
                           OWN: {"kda_output_gate": "none", "mla_output_gate": "none"}}),
    "mla_gate_low_rank": ("base", {"mla_use_output_gate": None, OWN: {"mla_output_gate": "low_rank"}}),
    "kda_only": ("base", {LIN: {"kda_layers": [1, 2, 3, 4], "full_attn_layers": []}}),
    "mla_only": ("base", {LIN: {"kda_layers": [], "full_attn_layers": [1, 2, 3, 4]}}),
    "extra0": ("base", {"qk_rope_head_dim": 0}),
    "kv_unequal": ("base", {OWN: {"kda_v_head_dim": 24}}),
    "dense_only": ("base", {"first_k_dense_replace": 4}),
    "softplus_k3": ("base", {LIN: {"gate_lower_bound": None}}),
}
BASES = {"k3": K3, "base": BASE, "kimi_linear": KIMI_LINEAR}


def variant_config(name: str) -> dict:
    base, changes = VARIANTS[name]
    raw = copy.deepcopy(BASES[base])
    text = raw.get("text_config", raw)
    for key, value in changes.items():
        target = text.setdefault(key, {}) if isinstance(value, dict) else text
        for k, v in (value if isinstance(value, dict) else {key: value}).items():
            target.pop(k, None)
            if v is not None:
                target[k] = v
    return raw


def normal(seed: int, name: str, shape) -> torch.Tensor:
    key = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    rng = np.random.Generator(np.random.PCG64(int.from_bytes(key, "little")))
    return torch.from_numpy(rng.standard_normal(shape))


# Standard deviation of a matrix, times sqrt(columns). GLU gate and up are large enough to pass both SiTU caps;
# q and k_nope large enough for softmaxes that are far from uniform.
GAINS = (("embed_tokens", None), ("o_proj", 0.7), ("_res_proj", 0.7), ("b_proj", 1.5), ("kv_b_proj", 1.0),
         (".w1.", 2.0), (".w3.", 4.0), (".w2.", 0.2), ("gate_proj", 2.0), ("up_proj", 4.0), ("down_proj", 0.2),
         ("q_b_proj", 2.0), ("q_proj", 2.0), (".gate.weight", 0.6))
LATENT_GAINS = {"routed_expert_down_proj": 1.0, "routed_expert_up_proj": 0.7}


def draw(seed: int, name: str, shape, c: config_lib.Config) -> torch.Tensor:
    x = normal(seed, name, shape)
    if name.endswith("conv1d.weight"):
        return 0.5 * x
    if name.endswith("A_log"):
        x = (0.4 + 0.5 * x) if c.gate_lower_bound is not None else (1.0 + 0.8 * x)
        x.view(-1)[c.kda_heads:] = 0.0      # the released padding
        return x
    if name.endswith("dt_bias"):
        return x - 2.0
    if name.endswith("e_score_correction_bias"):
        return 0.3 * x
    if len(shape) == 1:
        return 1.0 + 0.1 * x
    if name.endswith("embed_tokens.weight"):
        return (3.0 if c.res_block is not None else 2.0) * x
    gain = next((g for part, g in LATENT_GAINS.items() if part in name), None)
    if c.mla_kv == "mqa" and "q_b_proj" in name:
        gain = 1.0          # the query meets the unit-size latent itself: scores are larger
    if gain is None:
        gain = next((g for part, g in GAINS if part in name), 1.0)
    return gain / math.sqrt(shape[-1]) * x


def stored_dtype(name: str, c: config_lib.Config) -> torch.dtype:
    """As released: F32 for these three, and in K3 for the conv taps and o_norm too."""
    always = ("A_log", "dt_bias", "e_score_correction_bias")
    in_k3 = ("conv1d.weight", "o_norm.weight") if c.nested else ()
    return torch.float32 if name.endswith(always + in_k3) else torch.bfloat16


def make_tensors(c: config_lib.Config, seed: int, mxfp4: bool) -> dict:
    prefix, out = "language_model." if c.nested else "", {}
    for name, shape in config_lib.inventory(c).items():
        w = draw(seed, name, shape, c)
        if mxfp4 and ".experts." in name:
            out[prefix + name + "_packed"], out[prefix + name + "_scale"] = checkpoint.encode_mxfp4(w)
        else:
            out[prefix + name] = w.float().to(stored_dtype(name, c))
    return out


class Margins(Model):
    """The reference, also noting by how much the chosen experts beat the others."""

    route_margin = float("inf")

    def _moe(self, x, p):
        c, w = self.c, self.w
        z = x if c.latent_size is None else x @ w[p + "routed_expert_down_proj.weight"].T
        biased = torch.sigmoid((z if c.router_latent else x) @ w[p + "gate.weight"].T) \
            + w[p + "gate.e_score_correction_bias"]
        top = biased.sort(-1, descending=True).values
        gaps = (top[:, :-1] - top[:, 1:])[:, :c.experts_per_token]
        self.route_margin = min(self.route_margin, float(gaps.min()))
        return super()._moe(x, p)


def strip(tensors: dict) -> dict:
    return {k[len("language_model."):] if k.startswith("language_model.") else k: v for k, v in tensors.items()}


def try_seed(c: config_lib.Config, tensors: dict, ids: list):
    """(margins ok, logits, routing, greedy ids) of the float64 reference."""
    model = Margins(c, checkpoint.load_weights(c, strip(tensors), torch.float64), ops.Numerics(), chunkwise=True)
    seq = list(ids)
    logits = model.forward(seq)
    routing = torch.stack(model.routing) if model.routing else torch.zeros(0, len(ids), 0)
    greedy = Model.greedy(model, ids, GREEDY)
    rows = model.forward(seq + greedy)[len(ids) - 1:-1]
    top = rows.topk(2, dim=-1).values
    clear = model.route_margin > ROUTE_MARGIN and float((top[:, 0] - top[:, 1]).min()) > GREEDY_MARGIN
    return clear and len(set(greedy)) >= 8, logits, routing, greedy


def expectations(c: config_lib.Config, tensors: dict, ids: list, logits, routing) -> tuple:
    """(numbers for expected.json, logits of the bf16 mode)."""
    def run(numerics, **kwargs):
        model = Model(c, checkpoint.load_weights(c, strip(tensors), numerics.dtype), numerics, **kwargs)
        return model.forward(ids).double(), model.routing

    def row_error(x):
        return (x - logits).square().sum(-1) / logits.square().sum(-1)

    f32, f32_routing = run(ops.Numerics(torch.float32), absorbed=True)
    bf16, bf16_routing = run(ops.Numerics(torch.float32, bf16=True), chunkwise=True)
    flips = sum(int((a.sort(-1).values != b.sort(-1).values).any(-1).sum()) for a, b in zip(bf16_routing, routing))
    same = all(torch.equal(a, b) for a, b in zip(f32_routing, routing))
    assert same, "float32 routes differently"
    return {"float32_max_error": float((f32 - logits).abs().max()),
            "bf16_median_row_nmse": float(row_error(bf16).median()),
            "bf16_rows_with_other_experts": flips}, bf16


def write(name: str) -> int:
    raw = variant_config(name)
    c = config_lib.parse(raw)
    base, changes = VARIANTS[name]
    for seed in range(1, 60):
        ids = np.random.Generator(np.random.PCG64(seed)).integers(0, VOCAB, T).tolist()
        tensors = make_tensors(c, seed, mxfp4=c.nested)
        ok, logits, routing, greedy = try_seed(c, tensors, ids)
        if not ok:
            continue
        numbers, bf16 = expectations(c, tensors, ids, logits, routing)
        if numbers["float32_max_error"] <= FLOAT32_ERROR:
            break
    else:
        raise SystemExit(f"{name}: no seed has clear margins")
    folder = os.path.join(OUT, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(raw, f, indent=1)
        f.write("\n")
    checkpoint.write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    checkpoint.write_safetensors(os.path.join(folder, "expected.safetensors"), {
        "logits": logits.float(), "logits_bf16": bf16.to(torch.bfloat16), "routing": routing.to(torch.int32)})
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as f:
        json.dump({"ids": ids, "greedy": greedy, "latent_norm_eps": c.latent_norm_eps, "seed": seed,
                   "base": base, "differs_by": changes, "reference": numbers}, f)
        f.write("\n")
    size = sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder))
    print(f"{name:18} seed {seed:3}  {size / 1000:6.0f} kB  {numbers}", flush=True)
    return size


def main() -> None:
    names = sys.argv[1:] or list(VARIANTS)
    total = sum(write(name) for name in names)
    print(f"{len(names)} fixtures, {total / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
