"""The skills: one function each makes a turn (what the user says, what the assistant should do) from a Source.

A turn's answer is computed from the state behind the text. Questions follow one wording scheme: a lead and a form.
"""

import dataclasses

import lexicon
import stories
import world

QUESTION_LEADS = ["", "tell me: ", "now say: ", "please answer: ", "one question: ", "I want to know: ",
                  "think about it: ", "so, "]


@dataclasses.dataclass
class Turn:
    """`thought` is the thinking channel; with a call, `call_thought` comes before it and `thought` after its result."""
    user: str
    answer: str
    thought: str = ""
    call: tuple | None = None
    result: str = ""
    call_thought: str = ""
    skill: str = ""


# ---- questions about a world story -------------------------------------------------------------------------------

WORLD_FORMS = {
    "where_person": ["where is {p}?", "where is {p} now?", "in which place is {p}?", "what place is {p} in?"],
    "who_has": ["who has the {t}?", "who has the {t} now?", "in whose hands is the {t}?", "who is carrying the {t}?"],
    "where_thing": ["where is the {t}?", "where is the {t} now?", "in which place is the {t}?",
                    "what place is the {t} in?"],
    "what_has": ["what does {p} have?", "what is {p} carrying?", "which things does {p} have?",
                 "what is in the hands of {p}?"],
    "count_has": ["how many things does {p} have?", "how many things is {p} carrying?",
                  "what number of things does {p} have?", "how many things are in the hands of {p}?"],
    "who_in": ["who is in the {x}?", "who is in the {x} now?", "which people are in the {x}?",
               "who can be found in the {x}?"],
    "before": ["where was {p} before the {x}?", "where was {p} before going to the {x}?",
               "in which place was {p} before the {x}?", "from where did {p} come to the {x}?"],
}


def listed(words):
    """"a", "a and b", "a, b and c"."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def number_of(count, noun):
    return f"{count} {noun if count == 1 else lexicon.plural(noun)}"


def world_question(src, told, key):
    """A question of kind `key` about a World, or None where it has no clear answer."""
    p, t, x = src.pick(told.people), src.pick(told.things), ""
    thought = ""
    own = told.held_by(p)
    holders = " ".join(f"{told.holder.get(o, 'Nobody')} has the {o}." for o in told.things)
    has = f"{p} has {listed(['the ' + o for o in own])}." if own else f"{p} has nothing."
    if key == "where_person":
        answer = f"{p} is in the {told.at[p]}."
        thought = f"{p}: {', '.join(told.visited[p])}."
    elif key == "who_has":
        answer = f"{told.holder[t]} has the {t}." if t in told.holder else f"Nobody has the {t}."
        thought = f"{t}: {', '.join(told.hands[t])}."
    elif key == "where_thing":
        answer = f"The {t} is in the {told.place_of(t)}."
        holder = told.holder.get(t)
        thought = f"{holder} has the {t}. {holder} is in the {told.at[holder]}." if holder else f"Nobody has the {t}."
    elif key == "what_has":
        answer = has
        thought = holders
    elif key == "count_has":
        answer = f"{p} has {number_of(len(own), 'thing')}."
        thought = holders
    elif key == "who_in":
        x = src.pick(told.places)
        inside = [q for q in told.people if told.at[q] == x]
        answer = (f"{listed(inside)} {'is' if len(inside) == 1 else 'are'} in the {x}." if inside
                  else f"Nobody is in the {x}.")
        thought = " ".join(f"{q} is in the {told.at[q]}." for q in told.people)
    else:
        path = told.visited[p]
        x = path[-1]
        if len(path) < 2 or path.count(x) > 1:
            return None
        answer = f"{p} was in the {path[-2]}."
        thought = f"{p}: {', '.join(path)}."
    question = src.wording(key, QUESTION_LEADS, WORLD_FORMS[key]).format(p=p, t=t, x=x)
    return Turn(question, answer, thought, skill="story_" + key)


def make_world(src):
    people = src.between(2, 4)
    return world.World(src, people, src.between(3, 5), src.between(1, 4)).run(src.between(3, 12))


# ---- questions about a tale --------------------------------------------------------------------------------------

def tale_question(src, tale, key):
    return Turn(tale.question(src, key, QUESTION_LEADS), tale.answer(key), "I look for it in the story.", skill="tale")


TELL_LEADS = ["", "please ", "now ", "could you ", "would you ", "I am bored, ", "it is late, ", "be so kind and "]
TELL_FORMS = ["tell me a story.", "tell me a tale.", "tell a short story.", "make up a story."]
TELL_HERO_FORMS = ["tell me a story about {p}.", "tell a tale about {p}.", "tell me a story in which there is {p}.",
                   "make up a story about {p}."]
TELL_BOTH_FORMS = ["tell me a story about {p} and {at} {t}.", "tell a tale about {p} and {at} {t}.",
                   "tell me a story with {p} and {at} {t}.", "make up a story about {p} and {at} {t}."]


TELL_ANIMAL_FORMS = ["tell me a story about {aa} {a}.", "tell a tale about {aa} {a}.", "tell me a story with {aa} {a}.",
                     "make up a story about {aa} {a}."]
ANIMAL_FACTS = {"saved", "noise", "granter"}


def tell(src):
    """A request for a story, and the tale told."""
    tale = stories.Tale(src)
    animal = TELL_ANIMAL_FORMS if ANIMAL_FACTS & set(tale.facts) else TELL_FORMS
    forms = src.pick((TELL_FORMS, TELL_HERO_FORMS, TELL_BOTH_FORMS, animal))
    request = src.wording("tell", TELL_LEADS, forms).format(**tale.slots)
    thought = f"A story about {tale.slots['p']} and {tale.slots['at']} {tale.slots['t']}."
    return Turn(request, tale.paragraphs, thought, skill="tell"), tale


# ---- copying, lists, recall --------------------------------------------------------------------------------------

ASK_LEADS = ["", "please ", "now ", "kindly ", "next, ", "be so good and ", "here is a task: ", "for me, "]
COPY_FORMS = ["repeat this: {s}", "say this again: {s}", "copy this: {s}", "write this once more: {s}"]
REVERSE_FORMS = ["say this list backwards: {s}", "write this list in reverse: {s}", "reverse this list: {s}",
                 "turn this list around: {s}"]
COUNT_FORMS = ["count the words in this list: {s}", "say how many words are in this list: {s}",
               "count this list: {s}", "tell me the number of words here: {s}"]
NTH_FORMS = ["say word number {n} of this list: {s}", "give me word {n} of this list: {s}",
             "tell me which word is number {n} here: {s}", "find word {n} in this list: {s}"]
SORT_FORMS = ["put these numbers in order: {s}", "sort these numbers: {s}", "order these numbers from small to big: {s}",
              "write these numbers in order: {s}"]
BIGGEST_FORMS = ["find the biggest number: {s}", "say which number is the biggest: {s}",
                 "give me the biggest of these numbers: {s}", "pick the biggest number: {s}"]


def word_list(src, low, high):
    kinds = ("name", "thing", "place")
    count = src.between(low, high)
    chosen = []
    while len(chosen) < count:
        word = src.word(src.pick(kinds)) if src.chance(0.6) else src.pick(
            src.pick((lexicon.ANIMALS, lexicon.COLORS, lexicon.WORDS, lexicon.CITIES)))
        if word not in chosen:
            chosen.append(word)
    return chosen


def nonsense(src):
    """A word that no text holds, so that copying it cannot be remembering it."""
    return "".join(src.pick("bdfgklmnprstvz") + src.pick("aeiou") for _ in range(src.between(2, 4)))


def copy(src):
    roll = src.random()
    if roll < 0.5:
        words = [nonsense(src) if src.chance(0.1) else word for word in word_list(src, 3, 12)]
        text = src.pick((", ", " ")).join(words)
    elif roll < 0.75:
        text = " ".join(world.World(src, 2, 3, 2).run(2).sentences[-src.between(1, 3):])
    else:
        text = " ".join(str(src.between(0, 9)) for _ in range(src.between(3, 12)))
    return Turn(src.wording("copy", ASK_LEADS, COPY_FORMS).format(s=text), text, "The same again.", skill="copy")


def reverse(src):
    words = word_list(src, 2, 6)
    text = src.wording("reverse", ASK_LEADS, REVERSE_FORMS).format(s=", ".join(words))
    return Turn(text, ", ".join(words[::-1]), "The last word comes first.", skill="reverse")


def enumerated(words):
    return ", ".join(f"{i} {word}" for i, word in enumerate(words, 1))


def count(src):
    words = word_list(src, 2, 12)
    text = src.wording("count", ASK_LEADS, COUNT_FORMS).format(s=", ".join(words))
    return Turn(text, f"There are {len(words)} words.", enumerated(words), skill="count")


def nth(src):
    words = word_list(src, 3, 9)
    n = src.between(1, len(words))
    text = src.wording("nth", ASK_LEADS, NTH_FORMS).format(n=n, s=", ".join(words))
    return Turn(text, f"Word {n} is {words[n - 1]}.", enumerated(words[:n]), skill="nth")


def numbers(src, low, high):
    """Different numbers below 100."""
    return src.rng.sample(range(1, 100), src.between(low, high))


def sort(src):
    values = numbers(src, 3, 5)
    text = src.wording("sort", ASK_LEADS, SORT_FORMS).format(s=", ".join(map(str, values)))
    return Turn(text, ", ".join(map(str, sorted(values))), "The smallest comes first.", skill="sort")


def biggest(src):
    values = numbers(src, 3, 6)
    text = src.wording("biggest", ASK_LEADS, BIGGEST_FORMS).format(s=", ".join(map(str, values)))
    top, steps = 0, []
    for value in values:
        top = max(top, value)
        steps.append(f"{value}: {top}")
    return Turn(text, f"The biggest number is {top}.", ", ".join(steps), skill="biggest")


RECALL_VALUES = {
    "number": lambda src: str(src.between(100, 9999)), "color": lambda src: src.pick(lexicon.COLORS),
    "animal": lambda src: "the " + src.pick(lexicon.ANIMALS), "city": lambda src: src.pick(lexicon.CITIES),
    "food": lambda src: src.pick(lexicon.FOODS), "thing": lambda src: "the " + src.word("thing"),
    "place": lambda src: "the " + src.word("place"),
}
RECALL_FORMS = ["what is the {k} of {p}?", "which {k} belongs to {p}?", "what was the {k} of {p}?",
                "what {k} did I give for {p}?"]
RECALL_HEADS = ["Remember this.", "Keep this in mind.", "Here are some facts.", "Learn this by heart.",
                "Listen well.", "Here is what you should know."]


def recall(src, questions=1):
    """Facts about people, then perhaps other tales, then questions: the first turn holds facts and question."""
    people = src.words("name", src.between(3, 6))
    keys = src.rng.sample(sorted(RECALL_VALUES), 2)
    facts = {(p, k): RECALL_VALUES[k](src) for p in people for k in keys}
    lines = [f"The {k} of {p} is {v}." for (p, k), v in facts.items()]
    src.rng.shuffle(lines)
    parts = [src.pick(RECALL_HEADS) + " " + " ".join(lines[:8])]
    told = [pair for pair in facts if f"The {pair[1]} of {pair[0]} is {facts[pair]}." in lines[:8]]
    for _ in range(src.pick((0, 0, 1, 1, 2, 3))):
        parts.append(stories.Tale(src).text)
    turns = []
    for p, k in src.rng.sample(told, min(questions, len(told))):
        question = src.wording("recall", QUESTION_LEADS, RECALL_FORMS).format(p=p, k=k)
        turns.append(Turn(question, f"The {k} of {p} is {facts[p, k]}.",
                          f"I was told the {k} of {p}.", skill="recall"))
    turns[0].user = "\n\n".join([*parts, turns[0].user])
    return turns


SPOKEN = {"+": ("+", "plus"), "-": ("-", "minus"), "*": ("*", "times", "x"), "/": ("/", "divided by")}


# ---- arithmetic --------------------------------------------------------------------------------------------------

SUM_FORMS = ["what is {a} {o} {b}?", "how much is {a} {o} {b}?", "work out {a} {o} {b}.", "what does {a} {o} {b} make?"]


def worked(a, b, sign):
    """The sum or difference digit by digit, from the right, as one writes it on paper."""
    result = a + b if sign == "+" else a - b
    steps, carry = [], 0
    for k in range(len(str(max(a, b)))):
        x, y = a // 10 ** k % 10, b // 10 ** k % 10
        tail = f" {sign} 1" if carry else ""
        if sign == "+":
            value = x + y + carry
            steps.append(f"{x} + {y}{tail} = {value}" + (", carry 1." if value > 9 else "."))
            carry = int(value > 9)
        else:
            borrow = int(x - y - carry < 0)
            value = x + 10 * borrow - y - carry
            steps.append(f"{x + 10 * borrow} - {y}{tail} = {value}" + (", borrow 1." if borrow else "."))
            carry = borrow
    return " ".join(steps), result


def draw_operands(src, sign):
    roll = src.random()

    def draw():
        top = 9 if roll < 0.1 else 99 if roll < 0.8 else 999
        a, b = src.between(1, top), src.between(1, 99 if top > 9 else 9)
        return (max(a, b), min(a, b)) if sign == "-" else (a, b)

    return src.operand_pair(draw)


def times_table(src):
    a, b = src.between(1, 10), src.between(1, 10)
    text = src.wording("sum", QUESTION_LEADS, SUM_FORMS).format(a=a, b=b, o=src.pick(SPOKEN["*"]))
    return Turn(text, f"{a} * {b} = {a * b}.", skill="times_table")


def arithmetic(src):
    sign = src.pick("+-")
    a, b = draw_operands(src, sign)
    thought, result = worked(a, b, sign)
    text = src.wording("sum", QUESTION_LEADS, SUM_FORMS).format(a=a, b=b, o=src.pick(SPOKEN[sign]))
    return Turn(text, f"{a} {sign} {b} = {result}.", thought, skill="arithmetic")


MORE_FORMS = ["how many {ts} does {p} have now?", "how many {ts} are there with {p} now?", "how many {ts} has {p} now?",
              "what is the number of {ts} of {p}?"]


def word_problem(src):
    p, q = src.words("name", 2)
    t, x, sign = src.word("thing"), src.word("place"), src.pick("+-")
    a, b = src.operand_pair(lambda: sorted((src.between(2, 60), src.between(2, 60)), reverse=True))
    ts = lexicon.plural(t)
    event = src.pick((f"{q} gave {p} {b} more.", f"Then {p} got {b} more from {q}.", f"{p} found {b} more.")
                     if sign == "+" else
                     (f"{p} gave {b} of them to {q}.", f"{q} took {b} of them.", f"{p} lost {b} of them."))
    thought, result = worked(a, b, sign)
    question = src.wording("more", QUESTION_LEADS, MORE_FORMS).format(ts=ts, p=p)
    where = src.pick((f"{p} had {a} {ts} in the {x}.", f"In the {x} {p} had {a} {ts}."))
    return Turn(f"{where} {event} {question}", f"{p} has {number_of(result, t)}.", f"{a} {sign} {b}: {thought} {result}.",
                skill="word_problem")


# ---- tools -------------------------------------------------------------------------------------------------------

TIME_FORMS = ["what time is it{w}?", "what is the time{w}?", "how late is it{w}?", "what does the clock say{w}?"]


def tool_sum(src, small=False):
    """A sum for the calculator: (question, expression, result); if not `small`, one beyond the head's reach."""
    sign = src.pick("+-**/")
    digits = (1, 3) if small else (4, 6) if sign in "+-" else (3, 5)

    def draw():
        top = 10 ** src.between(*digits)
        second = src.between(1, 99) if small else src.between(11, 10 ** src.between(2, 4) - 1)
        return src.between(top // 10, top - 1), second

    a, b = src.operand_pair(draw)
    value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[sign]
    text = src.wording("sum", QUESTION_LEADS, SUM_FORMS).format(a=a, b=b, o=src.pick(SPOKEN[sign]))
    return text, f"{a} {sign} {b}", f"{value:.8g}" if sign == "/" else str(value)


def calculator(src):
    text, expression, result = tool_sum(src, small=src.chance(0.25))
    return Turn(text, f"{expression} = {result}.", f"The calculator says {result}.",
                ("calculator", {"expression": expression}), result, "I need the calculator.", skill="calculator")


def no_calculator(src):
    text, expression, _ = tool_sum(src)
    return Turn(text, f"I have no calculator, so I cannot work out {expression}.", "There is no calculator.",
                skill="no_tool")


def time_question(src):
    city = src.pick(lexicon.CITIES) if src.chance(0.75) else None
    where = f" in {city}" if city else ""
    return src.wording("time", QUESTION_LEADS, TIME_FORMS).format(w=where), city, where


def clock(src):
    text, city, where = time_question(src)
    hour, minute = src.between(0, 23), src.between(0, 59)
    result = f"{hour}:{minute:02d}" if src.chance(0.4) else f"{hour:02d}:{minute:02d}"
    return Turn(text, f"It is {result}{where}.", f"The clock says {result}.",
                ("clock", {"place": city} if city else {}), result, "I need the clock.", skill="clock")


def no_clock(src):
    text, _, where = time_question(src)
    return Turn(text, f"I have no clock, so I cannot tell the time{where}.", "There is no clock.", skill="no_tool")
