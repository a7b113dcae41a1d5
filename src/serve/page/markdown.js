// Markdown to elements. The parser (marked) yields tokens, and each kind of token that is known
// here becomes an element of ours: no HTML of the text is ever parsed, so nothing in it can act.
import {codeBlock} from './code_block.js';
import {el} from './dom.js';
import {decodeEntities} from './entities.js';
import {marked} from './lib/marked.js';
import {kMathExtensions, mathElement} from './maths.js';

marked.use({
  gfm: true,
  breaks: true,
  mangle: false,
  extensions: kMathExtensions,
  // HTML is text.
  tokenizer: {html: () => undefined, tag: () => undefined},
});

// The parser makes spaces of tabs at the beginning of lines, in code too, where a Makefile needs
// them. There this character, which no text has, stands for them meanwhile.
const kTab = '\ufdd0';

function keepTabs(text) {
  let fence = null;
  return text.split('\n')
      .map((line) => {
        const mark = /^\s*(`{3,}|~{3,})(.*)/.exec(line);
        if (fence === null) {
          if (mark) fence = mark[1];
          return line;
        }
        if (mark && mark[1].startsWith(fence) && mark[2].trim() === '') fence = null;
        return line.replaceAll('\t', kTab);
      })
      .join('\n');
}

// Gives headings levels below the page's own, without gaps, whatever number of # the text begins
// with.
export function setLevels(tokens) {
  const above = [0];
  for (const token of tokens) {
    if (token.type !== 'heading') continue;
    while (above.length > 1 && above.at(-1) >= token.depth) above.pop();
    above.push(token.depth);
    token.level = Math.min(6, above.length);
  }
}

// The text as the parser takes it: the `raw` of the tokens of parse() are its pieces, one behind
// the other.
export function prepared(text) {
  return keepTabs(text.replace(/\r\n?/g, '\n'))
      .replace(/^( *)(\t+)/gm, (_, blanks, tabs) => blanks + '    '.repeat(tabs.length));
}

// Tokens of blocks. `tokens.links` are the addresses that the text defines for its links.
export function parse(preparedText) {
  return marked.lexer(preparedText);
}

const kSafeLink = /^(https?:\/\/|mailto:)/i;

// The address of a link that may be followed, or null.
export function safeHref(href) {
  const address = decodeEntities(href).replace(/[\u0000-\u0020]/g, '');
  return kSafeLink.test(address) && URL.canParse(address) ? address : null;
}

function link(href, children) {
  const address = safeHref(href);
  if (address === null)
    return el('span.dead-link', {title: 'This kind of link is not followed'}, ...children);
  return el('a', {href: address, target: '_blank', rel: 'noopener noreferrer'}, ...children);
}

// marked leaves `raw` as it was written, and escapes `text`.
function unescaped(text) {
  return text.replace(
      /&(lt|gt|quot|#39|amp);/g,
      (_, name) => ({lt: '<', gt: '>', quot: '"', '#39': '\'', amp: '&'})[name]);
}

const kInline = {
  text: (t) => t.tokens ? inline(t.tokens) : [decodeEntities(t.raw)],
  escape: (t) => [t.raw.slice(1)],
  html: (t) => [t.raw],
  strong: (t) => [el('strong', {}, ...inline(t.tokens))],
  em: (t) => [el('em', {}, ...inline(t.tokens))],
  del: (t) => [el('del', {}, ...inline(t.tokens))],
  codespan: (t) => [el('code', {}, unescaped(t.text))],
  br: () => [el('br')],
  link: (t) => [link(t.href, inline(t.tokens))],
  // Loading a picture would tell its host who reads this.
  image: (t) => [link(t.href, [`image: ${decodeEntities(unescaped(t.text)) || t.href}`])],
  maths: (t) => [mathElement(t.tex, t.display)],
};

function inline(tokens = []) {
  return tokens.flatMap((token) => kInline[token.type]?.(token) ?? [token.raw]);
}

function cell(tag, align, tokens) {
  return el(
      align ? `${tag}.align-${align}` : tag, tag === 'th' ? {scope: 'col'} : {}, ...inline(tokens));
}

function table(t) {
  const head = el('tr', {}, ...t.header.map((h, i) => cell('th', t.align[i], h.tokens)));
  const body =
      t.rows.map((row) => el('tr', {}, ...row.map((c, i) => cell('td', t.align[i], c.tokens))));
  return el(
      'div.table-scroll', {tabindex: '0', role: 'group', 'aria-label': 'Table'},
      el('table', {}, el('thead', {}, head), el('tbody', {}, ...body)));
}

function listItem(item) {
  const box = item.task ? el('input', {
    type: 'checkbox',
    disabled: true,
    checked: item.checked,
    'aria-label': item.checked ? 'done' : 'to do'
  }) :
                          null;
  return el(item.task ? 'li.task' : 'li', {}, box, ...item.tokens.flatMap(block));
}

function list(t) {
  return el(
      t.ordered ? 'ol' : 'ul', t.ordered && t.start !== 1 ? {start: t.start} : {},
      ...t.items.map(listItem));
}

const kBlock = {
  // Inside of another block a heading is no part of the outline.
  heading: (t) => [el(
      t.level ? `h${t.level}.level-${t.depth}` : `p.level-${t.depth}`, {}, ...inline(t.tokens))],
  paragraph: (t) => [el('p', {}, ...inline(t.tokens))],
  text: (t) => t.tokens ? inline(t.tokens) : [decodeEntities(t.raw)],
  code:
      (t) => [codeBlock(t.text.replaceAll(kTab, '\t'), (t.lang ?? '').trim().split(/[\s{,:]/)[0])],
  blockquote: (t) => [el('blockquote', {}, ...t.tokens.flatMap(block))],
  list: (t) => [list(t)],
  table: (t) => [table(t)],
  hr: () => [el('hr')],
  maths: (t) => [mathElement(t.tex, true)],
  space: () => [],
  def: () => [],
};

function block(token) {
  return kBlock[token.type]?.(token) ?? [el('p', {}, token.raw)];
}

// The elements of a block that stands by itself; none for blank lines and definitions of links.
export function elementsOf(token) {
  return token.type === 'text' ? [el('p', {}, ...block(token))] : block(token);
}
