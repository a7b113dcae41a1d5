#!/usr/bin/env python3
"""Trains models/story on one GPU within a budget of wall-clock seconds.

Packed windows of 1024 tokens, half prose and half generated skills; Muon and AdamW at one learning
rate, warm-up, constant, linear decay to 0 over the last part of the *time*; router biases by quantile
balancing; experts rounded to MXFP4 (straight-through) in the last part. The step (forward, backward,
update) is recorded once as a CUDA graph. Every fast path is compared with the plain one at the start
and dropped if it differs or fails. Without a GPU it trains a few steps on the CPU, to test the script.

Writes OUT/log.jsonl (losses, evaluations), OUT/model (the checkpoint in the released layout).
"""
from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "reference"))

import checkpoint
import config as config_lib
import data
import evaluate
import export
import fast_model
import kda
import mxfp4_train
import muon


def initial_parameters(c: config_lib.Config, seed: int, device) -> dict:
    """Released names, experts stacked. Queries of the residual mixes are 0: uniform mixes at first."""
    gen = torch.Generator().manual_seed(seed)
    out, stacks = {}, {}
    narrow = (2.0 * c.num_layers if c.res_block is None else c.res_block) ** -0.5
    for name, shape in config_lib.inventory(c).items():
        if name.endswith("A_log"):
            w = torch.zeros(c.kda_heads)
        elif name.endswith("dt_bias"):
            dt = torch.exp(torch.empty(shape).uniform_(math.log(1e-3), math.log(1e-1), generator=gen))
            w = torch.log(torch.expm1(dt))
        elif name.endswith("conv1d.weight"):
            w = torch.empty(shape).uniform_(-0.5, 0.5, generator=gen)
        elif name.endswith("e_score_correction_bias") or name.endswith("_res_proj.weight"):
            w = torch.zeros(shape)
        elif len(shape) == 1:
            w = torch.ones(shape)
        else:
            std = {"model.embed_tokens.weight": 0.05, "lm_head.weight": 0.02}.get(name, 0.5 * shape[-1] ** -0.5)
            if name.endswith(("o_proj.weight", "down_proj.weight", "routed_expert_up_proj.weight", "w2.weight")):
                std *= narrow
            w = torch.empty(shape).normal_(0.0, std, generator=gen)
        if ".experts." in name:
            prefix, rest = name.split(".experts.")
            stacks.setdefault(f"{prefix}.experts.{rest.split('.')[1]}", []).append(w)
        else:
            out[name] = w
    out.update({name: torch.stack(parts) for name, parts in stacks.items()})
    return {name: w.to(device) for name, w in out.items()}


class Trainer:
    """Static input buffers, and one step over them, recorded as a graph where that works."""

    def __init__(self, c, args, device):
        self.c, self.args, self.device = c, args, device
        self.params = initial_parameters(c, args.seed, device)
        self.optimiser = muon.Optimiser(c, self.params, args.weight_decay)
        self.leaves = [n for n in self.params if not n.endswith("e_score_correction_bias")]
        self.biases = [n for n in self.params if n.endswith("e_score_correction_bias")]
        cuda = device.type == "cuda"
        self.act = torch.bfloat16 if cuda else torch.float32
        compile_fn = (lambda f: torch.compile(f, dynamic=False)) if cuda and args.compile else None
        self.model = fast_model.FastModel(c, self.params, self.act, torch.float32, compile_fn)
        shape = (args.batch, data.WINDOW)
        self.ids, self.starts, self.target = (torch.zeros(shape, dtype=torch.long, device=device) for _ in range(3))
        self.weight = torch.zeros(shape, device=device)
        self.lr = torch.zeros((), device=device)
        self.count = torch.ones((), device=device)
        self.sums = torch.zeros(4, device=device)   # nll and weight: prose, skills
        self.graph = None

    def step(self):
        prose, boost = self.args.prose, self.args.skills_weight
        nll = self.model.nll(self.ids, self.starts, self.target) * self.weight
        whole = self.weight[:prose].sum() + boost * self.weight[prose:].sum()
        loss = (nll[:prose].sum() + boost * nll[prose:].sum()) / whole.clamp(min=1.0)
        grads = torch.autograd.grad(loss, [self.params[n] for n in self.leaves])
        self.optimiser.step(dict(zip(self.leaves, grads)), self.lr, self.count)
        with torch.no_grad():
            for name, (scores, threshold) in zip(self.biases, self.model.stats):
                every = max(1, scores.shape[0] // 8192)
                wanted = muon.balanced_bias(scores[::every], threshold[::every], self.c.experts_per_token)
                self.params[name].lerp_(wanted, 0.1)
            self.sums.add_(torch.stack((nll[:prose].sum(), self.weight[:prose].sum(),
                                        nll[prose:].sum(), self.weight[prose:].sum())))
            self.count.add_(1.0)

    def record(self):
        """Records the step as a graph; on failure training goes on without."""
        self.graph = None
        if self.device.type != "cuda" or not self.args.graph:
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.step()
            self.graph = graph
        except Exception as error:
            print("no graph:", repr(error)[:2000], flush=True)
            torch.cuda.synchronize()

    def run(self, batch):
        for buffer, value in zip((self.ids, self.starts, self.target, self.weight), batch):
            buffer.copy_(value)
        if self.graph is not None:
            self.graph.replay()
        else:
            self.step()


def pick_kernels() -> None:
    """Uses the Triton kernels if they agree with the plain versions here."""
    if kda.triton_kernels is None or not torch.cuda.is_available():
        return
    try:
        torch.manual_seed(0)
        a = torch.randn(64, 64, 64, device="cuda").tril(-1) * 0.1
        w, kd, u = (torch.randn(8, 5, 64, 64, device="cuda") * 0.1 for _ in range(3))
        decay = torch.rand(8, 5, 64, device="cuda")
        dh = torch.randn(8, 5, 64, 64, device="cuda")
        pairs = [(kda.triton_kernels.inverse(a), kda.plain_inverse(a.double())),
                 *zip(kda.triton_kernels.scan(w, u, kd, decay),
                      kda.plain_scan(w.double(), u.double(), kd.double(), decay.double())),
                 *zip(kda.triton_kernels.scan_backward(w, kd, decay, u, dh),
                      kda.plain_scan_backward(*(t.double() for t in (w, kd, decay, u, dh))))]
        errors = [float((x - y).norm() / y.norm()) for x, y in pairs]
        kda.USE_TRITON = max(errors) < 2e-3
        print("triton kernels", kda.USE_TRITON, ["%.1e" % e for e in errors], flush=True)
    except Exception as error:
        print("no triton kernels:", repr(error)[:2000], flush=True)


def check_against_plain(trainer: Trainer) -> None:
    """The compiled bf16 loss beside the plain float32 one, on a few windows."""
    batch = [t[:4] for t in (trainer.ids, trainer.starts, trainer.target)]
    with torch.no_grad():
        plain = fast_model.FastModel(trainer.c, trainer.params, torch.float32, torch.float32).nll(*batch)
    full = trainer.model.nll(trainer.ids, trainer.starts, trainer.target)[:4].detach()
    print(f"loss of 4 windows: plain float32 {float(plain.mean()):.4f}, fast {float(full.mean()):.4f}", flush=True)


def rate(progress: float, step: int, a) -> float:
    """Learning rate at `progress` (share of the time that is gone)."""
    warm = min(1.0, (step + 1) / a.warmup)
    return a.lr * warm * min(1.0, max(0.0, (1.0 - progress) / a.decay_share))


def arguments():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--config", default=os.path.join(HERE, "..", "..", "models", "story"))
    ap.add_argument("--data", required=True, help="folder with train_books, train_tales, valid_*")
    ap.add_argument("--skills", required=True, help="folder with train_skills_*")
    ap.add_argument("--wait-for", help="wait until this file exists before the skills are read")
    ap.add_argument("--out", required=True)
    ap.add_argument("--budget-seconds", type=float, required=True, help="time for the training loop")
    ap.add_argument("--batch", type=int, default=64, help="windows a step")
    ap.add_argument("--prose", type=int, default=32, help="windows of prose among them")
    ap.add_argument("--skills-weight", type=float, default=2.0, help="of a skill target in the loss")
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--weight-decay", type=float, default=0.1)
    ap.add_argument("--warmup", type=int, default=150, help="steps")
    ap.add_argument("--decay-share", type=float, default=0.4, help="share of the time with a falling rate")
    ap.add_argument("--quant-share", type=float, default=0.15, help="share of the time with rounded experts")
    ap.add_argument("--evals", type=int, default=5, help="evaluations during training")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--no-compile", dest="compile", action="store_false")
    ap.add_argument("--no-graph", dest="graph", action="store_false")
    return ap.parse_args()


def warm_up(trainer: Trainer) -> None:
    """Compiles everything on random tokens, at rate 0, before the data is there."""
    trainer.ids.random_(0, trainer.c.vocab_size)
    trainer.target.copy_(torch.roll(trainer.ids, -1, 1))
    trainer.starts[:, 0] = 1
    trainer.weight.fill_(1.0)
    begin = time.time()
    try:
        trainer.step()
    except Exception as error:
        if not trainer.args.compile:
            raise
        print("no compilation:", repr(error)[:3000], flush=True)
        trainer.model = fast_model.FastModel(trainer.c, trainer.params, trainer.act, torch.float32)
        trainer.step()
    print(f"first step {time.time() - begin:.0f} s", flush=True)
    check_against_plain(trainer)
    trainer.record()
    print(f"recorded {time.time() - begin:.0f} s, graph {trainer.graph is not None}", flush=True)
    for m in (g.momentum for g in trainer.optimiser.groups):
        m.zero_()
    trainer.optimiser.first.zero_()
    trainer.optimiser.second.zero_()
    for name in trainer.biases:
        trainer.params[name].detach().zero_()
    trainer.count.fill_(1.0)
    trainer.sums.zero_()


class Log:
    def __init__(self, folder):
        self.file = open(os.path.join(folder, "log.jsonl"), "w", encoding="utf-8")

    def __call__(self, **values):
        line = json.dumps({k: round(v, 6) if isinstance(v, float) else v for k, v in values.items()})
        self.file.write(line + "\n")
        self.file.flush()
        print(line, flush=True)


def train(trainer, prose, skills, evaluator, log, a) -> None:
    begin, step, quantised, evals = time.time(), 0, False, 0
    trainer.sums.zero_()
    mark, mark_step = begin, 0
    while True:
        progress = (time.time() - begin) / a.budget_seconds
        if progress >= 1.0:
            break
        if not quantised and progress >= 1.0 - a.quant_share:
            quantised, trainer.model.fake_quant = True, mxfp4_train.fake_quant
            trainer.record()
        trainer.lr.fill_(rate(progress, step, a))
        first = prose.next(a.prose), skills.next(a.batch - a.prose)
        parts = [data.cut(s.ids, s.flags, f) for s, f in zip((prose, skills), first)]
        trainer.run([torch.cat(pair) for pair in zip(*parts)])
        step += 1
        if step % 50 == 0 or step in (1, 10):
            s = trainer.sums.tolist()           # waits for the device
            trainer.sums.zero_()
            now = time.time()
            log(step=step, seconds=now - begin, tokens=step * a.batch * data.WINDOW, lr=float(trainer.lr),
                prose=s[0] / max(s[1], 1.0), skills=s[2] / max(s[3], 1.0),
                epochs=prose.epochs + prose.at / len(prose.order),
                skill_epochs=skills.epochs + skills.at / len(skills.order),
                tokens_per_second=(step - mark_step) * a.batch * data.WINDOW / (now - mark), load=worst_load(trainer))
            mark, mark_step = now, step
            if not math.isfinite(s[0] + s[2]):
                raise SystemExit("the loss is not finite")
        if progress >= (evals + 1) / (a.evals + 1):
            evals += 1
            log(eval=step, seconds=time.time() - begin, **evaluator.run(trainer.model))
            export.write(trainer.c, trainer.params, os.path.join(a.out, "interim"))
            mark, mark_step = time.time(), step
    log(done=step, seconds=time.time() - begin, tokens=step * a.batch * data.WINDOW)


@torch.no_grad()
def worst_load(trainer) -> float:
    """Largest share of the tokens that one expert gets, over the even share, in any layer."""
    worst = 0.0
    for name, (scores, _) in zip(trainer.biases, trainer.model.stats):
        chosen = torch.topk(scores + trainer.params[name], trainer.c.experts_per_token, dim=-1).indices
        load = torch.bincount(chosen.flatten(), minlength=scores.shape[1]).float()
        worst = max(worst, float(load.max() / load.mean()))
    return worst


def finish(trainer, evaluator, log, a) -> None:
    """Evaluates the master weights and what was written, and exports."""
    folder = os.path.join(a.out, "model")
    export.write(trainer.c, trainer.params, folder)
    trainer.model.fake_quant = None
    log(final="master", **evaluator.run(trainer.model))
    loaded = checkpoint.load_weights(trainer.c, checkpoint.read_checkpoint(folder), torch.float32)
    with torch.no_grad():
        for name, value in loaded.items():
            trainer.params[name].copy_(value.to(trainer.device))
    log(final="exported", **evaluator.run(trainer.model))
    with open(os.path.join(a.out, "finished"), "w", encoding="utf-8") as f:
        f.write("yes\n")


def main() -> None:
    a = arguments()
    os.makedirs(a.out, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch._dynamo.config.recompile_limit = 64
        pick_kernels()
    c = config_lib.load(a.config)
    trainer = Trainer(c, a, device)
    print(f"{sum(p.numel() for p in trainer.params.values()) / 1e6:.2f} M parameters", flush=True)
    warm_up(trainer)
    books = data.sources(a.data, "train_books") + data.sources(a.data, "train_tales")
    prose = data.Stream(books, device, a.seed, aligned=False)
    while a.wait_for and not os.path.exists(a.wait_for):
        time.sleep(1.0)
    skills = data.Stream(data.sources(a.skills, "train_skills_*"), device, a.seed + 1, aligned=True)
    log = Log(a.out)
    log(prose_tokens=len(prose.ids), skill_tokens=len(skills.ids), args=vars(a))
    evaluator = evaluate.Evaluator(a.data, a.batch, device)
    train(trainer, prose, skills, evaluator, log, a)
    finish(trainer, evaluator, log, a)


if __name__ == "__main__":
    main()
