import assert from 'node:assert/strict';
import test from 'node:test';

import {TurnStream} from '../../../../src/serve/page/turn_stream.js';

const delta = (fields, finish = null) =>
    ({choices: [{index: 0, delta: fields, finish_reason: finish}]});

test('an answer with thoughts', () => {
  const stream = new TurnStream(1000);
  stream.apply(delta({role: 'assistant', content: ''}), 1050);
  assert.equal(stream.thinking, false);
  assert.equal(stream.waitingMs(1100), 100);
  stream.apply(delta({reasoning_content: 'a'}), 1200);
  assert.equal(stream.thinking, true);
  assert.equal(stream.waitingMs(1250), null);
  stream.apply(delta({reasoning_content: 'b'}), 1400);
  assert.equal(stream.stats(1500).thinkingMs, 300);
  stream.apply(delta({content: 'c'}), 1700);
  assert.equal(stream.thinking, false);
  stream.apply(delta({content: 'd'}), 2200);
  stream.apply(delta({}, 'stop'), 2210);
  assert.deepEqual(
      [stream.turn.reasoning_content, stream.turn.content, stream.turn.finish_reason],
      ['ab', 'cd', 'stop']);
  assert.deepEqual(stream.stats(9999), {
    exact: false,
    tokens: 4,
    tokensPerSecond: 3,
    firstTokenMs: 200,
    thinkingMs: 500,
    promptTokens: null,
    reusedTokens: null,
  });
});

test('the usage of the server corrects the count', () => {
  const stream = new TurnStream(0);
  stream.apply(delta({content: 'two tokens'}), 100);
  stream.apply(delta({content: ' and more'}, 'length'), 1100);
  stream.apply(
      {
        choices: [],
        usage: {prompt_tokens: 50, completion_tokens: 9, prompt_tokens_details: {cached_tokens: 40}}
      },
      1101);
  assert.deepEqual(stream.stats(2000), {
    exact: true,
    tokens: 9,
    tokensPerSecond: 8,
    firstTokenMs: 100,
    thinkingMs: null,
    promptTokens: 50,
    reusedTokens: 40,
  });
  assert.equal(stream.turn.finish_reason, 'length');
});

test('calls arrive in pieces, side by side', () => {
  const stream = new TurnStream(0);
  stream.apply(
      delta({
        tool_calls:
            [{index: 0, id: 'a', type: 'function', function: {name: 'calculator', arguments: ''}}]
      }),
      1);
  stream.apply(
      delta({
        tool_calls: [
          {index: 0, function: {arguments: '{"x"'}}, {index: 1, id: 'b', function: {name: 'clock'}}
        ]
      }),
      2);
  stream.apply(delta({tool_calls: [{index: 0, function: {arguments: ':1}'}}]}), 3);
  stream.apply(delta({}, 'tool_calls'), 4);
  assert.deepEqual(stream.turn.tool_calls, [
    {id: 'a', type: 'function', function: {name: 'calculator', arguments: '{"x":1}'}},
    {id: 'b', type: 'function', function: {name: 'clock', arguments: ''}},
  ]);
});

test('a cut keeps the text and drops half a call', () => {
  const stream = new TurnStream(0);
  stream.apply(delta({reasoning_content: 'so'}), 10);
  stream.apply(
      delta({tool_calls: [{index: 0, id: 'a', function: {name: 'calculator', arguments: '{"e'}}]}),
      20);
  stream.cut('stopped', 500);
  assert.deepEqual(stream.turn.tool_calls, []);
  assert.equal(stream.turn.reasoning_content, 'so');
  assert.equal(stream.turn.finish_reason, 'stopped');
  assert.equal(stream.turn.stats.thinkingMs, 10);
});

test('a cut while it thinks ends the thought', () => {
  const stream = new TurnStream(0);
  stream.apply(delta({reasoning_content: 'so'}), 10);
  stream.cut('stopped', 500);
  assert.equal(stream.turn.stats.thinkingMs, 490);
  assert.equal(stream.thinking, false);
});

test('nothing but an empty answer divides by nothing', () => {
  const stream = new TurnStream(0);
  stream.apply(delta({}, 'stop'), 5);
  assert.deepEqual(stream.stats(5), {
    exact: false,
    tokens: 0,
    tokensPerSecond: null,
    firstTokenMs: null,
    thinkingMs: null,
    promptTokens: null,
    reusedTokens: null,
  });
});
