// The official client of OpenAI, unmodified, against a running server.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import OpenAI from 'openai';

import {startServer} from '../server.js';

import {calculate, eventually, kCalculator, kClock, kQuestion, metric} from './story.js';

const kKey = 'sk-test-0123456789abcdef';
const kTools = [kCalculator, kClock].map((tool) => ({type: 'function', function: tool}));
const kGreedy = {
  model: 'story',
  temperature: 0
};
const asked = [{role: 'user', content: kQuestion}];
const kTale = {
  model: 'story',
  prompt: 'Once upon a time',
  seed: 1
};

let server;
let client;
before(async () => {
  server = await startServer(['--api-key', kKey]);
  client = new OpenAI({baseURL: `${server.url}/v1`, apiKey: kKey, maxRetries: 0});
});
after(() => server?.stop());

test('models', async () => {
  const list = [];
  for await (const model of client.models.list()) list.push(model.id);
  assert.deepEqual(list, ['story']);
  assert.equal((await client.models.retrieve('story')).owned_by, 'baltoro');
});

test('a whole answer, with its reasoning apart', async () => {
  const answer = await client.chat.completions.create({...kGreedy, messages: asked});
  const [choice] = answer.choices;
  assert.equal(choice.finish_reason, 'stop');
  assert.match(choice.message.content, /42/);
  assert.ok(choice.message.reasoning_content.length > 0);
  assert.ok(answer.usage.completion_tokens_details.reasoning_tokens > 0);
  assert.equal(
      answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  assert.match(answer.system_fingerprint, /^fp_/);
});

test('reasoning effort', async () => {
  const answer =
      await client.chat.completions.create({...kGreedy, messages: asked, reasoning_effort: 'none'});
  assert.equal(answer.choices[0].message.reasoning_content, undefined);
  assert.equal(answer.usage.completion_tokens_details.reasoning_tokens, 0);
  const low =
      await client.chat.completions.create({...kGreedy, messages: asked, reasoning_effort: 'low'});
  assert.ok(low.choices[0].message.content.length > 0);
});

test('a stream says what the whole answer says, and its usage', async () => {
  const whole = await client.chat.completions.create({...kGreedy, messages: asked});
  const stream = await client.chat.completions.create(
      {...kGreedy, messages: asked, stream: true, stream_options: {include_usage: true}});
  let content = '';
  let reasoning = '';
  let finish = null;
  let usage = null;
  for await (const chunk of stream) {
    usage = chunk.usage ?? usage;
    for (const choice of chunk.choices) {
      content += choice.delta.content ?? '';
      reasoning += choice.delta.reasoning_content ?? '';
      finish = choice.finish_reason ?? finish;
    }
  }
  assert.equal(content, whole.choices[0].message.content);
  assert.equal(reasoning, whole.choices[0].message.reasoning_content);
  assert.equal(finish, 'stop');
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test('the streaming helper', async () => {
  const runner = client.chat.completions.stream({...kGreedy, messages: asked});
  const pieces = [];
  runner.on('content', (delta) => pieces.push(delta));
  assert.equal(await runner.finalContent(), pieces.join(''));
  assert.equal((await runner.finalChatCompletion()).choices[0].finish_reason, 'stop');
});

test('the model calls its calculator, and answers with the result', async () => {
  const calls = [];
  const runner = client.chat.completions.runTools({
    ...kGreedy,
    messages: asked,
    tools: [
      {
        type: 'function',
        function: {
          ...kCalculator,
          parse: JSON.parse,
          function: (input) => {
            calls.push(input);
            return calculate(input);
          },
        },
      },
      {type: 'function', function: {...kClock, parse: JSON.parse, function: () => '12:00'}},
    ],
  });
  assert.match(await runner.finalContent(), /42/);
  assert.deepEqual(calls, [{expression: '17 + 25'}]);
});

test('arguments are streamed', async () => {
  const stream = await client.chat.completions.create(
      {...kGreedy, messages: asked, tools: kTools, stream: true});
  let call = null;
  let pieces = 0;
  let finish = null;
  for await (const chunk of stream) {
    const [choice] = chunk.choices;
    finish = choice.finish_reason ?? finish;
    for (const part of choice.delta.tool_calls ?? []) {
      assert.equal(part.index, 0);
      if (part.id) {
        assert.equal(call, null);
        call = {id: part.id, name: part.function.name, arguments: part.function.arguments};
      } else {
        call.arguments += part.function.arguments;
        ++pieces;
      }
    }
  }
  assert.equal(finish, 'tool_calls');
  assert.match(call.id, /^call_/);
  assert.equal(call.name, 'calculator');
  assert.deepEqual(JSON.parse(call.arguments), {expression: '17 + 25'});
  assert.ok(pieces > 1);
});

test('tool choices', async () => {
  const ask = (content, tool_choice) => client.chat.completions.create(
      {...kGreedy, messages: [{role: 'user', content}], tools: kTools, tool_choice});
  const none = await ask(kQuestion, 'none');
  assert.equal(none.choices[0].message.tool_calls, undefined);
  const required = await ask('Tell me a story.', 'required');
  assert.equal(required.choices[0].finish_reason, 'tool_calls');
  assert.ok(
      ['calculator', 'clock'].includes(required.choices[0].message.tool_calls[0].function.name));
  const named = await ask(kQuestion, {type: 'function', function: {name: 'clock'}});
  assert.deepEqual(
      named.choices[0].message.tool_calls.map((call) => call.function.name), ['clock']);
  const one = await client.chat.completions.create(
      {...kGreedy, messages: asked, tools: kTools, parallel_tool_calls: false});
  assert.equal(one.choices[0].message.tool_calls.length, 1);
});

test('structured output', async () => {
  const schema = {
    type: 'object',
    properties: {
      name: {enum: ['Rusty', 'Red']},
      age: {type: 'integer'},
      mood: {enum: ['glad', 'sad']},
      friends: {type: 'array', items: {enum: ['hare', 'owl']}, maxItems: 2},
    },
    required: ['name', 'age', 'mood', 'friends'],
    additionalProperties: false,
  };
  for (const seed of [1, 2, 3]) {
    const answer = await client.chat.completions.parse({
      model: 'story',
      messages: [{role: 'user', content: 'Tell me about a fox.'}],
      response_format: {type: 'json_schema', json_schema: {name: 'fox', schema, strict: true}},
      max_tokens: 500,
      logit_bias: {},
      seed,
    });
    const {parsed} = answer.choices[0].message;
    assert.deepEqual(Object.keys(parsed), ['name', 'age', 'mood', 'friends']);
    assert.ok(['Rusty', 'Red'].includes(parsed.name));
    assert.ok(Number.isInteger(parsed.age));
    assert.ok(['glad', 'sad'].includes(parsed.mood));
    assert.ok(parsed.friends.length <= 2);
  }
  const free = await client.chat.completions.create({
    ...kGreedy,
    messages: asked,
    response_format: {type: 'json_object'},
    max_tokens: 400,
  });
  if (free.choices[0].finish_reason === 'stop') JSON.parse(free.choices[0].message.content);
  await assert.rejects(
      client.chat.completions.create({
        ...kGreedy,
        messages: asked,
        response_format: {
          type: 'json_schema',
          json_schema: {
            name: 'x',
            schema: {type: 'object', properties: {a: {type: 'string', pattern: '^x'}}}
          },
        },
      }),
      (error) => error.status === 400 && error.param.includes('pattern'));
});

test('logprobs', async () => {
  const answer = await client.chat.completions.create(
      {...kGreedy, messages: asked, logprobs: true, top_logprobs: 3});
  const {content} = answer.choices[0].logprobs;
  const bytes = content.flatMap((token) => token.bytes);
  assert.equal(Buffer.from(bytes).toString(), answer.choices[0].message.content);
  for (const token of content) {
    assert.ok(token.logprob <= 0);
    assert.equal(token.top_logprobs.length, 3);
    assert.equal(token.top_logprobs[0].token, token.token);
    assert.ok(token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob);
  }
});

test('choices, seeds, stop strings and lengths', async () => {
  const body = {...kTale, max_tokens: 30, n: 2, temperature: 1};
  const first = await client.completions.create(body);
  const again = await client.completions.create(body);
  assert.deepEqual(
      first.choices.map((choice) => choice.text), again.choices.map((choice) => choice.text));
  assert.notEqual(first.choices[0].text, first.choices[1].text);
  assert.equal(first.choices[0].finish_reason, 'length');
  const text = first.choices[0].text;
  const word = text.trim().split(' ')[3];
  const stopped = await client.completions.create({...body, n: 1, stop: [word]});
  assert.equal(stopped.choices[0].text, text.slice(0, text.indexOf(word)));
  assert.equal(stopped.choices[0].finish_reason, 'stop');
});

test('penalties and biases', async () => {
  const {tokens} = await (await fetch(`${server.url}/tokenize`, {
                     method: 'POST',
                     headers: {authorization: `Bearer ${kKey}`},
                     body: JSON.stringify({prompt: ' there'}),
                   })).json();
  const plain = await client.completions.create({...kTale, temperature: 0, max_tokens: 1});
  assert.equal(plain.choices[0].text, ' there');
  const banned = await client.completions.create(
      {...kTale, temperature: 0, max_tokens: 1, logit_bias: {[tokens[0]]: -100}});
  assert.notEqual(banned.choices[0].text, ' there');
  const penalised = await client.completions.create({
    ...kTale,
    temperature: 0,
    max_tokens: 20,
    presence_penalty: 1.5,
    frequency_penalty: 1,
    repetition_penalty: 1.2,
    min_p: 0.1,
    top_k: 20,
  });
  assert.equal(penalised.usage.completion_tokens, 20);
});

test('completions: several prompts, echo, ids, logprobs, a stream', async () => {
  const answer = await client.completions.create(
      {model: 'story', prompt: ['One day', 'The king'], max_tokens: 4, echo: true, temperature: 0});
  assert.equal(answer.choices.length, 2);
  assert.ok(answer.choices[0].text.startsWith('One day'));
  assert.ok(answer.choices[1].text.startsWith('The king'));
  const scored = await client.completions.create({...kTale, max_tokens: 5, logprobs: 2});
  const {logprobs} = scored.choices[0];
  assert.equal(logprobs.tokens.join(''), scored.choices[0].text);
  assert.equal(logprobs.token_logprobs.length, 5);
  let text = '';
  for await (
      const chunk of await client.completions.create({...kTale, max_tokens: 5, stream: true}))
    text += chunk.choices[0]?.text ?? '';
  assert.equal(text, scored.choices[0].text);
});

test('the next turn reads only what is new', async () => {
  const first = await client.chat.completions.create({...kGreedy, messages: asked});
  const messages = [...asked, first.choices[0].message, {role: 'user', content: 'What is 2 + 2?'}];
  const second = await client.chat.completions.create({...kGreedy, messages});
  const {prompt_tokens: prompt, prompt_tokens_details: {cached_tokens: cached}} = second.usage;
  assert.ok(
      cached >= first.usage.prompt_tokens + first.usage.completion_tokens - 2,
      `${cached} of ${prompt}`);
});

test('a request ends when its client goes', async () => {
  const abort = new AbortController();
  const stream = await client.completions.create(
      {...kTale, max_tokens: 100000, ignore_eos: true, stream: true}, {signal: abort.signal});
  let chunks = 0;
  for await (const chunk of stream) {
    if (++chunks === 3) abort.abort();
  }
  assert.ok(chunks >= 3);
  const running = () => metric({url: server.url, key: kKey}, 'baltoro_choices_running');
  assert.ok(await eventually(async () => await running() === 0));
});

test('errors', async () => {
  const bad = async (body, expected) => {
    await assert.rejects(
        client.chat.completions.create({model: 'story', messages: asked, ...body}), (error) => {
          assert.ok(error instanceof expected.type, error.constructor.name);
          assert.equal(error.status, expected.status);
          assert.equal(error.param ?? null, expected.param);
          assert.equal(error.code ?? null, expected.code);
          return true;
        });
  };
  await bad(
      {temperature: 'hot'},
      {type: OpenAI.BadRequestError, status: 400, param: 'temperature', code: null});
  await bad({messages: [{role: 'user', content: [{type: 'image_url', image_url: {url: 'x'}}]}]}, {
    type: OpenAI.BadRequestError,
    status: 400,
    param: 'messages[0].content[0]',
    code: 'unsupported_value',
  });
  await bad(
      {model: 'gpt-4'},
      {type: OpenAI.NotFoundError, status: 404, param: 'model', code: 'model_not_found'});
  await bad({max_tokens: 2000000}, {
    type: OpenAI.BadRequestError,
    status: 400,
    param: 'messages',
    code: 'context_length_exceeded',
  });
  const stranger = new OpenAI({baseURL: `${server.url}/v1`, apiKey: 'wrong', maxRetries: 0});
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
  await assert.rejects(client.get('/nothing'), OpenAI.NotFoundError);
});
