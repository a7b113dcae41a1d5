// The state of the page and what can be done with it. Several conversations may be answered at
// once; one is shown.
import {listModels, loadedShare} from './api.js';
import {addUserMessage, dropAnswer, editUserMessage, exportedConversation, lastUserIndex, newConversation,} from './conversation.js';
import {generate} from './generation.js';
import {newId} from './store.js';

// How often a growing answer is written to the store.
const kSaveEveryMs = 2000;
// A growing answer is drawn at most so often, and less often where drawing takes long: it then
// rests so many times as long.
const kDrawEveryMs = 33;
const kRestPerWork = 3;
const kLoadingPollMs = 1000;

export class App {
  conversations = [];
  current = null;  // one of them, or one that has no message yet and is not among them
  models = [];
  connectionError = null;
  #running = new Map();  // id -> {controller, stream}
  #store;
  #settings;
  #view;
  #drawPending = false;
  #drawAfter = 0;

  // view: showList(), showConversation(), showModel(), notify(text, action), needKey() ->
  // Promise<boolean>.
  constructor(store, settings, view) {
    this.#store = store;
    this.#settings = settings;
    this.#view = view;
  }

  async start(id) {
    await this.#store.open(() => this.#reload());
    this.conversations = await this.#store.all();
    this.select(id);
    await this.connect();
  }

  // Another tab wrote. What has not changed, and what is being answered here, stays as it is.
  async #reload() {
    const stored = await this.#store.all();
    const mine = new Map(this.conversations.map((c) => [c.id, c]));
    const stays = ({id, updatedAt, title}) => {
      const own = mine.get(id);
      return this.#running.has(id) || (own?.updatedAt === updatedAt && own.title === title);
    };
    if (stored.length === mine.size && stored.every(stays)) return;
    const ids = new Set(stored.map(({id}) => id));
    const unsaved = this.conversations.filter(({id}) => this.#running.has(id) && !ids.has(id));
    this.conversations = [...stored.map((c) => stays(c) ? mine.get(c.id) : c), ...unsaved];
    this.current = this.conversations.find(({id}) => id === this.current.id) ?? this.current;
    this.#view.showList();
    this.#view.showConversation();
  }

  async connect() {
    try {
      this.models = await listModels();
      this.connectionError = null;
    } catch (error) {
      this.connectionError = error;
      if (error.status === 401 && await this.#view.needKey()) return this.connect();
      if (error.status === 503) await this.#waitForModel();
    }
    this.#view.showModel();
  }

  // The server listens before its model is loaded.
  async #waitForModel() {
    const share = await loadedShare();
    if (share === null) return;
    this.connectionError = {
      message: `The model is loading: ${Math.floor(100 * share)} %.`,
      loading: true
    };
    setTimeout(() => this.connect(), kLoadingPollMs);
  }

  get model() {
    return this.models[0]?.id ?? null;
  }

  sorted() {
    return this.conversations.toSorted((a, b) => b.updatedAt - a.updatedAt);
  }

  runningIds() {
    return new Set(this.#running.keys());
  }

  // The TurnStream of the conversation that is shown; null where nothing runs.
  get stream() {
    return this.#running.get(this.current.id)?.stream ?? null;
  }

  get busy() {
    return this.#running.has(this.current.id);
  }

  select(id) {
    this.current =
        this.conversations.find((c) => c.id === id) ?? newConversation(newId(), Date.now());
    this.#view.showList();
    this.#view.showConversation();
  }

  send(text) {
    if (this.busy) return;
    if (!this.conversations.includes(this.current)) this.conversations.push(this.current);
    addUserMessage(this.current, text, Date.now());
    this.#answer(this.current);
  }

  edit(message, text) {
    this.stop();
    editUserMessage(this.current, this.current.messages.indexOf(message), text, Date.now());
    this.#answer(this.current);
  }

  // `message`: any of the answer; none: the last answer.
  regenerate(message) {
    const {messages} = this.current;
    const index = message ? messages.indexOf(message) : messages.length - 1;
    if (this.busy || lastUserIndex(this.current) < 0 || index < 0) return;
    dropAnswer(this.current, index, Date.now());
    this.#answer(this.current);
  }

  stop(id = this.current.id) {
    this.#running.get(id)?.controller.abort();
    this.#running.delete(id);
  }

  async #answer(conversation) {
    const run = {controller: new AbortController(), stream: null};
    this.#running.set(conversation.id, run);
    conversation.model = this.model;
    this.#save(conversation);
    this.#view.showList();
    this.#view.showConversation();
    let savedAt = performance.now();
    const {signal} = run.controller;
    await generate({
      conversation,
      settings: this.#settings,
      model: this.model,
      signal,
      onChange: (stream) => {
        // Stopped for another answer: what still arrives of this one is no longer part of the
        // conversation.
        if (signal.aborted && this.#running.get(conversation.id)) return;
        run.stream = stream;
        if (conversation === this.current) this.#draw();
        if (performance.now() - savedAt < kSaveEveryMs) return;
        savedAt = performance.now();
        this.#save(conversation);
      }
    });
    if (this.#running.get(conversation.id) === run) this.#running.delete(conversation.id);
    await this.#finish(conversation, signal);
  }

  async #finish(conversation, signal) {
    if (!this.conversations.includes(conversation)) return;  // deleted meanwhile
    conversation.updatedAt = Date.now();
    this.#save(conversation);
    this.#view.showList();
    if (!this.model) this.connect();
    if (conversation !== this.current) return;
    this.#view.showConversation();
    const refused = conversation.messages.at(-1)?.error?.status === 401;
    if (refused && !signal.aborted && await this.#view.needKey()) {
      this.connect();
      this.regenerate();
    }
  }

  #draw() {
    if (this.#drawPending) return;
    this.#drawPending = true;
    const frame = () => {
      if (performance.now() < this.#drawAfter) return requestAnimationFrame(frame);
      this.#drawPending = false;
      const begin = performance.now();
      this.#view.showConversation();
      const end = performance.now();
      this.#drawAfter = Math.max(begin + kDrawEveryMs, end + kRestPerWork * (end - begin));
    };
    requestAnimationFrame(frame);
  }

  #save(conversation) {
    this.#noteFailure(this.#store.put(conversation));
  }

  #noteFailure(writing) {
    writing.catch((error) => this.#view.notify(`The browser did not keep this: ${error.message}`));
  }

  rename(id, title) {
    const conversation = this.conversations.find((c) => c.id === id);
    Object.assign(conversation, {title, named: true});
    this.#save(conversation);
    this.#view.showList();
    this.#view.showConversation();
  }

  remove(id) {
    this.stop(id);
    const conversation = this.conversations.find((c) => c.id === id);
    this.conversations = this.conversations.filter((c) => c.id !== id);
    this.#noteFailure(this.#store.remove(id));
    if (this.current.id === id) this.select(null);
    this.#view.showList();
    this.#view.notify(`Deleted “${conversation.title}”.`, {
      label: 'Undo',
      run: () => {
        this.conversations.push(conversation);
        this.#save(conversation);
        this.select(id);
      }
    });
  }

  // {name, text} of a file.
  exported(id) {
    const conversation = this.conversations.find((c) => c.id === id);
    const name =
        conversation.title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').slice(0, 50) ||
        'conversation';
    return {
      name: `${name}.json`,
      text:
          `${JSON.stringify(exportedConversation(conversation, this.#settings.system), null, 2)}\n`
    };
  }
}
