// Copying, with an answer that can be seen and heard.
import {announce} from './announcer.js';
import {el, icon, iconButton} from './dom.js';

// navigator.clipboard exists only on https and on this machine; elsewhere a selection has to do.
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = el('textarea.visually-hidden', {readonly: true});
  field.value = text;
  document.body.append(field);
  const before = document.activeElement;
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  before?.focus();
  if (!done) throw new Error('the browser does not let the page copy');
}

export function copyButton(label, textOf, caption = null) {
  const button = iconButton('copy', label, async () => {
    try {
      await copyText(textOf());
    } catch (error) {
      announce(`Not copied: ${error.message}`);
      return;
    }
    announce('Copied');
    show('check');
    setTimeout(() => show('copy'), 1600);
  });
  const show = (name) => {
    button.classList.toggle('done', name === 'check');
    button.replaceChildren(
        icon(name),
        ...(caption === null ? [] : [el('span', {}, name === 'check' ? 'Copied' : caption)]));
  };
  show('copy');
  return button;
}
