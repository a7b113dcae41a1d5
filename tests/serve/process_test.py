#!/usr/bin/env python3
"""The serve command as a process: its start, settings, log, signals and end.

    process_test.py BINARY MODEL
"""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BINARY, MODEL = sys.argv[1:3]
TIMEOUT = 120


class Server:
    def __init__(self, *options, environment=None):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.process = subprocess.Popen([BINARY, "serve", MODEL, "--port", "0", "--threads", "1", "--log-format", "json", *options],
                                        stderr=self.log, env={**os.environ, **(environment or {})})
        self.port = int(self.wait_for("ready")["url"].rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def text(self):
        return pathlib.Path(self.log.name).read_text(encoding="utf-8")

    def events(self, name):
        events = [json.loads(line) for line in self.text().splitlines(keepends=True) if line.endswith("\n")]
        return [event for event in events if event["event"] == name]

    def wait_for(self, name, count=1):
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            found = self.events(name)
            if len(found) >= count:
                return found[-1]
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"no event {name!r}: {self.text()}")

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text

    def complete(self, prompt, max_tokens=4, **fields):
        body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, **fields})
        return self.ask("POST", "/v1/completions", body)

    def open_stream(self, tokens):
        """A stream of which the first bytes have come; returns its socket."""
        stream = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT)
        body = json.dumps({"prompt": "Once", "max_tokens": tokens, "stream": True, "ignore_eos": True})
        stream.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        received = b""
        while b"data: " not in received:
            received += stream.recv(4096)
        return stream


def failed_start(*options, environment=None):
    """Status and message of a start that fails."""
    done = subprocess.run([BINARY, "serve", *options], capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, **(environment or {})})
    return done.returncode, done.stderr


class Start(unittest.TestCase):
    def test_tells_settings_with_their_source_and_no_key(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
            config.write('{"max_running": 3, "max_waiting": 7}')
            config.flush()
            with Server("--config", config.name, environment={"BALTORO_SERVE_API_KEY": "top-secret",
                                                              "BALTORO_SERVE_MAX_RUNNING": "2"}) as server:
                told = {event["name"]: (event["value"], event["from"]) for event in server.events("setting")}
                self.assertEqual(told["max-running"], ("2", "BALTORO_SERVE_MAX_RUNNING"))
                self.assertEqual(told["max-waiting"], ("7", config.name))
                self.assertEqual(told["port"], ("0", "command line"))
                self.assertEqual(told["api-key"], ("***", "BALTORO_SERVE_API_KEY"))
                self.assertNotIn("top-secret", server.text())
                self.assertEqual(server.events("defaults")[0]["host"], "127.0.0.1")
                self.assertEqual(server.complete("a")[0], 401)
                status, _ = server.ask("GET", "/v1/models", headers={"Authorization": "Bearer top-secret"})
                self.assertEqual(status, 200)

    def test_fails_with_a_message(self):
        status, message = failed_start()
        self.assertEqual((status, "no model" in message), (2, True), message)
        status, message = failed_start(MODEL, "--host", "example.com")
        self.assertEqual((status, "--host is example.com" in message), (2, True), message)
        status, message = failed_start(MODEL, "--api-key-file", os.devnull)
        self.assertEqual((status, "has no key" in message), (2, True), message)
        status, message = failed_start("/nowhere", "--port", "0")
        self.assertEqual((status, "/nowhere" in message), (3, True), message)
        status, message = failed_start(MODEL, environment={"BALTORO_SERVE_PORTS": "1"})
        self.assertEqual((status, "did you mean BALTORO_SERVE_PORT?" in message), (2, True), message)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            status, message = failed_start(MODEL, "--port", str(taken.getsockname()[1]))
            self.assertEqual((status, "cannot listen" in message), (1, True), message)

    def test_warns_on_a_network_without_keys(self):
        with Server("--host", "0.0.0.0") as server:
            self.assertEqual(len(server.events("warning")), 1)
        with Server() as server:
            self.assertEqual(server.events("warning"), [])


class Log(unittest.TestCase):
    def test_has_ids_and_counts_and_no_text(self):
        with Server() as server:
            status, text = server.ask("POST", "/v1/completions", json.dumps({"prompt": "private words", "max_tokens": 3, "ignore_eos": True}),
                                      {"X-Request-Id": "my-id"})
            self.assertEqual(status, 200, text)
            line = server.wait_for("request")
            self.assertEqual((line["id"], line["path"], line["status"]), ("my-id", "/v1/completions", 200))
            self.assertEqual(line["completion_tokens"], 3)
            self.assertGreater(line["prompt_tokens"], 0)
            self.assertIn("first_token_ms", line)
            self.assertNotIn("private", server.text())

    def test_tells_what_a_request_took_whose_client_went(self):
        with Server() as server:
            server.open_stream(1_000_000).close()
            line = server.wait_for("request")
            self.assertEqual(line["status"], 499)
            self.assertGreater(line["prompt_tokens"], 0)
            self.assertGreater(line["completion_tokens"], 0)
            self.assertIn("reused_tokens", line)

    def test_has_text_where_it_is_asked_to(self):
        with Server("--log-prompts") as server:
            server.complete("private words")
            self.assertIn("private words", server.wait_for("request")["body"])


class Limits(unittest.TestCase):
    def test_bad_input_gets_its_status_and_harms_nothing(self):
        with Server("--header-timeout", "1") as server:
            self.assertEqual(server.ask("POST", "/v1/completions", b"x" * 100_000_000)[0], 413)
            self.assertEqual(server.ask("POST", "/v1/completions", b'{"prompt": "Once')[0], 400)
            self.assertEqual(server.ask("POST", "/v1/completions", b'{"prompt": "\xe2\x82"}')[0], 400)
            self.assertEqual(server.ask("GET", "/../../etc/passwd")[0], 404)
            self.assertEqual(server.ask("GET", "/health", headers={"X": "x" * 20_000})[0], 431)
            slow = socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT)
            slow.sendall(b"GET /health HTTP/1.1\r\nX: ")
            self.assertTrue(slow.recv(100).startswith(b"HTTP/1.1 408"))
            self.assertEqual(server.complete("Once")[0], 200)


class End(unittest.TestCase):
    def test_of_an_idle_server_is_quick(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Server() as server:
                kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT)
                kept.request("GET", "/health")
                kept.getresponse().read()
                start = time.monotonic()
                server.process.send_signal(number)
                self.assertEqual(server.process.wait(TIMEOUT), 0)
                self.assertLess(time.monotonic() - start, 10)
                self.assertTrue(server.events("stopped")[0]["complete"])

    def test_waits_for_answers_and_takes_no_more(self):
        with Server() as server:
            stream = server.open_stream(100)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for("draining")
            end = time.monotonic() + TIMEOUT
            refused = False
            while not refused and time.monotonic() < end:
                try:
                    socket.create_connection(("127.0.0.1", server.port)).close()
                except ConnectionRefusedError:
                    refused = True
            self.assertTrue(refused)
            received = b""
            while piece := stream.recv(65536):
                received += piece
            self.assertTrue(received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), received[-100:])
            self.assertEqual(server.process.wait(TIMEOUT), 0)

    def test_is_bounded(self):
        with Server("--drain-timeout", "1") as server:
            stream = server.open_stream(1_000_000)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(TIMEOUT), 0)
            self.assertFalse(server.events("stopped")[0]["complete"])
            self.assertEqual(server.events("request")[0]["status"], 499)
            stream.close()

    def test_comes_at_once_with_a_second_signal(self):
        with Server() as server:
            stream = server.open_stream(1_000_000)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for("draining")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(TIMEOUT), 128 + signal.SIGTERM)
            stream.close()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], warnings="ignore")
