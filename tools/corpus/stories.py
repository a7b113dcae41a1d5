"""Short tales with a plot, and what is true in each of them.

A plot is a list of beats; each beat is a list of wordings, one of which is told; a beat that starts with None may be
left out. Slots: p, q people (he/his/him and qhe/qhis/qhim follow them), x, y places, t, u things, c a colour, a an
animal, f a food, s a kind of soup, j a job. A fact is (question key, answer) in the same slots.
"""

import lexicon
from lexicon import FEMALE, article

OPENING_LEADS = ["once upon a time ", "long ago ", "many years ago ", "in a small village ", "once ", "in a far country ",
                 "by the sea ", "at the edge of a wood "]
OPENING_FORMS = ["there was {aj} {j} named {p}.", "there lived {aj} {j} called {p}.", "there was {aj} {j} whose name was {p}.",
                 "{aj} {j} named {p} lived all alone."]

QUESTIONS = {
    "job": ["what was {p}?", "what was the work of {p}?", "what did {p} do for a living?", "what kind of worker was {p}?"],
    "lost": ["what did {p} lose?", "what was gone?", "which thing did {p} lose?", "what was {p} looking for?"],
    "found_in": ["where was the {t}?", "where did they find the {t}?", "in which place was the {t}?",
                 "where had the {t} been?"],
    "finder": ["who found the {t}?", "who was it that found the {t}?", "who had found the {t}?",
               "who helped to find the {t}?"],
    "color": ["what color was the {t}?", "which color did the {t} have?", "what was the color of the {t}?",
              "the {t} was of what color?"],
    "saved": ["whom did {p} save?", "which animal did {p} help?", "what animal was in trouble?", "who was saved?"],
    "saved_in": ["where was the {a}?", "where did {p} find the {a}?", "in which place was the {a}?",
                 "where was the {a} caught?"],
    "tool": ["what did {p} use?", "what did {p} take along?", "which thing did {p} use?", "with what did {p} do it?"],
    "gave": ["what did {p} give to {q}?", "what did {q} get?", "which present did {q} get?", "what was the present?"],
    "giver": ["who gave the {t} to {q}?", "from whom did {q} get the {t}?", "who brought the {t}?",
              "who was it that gave away the {t}?"],
    "sold": ["what did {p} sell?", "which thing did {p} sell?", "what did {p} give away for money?",
             "what was sold?"],
    "made": ["what did {p} make?", "what did {p} cook?", "which food was in the pot?", "what was there to eat?"],
    "guest": ["who came to eat?", "who was the guest?", "who ate with {p}?", "who knocked at the door?"],
    "fear": ["what was {p} afraid of?", "which place did {p} fear?", "where did {p} not want to go?",
             "what place was dark?"],
    "noise": ["what made the noise?", "who made the noise?", "what was in the {x}?", "which animal made the noise?"],
    "hid": ["where did {p} hide the {t}?", "where was the {t} hidden?", "in which place was the {t} hidden?",
            "where did {p} put the {t}?"],
    "traded": ["what did {p} give for the {t}?", "what did {p} trade for the {t}?", "for what did {p} get the {t}?",
               "which thing did {q} get?"],
    "brought": ["what did {p} bring home?", "what did {p} get from {q}?", "which thing did {p} bring home?",
                "with what did {p} come home?"],
    "wished": ["what did {p} wish for?", "what was the wish of {p}?", "what did {p} want to have?",
               "for what did {p} ask?"],
    "granter": ["who could grant wishes?", "which animal could speak?", "what animal did {p} let go?",
                "who granted the wish?"],
    "winner": ["who won the race?", "who was the winner?", "who came first?", "which of the two won?"],
    "loser": ["who lost the race?", "who came last?", "who stopped on the way?", "which of the two lost?"],
    "prize": ["what was the prize?", "what did the winner get?", "which thing was the prize?", "for what did they run?"],
    "shared": ["what did they both want?", "about what did they quarrel?", "which thing did they fight about?",
               "what did {p} and {q} want?"],
    "came_in": ["where did they quarrel?", "in which place did they find the {t}?", "where did the {t} lie?",
                "where was the {t}?"],
    "took": ["who took the {t}?", "who had the {t} at the end?", "who was it that took the {t}?",
             "in whose hands was the {t} at last?"],
}

ANSWERS = {
    "job": "{p} was {aj} {j}.", "lost": "{p} lost the {t}.", "found_in": "The {t} was in the {x}.",
    "finder": "{q} found the {t}.", "color": "The {t} was {c}.", "saved": "{p} saved the {a}.",
    "saved_in": "The {a} was in the {x}.", "tool": "{p} used the {t}.", "gave": "{p} gave {q} the {t}.",
    "giver": "{p} gave the {t} to {q}.", "sold": "{p} sold the {u}.", "made": "{p} made {s} soup.",
    "guest": "{q} came to eat.", "fear": "{p} was afraid of the {x}.", "noise": "It was {aa} {a}.",
    "traded": "{p} gave {q} the {u}.", "brought": "{p} brought home the {t}.", "wished": "{p} wished for {at} {t}.",
    "granter": "It was {aa} {a}.", "winner": "{q} won the race.", "loser": "{p} lost the race.",
    "prize": "The prize was {at} {t}.", "shared": "They both wanted the {t}.", "came_in": "It was in the {x}.",
    "hid": "{p} hid the {t} in the {x}.", "took": "{q} took the {t}.",
}

LOST = {"facts": ["job", "lost", "found_in", "finder", "color"], "beats": [
    ["{p} had {ac} {c} {t} and loved it more than anything else in the world.",
     "Of all {his} things {p} loved a {t} the best. It was {c}.",
     "{p} was poor, but {he} had a fine {t}. It was {c}, and {he} kept it with great care."],
    ["One morning the {t} was gone.", "But one day {he} looked for the {t}, and it was not there.",
     "One night there was a great wind, and in the morning the {t} was gone."],
    ["{He} looked under the bed. {He} looked behind the door. {He} looked in every corner of the house.",
     "{He} turned the whole house upside down, but {he} could not find it.",
     '"Who can have taken it?" cried {p}, and {he} ran out into the road.'],
    [None, "{He} went to the {y}, but there was only {aa} {a} there, and it knew nothing.",
     "First {he} looked in the {y}. Nothing was there but dust and {aa} old {u}.",
     "{He} asked {aa} {a} that sat by the {y}, but it only looked at {him}."],
    ["Then {he} met {q}.", "On the road {he} met {q}.", "At last {he} came to the house of {q}."],
    ['"Why do you look so sad?" asked {q}. "I have lost my {t}," said {p}.',
     '"Have you seen my {t}?" asked {p}. {q} thought for a while.',
     '"What is the matter?" said {q}. "My {t} is gone," said {p}, and {he} began to cry.'],
    ['"Come with me," said {q}. "I saw something {c} in the {x}."',
     '"Let us look for it together," said {q}, and they went to the {x}.',
     '"Dry your eyes," said {q}. "We will look in the {x}."'],
    ["There, in the {x}, {q} found the {t}.", "They looked for an hour in the {x}, and then {q} found the {t}.",
     "And {q} reached behind a heap of straw in the {x} and found the {t}."],
    ["{p} was so glad that {he} danced.", '"How can I thank you?" said {p}.', "{p} laughed and cried at once."],
    ["From that day on {p} and {q} were the best of friends.",
     "They went home together, and {p} made a good supper for both.",
     "After that {p} never left the {t} lying about again."]]}

RESCUE = {"facts": ["job", "saved", "saved_in", "tool"], "beats": [
    ["{p} had a kind heart.", "{p} could not bear to see anyone suffer.", "Everybody liked {p}, for {he} helped where {he} could."],
    ["One evening {he} heard a cry from the {x}.", "One day, as {he} passed the {x}, {he} heard a small voice.",
     "One cold night there was a sound in the {x}, like somebody crying."],
    ["{aA} {a} was caught in the {x} and could not get out.", "In the {x} there was {aa} {a}, and its foot was caught between two stones.",
     "It was {aa} {a}. It had come into the {x} and could not find the way out again."],
    ['"Help me," said the {a}, "or I shall die here."', '"Oh, please help me!" cried the {a}.',
     'The {a} looked at {him} with big eyes and trembled.'],
    [None, '"Leave it," said {q}. "It is only {aa} {a}." But {p} shook {his} head.',
     "{q} came by and laughed, but {p} did not listen."],
    ["{p} ran home and came back with {at} {t}.", "{p} had {at} {t} with {him}, and that was lucky.",
     '"Wait," said {p}, and {he} fetched {at} {t}.'],
    ["With the {t} {he} set the {a} free.", "It was hard work, but with the help of the {t} the {a} was soon free.",
     "{He} used the {t}, and in a little while the {a} could move again."],
    ['"I will not forget this," said the {a}, and it ran away.', "The {a} licked {his} hand and was gone.",
     "Then {he} gave it some {f}, and the {a} ate and grew strong."],
    ["A year later {p} lost {his} way in the snow.", "In the winter {p} was lost in the woods.",
     "Not long after, {p} fell ill on the road, far from home."],
    ["Then the {a} came and led {him} home.", "But the {a} found {him} and showed {him} the way.",
     "Who should come then but the {a}! It stayed with {him} and kept {him} warm."],
    ["So one good deed was paid with another.", '"Now we are even," said the {a}.', "And they were friends for the rest of their lives."]]}

GIFT = {"facts": ["job", "gave", "giver", "sold"], "beats": [
    ["{p} had a friend whose name was {q}.", "{p} had one good friend, and that was {q}.", "Next door to {p} lived {q}, and the two were friends."],
    ["The birthday of {q} was near, but {p} had no money.", "Soon it would be the birthday of {q}, and {p} did not know what to give.",
     '"Tomorrow is the birthday of {q}," thought {p}, "and I have nothing to give."'],
    ["{p} owned nothing of worth but {au} {u}.", "All that {p} had was {au} old {u}.", "There was only {au} {u} in the house, and {p} was fond of it."],
    ["{He} went to the {x} and sold the {u}.", "So {he} took the {u} to the {x} and sold it for a silver coin.",
     "In the {x} there was a man who bought such things, and {p} sold him the {u}."],
    ["With the money {he} bought {at} {t}.", "For the money {he} got {ac} {c} {t}.", "Then {he} saw {at} {t}, and it cost just as much as {he} had."],
    ["The next day {p} gave the {t} to {q}.", "When the day came, {p} gave {q} the {t}.", "{p} wrapped the {t} in cloth and gave it to {q}."],
    ['"It is just what I wished for," said {q}.', "{q} could hardly speak for joy.", '"Oh, how did you know?" cried {q}.'],
    [None, '"But where is your {u}?" asked {q}. {p} only smiled.', "They sat together until late in the {y} and ate {f}."],
    ["And {p} was happier than if {he} had kept the {u}.", "It is a fine thing to have a friend.", "{p} went home with empty hands and a full heart."]]}

SUPPER = {"facts": ["job", "made", "guest"], "beats": [
    ["One winter evening {p} was all alone.", "It was a cold night, and the snow lay deep.", "One night the snow was so deep that {p} stayed at home."],
    ["{He} put a pot on the fire and made {s} soup.", '"I will make {s} soup," {he} said, and soon the pot was boiling.',
     "{p} lit the fire and made {s} soup."],
    ["Then there was a knock at the door.", "Just then somebody knocked.", "{He} had hardly sat down when there came a knock."],
    ["It was {q}, wet and cold and hungry.", "Outside stood {q}, white with snow.", "{q} stood there and shook with cold."],
    ['"Come in," said {p}. "There is enough for two."', '"Come in and sit by the fire," said {p}.',
     '{p} thought of the little pot. Then {he} said, "Come in and eat with me."'],
    ["So they ate the soup together, and it was good.", "They ate until the pot was empty, and they told each other stories.",
     "{q} ate and ate, and the color came back into {qhis} face."],
    ["In the morning {q} went away, but on the table lay {at} {t}.", 'When {q} left, {qhe} said, "Take this {t}. It has brought me luck."',
     "The next day {q} came back with {at} {t} and gave it to {p}."],
    ["The {t} was a magic {t}, and from that day the pot was never empty again.",
     "{p} kept the {t} for ever, to remember that night.", "And ever after, when it snowed, the two ate together."]]}

BRAVE = {"facts": ["job", "fear", "noise", "tool"], "beats": [
    ["{p} was afraid of one thing only, and that was the {x}.", "Nobody was as merry as {p}, but {he} was afraid of the old {x}.",
     "There was an old {x} near the house, and {p} was afraid of it."],
    ["It was dark there, and at night there was a strange noise.", "People said that something lived there and howled at night.",
     "Every night a noise came from there, like chains."],
    ['"One must not be afraid for ever," {he} thought one evening.', 'One evening {q} said, "I dare you to go there." {p} grew pale, but {he} stood up.',
     "But one night the noise was so loud that nobody could sleep, and {p} stood up."],
    ["{He} took {at} {t} and went.", "{p} took {his} {t} in {his} hand and went out.", "With {at} {t} in {his} hand {he} went along the dark road."],
    ["{His} knees shook when {he} opened the door.", "{His} heart beat like a drum. {He} went in, step by step.", '"Who is there?" {he} called. Nobody answered.'],
    ["Something moved in the dark.", "Two small lights shone in the corner. They were eyes.", "Then the noise came again, quite near."],
    ["It was nothing but {aa} {a}.", "And what was it? It was {aa} little {a}!", "{He} looked again and had to laugh. It was only {aa} {a}."],
    ["It was hungry and alone, and that was why it made the noise.", "The poor thing was more afraid than {he} was.", "It had lost its mother and was crying for her."],
    ["{p} took it home and gave it {f}.", "{He} carried it home in {his} arms.", "{He} sat down beside it, and soon it was quiet."],
    ["After that {p} was not afraid of the {x} any more.", "Since then the nights have been still.", "So {p} lost a fear and won a friend."]]}

HIDDEN = {"facts": ["job", "hid", "took", "color"], "beats": [
    ["{p} owned {ac} {c} {t}, and {he} was afraid of thieves.", "{p} had found {ac} {c} {t} in the road, and {he} told nobody about it.",
     "From {his} mother {p} had {ac} {c} {t}, and {he} would not show it to anyone."],
    ["So one night {he} hid the {t} in the {x}.", "{He} thought and thought, and then {he} hid the {t} in the {x}.",
     "When all were asleep, {he} went to the {x} and hid the {t} there."],
    ["But {q} had seen it.", "{He} did not see that {q} stood behind a tree.", "{q} was awake, and watched {him} through a window."],
    ["The next night {q} went and took the {t}.", "When {p} was away, {q} took the {t}.", "{q} waited until it was dark, and then {qhe} took the {t}."],
    ["{p} came to look, and the place was empty.", "In the morning {p} found nothing but {aa} {a} asleep.", "When {p} came back, {he} found only an empty hole."],
    ['{He} cried so loud that {q} was ashamed.', '"What good was it to you?" said {q}. "You never looked at it."',
     '"You may put a stone there," said {q}, "and think that it is the {t}. It will be as good to you."'],
    ["What we do not use is not really ours.", "From that day {p} did not hide things any more.", "And that is the end of the story."]]}

TRADE = {"facts": ["job", "traded", "brought"], "beats": [
    ["One day {p} went out with {au} {u} under {his} arm.", "{p} had nothing but {au} {u}, and so {he} went out into the world with it.",
     '"Take this {u} and see what you can get for it," said the mother of {p}, and so {he} went out.'],
    ["The sun was hot and the road was long.", "{He} walked the whole day and met nobody.", "{He} whistled as {he} went, for {he} was young and the road was good."],
    ["By the {x} {he} met {q}, who was carrying {at} {t}.", "Near the {x} sat {q} with {at} {t}.", "Then {q} came along the road from the {x} with {at} {t}."],
    ['"What a fine {u}!" said {q}. "I have looked for one like it all my life."',
     '"Where are you going with that {u}?" asked {q}.', '"Good day," said {q}. "Shall we trade?"'],
    ['"Give me the {u}, and you shall have my {t}," said {q}.', '"My {t} for your {u}," said {q}, "and we are both content."',
     '"I would give this {t} for it," said {q}.'],
    ["{p} thought for a while and gave {q} the {u}.", "So {p} gave {q} the {u} and took the {t}.", "They shook hands, and {p} gave {q} the {u}."],
    [None, "People laughed at {him} when {he} came home.", '"You foolish child," said the neighbors.'],
    ["{p} brought home the {t} and put it on the table.", "In the evening {p} brought home the {t}.", "When it was dark, {p} brought home the {t}."],
    ["And see, inside the {t} there was a gold piece.", "But the {t} was worth ten times as much.",
     "It was not worth much, but {p} was content with it."],
    ["Whoever is content is never poor.", "So {p} had luck, and {q} had luck too.", "And if {he} has not lost it, {he} has it to this day."]]}

WISH = {"facts": ["job", "wished", "granter"], "beats": [
    ["One day {p} caught {aa} {a} in the {x}.", "In the {x} {p} found {aa} {a} in a trap.", "Early in the morning {p} caught {aa} {a} behind the {x}."],
    ['"Let me go," said the {a}, "and I will grant you a wish."', 'Then the {a} began to speak. "Set me free," it said, "and you may wish for something."',
     'The {a} opened its mouth and said, "I am no common {a}. If you let me live, you have one wish."'],
    ["{p} was so surprised that {he} let it go at once.", "{p} opened {his} hands, and the {a} was free.", '"Go, then," said {p}, for {he} had a soft heart.'],
    ['"I wish for {at} {t}," said {p}.', '"I wish for {at} {t}," {he} said, for {he} could think of nothing else.',
     'What should {he} ask for? "I wish for {at} {t}," {he} said at last.'],
    ["And there lay {ac} {c} {t} at {his} feet.", "There was a clap of thunder, and {p} held {at} {t} in {his} hands.", "When {he} came home, there was {at} {t} on the table."],
    ['"You could have asked for a whole kingdom!" said {q}. "A kingdom gives too much trouble," said {p}.',
     '"How silly!" said {q}. "You might have been a king." "And who would do my work?" said {p}.',
     '{q} only shook {qhis} head. "But this is what I wanted," said {p}.'],
    ["And {he} was content all {his} life.", "The {a} was never seen again.", "So {p} lived as before, only a little more merrily."]]}

RACE = {"facts": ["job", "winner", "loser", "prize"], "beats": [
    ["{p} could run faster than anyone, and {he} told everybody so.", "{p} was proud of {his} quick legs.", '"Nobody is as fast as I am," said {p} every day.'],
    ['"I will run against you," said {q}, who was small and slow.', "Then {q}, who was old and slow, asked {him} for a race.",
     'At last {q} grew tired of it. "Let us run to the {x}," {qhe} said.'],
    ["The prize was {at} {t}.", "Whoever came first was to have {at} {t}.", "A rich man gave {at} {t} as a prize."],
    ["They started at the {y}, and soon {p} was far ahead.", "All the people stood by the road and shouted. {p} ran like the wind.",
     "One, two, three, and off they went. {p} was out of sight at once."],
    ['"I have time," thought {p}, and {he} lay down under a tree and slept.', "On the way {p} saw {aa} {a} and stopped to play with it.",
     "{p} stopped to eat some {f}, for {he} was sure to win."],
    ["But {q} went on, step by step.", "{q} did not look left or right.", "{q} was slow, but {qhe} never stopped."],
    ["When {p} came to the {x}, {q} was there already.", "When {p} woke up and ran on, it was too late.", "{p} heard the shouts and ran, but it was too late."],
    ["So {q} won the race and got the {t}.", "{q} had won the race, and the {t} was {qhis} own.", "And so {q} won the race. The people clapped, and {qhe} was given the {t}."],
    ["After that {p} did not boast any more.", "{p} was ashamed, and then {he} laughed.", "Slow and steady wins in the end."]]}

QUARREL = {"facts": ["job", "shared", "came_in", "color"], "beats": [
    ["{p} and {q} were neighbors and went everywhere together.", "{p} had a neighbor whose name was {q}.", "Every evening {p} and {q} took a walk together."],
    ["One day they found {ac} {c} {t} in the {x}.", "In the {x} they saw {ac} {c} {t} on the ground.", "{aC} {c} {t} lay in the {x}, and they both saw it."],
    ['"It is mine," said {p}. "No, I saw it first," said {q}.', "Both of them ran to it and pulled, one on each side.", '"I saw it first!" they both cried at once.'],
    ["They grew red in the face and did not speak for three days.", "They shouted so loud that the birds flew away.", "From that hour they were enemies."],
    ['Then an old woman came by. "Let each have it for a day in turn," she said.',
     'An old man had heard it all. "You had a friend," he said, "and you gave that up for {at} {t}?"',
     'At last they went to the judge. "Such things break," said the judge, "but a friend is for life."'],
    ["They looked at each other and were ashamed.", "{p} began to laugh, and then {q} laughed too.", "They were silent for a long time."],
    ["So they shared the {t}, and each had it every second day.", '"You take it," said {p}. "No, you," said {q}.', "They gave the {t} to a poor child and went home arm in arm."],
    ["And they never quarreled again.", "It was a good peace, and it held.", "So it was, and so it should be."]]}

PLOTS = [LOST, RESCUE, GIFT, SUPPER, BRAVE, HIDDEN, TRADE, WISH, RACE, QUARREL]


class Tale:
    """One told plot: text, slots, and the keys of the questions that it answers."""

    def __init__(self, src, hero=None, thing=None):
        plot = src.pick(PLOTS)
        p, q = src.words("name", 2)
        x, y = src.words("place", 2)
        t, u = src.words("thing", 2)
        p, t = hero or p, thing or t
        q = q if q != p else src.rng.choice([n for n in src.pools["name"] if n != p])
        u = u if u != t else src.rng.choice([n for n in src.pools["thing"] if n != t])
        for kind, words in (("name", (p, q)), ("thing", (t, u))):
            src.used[kind].update(words)
        c, a, f, s, j = (src.pick(words) for words in (lexicon.COLORS, lexicon.ANIMALS, lexicon.FOODS, lexicon.SOUPS,
                                                       lexicon.JOBS))
        self.slots = {"p": p, "q": q, "x": x, "y": y, "t": t, "u": u, "c": c, "a": a, "f": f, "s": s, "j": j,
                      "aa": article(a), "aA": article(a).capitalize(), "ac": article(c), "aC": article(c).capitalize(), "at": article(t),
                      "au": article(u), "aj": article(j), **pronouns(p, ""), **pronouns(q, "q")}
        self.facts = plot["facts"]
        sentences = [src.wording("tale", OPENING_LEADS, OPENING_FORMS)]
        for beat in plot["beats"]:
            wording = src.pick(beat)
            if wording:
                sentences.append(wording)
        cut = len(sentences) // 2
        self.text = " ".join(sentences).format(**self.slots)
        self.paragraphs = "\n".join(" ".join(part) for part in (sentences[:cut], sentences[cut:])).format(**self.slots)

    def question(self, src, key, leads):
        return src.wording(key, leads, QUESTIONS[key]).format(**self.slots)

    def answer(self, key):
        return ANSWERS[key].format(**self.slots)


def pronouns(name, prefix):
    he, his, him = ("she", "her", "her") if name in FEMALE else ("he", "his", "him")
    return {prefix + "he": he, prefix + "He": he.capitalize(), prefix + "his": his, prefix + "His": his.capitalize(),
            prefix + "him": him}
