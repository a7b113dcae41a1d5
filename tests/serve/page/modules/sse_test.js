import assert from 'node:assert/strict';
import test from 'node:test';

import {sseEvents, SseParser} from '../../../../src/serve/page/sse.js';

function parse(pieces) {
  const events = [];
  const parser = new SseParser((data) => events.push(data));
  for (const piece of pieces) parser.push(piece);
  return events;
}

const kText =
    ': a comment\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata: lines\n\nid: 7\n\ndata\n\ndata: {"a": "ä€😀"}\r\rdata: cut';
const kEvents = ['one', 'two\nlines', '', '{"a": "ä€😀"}'];

test('a whole text gives its events, and none for what is cut off', () => {
  assert.deepEqual(parse([kText]), kEvents);
});

test('any two pieces, and single characters, give the same events', () => {
  for (let i = 0; i <= kText.length; i++)
    assert.deepEqual(parse([kText.slice(0, i), kText.slice(i)]), kEvents, `cut at ${i}`);
  assert.deepEqual(parse([...kText]), kEvents);
});

test('bytes may be cut inside a character', async () => {
  for (const size of [1, 2, 3, 5, 64]) {
    const bytes = new TextEncoder().encode(kText);
    const stream = new ReadableStream({
      start(controller) {
        for (let i = 0; i < bytes.length; i += size) controller.enqueue(bytes.slice(i, i + size));
        controller.close();
      }
    });
    const events = [];
    for await (const data of sseEvents(stream)) events.push(data);
    assert.deepEqual(events, kEvents, `pieces of ${size}`);
  }
});

test('leaving the loop cancels the stream', async () => {
  let cancelled = false;
  const stream = new ReadableStream({
    pull: (controller) => controller.enqueue(new TextEncoder().encode('data: x\n\n')),
    cancel: () => {
      cancelled = true;
    },
  });
  for await (const data of sseEvents(stream)) {
    assert.equal(data, 'x');
    break;
  }
  assert.ok(cancelled);
});
