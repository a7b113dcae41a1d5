// An answer: for each turn of the model its thinking, its text and its calls, then what can be done
// with it.
import {announce, AnswerAnnouncer} from './announcer.js';
import {copyButton} from './clipboard.js';
import {el, icon, iconButton, setText} from './dom.js';
import {duration, statsParts} from './format.js';
import {MarkdownView} from './markdown_view.js';
import {ToolCard} from './tool_card.js';

// Open while the model thinks, folded once it has; a user's own choice stands.
class ThinkingView {
  #label = el('span');
  #text = el('div.prose.thought');
  #markdown = new MarkdownView(this.#text);
  #touched = false;
  node =
      el('details.thinking', {hidden: true},
         el('summary', {
           onclick: () => {
             this.#touched = true;
           }
         },
            icon('chevron'), this.#label),
         this.#text);

  update(message, stats, active) {
    this.node.hidden = !message.reasoning_content;
    if (this.node.hidden) return;
    this.node.classList.toggle('active', active);
    const ms = stats?.thinkingMs ?? null;
    setText(
        this.#label,
        active ? `Thinking… ${Math.floor((ms ?? 0) / 1000)} s` :
            ms === null ? 'Thought' :
                          `Thought for ${duration(ms)}`);
    if (!this.#touched) this.node.open = active;
    this.#markdown.update(message.reasoning_content, !active);
  }
}

class TurnView {
  #thinking = new ThinkingView();
  #text = el('div.prose');
  #markdown = new MarkdownView(this.#text);
  #cards = [];
  #announcer = new AnswerAnnouncer();
  #cardList = el('div.tool-cards');
  node = el('div.turn', {}, this.#thinking.node, this.#text, this.#cardList);

  // `results`: the messages of tools by the id of their call; `stream`: the TurnStream that still
  // fills it, or null.
  update(message, results, stream) {
    const stats = stream ? stream.stats(performance.now()) : message.stats;
    this.#thinking.update(message, stats, stream?.thinking ?? false);
    this.#markdown.update(message.content ?? '', stream === null);
    const calls = message.tool_calls ?? [];
    for (let i = this.#cards.length; i < calls.length; i++) this.#cards.push(new ToolCard());
    this.#cards.splice(calls.length);
    calls.forEach((call, i) => this.#cards[i].update(call, results.get(call.id), stream !== null));
    if (this.#cardList.childElementCount !== calls.length) {
      this.#cardList.replaceChildren(...this.#cards.map((card) => card.node));
    }
  }

  // Reads out what is new and complete.
  speak(complete) {
    this.#announcer.update(this.#markdown.count, (index) => this.#markdown.textOf(index), complete);
  }
}

const kEndings = {
  length: 'Cut off: the limit of tokens was reached.',
  stopped: 'Stopped.',
};

export class AnswerView {
  #turns = new Map();  // message -> TurnView
  #body = el('div');
  #waiting = el('div.waiting', {}, el('span'), el('span'), el('span'));
  #ending = el('p.ending', {hidden: true});
  #error = el('div.answer-error', {role: 'alert', hidden: true});
  #stats = el('span.stats');
  #footer;
  #running = false;
  #handlers;
  #messages = [];
  node;

  constructor(handlers) {
    this.#handlers = handlers;
    this.#footer =
        el('footer.actions', {},
           copyButton(
               'Copy answer',
               () => this.#messages.map((m) => m.role === 'assistant' ? m.content : '')
                         .join('\n\n')
                         .trim()),
           iconButton(
               'again', 'Regenerate answer (Alt+R)', () => handlers.regenerate(this.#messages[0])),
           this.#stats);
    this.node =
        el('article.answer', {'aria-label': 'Answer'}, this.#body, this.#waiting, this.#ending,
           this.#error, this.#footer);
  }

  // `messages`: those of the answer, of the model and of tools in turn.
  update(messages, {stream}) {
    this.#messages = messages;
    const results =
        new Map(messages.filter((m) => m.role === 'tool').map((m) => [m.tool_call_id, m]));
    for (const message of messages.filter((m) => m.role === 'assistant')) {
      const own = stream?.turn === message ? stream : null;
      let view = this.#turns.get(message);
      if (!view) {
        view = new TurnView();
        this.#turns.set(message, view);
        this.#body.append(view.node);
      }
      view.update(message, results, own);
      // An old answer is not news.
      if (stream || this.#running) view.speak(own === null);
    }
    this.#showState(messages.at(-1), stream !== null);
  }

  #showState(last, running) {
    const ending = running ? undefined : kEndings[last.finish_reason];
    if (running && !this.#running) announce('The model answers.');
    if (!running && this.#running && !last.error) announce(ending ?? 'The answer is complete.');
    this.#running = running;
    this.node.setAttribute('aria-busy', String(running));
    this.#waiting.hidden =
        !running || Boolean(last.content || last.reasoning_content || last.tool_calls?.length > 0);
    // A failure with nothing to copy has its own button.
    this.#footer.hidden = running || Boolean(last.error && !last.content);
    setText(this.#stats, last.stats ? statsParts(last.stats).join(' · ') : '');
    this.#ending.hidden = ending === undefined;
    setText(this.#ending, ending ?? '');
    this.#showError(running ? null : last.error);
  }

  #showError(error) {
    if (this.#error.hidden === !error) return;
    this.#error.hidden = !error;
    if (!error) return;
    const wait = error.retryAfter ? ` Try again in ${error.retryAfter} s.` : '';
    this.#error.replaceChildren(
        icon('alert'), el('p', {}, error.message + wait),
        el('button.plain',
           {type: 'button', onclick: () => this.#handlers.regenerate(this.#messages[0])},
           'Try again'));
  }
}
