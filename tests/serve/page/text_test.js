// What the page makes of an answer's text: Markdown that shows, and nothing that acts.
import assert from 'node:assert/strict';
import test from 'node:test';

import {answered, ask, assertNoFaults, modelThatSays, usePage} from './harness.js';

const open = usePage();

async function shown(text) {
  const opened = await open({prepare: modelThatSays([text, {finish: 'stop'}])});
  await ask(opened.page, 'x');
  await answered(opened.page, 1);
  return {...opened, prose: opened.page.locator('.turn > .prose')};
}

const kRich = `# Title

A *soft*, **strong**, ~~struck~~ line with \`code <b>\` &amp; &copy; and
a break.

1. one
   - nested $a_i < b$
2. two

- [x] done
- [ ] to do

| left | right |
|:--|--:|
| a | 1 |
| $x^2$ | **2** |

> said

\`\`\`cpp
int main() { return "<script>" == nullptr; }  // why
\`\`\`

\`\`\`
plain & <b>
\`\`\`

$$\\fcolorbox{red}{aqua}{$\\int_0^1 \\sqrt{x}\\,dx$} = \\frac{2}{3}$$

Costs $5 and $10; \\(e^{i\\pi}\\). See <https://example.org/a?b=1&c=2> or [there](https://example.org "t").
`;

test('Markdown of every kind', async () => {
  const opened = await shown(kRich);
  const {page, prose} = opened;
  await page.waitForFunction(
      () => document.querySelectorAll('.katex').length === 4 &&
          document.querySelector('.hljs-keyword'));
  assert.equal(await prose.locator('h2.level-1').innerText(), 'Title');
  for (const [selector, count] of Object.entries({
         'em': 1,
         'strong': 2,
         'del': 1,
         'p > br': 1,
         'ol > li': 2,
         'ol ul > li': 1,
         'li.task input[disabled]': 2,
         'input:checked': 1,
         'thead th[scope=col]': 2,
         'tbody td.align-right': 2,
         'blockquote': 1,
         'pre': 2,
         '.katex-display': 1,
         'a': 2,
         'math': 4,
       })) {
    assert.equal(await prose.locator(selector).count(), count, selector);
  }
  assert.equal(
      await prose.locator('p').first().innerText(),
      'A soft, strong, struck line with code <b> & © and\na break.');
  assert.equal(
      await prose.locator('pre').first().innerText(),
      'int main() { return "<script>" == nullptr; }  // why');
  assert.equal(await prose.locator('pre').nth(1).innerText(), 'plain & <b>');
  assert.match(await prose.locator('p').last().innerText(), /^Costs \$5 and \$10; /);
  assert.equal(
      await prose.locator('a').first().getAttribute('href'), 'https://example.org/a?b=1&c=2');
  for (const link of await prose.locator('a').all()) {
    assert.equal(await link.getAttribute('target'), '_blank');
    assert.equal(await link.getAttribute('rel'), 'noopener noreferrer');
  }
  await assertNoFaults(assert, opened);
});

test('code is copied as it was written', async () => {
  const opened = await open({
    context: {permissions: ['clipboard-read', 'clipboard-write']},
    prepare: modelThatSays(['```py\na < b  # &amp;\n\n\tc\n```', {finish: 'stop'}]),
  });
  const {page} = opened;
  await ask(page, 'x');
  await answered(page, 1);
  await page.getByLabel('Copy code').click();
  await page.locator('.code-head .done').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'a < b  # &amp;\n\n\tc');
  await assertNoFaults(assert, opened);
});

const kHostile = [
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(1)>',
  '<svg onload=alert(1)><script>alert(1)</script></svg>',
  '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
  '<a href="javascript:alert(1)">click</a>',
  '<style>body{display:none}</style>',
  '<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>',
  '<details open ontoggle=alert(1)>',
  '<form action="https://evil.example"><button>x</button></form>',
  '<base href="https://evil.example/">',
  '<meta http-equiv="refresh" content="0;url=https://evil.example">',
  '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
  '[link](javascript:alert(1))',
  '[link](JaVaScRiPt:alert(1))',
  '[link](  javascript:alert(1))',
  '[link](java\u0000script:alert(1))',
  '[link](&#106;avascript:alert(1))',
  '[link](javascript&colon;alert(1))',
  '[link](data:text/html,<script>alert(1)</script>)',
  '[link](vbscript:x)',
  '[link](//evil.example)',
  '[link](file:///etc/passwd)',
  '<javascript:alert(1)>',
  '[a]: javascript:alert(1)\n\n[a]',
  '![x](https://evil.example/pixel.png)',
  '![x" onerror="alert(1)](y)',
  '![x](javascript:alert(1))',
  '[![x](https://evil.example/pixel.png)](javascript:alert(1))',
  '`<img src=x onerror=alert(1)>`',
  '```html\n<script>alert(1)</script>\n```',
  '```"><img src=x onerror=alert(1)>\nx\n```',
  '```html\n<span class="x">&lt;img src=x onerror=alert(1)&gt;\n```',
  '$\\href{javascript:alert(1)}{x}$',
  '$$\\htmlStyle{position:fixed}{x}$$',
  '$\\includegraphics{https://evil.example/x.png}$',
  '$\\url{javascript:alert(1)}$',
  '$\\text{<img src=x onerror=alert(1)>}$',
  '$\\htmlData{x=y}{z}$',
  '$\\def\\a{\\a\\a}\\a$',
  '| <img src=x onerror=alert(1)> |\n|--|\n| <script>alert(1)</script> |',
  '# <img src=x onerror=alert(1)>',
  '<!-- --!><img src=x onerror=alert(1)> -->',
  '<![CDATA[<script>alert(1)</script>]]>',
  '&lt;img src=x onerror=alert(1)&gt;',
];

test(
    'hostile text is inert: in the answer, the thought, the question, the title, a call and its result',
    async () => {
      const bad = kHostile.join('\n\n');
      const call = {
        index: 0,
        id: '"><script>',
        function:
            {name: '<img src=x onerror=alert(1)>', arguments: JSON.stringify({expression: bad})}
      };
      const opened = await open({
        prepare: modelThatSays(
            [{reasoning_content: bad}, bad, {tool_calls: [call]}, {finish: 'tool_calls'}],
            [bad, {finish: 'stop'}])
      });
      const {page} = opened;
      await ask(page, '<img src=x onerror=alert(1)> [a](javascript:alert(1))');
      await answered(page, 1);
      await page.locator('.thinking summary').first().click();
      await page.waitForTimeout(500);
      const found = await page.evaluate(
          () => ({
            elements:
                [...document.querySelectorAll(
                     'script, iframe, object, embed, style, form, base, meta, img, svg, link')]
                    .filter(
                        (node) => node.closest('.answer, .question, #conversations') &&
                            !node.matches('svg.icon, .katex svg'))
                    .map((n) => n.outerHTML),
            attributes:
                [...document.querySelectorAll('.answer *, .question *, #conversations *')].flatMap(
                    (node) => [...node.attributes]
                                  .filter(
                                      ({name, value}) => name.startsWith('on') ||
                                          /^\s*(javascript|data|vbscript|file):/i.test(value))
                                  .map(({name, value}) => `${node.tagName} ${name}=${value}`)),
            links: [...document.querySelectorAll('.answer a')].map((a) => a.protocol),
            text: document.querySelector('.turn > .prose').innerText,
          }));
      assert.deepEqual(found.elements, []);
      assert.deepEqual(found.attributes, []);
      assert.ok(found.links.every((protocol) => protocol === 'https:'), found.links.join(' '));
      assert.ok(found.text.includes('<img src=x onerror=alert(1)>'), 'HTML shows as text');
      await assertNoFaults(assert, opened);
    });

test('no picture of an answer is loaded; it is a link', async () => {
  const opened = await shown('![a chart](https://example.org/chart.png)');
  assert.equal(await opened.prose.locator('a').innerText(), 'image: a chart');
  await assertNoFaults(assert, opened);
});

test('the policy stops what would slip through', async () => {
  const {page} = await shown('x');
  // In a task of the page: what the debugger runs is exempt.
  const blocked = await page.evaluate(
      () => new Promise(
          (resolve) => setTimeout(() => {
            const errors = [];
            for (const attempt
                     of [() => {
                       document.body.innerHTML = '<p>';
                     },
                        () => {
                          eval('1');
                        },
                        () => {
                          document.body.appendChild(document.createElement('script')).text =
                              'globalThis.owned = true';
                        },
            ]) {
              try {
                attempt();
              } catch (error) {
                errors.push(error.name);
              }
            }
            resolve({errors, owned: globalThis.owned ?? false});
          })));
  assert.deepEqual(blocked.errors, ['TypeError', 'EvalError', 'TypeError']);
  assert.equal(blocked.owned, false);
});

test(
    'a long answer with much of everything is drawn while it streams, and ends whole', async () => {
      const pieces = Array.from({length: 60}, () => kRich)
                         .join('\n')
                         .match(/[\s\S]{1,40}/g)
                         .flatMap((piece) => [piece, 1]);
      const opened = await open({prepare: modelThatSays([...pieces, {finish: 'stop'}])});
      const {page} = opened;
      await ask(page, 'x');
      await page.waitForFunction(() => document.querySelectorAll('.prose h2').length > 3);
      assert.equal(await page.locator('.answer').getAttribute('aria-busy'), 'true');
      await answered(page, 1);
      assert.equal(await page.locator('.prose h2').count(), 60);
      assert.equal(await page.locator('.prose pre').count(), 120);
      await assertNoFaults(assert, opened);
    });
