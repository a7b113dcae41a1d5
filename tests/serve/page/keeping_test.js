// Conversations in the browser, and what happens when an answer does not come.
import assert from 'node:assert/strict';
import {readFile} from 'node:fs/promises';
import test from 'node:test';

import {answered, ask, assertNoFaults, modelThatSays, reload, textOf, usePage} from './harness.js';

const open = usePage();
const kDone = {
  finish: 'stop'
};

async function choose(page, title, action) {
  await page.getByLabel(`Actions for ${title}`).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('menuitem', {name: action}).click();
}
const titles = (page) => page.locator('.conversation .title').allInnerTexts();

test('conversations are listed, opened, renamed, and deleted with a way back', async () => {
  const opened = await open({prepare: modelThatSays(['one', kDone], ['two', kDone])});
  const {page} = opened;
  await ask(page, 'first question');
  await answered(page, 1);
  await page.keyboard.press('Alt+N');
  await page.locator('#empty').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
  await ask(page, 'second question');
  await answered(page, 1);
  assert.deepEqual(await titles(page), ['second question', 'first question']);

  await page.getByRole('button', {name: 'first question', exact: true}).click();
  assert.equal(await textOf(page, 1), 'one');
  await page.goBack();
  assert.equal(await textOf(page, 1), 'two');
  await page.goForward();

  await choose(page, 'first question', 'Rename');
  await page.keyboard.type('renamed');
  await page.keyboard.press('Enter');
  assert.equal(await page.locator('#title').innerText(), 'renamed');
  await choose(page, 'second question', 'Rename');
  await page.keyboard.type('not kept');
  await page.keyboard.press('Escape');
  await reload(page);
  assert.deepEqual((await titles(page)).toSorted(), ['renamed', 'second question']);
  assert.equal(await textOf(page, 1), 'one');

  await choose(page, 'renamed', 'Delete');
  assert.deepEqual(await titles(page), ['second question']);
  assert.ok(await page.locator('#empty').isVisible());
  await page.getByRole('button', {name: 'Undo'}).click();
  assert.equal((await titles(page)).length, 2);
  assert.equal(await textOf(page, 1), 'one');
  await choose(page, 'second question', 'Delete');
  await reload(page);
  assert.deepEqual(await titles(page), ['renamed']);
  await assertNoFaults(assert, opened);
});

test('an export can be sent as a request', async () => {
  const opened = await open({prepare: modelThatSays([{reasoning_content: 'hm'}, 'one', kDone])});
  const {page} = opened;
  await ask(page, 'a “question”?');
  await answered(page, 1);
  const [download] = await Promise.all(
      [page.waitForEvent('download'), choose(page, 'a “question”?', 'Export as JSON')]);
  assert.equal(download.suggestedFilename(), 'a-question.json');
  const file = JSON.parse(await readFile(await download.path(), 'utf8'));
  assert.equal(file.title, 'a “question”?');
  assert.equal(file.model, 'story');
  assert.deepEqual(file.messages, [
    {role: 'user', content: 'a “question”?'},
    {role: 'assistant', content: 'one', reasoning_content: 'hm'}
  ]);
  await assertNoFaults(assert, opened);
});

test('a second tab sees what the first one says', async () => {
  const opened = await open({prepare: modelThatSays(['one', kDone])});
  const other = await opened.context.newPage();
  await other.goto(opened.url);
  await ask(opened.page, 'from the first tab');
  await answered(opened.page, 1);
  await other.getByRole('button', {name: 'from the first tab', exact: true}).click();
  assert.equal(await textOf(other, 1), 'one');
  await assertNoFaults(assert, opened);
});

test('an answer goes on while another conversation is open', async () => {
  const opened =
      await open({prepare: modelThatSays(['one ', 700, 'and more', kDone], ['two', kDone])});
  const {page} = opened;
  await ask(page, 'slow');
  await page.locator('.answer').getByText('one').waitFor();
  await page.click('#new-conversation');
  assert.equal(await page.getByRole('img', {name: 'answering'}).count(), 1);
  await ask(page, 'quick');
  await answered(page, 1);
  await page.getByRole('button', {name: /^slow/}).click();
  await answered(page, 1);
  assert.equal(await textOf(page, 1), 'one and more');
  assert.equal(await page.getByRole('img', {name: 'answering'}).count(), 0);
  await assertNoFaults(assert, opened);
});

test('a reload in the middle of an answer keeps what had come', async () => {
  const opened =
      await open({prepare: modelThatSays(['kept ', 2100, 'also kept ', 60000, 'never'])});
  const {page} = opened;
  await ask(page, 'x');
  await page.getByText('also kept').waitFor();
  await page.waitForTimeout(300);
  await reload(page);
  assert.match(await textOf(page, 1), /^kept/);
  assert.equal(await page.locator('.answer').getAttribute('aria-busy'), 'false');
  await assertNoFaults(assert, opened);
});

test('a stopped thought is sent back as it was', async () => {
  const opened =
      await open({prepare: modelThatSays([{reasoning_content: 'let me'}, 60000], ['fine', kDone])});
  const {page} = opened;
  await ask(page, 'first');
  await page.getByText('let me').waitFor();
  assert.notEqual(await page.locator('.thinking').getAttribute('open'), null);
  await page.keyboard.press('Escape');
  await page.locator('#main').getByText('Stopped.').waitFor();
  await ask(page, 'second');
  await answered(page, 2);
  const sent = await page.evaluate(() => globalThis.sent[1]);
  assert.deepEqual(sent.messages, [
    {role: 'user', content: 'first'}, {role: 'assistant', content: '', reasoning_content: 'let me'},
    {role: 'user', content: 'second'}
  ]);
  assert.deepEqual(
      [sent.stream, sent.stream_options, sent.model, sent.tools],
      [true, {include_usage: true}, 'story', undefined]);
  await assertNoFaults(assert, opened);
});

test('the measures are the server\'s', async () => {
  const usage = {
    prompt_tokens: 1260,
    completion_tokens: 11,
    prompt_tokens_details: {cached_tokens: 1204}
  };
  const opened = await open({prepare: modelThatSays([300, 'a', 1000, 'b', 400, kDone, {usage}])});
  const {page} = opened;
  await ask(page, 'x');
  await page.getByText(/^waiting for the first token, 0\.\d+ s$/).waitFor();
  await page.getByText(/^≈ [\d.]+ tokens\/s · first token 0\.3\d s · ≈ 2 tokens$/).waitFor();
  await answered(page, 1);
  assert.match(
      await page.locator('.stats').innerText(),
      /^(9\.\d|10) tokens\/s · first token 0\.3\d s · 11 tokens · 1,204 of 1,260 prompt tokens reused$/);
  assert.match(await page.locator('#live-line').innerText(), /^Enter sends/);
  await assertNoFaults(assert, opened);
});

test('a refusal is shown with its remedy, and tried again', async () => {
  const message = 'the queue is full: 64 requests wait, the limit is 64';
  const opened = await open({
    prepare: modelThatSays([{status: 429, message, headers: {'retry-after': '3'}}], ['fine', kDone])
  });
  const {page} = opened;
  await ask(page, 'x');
  const alert = page.locator('.answer-error');
  await alert.waitFor();
  assert.match(
      await alert.innerText(),
      /the queue is full: 64 requests wait, the limit is 64 Try again in 3 s\./);
  await page.getByRole('button', {name: 'Try again'}).click();
  assert.equal(await answered(page, 1), 'fine');
  assert.equal(await alert.isVisible(), false);
  assert.deepEqual(
      await page.evaluate(() => globalThis.sent.map((body) => body.messages.length)), [1, 1]);
  await assertNoFaults(assert, opened);
});

test('an answer that breaks off keeps its text and says why', async () => {
  const opened = await open({
    prepare: modelThatSays(['some text', {error: {message: 'a row is not finite in layer 3'}}])
  });
  const {page} = opened;
  await ask(page, 'x');
  await page.getByText('a row is not finite in layer 3').waitFor();
  assert.equal(await textOf(page, 1), 'some text');
  await assertNoFaults(assert, opened);
});

test('a model that calls tools in a circle is stopped', async () => {
  const call = {
    tool_calls:
        [{index: 0, id: 'c', function: {name: 'calculator', arguments: '{"expression": "1/0"}'}}]
  };
  const opened = await open({prepare: modelThatSays([call, {finish: 'tool_calls'}])});
  const {page} = opened;
  await ask(page, 'x');
  await page.getByText('the model called tools 8 times without an answer').waitFor();
  assert.equal(await page.getByRole('group', {name: 'Tool calculator, failed'}).count(), 8);
  assert.match(await page.locator('.tool-card').first().innerText(), /error: division by zero/);
  await assertNoFaults(assert, opened);
});

test('a server that is gone or loading says so', async () => {
  let phase = 'gone';
  const opened = await open({
    prepare: async (page) => {
      await page.route(
          '**/v1/models',
          (route) => phase === 'gone' ?
              route.abort() :
              phase === 'loading' ?
              route.fulfill({status: 503, json: {error: {message: 'the model is loading'}}}) :
              route.continue());
      await page.route(
          '**/health',
          (route) => route.fulfill({status: 503, json: {status: 'loading', loaded: 0.437}}));
    }
  });
  const {page} = opened;
  // The announcer says the same.
  const connection = page.locator('#connection-text');
  await connection.getByText('The server cannot be reached.').waitFor();
  phase = 'loading';
  await page.getByRole('button', {name: 'Try again'}).click();
  await connection.getByText('The model is loading: 43 %.').waitFor();
  phase = 'ready';
  await page.waitForFunction(() => document.getElementById('model').textContent === 'story');
  assert.equal(await page.locator('#connection').isVisible(), false);
  await assertNoFaults(assert, opened, /Failed to load resource/);
});

test('wrong settings are marked and not sent', async () => {
  const opened = await open({prepare: modelThatSays(['a', kDone])});
  const {page} = opened;
  await page.keyboard.press('Alt+,');
  await page.fill('#setting-temperature', '9');
  assert.equal(await page.getAttribute('#setting-temperature', 'aria-invalid'), 'true');
  assert.ok(await page.getByText('Temperature is a number from 0 to 2').isVisible());
  await page.fill('#setting-top_p', '0.5');
  await page.fill('#setting-system', 'be brief');
  await page.keyboard.press('Escape');
  await ask(page, 'x');
  await answered(page, 1);
  const sent = await page.evaluate(() => globalThis.sent[0]);
  assert.deepEqual(
      [sent.temperature, sent.top_p, sent.messages[0]],
      [undefined, 0.5, {role: 'system', content: 'be brief'}]);
  await reload(page);
  await page.click('#open-settings');
  assert.equal(await page.inputValue('#setting-top_p'), '0.5');
  await page.getByRole('button', {name: 'Reset to defaults'}).click();
  assert.equal(await page.inputValue('#setting-top_p'), '');
  assert.equal(await page.inputValue('#setting-system'), '');
  await assertNoFaults(assert, opened);
});
