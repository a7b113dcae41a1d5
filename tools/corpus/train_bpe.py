"""Trains the byte-level BPE vocabulary of models/story and writes it in the released form.

    train_bpe.py --books train.txt.xz --out models/story

Merges the commonest adjacent pair of token ids inside pieces (ties: smallest pair) until 4064 ranks exist. Pieces with a digit are
left out, so every digit stays a token of its own and numbers are readable digit by digit. The words of the small world
and of the chat markup are counted as if they were common.
"""

import argparse
import collections
import heapq
import json
import lzma
import pathlib

import bpe
import lexicon

NUM_RANKS = 4064
WORLD_COUNT = 3000
MARKUP_COUNT = 50_000
MARKUP = """message think response tools call argument user assistant system tool calculator clock place expression
string number key json object low high max declare effort type index""".split()
MARKUP_PIECES = ['="', " role", " type", " tool", " index", " key", " name"]

# Pieces that the generated conversations use often and books seldom.
CHAT_PIECES = [" calculator", " =", " +", " -", " /", " *", "Please", ".\n\n", "One", " biggest", " color", "Tell", "Nobody",
               "Think", " animal", " named", " birthday", "Kindly", " carrying", " Nobody", "Next", "Once", "Here", "Be",
               " numbers", " minus", " plus", "Word", "Now", "There"]


def count_pieces(text):
    counts = collections.Counter(bpe.split(text))
    for words in (lexicon.NAMES, lexicon.PLACES, lexicon.THINGS, lexicon.COLORS, lexicon.ANIMALS, lexicon.FOODS,
                  lexicon.CITIES, lexicon.JOBS, lexicon.WORDS):
        for word in words:
            counts[" " + word] += WORLD_COUNT
    for word in lexicon.NAMES:
        counts[word] += WORLD_COUNT
    for piece in CHAT_PIECES:
        counts[piece] += WORLD_COUNT
    for piece in MARKUP + MARKUP_PIECES:
        counts[piece] += MARKUP_COUNT
    return {p: c for p, c in counts.items() if c >= 2 and not any(ch.isdigit() for ch in p)}


class Trainer:
    def __init__(self, counts):
        self.tokens = [bytes([b]) for b in bpe.byte_order()]
        byte_id = {t[0]: i for i, t in enumerate(self.tokens)}
        self.words = [([byte_id[b] for b in p.encode()], c) for p, c in sorted(counts.items())]
        self.pair_count = collections.Counter()
        self.where = collections.defaultdict(set)
        for w, (ids, c) in enumerate(self.words):
            for pair in zip(ids, ids[1:]):
                self.pair_count[pair] += c
                self.where[pair].add(w)
        self.heap = [(-c, pair) for pair, c in self.pair_count.items()]
        heapq.heapify(self.heap)

    def best_pair(self):
        while True:
            count, pair = heapq.heappop(self.heap)
            now = self.pair_count[pair]
            if now == -count and now > 0:
                return pair
            if now > 0:
                heapq.heappush(self.heap, (-now, pair))

    def merge_word(self, w, pair, new, changed):
        ids, c = self.words[w]
        for p in zip(ids, ids[1:]):
            self.pair_count[p] -= c
            self.where[p].discard(w)
            changed.add(p)
        out, i = [], 0
        while i < len(ids):
            if ids[i:i + 2] == list(pair):
                out.append(new)
                i += 2
            else:
                out.append(ids[i])
                i += 1
        ids[:] = out
        for p in zip(ids, ids[1:]):
            self.pair_count[p] += c
            self.where[p].add(w)
            changed.add(p)

    def run(self, num_ranks):
        seen = set(self.tokens)
        while len(self.tokens) < num_ranks:
            pair = self.best_pair()
            token = self.tokens[pair[0]] + self.tokens[pair[1]]
            if token in seen:
                raise SystemExit(f"train_bpe: the bytes {token!r} arise by two merges; ranks would be ambiguous")
            seen.add(token)
            self.tokens.append(token)
            changed = set()
            for w in sorted(self.where[pair]):
                self.merge_word(w, pair, len(self.tokens) - 1, changed)
            for p in sorted(changed):
                if self.pair_count[p] > 0:
                    heapq.heappush(self.heap, (-self.pair_count[p], p))
        return self.tokens


def tokenizer_config(base):
    entries = {}
    for i, name in bpe.special_names(base).items():
        markup = name in ("<|open|>", "<|close|>", "<|sep|>")
        entries[str(i)] = {"content": name, "lstrip": False, "normalized": False, "rstrip": False,
                           "single_word": False, "special": not markup}
    return {"added_tokens_decoder": entries, "additional_special_tokens": ["<|end_of_msg|>"], "bos_token": "[BOS]",
            "clean_up_tokenization_spaces": False, "eos_token": "[EOS]", "extra_special_tokens": {},
            "model_max_length": 8192, "pad_token": "[PAD]", "tokenizer_class": "TikTokenTokenizer",
            "unk_token": "[UNK]"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--books", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    args = parser.parse_args()
    with lzma.open(args.books, "rt", encoding="ascii") as f:
        text = f.read().replace("<|doc|>\n", "")
    tokens = Trainer(count_pieces(text)).run(NUM_RANKS)
    args.out.mkdir(parents=True, exist_ok=True)
    bpe.write_ranks(args.out / "tiktoken.model", tokens)
    config = json.dumps(tokenizer_config(NUM_RANKS), indent=2, ensure_ascii=False)
    (args.out / "tokenizer_config.json").write_text(config + "\n", encoding="utf-8")
    generation = {"bos_token_id": NUM_RANKS, "do_sample": True, "eos_token_id": [NUM_RANKS + 2, NUM_RANKS + 1],
                  "pad_token_id": NUM_RANKS + 31, "temperature": 0.7, "top_p": 0.95}
    (args.out / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
