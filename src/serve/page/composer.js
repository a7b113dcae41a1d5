// Where the user writes.
import {byId, icon, setText} from './dom.js';
import {fitHeight, sendsOn} from './question_view.js';

const kHint =
    matchMedia('(pointer: coarse)').matches ? '' : 'Enter sends · Shift+Enter for a new line';

export class Composer {
  #form = byId('composer');
  #field = byId('prompt');
  #button = byId('send');
  #line = byId('live-line');
  #running = null;

  // handlers: send(text), stop(), editLast().
  constructor(handlers) {
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (this.#running)
        handlers.stop();
      else
        this.#send(handlers);
    });
    this.#field.addEventListener('input', () => this.#update());
    this.#field.addEventListener('keydown', (event) => {
      if (sendsOn(event)) {
        event.preventDefault();
        if (!this.#running) this.#send(handlers);
      } else if (event.key === 'ArrowUp' && this.#field.value === '' && !this.#running) {
        event.preventDefault();
        handlers.editLast();
      }
    });
    this.setRunning(false);
    this.setLine([]);
  }

  #send(handlers) {
    const text = this.#field.value.trim();
    if (text === '') return;
    this.#field.value = '';
    this.#update();
    handlers.send(text);
  }

  #update() {
    fitHeight(this.#field);
    this.#button.disabled = !this.#running && this.#field.value.trim() === '';
  }

  setRunning(running) {
    if (running === this.#running) return;
    this.#running = running;
    const label = running ? 'Stop (Esc)' : 'Send';
    this.#button.replaceChildren(
        running ? Object.assign(document.createElement('span'), {className: 'stop-mark'}) :
                  icon('send'));
    this.#button.setAttribute('aria-label', label);
    this.#button.title = label;
    this.#update();
  }

  // The measures of the answer that runs; empty: none does.
  setLine(parts) {
    setText(this.#line, parts.join(' · ') || kHint);
  }

  focus() {
    this.#field.focus();
  }
}
