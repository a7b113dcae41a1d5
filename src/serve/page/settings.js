// What the user can set, where it is kept, and how it becomes a request. An empty field leaves the
// choice to the model.

export const kFields = {
  temperature: {
    label: 'Temperature',
    min: 0,
    max: 2,
    step: 'any',
    hint: '0 always takes the likeliest token'
  },
  top_p: {
    label: 'Top p',
    min: 0,
    above: true,
    max: 1,
    step: 'any',
    hint: 'Only the likeliest tokens with this share'
  },
  min_p: {
    label: 'Min p',
    min: 0,
    max: 1,
    step: 'any',
    hint: 'Nothing below this share of the likeliest'
  },
  max_tokens: {label: 'Max tokens', min: 1, max: 1e9, step: 1, hint: 'Where an answer is cut off'},
  seed: {
    label: 'Seed',
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    step: 1,
    hint: 'The same seed, the same answer'
  },
};

export const kDefaults = Object.freeze({
  system: '',
  temperature: '',
  top_p: '',
  min_p: '',
  max_tokens: '',
  seed: '',
  reasoning_effort: '',
  calculator: false,
});

// Null, or what is wrong with the text of a field.
export function fieldError(name, text) {
  if (text.trim() === '') return null;
  const {label, min, max, step, above = false} = kFields[name];
  const value = Number(text);
  const fits = above ? value > min && value <= max : value >= min && value <= max;
  if (fits && (step !== 1 || Number.isInteger(value))) return null;
  const kind = step === 1 ? 'a whole number' : 'a number';
  if (max > 1e6) return `${label} is ${kind}, ${min} or more`;
  return above ? `${label} is ${kind} above ${min}, at most ${max}` :
                 `${label} is ${kind} from ${min} to ${max}`;
}

// The fields of a request that the settings decide. A field that is wrong is left out, like an
// empty one.
export function requestFields(settings, tools) {
  const out = {};
  for (const name of Object.keys(kFields)) {
    const text = settings[name];
    if (text.trim() !== '' && fieldError(name, text) === null) out[name] = Number(text);
  }
  if (settings.reasoning_effort !== '') out.reasoning_effort = settings.reasoning_effort;
  if (settings.calculator) out.tools = tools;
  return out;
}

const kPrefix = 'baltoro.';

// Where the browser keeps nothing (private windows, blocked storage), settings last as long as the
// page.
export function readLocal(key, fallback) {
  try {
    return JSON.parse(localStorage.getItem(kPrefix + key)) ?? fallback;
  } catch {
    return fallback;
  }
}

export function writeLocal(key, value) {
  try {
    localStorage.setItem(kPrefix + key, JSON.stringify(value));
  } catch {
    // As above.
  }
}

export function loadSettings() {
  const stored = readLocal('settings', {});
  const settings = {...kDefaults};
  for (const [name, value] of Object.entries(kDefaults)) {
    if (typeof stored[name] === typeof value) settings[name] = stored[name];
  }
  return settings;
}

export function saveSettings(settings) {
  writeLocal('settings', settings);
}
