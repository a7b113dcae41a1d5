// Puts the deltas of a streamed answer together, and measures it.

function mergeCall(calls, delta) {
  const call =
      calls[delta.index] ??= {id: '', type: 'function', function: {name: '', arguments: ''}};
  if (delta.id) call.id = delta.id;
  call.function.name += delta.function?.name ?? '';
  call.function.arguments += delta.function?.arguments ?? '';
}

// Times are milliseconds of any one clock.
export class TurnStream {
  turn =
      {role: 'assistant', content: '', reasoning_content: '', tool_calls: [], finish_reason: null};
  #startedAt;
  #firstAt = null;
  #lastAt = null;
  #thoughtUntil = null;
  #deltas = 0;
  #usage = null;

  constructor(now) {
    this.#startedAt = now;
  }

  get thinking() {
    return this.#firstAt !== null && this.#thoughtUntil === null &&
        this.turn.finish_reason === null;
  }

  // Milliseconds for which nothing has come yet; null once something has.
  waitingMs(now) {
    return this.#firstAt === null ? now - this.#startedAt : null;
  }

  // One chunk of the server: {choices: [{delta, finish_reason}], usage}.
  apply(chunk, now) {
    if (chunk.usage) this.#usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (!choice) return;
    const {content, reasoning_content: reasoning, tool_calls: calls = []} = choice.delta ?? {};
    const turn = this.turn;
    if (content || reasoning || calls.length > 0) {
      this.#deltas++;
      this.#firstAt ??= now;
      this.#lastAt = now;
    }
    if (reasoning) turn.reasoning_content += reasoning;
    if (content) turn.content += content;
    for (const call of calls) mergeCall(turn.tool_calls, call);
    if (content || calls.length > 0) this.#thoughtUntil ??= now;
    if (choice.finish_reason) this.#end(choice.finish_reason, now);
  }

  // The user stopped it, or the connection broke. A call that may be half a call is not kept.
  cut(reason, now) {
    this.turn.tool_calls = [];
    this.#end(reason, now);
  }

  #end(reason, now) {
    this.turn.finish_reason = reason;
    this.#thoughtUntil ??= now;
    this.turn.stats = this.stats(now);
  }

  // tokens is counted by the server where `exact`; until its usage has come, each delta counts as
  // one.
  stats(now) {
    const exact = this.#usage !== null;
    const tokens = exact ? this.#usage.completion_tokens : this.#deltas;
    const seconds = this.#firstAt === null ? 0 : (this.#lastAt - this.#firstAt) / 1000;
    return {
      exact,
      tokens,
      tokensPerSecond: tokens > 1 && seconds > 0 ? (tokens - 1) / seconds : null,
      firstTokenMs: this.#firstAt === null ? null : this.#firstAt - this.#startedAt,
      thinkingMs: this.turn.reasoning_content === '' ? null :
                                                       (this.#thoughtUntil ?? now) - this.#firstAt,
      promptTokens: this.#usage?.prompt_tokens ?? null,
      reusedTokens: this.#usage?.prompt_tokens_details?.cached_tokens ?? null,
    };
  }
}
