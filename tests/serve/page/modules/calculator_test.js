import assert from 'node:assert/strict';
import test from 'node:test';

import {evaluate} from '../../../../src/serve/page/calculator.js';
import {toolResult} from '../../../../src/serve/page/tools.js';

test('values', () => {
  const cases = {
    '17 * 23': '391',
    '1 + 2 * 3': '7',
    '(1 + 2) * 3': '9',
    '7 - 4 - 2': '1',
    '12 / 4 / 3': '1',
    ' 6 / 4 ': '1.5',
    '1/3': '1/3',
    '2/6 + 1/6': '0.5',
    '-3 + 1': '-2',
    '--3': '3',
    '-(2 - 5)': '3',
    '2 * -3': '-6',
    '0.1 + 0.2': '0.3',
    '.5 + 1.': '1.5',
    '1/8': '0.125',
    '-1/8': '-0.125',
    '1/40': '0.025',
    '0 / 7': '0',
    '-0': '0',
    '7 × 6 ÷ 2 − 1': '20',
    '007': '7',
    '123456789 * 987654321 * 1000000007': '121932631966163686788446883',
    '1/7': '1/7',
    '-2/3': '-2/3',
    '100.50': '100.5',
  };
  for (const [text, value] of Object.entries(cases)) assert.equal(evaluate(text), value, text);
});

test('what is no expression is refused, with its place', () => {
  const cases = {
    '': 'expected a number at position 1',
    '1 +': 'expected a number at position 4',
    '1 2': 'expected an operator or the end at position 3',
    '(1': 'expected ) at position 3',
    '1)': 'expected an operator or the end at position 2',
    '1 / 0': 'division by zero',
    '1 / (2 - 2)': 'division by zero',
    '2 ^ 3': 'expected an operator or the end',
    'alert(1)': 'expected a number at position 1',
    '1..2': 'expected an operator',
    '.': 'expected a number',
    '1e5': 'expected an operator',
  };
  for (const [text, message] of Object.entries(cases)) {
    assert.throws(() => evaluate(text), (error) => error.message.includes(message), text);
  }
});

test('depth and length are bounded', () => {
  assert.equal(evaluate(`${'('.repeat(63)}1${')'.repeat(63)}`), '1');
  assert.throws(() => evaluate(`${'('.repeat(64)}1${')'.repeat(64)}`), /too many parentheses/);
  assert.throws(() => evaluate('1+'.repeat(1001)), /2002 characters; the limit is 2000/);
});

test('a call is answered, and a wrong one is told why', () => {
  const call = (name, text) => toolResult({id: 'call_1', function: {name, arguments: text}});
  assert.deepEqual(
      call('calculator', '{"expression": "6*7"}'),
      {role: 'tool', tool_call_id: 'call_1', name: 'calculator', content: '42'});
  assert.match(call('calculator', '{"expression"').content, /^error: the arguments are no JSON/);
  assert.match(
      call('calculator', '{"expression": 42}').content,
      /^error: the argument expression must be text/);
  assert.match(call('calculator', 'null').content, /^error: the argument expression/);
  assert.match(call('clock', '{}').content, /^error: there is no tool clock/);
});
