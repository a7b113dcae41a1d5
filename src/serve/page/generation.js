// One answer: as many turns of the model as its tool calls ask for.
import {ApiError, streamChat} from './api.js';
import {apiMessages} from './conversation.js';
import {requestFields} from './settings.js';
import {kCalculator, toolResult} from './tools.js';
import {TurnStream} from './turn_stream.js';

// A model that calls tools in a circle ends here.
const kMaxRounds = 8;

// Appends the messages of the answer to the conversation while they arrive. `onChange(stream)` is
// called after each change. Never throws: what goes wrong becomes the `error` of the last message.
export async function generate({conversation, settings, model, signal, onChange}) {
  for (let round = 0; round < kMaxRounds; ++round) {
    const turn = await oneTurn({conversation, settings, model, signal, onChange});
    if (turn.finish_reason !== 'tool_calls' || turn.tool_calls.length === 0) return;
    for (const call of turn.tool_calls) conversation.messages.push(toolResult(call));
    if (signal.aborted) return;
  }
  conversation.messages.push({
    role: 'assistant',
    content: '',
    finish_reason: 'error',
    error: {
      status: 0,
      message: `Stopped: the model called tools ${kMaxRounds} times without an answer.`
    },
  });
  onChange(null);
}

async function oneTurn({conversation, settings, model, signal, onChange}) {
  const body = {
    model: model ?? undefined,
    messages: apiMessages(conversation, settings.system),
    ...requestFields(settings, [kCalculator]),
  };
  const stream = new TurnStream(performance.now());
  conversation.messages.push(stream.turn);
  onChange(stream);
  try {
    for await (const chunk of streamChat(body, signal)) {
      stream.apply(chunk, performance.now());
      onChange(stream);
    }
  } catch (error) {
    stream.cut(signal.aborted ? 'stopped' : 'error', performance.now());
    if (!signal.aborted) {
      const {status = 0, message, retryAfter = null} = error;
      stream.turn.error = {status, message, retryAfter};
      if (!(error instanceof ApiError)) console.error(error);
    }
  }
  stream.turn.stats = stream.stats(performance.now());
  onChange(stream);
  return stream.turn;
}
