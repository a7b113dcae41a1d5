"""Writes the held-out instances of each skill: DIR/SKILL.jsonl, 300 rows, always the same.

    make_eval.py --out DIR [--rows 300] [--seed test]

A row: {"id", "messages", "tools", "thinking", "expect"}; expect is {"text": ...} or {"tool_calls": [{"name",
"arguments"}]}. --stream BASE writes the same kind of rows as packed tokens (answers as targets) with the skill of each
document in BASE.kinds.txt, for the trainer to measure while it trains.
"""

import argparse
import json
import pathlib

import bpe
import chats
import skills
import source
import stories
import streams


def story_about(key):
    def make(src):
        while True:
            told = skills.make_world(src)
            turn = skills.world_question(src, told, key)
            if turn:
                turn.user = told.text + "\n\n" + turn.user
                return turn
    return make


def tale(src):
    told = stories.Tale(src)
    turn = skills.tale_question(src, told, src.pick(told.facts))
    turn.user = told.paragraphs + "\n\n" + turn.user
    return turn


def recall(src):
    return skills.recall(src)[0]


def no_tool(src):
    return src.pick((skills.no_calculator, skills.no_clock))(src)


BOTH = ("calculator", "clock")
# skill -> (maker of a turn, thinking, tools declared, what is asked for: "answer" or "call")
SKILLS = {
    "story_where": (story_about("where_person"), False, (), "answer"),
    "story_who_has": (story_about("who_has"), False, (), "answer"),
    "story_object": (story_about("where_thing"), True, (), "answer"),
    "story_carries": (story_about("what_has"), True, (), "answer"),
    "story_before": (story_about("before"), True, (), "answer"),
    "story_count": (story_about("count_has"), True, (), "answer"),
    "tale": (tale, False, (), "answer"),
    "recall": (recall, False, (), "answer"),
    "copy": (skills.copy, False, (), "answer"),
    "reverse": (skills.reverse, False, (), "answer"),
    "count": (skills.count, True, (), "answer"),
    "nth": (skills.nth, True, (), "answer"),
    "sort": (skills.sort, False, (), "answer"),
    "biggest": (skills.biggest, True, (), "answer"),
    "arithmetic": (skills.arithmetic, True, (), "answer"),
    "word_problem": (skills.word_problem, True, (), "answer"),
    "calculator_call": (skills.calculator, True, BOTH, "call"),
    "calculator_answer": (skills.calculator, True, BOTH, "answer"),
    "clock_call": (skills.clock, False, BOTH, "call"),
    "clock_answer": (skills.clock, False, BOTH, "answer"),
    "no_tool": (no_tool, True, (), "answer"),
}


def instance(skill, seed, number):
    """One held-out instance: (messages up to and with the expected one, setup, source)."""
    maker, thinking, tools, asked = SKILLS[skill]
    src = source.Source(f"{seed}/{skill}/{number}", held=True)
    turn = maker(src)
    made = [chats.calculator_tool() if name == "calculator" else chats.clock_tool() for name in tools]
    setup = chats.Setup(thinking, "max", made, None)
    messages = chats.messages_of([turn], setup)
    return messages[:2] if asked == "call" else messages, setup, src


def row(skill, seed, number):
    messages, setup, _ = instance(skill, seed, number)
    last = messages[-1]
    calls = [call["function"] for call in last.get("tool_calls", [])]
    expect = {"tool_calls": calls} if calls else {"text": last["content"]}
    return {"id": f"{skill}/{number}", "messages": messages[:-1], "tools": setup.tools, "thinking": setup.thinking,
            "expect": expect}


def write_stream(base, seed, rows, tokenizer):
    stream, kinds = streams.Stream(), []
    width = 0
    for number in range(rows):
        for skill in SKILLS:
            messages, setup, _ = instance(skill, seed, number)
            ids, mask = chats.encode(messages, setup, tokenizer)
            mask = only_last(ids, mask, tokenizer)
            if width + len(ids) > streams.WINDOW:
                gap = streams.WINDOW - width
                if gap:
                    stream.add([tokenizer.special["[PAD]"]] * gap, [0] * gap)
                    kinds.append("pad")
                width = 0
            stream.add(ids, mask)
            kinds.append(skill)
            width = (width + len(ids)) % streams.WINDOW
    gap = (streams.WINDOW - width) % streams.WINDOW
    if gap:
        stream.add([tokenizer.special["[PAD]"]] * gap, [0] * gap)
        kinds.append("pad")
    stream.write(base)
    pathlib.Path(f"{base}.kinds.txt").write_text("\n".join(kinds) + "\n")
    return stream


def only_last(ids, mask, tokenizer):
    """Targets of the last message alone: an answer after a tool result does not count its call again."""
    end = tokenizer.special["<|end_of_msg|>"]
    borders = [i for i, token in enumerate(ids[:-1]) if token == end]
    start = borders[-1] + 1 if borders else 0
    return [0] * start + mask[start:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--seed", default="test")
    parser.add_argument("--stream")
    parser.add_argument("--tokenizer", type=pathlib.Path)
    args = parser.parse_args()
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        for skill in SKILLS:
            lines = [json.dumps(row(skill, args.seed, n), ensure_ascii=False) for n in range(args.rows)]
            (args.out / f"{skill}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if args.stream:
        print(write_stream(args.stream, args.seed, args.rows, bpe.Tokenizer.load(args.tokenizer)).summary())


if __name__ == "__main__":
    main()
