// What a conversation is, and how it changes. Messages have the fields of the OpenAI interface; an
// answer carries beside them `stats` (turn_stream.js) and `error`, which stay in the page.

const kTitleLength = 60;

export function newConversation(id, now) {
  return {
    id,
    title: 'New conversation',
    named: false,
    createdAt: now,
    updatedAt: now,
    messages: []
  };
}

export function titleOf(text) {
  const line = text.trim().split('\n', 1)[0].replace(/\s+/g, ' ').trimEnd();
  if (line.length <= kTitleLength) return line || 'New conversation';
  const cut = line.slice(0, kTitleLength);
  const space = cut.lastIndexOf(' ');
  return `${space > kTitleLength / 2 ? cut.slice(0, space) : cut}…`;
}

export function addUserMessage(conversation, text, now) {
  if (!conversation.named && conversation.messages.length === 0) conversation.title = titleOf(text);
  conversation.messages.push({role: 'user', content: text});
  conversation.updatedAt = now;
}

// Puts `text` in the place of the user's message `index` and drops all that followed it.
export function editUserMessage(conversation, index, text, now) {
  if (conversation.messages[index]?.role !== 'user')
    throw new Error(`message ${index} is not the user's`);
  conversation.messages.length = index;
  addUserMessage(conversation, text, now);
}

// Drops the answer that holds message `index`, and what followed it: everything behind the user's
// message before it.
export function dropAnswer(conversation, index, now) {
  const user = conversation.messages.slice(0, index + 1).findLastIndex((m) => m.role === 'user');
  conversation.messages.length = user + 1;
  conversation.updatedAt = now;
}

export function lastUserIndex(conversation) {
  return conversation.messages.findLastIndex((m) => m.role === 'user');
}

function toApi(message) {
  const {role, content} = message;
  if (role === 'tool')
    return {role, tool_call_id: message.tool_call_id, name: message.name, content};
  if (role !== 'assistant') return {role, content};
  const out = {role, content};
  // Sent back, so that the server finds the very tokens that it holds already.
  if (message.reasoning_content) out.reasoning_content = message.reasoning_content;
  if (message.tool_calls?.length > 0) out.tool_calls = message.tool_calls;
  return out;
}

function saysSomething(message) {
  return message.role !== 'assistant' || message.content !== '' || message.reasoning_content ||
      message.tool_calls?.length > 0;
}

// The `messages` of a request, and of an exported file.
export function apiMessages(conversation, systemPrompt = '') {
  const messages = conversation.messages.filter(saysSomething).map(toApi);
  if (systemPrompt.trim() !== '') messages.unshift({role: 'system', content: systemPrompt});
  return messages;
}

export function exportedConversation(conversation, systemPrompt) {
  return {
    title: conversation.title,
    model: conversation.model ?? null,
    created: new Date(conversation.createdAt).toISOString(),
    messages: apiMessages(conversation, systemPrompt),
  };
}
