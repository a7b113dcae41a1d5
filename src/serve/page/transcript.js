// The messages of a conversation, from top to bottom.
import {AnswerView} from './answer_view.js';
import {byId} from './dom.js';
import {QuestionView} from './question_view.js';

// Runs of messages that one view shows: one of the user's, or all of an answer.
function groupsOf(messages) {
  const groups = [];
  for (const message of messages) {
    if (message.role === 'user')
      groups.push({kind: 'question', messages: [message]});
    else if (groups.at(-1)?.kind === 'answer')
      groups.at(-1).messages.push(message);
    else
      groups.push({kind: 'answer', messages: [message]});
  }
  return groups;
}

// Pixels from the end within which the reader is taken to follow it.
const kNearEnd = 48;

export class Transcript {
  #handlers;
  #list = byId('transcript');
  #scroller = byId('scroller');
  #toEnd = byId('to-end');
  #views = [];  // {first: message, view}
  #following = true;

  // handlers: edit(message, text), regenerate(message).
  constructor(handlers) {
    this.#handlers = handlers;
    this.#scroller.addEventListener('scroll', () => this.#noteScroll(), {passive: true});
    this.#toEnd.addEventListener('click', () => this.scrollToEnd());
    new ResizeObserver(() => this.#follow()).observe(this.#list);
  }

  #noteScroll() {
    const {scrollTop, scrollHeight, clientHeight} = this.#scroller;
    this.#following = scrollHeight - scrollTop - clientHeight < kNearEnd;
    this.#toEnd.hidden = this.#following;
  }

  #follow() {
    if (this.#following)
      this.#scroller.scrollTop = this.#scroller.scrollHeight;
    else
      this.#noteScroll();
  }

  scrollToEnd() {
    this.#following = true;
    this.#toEnd.hidden = true;
    this.#follow();
  }

  // Brings the page to `messages`; `stream` fills the last of them, or is null. Views whose
  // messages are still there stay.
  show(messages, stream) {
    const groups = groupsOf(messages);
    let same = 0;
    while (same < groups.length && this.#views[same]?.first === groups[same].messages[0]) same++;
    for (const {view} of this.#views.splice(same)) view.node.remove();
    groups.forEach((group, i) => {
      if (i >= this.#views.length) this.#append(group);
      this.#views[i].view.update(group.messages, {stream: i === groups.length - 1 ? stream : null});
    });
    this.#follow();
  }

  #append({kind, messages}) {
    const view = kind === 'question' ? new QuestionView(messages[0], this.#handlers) :
                                       new AnswerView(this.#handlers);
    this.#views.push({first: messages[0], view});
    this.#list.append(view.node);
  }

  editLastQuestion() {
    this.#views.findLast(({view}) => view instanceof QuestionView)?.view.edit();
  }
}
