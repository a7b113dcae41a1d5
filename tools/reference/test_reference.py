"""Self-tests of the reference: published vectors, identities, and that every tensor matters."""
import copy
import math
import unittest

import torch

import checkpoint
import config as config_lib
import make_fixtures
import ops
from model import Model, State

D = torch.float64


def tensor(*values):
    return torch.tensor(values, dtype=D)


def build(raw, seed=7, edit=None, **kwargs):
    c = config_lib.parse(raw)
    w = checkpoint.load_weights(c, make_fixtures.strip(make_fixtures.make_tensors(c, seed, c.nested)), D)
    if edit is not None:
        edit(w)
    return Model(c, w, ops.Numerics(), **kwargs)


def prompt(count=70):
    g = torch.Generator().manual_seed(11)
    return torch.randint(0, make_fixtures.VOCAB, (count,), generator=g).tolist()


class PublishedVectors(unittest.TestCase):
    def near(self, a, b, tol=2e-9):
        self.assertLess(float((a - torch.as_tensor(b, dtype=D)).abs().max()), tol)

    def test_mxfp4_nibble_order_and_signs(self):
        packed = torch.zeros(1, 16, dtype=torch.uint8)
        packed[0, :4] = torch.tensor([0x2B, 0xF1, 0x70, 0x89], dtype=torch.uint8)
        x = checkpoint.decode_mxfp4(packed, torch.tensor([[0x7D]], dtype=torch.uint8))
        self.near(x[0, :8], [-0.375, 0.25, 0.125, -1.5, 0.0, 1.5, -0.125, -0.0])

    def test_mxfp4_encoder_ties_to_even_and_clamp(self):
        values = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, -1.75, -5.0]
        w = torch.zeros(1, 32)
        w[0, :10] = torch.tensor(values)
        x = checkpoint.decode_mxfp4(*checkpoint.encode_mxfp4(w))
        self.near(x[0, :10], [0, 1, 1, 2, 2, 4, 4, 6, -2, -4])
        w[0, 0] = 7.9       # same exponent as 6
        self.near(checkpoint.decode_mxfp4(*checkpoint.encode_mxfp4(w))[0, 0], 6.0)

    def test_mxfp4_edge_scales(self):
        packed = torch.full((5, 16), 0x22, dtype=torch.uint8)
        scale = torch.tensor([[0], [1], [127], [134], [254]], dtype=torch.uint8)
        x = checkpoint.decode_mxfp4(packed, scale)[:, 0]
        self.assertEqual(x.tolist(), [2.0 ** e for e in (-127, -126, 0, 7, 127)])
        with self.assertRaises(ValueError):
            checkpoint.decode_mxfp4(packed[:1], torch.tensor([[255]], dtype=torch.uint8))

    def test_situ(self):
        g, u = tensor(1, -1, 3, 8, 50, 0), tensor(1, 2, -5, 60, -200, 1)
        self.near(ops.situ_glu(g, u, 4.0, 25.0),
                  [0.7158178281, -0.5258288955, -11.94172910, 94.79716836, -99.99997749, 0.0], 1e-8)

    def test_decay_gate_forms(self):
        for a, z, bounded, softplus in ((0, 0, -2.5, -0.693147181), (0, 1, -3.65529289, -1.31326169),
                                        (1.5, 0.25, -3.77033517, -3.70160367), (-1, 3, -3.75470598, -1.12151261)):
            self.near(ops.decay_gate(tensor(z).reshape(1, 1, 1), tensor(a), -5.0).flatten(), bounded, 1e-8)
            self.near(ops.decay_gate(tensor(z).reshape(1, 1, 1), tensor(a), None).flatten(), softplus, 1e-8)

    def test_recurrence(self):
        k = tensor((.6, .8), (1, 0)).unsqueeze(1)
        q = tensor((1, 0), (.6, .8)).unsqueeze(1) / math.sqrt(2.0)
        v = tensor((1, 2), (3, -1)).unsqueeze(1)
        g = torch.log(tensor((.5, .9), (.25, .8))).unsqueeze(1)
        o, S = ops.kda_recurrent(q, k, v, g, tensor(.5, .75).unsqueeze(1), torch.zeros(1, 2, 2, dtype=D))
        self.near(o[:, 0], [[.212132034, .424264069], [1.14356844, .059750523]], 1e-8)
        self.near(S[0], [[2.26875, -.7125], [.32, .64]])

    def test_mix(self):
        sources = [tensor(v) for v in ((1, -2, .5, 3), (.1, .2, -.3, .4), (10, 0, -10, 5))]
        out = ops.residual_mix(sources, tensor(1, 2, .5, 1), tensor(.1, -.2, .3, .05), 1e-5)
        self.near(out, [[3.3126015, -.999833924, -2.57285636, 3.02765681]], 1e-7)

    def test_router_bias_selects_but_does_not_weigh(self):
        chosen, w = ops.route(tensor((2, -1, .5, 3, 0)), tensor(0, .4, .1, -.6, 0), 2, True, 1.0)
        self.assertEqual(chosen.tolist(), [[0, 2]])
        self.near(w, [[.585926042, .414073958]], 1e-8)


class Chunkwise(unittest.TestCase):
    def inputs(self, T, K=16, V=24, low=-5.0, seed=0):
        g = torch.Generator().manual_seed(seed)
        q, k = (ops.l2_unit(torch.randn(T, 2, K, generator=g, dtype=D)) for _ in range(2))
        v = torch.randn(T, 2, V, generator=g, dtype=D)
        gate = low * torch.rand(T, 2, K, generator=g, dtype=D)
        beta = torch.rand(T, 2, generator=g, dtype=D)
        return q, k, v, gate, beta, torch.randn(2, K, V, generator=g, dtype=D)

    def test_equals_recurrent_at_ragged_lengths(self):
        for T in (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 150):
            args = self.inputs(T)
            o, S = ops.kda_recurrent(*args)
            for bounded in (True, False):
                o2, S2 = ops.kda_chunkwise(*args, bounded)
                self.assertLess(float((o - o2).abs().max()), 1e-12, (T, bounded))
                self.assertLess(float((S - S2).abs().max()), 1e-12, (T, bounded))

    def test_strong_decay_stays_finite_in_float32(self):
        for value, bounded in ((-5.0, True), (-4.999, True), (-2.5, True), (-1000.0, False), (-60.0, False)):
            args = self.inputs(130)
            args = [a.float() for a in args]
            args[3] = torch.full_like(args[3], value)
            exact, _ = ops.kda_recurrent(*(a.double() for a in args))
            o, S = ops.kda_chunkwise(*args, bounded)
            self.assertTrue(bool(torch.isfinite(o).all() and torch.isfinite(S).all()))
            self.assertLess(float((o - exact).norm() / exact.norm()), 1e-5, value)


class Identities(unittest.TestCase):
    def assertSame(self, a, b, tol=1e-9):
        self.assertLess(float((a - b).abs().max()), tol)

    def test_prefill_equals_decode_in_every_variant(self):
        ids = prompt(12)
        for name in make_fixtures.VARIANTS:
            model = build(make_fixtures.variant_config(name))
            whole = model.forward(ids)
            state, rows = State(), []
            for at, count in ((0, 5), (5, 1), (6, 2), (8, 4)):
                rows.append(model.forward(ids[at:at + count], state))
            self.assertSame(whole, torch.cat(rows))

    def test_chunkwise_and_absorbed_equal_the_plain_forms(self):
        for name in ("k3", "kimi_linear", "rope", "unified", "softplus_k3", "gdn", "kv_unequal"):
            raw = make_fixtures.variant_config(name)
            self.assertSame(build(raw).forward(prompt()), build(raw, chunkwise=True, absorbed=True).forward(prompt()))

    def test_gdn_is_kda_with_tied_channels(self):
        raw = make_fixtures.variant_config("gdn")
        c = config_lib.parse(raw)
        released = copy.deepcopy(raw)
        del released["text_config"]["baltoro"]
        gdn = build(raw)

        def tie(w):
            for name, value in gdn.w.items():
                if "f_b_proj" in name or "dt_bias" in name:
                    value = value.repeat_interleave(c.kda_dk, dim=0)
                w[name] = value
        self.assertSame(gdn.forward(prompt()), build(released, edit=tie).forward(prompt()))

    def test_native_mqa_is_mla_with_identity_up_projection(self):
        raw = make_fixtures.variant_config("mqa")
        c = config_lib.parse(raw)
        latent = copy.deepcopy(raw)
        del latent["text_config"]["baltoro"]
        mqa = build(raw)

        def identity(w):
            for name, value in mqa.w.items():
                if "kv_b_proj" in name:
                    up = value.reshape(c.mla_heads, c.mla_dv, c.kv_lora_rank)
                    eye = torch.eye(c.kv_lora_rank, dtype=D).expand(c.mla_heads, -1, -1)
                    value = torch.cat((eye, up), dim=1).reshape(-1, c.kv_lora_rank)
                w[name] = value
        self.assertSame(mqa.forward(prompt()), build(latent, edit=identity).forward(prompt()))

    def test_latent_router_is_the_model_router_through_the_projection(self):
        raw = make_fixtures.variant_config("router_latent")
        released = copy.deepcopy(raw)
        del released["text_config"]["baltoro"]
        latent = build(raw)

        def through(w):
            for name, value in latent.w.items():
                if name.endswith(".gate.weight"):
                    value = value @ latent.w[name.replace("gate.weight", "routed_expert_down_proj.weight")]
                w[name] = value
        self.assertSame(latent.forward(prompt()), build(released, edit=through).forward(prompt()))

    def test_rotation_keeps_relative_positions(self):
        """Scores of rotated pairs depend on the distance alone."""
        g = torch.Generator().manual_seed(0)
        q, k = (torch.randn(1, 8, generator=g, dtype=D) for _ in range(2))
        near = ops.rotate(q, 9, 1e4) @ ops.rotate(k, 4, 1e4).T
        far = ops.rotate(q, 1009, 1e4) @ ops.rotate(k, 1004, 1e4).T
        self.assertSame(near, far)

    def test_every_tensor_matters(self):
        """Tilting any one tensor of a fixture's model must move the logits (but for layer 0's first mix)."""
        ids = prompt(40)
        for name in ("k3", "kimi_linear", "gqa", "mla_gate_low_rank"):
            model = build(make_fixtures.variant_config(name))
            base = model.forward(ids)
            for key, value in list(model.w.items()):
                if ".layers.0.self_attention_res" in key:
                    continue
                model.w[key] = value * torch.linspace(0.2, 1.8, value.numel(), dtype=D).reshape(value.shape)
                moved = float((model.forward(ids) - base).norm() / base.norm())
                self.assertGreater(moved, 1e-7, (name, key))
                model.w[key] = value


class BadConfigs(unittest.TestCase):
    def refuse(self, words, edit, base="k3"):
        raw = make_fixtures.variant_config(base)
        edit(raw["text_config"])
        with self.assertRaisesRegex(config_lib.ConfigError, words):
            config_lib.parse(raw)

    def test_all_missing_keys_are_named(self):
        def drop(t):
            for key in ("vocab_size", "kv_lora_rank", "routed_scaling_factor", "activation_situ_beta"):
                del t[key]
        self.refuse("vocab_size.*activation_situ_beta.*kv_lora_rank.*routed_scaling_factor", drop)

    def test_contradictions(self):
        self.refuse("exactly once", lambda t: t["linear_attn_config"].update(kda_layers=[1, 2]))
        self.refuse("unknown keys", lambda t: t.update(baltoro={"decai": "per_head"}))
        self.refuse("both present", lambda t: t.update(baltoro={"attn_res_sublayers": 1}))
        self.refuse("outside", lambda t: t["linear_attn_config"].update(gate_lower_bound=-6.0))
        self.refuse("released key says", lambda t: t.update(baltoro={"kda_output_gate": "low_rank"}))
        self.refuse("must equal kv_lora_rank", lambda t: t.update(baltoro={"mla_kv": "mqa"}))


if __name__ == "__main__":
    unittest.main()
