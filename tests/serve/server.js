// A running server for the tests in JavaScript.
import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {createInterface} from 'node:readline';

const kStartMs = 60000;

// Starts `baltoro serve models/story` with `options`. Returns {url, stop}.
export async function startServer(options = []) {
  const {BALTORO, BALTORO_MODEL} = process.env;
  const server = spawn(
      BALTORO, ['serve', BALTORO_MODEL, '--port', '0', ...options],
      {stdio: ['ignore', 'pipe', 'pipe']});
  let log = '';
  const url = new Promise((resolve, reject) => {
    for (const stream of [server.stdout, server.stderr]) {
      createInterface({input: stream}).on('line', (line) => {
        log += `${line}\n`;
        const found = /http:\/\/[\w.[\]:]+:\d+/.exec(line);
        if (found) resolve(found[0]);
      });
    }
    server.on('error', reject);
    server.on('exit', () => reject(new Error(`the server ended:\n${log}`)));
    setTimeout(() => reject(new Error(`no address after ${kStartMs} ms:\n${log}`)), kStartMs)
        .unref();
  });
  const stop = async () => {
    if (server.exitCode !== null) return;
    server.kill('SIGTERM');
    await once(server, 'exit');
  };
  await loaded(await url);
  return {url: await url, stop};
}

// The server listens before its model is there.
async function loaded(url) {
  const end = Date.now() + kStartMs;
  while (!(await fetch(`${url}/health`)).ok) {
    if (Date.now() > end) throw new Error(`no model after ${kStartMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
