#!/usr/bin/env python3
# Provenance: written for this project before its first commit; copied unchanged except for this line.
"""Export a synthetic Kimi K3 checkpoint (see make_checkpoint.py) to GGUF.

llama.cpp's own converter needs PyTorch 2 and transformers; this one needs NumPy only
and covers just the `kimi-k3` text architecture, so that llama.cpp can be measured on
the same weights. The mapping is that of its converter:

  * MXFP4 experts are re-packed without loss, and stacked per layer
  * each AttnRes norm and projection vector pair becomes one product vector
  * ssm_a holds -exp(A_log) of the real heads; kv_b is split into k_b (transposed), v_b
  * vectors, conv weights and the router stay F32

The other matrices are written as --trunk says: bf16 keeps the checkpoint's bytes,
f32 and f16 widen or round them, q8_0 quantizes them. --experts f32 widens the experts
too: llama.cpp rounds activations to bf16 before bf16 matrices and to 8 bits before
MXFP4 ones, so only a file that is F32 throughout shows its arithmetic without that.

Usage: export_gguf.py CHECKPOINT_DIR OUT.gguf [--trunk bf16|f32|f16|q8_0] [--experts mxfp4|f32]
"""
from __future__ import annotations

import argparse
import base64
import json
import mmap
import os
import struct
import sys

import numpy as np

ALIGN = 32
F32, F16, Q8_0, BF16, MXFP4 = 0, 1, 8, 30, 39  # ggml tensor types
FILE_TYPE = {"f32": 0, "f16": 1, "q8_0": 7, "bf16": 32}  # llama_ftype


# ------------------------------------------------------------------ safetensors in
class Checkpoint:
    """All tensors of a sharded safetensors directory, mapped into memory."""

    def __init__(self, path: str):
        self.config = json.load(open(os.path.join(path, "config.json"), encoding="utf-8"))["text_config"]
        self.where = {}
        for name in sorted(n for n in os.listdir(path) if n.endswith(".safetensors")):
            with open(os.path.join(path, name), "rb") as f:
                data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
            (n,) = struct.unpack("<Q", data[:8])
            for key, e in json.loads(data[8:8 + n]).items():
                if key != "__metadata__":
                    self.where[key] = (data, 8 + n, e)

    def raw(self, name: str) -> np.ndarray:
        """The stored values; BF16 comes back as uint16 bits."""
        data, base, e = self.where[name]
        dtype = {"BF16": "<u2", "F32": "<f4", "U8": "u1"}[e["dtype"]]
        count = int(np.prod(e["shape"], dtype=np.int64))
        return np.frombuffer(data, dtype, count, base + e["data_offsets"][0]).reshape(e["shape"])

    def f32(self, name: str) -> np.ndarray:
        x = self.raw(name)
        return (x.astype("<u4") << 16).view("<f4") if x.dtype == np.dtype("<u2") else x.astype("<f4")


# ------------------------------------------------------------------------ encoding
def q8_0(x: np.ndarray) -> np.ndarray:
    """Blocks of 32: an f16 scale, then 32 int8. Rows keep their length in blocks."""
    blocks = x.reshape(-1, 32)
    scale = np.abs(blocks).max(axis=1) / 127
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    out = np.empty((len(blocks), 34), np.uint8)
    out[:, :2] = scale.astype("<f2")[:, None].view(np.uint8)
    out[:, 2:] = np.rint(blocks * inverse[:, None]).astype(np.int8).view(np.uint8)
    return out


def repack_mxfp4(packed: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Per group: scale byte, then byte j = element j (low nibble) and j + 16 (high)."""
    rows, groups = scale.shape
    pairs = packed.reshape(rows, groups, 16)
    code = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(rows, groups, 32)
    out = np.empty((rows, groups, 17), np.uint8)
    out[:, :, 0] = scale
    out[:, :, 1:] = code[:, :, :16] | (code[:, :, 16:] << 4)
    return out


E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], "<f4")


def widen_mxfp4(packed: np.ndarray, scale: np.ndarray) -> np.ndarray:
    rows, groups = scale.shape
    pairs = packed.reshape(rows, groups, 16)
    value = E2M1[np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(rows, groups, 32)]
    return np.ldexp(value, scale.astype(np.int32)[:, :, None] - 127).reshape(rows, groups * 32)


# -------------------------------------------------------------------- tensor mapping
def gguf_tensors(ck: Checkpoint, trunk: str, experts: str):
    """Yield (name, ggml type, shape in numpy order, array)."""
    c = ck.config
    full = set(c["linear_attn_config"]["full_attn_layers"])
    kda_heads = c["linear_attn_config"]["num_heads"]
    root = "language_model.model."

    def encode(name, bits):
        """A BF16 matrix, given as uint16 bits, in the --trunk type."""
        if trunk == "bf16":
            return name, BF16, bits.shape, bits
        x = (np.ascontiguousarray(bits).astype("<u4") << 16).view("<f4")
        if trunk == "f32":
            return name, F32, x.shape, x
        if trunk == "f16" or x.shape[-1] % 32:
            return name, F16, x.shape, x.astype("<f2")
        return name, Q8_0, x.shape, q8_0(x)

    def mat(name, src):
        return encode(name + ".weight", ck.raw(src + ".weight"))

    def vec(name, src, shape=None):
        x = ck.f32(src)
        x = x.reshape(shape) if shape else x
        return name, F32, x.shape, x

    def score(name, src):
        x = ck.f32(src + "_norm.weight").ravel() * ck.f32(src + "_proj.weight").ravel()
        return name + ".weight", F32, x.shape, x

    yield mat("token_embd", root + "embed_tokens")
    yield mat("output", "language_model.lm_head")
    yield vec("output_norm.weight", root + "norm.weight")
    yield score("output_res_score", root + "output_attn_res")

    for i in range(c["num_hidden_layers"]):
        src, dst = f"{root}layers.{i}.", f"blk.{i}."
        a = src + "self_attn."
        yield vec(dst + "attn_norm.weight", src + "input_layernorm.weight")
        yield vec(dst + "ffn_norm.weight", src + "post_attention_layernorm.weight")
        yield score(dst + "attn_res_score", src + "self_attention_res")
        yield score(dst + "ffn_res_score", src + "mlp_res")
        yield mat(dst + "attn_output", a + "o_proj")

        if i + 1 in full:
            for d, s in (("attn_q_a", "q_a_proj"), ("attn_q_b", "q_b_proj"),
                         ("attn_kv_a_mqa", "kv_a_proj_with_mqa"), ("attn_gate", "g_proj")):
                yield mat(dst + d, a + s)
            yield vec(dst + "attn_q_a_norm.weight", a + "q_a_layernorm.weight")
            yield vec(dst + "attn_kv_a_norm.weight", a + "kv_a_layernorm.weight")
            nope, v = c["qk_nope_head_dim"], c["v_head_dim"]
            kv_b = ck.raw(a + "kv_b_proj.weight").reshape(c["num_attention_heads"], nope + v, -1)
            yield encode(dst + "attn_k_b.weight", kv_b[:, :nope].transpose(0, 2, 1))
            yield encode(dst + "attn_v_b.weight", kv_b[:, nope:])
        else:
            for d, s in (("attn_q", "q_proj"), ("attn_k", "k_proj"), ("attn_v", "v_proj"), ("ssm_g", "g_proj"),
                         ("ssm_f_a", "f_a_proj"), ("ssm_f_b", "f_b_proj"), ("ssm_beta", "b_proj")):
                yield mat(dst + d, a + s)
            for x in "qkv":
                inner, _, width = ck.raw(f"{a}{x}_conv1d.weight").shape
                yield vec(f"{dst}ssm_conv1d_{x}.weight", f"{a}{x}_conv1d.weight", (1, inner, 1, width))
            neg = -np.exp(ck.f32(a + "A_log")[:kda_heads])
            yield dst + "ssm_a", F32, neg.shape, neg
            yield vec(dst + "ssm_dt.bias", a + "dt_bias")
            yield vec(dst + "ssm_norm.weight", a + "o_norm.weight")

        if i < c["first_k_dense_replace"]:
            for n in ("gate", "up", "down"):
                yield mat(f"{dst}ffn_{n}", f"{src}mlp.{n}_proj")
            continue
        m = src + "block_sparse_moe."
        yield vec(dst + "ffn_gate_inp.weight", m + "gate.weight")
        yield vec(dst + "exp_probs_b.bias", m + "gate.e_score_correction_bias")
        yield mat(dst + "ffn_routed_down", m + "routed_expert_down_proj")
        yield mat(dst + "ffn_routed_up", m + "routed_expert_up_proj")
        yield vec(dst + "ffn_routed_norm.weight", m + "routed_expert_norm.weight")
        for n in ("gate", "up", "down"):
            yield mat(f"{dst}ffn_{n}_shexp", f"{m}shared_experts.{n}_proj")
        for n, w in (("gate", "w1"), ("down", "w2"), ("up", "w3")):
            convert = repack_mxfp4 if experts == "mxfp4" else widen_mxfp4
            stack = np.stack([convert(ck.raw(f"{m}experts.{e}.{w}.weight_packed"),
                                      ck.raw(f"{m}experts.{e}.{w}.weight_scale"))
                              for e in range(c["num_experts"])])
            rows, groups = ck.raw(f"{m}experts.0.{w}.weight_scale").shape
            yield (f"{dst}ffn_{n}_exps.weight", MXFP4 if experts == "mxfp4" else F32,
                   (c["num_experts"], rows, groups * 32), stack)


# ------------------------------------------------------------------------- metadata
def byte_alphabet() -> dict[int, str]:
    """The GPT-2 byte-to-character table used for token text in GGUF."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in keep}
    for b in range(256):
        table.setdefault(b, chr(256 + len(table) - len(keep)))
    return table


def tokenizer(path: str, vocab_size: int):
    """(token texts, token types, merges); every toy token is a join of two earlier ones."""
    table, ranks = byte_alphabet(), {}
    with open(os.path.join(path, "tiktoken.model"), encoding="ascii") as f:
        for line in f:
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    def text(b):
        return "".join(table[x] for x in b)
    tokens, merges = [text(b) for b in ranks], []
    for b in ranks:
        if len(b) > 1:
            cut = next(i for i in range(len(b) - 1, 0, -1) if b[:i] in ranks and b[i:] in ranks)
            merges.append(f"{text(b[:cut])} {text(b[cut:])}")
    added = json.load(open(os.path.join(path, "tokenizer_config.json"), encoding="utf-8"))["added_tokens_decoder"]
    tokens += [added[str(i)]["content"] for i in range(len(tokens), vocab_size)]
    return tokens, [1] * len(ranks) + [3] * (vocab_size - len(ranks)), merges


def metadata(c: dict, path: str, trunk: str):
    lin, arch = c["linear_attn_config"], "kimi-k3."
    u32, f32, string, i32s, strings = "u32", "f32", "str", "[i32", "[str"
    heads_kv = [int(i + 1 in lin["full_attn_layers"]) for i in range(c["num_hidden_layers"])]
    tokens, types, merges = tokenizer(path, c["vocab_size"])
    rope, lora = c["qk_rope_head_dim"], c["kv_lora_rank"]
    return [
        ("general.architecture", string, "kimi-k3"),
        ("general.name", string, "synthetic " + os.path.basename(os.path.normpath(path))),
        ("general.file_type", u32, FILE_TYPE[trunk]),
        (arch + "block_count", u32, c["num_hidden_layers"]),
        (arch + "context_length", u32, c["max_position_embeddings"]),
        (arch + "embedding_length", u32, c["hidden_size"]),
        (arch + "feed_forward_length", u32, c["intermediate_size"]),
        (arch + "vocab_size", u32, c["vocab_size"]),
        (arch + "attention.head_count", u32, c["num_attention_heads"]),
        (arch + "attention.head_count_kv", i32s, heads_kv),
        (arch + "attention.layer_norm_rms_epsilon", f32, c["rms_norm_eps"]),
        (arch + "attention.q_lora_rank", u32, c["q_lora_rank"]),
        (arch + "attention.kv_lora_rank", u32, lora),
        (arch + "attention.key_length", u32, lora + rope),
        (arch + "attention.value_length", u32, lora),
        (arch + "attention.key_length_mla", u32, c["qk_nope_head_dim"] + rope),
        (arch + "attention.value_length_mla", u32, c["v_head_dim"]),
        (arch + "rope.dimension_count", u32, rope),
        (arch + "ssm.conv_kernel", u32, lin["short_conv_kernel_size"]),
        (arch + "kda.head_dim", u32, lin["head_dim"]),
        (arch + "kda.gate_lower_bound", f32, lin["gate_lower_bound"]),
        (arch + "expert_count", u32, c["num_experts"]),
        (arch + "expert_used_count", u32, c["num_experts_per_token"]),
        (arch + "expert_shared_count", u32, c["num_shared_experts"]),
        (arch + "expert_feed_forward_length", u32, c["moe_intermediate_size"]),
        (arch + "expert_latent_length", u32, c["routed_expert_hidden_size"]),
        (arch + "expert_weights_scale", f32, c["routed_scaling_factor"]),
        (arch + "expert_weights_norm", "bool", c["moe_renormalize"]),
        (arch + "expert_gating_func", u32, 2),  # sigmoid
        (arch + "leading_dense_block_count", u32, c["first_k_dense_replace"]),
        (arch + "activation.situ_beta", f32, c["activation_situ_beta"]),
        (arch + "activation.situ_linear_beta", f32, c["activation_situ_linear_beta"]),
        (arch + "attn_res.block_size", u32, c["attn_res_block_size"]),
        ("tokenizer.ggml.model", string, "gpt2"),
        ("tokenizer.ggml.pre", string, "kimi-k2"),
        ("tokenizer.ggml.tokens", strings, tokens),
        ("tokenizer.ggml.token_type", i32s, types),
        ("tokenizer.ggml.merges", strings, merges),
        ("tokenizer.ggml.bos_token_id", u32, c["bos_token_id"]),
        ("tokenizer.ggml.eos_token_id", u32, c["eos_token_id"]),
        ("tokenizer.ggml.padding_token_id", u32, c["pad_token_id"]),
    ]


KIND = {"u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?"), "str": (8, None)}


def pack_string(s: str) -> bytes:
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def pack_value(kind: str, value) -> bytes:
    """Type tag and value; "[x" is an array of x."""
    if kind.startswith("["):
        tag, fmt = KIND[kind[1:]]
        body = b"".join(pack_string(v) if fmt is None else struct.pack(fmt, v) for v in value)
        return struct.pack("<IIQ", 9, tag, len(value)) + body
    tag, fmt = KIND[kind]
    return struct.pack("<I", tag) + (pack_string(value) if fmt is None else struct.pack(fmt, value))


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("checkpoint")
    ap.add_argument("out")
    ap.add_argument("--trunk", choices=FILE_TYPE, default="bf16")
    ap.add_argument("--experts", choices=("mxfp4", "f32"), default="mxfp4")
    a = ap.parse_args()

    ck = Checkpoint(a.checkpoint)
    infos, blobs, offset = [], [], 0
    for name, kind, shape, array in gguf_tensors(ck, a.trunk, a.experts):
        blob = np.ascontiguousarray(array)
        dims = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        infos.append(pack_string(name) + dims + struct.pack("<IQ", kind, offset))
        blobs.append(blob)
        offset += blob.nbytes + -blob.nbytes % ALIGN

    kv = metadata(ck.config, a.checkpoint, a.trunk)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(kv))
    head += b"".join(pack_string(k) + pack_value(t, v) for k, t, v in kv) + b"".join(infos)
    with open(a.out, "wb") as f:
        f.write(head + bytes(-len(head) % ALIGN))
        for blob in blobs:
            f.write(blob.tobytes())
            f.write(bytes(-blob.nbytes % ALIGN))
    print(f"{a.out}: {len(infos)} tensors, {offset/1e6:.1f} MB, trunk {a.trunk}, experts {a.experts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
