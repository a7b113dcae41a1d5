#!/usr/bin/env python3
# Provenance: written for this project before its first commit; copied unchanged except for this line.
"""Write a synthetic Kimi K3 or Kimi Linear checkpoint in the released Hugging Face layout.

The real K3 checkpoint is 1.56 TB, so tests and benchmarks run on small models with
random weights that keep every feature of the architecture. The K3 presets have:

  * KDA and MLA layers mixed 3:1, ending in two MLA layers where the preset does
  * block attention residuals (AttnRes), block size > 1 and a part-filled last block
  * one leading dense layer, then latent MoE with a biased sigmoid router
  * routed experts in MXFP4 (compressed-tensors "mxfp4-pack-quantized"), group 32
  * SiTU activation with both caps reached, shared experts, MLA output gate, NoPE
  * A_log padded with zeros to head_dim, as released (only the first num_heads count)

`tiny-linear` follows Kimi-Linear-48B-A3B instead: ordinary residuals, softplus decay
gate (some decays far below e^-5), low-rank output gate, MLA without q-LoRA or output
gate, SwiGLU, full-width BF16 experts scaled by 2.446, one shared expert, A_log
[1,1,heads,1], names without the "language_model." prefix, a flat config.json.

Output directory:

  config.json                     as released: K3 nests text_config (no vision tower)
  model-0000i-of-0000N.safetensors, model.safetensors.index.json
  tiktoken.model, tokenizer_config.json   a small byte-complete vocabulary

Names, shapes and packing follow the released checkpoints: BF16 everywhere, except F32
for A_log, dt_bias and e_score_correction_bias and U8 for packed experts and their E8M0
scales. (One difference: the released K3 stores conv1d and o_norm weights as F32, here
they are BF16, so a loader must go by the dtype in the file.) Within a shard, each
layer's non-expert tensors are contiguous.

Determinism: each tensor's bytes depend on nothing but (seed, tensor name, shape).
They come from PCG64's raw integer stream, whose stability NumPy guarantees, and go
through integer and single-rounding arithmetic only, so a seed gives the same file on
any machine and with any NumPy.

Usage:
  make_checkpoint.py --preset tiny  --out DIR [--seed 1] [--shards 2]
  make_checkpoint.py --preset small --out DIR
  make_checkpoint.py --preset tiny  --out DIR --set num_experts=32 --set vocab_size=1024
  make_checkpoint.py --list          print the presets and their sizes, write nothing

Needs Python 3.9+ and NumPy.
"""
from __future__ import annotations

import argparse
import base64
import hashlib
import json
import math
import os
import struct
import sys

import numpy as np

GROUP = 32  # MXFP4 group size
N_SPECIAL = 16  # ids reserved at the top of the vocabulary

# Model shapes. full_attn_layers is ONE-based, as in the released config. The router_*
# keys shape the weights only: `tiny` chooses experts by a clear margin, so that float32
# rounding swaps none (a swap moves the logits far more than rounding does; bf16 rounding
# still swaps one in about 8 % of the choices); `small` spreads the tokens evenly, as a
# trained router does.
PRESETS = {
    # For parity tests: seconds on any engine, still 9 layers and 3 AttnRes blocks.
    "tiny": dict(
        vocab_size=512, hidden_size=256, num_hidden_layers=9, intermediate_size=512,
        num_attention_heads=4, q_lora_rank=96, kv_lora_rank=64, qk_nope_head_dim=32,
        qk_rope_head_dim=16, v_head_dim=32, kda_num_heads=4, kda_head_dim=32,
        full_attn_layers=[4, 8, 9], attn_res_block_size=3,
        num_experts=16, num_experts_per_token=4, num_shared_experts=2,
        moe_intermediate_size=64, routed_expert_hidden_size=128,
        router_gain=0.6, router_bias=0.3,
    ),
    # For speed: the released head sizes (128/64/128, KDA 128) at 1/7 of the width.
    "small": dict(
        vocab_size=16384, hidden_size=1024, num_hidden_layers=12, intermediate_size=4800,
        num_attention_heads=12, q_lora_rank=256, kv_lora_rank=256, qk_nope_head_dim=128,
        qk_rope_head_dim=64, v_head_dim=128, kda_num_heads=12, kda_head_dim=128,
        full_attn_layers=[4, 8, 12], attn_res_block_size=3,
        num_experts=64, num_experts_per_token=8, num_shared_experts=2,
        moe_intermediate_size=384, routed_expert_hidden_size=512,
        router_gain=1.0, router_bias=0.05,
    ),
    # For parity tests of the older family; None stands for a key absent from its config.
    "tiny-linear": dict(
        family="kimi_linear",
        vocab_size=512, hidden_size=256, num_hidden_layers=7, intermediate_size=512,
        num_attention_heads=4, q_lora_rank=None, kv_lora_rank=64, qk_nope_head_dim=32,
        qk_rope_head_dim=16, v_head_dim=32, kda_num_heads=4, kda_head_dim=32,
        full_attn_layers=[4, 7], attn_res_block_size=None,
        num_experts=16, num_experts_per_token=4, num_shared_experts=1,
        moe_intermediate_size=64, routed_expert_hidden_size=None,
        router_gain=0.6, router_bias=0.3,
        gate_lower_bound=None, routed_scaling_factor=2.446,
        activation_situ_beta=None, activation_situ_linear_beta=None,
    ),
}

# None in kimi_linear presets: the tensors and config keys do not exist there.
K3_ONLY = ("q_lora_rank", "attn_res_block_size", "routed_expert_hidden_size", "gate_lower_bound",
           "activation_situ_beta", "activation_situ_linear_beta")

# The same in every K3 preset, and equal to the released values.
FIXED = dict(
    family="kimi_k3",
    rms_norm_eps=1e-5, short_conv_kernel_size=4, gate_lower_bound=-5.0,
    routed_scaling_factor=1.0, first_k_dense_replace=1,
    activation_situ_beta=4.0, activation_situ_linear_beta=25.0,
)


# ------------------------------------------------------------------ random data
def raw_bytes(seed: int, name: str, n: int) -> np.ndarray:
    """n bytes that depend only on (seed, name)."""
    key = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    words = np.random.PCG64(int.from_bytes(key, "little")).random_raw((n + 7) // 8)
    return words.astype("<u8").view(np.uint8)[:n]


def bell(seed: int, name: str, shape, std: float, mean: float = 0.0) -> np.ndarray:
    """Roughly normal float32 values: sums of four random bytes, centred and scaled."""
    n = math.prod(shape)
    total = raw_bytes(seed, name, 4 * n).reshape(n, 4).sum(axis=1, dtype=np.int32) - 510
    unit = np.float32(std / math.sqrt(4 * (256**2 - 1) / 12))
    return (total.astype(np.float32) * unit + np.float32(mean)).reshape(shape)


def to_bf16(x: np.ndarray) -> np.ndarray:
    """Round float32 to bfloat16 (nearest, ties to even), returned as uint16 bits."""
    bits = x.astype("<f4").view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


# How many of 128 byte values map to each E2M1 magnitude 0, .5, 1, 1.5, 2, 3, 4, 6:
# a normal distribution of sigma 2.7 rounded to E2M1, which is what the OCP scaling
# rule yields on normal weights. The root mean square is E2M1_RMS.
E2M1_COUNTS = (9, 19, 18, 16, 21, 20, 17, 8)
E2M1_RMS = 2.626
assert sum(E2M1_COUNTS) == 128


def mxfp4(seed: int, name: str, rows: int, cols: int, std: float):
    """Random MXFP4 matrix: (packed [rows, cols/2], scales [rows, cols/32]), both uint8.

    Element 2i is in the low nibble of byte i and element 2i+1 in the high one; a scale
    byte e stands for 2^(e-127). All sixteen codes and three exponents occur.
    """
    assert cols % GROUP == 0, f"{name}: width {cols} is not a multiple of {GROUP}"
    magnitude = np.repeat(np.arange(8, dtype=np.uint8), E2M1_COUNTS)
    code = np.concatenate([magnitude, magnitude | 8])
    codes = code[raw_bytes(seed, name + ".codes", rows * cols)].reshape(rows, cols)
    packed = codes[:, 0::2] | (codes[:, 1::2] << 4)
    spread = np.array([-1, 0, 0, 1], dtype=np.int64)
    step = spread[raw_bytes(seed, name + ".scales", rows * cols // GROUP) & 3]
    base = 127 + round(math.log2(std / E2M1_RMS))
    return packed, (base + step).astype(np.uint8).reshape(rows, cols // GROUP)


# --------------------------------------------------------------- tensor inventory
# Gate, up and down gains. The gate often passes its cap of 4 and the up branch feels
# its cap of 25; SiTU's output is then about 4 in size, and down brings it back below 1.
GLU_GAINS = (2.0, 4.0, 0.2)


def tensors(c: dict, seed: int):
    """Yield (group, name, dtype, shape, make) in file order; make() returns the bytes.

    `group` is the layer index, or -1 for the embedding and num_hidden_layers for the
    head, and decides the shard. Gains are chosen so that the SiTU caps, the routing bias
    and the AttnRes softmax all matter, while a relative error in the embedding grows
    only about 2-fold on its way to the logits, so that engines can be compared.
    """
    H, L = c["hidden_size"], c["num_hidden_layers"]
    nh, qk, vh = c["num_attention_heads"], c["qk_nope_head_dim"] + c["qk_rope_head_dim"], c["v_head_dim"]
    ql, kvl = c["q_lora_rank"], c["kv_lora_rank"]
    kh, kd, conv = c["kda_num_heads"], c["kda_head_dim"], c["short_conv_kernel_size"]
    lat, inter, E = c["routed_expert_hidden_size"], c["moe_intermediate_size"], c["num_experts"]
    full = set(c["full_attn_layers"])
    k3 = c["family"] == "kimi_k3"

    def mat(name, rows, cols, gain=1.0):
        std = gain / math.sqrt(cols)
        return name, "BF16", (rows, cols), lambda: to_bf16(bell(seed, name, (rows, cols), std))

    def norm(name, n):
        return name, "BF16", (n,), lambda: to_bf16(bell(seed, name, (n,), 0.1, 1.0))

    def glu(prefix, rows, cols, names):
        for name, gain, size in zip(names, GLU_GAINS, ((rows, cols), (rows, cols), (cols, rows))):
            yield mat(f"{prefix}{name}.weight", *size, gain)

    def residual(prefix):
        yield norm(f"{prefix}_norm.weight", H)
        yield mat(f"{prefix}_proj.weight", 1, H, 0.7)

    def kda(p):
        P = kh * kd
        for n in ("q_proj", "k_proj", "v_proj"):
            yield mat(f"{p}{n}.weight", P, H)
        for n in ("q_conv1d", "k_conv1d", "v_conv1d"):
            name = f"{p}{n}.weight"
            yield name, "BF16", (P, 1, conv), lambda name=name: to_bf16(bell(seed, name, (P, 1, conv), 0.5))
        name_a, name_dt = p + "A_log", p + "dt_bias"

        def a_log():
            a = np.zeros(kd, dtype="<f4")
            a[:kh] = bell(seed, name_a, (kh,), 0.5, 0.4)
            return a
        if k3:
            yield name_a, "F32", (kd,), a_log
        else:
            yield name_a, "F32", (1, 1, kh, 1), lambda: bell(seed, name_a, (1, 1, kh, 1), 0.8, 1.0).astype("<f4")
        yield name_dt, "F32", (P,), lambda: bell(seed, name_dt, (P,), 1.0, -2.0).astype("<f4")
        yield mat(f"{p}f_a_proj.weight", kd, H)
        yield mat(f"{p}f_b_proj.weight", P, kd)
        yield mat(f"{p}b_proj.weight", kh, H, 1.5)
        if k3:
            yield mat(f"{p}g_proj.weight", P, H)
        else:
            yield mat(f"{p}g_a_proj.weight", kd, H)
            yield mat(f"{p}g_b_proj.weight", P, kd)
        yield norm(f"{p}o_norm.weight", kd)
        yield mat(f"{p}o_proj.weight", H, P, 0.7)

    def mla(p):
        if k3:
            yield mat(f"{p}q_a_proj.weight", ql, H)
            yield norm(f"{p}q_a_layernorm.weight", ql)
            yield mat(f"{p}q_b_proj.weight", nh * qk, ql)
        else:
            yield mat(f"{p}q_proj.weight", nh * qk, H)
        yield mat(f"{p}kv_a_proj_with_mqa.weight", kvl + c["qk_rope_head_dim"], H)
        yield norm(f"{p}kv_a_layernorm.weight", kvl)
        yield mat(f"{p}kv_b_proj.weight", nh * (c["qk_nope_head_dim"] + vh), kvl)
        if k3:
            yield mat(f"{p}g_proj.weight", nh * vh, H)
        yield mat(f"{p}o_proj.weight", H, nh * vh)

    def moe(p):
        yield mat(f"{p}gate.weight", E, H, c["router_gain"])
        bias = p + "gate.e_score_correction_bias"
        yield bias, "F32", (E,), lambda: bell(seed, bias, (E,), c["router_bias"]).astype("<f4")
        if k3:
            yield mat(f"{p}routed_expert_down_proj.weight", lat, H)
            yield norm(f"{p}routed_expert_norm.weight", lat)
            yield mat(f"{p}routed_expert_up_proj.weight", H, lat, 0.7)
        yield from glu(p + "shared_experts.", inter * c["num_shared_experts"], H,
                       ("gate_proj", "up_proj", "down_proj"))

    def experts(p):
        for e in range(E):
            if not k3:
                yield from glu(f"{p}experts.{e}.", inter, H, ("w1", "w3", "w2"))
                continue
            for w, rows, cols, gain in (("w1", inter, lat, GLU_GAINS[0]), ("w2", lat, inter, GLU_GAINS[2]),
                                        ("w3", inter, lat, GLU_GAINS[1])):
                base, std = f"{p}experts.{e}.{w}", gain / math.sqrt(cols)
                def make(part, base=base, rows=rows, cols=cols, std=std):
                    return lambda: mxfp4(seed, base, rows, cols, std)[part]
                yield base + ".weight_packed", "U8", (rows, cols // 2), make(0)
                yield base + ".weight_scale", "U8", (rows, cols // GROUP), make(1)

    head = "language_model." if k3 else ""
    root = head + "model."
    yield (-1, *mat(root + "embed_tokens.weight", c["vocab_size"], H, (3 if k3 else 2) * math.sqrt(H)))
    for i in range(L):
        p = f"{root}layers.{i}."
        parts = [[norm(p + "input_layernorm.weight", H), norm(p + "post_attention_layernorm.weight", H)]]
        if k3:
            parts += [residual(p + "self_attention_res"), residual(p + "mlp_res")]
        parts.append((mla if i + 1 in full else kda)(p + "self_attn."))
        if i < c["first_k_dense_replace"]:
            parts.append(glu(p + "mlp.", c["intermediate_size"], H, ("gate_proj", "up_proj", "down_proj")))
        else:
            parts += [moe(p + "block_sparse_moe."), experts(p + "block_sparse_moe.")]
        for part in parts:
            for t in part:
                yield (i, *t)
    for t in (*(residual(root + "output_attn_res") if k3 else ()), norm(root + "norm.weight", H),
              mat(head + "lm_head.weight", c["vocab_size"], H)):
        yield (L, *t)


# -------------------------------------------------------------------- file output
ITEM_SIZE = {"BF16": 2, "F32": 4, "U8": 1}


def write_safetensors(path: str, entries) -> int:
    """Stream one safetensors file; holds one tensor in memory. Returns the data size."""
    header, offset = {}, 0
    for name, dtype, shape, _ in entries:
        size = math.prod(shape) * ITEM_SIZE[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)))
        f.write(text)
        for name, dtype, shape, make in entries:
            data = np.ascontiguousarray(make())
            assert data.nbytes == math.prod(shape) * ITEM_SIZE[dtype], name
            f.write(data.tobytes())
    return offset


def write_json(path: str, value) -> None:
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


def config_json(c: dict) -> dict:
    """The released config.json shape: layer lists one-based; K3 nests the text model."""
    full = c["full_attn_layers"]
    k3 = c["family"] == "kimi_k3"
    text = {k: c[k] for k in (
        "vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads",
        "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
        "attn_res_block_size", "num_experts", "num_experts_per_token", "num_shared_experts",
        "moe_intermediate_size", "routed_expert_hidden_size", "rms_norm_eps", "routed_scaling_factor",
        "first_k_dense_replace", "activation_situ_beta", "activation_situ_linear_beta")
        if c[k] is not None or k == "q_lora_rank"}
    text.update({
        "model_type": "kimi_linear",
        "num_key_value_heads": c["num_attention_heads"],
        "hidden_act": "situ",
        "mla_use_nope": True,
        "mla_use_output_gate": True,
        "latent_moe_use_norm": True,
        "moe_renormalize": True,
        "moe_router_activation_func": "sigmoid",
        "moe_layer_freq": 1,
        "use_grouped_topk": True,
        "num_expert_group": 1,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "num_nextn_predict_layers": 0,
        "tie_word_embeddings": False,
        "max_position_embeddings": 1048576,
        "bos_token_id": c["vocab_size"] - N_SPECIAL,
        "eos_token_id": c["vocab_size"] - N_SPECIAL + 2,
        "pad_token_id": c["vocab_size"] - N_SPECIAL + 3,
        "dtype": "bfloat16",
        "linear_attn_config": {
            "num_heads": c["kda_num_heads"], "head_dim": c["kda_head_dim"],
            "short_conv_kernel_size": c["short_conv_kernel_size"],
            "gate_lower_bound": c["gate_lower_bound"], "use_full_rank_gate": True,
            "full_attn_layers": full,
            "kda_layers": [i for i in range(1, c["num_hidden_layers"] + 1) if i not in full],
        },
        "quantization_config": {
            "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
            "config_groups": {"group_0": {
                "format": "mxfp4-pack-quantized", "targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "float", "strategy": "group",
                            "group_size": GROUP, "symmetric": True}}},
            "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\..*",
                       "re:.*routed_expert_.*_proj.*"],
        },
    })
    if k3:
        return {"architectures": ["KimiK3ForConditionalGeneration"], "model_type": "kimi_k3",
                "dtype": "bfloat16", "tie_word_embeddings": False, "text_config": text}
    for key in ("mla_use_output_gate", "latent_moe_use_norm", "topk_method", "quantization_config"):
        del text[key]
    for key in ("gate_lower_bound", "use_full_rank_gate"):
        del text["linear_attn_config"][key]
    # The last two keys are in the released file, but no part of the model may use them.
    text.update(architectures=["KimiLinearForCausalLM"], hidden_act="silu",
                model_max_length=text.pop("max_position_embeddings"),
                rope_theta=10000.0, head_dim=c["hidden_size"] // c["num_attention_heads"])
    return text


def vocabulary(size: int) -> list[bytes]:
    """All 256 bytes, then letter pairs and triples, each a join of two earlier tokens."""
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    out = [bytes([b]) for b in range(256)]
    want = size - N_SPECIAL
    for pool in ([" " + a for a in letters], [a + b for a in letters for b in letters],
                 [a + b + d for a in letters for b in letters for d in letters]):
        out += [s.encode() for s in pool][: max(0, want - len(out))]
    if len(out) < want:
        raise SystemExit(f"vocab_size {size} is larger than this toy tokenizer can fill")
    return out[:want]


STOP = {"kimi_k3": "<|end_of_msg|>", "kimi_linear": "<|im_end|>"}


def write_tokenizer(out: str, c: dict) -> None:
    size = c["vocab_size"]
    with open(os.path.join(out, "tiktoken.model"), "wb") as f:
        for rank, token in enumerate(vocabulary(size)):
            f.write(base64.b64encode(token) + b" %d\n" % rank)
    first = size - N_SPECIAL
    names = ["[BOS]", "[EOS]", STOP[c["family"]], "[PAD]", "[UNK]"]
    names += [f"<|reserved_token_{first + i}|>" for i in range(len(names), N_SPECIAL)]
    write_json(os.path.join(out, "tokenizer_config.json"), {
        "tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]",
        "pad_token": "[PAD]", "unk_token": "[UNK]",
        "added_tokens_decoder": {str(first + i): {"content": n, "special": True}
                                 for i, n in enumerate(names)}})


def parameters(c: dict) -> tuple[int, int]:
    """(all parameters, those used for one token); scales count as no parameter."""
    total = active = 0
    for _, name, _, shape, _ in tensors(c, 0):
        n = math.prod(shape)
        if name.endswith("weight_scale"):
            continue
        if name.endswith("weight_packed"):
            n *= 2
        if ".experts." in name:
            active += n * c["num_experts_per_token"] / c["num_experts"]
        elif not name.endswith("embed_tokens.weight"):
            active += n
        total += n
    return total, round(active)


def check(c: dict) -> None:
    last = c["num_hidden_layers"]
    assert all(1 <= i <= last for i in c["full_attn_layers"]), "full_attn_layers is one-based"
    assert c["kda_num_heads"] <= c["kda_head_dim"], "A_log is padded to kda_head_dim"
    assert c["num_experts_per_token"] <= c["num_experts"]
    if c["family"] == "kimi_k3":
        for k in ("moe_intermediate_size", "routed_expert_hidden_size"):
            assert c[k] % GROUP == 0, f"{k} must be a multiple of {GROUP}"
    else:
        for k in K3_ONLY:
            assert c[k] is None, f"{k} is K3's alone"


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--preset", choices=PRESETS, default="tiny")
    ap.add_argument("--out", help="directory to create")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--shards", type=int, default=2, help="safetensors files; whole layers stay together")
    ap.add_argument("--set", action="append", default=[], metavar="KEY=JSON", help="override one shape")
    ap.add_argument("--list", action="store_true", help="print the presets and stop")
    a = ap.parse_args()

    if a.list:
        for name, p in PRESETS.items():
            total, active = parameters({**FIXED, **p})
            print(f"{name:12} {total/1e6:8.1f} M parameters, {active/1e6:7.1f} M per token")
        return 0
    if not a.out:
        ap.error("--out is required")

    c = {**FIXED, **PRESETS[a.preset]}
    for item in a.set:
        key, _, value = item.partition("=")
        if key not in c:
            ap.error(f"unknown key {key!r}; known: {', '.join(sorted(c))}")
        c[key] = json.loads(value)
    check(c)

    os.makedirs(a.out, exist_ok=True)
    items = list(tensors(c, a.seed))
    groups = c["num_hidden_layers"] + 2
    if not 1 <= a.shards <= groups:
        ap.error(f"--shards must be 1 to {groups}")
    shards = [[] for _ in range(a.shards)]
    for group, *entry in items:
        shards[(group + 1) * a.shards // groups].append(tuple(entry))

    weight_map, size = {}, 0
    for i, entries in enumerate(shards):
        name = f"model-{i + 1:05d}-of-{a.shards:05d}.safetensors"
        size += write_safetensors(os.path.join(a.out, name), entries)
        weight_map.update({entry[0]: name for entry in entries})
    write_json(os.path.join(a.out, "model.safetensors.index.json"),
               {"metadata": {"total_size": size}, "weight_map": weight_map})
    write_json(os.path.join(a.out, "config.json"), config_json(c))
    write_tokenizer(a.out, c)

    total, active = parameters(c)
    print(f"{a.out}: {len(items)} tensors in {a.shards} shard(s), {size/1e6:.1f} MB, "
          f"{total/1e6:.1f} M parameters, {active/1e6:.1f} M per token, seed {a.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
