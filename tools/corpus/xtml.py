"""The K3 chat format (XTML): conversations -> segments -> token ids.

Written from the format's description alone, apart from the C++ renderer, so that the two check each other. A segment is
(text, control, written): control segments are special ids, all others are encoded one by one as plain text; `written`
marks what the assistant itself produces (everything after the generation prefix of its message).
"""

import json

import bpe

OPEN, CLOSE, SEP, END = "<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"
TOOLS_HEAD = "# Tools\nHere are the available tools, described in JSONSchema.\n\n"
NEW_TOOLS_HEAD = ("## New Tools Available\nThe system dynamically extends the toolset via lazy-loading.\n"
                  "You have access to all existing and extended tools.\n"
                  "Here are the specs for the extended tools.\n\n")
EFFORT_BODY = ("`thinking_effort` guides on how much to think in your thinking channel (not including the response "
               "channel), supported values include `low`, `medium`, `high`, and `max`.\n"
               "Now the system is invoked with `thinking_effort={}`.")
EFFORTS = ("low", "high", "max")
CHOICE_BODY = {"required": "The system is invoked with `tool_choice=required`.\n"
                           "You MUST call tools in the next message.",
               "none": "The system is invoked with `tool_choice=none`.\n"
                       "You MUST NOT call any tools in the next message."}
FORMAT_BODY = ("The system is invoked with `response_format={}`.\nYour response must be raw JSON data without markdown "
               "code blocks (```json) or any additional formatting.")
SPACE = " \t\n\r"


def compact(value):
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def fenced(value):
    return "```json\n" + compact(value) + "\n```"


class Renderer:
    def __init__(self):
        self.segments = []
        self.written = False

    def control(self, marker):
        self.segments.append((marker, True, self.written))

    def text(self, text):
        if text:
            self.segments.append((text, False, self.written))

    def open(self, tag, attributes=()):
        self.control(OPEN)
        self.text(tag)
        for key, value in attributes:
            self.text(" " + key)
            self.text('="')
            self.text(value.replace("&", "&amp;").replace('"', "&quot;"))
            self.text('"')
        self.control(SEP)

    def close(self, tag):
        self.control(CLOSE)
        self.text(tag)
        self.control(SEP)

    def system(self, kind, body):
        self.open("message", [("role", "system"), ("type", kind)])
        self.text(body)
        self.end_message()

    def end_message(self):
        self.close("message")
        self.control(END)
        self.written = False

    def content(self, content):
        parts = [content] if isinstance(content, str) else [p["text"] for p in content or []]
        for part in parts:
            self.text(part)

    def user(self, message):
        if message["role"] == "system" and message.get("tools"):
            return self.system("tool-declare", NEW_TOOLS_HEAD + fenced(message["tools"]))
        name = [("name", message["name"])] if message.get("name") else []
        self.open("message", [("role", message["role"]), *name])
        self.content(message.get("content"))
        self.end_message()

    def assistant(self, message, thinking):
        name = [("name", message["name"])] if message.get("name") else []
        self.open("message", [("role", "assistant"), *name])
        first = "think" if thinking else "response"
        self.open(first)
        self.written = True
        if thinking:
            reasoning = message.get("reasoning_content")
            self.text(message.get("reasoning") or "" if reasoning is None else reasoning)
            self.close("think")
            self.open("response")
        self.content(message.get("content"))
        self.close("response")
        if message.get("tool_calls"):
            self.calls(message["tool_calls"])
        self.end_message()

    def calls(self, calls):
        self.open("tools")
        for index, call in enumerate(calls, 1):
            call = call.get("function", call)
            self.open("call", [("tool", call["name"]), ("index", str(index))])
            self.arguments(call.get("arguments"))
            self.close("call")
        self.close("tools")

    def arguments(self, arguments):
        if isinstance(arguments, dict):
            items = [(k, v, json.dumps(v, ensure_ascii=False)) for k, v in arguments.items()]
        elif arguments:
            items = parse_arguments(arguments)
        else:
            items = []
        if items is None:
            self.open("json", [("type", "object")])
            self.text(arguments)
            return self.close("json")
        for key, value, source in items:
            self.open("argument", [("key", key), ("type", json_type(value))])
            self.text(value if isinstance(value, str) else source)
            self.close("argument")

    def tool(self, message, name, index):
        self.open("message", [("role", "tool"), ("tool", name), ("index", str(index))])
        self.content(message.get("content"))
        self.end_message()


def json_type(value):
    kinds = [(str, "string"), (bool, "boolean"), ((int, float), "number"), (type(None), "null"), (dict, "object")]
    return next((name for kind, name in kinds if isinstance(value, kind)), "array")


def parse_arguments(text):
    """`{"key": value, ...}` -> [(key, value, source text of value)], or None if it is no such object.

    What follows the closing brace is not looked at; equal keys each give an entry; raw control characters are allowed.
    """
    def refuse(constant):
        raise ValueError(f"{constant} is no JSON")

    decoder = json.JSONDecoder(strict=False, parse_constant=refuse)

    def skip(i):
        while i < len(text) and text[i] in SPACE:
            i += 1
        return i

    def value_at(i):
        value, end = decoder.raw_decode(text, i)
        return value, end

    items = []
    try:
        i = skip(0)
        if text[i] != "{":
            return None
        i = skip(i + 1)
        if text[i] == "}":
            return items
        while True:
            key, i = value_at(i)
            if not isinstance(key, str):
                return None
            i = skip(i)
            if text[i] != ":":
                return None
            start = skip(i + 1)
            value, i = value_at(start)
            items.append((key, value, text[start:i]))
            i = skip(i)
            if text[i] == "}":
                return items
            if text[i] != ",":
                return None
            i = skip(i + 1)
    except (ValueError, IndexError):
        return None


def order_results(run, calls):
    """A run of tool messages -> [(message, matched call or None)], in call order if every one of them matches."""
    first = {}
    for position, call in enumerate(calls):
        if call.get("id"):
            first.setdefault(call["id"], position)
    positions = [first.get(m.get("tool_call_id") or m.get("id")) for m in run]
    if any(p is None for p in positions):
        return [(m, None) for m in run]
    pairs = sorted(zip(positions, run), key=lambda pair: pair[0])
    return [(m, calls[p]) for p, m in pairs]


def result_name(message, call, calls, index):
    if call is not None:
        return call.get("function", call)["name"]
    for key in ("tool", "name"):
        if message.get(key) is not None:
            return message[key]
    if index <= len(calls):
        call = calls[index - 1]
        return call.get("function", call)["name"]
    raise ValueError(f"tool message {index}: no name and no call in that position")


def response_format(renderer, spec):
    kind = spec.get("type")
    if kind == "json_object":
        renderer.system("response-format", FORMAT_BODY.format(kind))
    elif kind == "json_schema":
        schema = spec["json_schema"]
        schema = schema.get("schema", schema.get("json_schema", schema))
        renderer.system("response-format", FORMAT_BODY.format(kind) +
                        "\nThe JSON data must match the following schema:\n" + fenced(schema))


def render_messages(renderer, messages, thinking):
    calls, index, i = [], 0, 0
    while i < len(messages):
        message = messages[i]
        role = message["role"]
        if role != "tool":
            i += 1
            if role == "assistant":
                renderer.assistant(message, thinking)
                calls, index = message.get("tool_calls") or [], 0
            elif role in ("user", "system"):
                renderer.user(message)
            else:
                raise ValueError(f"unknown role {role!r}")
            continue
        run = []
        while i < len(messages) and messages[i]["role"] == "tool":
            run.append(messages[i])
            i += 1
        for result, call in order_results(run, calls):
            index += 1
            renderer.tool(result, result_name(result, call, calls, index), index)


def render(messages, tools=None, thinking=True, effort="max", generate=False, tool_choice=None, format_spec=None):
    """A conversation -> segments. `generate` adds the prefix that the assistant continues."""
    renderer = Renderer()
    if tools:
        renderer.system("tool-declare", TOOLS_HEAD + fenced(tools))
    if thinking and effort is not None:
        if effort not in EFFORTS:
            raise ValueError(f"thinking effort {effort!r} is not one of {EFFORTS}")
        renderer.system("thinking-effort", EFFORT_BODY.format(effort))
    render_messages(renderer, messages, thinking)
    if tool_choice in CHOICE_BODY:
        renderer.system("tool-choice", CHOICE_BODY[tool_choice])
    if format_spec:
        response_format(renderer, format_spec)
    if generate:
        renderer.open("message", [("role", "assistant")])
        renderer.open("think" if thinking else "response")
    return renderer.segments


def to_ids(segments, tokenizer):
    """Segments -> (ids, written flag of each id). Segments recur (tool declarations, tag names), so they are kept."""
    ids, written = [], []
    for text, control, by_assistant in segments:
        key = (text, control)
        part = tokenizer.segments.get(key)
        if part is None:
            part = [tokenizer.special[text]] if control else tokenizer.encode(text)
            if len(tokenizer.segments) < bpe.CACHE_SEGMENTS:
                tokenizer.segments[key] = part
        ids += part
        written += [int(by_assistant)] * len(part)
    return ids, written
