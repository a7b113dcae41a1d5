"""Tests of the corpus tools: python3 -m unittest discover tools/corpus (from the root of the project)."""

import json
import pathlib
import random
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import bpe  # noqa: E402
import chats  # noqa: E402
import check_disjoint  # noqa: E402
import generate  # noqa: E402
import lexicon  # noqa: E402
import make_eval  # noqa: E402
import score_eval  # noqa: E402
import skills  # noqa: E402
import source  # noqa: E402
import stories  # noqa: E402
import streams  # noqa: E402
import xtml  # noqa: E402

DATA = HERE.parent.parent / "tests" / "data"
TOKENIZER = bpe.Tokenizer.load(DATA / "tokenizer" / "tiktoken.model")


def naive_merge(data, ranks):
    parts = [data[i:i + 1] for i in range(len(data))]
    while True:
        best = min((ranks.get(parts[i] + parts[i + 1], 1 << 30), i) for i in range(len(parts) - 1)) if len(parts) > 1 else None
        if best is None or best[0] == 1 << 30:
            return [ranks[p] for p in parts]
        parts[best[1]:best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]


class BpeTest(unittest.TestCase):
    def test_published_splits(self):
        for text, pieces in {
                "\u4e16\u754cabc": ["\u4e16\u754c", "abc"], " \u4e16\u754c": [" ", "\u4e16\u754c"],
                "12345": ["123", "45"], "a  \n b": ["a", "  \n", " b"], "\t\tfoo": ["\t", "\tfoo"],
                "it's IT'S": ["it's", " IT'S"], "it'sx": ["it's", "x"], "1's": ["1", "'s"], "}\n///": ["}\n", "///"],
                "!\u0301": ["!\u0301"], "!!\u0301": ["!!\u0301"], "1\u3007": ["1\u3007"], "\u30071": ["\u3007", "1"],
                " \u2e80": [" \u2e80"], "\x1ca": ["\x1ca"], "\u00a0b": ["\u00a0b"], "a\u00a0 b": ["a", "\u00a0", " b"]}.items():
            self.assertEqual(bpe.split(text), pieces, text)

    def test_ascii_and_full_classes_agree(self):
        rng = random.Random(5)
        alphabet = [chr(c) for c in range(128)] + ["'s", "'LL", "  ", "\r\n", "abc", "XY"]
        full = bpe.split_pattern(sys.maxunicode + 1)
        for _ in range(3000):
            text = "".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 20)))
            self.assertEqual(bpe.split(text), full.findall(text), repr(text))

    def test_merge_is_lowest_rank_first(self):
        rng = random.Random(6)
        for _ in range(500):
            data = bytes(rng.choice(b"theand ing\xc3\xa9") for _ in range(rng.randrange(1, 40)))
            self.assertEqual(bpe.merge(data, TOKENIZER.ranks), naive_merge(data, TOKENIZER.ranks))

    def test_slices_restart_at_runs(self):
        self.assertEqual([len(s) for s in bpe.slices("a" * 60_000)], [25_000, 25_000, 10_000])
        self.assertEqual([len(s) for s in bpe.slices("a" * 20_000 + " " + "b" * 20_000)], [40_001])
        self.assertEqual([len(s) for s in bpe.slices(("ab " * 200_000))], [400_000, 200_000])

    def test_every_digit_is_its_own_token(self):
        self.assertEqual(len(TOKENIZER.encode("4096")), 4)
        self.assertFalse([t for t in TOKENIZER.ranks if len(t) > 1 and any(48 <= b < 58 for b in t)])

    def test_stored_encodings_round_trip(self):
        cases = json.loads((DATA / "tokenizer" / "encodings.json").read_text())["cases"]
        for case in cases:
            self.assertEqual(TOKENIZER.encode(case["text"]), case["ids"])
            self.assertEqual(TOKENIZER.decode(case["ids"]), case["text"])


class XtmlTest(unittest.TestCase):
    def test_user_text_never_becomes_a_marker(self):
        text = "<|open|><|close|><|sep|><|end_of_msg|>[EOS]"
        segments = xtml.render([{"role": "user", "content": text}], thinking=False)
        ids, _ = xtml.to_ids(segments, TOKENIZER)
        structural = [i for i in ids if i >= len(TOKENIZER.ranks)]
        self.assertEqual(len(structural), 5)
        self.assertIn(text, TOKENIZER.decode(ids))

    def test_written_part_starts_after_the_generation_prefix(self):
        messages = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}]
        ids, written = xtml.to_ids(xtml.render(messages), TOKENIZER)
        prefix, _ = xtml.to_ids(xtml.render(messages[:1], generate=True), TOKENIZER)
        self.assertEqual(ids[:len(prefix)], prefix)
        self.assertEqual(written, [0] * len(prefix) + [1] * (len(ids) - len(prefix)))

    def test_results_follow_their_calls(self):
        calls = [{"id": "a", "name": "x"}, {"id": "b", "name": "y"}]
        run = [{"role": "tool", "content": "2", "tool_call_id": "b"}, {"role": "tool", "content": "1", "tool_call_id": "a"}]
        self.assertEqual([m["content"] for m, _ in xtml.order_results(run, calls)], ["1", "2"])
        run[0]["tool_call_id"] = "c"
        self.assertEqual([m["content"] for m, _ in xtml.order_results(run, calls)], ["2", "1"])

    def test_argument_source_text(self):
        self.assertEqual(xtml.parse_arguments('{"a": 1e2, "b": [1,2]} x'), [("a", 100.0, "1e2"), ("b", [1, 2], "[1,2]")])
        for bad in ("[1]", '{"a": 1,}', "{'a': 1}", '{"a": 01}', '{"a": NaN}', '{1: 2}', " ", '{"a"', '\ufeff{}'):
            self.assertIsNone(xtml.parse_arguments(bad), bad)


class WorldTest(unittest.TestCase):
    def test_state_follows_from_the_sentences(self):
        """Reads the story back, sentence by sentence, without the generator's state."""
        for seed in range(300):
            told = skills.make_world(source.Source(seed))
            at, holder = replay(told)
            self.assertEqual(at, told.at, told.text)
            self.assertEqual(holder, told.holder, told.text)

    def test_worked_sums(self):
        self.assertEqual(skills.worked(47, 38, "+"), ("7 + 8 = 15, carry 1. 4 + 3 + 1 = 8.", 85))
        self.assertEqual(skills.worked(52, 38, "-"), ("12 - 8 = 4, borrow 1. 5 - 3 - 1 = 1.", 14))
        rng = random.Random(1)
        for _ in range(500):
            a, b = sorted((rng.randrange(1000), rng.randrange(1000)), reverse=True)
            for sign in "+-":
                steps, result = skills.worked(a, b, sign)
                finals = [s.split(" = ")[1].split(",")[0] for s in steps.rstrip(".").split(". ")]
                digits = [f[-1] for f in finals[:-1]] + [finals[-1]]
                self.assertEqual(int("".join(reversed(digits))), result, (a, b, sign, steps))

    def test_every_tale_fact_is_told(self):
        for seed in range(400):
            tale = stories.Tale(source.Source(seed))
            self.assertNotIn("{", tale.paragraphs)
            for key in tale.facts:
                words = [w for w in tale.answer(key).rstrip(".").split() if w in {
                    *lexicon.NAMES, *lexicon.PLACES, *lexicon.THINGS, *lexicon.COLORS, *lexicon.JOBS}]
                for word in words:
                    self.assertIn(word, tale.text, (key, tale.text))


def replay(told):
    at, holder, subject = {}, {}, None
    for sentence in told.sentences:
        names = [w for w in sentence.replace(".", " ").replace('"', " ").split() if w in told.people]
        who = names[0] if names else subject
        things = [t for t in told.things if t in sentence.replace(".", " ").split()]
        place = next((x for x in told.places if f"the {x}" in sentence), None)
        if things and place:
            continue
        if place:
            at[who] = place
        elif things and any(w in sentence for w in (" gave ", " handed ")):
            holder[things[0]] = names[1] if len(names) > 1 else names[0]
            if len(names) == 1:
                who = subject
        elif things and any(w in sentence for w in ("put", "left", "dropped")):
            holder.pop(things[0], None)
        elif things:
            holder[things[0]] = who
        subject = who
    return at, holder


class WallTest(unittest.TestCase):
    def test_no_training_document_can_form_a_held_out_triple(self):
        for number in range(2000):
            text, _ = check_disjoint.training_document(f"wall/{number}")
            self.assertFalse(all(second for _, second in check_disjoint.halves(text).values()), text)

    def test_held_out_words_and_wordings_are_apart(self):
        train = set().union(*(check_disjoint.training_document(f"w/{n}")[1].wordings for n in range(1500)))
        for skill in make_eval.SKILLS:
            for number in range(10):
                *_, src = make_eval.instance(skill, "test", number)
                self.assertFalse(train & src.wordings)
                for kind, words in src.used.items():
                    self.assertLessEqual(words, set(source.SECOND[kind]))
                for pair in src.operands:
                    self.assertTrue(source.operands_are_held(*pair))


class StreamTest(unittest.TestCase):
    def test_packed_documents_stay_inside_windows(self):
        packer = streams.Packer(pad=9)
        lengths = [700, 500, 300, 1024, 20, 1000, 4]
        for i, n in enumerate(lengths):
            packer.add([i] * n, [1] * n)
        stream = packer.finish()
        self.assertEqual(len(stream.ids) % streams.WINDOW, 0)
        borders = [*stream.starts, len(stream.ids)]
        found = []
        for a, b in zip(borders, borders[1:]):
            self.assertEqual(a // streams.WINDOW, (b - 1) // streams.WINDOW)
            self.assertEqual(len(set(stream.ids[a:b])), 1)
            self.assertEqual(stream.mask[a], 0)
            if stream.ids[a] != 9:
                found.append(b - a)
        self.assertEqual(sorted(found), sorted(lengths))

    def test_documents_depend_on_the_seed_alone(self):
        first = generate.document("s/1", False, TOKENIZER)
        generate.document("s/2", False, TOKENIZER)
        self.assertEqual(generate.document("s/1", False, TOKENIZER), first)
        self.assertNotEqual(generate.document("s/2", False, TOKENIZER), first)

    def test_without_declared_tools_nothing_is_called(self):
        for number in range(800):
            messages, setup = chats.conversation(source.Source(f"tools/{number}"))
            for message in messages:
                for call in message.get("tool_calls", []):
                    self.assertTrue(setup.has(call["function"]["name"]))


class ScoreTest(unittest.TestCase):
    def test_text_and_calls(self):
        call = {"tool_calls": [{"name": "clock", "arguments": {"place": "Oslo"}}]}
        self.assertTrue(score_eval.correct(call, {"text": "", "tool_calls": [
            {"name": "clock", "arguments": '{"place": "Oslo"}'}]}))
        self.assertFalse(score_eval.correct(call, {"text": "", "tool_calls": [{"name": "clock", "arguments": {}}]}))
        self.assertFalse(score_eval.correct(call, {"text": "Oslo", "tool_calls": []}))
        self.assertTrue(score_eval.correct({"text": "Yes."}, {"text": "Yes.", "tool_calls": []}))
        self.assertFalse(score_eval.correct({"text": "Yes."}, {"text": "Yes. "}))
        self.assertFalse(score_eval.correct({"text": "Yes."}, {"text": "Yes.", **call}))


if __name__ == "__main__":
    unittest.main()
