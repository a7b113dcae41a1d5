#!/usr/bin/env python3
"""The chat command as a process: its commands, files, and the conversation with a server.

    chat_test.py BINARY MODEL
"""
import http.server
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BINARY, MODEL = sys.argv[1:3]
TIMEOUT = 120
SUM = "What is 12 * 34?"
CALL = {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "calculator", "arguments": ""}}]}}]}


class Answer:
    """What a run of the program gave."""

    def __init__(self, done):
        self.status, self.err = done.returncode, done.stderr
        self.out = done.stdout

    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


def chat(*lines, options=(), where=(MODEL, "--threads", "1"), greedy=True):
    """Runs `baltoro chat` in JSON on some lines."""
    arguments = [BINARY, "chat", *where, "--json", *(("--temperature", "0") if greedy else ()), *options]
    return Answer(subprocess.run(arguments, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=TIMEOUT))


class Chat(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = os.path.join(self.folder.name, "talk.json")

    def write(self, value):
        pathlib.Path(self.file).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")

    def saved(self):
        return json.loads(pathlib.Path(self.file).read_text(encoding="utf-8"))


class Files(Chat):
    def test_a_saved_conversation_is_a_request_and_comes_back(self):
        first = chat("Hello", SUM, f"/save {self.file}", options=("--tools",))
        self.assertEqual(first.status, 0, first.err)
        saved = self.saved()
        roles = [message["role"] for message in saved["messages"]]
        self.assertEqual(roles, ["user", "assistant", "user", "assistant", "tool", "assistant"])
        self.assertEqual(saved["messages"][4]["tool_call_id"], saved["messages"][3]["tool_calls"][0]["id"])
        self.assertEqual(saved["messages"][5]["content"], "12 * 34 = 408.")
        self.assertTrue(saved["thinking"])
        self.assertEqual(os.listdir(self.folder.name), ["talk.json"])
        # The last turn answered anew after loading, tools and all, is the same.
        second = chat(f"/load {self.file}", "/retry", f"/save {self.file}")
        self.assertEqual(second.status, 0, second.err)
        self.assertIn("Loaded 6 messages", second.err)
        again = self.saved()
        for before, after in zip(saved["messages"], again["messages"]):
            self.assertEqual(before, after)
        self.assertEqual(saved["tools"], again["tools"])

    def test_text_of_all_kinds_survives(self):
        messages = [{"role": "system", "content": "Be \"brief\"\n\u2028"},
                    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "\u00e9\U0001f600"}], "name": "Ann"},
                    {"role": "assistant", "content": None, "reasoning_content": "hm\t", "tool_calls": [
                        {"id": "x", "type": "function", "function": {"name": "clock", "arguments": {"place": "Rome", "n": 1e2}}}]},
                    {"role": "tool", "content": "12:00", "tool_call_id": "x"},
                    {"role": "assistant", "content": ""}]
        self.write({"title": "ignored", "messages": messages})
        done = chat(f"/load {self.file}", f"/save {self.file}")
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(self.saved()["messages"], messages)

    def test_a_loaded_system_message_stays(self):
        self.write({"messages": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}], "thinking": False})
        done = chat(f"/load {self.file}", "/reset", f"/save {self.file}")
        self.assertEqual(self.saved(), {"messages": [{"role": "system", "content": "Be brief"}], "thinking": False})
        self.assertIn("/retry answers the last one", done.err)

    def test_a_bad_file_is_refused_and_named_and_changes_nothing(self):
        user = {"role": "user", "content": "Hi"}
        for value, message in ((" [1, ", "line 1, column 6"),
                               ([], "expected an object, found an array"),
                               ({}, "messages: expected an array"),
                               ({"messages": [user, {"content": "Hi"}]}, "messages[1].role: expected a string, found nothing"),
                               ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content: expected"),
                               ({"messages": [user, {"role": "alien", "content": "Hi"}]}, "messages[1].role: expected"),
                               ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
                               ({"messages": [user], "tools": [{"function": {"name": "weather"}}]}, "tools[0].function.name: \"weather\""),
                               ({"messages": [user], "thinking": 7}, "thinking: expected")):
            self.write(value)
            done = chat("Hello", f"/load {self.file}", "/history")
            self.assertEqual(done.status, 1, value)
            self.assertIn(f"{self.file}: {message}", done.err)
            self.assertIn(message, done.lines()[1]["error"])
            self.assertIn("1 you     Hello", done.err)
        for lines, message in ((("/load",), "needs the name"), (("/save",), "needs the name"), (("/load /nowhere/x",), "/nowhere/x: cannot be opened"),
                               ((f"/load {self.folder.name}",), "Is a directory"), (("Hello", "/save /nowhere/x"), "/nowhere/x")):
            done = chat(*lines)
            self.assertEqual((done.status, message in done.err), (1, True), done.err)


class Turns(Chat):
    def test_an_edit_drops_what_came_after_and_answers_anew(self):
        plain = chat(SUM, "What is 17 + 25?", options=("--tools",)).lines()
        done = chat("Hello", "Hello", "Hello", "/edit 2 " + SUM, "/history", "What is 17 + 25?", "/edit 1", SUM, "What is 17 + 25?",
                    options=("--tools",))
        self.assertEqual(done.status, 0, done.err)
        answers = done.lines()
        self.assertEqual(answers[4]["text"], "12 * 34 = 408.")
        self.assertEqual([answer["text"] for answer in answers[-4:]], [answer["text"] for answer in plain])
        history = [line for line in done.err.splitlines() if line[4:7] == "you"]
        self.assertEqual(history, ["  1 you     Hello", "  2 you     " + SUM])

    def test_an_edit_goes_back_to_a_kept_state(self):
        story = "Tell me a story about a fox" + " and a hen and a dog" * 30
        done = chat(story, "Hello", "/edit 2 " + SUM, "/retry")
        first, second, edited, again = (answer["prompt_tokens"] for answer in done.lines())
        self.assertLess(max(second, edited, again), first / 4)

    def test_the_last_turn_is_edited_where_none_is_named(self):
        done = chat("Hello", "/edit " + SUM, "/edit", "", f"/save {self.file}")
        self.assertIn("The turn stays as it is.", done.err)
        self.assertEqual(self.saved()["messages"][0]["content"], SUM)
        self.assertEqual(len(self.saved()["messages"]), 2)

    def test_a_retry_is_another_answer(self):
        done = chat("Tell me a story.", "/retry", "/retry", f"/save {self.file}", options=("--temperature", "1", "--seed", "5"), greedy=False)
        texts = [answer["text"] for answer in done.lines()]
        self.assertEqual(len(set(texts)), 3, texts)
        self.assertEqual([m["content"] for m in self.saved()["messages"]], ["Tell me a story.", texts[2]])

    def test_undo_drops_the_turn(self):
        done = chat("Hello", SUM, "/undo", f"/save {self.file}", "/undo", "/undo", "/retry", "/edit 1", options=("--tools",))
        self.assertEqual([m["content"] for m in self.saved()["messages"]][:1], ["Hello"])
        self.assertEqual(len(self.saved()["messages"]), 2)
        self.assertIn("Dropped: " + SUM, done.err)
        self.assertEqual(done.err.count("There is no turn yet."), 3)
        self.assertIn("There is no turn 9; they are 1 to 1", chat("Hello", "/edit 9 x").err)


class Server:
    def __init__(self, *options):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.process = subprocess.Popen([BINARY, "serve", MODEL, "--port", "0", "--threads", "1", "--log-format", "json", *options], stderr=self.log)
        self.url = self.event("ready")["url"]
        self.where = ("--server", self.url)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def event(self, name, test=lambda event: True):
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end and self.process.poll() is None:
            for line in pathlib.Path(self.log.name).read_text(encoding="utf-8").splitlines(keepends=True):
                event = json.loads(line) if line.endswith("\n") else {"event": None}
                if event["event"] == name and test(event):
                    return event
            time.sleep(0.02)
        raise AssertionError(f"no event {name!r}")


class Fake:
    """A server that answers as a test wants, each (status, headers, body); the last one again and again."""

    def __init__(self, *answers, models=(200, {"Content-Type": "application/json"}, b'{"data": [{"id": "m"}]}')):
        fake = self
        self.bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def reply(self, status, headers, body):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.reply(*models)

            def do_POST(self):
                fake.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.reply(*answers[min(len(fake.bodies), len(answers)) - 1])

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.where = ("--server", f"http://127.0.0.1:{self.server.server_address[1]}")
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def events(*chunks, end="\n\n"):
    """A stream: chunks as JSON, texts as they are, comments as such."""
    lines = [c if isinstance(c, str) else json.dumps(c) for c in chunks]
    return (200, {"Content-Type": "text/event-stream"}, "".join(("" if line[0] == ":" else "data: ") + line + end for line in lines).encode())


class OfAServer(Chat):
    def test_is_as_that_of_a_model(self):
        lines = ("Hello", SUM, "/edit 1 " + SUM, "/think", "Hello", "/tools", "Hello", "/system Be brief", "Hello")
        with Server() as server:
            here = chat(*lines, options=("--tools",))
            there = chat(*lines, options=("--tools",), where=server.where)
            self.assertEqual((here.status, there.status), (0, 0), there.err)
            for mine, yours in zip(here.lines(), there.lines(), strict=True):
                for counts in ("prompt_tokens", "completion_tokens"):
                    mine.pop(counts), yours.pop(counts)
                self.assertEqual(mine, yours)
            sampled = ("--temperature", "0.8", "--top-p", "0.9", "--top-k", "40", "--min-p", "0.01", "--seed", "7", "-n", "20")
            mine, yours = (chat("Tell me a story.", options=sampled, where=where, greedy=False).lines()
                           for where in ((MODEL, "--threads", "1"), server.where))
            self.assertEqual(mine[0]["text"], yours[0]["text"])
            self.assertEqual(mine[0]["finish_reason"], "length")

    def test_reads_only_what_is_new_and_saves_what_can_be_sent(self):
        with Server() as server:
            done = chat("Tell me a story about a fox" + " and a hen" * 50, "Hello", f"/save {self.file}", where=server.where)
            first, second = (answer["prompt_tokens"] for answer in done.lines())
            self.assertLess(second, first / 4)
            other_name = server.url.replace("127.0.0.1", "localhost") + "/v1/"
            again = chat(f"/load {self.file}", "/retry", where=("--server", other_name))
            self.assertEqual(again.lines()[0]["text"], done.lines()[1]["text"])

    def test_takes_its_key_from_a_file(self):
        keys = os.path.join(self.folder.name, "keys")
        pathlib.Path(keys).write_text("# mine\ntop-secret\n", encoding="utf-8")
        with Server("--api-key-file", keys) as server:
            self.assertEqual(chat("Hello", where=server.where, options=("--api-key-file", keys)).status, 0)
            done = chat("Hello", where=server.where)
            self.assertEqual(done.status, 1)
            self.assertIn("answered 401: an API key is needed", done.err)
            self.assertIn("--api-key-file", done.err)
            pathlib.Path(keys).write_text("wrong\n", encoding="utf-8")
            done = chat("Hello", where=server.where, options=("--api-key-file", keys))
            self.assertIn("answered 401: the API key is not one of this server's", done.err)

    def test_ctrl_c_stops_the_answer_here_and_there(self):
        with Server() as server:
            command = [BINARY, "chat", *server.where, "--temperature", "1", "--ignore-stop-ids", "-n", "100000"]
            main, end = pty.openpty()
            process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, start_new_session=True)
            os.close(end)
            shown = b""

            def until(text):
                nonlocal shown
                while text not in shown:
                    shown += os.read(main, 4096)
                begin, shown = shown[:shown.index(text)], shown[shown.index(text) + len(text):]
                return begin

            until(b"> ")
            os.write(main, b"Tell me a story.\n")
            until(b"Tell me a story.\r\n")
            while len(shown) < 20:
                shown += os.read(main, 4096)
            process.send_signal(signal.SIGINT)
            until(b"(stopped)")
            self.assertEqual(server.event("request", lambda e: e["path"].endswith("completions"))["status"], 499)
            until(b"> ")
            os.write(main, b"/history\n")
            self.assertIn(b"model", until(b"> "))
            os.write(main, b"/edit\n")
            self.assertIn(b"Tell me a story.", until(b"edit> "))
            os.write(main, b"/quit\n")  # a text like others
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            until(b"(stopped)")
            os.write(main, b"/quit\n")
            self.assertEqual(process.wait(TIMEOUT), 0)
            os.close(main)

    def test_that_is_no_such_server_is_an_error(self):
        for url, status, message in (("http://127.0.0.1:1", 1, "cannot be reached: Connection refused"),
                                     ("127.0.0.1:8080", 2, "it must be like http://127.0.0.1:8080"),
                                     ("https://127.0.0.1", 2, "TLS is not spoken here"),
                                     ("http://127.0.0.1:0", 2, "its port must be within [1, 65535]"),
                                     ("http://127.0.0.1:99999", 2, "its port must be within [1, 65535]"),
                                     ("http://[::1", 2, "it must be like"), ("http://", 2, "it must be like"),
                                     ("http://a b", 2, "it must be like"), ("http://a@b", 2, "it must be like"),
                                     ("http://no-such-name.invalid", 1, "cannot be reached: ")):
            done = chat("Hello", where=("--server", url))
            self.assertEqual((done.status, message in done.err), (status, True), (url, done.err))
        for options, message in (((MODEL,), "MODEL has no effect with --server"), (("--threads", "1"), "--threads has no effect with --server")):
            done = chat("Hello", where=("--server", "http://127.0.0.1:1"), options=options)
            self.assertEqual((done.status, message in done.err), (2, True), done.err)
        self.assertIn("--api-key-file has no effect with MODEL", chat("Hello", options=("--api-key-file", os.devnull)).err)
        done = Answer(subprocess.run([BINARY, "chat"], capture_output=True, text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL))
        self.assertEqual((done.status, "no model: give MODEL" in done.err), (2, True), done.err)
        page = (200, {"Content-Type": "text/html"}, b"<html>")
        for models, message in ((page, "no list of models"), ((404, {}, b""), "answered 404"), ((200, {}, b'{"data": []}'), "there is no model"),
                                ((200, {}, b'{"data": [{"id": 3}]}'), "data[0].id: expected a string")):
            with Fake(page, models=models) as fake:
                done = chat("Hello", where=fake.where)
                self.assertEqual((done.status, message in done.err), (1, True), done.err)

    def test_that_fails_is_told_and_the_conversation_goes_on(self):
        hello = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}]}
        for answer, message in (((429, {"Retry-After": "7"}, b""), "answered 429; try again in 7 s"),
                                ((429, {}, b'{"error": {"message": "the queue is full"}}'), "answered 429: the queue is full"),
                                ((503, {}, b"<html>busy"), "answered 503"),
                                ((200, {"Content-Type": "application/json"}, b"{}"), "not with a stream of events"),
                                (events(hello), "before it was complete"), (events(hello, "[DONE]"), "before it was complete"),
                                (events(hello, {"error": {"message": "out of luck"}}), "the server failed: out of luck"),
                                (events("{oops"), "not that of a chat completion"),
                                (events({"choices": [{"delta": {"content": 5}}]}), "choices[0].delta.content: expected a string"),
                                ((200, {"Content-Type": "text/event-stream", "Content-Length": "999"}, b"data: "), "broke off the connection")):
            with Fake(answer) as fake:
                done = chat("Hello", "/history", where=fake.where)
                self.assertEqual((done.status, message in done.err), (1, True), done.err)
                self.assertIn("Nothing has been said yet.", done.err)

    def test_that_fails_leaves_the_conversation_as_it_was_before_an_edit(self):
        good = events({"choices": [{"delta": {"content": "Hi!"}, "finish_reason": "stop"}]})
        for command in ("/edit 1 Other", "/retry"):
            with Fake(good, (500, {}, b"")) as fake:
                done = chat("Hello", command, f"/save {self.file}", where=fake.where)
                self.assertEqual(done.status, 1)
                self.assertEqual([m["content"] for m in self.saved()["messages"]], ["Hello", "Hi!"])

    def test_may_write_its_events_in_its_own_way(self):
        def piece(arguments):
            return {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}}]}
        chunks = (": a comment", CALL, piece('{"expression": '), piece('"6 * 7"}'), {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
        with Fake(events(*chunks, end="\r\n\r\n")) as fake:
            done = chat("Go", f"/save {self.file}", options=("--tools", "--stop", "x", "--thinking-effort", "low", "--no-thinking"), where=fake.where)
            self.assertEqual(done.status, 0, done.err)
            self.assertIn("(stopped after 8 rounds of tool calls)", done.err)
            self.assertEqual(done.lines()[0]["tool_calls"], [{"name": "calculator", "arguments": '{"expression": "6 * 7"}'}])
            self.assertEqual(self.saved()["messages"][2]["content"], "42")
            sent = fake.bodies[-1]
            self.assertEqual(sent["messages"][2], {"role": "tool", "content": "42", "tool_call_id": "a", "tool": "calculator"})
            self.assertEqual((sent["model"], sent["stop"], sent["reasoning_effort"], sent["thinking"], sent["stream"]),
                             ("m", ["x"], "low", {"type": "disabled"}, True))
            self.assertEqual([tool["function"]["name"] for tool in sent["tools"]], ["calculator", "clock"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], warnings="ignore")
