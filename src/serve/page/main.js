// Puts the page together: the parts of index.html, the state (app.js) and the keyboard.
import {announce} from './announcer.js';
import {App} from './app.js';
import {Composer} from './composer.js';
import {byId, el, icon, setText} from './dom.js';
import {duration, statsParts} from './format.js';
import {askForKey, setUpKeyDialog} from './key_dialog.js';
import {loadSettings, saveSettings} from './settings.js';
import {setUpSettings} from './settings_panel.js';
import {setUpShortcuts} from './shortcuts.js';
import {Sidebar} from './sidebar.js';
import {ConversationStore} from './store.js';
import {suggestionsFor} from './suggestions.js';
import {setUpTheme} from './theme_switch.js';
import {showToast} from './toast.js';
import {Transcript} from './transcript.js';

const settings = loadSettings();

const view = {
  showList: () => sidebar.show(app.sorted(), app.current.id, app.runningIds()),
  showConversation,
  showModel,
  notify: showToast,
  needKey: askForKey,
};
const app = new App(new ConversationStore(), settings, view);

const sidebar = new Sidebar({
  select: (id) => {
    open(id);
    sidebar.closeIfNarrow();
  },
  rename: (id, title) => app.rename(id, title),
  remove: (id) => {
    app.remove(id);
    byId('new-conversation').focus();
  },
  exportFile,
});
const transcript = new Transcript({
  edit: (message, text) => {
    app.edit(message, text);
    composer.focus();
  },
  regenerate: (message) => {
    app.regenerate(message);
    composer.focus();
  },
});
const composer = new Composer({
  send: (text) => {
    transcript.scrollToEnd();
    app.send(text);
  },
  stop,
  editLast: () => transcript.editLastQuestion(),
});
const settingsDialog = setUpSettings(settings, showCalculator);

function stop() {
  app.stop();
  showConversation();
}

function showConversation() {
  const {current} = app;
  const empty = current.messages.length === 0;
  byId('empty').hidden = !empty;
  transcript.show(current.messages, app.stream);
  setText(byId('title'), current.title);
  document.title = empty ? 'baltoro' : `${current.title} · baltoro`;
  showAddress(empty ? '' : current.id);
  composer.setRunning(app.busy);
  composer.setLine(liveParts(app.stream, performance.now()));
}

// The way back leads through the conversations, but not through an empty or a deleted one.
function showAddress(id) {
  const before = location.hash.slice(1);
  if (before === id) return;
  const stays = app.conversations.some((c) => c.id === before);
  history[stays ? 'pushState' : 'replaceState'](null, '', id === '' ? location.pathname : `#${id}`);
}

function liveParts(stream, now) {
  if (!stream) return [];
  const waiting = stream.waitingMs(now);
  return waiting === null ? statsParts(stream.stats(now)) :
                            [`waiting for the first token, ${duration(waiting)}`];
}

function showModel() {
  setText(byId('model'), app.model ?? '');
  const error = app.connectionError;
  byId('connection').hidden = error === null;
  byId('connection').classList.toggle('loading', error?.loading ?? false);
  byId('reconnect').hidden = error?.loading ?? false;
  setText(byId('connection-text'), error?.message ?? '');
  if (error && !error.loading) announce(error.message);
  byId('suggestions')
      .replaceChildren(...suggestionsFor(app.model).map(
          ({text, calculator = false}) =>
              el('button.suggestion', {
                type: 'button',
                onclick: () => {
                  if (calculator) setCalculator(true);
                  app.send(text);
                  composer.focus();
                }
              },
                 text)));
}

function showCalculator() {
  byId('calculator').setAttribute('aria-checked', String(settings.calculator));
}

function setCalculator(on) {
  settings.calculator = on;
  saveSettings(settings);
  showCalculator();
}

function open(id) {
  transcript.scrollToEnd();
  app.select(id);
}

function startNew() {
  open(null);
  sidebar.closeIfNarrow();
  composer.focus();
}

function exportFile(id) {
  const {name, text} = app.exported(id);
  const url = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
  el('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function setUpButtons() {
  byId('new-conversation').prepend(icon('plus'));
  byId('new-conversation').addEventListener('click', startNew);
  byId('toggle-sidebar').append(icon('menu'));
  byId('open-settings').append(icon('gear'));
  byId('open-settings').addEventListener('click', settingsDialog.open);
  byId('close-settings').append(icon('close'));
  byId('to-end').append(icon('down'));
  byId('calculator').prepend(icon('tool'));
  byId('calculator').addEventListener('click', () => setCalculator(!settings.calculator));
  byId('reconnect').addEventListener('click', () => app.connect());
}

setUpButtons();
setUpTheme(byId('theme'), document.querySelectorAll('input[name=theme]'));
setUpKeyDialog();
showCalculator();
setUpShortcuts({
  'stop': () => app.busy && stop(),
  'new': startNew,
  'regenerate': () => app.regenerate(),
  'focus': () => composer.focus(),
  'list': () => sidebar.toggle(),
  'settings': settingsDialog.open,
});
// Clocks go on while nothing comes.
setInterval(() => app.busy && showConversation(), 500);
addEventListener('popstate', () => open(location.hash.slice(1)));
await app.start(location.hash.slice(1));
composer.focus();
