// What a screen reader is told: short notices, and of a growing answer each paragraph once it is
// complete, not each token.
import {byId} from './dom.js';

// Text that is set twice in a row would not be read twice.
let waiting = [];
let timer = 0;

export function announce(text) {
  if (text.trim() === '') return;
  waiting.push(text);
  clearTimeout(timer);
  timer = setTimeout(() => {
    byId('announcer').textContent = waiting.join('\n');
    waiting = [];
  }, 150);
}

// Follows the paragraphs of one answer.
export class AnswerAnnouncer {
  #told = 0;

  // `count` paragraphs are there, the last one perhaps incomplete; `textOf(i)` says what one says.
  update(count, textOf, complete) {
    const ready = complete ? count : count - 1;
    for (; this.#told < ready; this.#told++) announce(textOf(this.#told));
  }
}
