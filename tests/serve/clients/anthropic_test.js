// The official client of Anthropic, unmodified, against a running server.
import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import {startServer} from '../server.js';

import {calculate, eventually, kCalculator, kClock, kQuestion, metric} from './story.js';

const kKey = 'sk-test-0123456789abcdef';
const kTools = [kCalculator, kClock].map(
    ({name, description, parameters}) => ({name, description, input_schema: parameters}));
const kThinking = {
  type: 'enabled',
  budget_tokens: 1024
};
const kGreedy = {
  model: 'story',
  max_tokens: 300,
  temperature: 0
};
const asked = [{role: 'user', content: kQuestion}];

let server;
let client;
before(async () => {
  server = await startServer(['--api-key', kKey]);
  client = new Anthropic({baseURL: server.url, apiKey: kKey, maxRetries: 0});
});
after(() => server?.stop());

test('models', async () => {
  const list = [];
  for await (const model of client.models.list()) list.push(model.id);
  assert.deepEqual(list, ['story']);
  assert.equal((await client.models.retrieve('story')).type, 'model');
});

test('a whole answer, without and with thinking', async () => {
  const plain = await client.messages.create({...kGreedy, messages: asked});
  assert.equal(plain.role, 'assistant');
  assert.equal(plain.stop_reason, 'end_turn');
  assert.deepEqual(plain.content.map((block) => block.type), ['text']);
  assert.ok(plain.usage.input_tokens > 0 && plain.usage.output_tokens > 0);
  const thought = await client.messages.create({...kGreedy, messages: asked, thinking: kThinking});
  assert.deepEqual(thought.content.map((block) => block.type), ['thinking', 'text']);
  assert.match(thought.content[1].text, /42/);
});

test('a stream puts together to the whole answer', async () => {
  const request = {...kGreedy, messages: asked, thinking: kThinking};
  const whole = await client.messages.create(request);
  const stream = client.messages.stream(request);
  const seen = {text: '', thinking: ''};
  stream.on('text', (delta) => seen.text += delta);
  stream.on('thinking', (delta) => seen.thinking += delta);
  const final = await stream.finalMessage();
  assert.deepEqual(final.content, whole.content);
  assert.equal(final.stop_reason, 'end_turn');
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
  assert.equal(seen.text, whole.content[1].text);
  assert.equal(seen.thinking, whole.content[0].thinking);
});

test('the model calls its calculator, and answers with the result', async () => {
  const request = {...kGreedy, thinking: kThinking, tools: kTools};
  const stream = client.messages.stream({...request, messages: asked});
  let json = '';
  stream.on('inputJson', (delta) => json += delta);
  const first = await stream.finalMessage();
  assert.equal(first.stop_reason, 'tool_use');
  const call = first.content.at(-1);
  assert.equal(call.type, 'tool_use');
  assert.match(call.id, /^toolu_/);
  assert.equal(call.name, 'calculator');
  assert.deepEqual(call.input, {expression: '17 + 25'});
  assert.deepEqual(JSON.parse(json), call.input);
  const result = {type: 'tool_result', tool_use_id: call.id, content: calculate(call.input)};
  const second = await client.messages.create({
    ...request,
    messages:
        [...asked, {role: 'assistant', content: first.content}, {role: 'user', content: [result]}],
  });
  assert.match(second.content.at(-1).text, /42/);
  // What the first answer left is gone on from: the result alone is read.
  assert.ok(second.usage.cache_read_input_tokens > second.usage.input_tokens);
});

test('tool choices', async () => {
  const ask = (tool_choice) =>
      client.messages.create({...kGreedy, messages: asked, tools: kTools, tool_choice});
  const called = (answer) =>
      answer.content.filter((block) => block.type === 'tool_use').map((block) => block.name);
  assert.deepEqual(called(await ask({type: 'none'})), []);
  assert.equal(called(await ask({type: 'any', disable_parallel_tool_use: true})).length, 1);
  assert.deepEqual(called(await ask({type: 'tool', name: 'clock'})), ['clock']);
});

test('stop sequences, lengths and systems', async () => {
  const whole = await client.messages.create(
      {...kGreedy, system: [{type: 'text', text: 'Be brief.'}], messages: asked});
  const {text} = whole.content[0];
  const word = text.split(' ')[1];
  const stopped = await client.messages.create({
    ...kGreedy,
    system: 'Be brief.',
    messages: asked,
    stop_sequences: [word],
  });
  assert.equal(stopped.stop_reason, 'stop_sequence');
  assert.equal(stopped.stop_sequence, word);
  assert.equal(stopped.content[0].text, text.slice(0, text.indexOf(word)));
  const short = await client.messages.create({...kGreedy, messages: asked, max_tokens: 2});
  assert.equal(short.stop_reason, 'max_tokens');
  assert.equal(short.usage.output_tokens, 2);
});

test('tokens are counted', async () => {
  const {input_tokens} = await client.messages.countTokens({model: 'story', messages: asked});
  const answer = await client.messages.create({...kGreedy, messages: asked});
  assert.equal(answer.usage.input_tokens + answer.usage.cache_read_input_tokens, input_tokens);
});

test('a request ends when its client goes', async () => {
  const stream = client.messages.stream({
    ...kGreedy,
    temperature: 1,
    max_tokens: 100000,
    messages: [{role: 'user', content: 'Tell me a long story.'}],
  });
  stream.on('text', () => stream.abort());
  await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
  const running = () => metric({url: server.url, key: kKey}, 'baltoro_choices_running');
  assert.ok(await eventually(async () => await running() === 0));
});

test('errors', async () => {
  const rejects = (body, type, status, kind) =>
      assert.rejects(client.messages.create({...kGreedy, messages: asked, ...body}), (error) => {
        assert.ok(error instanceof type, error.constructor.name);
        assert.equal(error.status, status);
        assert.equal(error.error.error.type, kind);
        return true;
      });
  await rejects({temperature: 'hot'}, Anthropic.BadRequestError, 400, 'invalid_request_error');
  await rejects({model: 'claude'}, Anthropic.NotFoundError, 404, 'not_found_error');
  await rejects(
      {messages: [{role: 'user', content: [{type: 'image', source: {}}]}]},
      Anthropic.BadRequestError, 400, 'invalid_request_error');
  const stranger = new Anthropic({baseURL: server.url, apiKey: 'wrong', maxRetries: 0});
  await assert.rejects(
      stranger.messages.create({...kGreedy, messages: asked}), Anthropic.AuthenticationError);
});
