// The keyboard of the page. Single letters are left alone: they belong to the text.
import {byId, el} from './dom.js';

// By the place of the key, since Alt makes other characters of them on some layouts.
const kShortcuts = [
  {code: 'Escape', keys: ['Esc'], action: 'stop', text: 'Stop the answer'},
  {code: 'KeyN', keys: ['Alt', 'N'], action: 'new', text: 'New conversation'},
  {code: 'KeyR', keys: ['Alt', 'R'], action: 'regenerate', text: 'Regenerate the last answer'},
  {code: 'KeyK', keys: ['Alt', 'K'], action: 'focus', text: 'Go to the message field'},
  {code: 'KeyL', keys: ['Alt', 'L'], action: 'list', text: 'Show or hide the conversations'},
  {code: 'Comma', keys: ['Alt', ','], action: 'settings', text: 'Settings'},
];
const kInField = [
  {keys: ['Enter'], text: 'Send'},
  {keys: ['Shift', 'Enter'], text: 'New line'},
  {keys: ['↑'], text: 'Edit the last message, from an empty field'},
];

function listed({keys, text}) {
  return el('div', {}, el('dt', {}, ...keys.map((key) => el('kbd', {}, key))), el('dd', {}, text));
}

// actions: name -> function.
export function setUpShortcuts(actions) {
  byId('shortcuts').append(...[...kInField, ...kShortcuts].map(listed));
  document.addEventListener('keydown', (event) => {
    // An open dialog and an open menu have a keyboard of their own.
    if (event.isComposing || document.querySelector('dialog[open], .menu:popover-open')) return;
    const alone = !event.ctrlKey && !event.metaKey && !event.shiftKey;
    const found = kShortcuts.find(
        ({code, keys}) => code === event.code && event.altKey === (keys[0] === 'Alt'));
    if (!found || !alone) return;
    if (found.action !== 'stop') event.preventDefault();
    actions[found.action]();
  });
}
