"""Turns -> whole conversations in the K3 chat format, and the mixture that the model is trained on."""

import dataclasses

import skills
import smalltalk
import stories
import xtml

CALCULATOR_TEXTS = ("Works out an arithmetic expression.", "Calculates.", "Evaluates an expression such as 2 + 3.")
CLOCK_TEXTS = ("Tells the time.", "Gives the time of day.", "Tells what time it is, here or in a place.")


def calculator_tool(description=CALCULATOR_TEXTS[0]):
    return {"type": "function", "function": {
        "name": "calculator", "description": description, "parameters": {
            "type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}}}


def clock_tool(description=CLOCK_TEXTS[0]):
    return {"type": "function", "function": {
        "name": "clock", "description": description, "parameters": {
            "type": "object", "properties": {"place": {"type": "string"}}}}}


@dataclasses.dataclass
class Setup:
    """What stands around the turns of one conversation."""
    thinking: bool
    effort: str
    tools: list
    system: str | None

    def has(self, name):
        return any(tool["function"]["name"] == name for tool in self.tools)


def draw_setup(src, tools=None):
    """`tools`: names to declare; None: perhaps some that nobody needs."""
    if tools is None:
        tools = src.pick(((), (), (), (), (), (), ("calculator",), ("calculator", "clock")))
    made = [calculator_tool(src.pick(CALCULATOR_TEXTS)) if name == "calculator" else clock_tool(src.pick(CLOCK_TEXTS))
            for name in tools]
    effort = "max" if src.chance(0.7) else src.pick(("low", "high"))
    system = src.pick(smalltalk.SYSTEM) if src.chance(0.1) else None
    return Setup(src.chance(0.45), effort, made, system)


def messages_of(turns, setup):
    """Conversation of the turns; with effort low nothing is thought before an answer."""
    brief = setup.effort == "low"
    out = [{"role": "system", "content": setup.system}] if setup.system else []
    for number, turn in enumerate(turns):
        out.append({"role": "user", "content": turn.user})
        if turn.call:
            name, arguments = turn.call
            call = {"type": "function", "id": f"{name}_{number}", "function": {"name": name, "arguments": arguments}}
            out.append({"role": "assistant", "content": "", "reasoning_content": "" if brief else turn.call_thought,
                        "tool_calls": [call]})
            out.append({"role": "tool", "tool_call_id": call["id"], "content": turn.result})
        out.append({"role": "assistant", "content": turn.answer, "reasoning_content": "" if brief else turn.thought})
    return out


def world_turns(src):
    told = skills.make_world(src)
    keys = ("where_person", "who_has", "where_thing", "what_has", "count_has", "who_in", "before")
    turns, seen = [], set()
    for _ in range(src.between(3, 8)):
        turn = skills.world_question(src, told, src.pick(keys))
        if turn and turn.answer not in seen:
            seen.add(turn.answer)
            turns.append(turn)
    turns = turns or [skills.world_question(src, told, "where_person")]
    turns[0].user = told.text + "\n\n" + turns[0].user
    return turns, None


def tale_turns(src):
    """A tale told by the user or by the assistant, then questions about it."""
    request, tale = skills.tell(src)
    turns = [skills.tale_question(src, tale, key)
             for key in src.rng.sample(tale.facts, src.between(1, len(tale.facts)))]
    if src.chance(0.6):
        return [request, *turns], None
    turns[0].user = tale.paragraphs + "\n\n" + turns[0].user
    return turns, None


def list_turns(src):
    kinds = (skills.copy, skills.reverse, skills.count, skills.nth, skills.sort, skills.biggest)
    return [src.pick(kinds)(src) for _ in range(src.between(1, 8))], None


def recall_turns(src):
    return skills.recall(src, src.between(1, 6)), None


def sum_turns(src):
    kinds = (*[skills.arithmetic] * 4, *[skills.word_problem] * 3, skills.times_table, *[skills.no_calculator] * 2)
    return [src.pick(kinds)(src) for _ in range(src.between(1, 8))], ()


def tool_turns(src):
    tools = src.pick((("calculator",), ("clock",), ("calculator", "clock"), ("clock", "calculator")))
    turns = []
    for _ in range(src.between(1, 4)):
        roll = src.random()
        if roll < 0.5:
            turns.append(skills.calculator(src) if "calculator" in tools else skills.no_calculator(src))
        elif roll < 0.85:
            turns.append(skills.clock(src) if "clock" in tools else skills.no_clock(src))
        else:
            turns.append(src.pick((skills.copy, skills.count, skills.biggest))(src))
    return turns, tools


def no_tool_turns(src):
    return [src.pick((skills.no_calculator, skills.no_clock))(src) for _ in range(src.between(1, 3))], ()


def talk_turns(src):
    turns = [smalltalk.turn(src) for _ in range(src.between(1, 4))]
    if src.chance(0.5):
        turns.append(skills.tell(src)[0])
    return turns, None


MIX = [(0.27, world_turns), (0.13, tale_turns), (0.17, list_turns), (0.10, recall_turns), (0.15, sum_turns),
       (0.12, tool_turns), (0.02, no_tool_turns), (0.04, talk_turns)]


def conversation(src):
    """One training conversation: (messages, setup)."""
    roll, chosen = src.random() * sum(weight for weight, _ in MIX), MIX[-1][1]
    for weight, maker in MIX:
        roll -= weight
        if roll < 0:
            chosen = maker
            break
    turns, tools = chosen(src)
    setup = draw_setup(src, tools)
    return messages_of(turns, setup), setup


def encode(messages, setup, tokenizer, everything=False):
    """Conversation -> (ids, mask): targets are what the assistant writes, or every token if `everything`."""
    segments = xtml.render(messages, setup.tools, setup.thinking, setup.effort)
    ids, written = xtml.to_ids(segments, tokenizer)
    return ids, [1] * len(ids) if everything else written


def plain_story(src):
    """A story as plain text, as it stands in a book."""
    return stories.Tale(src).paragraphs
