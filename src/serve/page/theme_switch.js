// Light, dark, or as the system has it.
import {icon} from './dom.js';
import {readLocal, writeLocal} from './settings.js';

const kDark = matchMedia('(prefers-color-scheme: dark)');

function chosen() {
  const theme = readLocal('theme', 'system');
  return theme === 'light' || theme === 'dark' ? theme : 'system';
}

function setTheme(theme) {
  writeLocal('theme', theme);
  if (theme === 'system')
    delete document.documentElement.dataset.theme;
  else
    document.documentElement.dataset.theme = theme;
}

// Wires the button of the header and the three choices of the settings.
export function setUpTheme(button, choices) {
  const show = () => {
    const theme = chosen();
    const dark = theme === 'dark' || (theme === 'system' && kDark.matches);
    button.replaceChildren(icon(dark ? 'sun' : 'moon'));
    button.title = dark ? 'Light theme' : 'Dark theme';
    button.setAttribute('aria-label', button.title);
    for (const choice of choices) choice.checked = choice.value === theme;
    return dark;
  };
  const choose = (theme) => {
    setTheme(theme);
    show();
  };
  button.addEventListener('click', () => choose(show() ? 'light' : 'dark'));
  for (const choice of choices) choice.addEventListener('change', () => choose(choice.value));
  kDark.addEventListener('change', show);
  show();
}
