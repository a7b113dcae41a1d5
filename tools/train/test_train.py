"""The training forward against the reference: loss and every gradient, float64, packed documents."""
import os
import sys
import unittest

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reference"))

import checkpoint
import config as config_lib
import fast_model
import kda
import make_fixtures
import mxfp4_train
import muon
import ops
from model import Model


def story_like():
    raw = make_fixtures.variant_config("k3")
    c = config_lib.parse(raw)
    w = checkpoint.load_weights(c, make_fixtures.strip(make_fixtures.make_tensors(c, 5, True)), torch.float64)
    return c, w


class TrainingForward(unittest.TestCase):
    def test_loss_and_gradients_equal_the_reference_over_packed_documents(self):
        c, weights = story_like()
        torch.manual_seed(0)
        T = 256
        ids = torch.randint(0, c.vocab_size, (2, T))
        starts = torch.zeros(2, T, dtype=torch.long)
        starts[0, [0, 1, 37, 64, 100, 128, 129]] = 1     # at, before and behind chunk borders
        starts[1, [0, 192]] = 1
        target = torch.roll(ids, -1, dims=1)

        fast = {k: v.clone().requires_grad_(True) for k, v in weights.items()}
        model = fast_model.FastModel(c, fast, torch.float64, torch.float64)
        nll = model.nll(ids, starts, target)
        nll.sum().backward()

        slow = {k: v.clone().requires_grad_(True) for k, v in weights.items()}
        expected = []
        for b in range(2):
            cuts = torch.nonzero(starts[b]).flatten().tolist() + [T]
            for first, last in zip(cuts, cuts[1:]):
                logits = Model(c, slow, ops.Numerics()).forward(ids[b, first:last])
                expected.append(torch.nn.functional.cross_entropy(logits, target[b, first:last], reduction="none"))
        expected = torch.cat(expected)
        expected.sum().backward()
        self.assertLess(float((nll.flatten() - expected).abs().max()), 1e-9)
        for name in weights:
            a, b = fast[name].grad, slow[name].grad
            if b is None or float(b.abs().max()) == 0.0:
                self.assertTrue(a is None or float(a.abs().max()) == 0.0, name)
                continue
            self.assertLess(float((a - b).norm() / b.norm()), 1e-7, name)

    def test_inverse_and_scan_gradients(self):
        torch.manual_seed(1)
        a = torch.randn(3, 32, 32, dtype=torch.float64).tril(-1).requires_grad_(True)
        eye = torch.eye(32, dtype=torch.float64)
        torch.testing.assert_close(kda.plain_inverse(a.detach()) @ (eye + a.detach()), eye.expand(3, 32, 32))
        x = kda.UnitLowerInverse.apply(a)
        g = torch.randn_like(x)
        (da,) = torch.autograd.grad(x, a, g)
        (expected,) = torch.autograd.grad(torch.linalg.inv(eye + a), a, g)
        torch.testing.assert_close(da, expected.tril(-1))

    def test_worst_case_keys_do_not_cancel(self):
        """Identical keys, beta 1, no decay: powers of the matrix would reach binomials of 63."""
        a = torch.ones(1, 64, 64).tril(-1)
        x = kda.plain_inverse(a)
        expected = torch.eye(64) - torch.diag(torch.ones(63), -1)
        self.assertLess(float((x - expected).abs().max()), 1e-5)


class Quantisation(unittest.TestCase):
    def test_fake_quantisation_is_the_export(self):
        torch.manual_seed(2)
        w = torch.randn(4, 8, 64) * torch.exp(torch.randn(4, 8, 1))
        w[0, 0, :32] = 0.0
        packed, scale = checkpoint.encode_mxfp4(w)
        self.assertTrue(torch.equal(checkpoint.decode_mxfp4(packed, scale, torch.float32), mxfp4_train.rounded(w)))
        w.requires_grad_(True)
        mxfp4_train.fake_quant(w).sum().backward()
        self.assertTrue(torch.equal(w.grad, torch.ones_like(w)))     # straight-through


class Optimiser(unittest.TestCase):
    def test_orthogonalised_update(self):
        torch.manual_seed(3)
        o = muon.orthogonalise(torch.randn(5, 64, 256))
        s = torch.linalg.svdvals(o.float())
        self.assertGreater(float(s.min()), 0.5)
        self.assertLess(float(s.max()), 1.3)
        tall = muon.orthogonalise(torch.randn(2, 256, 64))
        self.assertEqual(tuple(tall.shape), (2, 256, 64))

    def test_every_parameter_is_updated_once(self):
        c, weights = story_like()
        params = {k: v.float() for k, v in weights.items()}
        opt = muon.Optimiser(c, params)
        seen = sorted(n for g in opt.groups for n in g.names) + sorted(opt.adam_names)
        frozen = [n for n in params if n.endswith("e_score_correction_bias")]
        self.assertEqual(sorted(seen + frozen), sorted(params))

    def test_quantile_balancing_evens_the_load(self):
        torch.manual_seed(4)
        scores = torch.sigmoid(torch.randn(8192, 24) + torch.linspace(-2, 2, 24))
        bias = torch.zeros(24)
        for _ in range(3):
            threshold = torch.topk(scores + bias, 5, dim=-1).values[:, 4:]
            bias = muon.balanced_bias(scores, threshold, 4)
        load = torch.zeros(24)
        chosen = torch.topk(scores + bias, 4, dim=-1).indices
        load.scatter_add_(0, chosen.flatten(), torch.ones(chosen.numel()))
        self.assertLess(float(load.max() / load.mean()), 1.3)


if __name__ == "__main__":
    unittest.main()
