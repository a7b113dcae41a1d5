// Asks for the key of a server that wants one.
import {apiKey} from './api.js';
import {byId} from './dom.js';

// Resolves to whether a key was given.
export function askForKey() {
  const dialog = byId('key-dialog');
  const field = byId('api-key');
  if (dialog.open) return Promise.resolve(false);
  byId('key-note').textContent =
      apiKey.get() === '' ? 'This server asks for a key.' : 'The server did not accept the key.';
  field.value = '';
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      const given = dialog.returnValue === 'save' && field.value.trim() !== '';
      if (given) apiKey.set(field.value.trim());
      resolve(given);
    }, {once: true});
  });
}

export function setUpKeyDialog() {
  byId('cancel-key').addEventListener('click', () => byId('key-dialog').close(''));
  // Not sent anywhere: the policy of the page forbids forms to.
  byId('key-form').addEventListener('submit', (event) => {
    event.preventDefault();
    byId('key-dialog').close('save');
  });
}
