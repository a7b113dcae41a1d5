// What the user said, and its editor.
import {copyButton} from './clipboard.js';
import {el, iconButton} from './dom.js';

// Enter sends where there is a keyboard; a finger's Enter is a new line, and so is one that ends a
// composition.
export function sendsOn(event) {
  return event.key === 'Enter' && !event.shiftKey && !event.isComposing &&
      !matchMedia('(pointer: coarse)').matches;
}

// Lets a text field be as high as its text.
export function fitHeight(field) {
  field.style.height = 'auto';
  field.style.height = `${field.scrollHeight + 2}px`;
}

export class QuestionView {
  #message;
  #handlers;
  #bubble;
  #edit = iconButton('edit', 'Edit message', () => this.edit());
  node = el('article.question', {'aria-label': 'You'});

  constructor(message, handlers) {
    this.#message = message;
    this.#handlers = handlers;
    this.#bubble = el('div.bubble', {}, message.content);
    this.#show();
  }

  update() {}

  #show() {
    this.node.replaceChildren(
        this.#bubble,
        el('footer.actions', {}, this.#edit,
           copyButton('Copy message', () => this.#message.content)));
  }

  edit() {
    const field = el('textarea', {'aria-label': 'Edit message', rows: '1'});
    field.value = this.#message.content;
    const cancel = () => {
      this.#show();
      this.#edit.focus();
    };
    const send = () => {
      if (field.value.trim() !== '') this.#handlers.edit(this.#message, field.value.trim());
    };
    field.addEventListener('input', () => fitHeight(field));
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        cancel();
      } else if (sendsOn(event)) {
        event.preventDefault();
        send();
      }
    });
    this.node.replaceChildren(
        el('form.editor', {
          onsubmit: (event) => {
            event.preventDefault();
            send();
          }
        },
           field, el('p.hint', {}, 'What came after this message will be dropped.'),
           el('button.plain', {type: 'button', onclick: cancel}, 'Cancel'),
           el('button.primary', {type: 'submit'}, 'Send')));
    fitHeight(field);
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }
}
