// The page and the server, with the small model.
import assert from 'node:assert/strict';
import test from 'node:test';

import {answered, ask, assertNoFaults, reload, startServer, textOf, usePage} from './harness.js';

const open = usePage();

// Greedy, so that the model says what it was trained to.
const kGreedy = {
  prepare: (page) => page.addInitScript(
      () => localStorage.setItem('baltoro.settings', JSON.stringify({temperature: '0'})))
};

test('a conversation of two turns, and a reload in between', async () => {
  const opened = await open(kGreedy);
  const {page} = opened;
  await ask(page, 'What is 12 + 30?');
  assert.match(await answered(page, 1), /42/);
  assert.equal(await page.inputValue('#prompt'), '');
  assert.equal(await page.locator('#title').innerText(), 'What is 12 + 30?');
  const thinking = page.locator('.thinking').first();
  assert.equal(await thinking.getAttribute('open'), null);
  assert.match(await thinking.locator('summary').innerText(), /^Thought for [\d.]+ s$/);
  const stats1 = await page.locator('.answer .stats').innerText();
  assert.match(
      stats1,
      /tokens\/s · first token [\d.]+ s · [\d,]+ tokens · [\d,]+ of [\d,]+ prompt tokens reused/);

  await reload(page);
  assert.match(await textOf(page, 1), /42/);
  assert.equal(await page.locator('.question .bubble').innerText(), 'What is 12 + 30?');
  await ask(page, 'Tell me a story.');
  assert.ok((await answered(page, 2)).length > 100);
  // The thought goes back with the answer, so the server finds what it holds.
  const stats2 = await page.locator('.answer .stats').last().innerText();
  const [reused, prompt] = /(\d+) of (\d+) prompt tokens reused/.exec(stats2).slice(1).map(Number);
  assert.ok(reused > 0.8 * prompt, stats2);
  await assertNoFaults(assert, opened);
});

test('Escape stops an answer, and what has come stays', async () => {
  const opened = await open();
  const {page} = opened;
  await ask(page, 'Tell me a story.');
  await page.waitForFunction(() => document.querySelector('.turn')?.textContent.length > 60);
  await page.keyboard.press('Escape');
  await page.waitForSelector('.ending:visible');
  assert.equal(await page.locator('.ending').innerText(), 'Stopped.');
  assert.equal(await page.getAttribute('#send', 'aria-label'), 'Send');
  const before = await page.locator('.turn').innerText();
  await page.waitForTimeout(300);
  assert.equal(await page.locator('.turn').innerText(), before);
  await ask(page, 'Who are you?');
  await answered(page, 2);
  await assertNoFaults(assert, opened);
});

test('an edited turn cuts the conversation there and is sent anew', async () => {
  const opened = await open();
  const {page} = opened;
  await ask(page, 'How are you?');
  assert.equal(await answered(page, 1), 'I am well, thank you.');
  await ask(page, 'Thank you.');
  await answered(page, 2);
  await page.locator('.question').first().hover();
  await page.locator('.question').first().getByLabel('Edit message').click();
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type('Good morning.');
  await page.keyboard.press('Enter');
  assert.match(await answered(page, 1), /^Good morning!/);
  assert.equal(await page.locator('.question').count(), 1);
  await reload(page);
  assert.equal(await page.locator('.question .bubble').innerText(), 'Good morning.');
  await assertNoFaults(assert, opened);
});

test('a regenerated answer takes the place of the old one', async () => {
  const opened = await open();
  const {page} = opened;
  await ask(page, 'Tell me a story.');
  const first = await answered(page, 1);
  await page.getByLabel('Regenerate answer').click();
  await page.waitForFunction(
      (old) => document.querySelector('.turn > .prose')?.innerText !== old, first);
  const second = await answered(page, 1);
  assert.notEqual(second, first);
  assert.equal(await page.locator('.question').count(), 1);
  await assertNoFaults(assert, opened);
});

test(
    'settings reach the model: the same seed tells the same story, one token is one token',
    async () => {
      const opened = await open();
      const {page} = opened;
      await page.click('#open-settings');
      await page.fill('#setting-seed', '11');
      await page.fill('#setting-temperature', '1');
      await page.keyboard.press('Escape');
      await ask(page, 'Tell me a story.');
      const first = await answered(page, 1);
      await page.keyboard.press('Alt+R');
      await page.waitForSelector('.answer[aria-busy=true]');
      assert.equal(await answered(page, 1), first);
      await page.click('#open-settings');
      await page.fill('#setting-max_tokens', '1');
      await page.keyboard.press('Escape');
      await page.keyboard.press('Alt+R');
      await page.waitForSelector('.ending:visible');
      assert.match(await page.locator('.ending').innerText(), /limit of tokens/);
      assert.match(await page.locator('.stats').innerText(), /· 1 token ·/);
      await assertNoFaults(assert, opened);
    });

test('without reasoning there is no thought', async () => {
  const opened = await open();
  const {page} = opened;
  await page.click('#open-settings');
  await page.selectOption('#setting-effort', 'none');
  await page.keyboard.press('Escape');
  await ask(page, 'What is 12 + 30?');
  await answered(page, 1);
  assert.equal(await page.locator('.thinking:visible').count(), 0);
  await assertNoFaults(assert, opened);
});

test('the model calls the calculator, which the page runs', async () => {
  const opened = await open(kGreedy);
  const {page} = opened;
  await page.click('#calculator');
  assert.equal(await page.getAttribute('#calculator', 'aria-checked'), 'true');
  await ask(page, 'What is 417 * 23?');
  assert.match(await answered(page, 1), /9591/);
  const card = page.getByRole('group', {name: 'Tool calculator, done'});
  assert.match(await card.innerText(), /417 \* 23/);
  assert.match(await card.innerText(), /9591/);
  await reload(page);
  assert.match(await page.getByRole('group', {name: 'Tool calculator, done'}).innerText(), /9591/);
  await ask(page, 'Thank you.');
  await answered(page, 2);
  await assertNoFaults(assert, opened);
});

test('a server with a key asks for it, and a wrong one is refused', async () => {
  const locked = await startServer(['--api-key', 'open-sesame']);
  try {
    const opened = await open();
    const {page, faults} = opened;
    await page.goto(locked.url);
    for (const key of ['wrong', 'open-sesame']) {
      await page.fill('#api-key', key);
      await page.press('#api-key', 'Enter');
      if (key === 'wrong') await page.getByText('The server did not accept the key.').waitFor();
    }
    await page.waitForFunction(() => document.getElementById('model').textContent === 'story');
    await ask(page, 'Who are you?');
    assert.match(await answered(page, 1), /small story model/);
    await reload(page);
    await ask(page, 'Thank you.');
    await answered(page, 2);
    faults.splice(
        0, faults.length,
        ...faults.filter((fault) => !fault.startsWith(`request to ${locked.url}`)));
    await assertNoFaults(assert, opened, /status of 401/);
  } finally {
    await locked.stop();
  }
});
