// The list of conversations.
import {byId, el, iconButton} from './dom.js';
import {dayGroup} from './format.js';
import {openMenu} from './menu.js';
import {readLocal, writeLocal} from './settings.js';

const kNarrow = matchMedia('(max-width: 760px)');

export class Sidebar {
  #handlers;
  #list = byId('conversations');
  #pane = byId('sidebar');
  #main = byId('main');
  #toggle = byId('toggle-sidebar');
  #open = !kNarrow.matches && readLocal('sidebar', true);

  // handlers: select(id), rename(id, title), remove(id), exportFile(id).
  constructor(handlers) {
    this.#handlers = handlers;
    this.#toggle.addEventListener('click', () => this.toggle());
    byId('shade').addEventListener('click', () => this.#set(false));
    this.#pane.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || !kNarrow.matches) return;
      event.stopPropagation();
      this.#set(false);
    });
    kNarrow.addEventListener(
        'change', () => this.#set(!kNarrow.matches && readLocal('sidebar', true)));
    this.#set(this.#open);
  }

  #set(open) {
    this.#open = open;
    document.body.classList.toggle('sidebar-open', open);
    this.#pane.inert = !open;
    this.#main.inert = open && kNarrow.matches;
    this.#toggle.setAttribute('aria-expanded', String(open));
  }

  toggle() {
    this.#set(!this.#open);
    if (!kNarrow.matches)
      writeLocal('sidebar', this.#open);
    else if (this.#open)
      byId('new-conversation').focus();
  }

  // Where it covers the page.
  closeIfNarrow() {
    if (!kNarrow.matches || !this.#open) return;
    this.#set(false);
    this.#toggle.focus();
  }

  // `running`: ids of the conversations that are being answered.
  show(conversations, currentId, running) {
    const focused = document.activeElement?.closest?.('[data-conversation]')?.dataset.conversation;
    const now = Date.now();
    const parts = [];
    let list = null;
    let group = null;
    for (const conversation of conversations) {
      const day = dayGroup(conversation.updatedAt, now);
      if (day !== group) {
        group = day;
        list = el('ul', {'aria-label': day});
        parts.push(el('h2', {}, day), list);
      }
      list.append(
          this.#item(conversation, conversation.id === currentId, running.has(conversation.id)));
    }
    this.#list.replaceChildren(...parts);
    if (focused) this.#list.querySelector(`[data-conversation="${focused}"] button`)?.focus();
  }

  #item(conversation, current, running) {
    const {id, title} = conversation;
    const item = el('li', {'data-conversation': id});
    const select =
        el('button.conversation', {
          'type': 'button',
          'aria-current': current ? 'true' : null,
          'title': title,
          'onclick': () => this.#handlers.select(id),
        },
           el('span.title', {}, title),
           running ? el('span.running', {role: 'img', 'aria-label': 'answering'}) : null);
    const more = iconButton(
        'more', `Actions for ${title}`,
        () => openMenu(
            more,
            [
              {
                icon: 'edit',
                label: 'Rename',
                action: () => this.#rename(item, [select, more], conversation)
              },
              {icon: 'save', label: 'Export as JSON', action: () => this.#handlers.exportFile(id)},
              {
                icon: 'trash',
                label: 'Delete',
                danger: true,
                action: () => this.#handlers.remove(id)
              },
            ]),
        {'aria-haspopup': 'menu', 'aria-expanded': 'false'});
    item.append(select, more);
    return item;
  }

  // A field in the place of the item's `parts`.
  #rename(item, parts, {id, title}) {
    const field =
        el('input', {'type': 'text', 'aria-label': 'Name of the conversation', 'maxlength': '120'});
    field.value = title;
    let done = false;
    const finish = (keep) => {
      if (done) return;
      done = true;
      item.replaceChildren(...parts);
      parts[0].focus();
      const name = field.value.trim();
      if (keep && name !== '' && name !== title) this.#handlers.rename(id, name);
    };
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.isComposing) finish(true);
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      finish(false);
    });
    field.addEventListener('blur', () => finish(true));
    item.replaceChildren(field);
    field.focus();
    field.select();
  }
}
