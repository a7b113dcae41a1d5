import assert from 'node:assert/strict';
import test from 'node:test';

import {dayGroup, duration, statsParts} from '../../../../src/serve/page/format.js';
import {fieldError, kDefaults, requestFields} from '../../../../src/serve/page/settings.js';

test('an empty field sends nothing, a wrong one neither', () => {
  assert.deepEqual(requestFields(kDefaults, ['tool']), {});
  const set = {
    ...kDefaults,
    temperature: '0',
    top_p: '0.9',
    min_p: '1.5',
    max_tokens: '12.5',
    seed: ' 7 ',
    reasoning_effort: 'low',
    calculator: true
  };
  assert.deepEqual(
      requestFields(set, ['tool']),
      {temperature: 0, top_p: 0.9, seed: 7, reasoning_effort: 'low', tools: ['tool']});
});

test('a wrong field is told what it takes', () => {
  assert.equal(fieldError('temperature', ''), null);
  assert.equal(fieldError('temperature', '1.2'), null);
  assert.equal(fieldError('temperature', '3'), 'Temperature is a number from 0 to 2');
  assert.equal(fieldError('top_p', 'much'), 'Top p is a number above 0, at most 1');
  assert.equal(fieldError('top_p', '0'), 'Top p is a number above 0, at most 1');
  assert.equal(fieldError('min_p', '0'), null);
  assert.equal(fieldError('min_p', 'Infinity'), 'Min p is a number from 0 to 1');
  assert.equal(fieldError('seed', '1.5'), 'Seed is a whole number, 0 or more');
  assert.equal(fieldError('max_tokens', '0'), 'Max tokens is a whole number, 1 or more');
});

test('durations and measures', () => {
  assert.deepEqual(
      [0, 345, 996, 1240, 9960, 59600, 61000].map(duration),
      ['0.00 s', '0.34 s', '1.0 s', '1.2 s', '10 s', '1 min 0 s', '1 min 1 s']);
  assert.deepEqual(
      statsParts({
        exact: true,
        tokens: 1234,
        tokensPerSecond: 8.04,
        firstTokenMs: 210,
        promptTokens: 1260,
        reusedTokens: 1204
      }),
      [
        '8.0 tokens/s', 'first token 0.21 s', '1,234 tokens', '1,204 of 1,260 prompt tokens reused'
      ]);
  assert.deepEqual(
      statsParts({
        exact: false,
        tokens: 1,
        tokensPerSecond: null,
        firstTokenMs: null,
        promptTokens: null,
        reusedTokens: null
      }),
      ['≈ 1 token']);
});

test('days', () => {
  const now = new Date(2026, 5, 10, 12).getTime();
  const at = (day, hour) => dayGroup(new Date(2026, 5, day, hour).getTime(), now);
  assert.deepEqual(
      [at(10, 0), at(9, 23), at(9, 0), at(8, 23), at(4, 1), at(3, 23)],
      ['Today', 'Yesterday', 'Yesterday', 'This week', 'This week', 'Earlier']);
});
