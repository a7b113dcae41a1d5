// The dialog of settings. A change holds from the next message on.
import {byId, el} from './dom.js';
import {fieldError, kDefaults, kFields, saveSettings} from './settings.js';

function numberField(name, settings, save) {
  const {label, hint} = kFields[name];
  const error = el('span.field-error', {id: `${name}-error`, role: 'status'});
  const field = el('input', {
    'id': `setting-${name}`,
    'type': 'text',
    'inputmode': 'decimal',
    'autocomplete': 'off',
    'placeholder': 'default',
    'aria-describedby': `${name}-hint ${name}-error`,
  });
  const check = () => {
    const wrong = fieldError(name, field.value);
    field.setAttribute('aria-invalid', String(wrong !== null));
    error.textContent = wrong ?? '';
  };
  const show = () => {
    field.value = settings[name];
    check();
  };
  field.addEventListener('input', () => {
    settings[name] = field.value.trim();
    check();
    save();
  });
  const node = el('div.field', {}, el('label', {for: field.id
                  }, label), field, el('span.field-hint', {id: `${name}-hint`}, hint), error);
  return {node, show};
}

// Fills the dialog of index.html and keeps `settings` and the browser's copy in step with it.
export function setUpSettings(settings, onChange) {
  const dialog = byId('settings');
  const system = byId('setting-system');
  const effort = byId('setting-effort');
  const save = () => {
    saveSettings(settings);
    onChange();
  };
  const numbers = Object.keys(kFields).map((name) => numberField(name, settings, save));
  byId('sampling-fields').append(...numbers.map(({node}) => node));
  const show = () => {
    system.value = settings.system;
    effort.value = settings.reasoning_effort;
    numbers.forEach((number) => number.show());
  };
  system.addEventListener('input', () => {
    settings.system = system.value;
    save();
  });
  effort.addEventListener('change', () => {
    settings.reasoning_effort = effort.value;
    save();
  });
  byId('reset-settings').addEventListener('click', () => {
    Object.assign(settings, kDefaults);
    show();
    save();
  });
  byId('close-settings').addEventListener('click', () => dialog.close());
  // A click beside the sheet meets the dialog itself.
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
  show();
  return {open: () => dialog.showModal()};
}
