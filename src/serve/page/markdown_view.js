// An element that follows a growing Markdown text. Blocks that have not changed stay as they are,
// so selection, scroll positions and highlighting outlive the stream, and only the end is parsed
// anew.
import {elementsOf, parse, prepared, setLevels} from './markdown.js';

// Blocks at the end of a growing text that what follows may still change.
const kUnsettled = 2;

function spoken(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.data;
  return node.dataset?.spoken ?? Array.from(node.childNodes, spoken).join('');
}

function looksAlike(a, b) {
  return a.type === b.type && a.raw === b.raw && a.level === b.level;
}

export class MarkdownView {
  #root;
  #text = null;
  #complete = false;
  #prepared = '';
  #blocks = [];  // {token, end: behind it in #prepared, nodes}

  constructor(root) {
    this.#root = root;
  }

  // `complete`: nothing more will come.
  update(text, complete) {
    if (text === this.#text && complete === this.#complete) return;
    const next = prepared(text);
    const kept = complete ? [] : this.#settled(next);
    const blocks = [...kept];
    let end = kept.at(-1)?.end ?? 0;
    const tokens = parse(next.slice(end));
    for (const token of tokens) {
      end += token.raw.length;
      if (token.type !== 'space' && token.type !== 'def') blocks.push({token, end, nodes: null});
    }
    setLevels(blocks.map(({token}) => token));
    // A definition at the end may make links of what was text before.
    this.#show(blocks, Object.keys(tokens.links).length === 0);
    this.#text = text;
    this.#complete = complete;
    this.#prepared = next;
  }

  // The blocks that a text which goes on as `next` leaves as they are.
  #settled(next) {
    const kept = this.#blocks.slice(0, -kUnsettled);
    const end = kept.at(-1)?.end ?? 0;
    return next.startsWith(this.#prepared.slice(0, end)) ? kept : [];
  }

  #show(blocks, keep) {
    let same = 0;
    while (keep && same < Math.min(blocks.length, this.#blocks.length) &&
           looksAlike(blocks[same].token, this.#blocks[same].token)) {
      blocks[same].nodes = this.#blocks[same].nodes;
      same++;
    }
    for (const {nodes} of this.#blocks.slice(same)) nodes.forEach((node) => node.remove());
    for (const made of blocks.slice(same)) {
      made.nodes = elementsOf(made.token);
      this.#root.append(...made.nodes);
    }
    this.#blocks = blocks;
  }

  get count() {
    return this.#blocks.length;
  }

  // What a block says, for a reader who listens.
  textOf(index) {
    return this.#blocks[index].nodes.map(spoken).join(' ');
  }
}
