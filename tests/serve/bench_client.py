#!/usr/bin/env python3
"""Measures any server with OpenAI's /v1/completions: tokens a second, time to the first token, time between tokens.

    bench_client.py URL [--streams 16] [--requests 64] [--prompt-tokens 64] [--tokens 128] [--vocab 16000]
    bench_client.py URL --turns [--prompt-tokens 4000] [--tokens 32] [--rounds 3]

Prompts are token ids, so that no tokenizer takes part; they differ from each other from their first token on, so that no server
can go on from another's state. By default, --streams clients share --requests requests, each as soon as it has an answer; all answers
have the same length. With --turns, one client alone: a prompt that the server has not seen, then, as the second turn of a chat, that prompt with
32 more tokens. One line of JSON is written, times in seconds:

    tokens_per_second   all generated tokens over the time from the first request to the last answer
    ttft                median and p99 of the time from a request to its first piece
    gap                 median and p99 of the time between two pieces of an answer; a piece is a token, unless the server
                        keeps one back whose bytes are no whole character
    cold, second        with --turns: times to the first piece, one a round

Standard library only.
"""
import argparse
import asyncio
import json
import statistics
import sys
import time
import urllib.parse

NEWS = 32  # tokens that a second turn adds


def ids(count, salt, vocab):
    """Token ids that look random, and of which two salts share no beginning. The low quarter of the vocabulary, where no
    special tokens are."""
    out, state = [], 2654435761 * (salt + 1) % 2**32
    for _ in range(count):
        state = (1664525 * state + 1013904223) % 2**32
        out.append(256 + (state >> 8) % (vocab // 4))
    return out


class Answer:
    """What one streamed completion gave, and when."""

    def __init__(self):
        self.start = time.monotonic()
        self.times = []
        self.tokens = 0


async def complete(options, prompt):
    """One request on a connection of its own. Raises RuntimeError where the answer is not whole."""
    url = options.url
    answer = Answer()
    reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=1 << 20)
    body = json.dumps({"prompt": prompt, "max_tokens": options.tokens, "temperature": 1, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "seed": 1,
                       "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}).encode()
    writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    if head.split()[1] != "200":
        raise RuntimeError(f"status {head.split()[1]}: {(await reader.read(1000)).decode(errors='replace')}")
    done = False
    while line := await reader.readline():
        if not line.startswith(b"data: "):
            continue
        if line.startswith(b"data: [DONE]"):
            done = True
            break
        message = json.loads(line[6:])
        if "error" in message:
            raise RuntimeError(message["error"])
        if message.get("usage"):
            answer.tokens = message["usage"]["completion_tokens"]
        if any(choice.get("text") for choice in message.get("choices", [])):
            answer.times.append(time.monotonic())
    writer.close()
    if not done or answer.tokens != options.tokens:
        raise RuntimeError(f"an answer of {answer.tokens} tokens where {options.tokens} were asked for, done: {done}")
    return answer


def spread(values):
    values = sorted(values)
    return {"median": statistics.median(values), "p99": values[min(len(values) - 1, int(0.99 * len(values)))]}


async def throughput(options):
    numbers = iter(range(options.requests))
    answers = []

    async def client():
        for number in numbers:
            answers.append(await complete(options, ids(options.prompt_tokens, options.salt + number, options.vocab)))

    start = time.monotonic()
    await asyncio.gather(*(client() for _ in range(options.streams)))
    seconds = time.monotonic() - start
    return {"streams": options.streams, "requests": len(answers), "prompt_tokens": options.prompt_tokens,
            "tokens": sum(answer.tokens for answer in answers), "seconds": seconds,
            "tokens_per_second": sum(answer.tokens for answer in answers) / seconds,
            "ttft": spread([answer.times[0] - answer.start for answer in answers]),
            "gap": spread([b - a for answer in answers for a, b in zip(answer.times, answer.times[1:])])}


async def turns(options):
    cold, second = [], []
    for number in range(options.rounds):
        prompt = ids(options.prompt_tokens, options.salt + number, options.vocab)
        first = await complete(options, prompt)
        cold.append(first.times[0] - first.start)
        # Servers tell texts, not ids: the answer is left out.
        again = await complete(options, prompt + ids(NEWS, 7919 + options.salt + number, options.vocab))
        second.append(again.times[0] - again.start)
    return {"prompt_tokens": options.prompt_tokens, "cold": cold, "second": second,
            "ratio": statistics.median(cold) / statistics.median(second)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url", type=urllib.parse.urlparse)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--prompt-tokens", type=int, default=None)
    parser.add_argument("--tokens", type=int, default=None)
    parser.add_argument("--vocab", type=int, default=16000)
    parser.add_argument("--salt", type=int, default=0, help="another number, other prompts")
    parser.add_argument("--turns", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.prompt_tokens = options.prompt_tokens or (4000 if options.turns else 64)
    options.tokens = options.tokens or (32 if options.turns else 128)
    print(json.dumps(asyncio.run((turns if options.turns else throughput)(options))))


if __name__ == "__main__":
    sys.exit(main())
