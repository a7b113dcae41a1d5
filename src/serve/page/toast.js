// A notice at the foot of the window, with one action perhaps.
import {byId, el} from './dom.js';

const kShownMs = 8000;
let timer = 0;

function hideToast() {
  byId('toast').replaceChildren();
}

export function showToast(text, action = null) {
  const button = action &&
      el('button.plain', {
                   type: 'button',
                   onclick: () => {
                     hideToast();
                     action.run();
                   }
                 },
         action.label);
  byId('toast').replaceChildren(el('div.toast', {}, el('span', {}, text), button));
  clearTimeout(timer);
  timer = setTimeout(hideToast, kShownMs);
}
