// The server's OpenAI interface, as far as the page uses it.
import {sseEvents} from './sse.js';

// status 0: no answer came.
export class ApiError extends Error {
  constructor(status, message, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

// Beside the folder of this file, so that the page also works below a path of a proxy.
const kRoot = new URL('../', import.meta.url);
const kKeyName = 'baltoro.key';

// The key lives as long as the tab.
export const apiKey = {
  get: () => {
    try {
      return sessionStorage.getItem(kKeyName) ?? '';
    } catch {
      return '';
    }
  },
  set: (key) => {
    try {
      sessionStorage.setItem(kKeyName, key);
    } catch {
      // The next request asks for it again.
    }
  },
};

async function errorOf(response) {
  const retryAfter = Number(response.headers.get('retry-after')) || null;
  let message = `The server answered ${response.status}.`;
  try {
    message = (await response.json()).error.message ?? message;
  } catch {
    // No JSON: a proxy, perhaps.
  }
  return new ApiError(response.status, message, retryAfter);
}

async function call(path, options = {}) {
  const headers = {...options.headers};
  if (apiKey.get() !== '') headers.authorization = `Bearer ${apiKey.get()}`;
  let response;
  try {
    response = await fetch(new URL(path, kRoot), {...options, headers, credentials: 'omit'});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'The server cannot be reached. Is it still running?');
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function listModels() {
  return (await (await call('v1/models')).json()).data ?? [];
}

// The share of the model that is loaded, 0 to 1; null where the server does not say.
export async function loadedShare() {
  try {
    const response = await fetch(new URL('health', kRoot), {credentials: 'omit'});
    return (await response.json()).loaded ?? null;
  } catch {
    return null;
  }
}

// The chunks of an answer. Throws ApiError, and AbortError once `signal` says so.
export async function* streamChat(body, signal) {
  const response = await call('v1/chat/completions', {
    method: 'POST',
    headers: {'content-type': 'application/json'},
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}}),
    signal,
  });
  try {
    for await (const data of sseEvents(response.body)) {
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data);
      if (chunk.error)
        throw new ApiError(response.status, chunk.error.message ?? 'The answer failed.');
      yield chunk;
    }
  } catch (error) {
    if (error instanceof ApiError || error.name === 'AbortError') throw error;
    throw new ApiError(0, `The connection broke: ${error.message}`);
  }
  throw new ApiError(0, 'The connection closed before the answer was complete.');
}
