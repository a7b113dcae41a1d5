#!/usr/bin/env python3
"""Compares two files of `baltoro bench --json` or `baltoro bench-ops --json`, row by row.

  scripts/compare_bench.py before.json after.json
  scripts/compare_bench.py before.json after.json --fail-above 5     # for scripts: exit 1 when slower

The ratio is the median time of A over that of B: 1.10 means B is 10 % faster. A row is

  equal    within 3 %
  noise    further apart, but the times of A and B overlap: a claim needs more repeats
  faster, slower   further apart, without overlap

Files of two machines, models or settings are refused: their ratio says nothing about the code.
Exit status: 0; 1 where a row got slower by more than --fail-above percent (noise does not count) or
has no result in B; 2 where the files cannot be compared.
"""
import argparse
import json
import sys

EQUAL_PERCENT = 3.0
FORMAT = "baltoro-bench-1"
# What must agree for a ratio to mean something: keys of the document.
SAME_MACHINE = ("cpu", "processors", "cores", "memory_bytes")
SAME_SETTINGS = ("activations", "load", "fingerprint")


class Refused(Exception):
    """Files that cannot be compared; the message says why and what to do."""


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Refused(f"{path}: is no JSON: {error}") from error
    found = document.get("format") if isinstance(document, dict) else None
    if found != FORMAT:
        raise Refused(f"{path}: format is {found}; write it with baltoro bench --json (\"{FORMAT}\")")
    return document


def differences(a, b):
    """What makes the two runs unlike, in words."""
    found = []
    if a["suite"] != b["suite"]:
        found.append(f"suite: {a['suite']} and {b['suite']}")
    for part, keys in (("machine", SAME_MACHINE), ("settings", SAME_SETTINGS)):
        for key in keys:
            first, second = a[part].get(key), b[part].get(key)
            if first != second:
                found.append(f"{part} {key}: {first} and {second}")
    return found


def key_of(row):
    return (row["name"], row["threads"], row.get("batch"), row.get("depth"))


def title(key):
    name, threads, batch, depth = key
    text = f"{name}, {threads} thr"
    if batch is not None:
        text += f", batch {batch}, depth {depth}"
    return text


def verdict(a, b):
    """(ratio of A's median to B's, its least and largest value over the samples, word)."""
    ratio = a["median"] / b["median"]
    low, high = a["min"] / b["max"], a["max"] / b["min"]
    if abs(ratio - 1) * 100 <= EQUAL_PERCENT:
        word = "equal"
    elif low <= 1 <= high:
        word = "noise"
    else:
        word = "faster" if ratio > 1 else "slower"
    return ratio, low, high, word


def compare(a, b):
    """One (key, text, slowdown in percent or None) for each row of A or B; None also for noise."""
    rows_a = {key_of(row): row for row in a["rows"]}
    rows_b = {key_of(row): row for row in b["rows"]}
    for key in list(rows_a) + [key for key in rows_b if key not in rows_a]:
        if key not in rows_a or key not in rows_b:
            yield key, "only in " + ("A" if key in rows_a else "B"), None
            continue
        row_a, row_b = rows_a[key], rows_b[key]
        if row_a["status"] != "ok" or row_b["status"] != "ok":
            lost = row_a["status"] == "ok"
            yield key, f"no result: {row_a['status']} and {row_b['status']}", (
                float("inf") if lost else None)
            continue
        ratio, low, high, word = verdict(row_a["seconds"], row_b["seconds"])
        text = f"{ratio:6.3f}  ({low:.3f}..{high:.3f})  {word}"
        if row_a["noisy"] or row_b["noisy"]:
            text += ", measured with --allow-noise"
        yield key, text, (1 / ratio - 1) * 100 if word == "slower" else None


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", metavar="A.json", help="before")
    parser.add_argument("b", metavar="B.json", help="after")
    parser.add_argument("--fail-above", type=float, metavar="PERCENT",
                        help="exit 1 where a row got slower by more than this, or lost its result")
    parser.add_argument("--force", action="store_true",
                        help="compare though machine, model or settings differ")
    options = parser.parse_args(arguments)
    try:
        a, b = load(options.a), load(options.b)
        unlike = differences(a, b)
        if unlike and not options.force:
            raise Refused("the runs differ: " + "; ".join(unlike) +
                          "; measure both alike, or give --force")
    except Refused as error:
        print(f"compare_bench.py: error: {error}", file=sys.stderr)
        return 2
    for name, run in (("A", a), ("B", b)):
        print(f"{name}  {run['machine']['commit']}  {run['settings'].get('backend')}  "
              f"{run['machine']['date']}  load {run['machine']['load']}")
    for line in unlike:
        print(f"differs  {line}")
    rows = list(compare(a, b))
    width = max((len(title(key)) for key, _, _ in rows), default=0)
    failed = []
    for key, text, slowdown in rows:
        print(f"{title(key):<{width}}  {text}")
        if options.fail_above is not None and slowdown is not None and slowdown > options.fail_above:
            failed.append(title(key))
    if failed:
        print(f"slower by more than {options.fail_above:g} %, or without a result: " +
              "; ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
