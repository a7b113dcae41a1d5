// What the tests of both clients ask of models/story, in the words that it was trained with.
export const kQuestion = 'What is 17 + 25?';

export const kCalculator = {
  name: 'calculator',
  description: 'Works out an arithmetic expression.',
  parameters: {
    type: 'object',
    properties: {expression: {type: 'string'}},
    required: ['expression'],
  },
};

export const kClock = {
  name: 'clock',
  description: 'Tells the time.',
  parameters: {type: 'object', properties: {place: {type: 'string'}}},
};

// Works out "17 + 25".
export function calculate({expression}) {
  const found = /^(\d+) ([-+*/]) (\d+)$/.exec(expression);
  if (!found) throw new Error(`not a sum: ${expression}`);
  const [a, b] = [Number(found[1]), Number(found[3])];
  return String({'+': a + b, '-': a - b, '*': a * b, '/': a / b}[found[2]]);
}

// The value of a counter or gauge of /metrics, summed over its labels.
export async function metric({url, key}, name) {
  const response = await fetch(`${url}/metrics`, {headers: {authorization: `Bearer ${key}`}});
  const text = await response.text();
  const lines = text.split('\n').filter((line) => line.split(/[ {]/)[0] === name);
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

// Polls until `done` gives true; false after ten seconds.
export async function eventually(done) {
  const end = Date.now() + 10000;
  while (Date.now() < end) {
    if (await done()) return true;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return false;
}
