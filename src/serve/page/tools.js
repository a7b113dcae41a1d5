// The tool that the page itself offers to the model.
import {evaluate} from './calculator.js';

export const kCalculator = {
  type: 'function',
  function: {
    name: 'calculator',
    description: 'Works out an arithmetic expression.',
    parameters: {
      type: 'object',
      properties: {expression: {type: 'string'}},
      required: ['expression'],
    },
  },
};

function run(name, argumentsText) {
  let given;
  try {
    given = JSON.parse(argumentsText || '{}');
  } catch {
    throw new Error('the arguments are no JSON');
  }
  if (name !== 'calculator') throw new Error(`there is no tool ${name}`);
  if (typeof given?.expression !== 'string')
    throw new Error('the argument expression must be text');
  return evaluate(given.expression);
}

// The message that answers a call. What goes wrong is told to the model, as the text of the result.
export function toolResult(call) {
  let content;
  try {
    content = run(call.function.name, call.function.arguments);
  } catch (error) {
    content = `error: ${error.message}`;
  }
  return {role: 'tool', tool_call_id: call.id, name: call.function.name, content};
}
