// Makes elements. The page sets no HTML from text anywhere, and its policy (page.cc) forbids the
// browser to.

// el('button.icon', {type: 'button', onclick: f}, 'text', child): class names behind the dots; on*
// are listeners, false and null leave an attribute out, true sets it empty.
export function el(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split('.');
  const node = document.createElement(tag);
  if (classes.length > 0) node.className = classes.join(' ');
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith('on'))
      node.addEventListener(key.slice(2), value);
    else
      node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function byId(id) {
  return document.getElementById(id);
}

// Replaces the children only where they differ, so that focus and selection outlive an update.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const kSvg = 'http://www.w3.org/2000/svg';

// Outlines in a square of 20.
const kIcons = {
  plus: 'M10 4v12M4 10h12',
  menu: 'M3 5.5h14M3 10h14M3 14.5h14',
  gear: 'M4 6h7m4 0h1M4 14h1m4 0h7M13 4v4M7 12v4',
  more:
      'M4.5 10a.5.5 0 1 0 1 0 .5.5 0 0 0-1 0zM9.5 10a.5.5 0 1 0 1 0 .5.5 0 0 0-1 0zM14.5 10a.5.5 0 1 0 1 0 .5.5 0 0 0-1 0z',
  copy: 'M7.5 7.5h8v8h-8zM12.5 7.5v-3h-8v8h3',
  check: 'M4 10.5l4 4 8-9',
  edit: 'M4 16l.8-3.4L13 4.400l2.6 2.6-8.2 8.200zM11.5 5.900l2.6 2.6',
  again: 'M15.5 10a5.5 5.5 0 1 1-1.6-3.900L15.5 7.700M15.5 4v3.700h-3.7',
  send: 'M10 16V4.500M5 9.500l5-5 5 5',
  down: 'M10 4v11.500M5 10.500l5 5 5-5',
  close: 'M5 5l10 10M15 5L5 15',
  trash: 'M4 6h12M8 6V4h4v2M5.5 6l.7 10h7.600l.7-10M8.5 9v4.500M11.5 9v4.5',
  save: 'M10 3.500v9M6.5 9l3.5 3.500L13.5 9M4 16.500h12',
  sun:
      'M10 6.500a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 2v1.500M10 16.500V18M2 10h1.500M16.5 10H18M4.3 4.300l1.1 1.1' +
      'M14.6 14.600l1.1 1.100M4.3 15.700l1.1-1.100M14.6 5.400l1.1-1.1',
  moon: 'M16 11.800A6.5 6.5 0 0 1 8.2 4a6.5 6.5 0 1 0 7.8 7.800z',
  tool: 'M5.5 3h9v14h-9zM8 6h4M8 10h.01M10 10h.01M12 10h.01M8 13h.01M10 13h.01M12 13h.01',
  chevron: 'M7.5 5l5 5-5 5',
  alert: 'M10 3l7.5 13.500h-15zM10 8.500v3.500M10 14.200h.01',
};

export function icon(name) {
  const svg = document.createElementNS(kSvg, 'svg');
  svg.setAttribute('viewBox', '0 0 20 20');
  svg.setAttribute('aria-hidden', 'true');
  svg.setAttribute('class', 'icon');
  const path = document.createElementNS(kSvg, 'path');
  path.setAttribute('d', kIcons[name]);
  svg.append(path);
  return svg;
}

// A button that shows only a picture: its label is read aloud, and shown while the pointer rests on
// it.
export function iconButton(name, label, onclick, attributes = {}) {
  return el(
      'button.icon-button',
      {type: 'button', 'aria-label': label, title: label, onclick, ...attributes}, icon(name));
}
