"""The words of the small world: people, places, things.

first_half and second_half split a list by position.
Held-out instances are made of second halves only (name, place and thing alike); a training instance never takes more
than two of the three kinds from second halves. So no (name, place, thing) triple of a held-out instance can be formed
from any training instance, while every single word occurs in training.
"""

NAMES = """Tom Mary Anna Peter Jack Lucy Ben Clara George Alice Sam Emma Harry Rose Will Jane Dan Kate Ned Nell Hugh Ruth Paul
Grace Mark Ellen Luke Martha Max Molly Oscar Nora Fred Sarah Hans Greta Ivan Olga Leo Mira Otto Ida Felix Vera Simon Dora
Adam Eva Robin Lily Martin Flora Victor Julia Arthur Edith Frank Helen Walter Daisy Jim Susan Toby Polly Ralph Betty Hugo
Amy Roger Bella Giles Cora Edgar Fanny Noah Hazel Karl Ingrid Louis Marie Pierre Sophie Miles Tess Rufus Winnie""".split()
PLACES = """barn kitchen garden mill cellar attic stable forest market church library bakery orchard harbor tower cave granary
meadow school shop tavern chapel castle cottage inn forge lighthouse lobby field valley camp hall tent dairy workshop
theater station courtyard bedroom parlor study pantry boathouse hut vineyard quarry greenhouse palace prison museum""".split()
THINGS = """lamp ring key book coin rope basket apple knife map letter cup hat bell ball box candle hammer coat cake blanket
bottle feather flute glove jar kite ladder mirror needle orange pearl pipe purse rake scarf shell shoe shovel spoon stone
sword ticket toy trumpet umbrella vase watch whistle bucket brush button clock comb crown doll drum fan flag fork hook horn
jug lantern loaf nail plate pear pen pie pillow ribbon sack seed shirt stick stool sponge torch wheel""".split()
COLORS = "red blue green yellow white black brown grey purple pink golden silver".split()
ANIMALS = """dog cat horse cow goat sheep pig hen duck goose fox wolf bear rabbit mouse owl crow robin frog bee donkey
swan deer hare squirrel""".split()
FOODS = """bread cheese butter milk honey soup rice beans plums cherries nuts eggs fish ham jam onions carrots potatoes
grapes berries salt sugar tea flour""".split()
SOUPS = "bean rice fish onion carrot potato plum cherry nut egg".split()
CITIES = """London Paris Rome Berlin Madrid Vienna Moscow Tokyo Cairo Dublin Lisbon Athens Oslo Boston Chicago Delhi
Geneva Prague Venice Sydney Lima Quebec Havana Naples""".split()
JOBS = """miller baker farmer sailor tailor hunter painter teacher doctor soldier fisherman carpenter gardener shepherd
weaver smith cook postman singer clockmaker""".split()
WORDS = """river cloud winter summer silver window table fence music story morning evening island mountain door
bread water fire snow wind rain sun moon star tree leaf flower grass bird road house ship boat king queen child heart hand
voice dream night day hour year song""".split()


def first_half(words):
    """Two of four in turn: names alternate between men and women, and both halves need both."""
    return [word for i, word in enumerate(words) if i % 4 < 2]


def second_half(words):
    return [word for i, word in enumerate(words) if i % 4 >= 2]


FEMALE = set("""Mary Anna Lucy Clara Alice Emma Rose Jane Kate Nell Ruth Grace Ellen Martha Molly Nora Sarah Greta Olga Mira
Ida Vera Dora Eva Lily Flora Julia Edith Helen Daisy Susan Polly Betty Amy Bella Cora Fanny Hazel Ingrid Marie Sophie
Tess Winnie""".split())


def article(word):
    return "an" if word[0] in "aeiou" else "a"


def plural(word):
    if word.endswith("fe"):
        return word[:-2] + "ves"
    if word.endswith("f") and word not in ("scarf",):
        return word[:-1] + "ves"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")
