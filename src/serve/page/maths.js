// Maths in Markdown: $…$ and \(…\) in a line, $$…$$ and \[…\] on their own. KaTeX, which draws it
// and writes MathML beside it for those who listen, is loaded when the first formula comes.
import {el} from './dom.js';

// A dollar opens maths only where it stands before something and its partner behind something, and
// no digit follows: "$5 and $10" stays text.
const kInlineRules = [
  {pattern: /^\$\$([^$]+?)\$\$/, display: true},
  {pattern: /^\\\[([\s\S]+?)\\\]/, display: true},
  {pattern: /^\\\(([\s\S]+?)\\\)/, display: false},
  {
    pattern: /^\$(?![\s$])((?:\\[^\n]|[^$\\\n])*?(?:\\[^\n]|[^$\\\n\s]))\$(?![\d$])/,
    display: false
  },
];
const kBlockRules =
    [/^ {0,3}\$\$([\s\S]+?)\$\$[ \t]*(?:\n|$)/, /^ {0,3}\\\[([\s\S]+?)\\\][ \t]*(?:\n|$)/];

function blockToken(source) {
  for (const pattern of kBlockRules) {
    const match = pattern.exec(source);
    if (match) return {type: 'maths', raw: match[0], tex: match[1].trim(), display: true};
  }
}

function inlineToken(source) {
  for (const {pattern, display} of kInlineRules) {
    const match = pattern.exec(source);
    if (match) return {type: 'maths', raw: match[0], tex: match[1].trim(), display};
  }
}

function startOf(source, pattern) {
  const at = source.search(pattern);
  return at < 0 ? undefined : at;
}

export const kMathExtensions = [
  {
    name: 'blockMaths',
    level: 'block',
    start: (s) => startOf(s, /\n {0,3}(?:\$\$|\\\[)/),
    tokenizer: blockToken
  },
  {name: 'maths', level: 'inline', start: (s) => startOf(s, /\$|\\[([]/), tokenizer: inlineToken},
];

let katexLoading = null;

// The library sets a global variable; its style sheet brings its fonts.
function loadKatex() {
  katexLoading ??=
      new Promise((resolve, reject) => {
        const style =
            el('link', {rel: 'stylesheet', href: new URL('lib/katex.css', import.meta.url)});
        style.addEventListener('load', resolve);
        style.addEventListener('error', reject);
        document.head.append(style);
      })
          .then(() => import('./lib/katex.js'))
          .then(() => globalThis.katex);
  return katexLoading;
}

// The policy of the page refuses style attributes, but not styles that a script sets one by one, as
// KaTeX does but for a few elements. Those wait under another name.
function deferStyles(node) {
  if (node.attributes?.style) {
    node.attributes['data-style'] = node.attributes.style;
    delete node.attributes.style;
  }
  node.children?.forEach(deferStyles);
}

function render(katex, tex, display) {
  // maxSize is in em, maxExpand in macro steps: what a formula may cost.
  const tree = katex.__renderToDomTree(tex, {
    displayMode: display,
    throwOnError: true,
    strict: 'ignore',
    trust: false,
    maxSize: 40,
    maxExpand: 500,
  });
  deferStyles(tree);
  const made = tree.toNode();
  for (const node of made.querySelectorAll('[data-style]')) {
    node.style.cssText = node.dataset.style;
    delete node.dataset.style;
  }
  return made;
}

// Shows the source until the library is there, and where it finds fault with it.
export function mathElement(tex, display) {
  const made =
      el(display ? 'div.maths.display' : 'span.maths', {'data-spoken': tex}, el('code', {}, tex));
  if (display) {
    made.tabIndex = 0;
    made.setAttribute('role', 'group');
    made.setAttribute('aria-label', 'Formula');
  }
  loadKatex().then((katex) => {
    try {
      made.replaceChildren(render(katex, tex, display));
    } catch (error) {
      made.title = error.message;
    }
  }, () => {});
  return made;
}
