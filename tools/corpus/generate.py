"""Writes the generated part of the training data, packed into windows of 1024 tokens, by several processes.

    generate.py --workers 16 --tokens 200000000 --seed 1 --out DIR

Worker w writes DIR/train_skills_WW.{ids.u16,starts.u32,mask.u8}. The same seed, token count and number of workers give
the same bytes. --held writes held-out material instead (one file set, valid_skills).
"""

import argparse
import json
import multiprocessing
import pathlib

import bpe
import chats
import source
import streams

HERE = pathlib.Path(__file__).resolve().parent
DEFAULT_TOKENIZER = HERE.parent.parent / "models" / "story" / "tiktoken.model"
PLAIN_SHARE = 0.15
EVERYTHING_SHARE = 0.1


def document(seed, held, tokenizer):
    """One document of the mixture: (ids, mask)."""
    src = source.Source(seed, held)
    if src.chance(PLAIN_SHARE):
        ids = tokenizer.encode(chats.plain_story(src)) + [tokenizer.special["[EOS]"]]
        return ids, [1] * len(ids)
    messages, setup = chats.conversation(src)
    return chats.encode(messages, setup, tokenizer, src.chance(EVERYTHING_SHARE))


def fill(job):
    """One worker's file set."""
    base, seed, tokens, held, path = job
    tokenizer = bpe.Tokenizer.load(path)
    packer = streams.Packer(tokenizer.special["[PAD]"])
    number = 0
    while len(packer.stream.ids) < tokens:
        ids, mask = document(f"{seed}/{number}", held, tokenizer)
        number += 1
        if len(ids) <= streams.WINDOW:
            packer.add(ids, mask)
    stream = packer.finish()
    stream.write(base)
    return {**stream.summary(), "name": pathlib.Path(base).name, "drawn": number}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=2_000_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path, default=DEFAULT_TOKENIZER)
    parser.add_argument("--held", action="store_true")
    args = parser.parse_args()
    workers = 1 if args.held else args.workers
    jobs = [(str(args.out / ("valid_skills" if args.held else f"train_skills_{w:02d}")),
             f"{'held' if args.held else 'train'}/{args.seed}/{w}", args.tokens // workers, args.held, args.tokenizer)
            for w in range(workers)]
    with multiprocessing.Pool(workers) as pool:
        for summary in pool.imap(fill, jobs):
            print(json.dumps(summary), flush=True)


if __name__ == "__main__":
    main()
