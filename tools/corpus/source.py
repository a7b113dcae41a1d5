"""Random choices of one generated instance, and the wall between training and held-out material.

Words: see lexicon.py; a training instance takes at most two of {names, places, things} from second halves, a held-out
one takes all three from there. Wordings: every question and opening is a lead plus a form; the pairs with
(lead + form) % 4 == 3 are held out, all others are training's, so a held-out wording is one that training never used.
Operands of sums are split by a hash of the pair. What was used is noted for check_disjoint.py.
"""

import random

import lexicon

POOLS = {"name": lexicon.NAMES, "place": lexicon.PLACES, "thing": lexicon.THINGS}
FIRST = {kind: lexicon.first_half(words) for kind, words in POOLS.items()}
SECOND = {kind: lexicon.second_half(words) for kind, words in POOLS.items()}
HELD_WORDING = 3
WORDING_CLASSES = 4
HELD_OPERANDS = 7
OPERAND_CLASSES = 8


def wording_is_held(lead, form):
    return (lead + form) % WORDING_CLASSES == HELD_WORDING


def operands_are_held(a, b):
    return (a * 31 + b * 17 + a * b) % OPERAND_CLASSES == HELD_OPERANDS


class Source:
    def __init__(self, seed, held=False):
        self.rng = random.Random(seed)
        self.random = self.rng.random
        self.held = held
        plain = self.pick(("name", "place", "thing"))
        self.pools = SECOND if held else {kind: FIRST[kind] if kind == plain else POOLS[kind] for kind in POOLS}
        self.wordings = set()
        self.used = {kind: set() for kind in POOLS}
        self.operands = set()

    def pick(self, options):
        return options[int(self.random() * len(options))]

    def chance(self, probability):
        return self.random() < probability

    def between(self, low, high):
        """An integer in [low, high]."""
        return low + int(self.random() * (high - low + 1))

    def words(self, kind, count):
        """`count` different words of a kind."""
        chosen = self.rng.sample(self.pools[kind], count)
        self.used[kind].update(chosen)
        return chosen

    def word(self, kind):
        return self.words(kind, 1)[0]

    def wording(self, key, leads, forms):
        """A lead and a form joined, from this side of the wall; after an empty lead the form starts with a capital."""
        while True:
            lead, form = int(self.random() * len(leads)), int(self.random() * len(forms))
            if wording_is_held(lead, form) == self.held:
                break
        self.wordings.add((key, lead, form))
        text = leads[lead] + forms[form]
        return text[0].upper() + text[1:]

    def operand_pair(self, draw):
        """A pair from draw() that lies on this side of the wall."""
        while True:
            a, b = draw()
            if operands_are_held(a, b) == self.held:
                self.operands.add((a, b))
                return a, b
