// Conversations, kept in the browser (IndexedDB). Where that is refused, they last as long as the
// page.

const kDatabase = 'baltoro';
const kTable = 'conversations';

function settled(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function openDatabase() {
  const request = indexedDB.open(kDatabase, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(kTable, {keyPath: 'id'});
  return settled(request);
}

export class ConversationStore {
  #database = null;
  #channel = new BroadcastChannel('baltoro.conversations');
  persistent = false;

  // `onForeignChange` is called when another tab has written or removed something.
  async open(onForeignChange) {
    try {
      this.#database = await openDatabase();
      this.persistent = true;
    } catch (error) {
      console.warn('conversations are not kept:', error);
    }
    this.#channel.onmessage = () => onForeignChange();
  }

  #table(mode) {
    return this.#database.transaction(kTable, mode).objectStore(kTable);
  }

  async all() {
    return this.#database ? settled(this.#table('readonly').getAll()) : [];
  }

  async put(conversation) {
    if (!this.#database) return;
    await settled(this.#table('readwrite').put(conversation));
    this.#channel.postMessage('changed');
  }

  async remove(id) {
    if (!this.#database) return;
    await settled(this.#table('readwrite').delete(id));
    this.#channel.postMessage('changed');
  }
}

// crypto.randomUUID exists only on https and on this machine.
export function newId() {
  return Array
      .from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, '0'))
      .join('');
}
