// The page for everyone: both themes, keyboard, screen readers, phones, little motion.
import assert from 'node:assert/strict';
import {readFile} from 'node:fs/promises';
import test from 'node:test';

import {answered, ask, assertNoFaults, modelThatSays, reload, usePage} from './harness.js';

const open = usePage();
const axe = await readFile(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const kPhone = {
  viewport: {width: 360, height: 740},
  hasTouch: true,
  isMobile: true
};

const kRich = `## Heading

Some *text* with \`code\`, a [link](https://example.org), ![a picture](https://example.org/x.png) and $x_i^2$.

| a | b |
|--|--:|
| 1 | 2 |

- [x] done

> said

\`\`\`python
def f(x, *args):  # why
    """Text."""
    return [x + 1.5, None, "s" % args, self.name, @decorator]
\`\`\`

\`\`\`diff
- old
+ new
\`\`\`

$$\\sum_{i=1}^n i = \\frac{n (n+1)}{2}$$
`;
const kCall = [
  {reasoning_content: 'I can *ask*.'}, {
    tool_calls:
        [{index: 0, id: 'c', function: {name: 'calculator', arguments: '{"expression": "2*3"}'}}]
  },
  {finish: 'tool_calls'}
];
const kBadCall = [
  {tool_calls: [{index: 0, id: 'd', function: {name: 'clock', arguments: '{}'}}]},
  {finish: 'tool_calls'}
];
const kUsage = {
  usage: {prompt_tokens: 20, completion_tokens: 9, prompt_tokens_details: {cached_tokens: 10}}
};

async function checkAccess(page, state) {
  // Colours are measured where they come to rest.
  await page.evaluate(
      () => Promise.all(document.getAnimations().map((a) => a.finished.catch(() => {}))));
  await page.evaluate(axe);
  const {violations} = await page.evaluate(
      () => globalThis.axe.run(
          {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}));
  assert.deepEqual(
      violations.map(
          ({id, nodes}) =>
              `${id}: ${nodes.map((n) => `${n.target} ${n.failureSummary}`).join('; ')}`),
      [], state);
}

for (const colorScheme of ['light', 'dark']) {
  for (const [device, size] of Object.entries({desktop: {}, phone: kPhone})) {
    test(`axe finds nothing: ${colorScheme}, ${device}`, async () => {
      const opened = await open({
        context: {colorScheme, reducedMotion: 'reduce', ...size},
        prepare: modelThatSays(
            kCall, kBadCall, [kRich, {finish: 'length'}, kUsage], [{status: 429, message: 'full'}],
            [{reasoning_content: 'so *it* is'}, 60000]),
      });
      const {page} = opened;
      const send = (text) => page.fill('#prompt', text).then(() => page.click('#send'));
      await checkAccess(page, 'empty');
      await send('show me');
      await answered(page, 1);
      await page.waitForFunction(
          () => document.querySelector('.katex') && document.querySelector('.hljs-keyword'));
      await page.locator('.thinking summary').first().click();
      await checkAccess(page, 'an answer');
      await send('again');
      await page.locator('.answer-error:visible').waitFor();
      await checkAccess(page, 'an error');
      await page.getByRole('button', {name: 'Try again'}).click();
      await page.getByText('so it is').waitFor();
      await checkAccess(page, 'thinking');
      await page.click('#send');
      await page.locator('#main').getByText('Stopped.').waitFor();
      await page.click('#open-settings');
      await page.fill('#setting-seed', 'x');
      await checkAccess(page, 'settings');
      await page.keyboard.press('Escape');
      if (device === 'phone') await page.click('#toggle-sidebar');
      await page.getByLabel('Actions for show me').click();
      await checkAccess(page, 'a menu');
      await page.getByRole('menuitem', {name: 'Rename'}).click();
      await checkAccess(page, 'renaming');
      await page.keyboard.press('Escape');
      if (device === 'phone') await page.keyboard.press('Escape');
      await page.locator('.question').first().hover();
      await page.locator('.question').first().getByLabel('Edit message').click();
      await checkAccess(page, 'editing');
      await assertNoFaults(assert, opened);
    });
  }
}

test('a chosen theme is kept, and the first paint has it', async () => {
  const opened = await open({context: {colorScheme: 'light'}});
  const {page} = opened;
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.getByRole('button', {name: 'Dark theme'}).click();
  const dark = await background();
  assert.notEqual(dark, light);
  await reload(page);
  assert.equal(await background(), dark);
  // Set by the script in the head, before the page's own modules run.
  await page.route('**/page/main.js', (route) => route.abort());
  await page.reload();
  assert.equal(await background(), dark);
  await page.unroute('**/page/main.js');
  await reload(page);
  await page.click('#open-settings');
  await page.getByRole('radio', {name: 'System'}).check();
  assert.equal(await background(), light);
  await page.emulateMedia({colorScheme: 'dark'});
  assert.equal(await background(), dark);
  await assertNoFaults(assert, opened, /Failed to load resource/);
});

test('all is reached by keyboard, and focus is where it belongs', async () => {
  const opened = await open({prepare: modelThatSays(['an answer', {finish: 'stop'}])});
  const {page} = opened;
  const focused = () => page.evaluate(
      () => document.activeElement.id || document.activeElement.getAttribute('aria-label') ||
          document.activeElement.textContent);
  await page.keyboard.type('one');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('two');
  assert.equal(await page.inputValue('#prompt'), 'one\ntwo');
  await page.keyboard.press('Enter');
  await answered(page, 1);
  assert.equal(await focused(), 'prompt');

  await page.keyboard.press('ArrowUp');
  assert.equal(await focused(), 'Edit message');
  await page.keyboard.press('Escape');
  assert.equal(await focused(), 'Edit message');
  assert.equal(await page.locator('.editor').count(), 0);

  await page.keyboard.press('Alt+,');
  assert.ok(await page.locator('#settings').isVisible());
  await page.keyboard.press('Escape');
  assert.equal(await focused(), 'Edit message');
  await page.keyboard.press('Alt+K');
  assert.equal(await focused(), 'prompt');

  await page.getByLabel('Actions for one').focus();
  await page.keyboard.press('Enter');
  assert.equal(await focused(), 'Rename');
  await page.keyboard.press('ArrowDown');
  assert.equal(await focused(), 'Export as JSON');
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowDown');
  assert.equal(await focused(), 'Rename');
  await page.keyboard.press('Escape');
  assert.equal(await focused(), 'Actions for one');

  await page.keyboard.press('Alt+L');
  assert.equal(await page.locator('#sidebar').isVisible(), false);
  await page.keyboard.press('Alt+L');
  await page.keyboard.press('Alt+K');
  const seen = new Set();
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press('Tab');
    seen.add(await focused());
    const outline = await page.evaluate(() => {
      const {outlineStyle, outlineWidth} = getComputedStyle(document.activeElement);
      return document.activeElement === document.body || document.activeElement.id === 'prompt' ||
          (outlineStyle !== 'none' && outlineWidth !== '0px');
    });
    assert.ok(outline, `focus is seen on ${await focused()}`);
  }
  for (const name
           of ['new-conversation', 'toggle-sidebar', 'theme', 'open-settings', 'calculator',
               'Copy answer', 'Regenerate answer (Alt+R)', 'Actions for one', 'Copy message']) {
    assert.ok(seen.has(name), `${name} is among ${[...seen]}`);
  }
  await assertNoFaults(assert, opened);
});

test('a composition is not sent by the Enter that ends it', async () => {
  const {page} = await open({prepare: modelThatSays(['an answer', {finish: 'stop'}])});
  await page.fill('#prompt', 'にほんご');
  await page.dispatchEvent('#prompt', 'keydown', {key: 'Enter', code: 'Enter', isComposing: true});
  assert.equal(await page.locator('.question').count(), 0);
});

test('a reader who listens hears paragraphs, not tokens', async () => {
  const words = (text) => text.match(/\S+\s*/g).flatMap((word) => [word, 10]);
  const opened = await open({
    prepare: async (page) => {
      await modelThatSays([
        ...words(
            'The first paragraph has words.\n\nThe second too.\n\n```py\nx = 1\n```\n\nEnd with $a^2$.'),
        400, {finish: 'stop'}
      ])(page);
      await page.addInitScript(() => {
        globalThis.heard = [];
        document.addEventListener('DOMContentLoaded', () => {
          const region = document.getElementById('announcer');
          new MutationObserver(() => globalThis.heard.push(region.textContent)).observe(region, {
            childList: true
          });
        });
      });
    }
  });
  const {page} = opened;
  assert.equal(await page.getAttribute('#announcer', 'aria-live'), 'polite');
  await ask(page, 'x');
  await answered(page, 1);
  await page.waitForTimeout(400);
  const heard = await page.evaluate(() => globalThis.heard);
  assert.deepEqual(heard.join('\n').split('\n'), [
    'The model answers.', 'The first paragraph has words.', 'The second too.', 'Code in py, 1 line',
    'End with a^2.', 'The answer is complete.'
  ]);
  assert.ok(heard.length <= 6);
  assert.equal(await page.locator('#transcript').getAttribute('aria-live'), null);
  await assertNoFaults(assert, opened);
});

test('a phone: nothing sticks out, the list covers and leaves, Enter is a new line', async () => {
  const wide =
      `${
      'wide '.repeat(9).replaceAll(
          ' ', '_')}\n\n| ${
                   'column | '.repeat(
                       12)}\n|${'--|'.repeat(12)}\n\n\`\`\`\n${'x'.repeat(300)}\n\`\`\`\n\n$$${
                                                                              'x+'.repeat(90)}y$$`;
  const opened = await open({context: kPhone, prepare: modelThatSays([wide, {finish: 'stop'}])});
  const {page} = opened;
  await page.fill('#prompt', `a question without end ${'w'.repeat(200)}`);
  await page.press('#prompt', 'Enter');
  assert.equal(await page.locator('.question').count(), 0);
  await page.tap('#send');
  await answered(page, 1);
  await page.waitForFunction(() => document.querySelector('.katex'));
  const sticksOut = await page.evaluate(
      () =>
          [...document.querySelectorAll('#main *')]
              .filter(
                  (node) =>
                      !node.closest(
                          '.visually-hidden, pre, .table-scroll > *, .maths.display > *, .katex') &&
                      node.getBoundingClientRect().right > innerWidth + 1)
              .map((node) => node.className || node.tagName));
  assert.deepEqual(sticksOut, []);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);
  await page.tap('#toggle-sidebar');
  await page.waitForFunction(
      () => document.getElementById('sidebar').getBoundingClientRect().left === 0);
  assert.equal(await page.evaluate(() => document.getElementById('main').inert), true);
  await page.touchscreen.tap(345, 400);
  await page.waitForFunction(
      () => document.getElementById('sidebar').getBoundingClientRect().right <= 0);
  assert.equal(await page.evaluate(() => document.getElementById('main').inert), false);
  await assertNoFaults(assert, opened);
});

test('who wants little motion gets none', async () => {
  const {page} =
      await open({context: {reducedMotion: 'reduce'}, prepare: modelThatSays([60000, 'x'])});
  await ask(page, 'x');
  await page.locator('.waiting').waitFor();
  await page.waitForTimeout(50);
  assert.equal(
      await page.evaluate(
          () => document.getAnimations().filter((a) => a.playState === 'running').length),
      0);
});

test('the view follows an answer, but not against the reader', async () => {
  const lines = Array.from({length: 120}, (_, i) => [`line ${i}\n\n`, 15]).flat();
  const opened = await open({prepare: modelThatSays([...lines, {finish: 'stop'}])});
  const {page} = opened;
  const gap = () => page.evaluate(() => {
    const {scrollHeight, scrollTop, clientHeight} = document.getElementById('scroller');
    return scrollHeight - scrollTop - clientHeight;
  });
  await ask(page, 'x');
  await page.getByText('line 40').waitFor();
  assert.ok(await gap() < 4);
  await page.mouse.move(700, 400);
  await page.mouse.wheel(0, -600);
  await page.waitForTimeout(200);
  assert.ok(await gap() > 400);
  await answered(page, 1);
  assert.ok(await gap() > 400);
  await page.click('#to-end');
  assert.ok(await gap() < 4);
  await assertNoFaults(assert, opened);
});
