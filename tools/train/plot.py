#!/usr/bin/env python3
"""Draws the loss curve of a training log as SVG.  Usage: plot.py LOG.jsonl OUT.svg"""
import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "baltoro", "svg.fonttype": "none", "font.size": 9})
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)

INK, PROSE, SKILLS, HELD_OUT, WHOLE = "#444444", "#1f5fa8", "#b8570f", "#2c8a4b", "#7a3f9a"


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    steps = [r for r in rows if "prose" in r and r.get("step", 0) >= 50]
    minutes = [r["seconds"] / 60 for r in steps]
    budget = next(r["args"] for r in rows if "args" in r)
    total = budget["budget_seconds"] / 60
    # What the log's interim evaluations and the last one (of the exported files) found on held-out prose.
    evals = [(r["seconds"] / 60, r) for r in rows if "eval" in r]
    evals.append((total, next(r for r in rows if r.get("final") == "exported")))

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.3), layout="constrained")
    left.plot(minutes, [r["prose"] for r in steps], color=PROSE, lw=1.2)
    left.set_ylim(2.5, 4.6)
    left.set_ylabel("prose: nats per token", color=PROSE)
    twin = left.twinx()
    twin.plot(minutes, [r["skills"] for r in steps], color=SKILLS, lw=1.2)
    twin.set_ylim(0.1, 0.45)
    twin.set_ylabel("skills: nats per target", color=SKILLS)
    left.set_title("Training loss (means of 50 steps)")
    for ax, start, text in ((left, 1.0 - budget["decay_share"], "rate falls"),
                            (left, 1.0 - budget["quant_share"], "MXFP4")):
        ax.axvline(start * total, color=INK, lw=0.7, ls=":")
        ax.text(start * total + 0.2, 4.5, text, color=INK, fontsize=8)

    for name, label, colour in (("valid_books_whole", "whole books", WHOLE),
                                ("valid_chapters", "chapters of known books", HELD_OUT)):
        last = evals[-1][1][name]
        right.plot([m for m, _ in evals], [r[name] for _, r in evals], "o-", color=colour, lw=1.2, ms=3,
                   label=f"{label}: {last:.3f}")
    right.legend(frameon=False)
    right.set_ylim(1.15, 1.35)
    right.set_title("Held-out prose, bits per byte")
    for ax in (left, right):
        ax.set_xlabel("minutes")
        ax.set_xlim(0, total * 1.02)
        ax.spines["top"].set_visible(False)
        ax.grid(axis="y", lw=0.3, color="#cccccc")
    right.spines["right"].set_visible(False)
    twin.spines["top"].set_visible(False)
    fig.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
