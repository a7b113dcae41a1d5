"""Byte-level BPE with the Kimi K3 pre-tokenisation: an implementation independent of the C++ one.

The eight alternatives of the split are run by `re` (leftmost, backtracking, as the original engine does), over
character classes written out from `unicodedata`, so the rules stand below in their own order. Merging takes the
adjacent pair of lowest rank, leftmost on ties. Text that holds special strings is encoded as plain text here: special
ids are placed by whoever builds the segments (xtml.py).
"""

import base64
import functools
import heapq
import re
import sys
import unicodedata

NUM_SPECIAL = 32
WHITESPACE = [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F,
              0x3000]
# Script = Han (Unicode 15.1); unicodedata has no scripts.
HAN = [(0x2E80, 0x2E99), (0x2E9B, 0x2EF3), (0x2F00, 0x2FD5), (0x3005, 0x3005), (0x3007, 0x3007), (0x3021, 0x3029),
       (0x3038, 0x303B), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFA6D), (0xFA70, 0xFAD9), (0x16FE2, 0x16FE3),
       (0x16FF0, 0x16FF1), (0x20000, 0x2A6DF), (0x2A700, 0x2B739), (0x2B740, 0x2B81D), (0x2B820, 0x2CEA1),
       (0x2CEB0, 0x2EBE0), (0x2EBF0, 0x2EE5D), (0x2F800, 0x2FA1D), (0x30000, 0x3134A), (0x31350, 0x323AF)]
CONTRACTION = r"(?:'(?:[sS\u017f]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))?"
BLOCK_CHARS = 400_000
RUN_CHARS = 25_000
CACHE_PIECES = 200_000
CACHE_SEGMENTS = 10_000


def class_ranges(members):
    """Sorted code points as the inside of a regular-expression character class."""
    out, start, prev = [], None, None
    for c in [*members, None]:
        if start is not None and c != prev + 1:
            out.append(f"\\U{start:08x}-\\U{prev:08x}" if prev > start else f"\\U{start:08x}")
            start = c
        elif start is None:
            start = c
        prev = c
    return "".join(out)


@functools.lru_cache(maxsize=None)
def split_pattern(limit):
    """The compiled split for text whose code points are below `limit` (128 keeps ASCII text cheap)."""
    han = {c for lo, hi in HAN for c in range(lo, min(hi + 1, limit))}
    by_category = {}
    for c in range(limit):
        by_category.setdefault(unicodedata.category(chr(c)), []).append(c)

    def members(categories, exclude=frozenset()):
        return class_ranges(sorted(c for k in categories for c in by_category.get(k, []) if c not in exclude))

    marks = ["Mn", "Mc", "Me"]
    letter = members(["Lu", "Ll", "Lt", "Lm", "Lo"])
    number = members(["Nd", "Nl", "No"])
    upper = members(["Lu", "Lt", "Lm", "Lo", *marks], han)
    lower = members(["Ll", "Lm", "Lo", *marks], han)
    space = class_ranges([c for c in WHITESPACE if c < limit])
    pre = f"[^\\r\\n{letter}{number}]?"
    rules = [f"[{class_ranges(sorted(han))}]+"] if han else []
    rules += [
        f"{pre}[{upper}]*[{lower}]+{CONTRACTION}",
        f"{pre}[{upper}]+[{lower}]*{CONTRACTION}",
        f"[{number}]{{1,3}}",
        f" ?[^{space}{letter}{number}]+[\\r\\n]*",
        f"[{space}]*[\\r\\n]+",
        f"[{space}]+(?![^{space}])",
        f"[{space}]+",
    ]
    return re.compile("|".join(rules))


def slices(text):
    """Cuts very long text as the released tokenizer does: blocks, then runs of one kind of character."""
    for base in range(0, len(text), BLOCK_CHARS):
        block = text[base:base + BLOCK_CHARS]
        if len(block) <= RUN_CHARS:
            yield block
            continue
        start, run, kind = 0, 0, None
        for i, c in enumerate(block):
            space = c.isspace()
            run = run + 1 if space == kind else 1
            kind = space
            if run > RUN_CHARS:
                yield block[start:i]
                start, run = i, 1
        yield block[start:]


def split(text):
    """Text -> list of pieces; their concatenation is the text."""
    pieces = []
    for part in slices(text):
        pieces += split_pattern(128 if part.isascii() else sys.maxunicode + 1).findall(part)
    return pieces


def byte_order():
    """The 256 bytes in rank order: printable ones first, as in the released vocabulary ('!' is 0, space 220)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return printable + [b for b in range(256) if b not in printable]


def merge(data, ranks):
    """Bytes of one piece -> ids, by lowest rank first; a heap over a linked list, so long pieces stay cheap."""
    n = len(data)
    begin = list(range(n))
    nxt, prv = list(range(1, n + 1)), list(range(-1, n - 1))
    end = list(range(1, n + 1))
    heap = []

    def push(i):
        if nxt[i] < n:
            rank = ranks.get(data[begin[i]:end[nxt[i]]])
            if rank is not None:
                heapq.heappush(heap, (rank, i, end[i], end[nxt[i]]))

    for i in range(n - 1):
        push(i)
    alive = [True] * n
    while heap:
        _, i, left_end, right_end = heapq.heappop(heap)
        if not alive[i] or end[i] != left_end or nxt[i] >= n or end[nxt[i]] != right_end:
            continue
        j = nxt[i]
        alive[j] = False
        end[i], nxt[i] = end[j], nxt[j]
        if nxt[i] < n:
            prv[nxt[i]] = i
        push(i)
        if prv[i] >= 0:
            push(prv[i])
    return [ranks[data[begin[i]:end[i]]] for i in range(n) if alive[i]]


class Tokenizer:
    """Ranks of a tiktoken.model file, plus the block of special ids behind them."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.tokens = {rank: token for token, rank in ranks.items()}
        self.special = {name: i for i, name in special_names(len(ranks)).items()}
        self.special_text = {i: name for name, i in self.special.items()}
        self.cache = {}
        self.segments = {}

    @classmethod
    def load(cls, path):
        with open(path, "rb") as f:
            lines = [line.split() for line in f if line.strip()]
        return cls({base64.b64decode(token): int(rank) for token, rank in lines})

    def encode_piece(self, piece):
        data = piece.encode("utf-8")
        whole = self.ranks.get(data)
        ids = [whole] if whole is not None else merge(data, self.ranks)
        if len(self.cache) < CACHE_PIECES:
            self.cache[piece] = ids
        return ids

    def encode(self, text):
        """Ordinary text -> ids; special strings in it are plain text."""
        out, cache = [], self.cache
        for piece in split(text):
            out += cache.get(piece) or self.encode_piece(piece)
        return out

    def decode(self, ids):
        """Ids -> text; special ids give their names, bytes that are no UTF-8 the replacement character."""
        raw = b"".join(self.tokens[i] if i in self.tokens else self.special_text[i].encode() for i in ids)
        return raw.decode("utf-8", errors="replace")


def special_names(base):
    """Id -> name of the block of special ids, in the order of the released tokenizer."""
    names = {base + i: f"<|reserved_token_{base + i}|>" for i in range(NUM_SPECIAL)}
    names.update({base: "[BOS]", base + 1: "[EOS]", base + 2: "<|end_of_msg|>", base + 3: "<|open|>",
                  base + 4: "<|close|>", base + 5: "<|sep|>", base + 6: "[start_header_id]",
                  base + 7: "[end_header_id]", base + 9: "[EOT]", base + NUM_SPECIAL - 2: "[UNK]",
                  base + NUM_SPECIAL - 1: "[PAD]"})
    return names


def write_ranks(path, tokens):
    """Tokens in rank order -> a rank file, one "base64 rank" a line."""
    with open(path, "wb") as f:
        for rank, token in enumerate(tokens):
            f.write(base64.b64encode(token) + b" %d\n" % rank)
