#!/usr/bin/env python3
"""Load on a real server: many streams, idle connections, clients that vanish or do not read, and SIGTERM.

    load_test.py BINARY MODEL [--seconds 10] [--streams 64] [--answers-only]

The server has one core and one thread, the client the other core. Fails where a request fails, clients that vanish keep
their place, SIGTERM loses a request, or, unless --answers-only, in each of three attempts: memory grows, the 99th percentile of
the time between pieces of an answer is more than 5 times the median, or all streams together are not --speedup times as fast as one.
"""
import argparse
import asyncio
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TIMEOUT = 300  # of any single wait
PROMPTS = ("Once upon a time", "The king said", "In the forest there was", "Tell me of the sea.", "A girl had a red ball.")


class Server:
    """The process under test; its log goes to a file."""

    def __init__(self, binary, model, options=()):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        command = [binary, "serve", model, "--port", "0", "--log-format", "json", "--threads", "1", *options]
        cores = sorted(os.sched_getaffinity(0))
        self.process = subprocess.Popen(command, stderr=self.log, preexec_fn=lambda: os.sched_setaffinity(0, cores[:1]))
        if len(cores) > 1:
            os.sched_setaffinity(0, cores[1:])
        self.port = int(self.wait_for("ready")["url"].rsplit(":", 1)[1])

    def events(self):
        with open(self.log.name, encoding="utf-8") as log:
            for line in log:
                if line.startswith("{") and line.endswith("\n"):
                    yield json.loads(line)

    def wait_for(self, name):
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            for event in self.events():
                if event["event"] == name:
                    return event
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit(f"no event {name!r}; the log ends: {open(self.log.name).read()[-2000:]}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT)


class Answer:
    """One streamed completion, with the times at which its pieces came."""

    def __init__(self):
        self.times = []
        self.usage = None
        self.finish = None
        self.done = False
        self.error = None
        self.text = ""

    def take(self, data):
        if data == "[DONE]":
            self.done = True
            return
        message = json.loads(data)
        if "error" in message:
            self.error = message["error"]
            return
        self.usage = message.get("usage") or self.usage
        for choice in message["choices"]:
            self.finish = choice["finish_reason"] or self.finish
            if choice["text"]:
                self.times.append(time.monotonic())
                self.text += choice["text"]

    @property
    def complete(self):
        return self.done and self.finish is not None and self.error is None


async def open_request(port, number, tokens):
    """Sends a request and reads the header of its answer; returns (reader, writer, status)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    body = json.dumps({"prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": tokens, "seed": number, "temperature": 1,
                       "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}})
    writer.write((f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}").encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    return reader, writer, int(head.split()[1])


async def read_answer(reader, answer, until=None):
    """Reads events, up to the end or to a number of pieces."""
    while until is None or len(answer.times) < until:
        line = await reader.readline()
        if not line:
            break
        if line.startswith(b"data: "):
            answer.take(line[6:].decode().strip())


async def complete(port, number, tokens):
    answer = Answer()
    try:
        reader, writer, status = await open_request(port, number, tokens)
        if status != 200:
            answer.error = f"status {status}: {(await reader.read(2000)).decode(errors='replace')}"
        else:
            await read_answer(reader, answer)
        writer.close()
    except (OSError, asyncio.IncompleteReadError) as error:
        answer.error = repr(error)
    return answer


async def metrics(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    return {name: float(value) for name, value in re.findall(r"^([a-z_]+) ([0-9.e+]+)\r?$", text, re.M)}


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class Load:
    """`streams` clients, each with one request after the other; run() may be called several times and adds up."""

    def __init__(self, port, streams):
        self.port, self.streams = port, streams
        self.answers, self.gaps, self.resident = [], [], []
        self.sent, self.tokens, self.seconds = 0, 0, 0

    async def client(self, end):
        while time.monotonic() < end:
            self.sent += 1
            answer = await complete(self.port, self.sent, 32 + 37 * self.sent % 128)  # so that they do not end together
            self.answers.append(answer)
            self.gaps += [b - a for a, b in zip(answer.times, answer.times[1:])]

    async def watch(self, start, end):
        """Counts tokens while all clients are busy, and looks at the memory."""
        before = (await metrics(self.port))["baltoro_generated_tokens_total"]
        while time.monotonic() < end:
            await asyncio.sleep(min(1, end - time.monotonic()))
            now = await metrics(self.port)
            self.resident.append(now["process_resident_memory_bytes"])
        self.tokens += now["baltoro_generated_tokens_total"] - before
        self.seconds += time.monotonic() - start

    async def run(self, seconds):
        start = time.monotonic()
        end = start + seconds
        await asyncio.gather(self.watch(start, end), *(self.client(end) for _ in range(self.streams)))
        for answer in self.answers:
            if not answer.complete:
                raise SystemExit(f"FAILED: an answer of {self.streams} streams ended with {answer.error or 'no end'}")

    @property
    def tokens_per_second(self):
        return self.tokens / self.seconds

    def describe(self):
        median, p99 = statistics.median(self.gaps), quantile(self.gaps, 0.99)
        return (f"{self.streams:3d} streams: {len(self.answers)} answers, {self.tokens_per_second:.0f} tokens/s; between pieces "
                f"median {1e3 * median:.2f} ms, p99 {1e3 * p99:.2f} ms ({p99 / median:.1f}x), most {1e3 * max(self.gaps):.1f} ms; "
                f"resident {min(self.resident) / 2**20:.0f} to {max(self.resident) / 2**20:.0f} MiB")


async def idle_connections(port, number):
    """Connections that are kept; every other one has had an answer."""
    kept = []
    for i in range(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if i % 2:
            writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"}")
        kept.append((reader, writer))
    return kept


async def check_idle(kept):
    for reader, writer in kept:
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = await asyncio.wait_for(reader.readuntil(b"}"), TIMEOUT)
        if b" 200 " not in answer:
            raise SystemExit(f"FAILED: an idle connection was answered {answer!r}")
        writer.close()


async def vanish(port, number):
    """Seconds until the places of clients that vanish are free."""
    answers = [Answer() for _ in range(number)]
    opened = [await open_request(port, i, 100_000) for i in range(number)]
    for (reader, _, _), answer in zip(opened, answers):
        await read_answer(reader, answer, until=3)
    step = (await metrics(port))
    start = time.monotonic()
    for _, writer, _ in opened:
        writer.transport.abort()
    while True:
        now = await metrics(port)
        if now["baltoro_choices_running"] == 0:
            return time.monotonic() - start, now["baltoro_steps_total"] - step["baltoro_steps_total"]
        if time.monotonic() - start > TIMEOUT:
            raise SystemExit(f"FAILED: {now['baltoro_choices_running']} choices of vanished clients still run")
        await asyncio.sleep(0.001)


async def terminate(server, number):
    """SIGTERM while requests run and wait: each must end as if nothing had happened."""
    tasks = [asyncio.create_task(complete(server.port, i, 96)) for i in range(number)]
    while (await metrics(server.port))["baltoro_http_requests_in_flight"] < number + 1:
        if all(task.done() for task in tasks):
            raise SystemExit("FAILED: the requests were answered before the signal; give them more tokens")
        await asyncio.sleep(0.002)
    server.process.send_signal(signal.SIGTERM)
    answers = await asyncio.gather(*tasks)
    bad = [answer.error or "no end" for answer in answers if not answer.complete or answer.usage["completion_tokens"] != 96]
    if bad:
        raise SystemExit(f"FAILED: SIGTERM lost {len(bad)} of {number} requests: {bad[0]}")
    status = server.process.wait(TIMEOUT)
    stopped = [event for event in server.events() if event["event"] == "stopped"]
    if status != 0 or not stopped or not stopped[0]["complete"]:
        raise SystemExit(f"FAILED: the server ended with status {status}, {stopped}")
    return len(answers)


async def timing(server, options):
    """One attempt; returns what it missed. One stream and many take turns, since machines change their speed."""
    idle = await idle_connections(server.port, 1000)
    slow = await open_request(server.port, 0, 2_000)  # never read again
    one, many = Load(server.port, 1), Load(server.port, options.streams)
    rounds = max(3, round(options.seconds / 60))
    for _ in range(rounds):
        await one.run(min(5, options.seconds / rounds / 4))
        await many.run(options.seconds / rounds)
    speedup = many.tokens_per_second / one.tokens_per_second
    print(one.describe())
    print(f"{many.describe()}; {speedup:.2f} times one stream; beside 1,000 idle connections and a slow reader", flush=True)
    await check_idle(idle)
    slow[1].transport.abort()
    missed = []
    late = many.resident[len(many.resident) // 3:]
    if max(late) > 1.05 * late[0] + (8 << 20):
        missed.append(f"memory grew from {late[0] / 2**20:.0f} to {max(late) / 2**20:.0f} MiB")
    if quantile(many.gaps, 0.99) > 5 * statistics.median(many.gaps):
        missed.append("the 99th percentile between pieces is more than 5 times the median")
    if speedup < options.speedup:
        missed.append(f"only {speedup:.2f} times the throughput of one stream")
    return missed


async def run(options):
    server = Server(options.binary, options.model, ["--max-running", str(options.streams + 1), "--prefix-memory", "32MiB",
                                                    "--idle-timeout", "7200", "--drain-timeout", "600"])
    try:
        await Load(server.port, options.streams).run(3)  # until memory has been touched
        for attempt in range(3):
            missed = await timing(server, options)
            if not missed or options.answers_only:
                break
            print(f"attempt {attempt + 1}: {'; '.join(missed)}", flush=True)
        else:
            raise SystemExit("FAILED: three attempts")
        seconds, steps = await vanish(server.port, 8)
        print(f"8 clients vanished: their places were free after {1e3 * seconds:.1f} ms, {steps:.0f} steps", flush=True)
        print(f"SIGTERM: {await terminate(server, 2 * options.streams)} requests that ran or waited were answered", flush=True)
    finally:
        server.process.kill()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--speedup", type=float, default=3, help="of all streams over one")
    parser.add_argument("--answers-only", action="store_true")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(run(options))


if __name__ == "__main__":
    sys.exit(main())
