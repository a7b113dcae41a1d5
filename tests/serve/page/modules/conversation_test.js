import assert from 'node:assert/strict';
import test from 'node:test';

import {addUserMessage, apiMessages, dropAnswer, editUserMessage, exportedConversation, lastUserIndex, newConversation, titleOf,} from '../../../../src/serve/page/conversation.js';

const kCall = {
  id: 'c1',
  type: 'function',
  function: {name: 'calculator', arguments: '{"expression":"1+1"}'}
};

function sample() {
  const conversation = newConversation('id', 1000);
  addUserMessage(conversation, 'first', 2000);
  conversation.messages.push(
      {
        role: 'assistant',
        content: '',
        reasoning_content: 'hm',
        tool_calls: [kCall],
        finish_reason: 'tool_calls',
        stats: {}
      },
      {role: 'tool', tool_call_id: 'c1', name: 'calculator', content: '2'}, {
        role: 'assistant',
        content: 'two',
        reasoning_content: '',
        tool_calls: [],
        finish_reason: 'stop',
        stats: {}
      });
  addUserMessage(conversation, 'second', 3000);
  conversation.messages.push({
    role: 'assistant',
    content: 'ok',
    reasoning_content: 'mm',
    tool_calls: [],
    finish_reason: 'stop'
  });
  return conversation;
}
const contents = (conversation) => conversation.messages.map((m) => m.content);

test('the first message names a conversation, unless the user has', () => {
  assert.equal(sample().title, 'first');
  const named = Object.assign(newConversation('id', 0), {title: 'mine', named: true});
  addUserMessage(named, 'text', 1);
  assert.equal(named.title, 'mine');
  assert.equal(titleOf('  a  b \n c'), 'a b');
  assert.equal(titleOf(`${'word '.repeat(30)}`), `${'word '.repeat(11)}word…`);
  assert.equal(titleOf('x'.repeat(80)), `${'x'.repeat(60)}…`);
  assert.equal(titleOf(' '), 'New conversation');
});

test('an edit cuts the conversation there', () => {
  const conversation = sample();
  editUserMessage(conversation, 4, 'second, anew', 4000);
  assert.deepEqual(contents(conversation), ['first', '', '2', 'two', 'second, anew']);
  assert.equal(conversation.updatedAt, 4000);
  editUserMessage(conversation, 0, 'first, anew', 5000);
  assert.deepEqual(contents(conversation), ['first, anew']);
  assert.equal(conversation.title, 'first, anew');
  assert.throws(() => editUserMessage(sample(), 1, 'x', 0), /not the user's/);
});

test('an answer is dropped with its tools and with what follows', () => {
  for (const index of [1, 2, 3]) {
    const conversation = sample();
    dropAnswer(conversation, index, 4000);
    assert.deepEqual(contents(conversation), ['first'], `by message ${index}`);
  }
  const conversation = sample();
  dropAnswer(conversation, 5, 4000);
  assert.deepEqual(contents(conversation), ['first', '', '2', 'two', 'second']);
  assert.equal(lastUserIndex(conversation), 4);
});

test('a request holds thoughts and calls of earlier answers, and nothing of the page', () => {
  assert.deepEqual(apiMessages(sample(), 'be kind'), [
    {role: 'system', content: 'be kind'},
    {role: 'user', content: 'first'},
    {role: 'assistant', content: '', reasoning_content: 'hm', tool_calls: [kCall]},
    {role: 'tool', tool_call_id: 'c1', name: 'calculator', content: '2'},
    {role: 'assistant', content: 'two'},
    {role: 'user', content: 'second'},
    {role: 'assistant', content: 'ok', reasoning_content: 'mm'},
  ]);
});

test('a failed answer without a word is not sent', () => {
  const conversation = newConversation('id', 0);
  addUserMessage(conversation, 'a', 1);
  conversation.messages.push({
    role: 'assistant',
    content: '',
    reasoning_content: '',
    tool_calls: [],
    error: {status: 429}
  });
  assert.deepEqual(apiMessages(conversation, ' '), [{role: 'user', content: 'a'}]);
});

test('an exported file can be sent as a request', () => {
  const exported = exportedConversation(sample(), '');
  assert.deepEqual(exported.messages, apiMessages(sample()));
  assert.equal(exported.created, '1970-01-01T00:00:01.000Z');
  assert.equal(exported.title, 'first');
});
