// A call of a tool: its name, what it was given, and what it gave.
import {el, icon, setText} from './dom.js';

// One line where the arguments are one plain value; else JSON.
function argumentsText(text) {
  let given;
  try {
    given = JSON.parse(text);
  } catch {
    return text;  // still arriving
  }
  const values = Object.values(given ?? {});
  if (values.length === 1 && typeof values[0] !== 'object') return String(values[0]);
  return JSON.stringify(given, null, 2);
}

function row(label) {
  const value = el('code.tool-value');
  return {value, node: el('div.tool-row', {}, el('span.tool-label', {}, label), value)};
}

export class ToolCard {
  #name = el('span.tool-name');
  #state = el('span.tool-state');
  #given = row('Arguments');
  #result = row('Result');
  node =
      el('div.tool-card', {role: 'group'},
         el('div.tool-head', {}, icon('tool'), this.#name, this.#state), this.#given.node,
         this.#result.node);

  // `result`: the message of the tool, or undefined; `open`: it may still come.
  update(call, result, open) {
    const failed = result?.content.startsWith('error:') ?? false;
    const state = failed ? 'failed' : result ? 'done' : open ? 'calling…' : 'not run';
    this.node.setAttribute('aria-label', `Tool ${call.function.name}, ${state}`);
    this.node.classList.toggle('failed', failed);
    setText(this.#name, call.function.name);
    setText(this.#state, state);
    setText(this.#given.value, argumentsText(call.function.arguments));
    this.#result.node.hidden = result === undefined;
    setText(this.#result.value, result?.content ?? '');
  }
}
