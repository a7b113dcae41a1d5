// A block of code: its language, a button that copies it, and colours, for which highlight.js is
// loaded when the first block comes.
import {copyButton} from './clipboard.js';
import {el} from './dom.js';

// Beyond this the colours are not worth the time.
const kLongest = 40000;

let libraryLoading = null;

// The library sets a global variable.
function loadLibrary() {
  libraryLoading ??= import('./lib/highlight.js').then(() => {
    const library = globalThis.hljs;
    library.configure({hideUpgradeWarningAcceptNoSupportOrSecurityUpdates: true});
    return library;
  });
  return libraryLoading;
}

const kCharacters = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>'
};

// The library's result is text with three entities and nested spans of one class each. Builds that,
// and nothing else.
export function spansOf(html) {
  const root = document.createDocumentFragment();
  const open = [root];
  for (const [piece, name] of html.matchAll(
           /<span class="([\w -]*)">|<\/span>|&(?:amp|lt|gt);|[^<&]+|[<&]/g)) {
    if (name !== undefined) {
      const span = document.createElement('span');
      span.className = name;
      open.at(-1).append(span);
      open.push(span);
    } else if (piece === '</span>') {
      if (open.length > 1) open.pop();
    } else {
      open.at(-1).append(kCharacters[piece] ?? piece);
    }
  }
  root.normalize();
  return root;
}

export function codeBlock(text, language) {
  const code = el('code', {}, text);
  const lines = text.split('\n').length;
  const label =
      `Code${language ? ` in ${language}` : ''}, ${lines} ${lines === 1 ? 'line' : 'lines'}`;
  const made =
      el('div.code-block', {'data-spoken': label},
         el('div.code-head', {}, el('span.code-language', {}, language || 'text'),
            copyButton('Copy code', () => text, 'Copy')),
         el('pre', {tabindex: '0', role: 'group', 'aria-label': label}, code));
  if (language && text.length <= kLongest) {
    loadLibrary()
        .then((library) => {
          if (library.getLanguage(language))
            code.replaceChildren(spansOf(library.highlight(language, text, true).value));
        })
        .catch(() => {});
  }
  return made;
}
