// Server-sent events, read from the body of a response.

// Takes text in pieces of any size and calls `onEvent` with the data of each event.
export class SseParser {
  #onEvent;
  #line = '';
  #data = [];
  #afterCr = false;

  constructor(onEvent) {
    this.#onEvent = onEvent;
  }

  push(text) {
    // A line ends with LF, CR or CRLF; the two halves of a CRLF may come apart.
    if (this.#afterCr && text.startsWith('\n')) text = text.slice(1);
    if (text === '') return;
    this.#afterCr = text.endsWith('\r');
    const lines = (this.#line + text).split(/\r\n|\n|\r/);
    this.#line = lines.pop();
    for (const line of lines) this.#take(line);
  }

  #take(line) {
    if (line === '') {
      if (this.#data.length > 0) this.#onEvent(this.#data.join('\n'));
      this.#data = [];
      return;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    if (field !== 'data') return;  // comments, event names and ids
    const value = colon < 0 ? '' : line.slice(colon + 1);
    this.#data.push(value.startsWith(' ') ? value.slice(1) : value);
  }
}

// The data of each event of a ReadableStream of bytes. An event that the end cuts off is dropped.
export async function* sseEvents(stream) {
  const events = [];
  const parser = new SseParser((data) => events.push(data));
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return;
      parser.push(decoder.decode(value, {stream: true}));
      yield* events.splice(0);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
