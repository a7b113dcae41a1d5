"""A small world: people who walk about, take things, leave them and hand them on, told sentence by sentence.

The story keeps the true state of the world, so every answer is computed and none is read off the text.
"""

from lexicon import FEMALE, article

OPENING_LEADS = ["one day ", "early one morning ", "on a cold day ", "one evening ", "once ", "on a fine day ",
                 "that day ", "one rainy day "]
OPENING_FORMS = ["{p} was in the {x}.", "{p} sat in the {x}.", "{p} stood in the {x}.", "{p} woke up in the {x}."]
AT = ["{p} was in the {x}.", "{p} was in the {x} too.", "{p} was still in the {x}.", "And {p} was in the {x}."]
LIES = ["There was {a} {t} in the {x}.", "{A} {t} lay in the {x}.", "In the {x} there was {a} {t}."]
GO = ["{p} went to the {x}.", "{p} walked to the {x}.", "Then {p} went to the {x}.", "{p} ran to the {x}.",
      "After that {p} went to the {x}.", "{p} came into the {x}.", "A little later {p} was in the {x}."]
TAKE = ["{p} took the {t}.", "{p} picked up the {t}.", "There {p} took the {t}.", "{p} saw the {t} and took it."]
DROP = ["{p} put down the {t}.", "{p} left the {t} there.", "{p} dropped the {t}.", "Then {p} put the {t} down."]
GIVE = ["{p} gave the {t} to {q}.", "{p} gave {q} the {t}.", "{p} handed the {t} to {q}.",
        "Then {p} gave {q} the {t}."]
FILLER = ["It began to rain.", "The sun was warm.", "A bird sang.", "The wind was cold.", "{p} was happy.",
          "{p} was tired.", "{p} sang a song.", "{p} thought of home.", "{p} laughed.", "It was very quiet.",
          "Somewhere a dog barked.", "{p} was hungry.", "Nobody said a word.", "The clouds moved on.",
          '"What a day!" said {p}.', '"I like it here," said {p}.', "The bells rang.", "Soon it grew dark."]


class World:
    """People at places; things that lie somewhere or are held. `text` is the story so far; `visited` and `hands` keep the
    places of each person and the holders of each thing in order."""

    def __init__(self, src, people=3, places=4, things=3):
        self.src = src
        self.people = src.words("name", people)
        self.places = src.words("place", places)
        self.things = src.words("thing", things)
        self.at = {p: src.pick(self.places) for p in self.people}
        self.lies = {}
        self.holder = {}
        self.visited = {p: [x] for p, x in self.at.items()}
        self.hands = {t: [] for t in self.things}
        self.sentences = []
        self.subject = None
        self.introduce()

    def say(self, templates, p, q="", x="", t=""):
        text = self.src.pick(templates)
        who = p
        if p == self.subject and text.startswith("{p}") and self.src.chance(0.25):
            who = "She" if p in FEMALE else "He"
        a = article(t) if t else ""
        self.sentences.append(text.format(p=who, q=q, x=x, t=t, a=a, A=a.capitalize()))
        self.subject = p

    def introduce(self):
        src = self.src
        first = self.people[0]
        opening = src.wording("opening", OPENING_LEADS, OPENING_FORMS)
        self.sentences.append(opening.format(p=first, x=self.at[first]))
        for p in self.people[1:]:
            self.say(AT, p, x=self.at[p])
        self.subject = None
        for t in self.things:
            if src.chance(0.35):
                self.hold(t, src.pick(self.people))
                self.sentences.append(f"{self.holder[t]} had {article(t)} {t}.")
            else:
                self.lay(t, src.pick(self.places))
                self.say(LIES, "", x=self.lies[t], t=t)

    def hold(self, t, p):
        self.lies.pop(t, None)
        self.holder[t] = p
        self.hands[t].append(p)

    def lay(self, t, x):
        self.holder.pop(t, None)
        self.lies[t] = x
        self.hands[t].append("nobody")

    def held_by(self, p):
        return [t for t in self.things if self.holder.get(t) == p]

    def place_of(self, t):
        return self.lies.get(t) or self.at[self.holder[t]]

    def other_places(self, here):
        return [x for x in self.places if x != here]

    def go(self, p, x):
        self.at[p] = x
        self.visited[p].append(x)
        self.say(GO, p, x=x)

    def step(self):
        """One event that is possible in the present state."""
        src = self.src
        p = src.pick(self.people)
        here = self.at[p]
        reach = [t for t in self.things if self.lies.get(t) == here]
        own = self.held_by(p)
        near = [q for q in self.people if q != p and self.at[q] == here]
        roll = src.random()
        if reach and roll < 0.6:
            t = src.pick(reach)
            self.hold(t, p)
            self.say(TAKE, p, t=t)
        elif own and near and roll < 0.75:
            t, q = src.pick(own), src.pick(near)
            self.hold(t, q)
            self.say(GIVE, p, q=q, t=t)
            self.subject = None
        elif own and roll < 0.25:
            t = src.pick(own)
            self.lay(t, here)
            self.say(DROP, p, t=t)
        elif own and roll < 0.5:
            self.go(p, src.pick([x for q, x in self.at.items() if x != here] or self.other_places(here)))
        else:
            self.go(p, src.pick(self.other_places(here)))
        if src.chance(0.15):
            self.say(FILLER, p)

    def run(self, events):
        for _ in range(events):
            self.step()
        return self

    @property
    def text(self):
        return " ".join(self.sentences)
