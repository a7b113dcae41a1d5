// What the tests of the page share: a running server, a browser, and a model that says what a test
// wants.
import {after, before} from 'node:test';
import {chromium} from 'playwright-core';

import {startServer} from '../server.js';

export {startServer};

// Makes a server and a browser for the tests of a file. `open(options)` gives a fresh page of it.
export function usePage(serverOptions = []) {
  let server;
  let browser;
  before(async () => {
    server = await startServer(serverOptions);
    browser = await chromium.launch({executablePath: process.env.CHROMIUM, args: ['--no-sandbox']});
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  async function open({context: options = {}, prepare = null, path = '/'} = {}) {
    const context = await browser.newContext({viewport: {width: 1200, height: 820}, ...options});
    const page = await context.newPage();
    page.setDefaultTimeout(30000);
    const faults = [];
    page.on('pageerror', (error) => faults.push(`exception: ${error.message}`));
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning')
        faults.push(`console: ${message.text()}`);
    });
    page.on('request', (request) => {
      const address = request.url();
      if (!address.startsWith(server.url) && !/^(data|blob):/.test(address))
        faults.push(`request to ${address}`);
    });
    page.on('dialog', (dialog) => {
      faults.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    await page.addInitScript(() => {
      globalThis.violations = [];
      document.addEventListener('securitypolicyviolation', (event) => {
        globalThis.violations.push(
            `${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
      });
    });
    if (prepare) await prepare(page);
    await page.goto(server.url + path);
    await started(page);
    return {page, context, faults, url: server.url};
  }
  return open;
}

// Until the page has read its conversations and asked for the model.
function started(page) {
  return page.waitForFunction(() => document.activeElement?.id === 'prompt');
}

export async function reload(page) {
  await page.reload();
  await started(page);
}

// Fails on anything that went wrong in the page while a test ran, but for what the test expects.
export async function assertNoFaults(assert, {page, faults}, expected = /^$/) {
  const violations = await page.evaluate(() => globalThis.violations);
  assert.deepEqual([...faults.filter((fault) => !expected.test(fault)), ...violations], []);
}

// Lets `answers` answer for the model, one a request and the last one again and again. An answer is
// a list of steps: a number waits that many milliseconds, a text is a delta of content, an object a
// delta, or with `finish`, `usage`, `error` (in the stream) or `status` what their names say.
// Requests are kept in `sent`. A prepare function of open().
export function modelThatSays(...answers) {
  return (page) => page.addInitScript((scripts) => {
    const realFetch = globalThis.fetch;
    globalThis.sent = [];
    const chunkOf = (step) => {
      if (typeof step === 'string')
        return {choices: [{index: 0, delta: {content: step}, finish_reason: null}]};
      if (step.finish) return {choices: [{index: 0, delta: {}, finish_reason: step.finish}]};
      if (step.usage) return {choices: [], usage: step.usage};
      if (step.error) return {error: step.error};
      return {choices: [{index: 0, delta: step, finish_reason: null}]};
    };
    globalThis.fetch = async (address, options = {}) => {
      if (!String(address).endsWith('/v1/chat/completions')) return realFetch(address, options);
      const {signal} = options;
      const script = scripts[Math.min(globalThis.sent.length, scripts.length - 1)];
      globalThis.sent.push(JSON.parse(options.body));
      if (script[0]?.status) {
        return new Response(JSON.stringify({error: {message: script[0].message}}), script[0]);
      }
      const encoder = new TextEncoder();
      const body = new ReadableStream({
        async start(controller) {
          signal.addEventListener('abort', () => controller.error(signal.reason));
          const send = (text) =>
              signal.aborted || controller.enqueue(encoder.encode(`data: ${text}\n\n`));
          for (const step of script) {
            if (typeof step === 'number')
              await new Promise((resolve) => setTimeout(resolve, step));
            else
              send(JSON.stringify(chunkOf(step)));
          }
          send('[DONE]');
          if (!signal.aborted) controller.close();
        },
      });
      return new Response(body, {headers: {'content-type': 'text/event-stream'}});
    };
  }, answers);
}

export async function ask(page, text) {
  await page.fill('#prompt', text);
  await page.press('#prompt', 'Enter');
}

// Until answer `count` is complete. Returns its text, without what stands around it.
export async function answered(page, count) {
  await page.waitForFunction((n) => {
    const all = document.querySelectorAll('.answer');
    return all.length === n && all[n - 1].getAttribute('aria-busy') === 'false';
  }, count);
  return textOf(page, count);
}

export function textOf(page, count) {
  return page.locator('.answer').nth(count - 1).locator('.turn > .prose').last().innerText();
}
