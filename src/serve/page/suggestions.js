// First messages to try, for an empty conversation.

// The small model that ships with baltoro knows little; these it was trained for.
const kStory = [
  {text: 'Tell me a story.'},
  {text: 'What is 17 * 23?', calculator: true},
  {text: 'What can you do?'},
];
const kGeneral = [
  {text: 'Explain the delta rule of linear attention, with its recurrence.'},
  {text: 'Write a C++ function that reverses the words of a line, and test it.'},
  {text: 'What is (1234.5 - 67.8) * 90 / 7?', calculator: true},
];

// `model`: its name, or null while it is not known.
export function suggestionsFor(model) {
  if (model === null) return [];
  return /story/i.test(model) ? kStory : kGeneral;
}
