"""Exact match of answers against the rows of make_eval.py.

    score_eval.py --rows DIR --answers DIR

For each DIR/SKILL.jsonl of rows, the answers file of the same name has one JSON object a line, in the same order:
{"text", "reasoning", "tool_calls": [{"name", "arguments"}], "finish_reason"}. A text must be equal to the last byte and come
without a tool call; a call must have the name and exactly the arguments.
"""

import argparse
import json
import pathlib


def calls_of(answer):
    """[(name, arguments as an object)]; arguments that are no JSON stay as they are."""
    out = []
    for call in answer.get("tool_calls") or []:
        call = call.get("function", call)
        arguments = call.get("arguments")
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except ValueError:
                pass
        out.append((call.get("name"), arguments or {}))
    return out


def correct(expect, answer):
    calls = calls_of(answer)
    if "tool_calls" in expect:
        return calls == calls_of(expect)
    return not calls and answer.get("text") == expect["text"]


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", required=True, type=pathlib.Path)
    parser.add_argument("--answers", required=True, type=pathlib.Path)
    parser.add_argument("--show", type=int, default=0, help="print this many wrong answers of each skill")
    args = parser.parse_args()
    shares = []
    for path in sorted(args.rows.glob("*.jsonl")):
        if not (args.answers / path.name).exists():
            continue
        rows, answers = read(path), read(args.answers / path.name)
        if len(rows) != len(answers):
            raise SystemExit(f"{path.name}: {len(rows)} rows, {len(answers)} answers")
        good = [correct(r["expect"], a) for r, a in zip(rows, answers)]
        shares.append(sum(good) / len(good))
        print(f"{path.stem:20} {sum(good):4}/{len(good)} {100 * shares[-1]:6.1f} %")
        wrong = [(r, a) for r, a, ok in zip(rows, answers, good) if not ok]
        for r, a in wrong[:args.show]:
            print("   expected", json.dumps(r["expect"], ensure_ascii=False))
            print("   got     ", json.dumps({k: a.get(k) for k in ("text", "reasoning", "tool_calls")}, ensure_ascii=False))
    if not shares:
        raise SystemExit("no answers")
    print(f"{'mean':20} {len(shares):4} skills {100 * sum(shares) / len(shares):6.1f} %")


if __name__ == "__main__":
    main()
