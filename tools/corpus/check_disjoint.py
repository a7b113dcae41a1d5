"""Proves on the text itself that held-out instances share nothing with training that they must not share.

    check_disjoint.py [--documents 100000] [--rows 300]

Of training documents (drawn with the seeds of generate.py) and of all held-out rows: the words found in the text, not
the generator's own book-keeping, must show that every held-out row takes its names, places and things from second
halves, while no training document has second-half words of all three kinds, so no (name, place, thing) triple of a
held-out row occurs in training. The wordings (lead, form) and the operand pairs are compared as sets.
"""

import argparse
import multiprocessing
import re

import chats
import generate
import make_eval
import source

# First-half words that stand in fixed parts of the templates ("a silver coin").
TEMPLATE_WORDS = {"clock", "coin", "drum", "stone"}
WORD = re.compile(r"[A-Za-z]+")


def lexicon_words(kind):
    return set(source.FIRST[kind]), set(source.SECOND[kind])


def halves(text):
    """kind -> (first-half words, second-half words) that stand in the text."""
    found = set(WORD.findall(text))
    return {kind: (found & lexicon_words(kind)[0], found & lexicon_words(kind)[1]) for kind in source.POOLS}


def training_document(seed):
    src = source.Source(seed)
    if src.chance(generate.PLAIN_SHARE):
        return chats.plain_story(src), src
    messages, _ = chats.conversation(src)
    return "\n".join(" ".join((m.get("content") or "", m.get("reasoning_content") or "")) for m in messages), src


def scan(seeds):
    wordings, operands = set(), set()
    for seed in seeds:
        text, src = training_document(seed)
        found = halves(text)
        if all(second for _, second in found.values()):
            raise SystemExit(f"training document {seed} could form a held-out triple: {found}\n{text}")
        wordings |= src.wordings
        operands |= src.operands
    return wordings, operands


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=300)
    args = parser.parse_args()
    seeds = [f"train/1/{n % 16}/{n // 16}" for n in range(args.documents)]
    with multiprocessing.Pool(2) as pool:
        parts = pool.map(scan, [seeds[i:i + 2000] for i in range(0, len(seeds), 2000)])
    wordings = set().union(*(w for w, _ in parts))
    operands = set().union(*(o for _, o in parts))
    held_wordings, held_operands = set(), set()
    for skill in make_eval.SKILLS:
        for number in range(args.rows):
            messages, _, src = make_eval.instance(skill, "test", number)
            for kind, (first, _) in halves(" ".join(m.get("content") or "" for m in messages)).items():
                if first - TEMPLATE_WORDS:
                    raise SystemExit(f"{skill}/{number}: {kind} {first} is a training-only word")
            held_wordings |= src.wordings
            held_operands |= src.operands
    for name, a, b in (("wordings", wordings, held_wordings), ("operand pairs", operands, held_operands)):
        if a & b:
            raise SystemExit(f"{name} in both: {sorted(a & b)[:5]}")
        print(f"{name}: {len(a)} in training, {len(b)} held out, none in both")
    print(f"{args.documents} training documents, {len(make_eval.SKILLS) * args.rows} held-out rows: no shared triple")


if __name__ == "__main__":
    main()
